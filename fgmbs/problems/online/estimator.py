"""State estimation in a real-time loop: one sample of the sensors in, one estimate out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from fgmbs.arguments import finite_number, nearest, whole_number
from fgmbs.compiled.flat import flat, pattern_of
from fgmbs.errors import ArgumentError
from fgmbs.inputs import AbstractInput
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.estimation.arguments import (
    checked_commands,
    checked_inputs,
    checked_sensors,
    checked_start,
    checked_window,
    chosen_coordinates,
    nominal_delays,
    refuse_single_precision,
)
from fgmbs.problems.estimation.graph import EstimationModel
from fgmbs.problems.estimation.noise_sizes import freed_sizes
from fgmbs.problems.estimation.unknowns import checked_priors, freed_model
from fgmbs.problems.online.programs import Programs, programs
from fgmbs.problems.simulation.arguments import Integrator, transition_of
from fgmbs.sensors.base import AbstractSensor
from fgmbs.status import Status

Sample: TypeAlias = Float[Array, " numbers"] | Float[np.ndarray, " numbers"]
"""What came in since the last step: of every sensor the values and times of its slots, nan for what did not come; then
the signals of the commands at both ends of the interval. One array: every array that is handed over costs time."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, eq=False)
class OnlineState:
    """What the estimator remembers: a `WindowState` in one array.

    A plain class: to make an equinox module twice in every call takes a quarter of an update.
    """

    numbers: Float[Array, "*batch numbers"]


def _part(name: str, text: str) -> property:
    return property(lambda estimate: estimate._part(name), doc=text)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, eq=False)
class OnlineEstimate:
    """What is known of the newest step, in one array; its parts are cut out where they are asked for."""

    numbers: Float[Array, "*batch numbers"] | Float[np.ndarray, "*batch numbers"]
    layout: tuple[tuple[str, tuple[int, ...]], ...] = field(metadata={"static": True})
    """Name and shape of the parts."""

    t = _part("t", "[s]")
    q = _part("q", "(n,) [m, rad]")
    dq = _part("dq", "(nv,) [m/s, rad/s]")
    ddq = _part("ddq", "(nv,), white forces left out [m/s², rad/s²]")
    forces = _part(
        "forces",
        "(nu,), unknown forces with a memory [N, N·m]; behind them those of a `Disturbance`, in the metric of the mass",
    )
    q_std = _part("q_std", "(n,) [m, rad]")
    dq_std = _part("dq_std", "(nv,) [m/s, rad/s]")
    ddq_std = _part("ddq_std", "(nv,) [m/s², rad/s²]")
    forces_std = _part("forces_std", "(nu,) [N, N·m]")
    steps = _part("steps", "(window, nx), (q, dq, u) of the window, the oldest first: those know of what came after")
    covariances = _part("covariances", "(window, local, local) of the local coordinates, if the estimator finds them")
    unknowns = _part("unknowns", "(p,), unknown numbers in the order of `OnlineEstimator.unknown_names`")

    @property
    def status(self) -> Status:
        """How the iteration of the window ended."""
        return eqx.tree_at(lambda status: status._value, Status.running, self._part("status").astype(int))

    @property
    def unused(self) -> Array | np.ndarray:
        """Samples that came too late for the window, too early, or found no room."""
        return self._part("unused").astype(int)

    def of(self, numbers: Any) -> "OnlineEstimate":
        """Another estimate, or several, of the same estimator."""
        return OnlineEstimate(np.asarray(numbers), self.layout)

    def _part(self, name: str) -> Array | np.ndarray:
        start = 0
        for other, shape in self.layout:
            size = math.prod(shape)
            if other == name:
                # NumPy cuts a hundred times faster.
                numbers = self.numbers if isinstance(self.numbers, Tracer) else np.asarray(self.numbers)
                return numbers[..., start : start + size].reshape((*numbers.shape[:-1], *shape))
            start += size
        raise AttributeError(f"the estimator does not find {name}")


