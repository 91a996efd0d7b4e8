"""What follows from an estimate: accelerations, bands, and how far every residual could have been met."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import stats

from fgmbs.factors.robust import AbstractLoss
from fgmbs.graph import Look, Unknowns, over_time
from fgmbs.inputs import Disturbance, WhiteNoise, wandering
from fgmbs.linear import METHODS
from fgmbs.linear.leverage import leverages
from fgmbs.problems.estimation_graph import SENSORS, EstimationModel, StepData
from fgmbs.problems.smoothed_motion import Group, SensorFit

_NOTHING = 1e-12
"""Leverage of a reading that no motion answers to."""
_LAGS = 10
"""Lags over which residuals are checked to be white."""
_QUANTILES = 10_000
"""Of normal residuals, over which is averaged what a robust loss leaves of them."""


class FactorRows(NamedTuple):
    """The rows of one factor at all its places."""

    residual: Float[Array, "places rows"]
    """Whitened, before a robust loss."""
    weight: Float[Array, "places rows"]
    """Weight of a row that a robust loss leaves; 0 for rows that are masked."""
    leverage: Float[Array, "places rows"]


class Account(NamedTuple):
    """Everything that is told of an estimate besides the estimate itself."""

    ddq: Float[Array, "steps nv"]
    lambda_: Float[Array, "steps m"]
    ddq_std: Float[Array, "steps nv"]
    lambda_std: Float[Array, "steps m"]
    tangents: Float[Array, "steps nx columns"]
    """∂x/∂δ, and where numbers of the mechanism are unknown ∂x/∂θ behind it."""
    covariance: Float[Array, "steps columns columns"]
    """Of (δ, θ), or of δ alone."""
    globals_covariance: Float[Array, "p p"]
    influence: Float[Array, " p"]
    """Norm of the change of all residuals but the priors' by each of θ, steps staying where they are."""
    information: Float[Array, "p p"]
    """Inverse of `globals_covariance`, which is finite also where that is not: the Schur complement of θ."""
    factors: tuple[FactorRows, ...]


@eqx.filter_jit
def look_at(model: EstimationModel, x: Unknowns, data: StepData) -> Look:
    """What is seen at an estimate x of all steps."""
    return model.graph(x, data).look(x)


