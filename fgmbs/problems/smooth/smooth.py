"""State estimation: the motion, the forces and their uncertainty from what sensors have read."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
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
from fgmbs.problems.estimation.arguments import checked_window, nominal_delays
from fgmbs.problems.estimation.data import Grid, left_out
from fgmbs.problems.estimation.unknowns import checked_priors
from fgmbs.problems.simulation.arguments import Integrator
from fgmbs.problems.simulation.result import worst
from fgmbs.problems.smooth.arguments import checked_recordings, prepare_smooth
from fgmbs.problems.smooth.lagged import advanced, lagged
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.result import smoothed_motion
from fgmbs.problems.smooth.rounds import (
    Solution,
    begun,
    concluded,
    followed,
    improved,
    lowered_rounds,
    modelled,
    resized,
    surveyed,
)
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion
from fgmbs.problems.solving import finish
from fgmbs.recordings.recording import Recording
from fgmbs.sensors.base import AbstractSensor

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
            white `Disturbance` whose power is found from the data.
        dt: Time step; by default the interval between samples of the fastest sensor [s].
        window: None: all steps at once. A number: a fixed-lag smoother over the last so many steps.
        start: Coordinates at the start by name, of each recording if they differ; the rest is assembled. By default
            several starts are tried on the first samples.
        start_velocities: Velocities at the start by name.
        start_sigma: Standard deviations of the independent coordinates and of their velocities at the start. By default
            the start is a rough guess that counts for nothing.
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
    tell = progress or (lambda *_: None)
    notes = tuple(f"{one.source}: {note}" for one in recordings for note in one.notes)
    notes += _left_out(problem, recordings)
    solution = _solve(problem, tell, notes) if window is None else _follow(problem, int(window), tell, notes)
    return finish(problem, solution, notes=notes, throw=throw)


def _solve(problem: SmoothingProblem, tell: Progress, notes: Sequence[str]) -> Solution:
    """`solve`, which tells between its rounds how it goes, and can be interrupted there."""
    tell("looking for the start" if problem.recording.starts.shape[-2] > 1 else "following", 0, math.nan)
    with compiled_ahead(lambda: lowered_rounds(problem), problem):
        at, round = jax.block_until_ready(begun(problem)), 0
    try:
        while not bool(at.done):
            at = improved(problem, at)
            tell("solving", round, float(at.look.cost))
            if bool(at.resize):
                at = resized(problem, at, surveyed(problem, at))
            round += 1
    except KeyboardInterrupt:
        result = smoothed_motion(problem, concluded(problem, at, surveyed(problem, at)), notes)
        raise Interrupted(f"interrupted after {int(at.iterations)} iterations", result) from None
    return concluded(problem, at, surveyed(problem, at))


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
    if recording.starts.shape[0] > 1:
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
        solution = eqx.tree_at(lambda s: (s.at.best, s.at.margins), solution, (best.best, best.margins))
    if interrupted:
        raise Interrupted(f"interrupted after {T} steps", smoothed_motion(problem, solution, notes)) from None
    return solution
