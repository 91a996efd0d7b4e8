"""State estimation in a real-time loop: one sample of the sensors in, one estimate out."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from fgmbs.errors import ArgumentError, Status
from fgmbs.inputs import AbstractInput, commands
from fgmbs.io.expressions import nearest
from fgmbs.kinematics.names import finite_number
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation_arguments import (
    checked_inputs,
    checked_sensors,
    checked_start,
    checked_window,
    chosen_coordinates,
)
from fgmbs.problems.estimation_graph import EstimationModel, Samples, StepData
from fgmbs.problems.noise_sizes import to_be_found
from fgmbs.problems.window import Follower, FollowState
from fgmbs.sensors.base import AbstractSensor
from fgmbs.typing import Coordinates, Scalar, Velocities

_ON_STEP = 1e-6
"""Distance from a step, in steps, below which a sample lies on it."""


class Sample(NamedTuple):
    """What came in since the last step."""

    values: tuple[Float[Array, "slots rows"], ...]
    """Of every sensor; nan for what did not come."""
    times: tuple[Float[Array, " slots"], ...]
    """When that was read [s]; nan: on the step."""
    commands: Float[Array, " nc"]
    """Signals of the commands that act from now on, in their order."""


class OnlineState(NamedTuple):
    """What the estimator remembers."""

    window: FollowState
    step: Int[Array, ""]
    """Steps that have been taken in."""
    t: Float[Array, ""]
    """Time of the next step [s]."""
    commands: Float[Array, " nc"]
    """Known forces at the last step [N, N·m]."""


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
    """(q, dq, u) of all steps of the window, the oldest first: the last but first steps know of what came after them."""
    calibration: Float[Array, " p"]
    """Calibration numbers, in the order of `OnlineEstimator.calibration_names`."""
    status: Status
    unused: Int[Array, ""]
    """Samples that came too late for the window, too early, or found no room."""


class OnlineEstimator(eqx.Module):
    """A fixed-lag smoother for a real-time loop; made by `fgmbs.online`.

    `step` is compiled on its first call, a pure function of arrays, and always of the same shape: it can also stand in
    a `jax.lax.scan` or under `jax.vmap` over many mechanisms of one kind.
    """

    follower: Follower
    slots: int = eqx.field(static=True)
    independent: tuple[str, ...] | None = eqx.field(static=True)

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
        t = jnp.asarray(finite_number(t, "t"), dtype=float)
        silent = jnp.zeros(len(model.commands))
        return _begin(self, begin.x, begin.sigma, t, silent)

    def sample(
        self,
        readings: Mapping[str, ArrayLike | tuple[float, ArrayLike] | Sequence[tuple[float, ArrayLike]]],
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
        values, times = [], []
        for sensor in model.sensors:
            value = np.full((self.slots, sensor.rows), np.nan)
            time = np.full(self.slots, np.nan)
            given = readings.get(sensor.name, [])
            several = given if isinstance(given, list) else [given if isinstance(given, tuple) else (math.nan, given)]
            if len(several) > self.slots:
                raise ArgumentError(
                    f"readings[{sensor.name!r}]: expected at most {self.slots} values for a step; found {len(several)}; "
                    "make the estimator with more slots"
                )
            for k, (when, what) in enumerate(several):
                found = np.asarray(what, float)
                if found.size != sensor.rows:
                    raise ArgumentError(
                        f"readings[{sensor.name!r}]: expected {sensor.rows} number{'s' * (sensor.rows > 1)}; "
                        f"found {what!r}"
                    )
                value[k], time[k] = found.ravel(), when
            values.append(value)
            times.append(time)
        names = [force.name for force in model.commands]
        given_commands = commands or {}
        if set(given_commands) != set(names):
            raise ArgumentError(f"commands: expected values of {names}; found {list(given_commands)}")
        signals = np.array([float(given_commands[name]) for name in names])
        return Sample(tuple(values), tuple(times), signals)

    def step(self, state: OnlineState, sample: Sample) -> tuple[OnlineState, OnlineEstimate]:
        """Takes in what came since the last step: (state, estimate at the new step)."""
        return _step(self, state, sample)


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
        inputs: Forces that the description of the mechanism does not tell, all with their sizes: `smooth` of a recording
            finds them (`est.inputs`).
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
        (not between_steps,) * len(sensors),
    )
    return OnlineEstimator(Follower(model, int(window)), int(slots), None if independent is None else tuple(independent))


@eqx.filter_jit
def _begin(estimator: OnlineEstimator, x, sigma, t, silent) -> OnlineState:
    blank = _blank(estimator, t, jnp.stack([silent, silent]))
    return OnlineState(estimator.follower.init(x, sigma, blank), jnp.asarray(0), t, silent)


def _blank(estimator: OnlineEstimator, t, forces) -> StepData:
    """A step of which nothing was read."""
    model, slots = estimator.follower.model, estimator.slots
    samples = tuple(
        Samples(jnp.zeros((slots, sensor.rows)), jnp.ones(slots), jnp.zeros((slots, sensor.rows)))
        for sensor in model.sensors
    )
    return StepData(t, jnp.ones(()), jnp.zeros(model.step_size), jnp.zeros(model.local_size), forces, samples)


@eqx.filter_jit
def _step(estimator: OnlineEstimator, state: OnlineState, sample: Sample) -> tuple[OnlineState, OnlineEstimate]:
    follower = estimator.follower
    model = follower.model
    gains = [force.gain for force in commands(model.inputs)]
    forces = sample.commands * jnp.stack(gains) if gains else sample.commands
    newest = _blank(estimator, state.t, jnp.stack([state.commands, state.commands]))
    held = state.window.data
    placed, unused = [], jnp.asarray(0)
    for k, sensor in enumerate(model.sensors):
        # The row of the newest step has been a placeholder until now.
        window = jax.tree.map(lambda old, new: old.at[-1].set(new), held.samples[k], newest.samples[k])
        late = sensor.delay if "delay" not in sensor.unknowns else sensor.unknowns["delay"].value
        taken, lost = _place(window, sample.values[k], sample.times[k] - (0.0 if late is None else late), state.t, model)
        placed.append(taken)
        unused += lost
    window = state.window._replace(data=held._replace(samples=tuple(placed)))
    newest = newest._replace(samples=tuple(jax.tree.map(lambda leaf: leaf[-1], part) for part in placed))
    moved, estimate = follower.step(window, newest, state.step == 0)

    x, cov = estimate.steps[-1], follower.marginals(estimate).steps[-1]
    n, nv = model.mechanism.n, model.mechanism.nv
    E = model.chart.tangent(model.mechanism, x, state.t)
    ddq, push = jax.linearize(lambda x: model.accelerations(x, state.t, state.commands)[0], x)
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
        calibration=estimate.globals,
        status=estimate.status,
        unused=unused,
    )
    return OnlineState(moved, state.step + 1, state.t + model.dt, forces), answer


def _std(J, cov):
    return jnp.sqrt(jnp.maximum(jnp.einsum("ia,ab,ib->i", J, cov, J), 0.0))


def _place(window: Samples, values, times, now, model) -> tuple[Samples, Int[Array, ""]]:
    """The samples of a sensor in the window, and how many of them found no place."""
    steps, slots = window.fractions.shape
    unused = jnp.asarray(0)
    for value, time in zip(values, times, strict=True):
        age = jnp.where(jnp.isnan(time), 0.0, (time - now) / model.dt)
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