@eqx.filter_jit
def account(model: EstimationModel, x: Unknowns, data: StepData, look: Look) -> Account:
    """The account of an estimate x of all steps, from what was seen there, or one step of the solver before."""
    graph = model.graph(x, data)
    system, _, residuals, _ = look
    E = graph.tangents(x)  # of x itself: tangents are told beside it
    factorization = METHODS["sqrt"](system, *graph.still(x))
    marginals = factorization.marginals()
    last = factorization.factor.last_pivot[model.local_size :, model.local_size :]
    arrows = (system.initial_arrow, system.step_arrow, system.pair_arrow)
    influence = jnp.sqrt(sum(jnp.sum(arrow**2, axis=tuple(range(arrow.ndim - 1))) for arrow in arrows))
    lever = leverages(system, marginals)

    rows, taken = [], {"step": 0, "interval": 0, "global": 0}
    for factor, r in zip(graph.factors, residuals, strict=True):
        start = taken[factor.scope]
        taken[factor.scope] += r.shape[-1]
        of = {"step": lever.step, "interval": lever.pair, "global": lever.globals}[factor.scope]
        active = jnp.ones_like(r)
        if factor.weights is not None:
            weights = factor.weights if factor.scope == "step" else factor.weights[1:]
            # Of a whitening matrix the diagonal tells whether it is there.
            active = (jnp.diagonal(weights, axis1=-2, axis2=-1) if weights.ndim == 3 else weights) != 0
        squares = factor.squares(r)
        weight = jnp.asarray(1.0 if factor.loss is None else factor.loss.weight(squares)) * jnp.ones_like(squares)
        weight = jnp.repeat(weight, r.shape[-1] // weight.shape[-1], axis=-1)
        places = (r, weight * active, of[..., start : start + r.shape[-1]])
        rows.append(FactorRows(*(part.reshape(-1, r.shape[-1]) for part in places)))

    covariance = model.covariances(marginals)
    ddq, lambda_, ddq_std, lambda_std = _all_bands(model, x, data, E, covariance)
    of_theta = marginals.globals, influence, last @ last.T
    return Account(ddq, lambda_, ddq_std, lambda_std, E, covariance, *of_theta, tuple(rows))


@eqx.filter_jit
def with_covariance(model: EstimationModel, x: Unknowns, data: StepData, account: Account, covariance) -> Account:
    """The account with other covariances of the local coordinates, as those of a fixed-lag smoother."""
    _, _, ddq_std, lambda_std = _all_bands(model, x, data, account.tangents, covariance)
    return account._replace(ddq_std=ddq_std, lambda_std=lambda_std, covariance=covariance)


def _all_bands(model, x, data, E, cov):
    """(ddq, λ) of all steps and their standard deviations."""

    def bands(x_k, t, commands, E, cov):
        accelerations = lambda model, x: model.accelerations(x, t, commands)  # noqa: E731
        values, tangents = model.along(x.globals, x_k, E, accelerations)
        std = [jnp.sqrt(jnp.maximum(jnp.einsum("ia,ab,ib->i", J, cov, J), 0.0)) for J in tangents]
        return *values, *std

    return over_time(bands, x.steps, data.times, data.commands[:, 1], E, cov)


def groups(model: EstimationModel, account: Account, found: frozenset[str]) -> tuple[Group, ...]:
    """Residual groups: of every sensor, of the white forces, of every force with a memory.

    Args:
        model: What was solved.
        account: Its account.
        found: Names of sensors and inputs whose size was found from the data.
    """
    moves, _, *sensors = account.factors[: SENSORS + len(model.sensors)]
    made = []
    for sensor, rows in zip(model.sensors, sensors, strict=True):
        size = float(np.max(np.asarray(sensor.sigma)))
        made.append(_group(sensor.name, "sensor", rows, sensor.rows, size, sensor.name in found, sensor.loss))
    dof, memory = model.chart.dof, wandering(model.inputs)
    white = [force for force in model.inputs if isinstance(force, Disturbance | WhiteNoise)]
    if white:
        name = ", ".join(force.name for force in white)
        size = float(white[0].size) if len(white) == 1 else float("nan")
        part = FactorRows(*(leaf[:, : 2 * dof] for leaf in moves))
        made.append(_group(name, "force", part, 2 * dof, size, any(force.name in found for force in white)))
    for k, force in enumerate(memory):
        part = FactorRows(*(leaf[:, 2 * dof + k, None] for leaf in moves))
        made.append(_group(force.name, "force", part, 1, float(force.size), force.name in found))
    return tuple(made)


def sees(model: EstimationModel, account: Account) -> bool:
    """Whether any sensor reads something that the motion has to do with."""
    sensors = account.factors[SENSORS : SENSORS + len(model.sensors)]
    return any(float(np.max(np.asarray(rows.leverage), initial=0.0)) > _NOTHING for rows in sensors)


def _group(
    name, kind, rows: FactorRows, width: int, size: float, found: bool, loss: AbstractLoss | None = None
) -> Group:
    r, weight, leverage = (np.asarray(part).reshape(-1, width) for part in rows)
    there = weight > 0
    r = weight * np.where(there, r, 0.0)  # an outlier counts as much as the loss lets it pull
    mean, variance = (1.0, 2.0) if loss is None else _passed(loss, width)
    dof = float(np.sum(np.where(there, 1 - leverage, 0.0)))
    chi2 = float(np.sum(r**2)) / mean
    # The distribution of χ² times a number that has this mean and variance.
    scale = variance / mean**2 / 2
    tail = stats.chi2.sf(chi2 / scale, dof / scale) if dof > 0 else np.nan
    correlation, whiteness = _whiteness([r[there[:, k], k] for k in range(width)])
    return Group(
        name, kind, int(np.sum(there)), dof, chi2, size, found, float(2 * min(tail, 1 - tail)), correlation, whiteness
    )


def _passed(loss: AbstractLoss, width: int) -> tuple[float, float]:
    """(mean, variance) per row of the sum of squares that a loss leaves of normal residuals: Huber's proposal 2."""
    s = stats.chi2.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES, width)
    left = np.asarray(loss.weight(jnp.asarray(s))) ** 2 * s
    return float(np.mean(left)) / width, float(np.var(left)) / width


def _whiteness(series: list[np.ndarray]) -> tuple[float, float]:
    """(correlation of neighbours, p-value of Ljung and Box) of series that are looked at together."""
    series = [s - np.mean(s) for s in series if len(s) >= _LAGS and np.std(s) > 0]
    if not series:
        return np.nan, np.nan
    statistic, first = 0.0, []
    for s in series:
        n, total = len(s), np.sum(s**2)
        lags = np.arange(1, min(_LAGS, n - 1) + 1)
        r = np.array([np.sum(s[k:] * s[:-k]) / total for k in lags])
        statistic += n * (n + 2) * np.sum(r**2 / (n - lags))
        first.append(r[0])
    return float(np.mean(first)), float(stats.chi2.sf(statistic, _LAGS * len(series)))


def fits(model: EstimationModel, account: Account, data: StepData, recording: np.ndarray) -> tuple[SensorFit, ...]:
    """What every sensor read and should have read.

    Args:
        recording: Number of the recording of each step.
    """
    made, T, dt = [], len(recording), float(model.dt)
    times = np.asarray(data.times)[:T]
    sensors = account.factors[SENSORS : SENSORS + len(model.sensors)]
    for sensor, samples, rows, on_steps in zip(model.sensors, data.samples, sensors, model.at_steps, strict=True):
        first = 0 if on_steps else 1
        shape = (-1, *samples.mask.shape[1:])
        r = np.asarray(rows.residual).reshape(shape)[: T - first]
        weight = np.asarray(rows.weight).reshape(shape)[: T - first].max(axis=-1)
        values, fractions, mask = (np.asarray(leaf)[first:T] for leaf in samples)
        there = mask > 0
        used = there.any(axis=-1)
        place = np.nonzero(used)[0] + first
        t = times[place] + (fractions[used] - 1) * dt
        normalized = np.where(there, r, np.nan)[used]
        measured = np.where(there, values, np.nan)[used]
        predicted = measured + normalized * np.asarray(sensor.noise_sigma())
        made.append(
            SensorFit(sensor.name, sensor.units, recording[place], t, measured, predicted, normalized, weight[used])
        )
    return tuple(made)
