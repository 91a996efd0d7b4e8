"""An estimate in words: names, units, statistics of its residuals."""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from fgmbs.errors import ArgumentError
from fgmbs.graph.model import rebuilt
from fgmbs.inputs import AbstractInput, augmented, gains_of, remembered, white
from fgmbs.kinematics.names import listed
from fgmbs.losses import AbstractLoss, left_of_normal
from fgmbs.problems.estimation.graph import SENSORS
from fgmbs.problems.estimation.noise_sizes import with_sizes
from fgmbs.problems.estimation.posterior import FactorRows, Survey
from fgmbs.problems.estimation.unknowns import checked_findable
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import Solution
from fgmbs.problems.smooth.smoothed_motion import Branch, Group, SensorFit, SmoothedMotion
from fgmbs.problems.solving import finish
from fgmbs.sensors.base import AbstractSensor

_NOTHING = 1e-12
"""Leverage of a reading that no motion answers to."""
_OUTLIER = 0.5
"""Weight below which a residual is an outlier."""
_LAGS = 10
"""Lags over which residuals are checked to be white."""


@finish.register(SmoothingProblem)
def _finish(
    problem: SmoothingProblem, solution: Solution, *, notes: Sequence[str] = (), throw: bool = True
) -> SmoothedMotion:
    checked_observable(problem, solution)
    result = smoothed_motion(problem, solution, notes)
    if throw:
        result.check()
    return result


def smoothed_motion(problem: SmoothingProblem, solution: Solution, notes: Sequence[str]) -> SmoothedMotion:
    """The solution with names and statistics, whatever it is worth.

    Args:
        problem: What was solved.
        solution: Its solution, of numbers.
        notes: Further remarks for the report.
    """
    at, seen = solution.at, solution.survey
    n, nv = problem.mechanism.n, problem.mechanism.nv
    counts = np.atleast_1d(np.asarray(problem.recording.count)).tolist()

    def together(leaf):
        """The steps of all recordings, one behind the other."""
        parts = np.asarray(leaf) if problem.several else np.asarray(leaf)[None]
        return np.concatenate([part[:count] for part, count in zip(parts, counts, strict=True)])

    theta, free, sizes = solution.x.globals, problem.free, problem.sizes
    values, logs = jax.device_put(free.values(np.asarray(theta))), np.asarray(solution.sizes)
    named = n + nv + len(augmented(problem.inputs))
    q, dq, forces, _ = np.split(together(solution.x.steps), [n, n + nv, named], axis=1)
    derived = jax.tree.map(together, solution.derived)
    free_std = free.deviations(np.asarray(theta), _deviations(seen.marginals.globals))
    sizes_std = sizes.deviations(logs, _deviations(solution.sizes_covariance))
    found = jax.device_put(sizes.named(sizes.values(logs)))
    sensors, inputs = with_sizes(problem.sensors, problem.inputs, found)
    shared = free.put_back((problem.mechanism, {part.name: part for part in (*sensors, *inputs)}))[1]
    sensors, inputs = (tuple(shared[part.name] for part in parts) for parts in (sensors, inputs))
    unknowns = free.named(values) | found
    recording = np.repeat(np.arange(len(counts)), counts)
    gains = np.array([gains_of(inputs, free.of(k).chosen(values)) for k in range(len(counts))])[recording]
    history = np.asarray(at.history)
    return SmoothedMotion(
        mechanism=rebuilt(free.of(0), (problem.mechanism, {}), theta)[0].bare(),
        sensors=sensors,
        inputs=inputs,
        **jax.device_put(
            dict(
                t=together(solution.data.times),
                recording=recording,
                q=q,
                dq=dq,
                ddq=derived.ddq,
                multipliers=derived.lambda_,
                forces=forces,
                disturbance=derived.disturbance,
                commands=gains * together(solution.data.acting),
                tangents=derived.tangents,
                local_covariance=derived.covariance,
                ddq_std=derived.ddq_std,
                multipliers_std=derived.lambda_std,
            )
        ),
        unknowns=unknowns,
        unknowns_std=jax.device_put(free.named(free_std) | sizes.named(sizes_std)),
        free=free,
        given=problem.given,
        sizes=sizes,
        status=solution.status,
        step_status=solution.step_status,
        iterations=at.iterations,
        log_likelihood=seen.log_likelihood,
        cost_history=jax.device_put(history[np.isfinite(history)]),
        groups=_groups(sensors, inputs, problem.chart.dof, seen, frozenset(found)),
        fits=_fits(sensors, problem.at_steps, solution, counts),
        branches=_branches(problem, solution),
        notes=(*notes, *at.search.notes(sizes)),
        solved=None if solution.step_status is not None else (problem, at),
    )


