"""What sensors would read along a motion."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, by_name, finite, nearest, of_type, whole_number
from fgmbs.compiled.program import program
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.base import prepared
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.sensors.base import AbstractSensor, Reading, wrapped
from fgmbs.signals.recordings.recording import Recording, Signal
from fgmbs.typing import Scalar
from fgmbs.unknowns import is_unknown, known

_SLACK = 1e-9
"""Share of the length of a motion by which a time may lie outside of it: rounding."""
_MOST_SAMPLES = 10_000_000
"""Of a sensor."""


class _Motion(eqx.Module):
    """Samples of a motion."""

    t: Float[Array, " steps"]
    q: Float[Array, "steps n"]
    dq: Float[Array, "steps nv"]
    forces: dict[str, Float[Array, " steps"]]


def readings(
    mechanism: AbstractMechanism,
    motion: Any,
    sensors: Sequence[AbstractSensor],
    *,
    rates: Mapping[str, float | int] | float | int | None = None,
    times: Mapping[str, Numbers] | None = None,
    forces: Mapping[str, Numbers] | None = None,
    calibration: Mapping[str, Mapping[str, Numbers]] | None = None,
    seed: int | None = None,
) -> Recording:
    """What the sensors would read along a motion.

    Between its samples local coordinates are cubic in time, from positions and velocities, and forces are linear.
    Accelerations and multipliers are those of the equations of motion.

    Args:
        mechanism: The mechanism that moves.
        motion: Anything with times t (steps,), coordinates q and velocities dq, as the result of `simulate`.
        sensors: The sensors.
        rates: Readings per second by name of the sensor, or of all sensors [Hz]; by default they read at the times of
            the motion.
        times: When they read by name of the sensor, instead [s]; these are the stamps, a delay after what is read.
        forces: Total force on actuators and along velocities by name at the times of the motion [N, N·m]; by default
            those that the motion tells.
        calibration: True values of `Unknown` calibration numbers by name of the sensor, as {"imu": {"bias": 0.1}};
            by default the values of their priors.
        seed: Seed of the noise, which is different for sensors of different names; no noise by default.

    Raises:
        ArgumentError: An invalid argument.
    """
    checked_mechanism(mechanism)
    of_type("sensors", sensors, (list, tuple), "sensors as of fgmbs.sensors, in a list")
    check_sensors(mechanism, sensors)
    rates = {sensor.name: rates for sensor in sensors} if isinstance(rates, int | float) else rates
    rates, times, calibration = ({} if given is None else given for given in (rates, times, calibration))
    if seed is not None:
        whole_number("seed", seed)
    for argument, given in (("rates", rates), ("times", times), ("calibration", calibration)):
        _known_names(argument, given, [sensor.name for sensor in sensors], "sensors")
    if forces is not None:
        _known_names("forces", forces, (*mechanism.actuator_names, *mechanism.velocity_names), "targets")
    checked_motion(motion)
    sampled = _sampled(motion, forces)
    mechanism = prepared(mechanism)

    signals: dict[str, Signal] = {}
    for sensor in sensors:
        sensor = _true(sensor, calibration.get(sensor.name, {}))
        stamps = _stamps(sensor, sampled, rates, times)
        values = np.asarray(_read(mechanism, sensor, sampled, jnp.asarray(stamps)))
        stamps = _stamped(sensor, stamps, seed)
        for column, unit, row in zip(sensor.columns, sensor.units, _recorded(sensor, values, seed).T, strict=True):
            signals[column] = Signal(stamps, row, unit)
    return Recording(signals, source="readings of a motion")


def checked_motion(motion: object) -> None:
    """Refuses what is no motion.

    Raises:
        ArgumentError: It has no times, coordinates and velocities.
    """
    if any(getattr(motion, name, None) is None for name in ("t", "q", "dq")):
        raise ArgumentError(
            f"motion: expected one with t, q and dq, as fgmbs.simulate gives it; found {type(motion).__name__}"
        )


def check_sensors(mechanism: AbstractMechanism, sensors: Sequence[AbstractSensor]) -> None:
    """Refuses sensors that the mechanism, or each other, do not allow.

    Raises:
        ArgumentError: None at all, two of one name or column, or one that measures what is not there.
    """
    if not sensors:
        raise ArgumentError("sensors: expected at least one; found none, so that nothing is observable")
    for sensor in sensors:
        of_type("sensors", sensor, AbstractSensor, "sensors as of fgmbs.sensors")
    columns: dict[str, str] = {}
    names: set[str] = set()
    for sensor in sensors:
        if sensor.name in names:
            raise ArgumentError(f"sensors: expected different names; found {sensor.name!r} twice")
        names.add(sensor.name)
        for column in sensor.columns:
            if column in columns:
                raise ArgumentError(
                    f"sensor {sensor.name!r}: columns: expected columns that no other sensor reads; found {column!r}, "
                    f"which {columns[column]!r} reads"
                )
            columns[column] = sensor.name
        sensor.check(mechanism)


def _known_names(argument: str, given: Mapping[str, Any], names: Sequence[str], kind: str) -> None:
    by_name(argument, given, f"numbers by name of {kind}")
    for name in given:
        if name not in names:
            raise ArgumentError(f"{argument}: expected names of {kind}; found {name!r}{nearest(name, names, kind)}")


def _sampled(motion: Any, forces: Mapping[str, Numbers] | None) -> _Motion:
    """The samples of a motion; its own forces by default."""
    if forces is None:
        own: Any = getattr(motion, "applied_forces", getattr(motion, "forces", None))
        if own is None or isinstance(own, Mapping):
            forces = own or {}
        else:  # one column for each motor
            forces = dict(zip((motor.name for motor in motion.motors), own.T, strict=True))
    t, q, dq = (jnp.asarray(part, dtype=float) for part in (motion.t, motion.q, motion.dq))
    if t.ndim != 1 or t.size < 2:
        raise ArgumentError(f"motion: expected times of shape (steps,), two or more; found shape {t.shape}")
    given = {name: finite(f"forces[{name!r}]", force) for name, force in forces.items()}
    for name, force in given.items():
        if force.shape != t.shape:
            raise ArgumentError(
                f"forces[{name!r}]: expected {t.size} numbers, one for each time of the motion; "
                f"found shape {force.shape}"
            )
    return _Motion(t, q, dq, {name: jnp.asarray(force, dtype=float) for name, force in given.items()})


def _true(sensor: AbstractSensor, given: Mapping[str, Numbers]) -> AbstractSensor:
    """The sensor with the true values of its unknown numbers."""
    argument = f"calibration[{sensor.name!r}]"
    unknowns = sensor.unknowns
    _known_names(argument, given, tuple(unknowns), "unknown calibration numbers")
    truth = []
    for key, unknown in unknowns.items():
        value = finite(f"{argument}[{key!r}]", given.get(key, unknown.value))
        if value.size == 1 and not unknown.value.shape:
            value = value.reshape(())
        if value.shape not in ((), unknown.value.shape):
            raise ArgumentError(f"{argument}[{key!r}]: expected {unknown.value.shape}; found shape {value.shape}")
        truth.append(jnp.broadcast_to(jnp.asarray(value, dtype=float), unknown.value.shape))
    leaves, structure = jax.tree.flatten(sensor, is_leaf=is_unknown)
    values = iter(truth)
    return jax.tree.unflatten(structure, [next(values) if is_unknown(leaf) else leaf for leaf in leaves])


def _stamps(
    sensor: AbstractSensor,
    motion: _Motion,
    rates: Mapping[str, float | int],
    times: Mapping[str, Numbers],
) -> Float[np.ndarray, " samples"]:
    """Times at which a sensor reads something within the motion."""
    name, delay = sensor.name, float(0.0 if sensor.delay is None else sensor.delay)
    t = np.asarray(motion.t)
    slack = _SLACK * (t[-1] - t[0])
    first, last = t[0] + delay - slack, t[-1] + delay + slack
    if name in times:
        if name in rates:
            raise ArgumentError(f"times: expected times or a rate of {name!r}; found both")
        stamps = np.atleast_1d(np.asarray(finite(f"times[{name!r}]", times[name])))
        if stamps.ndim != 1 or stamps.size == 0:
            raise ArgumentError(f"times[{name!r}]: expected times of shape (samples,); found shape {stamps.shape}")
        if stamps.min() < first or stamps.max() > last:
            raise ArgumentError(
                f"times[{name!r}]: expected times from {first + slack:g} to {last - slack:g} s, when the motion can be "
                f"read; found {stamps.min():g} to {stamps.max():g} s"
            )
        return stamps
    if name in rates:
        rate = finite(f"rates[{name!r}]", rates[name])
        if rate.ndim or rate <= 0:
            raise ArgumentError(f"rates[{name!r}]: expected a positive number; found {rates[name]!r}")
        if (t[-1] - t[0]) * rate > _MOST_SAMPLES:
            raise ArgumentError(f"rates[{name!r}]: expected at most {_MOST_SAMPLES:,} samples; found {rates[name]!r}")
        t = t[0] + np.arange(int(np.floor((t[-1] - t[0] + slack) * rate)) + 1) / rate
    stamps = t[(t >= first) & (t <= last)]
    if stamps.size == 0:
        raise ArgumentError(f"sensor {name!r}: delay: expected less than the motion takes; found {delay:g} s")
    return stamps


def _stamped(
    sensor: AbstractSensor, times: Float[np.ndarray, " samples"], seed: int | None
) -> Float[np.ndarray, " samples"]:
    """Times as they are stamped: with the noise of stamps, which leaves their order."""
    if seed is None or sensor.time_sigma is None:
        return times
    noise = np.random.default_rng((seed, zlib.crc32(f"{sensor.name}.time".encode())))
    stamps = times + float(sensor.time_sigma) * noise.standard_normal(times.shape)
    if np.any(np.diff(stamps) <= 0):
        raise ArgumentError(
            f"sensor {sensor.name!r}: time_sigma: expected stamps that keep the order of samples; found "
            f"{float(sensor.time_sigma):g} s where samples are {np.min(np.diff(times)):g} s apart"
        )
    return stamps


@program
def _read(
    mechanism: AbstractMechanism,
    sensor: AbstractSensor,
    motion: _Motion,
    stamps: Float[Array, " samples"],
) -> Float[Array, "samples rows"]:
    """Readings without noise."""
    delay = jnp.zeros_like(stamps[0]) if sensor.delay is None else sensor.delay
    return jax.vmap(lambda t: sensor.predict(mechanism, _reading(mechanism, sensor.order, motion, t - delay)))(stamps)


def _reading(mechanism: AbstractMechanism, order: int, motion: _Motion, t: Scalar) -> Reading:
    """What there is to read at time t."""
    k = jnp.clip(jnp.searchsorted(motion.t, t, side="right") - 1, 0, motion.t.size - 2)
    h = motion.t[k + 1] - motion.t[k]
    s = (t - motion.t[k]) / h
    # Cubic Hermite v(s) from 0 to the step, in local coordinates of its start, and its rate.
    q0, v0 = motion.q[k], motion.dq[k]
    v1, dv1 = mechanism.rate(lambda q, _: mechanism.local(q0, q), motion.q[k + 1], motion.dq[k + 1], t)
    v = s**2 * (3 - 2 * s) * v1 + h * (s * (1 - s) ** 2 * v0 - s**2 * (1 - s) * dv1)
    dv = 6 * s * (1 - s) * v1 / h + (1 - s) * (1 - 3 * s) * v0 + s * (3 * s - 2) * dv1
    forces = {name: (1 - s) * force[k] + s * force[k + 1] for name, force in motion.forces.items()}
    q = mechanism.retract(q0, v)
    zero, one = jnp.zeros_like(s), jnp.ones_like(s)
    _, dq = jax.jvp(lambda r: mechanism.local(q, mechanism.retract(q0, v + r * dv)), (zero,), (one,))
    ddq, lambda_ = None, None
    if order >= 2:
        ddq, lambda_ = mechanism.accelerations(q, dq, t, applied_forces(mechanism, q, t, forces))
    return Reading(q, dq, ddq, lambda_, forces, t)


def applied_forces(
    mechanism: AbstractMechanism, q: Float[Array, " n"], t: Scalar, forces: Mapping[str, Scalar]
) -> Float[Array, " nv"]:
    """Generalized forces of forces on actuators and along velocities by name [N, N·m]."""
    actuators, velocities = mechanism.actuator_names, mechanism.velocity_names
    commands = jnp.array([forces.get(name, 0.0) for name in actuators], q.dtype)
    Q = mechanism.actuation(q, t) @ commands
    for name, force in forces.items():
        if name not in actuators:
            Q = Q.at[velocities.index(name)].add(force)
    return Q


def _recorded(
    sensor: AbstractSensor, values: Float[np.ndarray, "samples rows"], seed: int | None
) -> Float[np.ndarray, "samples rows"]:
    """Readings as they come out of the sensor: with noise, modulo 2π, in steps of the resolution."""
    if seed is not None:
        # Of the name, so that a sensor reads the same whatever others there are.
        noise = np.random.default_rng((seed, zlib.crc32(sensor.name.encode())))
        values = values + np.asarray(known(sensor.sigma)) * noise.standard_normal(values.shape)
    if sensor.circular:
        values = np.asarray(wrapped(jnp.asarray(values)))
    resolution = float(sensor.resolution)
    return np.round(values / resolution) * resolution if resolution > 0 else values
