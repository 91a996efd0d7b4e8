"""State estimation in a real-time loop: one sample of the sensors in, one estimate out."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fgmbs.errors import ArgumentError, Status
from fgmbs.inputs import AbstractInput
from fgmbs.io.expressions import nearest
from fgmbs.kinematics.names import finite_number
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation_arguments import (
    checked_inputs,
    checked_sensors,
    checked_start,
    checked_window,
    chosen_coordinates,
    nominal_delays,
)
from fgmbs.problems.estimation_graph import EstimationModel, Samples, StepData
from fgmbs.problems.noise_sizes import to_be_found
from fgmbs.problems.window import Follower, FollowState
from fgmbs.sensors.base import AbstractSensor
from fgmbs.typing import Coordinates, Scalar, Velocities

_ON_STEP = 1e-6
"""Distance from a step, in steps, below which a sample lies on it."""


Sample: TypeAlias = Float[Array, " numbers"] | Float[np.ndarray, " numbers"]
"""What came in since the last step: of every sensor the values and times of its slots, nan for what did not come; then
the known forces at both ends of the interval. One array, because every array that is handed over costs time."""


class OnlineState(NamedTuple):
    """What the estimator remembers."""

    window: FollowState
    step: Int[Array, ""]
    """Steps that have been taken in."""
    t: Float[Array, ""]
    """Time of the next step [s]."""


class OnlineEstimate(NamedTuple):
    """What is known of the newest step."""

    t: Scalar
    """[s]"""
    q: Coordinates
    """[m, rad]"""
    dq: Velocities
    """[m/s, rad/s]"""
    ddq: Velocities
    """White forces left out [m/s², rad/s²]."""
    forces: Float[Array, " nu"]
    """Unknown forces with a memory [N, N·m]."""
    q_std: Coordinates
    dq_std: Velocities
    ddq_std: Velocities
    forces_std: Float[Array, " nu"]
    steps: Float[Array, "window nx"]
    """(q, dq, u) of all steps of the window, the oldest first: those know of what came after them."""
    covariances: Float[Array, "window local local"] | None
    """Of the local coordinates of these steps, if the estimator was told to find them."""
    calibration: Float[Array, " p"]
    """Calibration numbers, in the order of `OnlineEstimator.calibration_names`."""
    status: Status
    unused: Int[Array, ""]
    """Samples that came too late for the window, too early, or found no room."""


@dataclass(frozen=True, eq=False)
class OnlineEstimator:
    """A fixed-lag smoother for a real-time loop; made by `fgmbs.online`.

    `step` is a pure function of arrays, always of the same shape, and compiled on its first call: it can also stand in
    a `jax.lax.scan` over a recording, or under `jax.vmap` over states and samples.

    Attributes:
        follower: Model and window.
        slots: Samples of one sensor that a step has room for.
        covariances: Whether estimates hold the covariances of all steps of the window.
    """

    follower: Follower
    slots: int
    covariances: bool = False
    step: Callable[[OnlineState, Sample], tuple[OnlineState, OnlineEstimate]] = field(init=False, repr=False)
    """Takes in what came since the last step: (state, sample) → (state, estimate at the new step)."""

    def __post_init__(self):
        # The mechanism is part of the program: nothing but states and samples is handed over at every call.
        object.__setattr__(self, "step", jax.jit(partial(_step, self)))

    @property
    def sensor_names(self) -> tuple[str, ...]:
        """Names of the sensors, in their order."""
        return tuple(sensor.name for sensor in self.follower.model.sensors)

    @property
    def force_names(self) -> tuple[str, ...]:
        """Names of the unknown forces with a memory, in their order."""
        return tuple(force.name for force in self.follower.model.wandering)

    @property
    def calibration_names(self) -> tuple[str, ...]:
        """SENSOR.KEY of the calibration numbers that are estimated, one for each number."""
        return tuple(name for name, size in self.follower.model.global_sizes for _ in range(size))

    def init(
        self,
        start: Mapping[str, float] | None = None,
        start_velocities: Mapping[str, float] | None = None,
        *,
        start_sigma: tuple[float, float] | None = None,
        t: float = 0.0,
    ) -> OnlineState:
        """The state before the first step, at time t.

        Args:
            start: Coordinates by name, the rest being assembled; by default the mechanism as drawn [m, rad].
            start_velocities: Velocities by coordinate name; 0 by default.
            start_sigma: Standard deviations of the independent coordinates and of their velocities; by default the
                start is a rough guess that counts for nothing.
            t: Time of the first step [s].

        Raises:
            ArgumentError: Names that are none, or numbers that are not finite.
            AssemblyError: The start cannot be assembled.
        """
        model = self.follower.model
        (begin,) = checked_start(model, 1, start or {}, start_velocities, start_sigma)
        return self.begin(begin.x, begin.sigma, finite_number(t, "t"), np.zeros(len(model.commands)))

    def begin(self, x, sigma, t: float, forces) -> OnlineState:
        """The state before the first step, near x with these standard deviations, under these known forces."""
        return _begin(self.follower, self.slots, x, sigma, jnp.asarray(t, dtype=float), jnp.asarray(forces))

    def sample(
        self,
        readings: Mapping[str, Any],
        commands: Mapping[str, float] | None = None,
    ) -> Sample:
        """What came in since the last step, as `step` takes it.

        Args:
            readings: By name of the sensor its value (a number, or one for each row), read on the step; or
                (time, value) of one that was read at another time, or a list of these. Sensors that are not there, and
                values that are nan, have read nothing.
            commands: Signals of the commands by name; all of them, where there are any.

        Raises:
            ArgumentError: A sensor or command that is none, a value of another size, or more values than slots.
        """
        model = self.follower.model
        for name in readings:
            if name not in self.sensor_names:
                advice = nearest(name, self.sensor_names, "sensors")
                raise ArgumentError(f"readings: expected names of sensors; found {name!r}{advice}")
        read = []
        for sensor in model.sensors:
            given = readings.get(sensor.name, [])
            several = given if isinstance(given, list) else [given if isinstance(given, tuple) else (math.nan, given)]
            if len(several) > self.slots:
                raise ArgumentError(
                    f"readings[{sensor.name!r}]: expected at most {self.slots} values for a step; "
                    f"found {len(several)}; make the estimator with more slots"
                )
            values, times = np.zeros((len(several), sensor.rows)), np.zeros(len(several))
            for k, (when, what) in enumerate(several):
                found = np.asarray(what, float)
                if found.size != sensor.rows:
                    raise ArgumentError(
                        f"readings[{sensor.name!r}]: expected {sensor.rows} number{'s' * (sensor.rows > 1)}; "
                        f"found {what!r}"
                    )
                values[k], times[k] = found.ravel(), when
            read.append((values, times))
        names = [force.name for force in model.commands]
        given_commands = commands or {}
        if set(given_commands) != set(names):
            raise ArgumentError(f"commands: expected values of {names}; found {list(given_commands)}")
        forces = [float(force.gain) * float(given_commands[force.name]) for force in model.commands]
        return self.pack(read, np.array([forces, forces]))

    def pack(self, read: Sequence[tuple[np.ndarray, np.ndarray]], forces: np.ndarray) -> Sample:
        """The sample of (values (n, rows), times (n,)) of every sensor, and (2, nc) known forces."""
        parts = []
        for sensor, (values, times) in zip(self.follower.model.sensors, read, strict=True):
            filled = np.full((self.slots, sensor.rows + 1), np.nan)
            filled[: len(times), :-1], filled[: len(times), -1] = values, times
            parts.append(filled.ravel())
        return np.concatenate([*parts, forces.ravel()])

    def unpack(
        self, sample: Float[Array, " numbers"]
    ) -> tuple[list[Float[Array, "slots rows_1"]], Float[Array, "2 nc"]]:
        """(values and times of every sensor, known forces)."""
        parts, start = [], 0
        for sensor in self.follower.model.sensors:
            size = self.slots * (sensor.rows + 1)
            parts.append(sample[start : start + size].reshape(self.slots, sensor.rows + 1))
            start += size
        return parts, sample[start:].reshape(2, -1)


def online(
    mechanism: AbstractMechanism,
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    dt: float,
    window: int = 5,
    slots: int = 1,
    independent: Sequence[str] | None = None,
    between_steps: bool = True,
) -> OnlineEstimator:
    """An estimator for a real-time loop, that takes in a step of `dt` at a time.

    It is the fixed-lag smoother of `smooth(…, window=…)`, call by call. Samples may be missing, may have been read
    between steps, and may come late by up to the length of the window.

    Args:
        mechanism: The mechanism.
        sensors: What the signals mean.
        inputs: Forces that the description of the mechanism does not tell, all with their sizes, which `smooth` finds
            from a recording (`est.inputs`).
        dt: Time between steps [s].
        window: Steps in the window, at least 2.
        slots: Samples of one sensor that a step has room for.
        independent: Coordinates in which the solver moves; by default the best ones at every step.
        between_steps: Whether samples are read between steps; if not, every sample counts as read on a step, which
            takes less time.

    Raises:
        ArgumentError: An argument cannot be meant, or a size of noise is missing.
        AssemblyError: The mechanism cannot move.
    """
    if not (math.isfinite(finite_number(dt, "dt")) and dt > 0):
        raise ArgumentError(f"dt: expected a positive time step in seconds; found {dt!r}")
    if isinstance(slots, bool) or not isinstance(slots, int | np.integer) or slots < 1:
        raise ArgumentError(f"slots: expected a positive integer; found {slots!r}")
    sensors = checked_sensors(mechanism, sensors)
    inputs = checked_inputs(mechanism, inputs, sensors)
    checked_window(window, 1, to_be_found(inputs))
    chart = chosen_coordinates(mechanism, independent)
    model = EstimationModel(
        mechanism.evaluated(),
        sensors,
        inputs,
        jnp.asarray(dt, dtype=float),
        chart,
        nominal_delays(sensors),
        tuple(not between_steps and "delay" not in sensor.unknowns for sensor in sensors),
    )
    return OnlineEstimator(Follower(model, int(window)), int(slots))


@eqx.filter_jit
def _begin(follower: Follower, slots: int, x, sigma, t, forces) -> OnlineState:
    blank = _blank(follower.model, slots, t, jnp.stack([forces, forces]))
    return OnlineState(follower.init(x, sigma, blank), jnp.asarray(0), t)


def _blank(model: EstimationModel, slots: int, t, forces) -> StepData:
    """A step of which nothing was read."""
    samples = tuple(
        Samples(jnp.zeros((slots, sensor.rows)), jnp.ones(slots), jnp.zeros((slots, sensor.rows)))
        for sensor in model.sensors
    )
    return StepData(t, jnp.ones(()), jnp.zeros(model.step_size), jnp.zeros(model.local_size), forces, samples)


def _step(estimator: OnlineEstimator, state: OnlineState, sample: Sample) -> tuple[OnlineState, OnlineEstimate]:
    follower = estimator.follower
    model = follower.model
    read, forces = estimator.unpack(jnp.asarray(sample))
    newest = _blank(model, estimator.slots, state.t, forces)
    held = state.window.data
    placed, unused = [], jnp.asarray(0)
    for k, came in enumerate(read):
        # The row of the newest step has been a placeholder until now.
        window = jax.tree.map(lambda old, new: old.at[-1].set(new), held.samples[k], newest.samples[k])
        times = came[:, -1] - model.delays[k]
        taken, lost = _place(window, came[:, :-1], times, state.t, model.dt)
        placed.append(taken)
        unused += lost
    window = state.window._replace(data=held._replace(samples=tuple(placed)))
    newest = newest._replace(samples=tuple(jax.tree.map(lambda leaf: leaf[-1], part) for part in placed))
    moved, estimate = follower.step(window, newest, state.step == 0)

    covariances = follower.marginals(estimate).steps if estimator.covariances else None
    x, cov = estimate.steps[-1], follower.newest_covariance(estimate)
    n, nv = model.mechanism.n, model.mechanism.nv
    E = model.chart.tangent(model.mechanism, x, state.t)
    ddq, push = jax.linearize(lambda x: model.accelerations(x, state.t, forces[1])[0], x)
    std = _std(E, cov)
    answer = OnlineEstimate(
        t=state.t,
        q=x[:n],
        dq=x[n : n + nv],
        ddq=ddq,
        forces=x[n + nv :],
        q_std=std[:n],
        dq_std=std[n : n + nv],
        ddq_std=_std(jax.vmap(push, 1, 1)(E), cov),
        forces_std=std[n + nv :],
        steps=estimate.steps,
        covariances=covariances,
        calibration=estimate.globals,
        status=estimate.status,
        unused=unused,
    )
    return OnlineState(moved, state.step + 1, state.t + model.dt), answer


def _std(J, cov):
    return jnp.sqrt(jnp.maximum(jnp.einsum("ia,ab,ib->i", J, cov, J), 0.0))


def _place(window: Samples, values, times, now, dt) -> tuple[Samples, Int[Array, ""]]:
    """The samples of a sensor in the window, and how many of them found no place."""
    steps, slots = window.fractions.shape
    unused = jnp.asarray(0)
    for value, time in zip(values, times, strict=True):
        age = jnp.where(jnp.isnan(time), 0.0, (time - now) / dt)
        age = jnp.where(jnp.abs(age - jnp.round(age)) < _ON_STEP, jnp.round(age), age)
        end = jnp.ceil(age)
        row = (steps - 1 + end).astype(int)
        there = jnp.isfinite(value)
        fits = (row > 0) & (row < steps)
        row = jnp.clip(row, 0, steps - 1)
        full: Bool[Array, " slots"] = jnp.any(window.mask[row] > 0, axis=-1)
        fits &= ~jnp.all(full)
        slot = jnp.argmin(full)
        put = fits & jnp.any(there)
        unused += (~fits & jnp.any(there)).astype(int)
        window = Samples(
            window.values.at[row, slot].set(jnp.where(put, jnp.where(there, value, 0.0), window.values[row, slot])),
            window.fractions.at[row, slot].set(jnp.where(put, age - end + 1, window.fractions[row, slot])),
            window.mask.at[row, slot].set(jnp.where(put, there.astype(value.dtype), window.mask[row, slot])),
        )
    return window, unused
