"""Validation: what a model foretells of a recording from one state on, against what was recorded."""

import dataclasses
from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import finite_number, of_type
from fgmbs.compiled.program import program
from fgmbs.errors import ArgumentError
from fgmbs.graph.given import of_recordings
from fgmbs.graph.model import rebuilt
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import AbstractInput
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.estimation.noise_sizes import with_sizes
from fgmbs.problems.estimation.unknowns import freed_model
from fgmbs.problems.identify.free_runs.prediction import predict_best
from fgmbs.problems.identify.free_runs.segments import Miss, PredictionProblem, prepare_prediction
from fgmbs.problems.simulation.result import worst
from fgmbs.problems.smooth.arguments import prepare_smooth
from fgmbs.problems.smooth.problem import RecordingData, SmoothingProblem
from fgmbs.problems.smooth.smooth import smooth
from fgmbs.sensors.base import AbstractSensor
from fgmbs.signals.recordings.recording import Recording
from fgmbs.status import Status
from fgmbs.unknowns import Free, is_unknown, known

_FIRST = 1.0
"""Time from which the first state is told, before it is fitted to all samples [s] …"""
_FEWEST = 20
"""… or that of so many steps, if these take longer."""
_LEAST = 3
"""Samples of each sensor in it, at least."""
_LONGER = 3.0
"""Factor by which the fitted part grows: a state that foretells one part is near that of the next."""


@dataclasses.dataclass(frozen=True, eq=False)
class Foretold:
    """What a sensor read, and what it should have read in a free run."""

    name: str
    units: tuple[str, ...]
    circular: bool
    """Whether it reads an angle without its turns."""
    t: Float[np.ndarray, " samples"]
    """Time of each sample [s]."""
    measured: Float[np.ndarray, "samples rows"]
    """nan for rows without a sample."""
    predicted: Float[np.ndarray, "samples rows"]
    """Of a circular sensor as near to the sample as whole turns allow."""
    horizons: Mapping[float, Float[np.ndarray, " rows"]]
    """Root mean square error of free runs that begin anew after so many seconds, by these, in the unit of the
    sensor."""

    @property
    def rms(self) -> Float[np.ndarray, " rows"]:
        """Root mean square error, in the unit of the sensor."""
        return _rms(self.predicted - self.measured)

    @property
    def fit(self) -> Float[np.ndarray, " rows"]:
        """How much of the signal is foretold, 100 (1 − ‖ŷ − y‖/‖y − ȳ‖) [%]: 100 at best, 0 for the mean of the
        samples, below that for what is worse; nan for a signal that does not change."""
        y = np.unwrap(self.measured, axis=0) if self.circular else self.measured
        spread = _rms(y - np.nanmean(y, axis=0))
        return 100 * (1 - self.rms / np.where(spread > 0, spread, np.nan))


@dataclasses.dataclass(frozen=True, eq=False)
class FreeRun:
    """The motion that a model makes by itself under recorded commands, and what its sensors should have read."""

    mechanism: AbstractMechanism
    t: Float[np.ndarray, " steps"]
    """[s]"""
    q: Float[np.ndarray, "steps n"]
    """[m, rad]"""
    dq: Float[np.ndarray, "steps nv"]
    """[m/s, rad/s]"""
    sensors: tuple[Foretold, ...]
    status: Status
    """`non_finite` where the motion diverges."""
    parameters: Mapping[str, Float[np.ndarray, "*shape"]]
    """Numbers that the recording has of its own, by name, as they were found together with the first state [SI]."""

    def __getitem__(self, name: str) -> Foretold:
        """What is foretold of a sensor."""
        for one in self.sensors:
            if one.name == name:
                return one
        raise KeyError(name)

    @property
    def rms(self) -> dict[str, Float[np.ndarray, " rows"]]:
        """Root mean square errors by sensor, in its unit."""
        return {one.name: one.rms for one in self.sensors}

    @property
    def fit(self) -> dict[str, Float[np.ndarray, " rows"]]:
        """How much of each sensor is foretold [%], see `Foretold.fit`."""
        return {one.name: one.fit for one in self.sensors}


