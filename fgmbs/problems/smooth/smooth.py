"""State estimation: the motion, the forces and their uncertainty from what sensors have read."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fgmbs.arguments import of_type
from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.errors import Interrupted
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import AbstractInput
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation.arguments import checked_commands, checked_window, nominal_delays
from fgmbs.problems.estimation.data import Grid, left_out
from fgmbs.problems.estimation.first_state import DECIDED
from fgmbs.problems.estimation.unknowns import checked_priors
from fgmbs.problems.online.lagged import advanced, lagged
from fgmbs.problems.simulation.arguments import Integrator
from fgmbs.problems.simulation.result import worst
from fgmbs.problems.smooth.arguments import checked_recordings, prepare_smooth
from fgmbs.problems.smooth.beginning import SmoothingState, begun, begun_at, modelled
from fgmbs.problems.smooth.guesses.growing import grown
from fgmbs.problems.smooth.guesses.other_problems import by_itself, led_by_larger_forces, without_accelerations
from fgmbs.problems.smooth.guesses.other_starts import with_others
from fgmbs.problems.smooth.iteration import LOOSER, is_poor, to_the_end
from fgmbs.problems.smooth.other_motions import Compared, Motion, compared
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.remembering import BETTER, remembering, with_memory
from fgmbs.problems.smooth.result import smoothed_motion
from fgmbs.problems.smooth.rounds import Solution, concluded, followed, lowered_rounds, surveyed
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion
from fgmbs.problems.solving import finish
from fgmbs.sensors.base import AbstractSensor
from fgmbs.signals.recordings.recording import Recording
from fgmbs.status import Status, is_one_of

_SHORTER, _FEW = 4, 100_000
"""Steps in the place of one where the readings are explained poorly: one is long beside a singular pose; and how many
of them there may be: with more it is up to `dt`."""
_SEARCHES = 3
"""Times that other starts are looked for, while what was found is that poor."""
_TOLD = 100
"""Steps of a fixed-lag smoother between two reports of its progress."""

Progress: TypeAlias = Callable[[str, int, float], None]
"""Called with (what is being done, round, cost)."""


def smooth(
    mechanism: AbstractMechanism,
    recording: Recording | Sequence[Recording],
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    dt: float | None = None,
    window: int | None = None,
    start: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_velocities: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_sigma: tuple[float, float] | None = None,
    integrator: Integrator = "hermite_simpson",
    independent: Sequence[str] | None = None,
    throw: bool = True,
    progress: Progress | None = None,
) -> SmoothedMotion:
    """The motion that explains recordings best, the unknown forces on it, and how sure both are.

    The factor graph over all steps has the integration of the mechanism's dynamics between steps, with the unknown
    forces as its noise, and a factor for each sensor ([Blanco21] sections 3 and 4). Position and velocity constraints
    hold exactly: the solver moves in independent coordinates, chosen anew at every step. The noise of a step is the
    integral of spectral densities, so that nothing depends on the time step.

    Args:
        mechanism: The mechanism; numbers of it may be `Unknown`, and are found then, lengths and places of points, too.
        recording: What was recorded; several recordings share sensors and their calibration, each has a start of its
            own.
        sensors: What the signals mean; numbers of them may be `Unknown`, also the standard deviations of their noise.
        inputs: Forces that the description of the mechanism does not tell; their sizes may be `Unknown`. By default a
            `Disturbance` whose power is found from the data, white unless these ask for a memory.
        dt: Time step [s]; by default the interval between samples of the fastest sensor, or a fourth of it where with
            that the readings are explained poorly, and far better with a fourth (of up to 25 000 steps).
        window: None: all steps at once. A number: a fixed-lag smoother over the last so many steps.
        start: Coordinates at the start by name, of each recording if they differ; the rest is assembled. By default
            several starts are compared by the first samples, and solved where those do not decide. So are others beside
            one that is given: the motion is that from the given one unless another is more likely by far.
        start_velocities: Velocities at the start by name.
        start_sigma: Standard deviations of the independent coordinates and of their velocities at the start. By default
            the start is a rough guess that counts for nothing; with them no other start is looked for.
        integrator: Integration rule between steps, see `simulate`; those of low order leave their truncation error to
            the unknown forces.
        independent: Coordinates in which the solver moves, by the names of their velocities; by default the best ones
            at every step.
        throw: Raise if the solve fails; otherwise leave it to `status`.
        progress: Called with (what is being done, round, cost) from time to time.

    Raises:
        ArgumentError: An argument is invalid, a recording lacks a signal, no sensor sees the motion, or nothing
            tells an unknown number.
        AssemblyError: The start cannot be assembled.
        SolveError: The solve failed; its `result` holds the best that was reached.
        Interrupted: Ctrl-C; its `result` holds the best that was reached.
    """
    of_type("throw", throw, bool, "True or False")
    options = dict(dt=dt, start=start, start_velocities=start_velocities, start_sigma=start_sigma)
    arguments = mechanism, recording, sensors, inputs
    problem = prepare_smooth(*arguments, **options, integrator=integrator, independent=independent)
    recordings = checked_recordings(recording)
    if window is not None:
        checked_window(window, len(recordings), problem.sizes)
        checked_priors(problem.free)
        checked_commands((inputs,) if isinstance(inputs, AbstractInput) else inputs, recorded=True)
    tell = progress or (lambda *_: None)
    notes = tuple(f"{one.source}: {note}" for one in recordings for note in one.remarks)
    notes += _left_out(problem, recordings)
    if window is not None:
        solution = _follow(problem, int(window), tell, notes)
    else:
        step = float(np.min(problem.recording.dt)) / _SHORTER
        again = dict(options, dt=step, integrator=integrator, independent=independent)
        few = _SHORTER * int(np.sum(np.asarray(problem.recording.count))) <= _FEW
        shorter = (lambda: prepare_smooth(*arguments, **again)) if dt is None and few else None
        problem, solution, notes = _solve(problem, shorter, start_sigma is None, tell, notes)
    return finish(problem, solution, notes=notes, throw=throw)


def _solve(
    problem: SmoothingProblem,
    shorter: Callable[[], SmoothingProblem] | None,
    around: bool,
    tell: Progress,
    notes: tuple[str, ...],
) -> tuple[SmoothingProblem, Solution, tuple[str, ...]]:
    """(problem, solution, notes) of the most likely motion; between its rounds it tells how it goes, and can be
    interrupted.

    Args:
        problem: The problem.
        shorter: The same with shorter time steps, to be solved where the readings are explained poorly; None where they
            are as long as they should be.
        around: Also look elsewhere than at a start that was given.
        tell: Told how it goes.
        notes: Further remarks.
    """
    tell("following" if bool(np.all(np.asarray(problem.recording.given))) else "looking for the start", 0, math.nan)
    with compiled_ahead(lambda: lowered_rounds(problem, begun.like(problem)), problem):
        at = jax.block_until_ready(begun(problem))
    found = None
    around = around or not bool(np.all(np.asarray(problem.recording.given)))
    try:
        for seen in _searched(problem, at, around, tell):
            at, found = seen
        if shorter is not None and _is_worse_than_noise(found.best):
            tell("looking for it with shorter steps", 0, math.nan)
            finer, better = shorter(), False
            for _, other in _searched(finer, begun(finer), around, tell):
                if other is None:
                    continue
                lost, cost = _rank(finer, other.best.at)
                if not better and (lost, cost + DECIDED) < _rank(problem, found.best.at):
                    step, better = float(np.min(finer.recording.dt)), True
                    notes += (f"steps of {step:g} s: with those of the samples the readings were explained poorly",)
                found = other if better else found
                if is_poor(finer, other.best.at):
                    break
        found = _remembered(found, tell)
    except KeyboardInterrupt:
        found = found or Compared(Motion(problem, at, surveyed(problem, at)), None)
        result = smoothed_motion(found.best.problem, _concluded(found), notes)
        raise Interrupted(f"interrupted after {int(result.iterations)} iterations", result) from None
    return found.best.problem, _concluded(found), notes


def _searched(
    problem: SmoothingProblem, first: SmoothingState, around: bool, tell: Progress
) -> Iterator[tuple[SmoothingState, Compared | None]]:
    """(the motion as it is by now, the most likely one that was found) on the way to it.

    Args:
        problem: The problem.
        first: The first guess.
        around: Also look for other starts.
        tell: Told how it goes.
    """
    at = first
    for round, at in enumerate(_rounds(problem, first)):
        yield at, None
        tell("solving", round, float(at.look.cost))
    found = Compared(Motion(problem, at, surveyed(problem, at)), None)
    yield at, found
    # Where sizes of noise are found, costs are those of other sizes.
    worth = math.inf if problem.sizes.size else float(at.look.cost) + DECIDED

    def solved(other: SmoothingProblem) -> Motion:
        for round, at in enumerate(_rounds(other, begun(other), worth if found.best.converged else math.inf)):
            tell("solving from another start", round, float(at.look.cost))
        return Motion(other, at, surveyed(other, at))

    if not around:
        return
    tell("looking for other starts", 0, math.nan)
    for seed in range(_SEARCHES):
        again = with_others(problem, found.best, seed, of_motion=seed > 0 and not is_poor(problem, found.best.at))
        starts, before = begun(again.loosened(LOOSER[0])).starts, found
        for better in compared(before.best, starts, solved):
            # A later search that finds nothing else leaves the first one to tell of other motions.
            found = better if better.best is not before.best or better.others > before.others else before
            yield at, found
        if not is_poor(problem, found.best.at) and (seed > 0 or found.others > 0):
            return


def _remembered(found: Compared, tell: Progress) -> Compared:
    """The same with unknown forces that have a memory, if the data ask for one and are far more likely then."""
    asked = with_memory(*found.best)
    if asked is None:
        return found
    problem, first = asked
    at = first
    for round, at in enumerate(remembering(problem, first)):
        tell("solving with forces that have a memory", round, float(at.look.cost))
    longer = Motion(problem, at, surveyed(problem, at))
    return found._replace(best=longer) if longer.log_likelihood > found.best.log_likelihood + BETTER else found


def _rounds(problem: SmoothingProblem, first: SmoothingState, worth: float = math.inf) -> Iterator[SmoothingState]:
    """The solution after every round.

    Where it does not converge, or ends far from what was read, it is looked for again from what sensors of positions
    and speeds say alone, from its beginning on, from where larger unknown forces lead, which become smaller step by
    step, and from the motion that the mechanism makes by itself.

    Args:
        problem: The problem.
        first: The first guess.
        worth: Cost above which a solution is not worth more rounds.
    """
    at = first
    for at in to_the_end(problem, first, worth=worth):
        yield at
    of_accelerations = [sensor.order > 1 for sensor in problem.sensors]
    guesses = (grown, led_by_larger_forces, by_itself)
    if any(of_accelerations) and not all(of_accelerations):
        guesses = (without_accelerations, *guesses)
    for guess in guesses:
        if not is_poor(problem, at):
            return
        *_, again = to_the_end(problem, begun_at(problem, guess(problem)), worth=worth)
        if _rank(problem, again) < _rank(problem, at):
            yield (at := again)


def _is_worse_than_noise(motion: Motion) -> bool:
    """Whether there may be a better solution with shorter steps; outliers that a robust loss allows for are no sign."""
    noise = motion.problem.readings()
    return not (motion.converged and motion.chi2 < noise + max(noise, 2 * DECIDED))


def _rank(problem: SmoothingProblem, at: SmoothingState) -> tuple[bool, float]:
    """The smaller of two is that of the better solution, whether it converged or not: what did not can only be better
    than its cost tells. Where sizes of noise are found that holds no longer, and what converged is better."""
    lost = bool(problem.sizes.size) and not is_one_of(at.status, Status.converged)
    return lost, float(np.nan_to_num(at.look.cost, nan=np.inf))


def _concluded(found: Compared) -> Solution:
    solution = concluded(*found.best)
    logs = found.log_likelihoods
    return dataclasses.replace(solution, log_likelihoods=None if logs is None else jax.device_put(logs))


def _left_out(problem: SmoothingProblem, recordings: Sequence[Recording]) -> tuple[str, ...]:
    """Notes about samples that belong to times before the first step or behind the last one."""
    delays, data, notes = nominal_delays(problem.sensors).tolist(), problem.recording, []
    parts = [data] if not problem.several else [jax.tree.map(itemgetter(k), data) for k in range(len(recordings))]
    for one, part in zip(recordings, parts, strict=True):
        grid = Grid(float(part.start), float(part.dt), int(part.count))
        for sensor, channel, delay in zip(problem.sensors, part.channels, delays, strict=True):
            channel = jax.tree.map(np.asarray, channel)
            if outside := left_out(channel, grid, delay):
                samples = int(np.sum(np.isfinite(channel.values).any(axis=1)))
                where = "before the first step" if delay > 0 else "behind the last step"
                reason = f"by its delay of {delay:g} s of times {where}"
                notes.append(f"{one.source}: {sensor.name}: {outside} of {samples} samples are {reason}, left out")
    return tuple(notes)


def _follow(problem: SmoothingProblem, window: int, tell: Progress, notes: Sequence[str]) -> Solution:
    """The fixed-lag smoother, step by step."""
    recording, delays = problem.recording, nominal_delays(problem.sensors)
    x, best = recording.starts[0], None
    if not bool(recording.given):
        tell("looking for the start", 0, math.nan)
        best = begun(problem)
        x = best.first
    model, data, count = *modelled(problem, delays, x), int(recording.count)
    at, interrupted = lagged(model, window, x, data), False
    try:
        for done in range(0, count, _TOLD):
            tell("following", done, math.nan)
            at = jax.block_until_ready(advanced(model, at, data, jnp.asarray(min(_TOLD, count - done))))
    except KeyboardInterrupt:
        if int(at.taken) < max(window, 3):
            raise
        interrupted = True
    T = int(at.taken)
    steps, covariance = (
        jax.device_put(np.concatenate([part, np.repeat(part[-1:], problem.steps - T, axis=0)]))
        for part in at.together()
    )
    problem = eqx.tree_at(lambda problem: problem.recording.count, problem, jnp.asarray(T))
    solution = followed(problem, x, Unknowns(steps, at.state.globals), covariance)
    step_status = jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[:T]), at.status)
    ended = worst(at.status), jnp.asarray(T)
    solution = eqx.tree_at(lambda s: (s.at.status, s.at.iterations), solution, ended)
    solution = dataclasses.replace(solution, step_status=step_status)
    if best is not None:
        solution = eqx.tree_at(lambda s: s.at.starts, solution, best.starts)
    if interrupted:
        raise Interrupted(f"interrupted after {T} steps", smoothed_motion(problem, solution, notes)) from None
    return solution