def _deviations(covariance: Float[Array, "p p"]) -> Float[np.ndarray, " p"]:
    return np.sqrt(np.diag(np.asarray(covariance)))


def _branches(problem: SmoothingProblem, solution: Solution) -> tuple[Branch, ...]:
    """The starts of every recording that were compared: first that of the motion, then the most likely ones."""
    starts, made = solution.at.starts, []
    costs = np.atleast_2d(np.asarray(starts.behind))
    places = np.asarray(starts.posed).reshape(*costs.shape, -1)[..., : problem.mechanism.n]
    best = np.atleast_1d(np.asarray(starts.best))
    given = np.atleast_1d(np.asarray(problem.recording.given))
    logs = np.full(costs.shape, np.nan) if solution.log_likelihoods is None else np.asarray(solution.log_likelihoods)
    for number, (cost, log) in enumerate(zip(costs, logs, strict=True)):
        weight = np.exp(log - np.nanmax(log)) if np.any(np.isfinite(log)) else np.full(log.shape, np.nan)
        weight /= np.nansum(weight)
        order = np.lexsort((cost, -np.nan_to_num(weight, nan=-1.0), np.arange(cost.size) != best[number]))
        # Where the way from every start was lost, the motion's own is told, so that it can be doubted.
        compared = np.any(np.isfinite(cost)) or not given[number]
        for k in order:
            if np.isfinite(cost[k]) or (k == best[number] and compared):
                place, own = tuple(map(float, places[number, k])), bool(given[number] and k == 0)
                made.append(Branch(number, place, float(cost[k]), float(weight[k]), own))
    return tuple(made)


def checked_observable(problem: SmoothingProblem, solution: Solution) -> None:
    """Refuses what the readings do not tell.

    Raises:
        ArgumentError: No sensor sees the motion, or nothing tells an unknown number.
    """
    checked_findable(problem.free, solution.x.globals, solution.survey.influence, solution.survey.information)
    of_sensors = solution.survey.factors[SENSORS : SENSORS + len(problem.sensors)]
    if not any(float(np.max(np.asarray(rows.leverage), initial=0.0)) > _NOTHING for rows in of_sensors):
        names = listed(sensor.name for sensor in problem.sensors)
        raise ArgumentError(f"sensors: nothing is observable: what {names} read does not depend on the motion")


def _groups(
    sensors: Sequence[AbstractSensor], inputs: Sequence[AbstractInput], dof: int, seen: Survey, found: frozenset[str]
) -> tuple[Group, ...]:
    """Residual groups: of every sensor, of the white forces, of every force with a memory (what changes it).

    Args:
        sensors: With the sizes of their noise.
        inputs: With theirs.
        dof: Degrees of freedom of the mechanism.
        seen: What was seen of the solution.
        found: Names of the sizes that were found from the data.
    """
    moves, _, *read = seen.factors[: SENSORS + len(sensors)]
    made = []
    for sensor, rows in zip(sensors, read, strict=True):
        size = float(np.max(np.asarray(sensor.sigma)))
        made.append(
            group_of(
                sensor.name,
                "sensor",
                rows,
                sensor.rows,
                size,
                f"{sensor.name}.sigma" in found,
                sensor.loss,
                sensor.group,
            )
        )
    if alike := white(inputs):
        name = ", ".join(force.name for force in alike)
        size = float(alike[0].size) if len(alike) == 1 else float("nan")
        part = FactorRows(*(leaf[..., : 2 * dof] for leaf in moves))
        made.append(
            group_of(
                name, "force", part, 2 * dof, size, any(f"{force.name}.{force.size_key}" in found for force in alike)
            )
        )
    for k, force in enumerate(augmented(inputs)):
        part = FactorRows(*(leaf[..., 2 * dof + k, None] for leaf in moves))
        is_found = f"{force.name}.{force.size_key}" in found
        made.append(group_of(force.name, "force", part, 1, float(force.size), is_found))
    if (force := remembered(inputs)) is not None:
        part = FactorRows(*(leaf[..., -dof:] for leaf in moves))
        made.append(group_of(force.name, "force", part, dof, float(force.size), f"{force.name}.power" in found))
    return tuple(made)


