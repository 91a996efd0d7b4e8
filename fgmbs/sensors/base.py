"""What every sensor answers: what it would read of a motion."""

import abc
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.compiled.flat import Pattern, pattern_of, unflat
from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import ArgumentError
from fgmbs.losses import AbstractLoss
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.channel import Channel
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities
from fgmbs.unknowns import Path, Unknown, is_unknown, known


class Reading(eqx.Module):
    """What there is to read at one instant."""

    q: Coordinates
    """Coordinates [m, rad]."""
    dq: Velocities
    """Velocities [m/s, rad/s]."""
    ddq: Velocities | None
    """Accelerations, for sensors of order 2 and 3 [m/s², rad/s²]."""
    lambda_: Constraints | None
    """Multipliers of the constraints, for sensors of order 3."""
    forces: Mapping[str, Scalar]
    """Total force by name of the actuator or velocity it acts on; 0 for a name that is not there [N, N·m]."""
    t: Scalar
    """Time [s]."""


class AbstractSensor(eqx.Module):
    """A sensor: what a perfect one reads, and how the real one differs from that."""

    channel: eqx.AbstractVar[Channel]
    order: eqx.AbstractClassVar[int]
    """What it reads: 0 q, 1 also dq, 2 also ddq, 3 also the multipliers."""

    @property
    @abc.abstractmethod
    def units(self) -> tuple[str, ...]:
        """Unit of each row."""

    @property
    def circular(self) -> bool:
        """Whether it reads angles modulo 2π."""
        return False

    @property
    def feels_forces(self) -> bool:
        """Whether a force that jumps makes its reading jump."""
        return self.order >= 2

    @abc.abstractmethod
    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        """What a perfect sensor reads, in SI units.

        Raises:
            ArgumentError: The mechanism lacks what it measures.
        """

    @property
    def name(self) -> str:
        return self.channel.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Signal of the recording for each row."""
        return self.channel.columns

    @property
    def rows(self) -> int:
        """Numbers of one reading."""
        return self.channel.rows

    @property
    def group(self) -> int:
        """Rows that read one thing, of which an outlier is one of all."""
        return self.channel.group

    @property
    def sigma(self) -> Float[Array, "*rows"] | Unknown:
        """Standard deviation of the noise, in the units of the reading."""
        return self.channel.sigma

    @property
    def resolution(self) -> Float[Array, ""]:
        """Step of the readings, in their unit."""
        return self.channel.resolution

    @property
    def time_sigma(self) -> Float[Array, ""] | Unknown | None:
        """Standard deviation of the stamps [s]; None where it depends on the recording."""
        return self.channel.time_sigma

    @property
    def bias(self) -> Array | Unknown | None:
        return self._calibration("bias")

    @property
    def gain(self) -> Array | Unknown | None:
        return self._calibration("gain")

    @property
    def delay(self) -> Array | Unknown | None:
        """How much later than it happens a value is stamped [s]."""
        return self._calibration("delay")

    @property
    def misalignment(self) -> Array | Unknown | None:
        """Angle, or rotation vector of three axes, by which the axes of the sensor are turned [rad]."""
        return self._calibration("misalignment")

    def _calibration(self, key: str) -> Array | Unknown | None:
        return self.channel.calibration.get(key)

    @property
    def loss(self) -> AbstractLoss | None:
        return self.channel.loss

    @property
    def unknowns(self) -> dict[str, Unknown]:
        """Its numbers that are to be found, by the names of their attributes."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(self, is_leaf=is_unknown)
        return {attribute(path): leaf for path, leaf in leaves if is_unknown(leaf)}

    def noise_sigma(self) -> Float[Array, " rows"]:
        """Standard deviation of each row, that of rounding to the resolution included."""
        return _noise_sigma(known(self.sigma), self.resolution, self.rows)

    def predict(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        """gain · R(misalignment)ᵀ ideal + bias, unknown numbers having their values.

        Args:
            mechanism: The mechanism.
            reading: The instant that is read; a delay is the matter of who chooses it.
        """
        y, numbers = self.ideal(mechanism, reading), known(self.channel.calibration)

        def calibrated(y):
            if "misalignment" in numbers:
                y = turned_back(y, numbers["misalignment"])
            if "gain" in numbers:
                y = numbers["gain"] * y
            return y + numbers["bias"] if "bias" in numbers else y

        if self.group == self.rows:
            return calibrated(y)
        return jax.vmap(calibrated)(y.reshape(-1, self.group)).ravel()

    def error(self, predicted: Float[Array, " rows"], measured: Float[Array, " rows"]) -> Float[Array, " rows"]:
        """predicted − measured; for angles modulo 2π the difference that is nearest to 0."""
        difference = predicted - measured
        return wrapped(difference) if self.circular else difference

    def check(self, mechanism: AbstractMechanism) -> None:
        """Refuses a mechanism that lacks what the sensor measures.

        Raises:
            ArgumentError: Names the sensor and its argument, and offers the nearest names.
        """

        try:
            shape = _shape(pattern_of(known((mechanism, self))))
        except ArgumentError as error:
            raise ArgumentError(f"sensor {self.name!r}: {error}") from None
        if shape != (self.rows,):
            raise ArgumentError(
                f"sensor {self.name!r}: expected a mechanism of which it reads {self.rows} "
                f"number{'s' * (self.rows > 1)}; found {shape}"
            )


@lru_cache(maxsize=256)
def _shape(pattern: Pattern) -> tuple[int, ...]:
    """What a sensor reads of a mechanism has this shape."""

    def read(numbers):
        mechanism, sensor = unflat(pattern, numbers)
        q, dq = mechanism.reference, jnp.zeros(mechanism.nv)
        return sensor.ideal(mechanism, Reading(q, dq, dq, jnp.zeros(mechanism.m), {}, jnp.asarray(0.0)))

    return jax.eval_shape(read, jax.ShapeDtypeStruct((pattern.size,), float)).shape


def attribute(path: Path) -> str:
    """Name of the number at a path in a sensor or an input: that of its attribute."""
    return jax.tree_util.keystr(path[-1:], simple=True)


def wrapped(angle: Float[Array, "*rows"]) -> Float[Array, "*rows"]:
    """The angle in [−π, π] that is the same modulo 2π [rad]."""
    return angle - 2 * jnp.pi * jnp.round(angle / (2 * jnp.pi))


def turned_back(y: Float[Array, " rows"], by: Float[Array, "*angles"]) -> Float[Array, " rows"]:
    """R(by)ᵀ y: two components turned by an angle, three by a rotation vector [rad]."""
    if y.shape[0] == 2:
        c, s = jnp.cos(by), jnp.sin(by)
        return jnp.stack([c * y[0] + s * y[1], c * y[1] - s * y[0]])
    square = by @ by
    small = square < 1e-6  # where the next terms of the series are below rounding
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    a = jnp.where(small, 1 - square / 6 + square**2 / 120, jnp.sin(angle) / angle)
    b = jnp.where(small, 1 / 2 - square / 24 + square**2 / 720, 2 * (jnp.sin(angle / 2) / angle) ** 2)
    across = jnp.cross(by, y)
    return y - a * across + b * jnp.cross(by, across)


@program(**ONCE)
def _noise_sigma(sigma: Array, resolution: Array, rows: int) -> Float[Array, " rows"]:
    return jnp.broadcast_to(jnp.sqrt(sigma**2 + resolution**2 / 12), (rows,))


def rate(mechanism: AbstractMechanism, reading: Reading, function: Callable[[Coordinates, Scalar], Array]) -> Any:
    """Value and time derivative of function(q, t) along the motion."""
    return mechanism.rate(function, reading.q, reading.dq, reading.t)
