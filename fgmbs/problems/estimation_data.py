"""Recordings on the time grid of an estimation: which sample belongs to which step."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command
from fgmbs.problems.estimation_graph import Samples, StepData
from fgmbs.recordings.recording import Recording
from fgmbs.sensors.base import AbstractSensor

_ON_STEP = 1e-6
"""Distance from a step, in steps, below which a sample lies on it."""
_GRAIN = 8
"""Numbers of steps are rounded up to the next of so many per doubling: recordings of other lengths reuse programs."""


class Grid(NamedTuple):
    """The steps of one recording."""

    start: float
    dt: float
    steps: int

    @property
    def times(self) -> np.ndarray:
        return self.start + self.dt * np.arange(self.steps)


class Channel(NamedTuple):
    """Samples of a sensor in one recording."""

    steps: np.ndarray
    """(N,) step at the end of the interval of each sample."""
    fractions: np.ndarray
    """(N,)"""
    values: np.ndarray
    """(N, rows); nan where a row has no sample."""
    stamps: np.ndarray
    """(N,) as recorded [s]"""

    @property
    def slots(self) -> int:
        """Most samples of one interval."""
        return int(np.bincount(self.steps).max(initial=0))

    @property
    def on_steps(self) -> bool:
        """Whether all samples lie on steps, no two on the same."""
        return bool(np.all(self.fractions == 1.0)) and self.slots <= 1

    def between_steps(self) -> "Channel":
        """The same for a factor between steps: a sample on the first step lies at the start of the first interval."""
        first = self.steps == 0
        return self._replace(steps=np.where(first, 1, self.steps), fractions=np.where(first, 0.0, self.fractions))


def grid(recording: Recording, sensors: Sequence[AbstractSensor], dt: float | None) -> Grid:
    """Steps from the first to the last sample of any sensor; by default as often as the fastest one reads.

    Raises:
        ArgumentError: dt is no positive number; nothing was recorded long enough.
    """
    signals = [recording[column] for sensor in sensors for column in sensor.columns]
    if dt is None:
        dt = min((float(np.median(np.diff(signal.t))) for signal in signals if len(signal) > 1), default=math.nan)
        # Ten digits, so that rounding of the stamps does not shift the grid.
        dt = float(f"{dt:.6g}")
    if not (math.isfinite(dt) and dt > 0):
        raise ArgumentError(f"dt: expected a positive time step in seconds; found {dt!r}")
    times = [time for signal in signals if len(signal) for time in (signal.t[0], signal.t[-1])]
    start, stop = min(times), max(times)
    steps = math.ceil((stop - start) / dt - _ON_STEP) + 1
    if steps < 3:
        raise ArgumentError(
            f"recording {recording.source!r}: expected at least three steps of dt = {dt:g} s; found {stop - start:g} s"
        )
    return Grid(start, dt, steps)


def channel(recording: Recording, sensor: AbstractSensor, delay: float, steps: Grid) -> Channel:
    """The samples of a sensor; those whose delay puts them before the first step are left out."""
    signals = [recording[column] for column in sensor.columns]
    stamps = np.unique(np.concatenate([signal.t for signal in signals]))
    values = np.full((len(stamps), len(signals)), np.nan)
    for row, signal in enumerate(signals):
        values[np.searchsorted(stamps, signal.t), row] = signal.values
    place = (stamps - delay - steps.start) / steps.dt
    nearest = np.round(place)
    place = np.where(np.abs(place - nearest) < _ON_STEP, nearest, place)
    end = np.ceil(place).astype(int)
    fractions = place - (end - 1)
    inside = (place >= 0) & (end < steps.steps)
    return Channel(end[inside], fractions[inside], values[inside], stamps[inside])


def samples(channel: Channel, steps: int, slots: int) -> Samples:
    """The samples of a sensor in slots of every step."""
    rows = channel.values.shape[1]
    values, fractions = np.zeros((steps, slots, rows)), np.ones((steps, slots))
    mask = np.zeros((steps, slots, rows))
    order = np.argsort(channel.steps, kind="stable")
    step = channel.steps[order]
    slot = np.arange(len(step)) - np.searchsorted(step, step)
    found = channel.values[order]
    values[step, slot] = np.nan_to_num(found)
    mask[step, slot] = np.isfinite(found)
    fractions[step, slot] = channel.fractions[order]
    return Samples(jnp.asarray(values), jnp.asarray(fractions), jnp.asarray(mask))


def commands(recording: Recording, inputs: Sequence[Command], steps: Grid) -> np.ndarray:
    """(steps, 2, nc) known forces at both ends of the interval before each step.

    A held command that jumps within an interval counts with its mean over the interval: its impulse is right.
    """
    times = steps.times
    forces = np.zeros((steps.steps, 2, len(inputs)))
    for k, command in enumerate(inputs):
        signal = recording[command.column]
        t, gain = signal.t + float(command.delay), float(command.gain)
        if command.hold == "linear":
            value = np.interp(times, t, signal.values)
            forces[:, 1, k], forces[1:, 0, k], forces[0, 0, k] = value, value[:-1], value[0]
        else:
            impulse = np.concatenate([[0.0], np.cumsum(signal.values[:-1] * np.diff(t))])
            since = np.clip(np.searchsorted(t, times, side="right") - 1, 0, None)
            total = impulse[since] + signal.values[since] * (times - t[since])
            mean = np.diff(total) / steps.dt
            forces[1:, :, k] = mean[:, None]
            forces[0, :, k] = signal.values[since[0]]
        forces[:, :, k] *= gain
    return forces


def padded_steps(steps: int) -> int:
    """The number of steps to compute with."""
    grain = 2 ** max(0, math.floor(math.log2(steps)) - int(math.log2(_GRAIN)))
    return -(-steps // grain) * grain


def step_data(
    grids: Sequence[Grid],
    parts: Sequence[Sequence[Samples]],
    known: Sequence[np.ndarray],
    nx: int,
    local: int,
    total: int,
) -> StepData:
    """The data of several recordings one behind the other, padded to `total` steps; priors are left open."""
    used = sum(g.steps for g in grids)
    pad = total - used

    def stacked(arrays, fill=0.0):
        joined = np.concatenate(arrays)
        return jnp.asarray(np.concatenate([joined, np.full((pad, *joined.shape[1:]), fill)]))

    linked = stacked([np.concatenate([[0.0], np.ones(g.steps - 1)]) for g in grids])
    weights = np.zeros((total, local))
    weights[used:] = 1.0
    return StepData(
        times=jnp.asarray(
            np.concatenate([*(g.times for g in grids), grids[-1].times[-1] + grids[-1].dt * np.arange(1, pad + 1)])
        ),
        linked=linked,
        prior=jnp.zeros((total, nx)),
        prior_weights=jnp.asarray(weights),
        commands=stacked(known),
        samples=tuple(
            Samples(
                stacked([p.values for p in part]),
                stacked([p.fractions for p in part], 1.0),
                stacked([p.mask for p in part]),
            )
            for part in zip(*parts, strict=True)
        ),
    )
