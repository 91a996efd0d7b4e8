"""Recordings on the time grid of an estimation: which sample belongs to which step."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fgmbs.arguments import finite_number
from fgmbs.compiled.buckets import padded
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command, Recorded
from fgmbs.kinematics.names import listed
from fgmbs.problems.estimation.graph import Samples
from fgmbs.sensors.base import AbstractSensor
from fgmbs.signals.recordings.played import Played, pieces
from fgmbs.signals.recordings.recording import Recording
from fgmbs.signals.recordings.timing import timing
from fgmbs.typing import Scalar

_ON_STEP, _ROUNDED = 1e-6, 1e-2
"""Distance from a step, in steps, below which a sample lies on it: of exact stamps, and of rounded ones at most."""
_MOST_STEPS = 10_000_000
"""Of a recording, at most."""
_INSTANT = 1e-2
"""Of a time step, in which commands that jump change: longer than stamps are rounded."""
_NEVER = 1e30
"""Time of samples that are not there [s]."""


class Grid(NamedTuple):
    """The steps of one recording."""

    start: float
    dt: float
    steps: int

    @property
    def times(self) -> np.ndarray:
        return self.start + self.dt * np.arange(self.steps)


class Channel(NamedTuple):
    """Samples of a sensor in one recording, in the order of their times."""

    values: Float[Array, "samples rows"]
    """nan where a row has no sample."""
    stamps: Float[Array, " samples"]
    """As recorded [s]."""
    rounding: Scalar | float
    """How far stamps may be off because they were rounded [s]."""


def grid(
    recording: Recording, sensors: Sequence[AbstractSensor], channels: Sequence[Channel], dt: float | None
) -> Grid:
    """Steps from the first to the last sample of any sensor; by default as often as the fastest one reads.

    Args:
        recording: What was recorded.
        sensors: The sensors …
        channels: … and their samples.
        dt: Time step [s].

    Raises:
        ArgumentError: dt is no positive number; nothing was recorded long enough.
    """
    columns = [column for sensor in sensors for column in sensor.columns]
    signals = [recording[column] for column in columns]
    if dt is None:
        found = [one for signal in signals if (one := timing(signal.t)) is not None]
        if not found:
            raise ArgumentError(
                f"recording {recording.source!r}: expected at least three steps; found one sample of {listed(columns)}"
            )
        dt = min(one.interval for one in found)
    if not finite_number(dt, "dt") > 0:
        raise ArgumentError(f"dt: expected a positive time step in seconds; found {dt!r}")
    times = [time for signal in signals if len(signal) for time in (signal.t[0], signal.t[-1])]
    start, stop = min(times), max(times)
    slack = max(float(_near(np, channel, dt).max(initial=0.0)) for channel in channels)
    steps = math.ceil((stop - start) / dt - slack) + 1
    if steps > _MOST_STEPS:
        raise ArgumentError(
            f"recording {recording.source!r}: expected at most {_MOST_STEPS:,} steps of dt = {dt:g} s; found {steps:,}"
        )
    if steps < 3:
        raise ArgumentError(
            f"recording {recording.source!r}: expected at least three steps of dt = {dt:g} s; found {stop - start:g} s"
        )
    return Grid(start, dt, steps)


def channel(recording: Recording, sensor: AbstractSensor) -> Channel:
    """The samples of a sensor."""
    signals = [recording[column] for column in sensor.columns]
    stamps = np.unique(np.concatenate([signal.t for signal in signals]))
    values = np.full((len(stamps), len(signals)), np.nan)
    for row, signal in enumerate(signals):
        values[np.searchsorted(stamps, signal.t), row] = signal.values
    return Channel(values, stamps, max((one.rounding for s in signals if (one := timing(s.t))), default=0.0))


def irregular(channel: Channel) -> float:
    """Standard deviation of stamps around regular ones [s]; 0 where it may be that of rounding."""
    found = timing(channel.stamps)
    return found.jitter if found is not None and found.is_irregular else 0.0


def padded_channel(channel: Channel, size: int) -> Channel:
    """The channel with samples of nothing behind."""
    more = size - channel.stamps.shape[0]
    values = np.concatenate([channel.values, np.full((more, channel.values.shape[1]), np.nan)])
    stamps = np.concatenate([channel.stamps, np.full(more, _NEVER)])
    return jax.device_put(Channel(values, stamps, np.asarray(channel.rounding, float)))


def on_steps(channel: Channel, delay: float, grid: Grid) -> bool:
    """Whether all samples lie on steps, no two on the same."""
    end, fractions, inside = _places(np, channel, grid.start, grid.dt, delay, grid.steps)
    return bool(np.all(fractions[inside] == 1.0)) and int(np.bincount(end[inside]).max(initial=0)) <= 1


def slots(channel: Channel, grid: Grid, delay: float | None) -> int:
    """Most samples of one interval; without a delay, whatever that is."""
    if delay is None:
        t = channel.stamps
        behind = np.searchsorted(t, t + (1 - 2 * _near(np, channel, grid.dt)) * grid.dt)
        return max(1, int(np.max(behind - np.arange(len(t)), initial=1)))
    end, _, inside = _places(np, channel, grid.start, grid.dt, delay, grid.steps)
    # One on the first step lies at the start of the first interval.
    return int(np.bincount(np.maximum(end[inside], 1)).max(initial=1))


def samples(
    channel: Channel,
    start: Scalar,
    dt: Scalar,
    delay: Scalar,
    count: Int[Array, ""],
    steps: int,
    slots: int,
    at_steps: bool,
    commands: Float[Array, "samples nc"],
) -> Samples:
    """The samples of a sensor in slots of every step; those whose delay puts them before the first one are left out.

    Args:
        channel: The samples.
        start: Time of the first step [s].
        dt: Time step [s].
        delay: How much later than it happens a value is stamped [s].
        count: Steps there are …
        steps: … and steps to compute with.
        slots: Room for samples in every step.
        at_steps: All samples lie on steps. Otherwise one on the first step lies at the start of the first interval.
        commands: What they are when each sample is taken, see `PlayedCommands.read`.
    """
    end, fractions, inside = _places(jnp, channel, start, dt, delay, count)
    if not at_steps:
        first = inside & (end == 0)
        end, fractions = jnp.where(first, 1, end), jnp.where(first, 0.0, fractions)
    # Those outside lie before all others, or behind them.
    order = jnp.where(inside, end, jnp.where(channel.stamps - delay < start, -1, steps))
    slot = jnp.arange(order.shape[0]) - jnp.searchsorted(order, order, method="sort")
    step = jnp.where(inside, order, steps)
    rows = channel.values.shape[1]
    there = jnp.isfinite(channel.values)
    values = jnp.zeros((steps, slots, rows)).at[step, slot].set(jnp.where(there, channel.values, 0.0), mode="drop")
    mask = jnp.zeros((steps, slots, rows)).at[step, slot].set(there.astype(values.dtype), mode="drop")
    signals = jnp.zeros((steps, slots, commands.shape[1])).at[step, slot].set(commands, mode="drop")
    return Samples(values, jnp.ones((steps, slots)).at[step, slot].set(fractions, mode="drop"), mask, signals)


def _places(numpy: Any, channel: Channel, start, dt, delay, steps):
    """(step at the end of the interval of each sample, where in the interval, which belong to the grid)."""
    place = (channel.stamps - delay - start) / dt
    nearest = numpy.round(place)
    place = numpy.where(numpy.abs(place - nearest) < _near(numpy, channel, dt), nearest, place)
    inside = (place >= 0) & (place <= steps - 1)
    place = numpy.where(inside, place, 0.0)
    end = numpy.ceil(place)
    return end.astype(int), place - (end - 1), inside


def _near(numpy: Any, channel: Channel, dt):
    """Distance from a step, in steps, below which each sample lies on it."""
    # Both the sample and the first of all are rounded. Stamps far from zero, as those of a clock, are no more exact
    # than their last place.
    rounded = numpy.clip(2 * channel.rounding / dt, _ON_STEP, _ROUNDED)
    return rounded + 4 * np.finfo(float).eps * numpy.abs(channel.stamps) / dt


def on_first_step(
    channel: Channel, start: np.ndarray, dt: np.ndarray, delay: float, steps: np.ndarray
) -> Bool[np.ndarray, " samples"]:
    """Which samples lie on the first step."""
    end, _, inside = _places(np, channel, start, dt, delay, steps)
    return inside & (end == 0)


def left_out(channel: Channel, grid: Grid, delay: float) -> int:
    """How many samples belong to no step, because of their delay."""
    *_, inside = _places(np, channel, grid.start, grid.dt, delay, grid.steps)
    return int(np.sum(~inside & (channel.stamps < _NEVER)))


def played(recordings: Sequence[Recording], command: Command, grids: Sequence[Grid], steps: int) -> list[Recorded]:
    """The signal of a command in every recording, in the same room: as for that of sensors, that of the steps."""
    signals = [recording[command.column] for recording in recordings]
    room = max(steps, *(padded(len(signal)) for signal in signals))
    most = max(pieces(signal.t, grid.dt) for signal, grid in zip(signals, grids, strict=True))
    return [Recorded(Played.of(signal, room, most, command.hold)) for signal in signals]


class PlayedCommands(NamedTuple):
    """Recorded commands as they act on one recording."""

    lines: Float[Array, "steps 2 nc"]
    """Ends of the line that they follow over the interval before each step."""
    acting: Float[Array, "steps nc"]
    """What they are at the steps …"""
    read: tuple[Float[Array, "samples nc"], ...]
    """… and when each sample of each sensor was taken: by its own stamp, as what was recorded with a command was read
    before that acted, however both were rounded."""


def played_commands(
    commands: Sequence[Command],
    times: Float[Array, " steps"],
    dt: Scalar,
    channels: Sequence[Channel],
    delays: Float[Array, " sensors"],
) -> PlayedCommands:
    """Recorded commands over the steps and at the samples: all by one program, which a robot's many would make long.

    Args:
        commands: With what was recorded of them.
        times: Of the steps [s].
        dt: Time step [s].
        channels: The samples of each sensor …
        delays: … which are stamped so much later than they are taken [s].
    """
    taken = [channel.stamps - delay for channel, delay in zip(channels, delays, strict=True)]
    moments = jnp.concatenate([times, *taken])
    starts = jnp.concatenate([times - dt, moments - _INSTANT * dt])
    found = _lines(commands, starts, jnp.concatenate([times, moments]))
    columns = [one.of_instant(found[len(times) :, :, k]) for k, one in enumerate(commands)]
    at = jnp.stack(columns, axis=-1) if columns else jnp.zeros((*moments.shape, 0))
    acting, *read = jnp.split(at, np.cumsum([len(times), *map(len, taken)])[:-1])
    return PlayedCommands(found[: len(times)], acting, tuple(read))


def _lines(
    commands: Sequence[Command], starts: Float[Array, " spans"], ends: Float[Array, " spans"]
) -> Float[Array, "spans 2 nc"]:
    """Ends of the lines that commands follow over spans of time; of commands of one kind at once."""
    numbers = lambda one: (one.delay, one.lag, one.limit, one.recorded)

    def kind(k):
        leaves, structure = jax.tree.flatten(numbers(commands[k]))
        return structure, tuple(map(jnp.shape, leaves)), commands[k].hold, commands[k].saturation

    kinds: dict[Any, list[int]] = {}
    for k in range(len(commands)):
        kinds.setdefault(kind(k), []).append(k)
    columns: dict[int, Array] = {}
    for alike in kinds.values():
        first = commands[alike[0]]

        def of_one(own, first=first):
            command = eqx.tree_at(numbers, first, own, is_leaf=lambda leaf: leaf is None)
            return jax.vmap(command.line)(starts, ends)

        each = [numbers(commands[k]) for k in alike]
        columns |= zip(alike, jax.vmap(of_one)(jax.tree.map(lambda *own: jnp.stack(own), *each)), strict=True)
    rows = [columns[k] for k in range(len(commands))]
    return jnp.stack(rows, axis=-1) if rows else jnp.zeros((*starts.shape, 2, 0))