@dataclass(frozen=True, eq=False)
class OnlineEstimator:
    """A fixed-lag smoother for a real-time loop; made by `fgmbs.online`.

    `step` is a pure function of arrays, always of the same shape, and compiled with the first state: it can also stand
    in a `jax.lax.scan` over a recording, or under `jax.vmap` over states and samples. Estimators of the same structure
    share their programs, whatever their numbers are.

    Attributes:
        model: Mechanism, sensors and forces.
        window: Steps in the window.
        slots: Samples of one sensor that a step has room for.
        covariances: Whether estimates hold the covariances of all steps of the window.
    """

    model: EstimationModel
    window: int
    slots: int
    covariances: bool = False
    _numbers: Float[Array, " numbers"] = field(init=False, repr=False)
    _programs: Programs = field(init=False, repr=False)

    def __post_init__(self):
        # One array, because every array that is handed over costs time at every call.
        object.__setattr__(self, "_numbers", jax.device_put(flat(self.model)))
        object.__setattr__(
            self, "_programs", programs(pattern_of(self.model), self.window, self.slots, self.covariances)
        )

    def step(self, state: OnlineState, sample: Sample) -> tuple[OnlineState, OnlineEstimate]:
        """Takes in what came since the last step: (state, sample) → (state, estimate at the new step)."""
        numbers, estimate = self._programs.step(self._numbers, state.numbers, sample)
        return OnlineState(numbers), OnlineEstimate(estimate, self._programs.layout)

    @property
    def sensor_names(self) -> tuple[str, ...]:
        """Names of the sensors, in their order."""
        return tuple(sensor.name for sensor in self.model.sensors)

    @property
    def force_names(self) -> tuple[str, ...]:
        """Names of the unknown forces with a memory that act on an actuator or along a velocity, in their order."""
        return tuple(force.name for force in self.model.augmented)

    @property
    def unknown_names(self) -> tuple[str, ...]:
        """Names of the unknown numbers of mechanism and sensors, one for each number."""
        return tuple(place.name for place in self.model.free.places for _ in range(place.size))

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
        model = self.model
        given = [float(model.dt)], start or {}, start_velocities, start_sigma
        (begin,) = checked_start([model.mechanism], model.chart.dof, model.inputs, *given)
        return self.begin(begin.x, begin.sigma, finite_number(t, "t"), np.zeros(len(model.commands)))

    def begin(self, x, sigma, t: float, commands) -> OnlineState:
        """The state before the first step, near x with these standard deviations, at these signals of the commands."""
        return OnlineState(self._programs.begin(self._numbers, x, sigma, jnp.asarray(t, dtype=float), commands))

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
        model = self.model
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
        signals = [float(given_commands[name]) for name in names]
        return self.pack(read, np.array([signals, signals]))

    def pack(self, read: Sequence[tuple[np.ndarray, np.ndarray]], commands: np.ndarray) -> Sample:
        """The sample of (values (n, rows), times (n,)) of every sensor, and (2, nc) signals of the commands."""
        parts = []
        for sensor, (values, times) in zip(self.model.sensors, read, strict=True):
            filled = np.full((self.slots, sensor.rows + 1), np.nan)
            filled[: len(times), :-1], filled[: len(times), -1] = values, times
            parts.append(filled.ravel())
        return np.concatenate([*parts, commands.ravel()])


def online(
    mechanism: AbstractMechanism,
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    dt: float,
    window: int = 5,
    slots: int = 1,
    integrator: Integrator = "hermite_simpson",
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
            from a recording (`est.inputs`). Commands are given to every step as they act then, whatever their delay is.
        dt: Time between steps [s].
        window: Steps in the window, at least 2.
        slots: Samples of one sensor that a step has room for.
        integrator: Integration rule between steps, see `simulate`.
        independent: Coordinates in which the solver moves; by default the best ones at every step.
        between_steps: Whether samples are read between steps; if not, every sample counts as read on a step, which
            takes less time.

    Raises:
        ArgumentError: An argument is invalid, or a size of noise is missing.
        AssemblyError: The mechanism cannot move.
    """
    refuse_single_precision()
    if not (math.isfinite(finite_number(dt, "dt")) and dt > 0):
        raise ArgumentError(f"dt: expected a positive time step in seconds; found {dt!r}")
    whole_number("slots", slots, 1)
    whole_number("window", window, 2)
    checked_mechanism(mechanism)
    sensors = checked_sensors(mechanism, sensors)
    inputs = checked_inputs(mechanism, inputs, sensors)
    checked_commands(inputs, recorded=False)
    sensors, inputs, sizes = freed_sizes(mechanism, sensors, inputs, window * dt)
    checked_window(window, 1, sizes)
    mechanism, sensors, inputs, free = freed_model(mechanism, sensors, inputs)
    checked_priors(free)
    chart = chosen_coordinates(mechanism, independent)
    model = EstimationModel(
        mechanism.evaluated(),
        sensors,
        inputs,
        free,
        jnp.asarray(dt, dtype=float),
        chart,
        nominal_delays(sensors),
        tuple(not between_steps and f"{sensor.name}.delay" not in free.names for sensor in sensors),
        transition_of(integrator),
    )
    return OnlineEstimator(model, int(window), int(slots))