def free_run(
    mechanism: AbstractMechanism,
    recording: Recording,
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    start: Mapping[str, float] | None = None,
    start_velocities: Mapping[str, float] | None = None,
    fit_start: bool = True,
    dt: float | None = None,
    horizons: Sequence[float] = (),
) -> FreeRun:
    """The motion of a model alone under recorded commands, and how far its sensors would be off: unknown forces are
    zero, numbers that are unknown have their first values. Those that each recording has of its own,
    `Unknown(own=True)`, as the zero of an encoder that counts from where it was switched on, are found together with
    the first state.

    The first state is that from which the whole run fits the samples best. It is looked for in longer and longer parts
    of the recording, from what `smooth` makes of its first second, or from the start that is given: of a free run over
    many swings the error has many minima.

    Args:
        mechanism: The mechanism.
        recording: What was recorded.
        sensors: What the signals mean.
        inputs: Forces that the description does not tell; those that are commands act.
        start: Coordinates at the start by name; the rest is assembled.
        start_velocities: Velocities at the start by name.
        fit_start: Whether the start is fitted, and what is the recording's own; else the run begins at the one that is
            given, or at that of `smooth`, with first values.
        dt: Time step; by default the interval between samples of the fastest sensor [s].
        horizons: Also the errors of free runs that begin anew after so many seconds, each from a state fitted to it;
            every one asks for a program of its own.

    Raises:
        ArgumentError: An argument is invalid, or the recording lacks a signal.
        AssemblyError: The start cannot be assembled.
    """
    of_type("fit_start", fit_start, bool, "True or False")
    of_type("recording", recording, Recording, "a recording, as fgmbs.read_recording reads one of a file")
    checked_mechanism(mechanism)
    of_type("horizons", horizons, (list, tuple, np.ndarray), "times in seconds, in a list")
    horizons = tuple(finite_number(horizon, "horizons") for horizon in horizons)
    for horizon in horizons:
        if horizon <= 0:
            raise ArgumentError(f"horizons: expected positive times in seconds; found {horizon!r}")
    mechanism = of_recordings(mechanism, [recording]).mechanism
    given = start is not None or start_velocities is not None
    own = _own(mechanism, sensors, inputs) if fit_start else Free()
    mechanism, sensors, inputs, beginning = _known(mechanism, recording, sensors, inputs, dt)
    dt, steps = float(beginning.dt), None
    if horizons or not given:
        part = recording if horizons else _first(recording, sensors, beginning)
        told = smooth(mechanism, part, sensors, inputs, dt=dt, throw=False)
        if not bool(jnp.all(jnp.isfinite(told.q))):
            told.check()
        sensors, inputs, steps = told.sensors, told.inputs, jnp.concatenate([told.q, told.dq], axis=1)
        start, start_velocities = (start, start_velocities) if given else told.state(0).values()
    options = dict(dt=dt, start=start or {}, start_velocities=start_velocities)
    parts = mechanism, {part.name: part for part in (*sensors, *inputs)}
    problem = _prepared(own.put_back(parts), recording, sensors, inputs, options)
    x = problem.starts_on_constraints()[0][: mechanism.n + mechanism.nv]
    prediction = prepare_prediction(problem, near=_near(x[None], problem.steps, problem.free.value))
    first = _fitted(prediction, float(beginning.count) * dt) if fit_start else prediction.start
    read, (steps_run, status) = _read(problem, prediction, first)
    parts = rebuilt(own, parts, first.globals)
    if horizons and own.size:
        problem = _prepared(parts, recording, sensors, inputs, options)
    anew = {horizon: _errors_anew(problem, horizon, steps) for horizon in horizons}
    count = int(beginning.count)
    q, dq = np.split(np.asarray(steps_run)[0, :count], [mechanism.n], axis=1)
    return FreeRun(
        mechanism=parts[0].bare(),
        t=float(beginning.start) + dt * np.arange(count),
        q=q,
        dq=dq,
        sensors=tuple(
            Foretold(
                sensor.name,
                sensor.units,
                sensor.circular,
                *parts,
                {horizon: errors[k] for horizon, errors in anew.items()},
            )
            for k, (sensor, parts) in enumerate(zip(problem.sensors, read, strict=True))
        ),
        status=worst(jax.tree.map(lambda leaf: leaf[0, :count], status)),
        parameters={name: np.asarray(x) for name, x in own.named(own.values(first.globals)).items()},
    )


def _own(mechanism, sensors, inputs) -> Free:
    """Which numbers each recording has of its own."""
    kept = lambda leaf: leaf.value if is_unknown(leaf) and not leaf.own else leaf
    parts = jax.tree.map(kept, (mechanism, tuple(sensors), tuple(inputs)), is_leaf=is_unknown)
    return freed_model(*parts)[-1]


