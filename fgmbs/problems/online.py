"""State estimation in a real-time loop: one sample of the sensors in, one estimate out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

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
from fgmbs.problems.estimation_graph import SENSORS, EstimationModel, Samples, StepData
from fgmbs.problems.noise_sizes import to_be_found
from fgmbs.problems.simulation_arguments import Integrator, transition_of
from fgmbs.problems.window import begin, take_in
from fgmbs.sensors.base import AbstractSensor
from fgmbs.solvers.fixed_lag import WindowState

_ON_STEP = 1e-6
"""Distance from a step, in steps, below which a sample lies on it."""


Sample: TypeAlias = Float[Array, " numbers"] | Float[np.ndarray, " numbers"]
"""What came in since the last step: of every sensor the values and times of its slots, nan for what did not come; then
the known forces at both ends of the interval. One array, because every array that is handed over costs time."""


class OnlineState(eqx.Module):
    """What the estimator remembers: a `WindowState` in one array."""

    numbers: Float[Array, "*batch numbers"]


def _part(name: str, text: str) -> property:
    return property(lambda estimate: estimate._part(name), doc=text)


class OnlineEstimate(eqx.Module):
    """What is known of the newest step, in one array; its parts are cut out where they are asked for."""

    numbers: Float[Array, "*batch numbers"] | Float[np.ndarray, "*batch numbers"]
    layout: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True)
    """Name and shape of the parts."""

    t = _part("t", "[s]")
    q = _part("q", "(n,) [m, rad]")
    dq = _part("dq", "(nv,) [m/s, rad/s]")
    ddq = _part("ddq", "(nv,), white forces left out [m/s², rad/s²]")
    forces = _part("forces", "(nu,), unknown forces with a memory [N, N·m]")
    q_std = _part("q_std", "(n,) [m, rad]")
    dq_std = _part("dq_std", "(nv,) [m/s, rad/s]")
    ddq_std = _part("ddq_std", "(nv,) [m/s², rad/s²]")
    forces_std = _part("forces_std", "(nu,) [N, N·m]")
    steps = _part("steps", "(window, nx), (q, dq, u) of the window, the oldest first: those know of what came after")
    covariances = _part("covariances", "(window, local, local) of the local coordinates, if the estimator finds them")
    calibration = _part("calibration", "(p,), calibration numbers in the order of `OnlineEstimator.calibration_names`")

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

    `step` is a pure function of arrays, always of the same shape, and compiled on its first call: it can also stand in
    a `jax.lax.scan` over a recording, or under `jax.vmap` over states and samples. Estimators of the same structure
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
    _programs: "_Programs" = field(init=False, repr=False)

    def __post_init__(self):
        # One array, because every array that is handed over costs time at every call.
        numbers, pattern = _flat(self.model)
        object.__setattr__(self, "_numbers", numbers)
        object.__setattr__(self, "_programs", _programs(pattern, self.window, self.slots, self.covariances))

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
        """Names of the unknown forces with a memory, in their order."""
        return tuple(force.name for force in self.model.wandering)

    @property
    def calibration_names(self) -> tuple[str, ...]:
        """SENSOR.KEY of the calibration numbers that are estimated, one for each number."""
        return tuple(name for name, size in self.model.global_sizes for _ in range(size))

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
        (begin,) = checked_start(model, 1, start or {}, start_velocities, start_sigma)
        return self.begin(begin.x, begin.sigma, finite_number(t, "t"), np.zeros(len(model.commands)))

    def begin(self, x, sigma, t: float, forces) -> OnlineState:
        """The state before the first step, near x with these standard deviations, under these known forces."""
        return OnlineState(self._programs.begin(self._numbers, x, sigma, jnp.asarray(t, dtype=float), forces))

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
        forces = [float(force.gain) * float(given_commands[force.name]) for force in model.commands]
        return self.pack(read, np.array([forces, forces]))

    def pack(self, read: Sequence[tuple[np.ndarray, np.ndarray]], forces: np.ndarray) -> Sample:
        """The sample of (values (n, rows), times (n,)) of every sensor, and (2, nc) known forces."""
        parts = []
        for sensor, (values, times) in zip(self.model.sensors, read, strict=True):
            filled = np.full((self.slots, sensor.rows + 1), np.nan)
            filled[: len(times), :-1], filled[: len(times), -1] = values, times
            parts.append(filled.ravel())
        return np.concatenate([*parts, forces.ravel()])


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
            from a recording (`est.inputs`).
        dt: Time between steps [s].
        window: Steps in the window, at least 2.
        slots: Samples of one sensor that a step has room for.
        integrator: Integration rule between steps, see `simulate`.
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
        transition_of(integrator),
    )
    return OnlineEstimator(model, int(window), int(slots))


class _Pattern(NamedTuple):
    """Everything in a pytree but the numbers of its arrays; compares by value."""

    tree: Any
    leaves: tuple[Any, ...]
    """Shape and type of what is a number, the rest itself."""


def _is_number(leaf) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | float)


def _flat(tree) -> tuple[np.ndarray | Array, _Pattern]:
    """(all numbers of a pytree in one array, what is left of it)."""
    leaves, structure = jax.tree.flatten(tree)
    numbers = [leaf for leaf in leaves if _is_number(leaf)]
    kept = tuple((np.shape(leaf), jnp.result_type(leaf)) if _is_number(leaf) else leaf for leaf in leaves)
    joined = jnp.concatenate([jnp.ravel(jnp.asarray(leaf)).astype(float) for leaf in numbers])
    return joined, _Pattern(structure, kept)


def _unflat(pattern: _Pattern, numbers: Float[Array, " numbers"]) -> Any:
    leaves, start = [], 0
    for kept in pattern.leaves:
        if isinstance(kept, tuple):
            shape, dtype = kept
            size = math.prod(shape)
            leaves.append(numbers[start : start + size].reshape(shape).astype(dtype))
            start += size
        else:
            leaves.append(kept)
    return jax.tree.unflatten(pattern.tree, leaves)


class _Programs:
    """The compiled functions of all estimators of one structure; all of flat arrays.

    Attributes:
        begin: (model, start value, its standard deviations, time, known forces) → state.
        step: (model, state, sample) → (state, estimate).
        layout: Parts of an estimate.
    """

    def __init__(self, pattern: _Pattern, window: int, slots: int, covariances: bool):
        self.window, self.slots, self.covariances = window, slots, covariances
        self.pattern = pattern
        self.begin, self.step = jax.jit(self._begin), jax.jit(self._step)
        shapes = eqx.filter_eval_shape(self._shapes, jnp.zeros(self._size))
        self.state = _flat(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes[0]))[1]
        self.layout = shapes[1]

    @property
    def _size(self) -> int:
        return sum(math.prod(kept[0]) for kept in self.pattern.leaves if isinstance(kept, tuple))

    def _shapes(self, numbers):
        """(a state, parts of an estimate)."""
        model: EstimationModel = _unflat(self.pattern, numbers)
        state = self._first(model, jnp.zeros(model.step_size), jnp.ones(()), jnp.zeros(()), jnp.zeros(()))
        n, nv, nu, nl, W = model.mechanism.n, model.mechanism.nv, len(model.wandering), model.local_size, self.window
        shapes = dict(t=(), q=(n,), dq=(nv,), ddq=(nv,), forces=(nu,), q_std=(n,), dq_std=(nv,), ddq_std=(nv,))
        shapes |= dict(forces_std=(nu,), steps=(W, model.step_size), calibration=model.calibration[0].shape)
        shapes |= dict(status=(), unused=()) | (dict(covariances=(W, nl, nl)) if self.covariances else {})
        return state, tuple(shapes.items())

    def _first(self, model: EstimationModel, x, sigma, t, forces):
        blank = _blank(model, self.slots, t, jnp.broadcast_to(forces, (2, len(model.commands))))
        return begin(model, self.window, x, blank), jnp.broadcast_to(1 / sigma, (model.local_size,))

    def _begin(self, numbers, x, sigma, t, forces):
        return _flat(self._first(_unflat(self.pattern, numbers), x, sigma, t, forces))[0]

    def _step(self, numbers, state, sample):
        state, parts = self._advance(_unflat(self.pattern, numbers), _unflat(self.state, state), jnp.asarray(sample))
        return _flat(state)[0], _flat([parts[name] for name, _ in self.layout])[0]

    def _advance(self, model: EstimationModel, state, sample):
        window, weights = state
        read, forces = _cut(model, self.slots, sample)
        t, first = window.rows.times[-1] + model.dt, window.taken == 0
        newest = _blank(model, self.slots, t, forces)._replace(
            linked=jnp.where(first, 0.0, 1.0), prior=window.steps[-1], prior_weights=jnp.where(first, weights, 0.0)
        )
        window, newest, unused = _placed(model, window, newest, read)
        window, estimate = take_in(model, window, newest)

        x, cov = estimate.steps[-1], estimate.newest_covariance()
        n, nv = model.mechanism.n, model.mechanism.nv
        E = model.chart.tangent(model.mechanism, x, t)
        ddq, push = jax.linearize(lambda x: model.accelerations(x, t, forces[1])[0], x)
        std = _std(E, cov)
        parts = dict(
            t=t,
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
            status=estimate.status._value,
            unused=unused,
        )
        if self.covariances:
            parts["covariances"] = estimate.marginals().steps
        return (window, weights), parts


_programs = lru_cache(maxsize=64)(_Programs)


def _blank(model: EstimationModel, slots: int, t, forces) -> StepData:
    """A step of which nothing was read."""
    samples = tuple(
        Samples(jnp.zeros((slots, sensor.rows)), jnp.ones(slots), jnp.zeros((slots, sensor.rows)))
        for sensor in model.sensors
    )
    return StepData(t, jnp.ones(()), jnp.zeros(model.step_size), jnp.zeros(model.local_size), forces, samples)


def _std(J, cov):
    return jnp.sqrt(jnp.maximum(jnp.einsum("ia,ab,ib->i", J, cov, J), 0.0))


def _cut(model: EstimationModel, slots: int, sample: Float[Array, " numbers"]):
    """(values and times of every sensor, known forces) of a sample."""
    parts, start = [], 0
    for sensor in model.sensors:
        size = slots * (sensor.rows + 1)
        parts.append(sample[start : start + size].reshape(slots, sensor.rows + 1))
        start += size
    return parts, sample[start:].reshape(2, -1)


def _placed(model: EstimationModel, window: WindowState, newest: StepData, read):
    """The window and its newest step with the samples that came, and how many of these found no place."""
    unused, factors, samples = 0, list(window.rows.factors), []
    for k, (came, empty) in enumerate(zip(read, newest.samples, strict=True)):
        (values, fractions, commands), weights = factors[SENSORS + k]
        held = Samples(values, fractions, weights.reshape(values.shape))
        held = jax.tree.map(lambda old, new: jnp.concatenate([old, new[None]]), held, empty)
        held, lost = _place(held, came[:, :-1], came[:, -1] - model.delays[k], newest.times, model.dt)
        unused += lost
        old, new = (jax.tree.map(itemgetter(part), held) for part in (slice(None, -1), -1))
        factors[SENSORS + k] = (old.values, old.fractions, commands), old.mask.reshape(weights.shape)
        samples.append(new)
    window = window._replace(rows=window.rows._replace(factors=tuple(factors)))
    return window, newest._replace(samples=tuple(samples)), unused


def _place(window: Samples, values, times, now, dt) -> tuple[Samples, Int[Array, ""]]:
    """The samples of a sensor in the window, and how many of them found no place."""
    steps = window.fractions.shape[0]
    unused = jnp.asarray(0)
    for value, time in zip(values, times, strict=True):
        age = jnp.where(jnp.isnan(time), 0.0, (time - now) / dt)
        age = jnp.where(jnp.abs(age - jnp.round(age)) < _ON_STEP, jnp.round(age), age)
        end = jnp.ceil(age)
        there = jnp.isfinite(value)
        # Step 0 leaves the window now, and what lies before it belongs to an interval that has left already.
        row = (jnp.arange(steps) == steps - 1 + end) & (jnp.arange(steps) > 0) & jnp.any(there)
        free = jnp.all(window.mask == 0, axis=-1)
        put = free & (jnp.cumsum(free, axis=1) == 1) & row[:, None]
        unused += (jnp.any(there) & ~jnp.any(put)).astype(int)
        window = Samples(
            jnp.where(put[..., None], jnp.where(there, value, 0.0), window.values),
            jnp.where(put, age - end + 1, window.fractions),
            jnp.where(put[..., None], there.astype(value.dtype), window.mask),
        )
    return window, unused
