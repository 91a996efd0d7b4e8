"""Parameter identification: what a mechanism is made of, from recordings of it."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from fgmbs.arguments import choice, of_type, whole_number
from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.errors import ArgumentError, Interrupted
from fgmbs.graph.model import rebuilt
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import AbstractInput
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.estimation.arguments import checked_inputs, checked_sensors
from fgmbs.problems.identify.free import FreeNumbers, Parts, first_thetas, freed_by_name
from fgmbs.problems.identify.free_runs.prediction import Prediction, Solver, led, led_programs, predict_best
from fgmbs.problems.identify.free_runs.residuals import fitted, groups_of, log_likelihood
from fgmbs.problems.identify.free_runs.segments import PredictionProblem, run_length
from fgmbs.problems.identify.likeliest import End
from fgmbs.problems.identify.realizable import limited
from fgmbs.problems.identify.result import Identification
from fgmbs.problems.identify.smoother import Found, Progress, first_found, first_programs, found_by_smoother
from fgmbs.problems.identify.solution import IdentificationProblem, Identified, found_of
from fgmbs.problems.simulation.arguments import Integrator
from fgmbs.problems.smooth.arguments import checked_recordings, prepare_smooth
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.result import smoothed_motion
from fgmbs.problems.smooth.rounds import concluded
from fgmbs.problems.solving import finish
from fgmbs.sensors.base import AbstractSensor, attribute
from fgmbs.signals.recordings.recording import Recording
from fgmbs.status import Status, is_one_of
from fgmbs.unknowns import Free, is_unknown

_METHODS = ("smoother", "prediction")


def identify(
    mechanism: AbstractMechanism,
    recordings: Recording | Sequence[Recording],
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    free: FreeNumbers,
    method: str = "smoother",
    horizon: float | None = None,
    solver: Solver = "lm",
    restarts: int = 0,
    dt: float | None = None,
    start: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_velocities: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_sigma: tuple[float, float] | None = None,
    integrator: Integrator = "hermite_simpson",
    throw: bool = True,
    progress: Progress | None = None,
) -> Identification:
    """Parameters of a mechanism, of its sensors and of the forces on it, from recordings, with their uncertainty.

    The motion of all recordings and the parameters θ are found together, as the most likely ones (Marklund 2025): one
    least-squares problem in which steps are eliminated one after the other and θ last; then θ as the most likely ones
    by themselves, over all motions, see `volume_slope`. Unknown forces are the noise of the dynamics; they are
    weighed by the mass matrix at the solution, not within it, so that no mass shrinks to make forces likely. The
    solution is led from forces a million times as large, under which the sensors alone decide, to their own size.

    Args:
        mechanism: The mechanism with first values of its parameters.
        recordings: What was recorded; parameters are shared, each has a motion of its own, and numbers if
            `Recording.with_numbers` gave them.
        sensors: What the signals mean.
        inputs: Forces besides those of the mechanism, as in `smooth`: recorded commands, unknown forces. By default a
            white `Disturbance` whose power is found from the data.
        free: What is looked for, by name: "coupler.mass" of the mechanism, of a class of one's own the name of a field,
            "gyro.bias" of a sensor, "motor.gain" of a force. With each a pair of bounds, a first value, an `Unknown`
            (prior, bounds, logarithm, own to each recording) or a mapping of its arguments, or True.
        method: "smoother"; or "prediction": free runs of the model are fitted to the readings, no unknown force acts.
        horizon: Of "prediction": length of the free runs, each from a first state that is found [s]; by default each
            recording is one.
        solver: Of "prediction": "lm", or "adam" or "lbfgs" of optax.
        restarts: Of n, parameters are looked for n + 1 times again: from the given values, and from n rough ones, of
            positive numbers a tenth to ten times those that are given, of others between their bounds, of those with a
            prior within two of its standard deviations. The likeliest are the answer, `maxima` are all.
        dt: Time step; by default the interval between samples of the fastest sensor [s].
        start: Coordinates at the start by name, of each recording if they differ.
        start_velocities: Velocities at the start by name.
        start_sigma: See `smooth`.
        integrator: Integration rule between steps, see `simulate`.
        throw: Raise if the solve fails; otherwise leave it to `status`.
        progress: Called with (what is being done, round, cost) from time to time.

    Raises:
        ArgumentError: An argument is invalid, a name is none of a number, a recording lacks a signal, or there are
            fewer readings than parameters.
        AssemblyError: The start cannot be assembled.
        SolveError: The solve failed; its `result` holds the best that was reached.
        Interrupted: Ctrl-C; its `result` holds the best that was reached, of "prediction" a first estimate by the
            smoother, or the best of the starts from which it has ended.
    """
    of_type("throw", throw, bool, "True or False")
    choice("method", method, _METHODS)
    choice("solver", solver, ("lm", "adam", "lbfgs"))
    if method == "smoother":
        _refuse_free_runs(horizon, solver)
    options = dict(dt=dt, start=start, start_velocities=start_velocities, start_sigma=start_sigma)
    prepared = prepare_identify(
        mechanism, recordings, sensors, inputs, free=free, restarts=restarts, **options, integrator=integrator
    )
    problem = prepared.smoothing
    if method == "prediction":
        run_length(problem, horizon)  # refuses what is none
        of_sensors = {f"{sensor.name}.sigma" for sensor in problem.sensors}
        if sizes := [name for name in problem.sizes.names if name in free or name in of_sensors]:
            raise ArgumentError(
                f"free: expected known sizes of noise, as free runs find none; found {listed(sizes)}; "
                "method='smoother' finds them"
            )
    several = checked_recordings(recordings)
    notes = _notes(several)
    tell = progress or (lambda *_: None)

    def told(found, *more):
        of = identification if isinstance(found, Found) else _of_the_likeliest_runs
        return of(found, problem.free, several, (*notes, *more))

    found = None
    try:
        if method == "prediction":
            found = _predicted(prepared, horizon, solver, tell)
        else:
            found = found_by_smoother(problem, prepared.starts, tell)
        result = told(found)
    except KeyboardInterrupt as error:
        reached = error.result if isinstance(error, Interrupted) else found
        if reached is None:
            raise
        result = told(reached, "interrupted")
        raise Interrupted(f"interrupted after {result.iterations} iterations", result) from None
    if throw:
        result.check()
    return result


def _refuse_free_runs(horizon: Any, solver: Solver) -> None:
    """Refuses what is of free runs only.

    Raises:
        ArgumentError: One of them is given.
    """
    for argument, given, default in (("horizon", horizon, None), ("solver", solver, "lm")):
        if given != default:
            raise ArgumentError(
                f"{argument}: expected none with method='smoother', which has no free runs; found {given!r}; say "
                "method='prediction'"
            )


def prepare_identify(
    mechanism: AbstractMechanism,
    recordings: Recording | Sequence[Recording],
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    free: FreeNumbers,
    restarts: int = 0,
    dt: float | None = None,
    start: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_velocities: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_sigma: tuple[float, float] | None = None,
    integrator: Integrator = "hermite_simpson",
) -> IdentificationProblem:
    """The arguments of `identify` by its method "smoother" as an `IdentificationProblem`, for `solve` and `finish`.

    Args and errors are those of `identify`.
    """
    restarts = whole_number("restarts", restarts)
    checked_mechanism(mechanism)
    sensors = checked_sensors(mechanism, sensors)
    inputs = checked_inputs(mechanism, inputs, sensors)
    recordings = checked_recordings(recordings)
    parts = freed_by_name(Parts(mechanism, sensors, inputs), free, len(recordings))
    options = dict(dt=dt, start=start, start_velocities=start_velocities, start_sigma=start_sigma)
    problem = prepare_smooth(parts.mechanism, recordings, parts.sensors, parts.inputs, **options, integrator=integrator)
    problem = limited(problem)
    _checked_number(problem)
    _checked_stamps(problem, free)
    return IdentificationProblem(problem, jax.device_put(first_thetas(problem.free, restarts)))


@finish.register(IdentificationProblem)
def _finish(
    problem: IdentificationProblem,
    solution: Identified,
    *,
    recordings: Recording | Sequence[Recording] = (),
    notes: Sequence[str] = (),
    throw: bool = True,
) -> Identification:
    several = checked_recordings(recordings)
    found = found_of(problem, solution)
    result = identification(found, problem.smoothing.free, several, (*_notes(several), *notes))
    if throw:
        result.check()
    return result


def _notes(recordings: Sequence[Recording]) -> tuple[str, ...]:
    return tuple(f"{one.source}: {note}" for one in recordings for note in one.remarks)


def _checked_number(problem: SmoothingProblem) -> None:
    """Refuses less than there is to be found.

    Raises:
        ArgumentError: No number is free, or fewer readings than numbers.
    """
    count = problem.free.size
    if count == 0 and problem.sizes.size == 0:
        raise ArgumentError("free: expected at least one number to find; found none")
    readings = sum(int(np.isfinite(channel.values).sum()) for channel in problem.recording.channels)
    if readings < count:
        raise ArgumentError(
            f"recordings: expected at least as many readings as free numbers, {count}; found {readings}"
        )


def _checked_stamps(problem: SmoothingProblem, free: FreeNumbers) -> None:
    """Refuses to look for the noise of stamps where nothing tells it.

    Raises:
        ArgumentError: The stamps of that sensor are regular, and there is no first value.
    """
    for name in free:
        if name.endswith(".time_sigma") and name not in (*problem.sizes.names, *problem.free.names):
            raise ArgumentError(
                f"free[{name!r}]: expected a first value, as the stamps of the recordings are regular; found none; "
                f"give one [s], or leave {name!r} out"
            )


def identification(found: Found, given: Free, recordings: Sequence[Recording], notes: Sequence[str]) -> Identification:
    """The result of the method "smoother".

    Args:
        found: What was found.
        given: θ, with the priors that were given.
        recordings: What was recorded.
        notes: Remarks for the report.
    """
    problem, at, seen = found.problem, found.at, found.survey
    motion = smoothed_motion(problem, concluded(problem, at, seen), tuple(notes))
    return Identification(
        mechanism=problem.replaced.put(motion.mechanism),
        sensors=_with_values(motion.sensors, motion.unknowns),
        inputs=_with_values(motion.inputs, motion.unknowns),
        states=motion,
        status=motion.status,
        iterations=int(motion.iterations),
        cost_history=np.asarray(motion.cost_history),
        notes=motion.notes,
        method="smoother",
        recordings=tuple(recordings),
        free=given,
        theta=np.asarray(at.x.globals),
        information=np.asarray(seen.information),
        wide=np.asarray(problem.free.sigma),
        influence=np.asarray(seen.influence),
        log_likelihood=float(seen.log_likelihood),
        groups=motion.groups,
        fitted=problem.free.size + problem.sizes.size,
        problem=problem,
        solved=(found.leaned, at),
        degrees_of_freedom=found.degrees_of_freedom,
        bend=found.bend,
        unsettled=found.unsettled,
        ends=found.ends,
    )


def _predicted(
    prepared: IdentificationProblem, horizon: float | None, solver: Solver, tell: Progress
) -> "_FoundByRuns":
    problem, found = prepared.smoothing, []

    def programs():
        return itertools.chain(first_programs(problem, ends=False), led_programs(problem, horizon, solver))

    with compiled_ahead(programs, problem, horizon, solver):
        wide, at = first_found(problem, tell)
        rough = prepared.starts if len(prepared.starts) > 1 else ()
        try:
            for x in (at.x, *(at.x._replace(globals=theta) for theta in rough)):
                tell("fitting parts of free runs", len(found), np.nan)
                prediction = led(wide, horizon, x, at.first)
                tell("fitting free runs", len(found), np.nan)
                found.append((prediction, predict_best(prediction, solver)))
        except KeyboardInterrupt:
            reached = _FoundByRuns(wide, tuple(found)) if found else Found.here(wide, at)
            raise Interrupted("interrupted", reached) from None
    return _FoundByRuns(wide, tuple(found))


class _FoundByRuns(NamedTuple):
    """Where each start led."""

    problem: SmoothingProblem
    """With wide priors."""
    runs: tuple[tuple[PredictionProblem, Prediction], ...]


def _of_the_likeliest_runs(
    found: _FoundByRuns, given: Free, recordings: Sequence[Recording], notes: Sequence[str]
) -> Identification:
    """Of what several starts led to; arguments as of `identification_of_free_runs`."""
    ends = tuple(_end(found.problem.free, *run) for run in found.runs)
    # What did not converge is no answer if something did.
    best = max(range(len(ends)), key=lambda k: (ends[k].settled, ends[k].likelihood))
    result = identification_of_free_runs(found.problem, *found.runs[best], given, recordings, notes)
    return dataclasses.replace(result, ends=ends)


def _end(free: Free, prediction: PredictionProblem, best: Prediction) -> End:
    theta, sigma = np.asarray(best.theta), np.asarray(free.sigma)
    prior = np.sum(-0.5 * ((theta - np.asarray(free.value)) / sigma) ** 2 - np.log(sigma))
    likelihood = log_likelihood(prediction, best) + float(prior)
    settled = is_one_of(best.status, Status.converged)
    return End(theta, likelihood if np.isfinite(likelihood) else -np.inf, settled)


def identification_of_free_runs(
    problem: SmoothingProblem,
    prediction: PredictionProblem,
    best: Prediction,
    given: Free,
    recordings: Sequence[Recording],
    notes: Sequence[str],
) -> Identification:
    """The result of the method "prediction".

    Args:
        problem: The problem with wide priors.
        prediction: What was solved.
        best: Its solution.
        given: θ, with the priors that were given.
        recordings: What was recorded.
        notes: Remarks for the report.
    """
    theta = best.theta
    shared = {part.name: part for part in (*problem.sensors, *problem.inputs)}
    mechanism, shared = rebuilt(given.of(0), (problem.mechanism, shared), theta)
    history = np.asarray(best.history)
    return Identification(
        mechanism=problem.replaced.put(mechanism.bare()),
        sensors=tuple(shared[sensor.name] for sensor in problem.sensors),
        inputs=tuple(shared[force.name] for force in problem.inputs),
        states=None,
        status=best.status,
        iterations=int(best.iterations),
        cost_history=history[np.isfinite(history)],
        notes=tuple(notes),
        method="prediction",
        recordings=tuple(recordings),
        free=given,
        theta=np.asarray(theta),
        information=np.asarray(best.information),
        wide=np.asarray(problem.free.sigma),
        influence=np.asarray(best.influence),
        log_likelihood=log_likelihood(prediction, best),
        groups=groups_of(prediction, best),
        fitted=fitted(prediction),
        problem=problem,
        solved=(prediction, Unknowns(best.starts, theta)),
        degrees_of_freedom=np.full(theta.shape, np.inf),
        bend=np.zeros(best.information.shape),
    )


def _with_values(parts: tuple[Any, ...], named: Mapping[str, Array]) -> tuple[Any, ...]:
    """Sensors or forces with the numbers that were found in the place of unknown ones; of numbers that each recording
    has of its own, those of the first."""

    def value(part, path, leaf):
        found = named[f"{part.name}.{attribute(path)}"]
        return found if found.shape == leaf.value.shape else found[0]

    def known(part):
        leaves, structure = jax.tree_util.tree_flatten_with_path(part, is_leaf=is_unknown)
        new = [value(part, path, leaf) if is_unknown(leaf) else leaf for path, leaf in leaves]
        return jax.tree.unflatten(structure, new)

    return tuple(map(known, parts))