def _prepared(parts, recording, sensors, inputs, options) -> SmoothingProblem:
    """The problem of (mechanism, sensors and inputs by name), in the order of these."""
    mechanism, shared = parts
    ordered = ([shared[part.name] for part in several] for several in (sensors, inputs))
    return prepare_smooth(mechanism, recording, *ordered, **options)


def _known(mechanism, recording, sensors, inputs, dt):
    """(mechanism, sensors, inputs, recording on its grid), first values in the place of unknown numbers but for sizes
    of noise."""
    problem = prepare_smooth(known(mechanism), recording, sensors, inputs, dt=dt, start={})
    parts = with_sizes(problem.sensors, problem.inputs, problem.sizes.priors())
    return known(mechanism), *parts, problem.recording


def _first(recording: Recording, sensors: Sequence[AbstractSensor], grid: RecordingData) -> Recording:
    """The recording with the first samples of its sensors; the whole where one of them has none."""
    start, dt = float(grid.start), float(grid.dt)
    cut = recording.between(start, start + max(_FIRST, _FEWEST * dt))
    columns = [column for sensor in sensors for column in sensor.columns]
    if any(len(cut[column]) < _LEAST for column in columns):
        return recording
    return dataclasses.replace(recording, signals={**recording.signals, **{name: cut[name] for name in columns}})


def _near(steps: Float[Array, "steps nx"], count: int, theta: Float[Array, " p"]) -> Unknowns:
    """Steps from which free runs take their first states, the last one repeated, and θ."""
    return Unknowns(steps[jnp.minimum(jnp.arange(count), steps.shape[0] - 1)], theta)


def _fitted(prediction: PredictionProblem, duration: float) -> Unknowns:
    """The first state from which the whole run fits best, and θ, by way of shorter ones."""
    x, length = prediction.start, _FIRST
    while True:
        found = predict_best(_until(prediction, jnp.asarray(length)), start=x)
        x = Unknowns(found.starts, found.theta)
        if length >= duration:
            return x
        length *= _LONGER


def _until(prediction: PredictionProblem, length: Float[Array, ""]) -> PredictionProblem:
    """The prediction without samples that are read later than so many seconds after the start."""
    rows = prediction.segments.rows
    there = (rows.times <= rows.times[0, 0] + length)[..., None]
    factors = tuple((series, weights * there) for series, weights in rows.factors)
    return eqx.tree_at(lambda prediction: prediction.segments.rows.factors, prediction, factors)


@program
def _missed(prediction: PredictionProblem, x: Unknowns) -> Miss:
    return prediction.miss(x)


def _read(problem: SmoothingProblem, prediction: PredictionProblem, x: Unknowns):
    """((t, measured, predicted) of every sensor, the runs) from first states."""
    miss = jax.tree.map(np.asarray, _missed(prediction, x))
    rows, made = jax.tree.map(np.asarray, prediction.segments.rows), []
    for sensor, at_steps, r, parts in zip(problem.sensors, problem.at_steps, miss.sensors, rows.factors, strict=True):
        ((values, fractions, *_), weights), first = parts, (0 if at_steps else 1)
        values, fractions, weights = (leaf[:, first:] for leaf in (values, fractions, weights))
        weights, r = weights.reshape(values.shape), r.reshape(values.shape)
        there = weights > 0
        error = np.where(there, r * np.asarray(sensor.noise_sigma()) / np.where(there, weights, 1.0), np.nan)
        used = there.any(axis=-1)
        t = rows.times[:, first:, None] + (fractions - 1) * float(problem.recording.dt)
        measured = np.where(there, values, np.nan)
        made.append((t[used], measured[used], (measured + error)[used]))
    return made, miss.runs


def _errors_anew(problem: SmoothingProblem, horizon: float, steps: Float[Array, "steps nx"]) -> list[np.ndarray]:
    """Root mean square errors of every sensor in runs of this length, from first states that are fitted to each."""
    prediction = prepare_prediction(
        problem, horizon, continuous=False, near=_near(steps, problem.steps, problem.free.value)
    )
    found = predict_best(prediction)
    read, _ = _read(problem, prediction, prediction.start._replace(steps=found.starts))
    return [_rms(predicted - measured) for _, measured, predicted in read]


def _rms(error: Float[np.ndarray, "samples rows"]) -> Float[np.ndarray, " rows"]:
    return np.sqrt(np.nanmean(error**2, axis=0))