def group_of(
    name,
    kind,
    rows: FactorRows,
    width: int,
    size: float,
    found: bool,
    loss: AbstractLoss | None = None,
    together: int | None = None,
) -> Group:
    """The group of residuals that these rows are: `width` at one time, so many of which share a loss."""
    r, weight, leverage = (np.asarray(part).reshape(-1, width) for part in rows[:3])
    there, read = weight > 0, np.asarray(rows.scale) != 0
    outliers = float(np.sum(np.asarray(rows.weight)[read] < _OUTLIER) / max(int(np.sum(read)), 1))
    r = weight * np.where(there, r, 0.0)  # an outlier counts as much as the loss lets it pull
    mean, variance = (1.0, 2.0) if loss is None else left_of_normal(loss, together or width)
    dof = float(np.sum(np.where(there, 1 - leverage, 0.0)))
    chi2 = float(np.sum(r**2)) / mean
    # The distribution of χ² times a number that has this mean and variance.
    scale = variance / mean**2 / 2
    tail = special.chdtrc(dof / scale, chi2 / scale) if dof > 0 else np.nan
    correlation, whiteness = _whiteness([r[there[:, k], k] for k in range(width)])
    return Group(
        name=name,
        kind=kind,
        count=int(np.sum(there)),
        dof=dof,
        chi2=chi2,
        size=size,
        found=found,
        p_value=float(2 * min(tail, 1 - tail)),
        correlation=correlation,
        whiteness=whiteness,
        outliers=outliers,
    )


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
    return float(np.mean(first)), float(special.chdtrc(_LAGS * len(series), statistic))


def _fits(
    sensors: Sequence[AbstractSensor], at_steps: Sequence[bool], solution: Solution, counts: Sequence[int]
) -> tuple[SensorFit, ...]:
    """What every sensor read and should have read.

    Args:
        sensors: With the sizes of their noise.
        at_steps: Of each, whether its samples all lie on steps.
        solution: What was found.
        counts: Steps of every recording.
    """
    several = solution.data.times.ndim == 2

    def of_recording(part, number):
        return jax.tree.map(lambda leaf: np.asarray(leaf)[number] if several else np.asarray(leaf), part)

    made = []
    for k, (sensor, on_steps) in enumerate(zip(sensors, at_steps, strict=True)):
        of_sensor = solution.survey.factors[SENSORS + k], solution.data.samples[k], solution.data.times
        columns = []
        for number, T in enumerate(counts):
            rows, samples, times = of_recording(of_sensor, number)
            first, shape = (0 if on_steps else 1), (-1, *samples.mask.shape[1:])
            r = rows.residual.reshape(shape)[: T - first]
            weight = rows.weight.reshape(shape)[: T - first]
            values, fractions, mask, _ = (leaf[first:T] for leaf in samples)
            there = mask > 0
            used = there.any(axis=-1)
            # Of rows that share a loss, those that are not there have none.
            grouped = (*there.shape[:-1], -1, sensor.group)
            weight = weight.reshape(grouped).max(axis=-1)
            weight = np.where(there.reshape(grouped).any(axis=-1), weight, np.inf).min(axis=-1)
            place = np.nonzero(used)[0] + first
            normalized = np.where(there, r, np.nan)[used]
            measured = np.where(there, values, np.nan)[used]
            t = times[place] + (fractions[used] - 1) * (times[1] - times[0])
            scale = rows.scale.reshape(shape)[: T - first][used]
            predicted = measured + normalized * np.asarray(sensor.noise_sigma()) / np.where(scale > 0, scale, 1.0)
            columns.append((np.full(len(t), number), t, measured, predicted, normalized, weight[used]))
        together = (np.concatenate(column) for column in zip(*columns, strict=True))
        made.append(SensorFit(sensor.name, sensor.units, *together))
    return tuple(made)
