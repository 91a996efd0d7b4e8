"""How likely recordings are, given the model and its sizes of noise, and the derivatives of that."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.factors.base import Factor
from fgmbs.graph.recordings import JointGraph
from fgmbs.graph.time_graph import Look, TimeGraph, Unknowns
from fgmbs.linear import Factorization
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.solvers.levenberg_marquardt import response
from fgmbs.typing import Scalar

_ROUNDS = 8
"""In which derivatives of an estimate settle: its weights depend on it a little."""


@eqx.filter_custom_jvp
def settled(x: Unknowns, model: EstimationModel, data: StepData) -> Unknowns:
    """An estimate as a differentiable function of what it was made of.

    Args:
        x: The estimate: the minimum of the cost with the sizes of noise that belong to it.
        model: What was solved.
        data: With these data.
    """
    del model, data
    return x


@settled.def_jvp
def _settled_jvp(primals, tangents):
    # x = S(x, model, data), the minimum of a cost whose noise is that near x: t_x = S_x t_x + S_model t_model + …, and
    # S_x is small.
    x, model, data = primals
    _, t_model, t_data = tangents
    graph = model.graph(x, data)
    tangent = response(graph, x)

    def again(t_x, _):
        _, t_graph = eqx.filter_jvp(EstimationModel.graph, (model, x, data), (t_model, t_x, t_data))
        return tangent(t_graph), None

    t_x, _ = jax.lax.scan(again, jax.tree.map(jnp.zeros_like, x), length=_ROUNDS)
    return x, t_x


def evidence(graph: TimeGraph | JointGraph, look: Look, factorization: Factorization) -> Scalar:
    """log ∫ exp(−cost) over all unknowns by Laplace's method, every factor being normalized.

    Exact for a linear graph. Numbers without a prior count with the density 1, robust losses as if they were none.

    Args:
        graph: The graph.
        look: What was seen at its solution.
        factorization: Of the system that was seen.
    """
    logs, rows = _normalizations(graph, look)
    size = sum(leaf.size for leaf in look.system.zeros())
    constant = 0.5 * math.log(2 * math.pi) * (size - rows)
    return logs + constant - look.cost - 0.5 * factorization.log_determinant()


def _normalizations(graph: TimeGraph | JointGraph, look: Look) -> tuple[Scalar, Scalar]:
    """(logarithm of the determinant of the square-root information of all rows, how many there are)."""

    def of(factors, residuals, wanted):
        pairs = zip(factors, residuals, strict=True)
        found = [_normalization(factor, r) for factor, r in pairs if wanted(factor.scope)]
        logs, rows = zip((jnp.zeros(()), 0), *found, strict=True)
        return sum(logs), jnp.asarray(sum(rows), float)

    if not look.system.joint:
        return of(graph.factors, look.residuals, lambda scope: True)
    over_time = eqx.filter_vmap(lambda factors, residuals: of(factors, residuals, lambda scope: scope != "global"))
    own = [r if f.scope != "global" else None for f, r in zip(graph.factors, look.residuals, strict=True)]
    first = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, graph.factors)
    each, alone = over_time(graph.factors, own), of(first, look.residuals, lambda scope: scope == "global")
    return tuple(jnp.sum(part) + one for part, one in zip(each, alone, strict=True))


def _normalization(factor: Factor, r: Float[Array, "*places rows"]) -> tuple[Scalar, Array | int]:
    """(logarithm of the determinant of the square-root information of all rows, how many there are)."""
    info, W = factor.noise.sqrt_info, factor.weights
    W = W[1:] if W is not None and factor.scope == "interval" else W
    if info.ndim == 2 or (W is not None and W.ndim == 3):
        info = info if info.ndim == 2 else info * jnp.eye(r.shape[-1])
        info = info if W is None else (W if W.ndim == 3 else W[..., None] * jnp.eye(r.shape[-1])) @ info
        there = jnp.any(info != 0, axis=(-2, -1))
        logs = jnp.linalg.slogdet(jnp.where(there[..., None, None], info, jnp.eye(r.shape[-1])))[1]
        places = math.prod(r.shape[:-1]) // max(1, there.size)
        return places * jnp.sum(logs), places * jnp.sum(there) * r.shape[-1]
    info = jnp.broadcast_to(info if W is None else W * info, r.shape)
    there = info != 0
    return jnp.sum(jnp.log(jnp.abs(jnp.where(there, info, 1.0)))), jnp.sum(there)
