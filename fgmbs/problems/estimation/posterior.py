"""What follows from an estimate: accelerations, bands, and how far every residual could have been met."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.graph.places import over_time
from fgmbs.graph.recordings import JointGraph
from fgmbs.graph.time_graph import Look, TimeGraph, Unknowns
from fgmbs.linear import METHODS, LeastSquares, Marginals
from fgmbs.linear.leverage import leverages
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.problems.estimation.likelihood import evidence
from fgmbs.typing import Scalar


class FactorRows(NamedTuple):
    """The rows of one factor at all its places."""

    residual: Float[Array, "*recordings places rows"]
    """Whitened, before a robust loss."""
    weight: Float[Array, "*recordings places rows"]
    """Weight of a row that a robust loss leaves; 0 for rows that are masked."""
    leverage: Float[Array, "*recordings places rows"]
    scale: Float[Array, "*recordings places rows"]
    """Inverse of the standard deviation where that varies with time, relative to the factor's noise; 0 of none."""


class Survey(NamedTuple):
    """What the linearized problem says of an estimate."""

    marginals: Marginals
    influence: Float[Array, " p"]
    """Norm of the change of all residuals but the priors' by each of θ, steps staying where they are."""
    information: Float[Array, "p p"]
    """Inverse of the covariance of θ, finite also where that is not: the Schur complement of θ."""
    log_likelihood: Scalar
    factors: tuple[FactorRows, ...]
    """Of all factors but those of θ alone."""


class Derived(NamedTuple):
    """What is reported of an estimate besides the estimate itself and its survey."""

    ddq: Float[Array, "*recordings steps nv"]
    lambda_: Float[Array, "*recordings steps m"]
    ddq_std: Float[Array, "*recordings steps nv"]
    lambda_std: Float[Array, "*recordings steps m"]
    disturbance: Float[Array, "*recordings steps nv"]
    """Generalized forces in all directions that have a memory; 0 without."""
    tangents: Float[Array, "*recordings steps told columns"]
    """∂x/∂δ, `disturbance` in the place of such forces in the metric of the mass matrix, and where numbers of the
    mechanism are unknown ∂x/∂θ behind it."""
    covariance: Float[Array, "*recordings steps columns columns"]
    """Of (δ, θ), or of δ alone."""


def survey(graph: TimeGraph | JointGraph, x: Unknowns, look: Look) -> Survey:
    """The survey of an estimate x of all steps, from what was seen there, or one step of the solver before."""
    system, _, residuals, _ = look
    factorization = METHODS["sqrt"](system, *graph.zeros(x))
    marginals = factorization.marginals()
    U, _ = factorization.factor.of_globals()
    lever = leverages(system, marginals)
    timed = [None if factor.scope == "global" else r for factor, r in zip(graph.factors, residuals, strict=True)]
    of_factors = graph.factors, timed, lever.step, lever.pair
    rows = eqx.filter_vmap(_rows)(*of_factors) if system.joint else _rows(*of_factors)
    return Survey(marginals, influence_of(system), U.T @ U, evidence(graph, look, factorization), rows)


def influence_of(system: LeastSquares) -> Float[Array, " p"]:
    """Change of all residuals by each of θ, all steps being held."""
    arrows = (system.initial_arrow, system.step_arrow, system.pair_arrow)
    return jnp.sqrt(sum(jnp.sum(arrow**2, axis=tuple(range(arrow.ndim - 1))) for arrow in arrows))


def _rows(factors, residuals, of_steps, of_intervals) -> tuple[FactorRows, ...]:
    """The rows of all factors over time."""
    rows, taken = [], {"step": 0, "interval": 0}
    for factor, r in zip(factors, residuals, strict=True):
        if factor.scope == "global":
            continue
        start = taken[factor.scope]
        taken[factor.scope] += r.shape[-1]
        of = {"step": of_steps, "interval": of_intervals}[factor.scope]
        scale = jnp.ones_like(r)
        if factor.weights is not None:
            weights = factor.weights if factor.scope == "step" else factor.weights[1:]
            # Of a whitening matrix the diagonal tells whether it is there.
            scale = jnp.diagonal(weights, axis1=-2, axis2=-1) if weights.ndim == 3 else weights
        active = scale != 0
        squares = factor.squares(r)
        weight = jnp.asarray(1.0 if factor.loss is None else factor.loss.weight(squares)) * jnp.ones_like(squares)
        weight = jnp.repeat(weight, r.shape[-1] // weight.shape[-1], axis=-1)
        places = (r, weight * active, of[..., start : start + r.shape[-1]], scale)
        rows.append(FactorRows(*(part.reshape(-1, r.shape[-1]) for part in places)))
    return tuple(rows)


def derived(model: EstimationModel, x: Unknowns, data: StepData, covariance: Array) -> Derived:
    """What follows from an estimate x of all steps with these covariances of their local coordinates."""

    def of_one(model, steps, data, covariance):
        E = over_time(lambda x_k, t: model.tangents(x_k, x.globals, t), steps, data.times)
        bands = _all_bands(model, Unknowns(steps, x.globals), data, E, covariance)
        n, nv = model.mechanism.n, model.mechanism.nv
        if model.remembered is None:
            return Derived(*bands, jnp.zeros((len(steps), nv)), E, covariance)
        dof, here = model.chart.dof, model.at(x.globals)
        G = over_time(lambda q, t: here.chart.metric_forces(here.mechanism, q, t)[0], steps[:, :n], data.times)
        told = jnp.concatenate([E[:, :-dof], G @ E[:, -dof:]], axis=1)
        return Derived(*bands, jnp.einsum("kva,ka->kv", G, steps[:, -dof:]), told, covariance)

    return model.each(of_one, x.steps, data, covariance)


def totals(
    rows: FactorRows, width: int, share: Float[Array, "*places rows"] | float = 1.0
) -> tuple[Float[Array, " width"], Float[Array, " width"]]:
    """(χ², its expectation) of every row of a factor with so many for one sample; outliers count as much as the loss
    lets them pull.

    Args:
        rows: The rows of the factor.
        width: Rows of one sample.
        share: Of the variance of each row: how much it counts.
    """
    r, weight, leverage, share = (part.reshape(-1, width) for part in (*rows[:3], share * jnp.ones_like(rows.weight)))
    there = weight > 0
    squares, expected = (weight * jnp.where(there, r, 0.0)) ** 2, jnp.where(there, 1 - leverage, 0.0)
    return jnp.sum(share * squares, axis=0), jnp.sum(share * expected, axis=0)


def _all_bands(model, x, data, E, cov):
    """(ddq, λ) of all steps and their standard deviations."""

    def bands(x_k, t, acting, E, cov):
        accelerations = lambda model, x: model.accelerations(x, t, model.acting(acting, t))
        values, tangents = model.along(x.globals, x_k, E, accelerations)
        std = [jnp.sqrt(jnp.maximum(jnp.einsum("ia,ab,ib->i", J, cov, J), 0.0)) for J in tangents]
        return *values, *std

    return over_time(bands, x.steps, data.times, data.acting, E, cov)
