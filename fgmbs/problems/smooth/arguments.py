"""The problem of the arguments of `smooth`, checked before anything is compiled."""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fgmbs.arguments import of_type
from fgmbs.compiled.buckets import padded
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.graph.given import of_recordings
from fgmbs.inputs import AbstractInput, Recorded, memory_size
from fgmbs.inputs import commands as commands_of
from fgmbs.losses import left_of_normal
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.estimation import data as grids
from fgmbs.problems.estimation.arguments import (
    Start,
    checked_inputs,
    checked_sensors,
    checked_start,
    chosen_coordinates,
    nominal_delays,
    refuse_single_precision,
)
from fgmbs.problems.estimation.first_state import CANDIDATES, candidates_at_rest
from fgmbs.problems.estimation.noise_sizes import freed_sizes
from fgmbs.problems.estimation.unknowns import freed_model
from fgmbs.problems.simulation.arguments import Integrator, transition_of
from fgmbs.problems.smooth.problem import RecordingData, SmoothingProblem
from fgmbs.sensors.base import AbstractSensor
from fgmbs.signals.recordings.recording import Recording
from fgmbs.unknowns import known


def prepare_smooth(
    mechanism: AbstractMechanism,
    recording: Recording | Sequence[Recording],
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    dt: float | None = None,
    start: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_velocities: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_sigma: tuple[float, float] | None = None,
    integrator: Integrator = "hermite_simpson",
    independent: Sequence[str] | None = None,
) -> SmoothingProblem:
    """The problem that `smooth` solves, as a pytree, for `solve` and `finish`.

    Raises:
        ArgumentError: An argument is invalid, or a recording lacks a signal.
        AssemblyError: The start cannot be assembled.
    """
    refuse_single_precision()
    checked_mechanism(mechanism)
    recordings = checked_recordings(recording)
    mechanism, given, replaced = of_recordings(mechanism, recordings)
    sensors = checked_sensors(mechanism, sensors)
    inputs = checked_inputs(mechanism, inputs, sensors)
    channels = [[grids.channel(one, sensor) for sensor in sensors] for one in recordings]
    every = tuple(grids.grid(one, sensors, parts, dt) for one, parts in zip(recordings, channels, strict=True))
    longest = max(grid.dt * grid.steps for grid in every)
    irregular = {s.name: max(grids.irregular(parts[k]) for parts in channels) for k, s in enumerate(sensors)}
    sensors, inputs, sizes = freed_sizes(known(mechanism), sensors, inputs, longest, irregular)
    mechanism, sensors, inputs, free = freed_model(mechanism, sensors, inputs, len(recordings))
    chart = chosen_coordinates(mechanism, independent)
    time_steps = [grid.dt for grid in every]
    mechanisms = [given.of(k).put(mechanism) for k in range(len(recordings))]
    starts = checked_start(mechanisms, chart.dof, inputs, time_steps, start, start_velocities, start_sigma)
    late = [f"{sensor.name}.delay" in free.names for sensor in sensors]
    delays = np.asarray(nominal_delays(sensors)).tolist()
    # One rule for all recordings.
    pairs = list(zip(channels, every, strict=True))
    at_steps = tuple(
        not late[k] and all(grids.on_steps(parts[k], delays[k], g) for parts, g in pairs) for k in range(len(sensors))
    )
    slots = tuple(
        1 if at_steps[k] else max(grids.slots(parts[k], g, None if late[k] else delays[k]) for parts, g in pairs)
        for k in range(len(sensors))
    )
    steps = padded(max(g.steps for g in every))
    # Room for as many samples as the steps have, so that their number is no part of the program.
    rooms = [max(steps * room, *(len(parts[k].stamps) for parts in channels)) for k, room in enumerate(slots)]
    resting = mechanism.nv + memory_size(inputs, chart.dof)
    candidates = candidates_of(mechanism, resting) if any(begin.x is None for begin in starts) else None

    played = [grids.played(recordings, command, every, steps) for command in commands_of(inputs)]
    played = list(zip(*played, strict=True)) if played else [()] * len(recordings)

    def data(grid: grids.Grid, parts, begin: Start, commands: tuple[Recorded, ...]) -> RecordingData:
        numbers = dict(start=np.asarray(grid.start, float), dt=np.asarray(grid.dt, float), count=np.asarray(grid.steps))
        return RecordingData(
            **jax.device_put(numbers),
            commands=commands,
            channels=tuple(grids.padded_channel(*part) for part in zip(parts, rooms, strict=True)),
            **(candidates if begin.x is None else _only(begin.x)),
            start_sigma=begin.sigma,
        )

    passed = [1.0 if s.loss is None else left_of_normal(s.loss, s.group)[0] for s in sensors]
    parts = [data(*one) for one in zip(every, channels, starts, played, strict=True)]
    return SmoothingProblem(
        mechanism=mechanism,
        sensors=sensors,
        inputs=inputs,
        free=free,
        given=given,
        replaced=replaced,
        sizes=sizes,
        recording=parts[0] if len(parts) == 1 else jax.tree.map(stacked, *parts),
        passed=jax.device_put(np.array(passed)),
        chart=chart,
        transition=transition_of(integrator),
        at_steps=at_steps,
        slots=slots,
        steps=steps,
    )


def candidates_of(
    mechanism: AbstractMechanism, resting: int, first: np.ndarray | None = None, seed: int = 0
) -> dict[str, Array]:
    """Starts to be compared; see `candidates_at_rest`. The first of them, where it is given, was followed already."""
    starts, tried = candidates_at_rest(mechanism, resting, first, seed=seed)
    given, through = jax.device_put((np.asarray(first is not None), np.asarray(first is None)))
    return dict(starts=starts, tried=tried, given=given, through=through)


def _only(first: Array) -> dict[str, Array]:
    """A start that was given, in room for others."""
    tried = jnp.arange(CANDIDATES) == 0
    starts = jnp.broadcast_to(first, (CANDIDATES, first.size))
    return dict(starts=starts, tried=tried, given=jnp.asarray(True), through=jnp.asarray(True))


def checked_recordings(recording: Recording | Sequence[Recording]) -> tuple[Recording, ...]:
    """Recordings, of one or several.

    Raises:
        ArgumentError: None, or something else.
    """
    expected = "a recording, as fgmbs.read_recording reads one of a file, or several in a list"
    of_type("recording", recording, (Recording, list, tuple), expected)
    recordings = (recording,) if isinstance(recording, Recording) else tuple(recording)
    for one in recordings:
        of_type("recording", one, Recording, expected)
    if not recordings:
        raise ArgumentError("recording: expected at least one; found none")
    return recordings


def stacked(*leaves: Array | np.ndarray) -> Array:
    """What several recordings have, with a first axis of them."""
    return jnp.stack(leaves) if is_traced(leaves) else jax.device_put(np.stack(leaves))
