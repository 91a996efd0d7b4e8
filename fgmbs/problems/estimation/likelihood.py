"""How likely recordings are, given the model and its sizes of noise, and the derivatives of that."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.factors.base import Factor
from fgmbs.factors.transition import transition
from fgmbs.graph.recordings import JointGraph
from fgmbs.graph.time_graph import Look, TimeGraph, Unknowns
from fgmbs.linear import METHODS, Factorization, LeastSquares, Marginals
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.solvers.levenberg_marquardt import response
from fgmbs.typing import Scalar

_ROUNDS = 8
"""In which derivatives of an estimate settle: its weights depend on it a little."""
_FEW = 6
"""Numbers whose slopes are found as fast by sweeps forward, one for each, as by one back."""
_KNOWN = 1e30
"""Information of θ where it is taken as known."""


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

    A transition is the density of the step at its end: its norm is |det ∂r/∂x| by that step, of which the acceleration
    at the end is a part, as in the Onsager–Machlup functional. Exact for a linear graph. Numbers without a prior count
    with the density 1, robust losses as if they were none.

    Args:
        graph: The graph.
        look: What was seen at its solution.
        factorization: Of the system that was seen.
    """
    logs, rows = _normalizations(graph, look)
    volume, of_transitions = _transition_volume(look.system)
    logs, rows = logs + volume, rows + of_transitions
    size = sum(leaf.size for leaf in look.system.zeros())
    constant = 0.5 * math.log(2 * math.pi) * (size - rows)
    return logs + constant - look.cost - 0.5 * factorization.log_determinant()


def _normalizations(graph: TimeGraph | JointGraph, look: Look) -> tuple[Scalar, Scalar]:
    """(logarithm of the determinant of the square-root information of all rows, how many there are), of all factors but
    the transition."""

    def of(factors, residuals, wanted):
        pairs = zip(factors, residuals, strict=True)
        pairs = [(factor, r) for factor, r in pairs if wanted(factor.scope) and factor.residual is not transition]
        logs, rows = zip((jnp.zeros(()), 0), *(_normalization(factor, r) for factor, r in pairs), strict=True)
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


def _transition_volume(system: LeastSquares) -> tuple[Scalar, Array]:
    """(Σ log|det ∂r/∂x| of the transitions by the steps at their ends, how many rows they have)."""
    transitions, there = _transitions(system)
    return jnp.sum(jnp.linalg.slogdet(transitions)[1]), system.step_size * jnp.sum(there).astype(float)


def _transitions(system: LeastSquares) -> tuple[Float[Array, "*places nx nx"], Bool[Array, "*places 1 1"]]:
    """(∂r/∂x of the transitions by the steps at their ends, the identity where there is none, where there is one)."""
    size = system.step_size
    ends = system.pair_end[..., :size, :]  # the transition is the first factor between steps
    there = jnp.any(ends != 0, axis=(-2, -1), keepdims=True)
    return jnp.where(there, ends, jnp.eye(size, dtype=ends.dtype)), there


def slope_of_volume(graph: TimeGraph | JointGraph, x: Unknowns, look: Look) -> Float[Array, " p"]:
    """The slope by θ of what minus the logarithm of its likelihood has besides the cost of the most likely motion.

    The motion moves along with θ, noise stays as it is.

    Of the motion that is most likely with θ, −log p(readings | θ) = cost + ½ log det A − Σ log|det ∂r/∂x|, A being the
    information of the motion and ∂r/∂x that of a transition by the step at its end: how much room there is for motions.
    Where the most likely motion and θ are found together this is left out, and numbers that many unknown forces act
    beside are wrong however long the recording is; damping that is seen by unknown forces alone is found to be 0. Exact
    for a linear graph.

    With J the derivatives of all residuals by the motion and its covariance A⁻¹, d(½ log det A) = ⟨J A⁻¹, dJ⟩: one
    sweep back through J and one solution are enough for all of θ. Of few numbers a sweep forward for each is as fast,
    and compiled in two thirds of the time.

    Args:
        graph: The graph.
        x: Where the cost is least.
        look: What is seen there.
    """
    system, theta, E = look.system, jnp.zeros_like(x.globals), look.tangents
    size, A, factorization = system.step_size, system.information(), _with_known_globals(system)
    weights = _volume_by_jacobian(system, factorization.marginals())
    volume = lambda x: sum(map(jnp.vdot, weights, graph.jacobian(x)))
    moves = E is not None and E.shape[-1] > size

    def along(way):
        pull, _ = A.matvec(graph.zeros(x).steps, way)
        steps, _ = factorization.solve(-pull, theta)
        if E is not None:
            steps = jnp.einsum("...xc,...c->...x", E[..., :size], steps) + (E[..., size:] @ way if moves else 0.0)
        return jax.jvp(volume, (x,), (Unknowns(steps, way),))[1]

    if theta.size <= _FEW:
        return jax.lax.map(along, jnp.eye(theta.size, dtype=theta.dtype))
    by_x = jax.grad(volume)(x)
    steps, slope = by_x.steps, by_x.globals
    if moves:
        slope = slope + jnp.einsum("...xc,...x->c", E[..., size:], steps)
    if E is not None:
        steps = jnp.einsum("...xc,...x->...c", E[..., :size], steps)
    return slope - A.matvec(factorization.solve(steps, theta)[0], theta)[1]


def _volume_by_jacobian(system: LeastSquares, motion: Marginals) -> tuple[Array, ...]:
    """Derivatives of ½ log det A − Σ log|det ∂r/∂x| by (initial_jacobian, step_jacobian, pair_start, pair_end), from
    the covariances of the motion with known θ."""
    steps, pairs = motion.steps, motion.pairs
    initial = jnp.einsum("...rx,...xy->...ry", system.initial_jacobian, steps[..., 0, :, :])
    start = system.pair_start @ steps[..., :-1, :, :] + system.pair_end @ pairs
    end = system.pair_start @ pairs.mT + system.pair_end @ steps[..., 1:, :, :]
    size = system.step_size
    transitions, there = _transitions(system)
    inverses = jnp.where(there, jnp.linalg.inv(transitions), 0.0).mT
    return initial, system.step_jacobian @ steps, start, end.at[..., :size, :].add(-inverses)


def _with_known_globals(system: LeastSquares) -> Factorization:
    steps, theta = system.zeros()
    return METHODS["sqrt"](system, steps, jnp.full_like(theta, _KNOWN))
