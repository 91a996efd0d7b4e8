"""Distances of two points."""

from typing import ClassVar, Unpack

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.channel import Channel, ChannelOptions


class Distance(AbstractSensor):
    """Distance of two points: wires, linear transducers, range finders [m]."""

    channel: Channel
    between: tuple[str, str] = eqx.field(static=True)
    order: ClassVar[int] = 0

    def __init__(self, name: str, *, between: tuple[str, str], **options: Unpack[ChannelOptions]):
        """A sensor of a distance.

        Args:
            name: Its name.
            between: The two points.
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An invalid argument.
        """
        if isinstance(between, str) or len(between) != 2 or between[0] == between[1]:
            raise ArgumentError(f"sensor {name!r}: between: expected two different points; found {between!r}")
        self.channel = Channel(name, 1, **options)
        self.between = (between[0], between[1])

    @property
    def units(self) -> tuple[str, ...]:
        return ("m",)

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, "1"]:
        a, b = (mechanism.point_position(point, reading.q) for point in self.between)
        square = jnp.sum((b - a) ** 2)
        # Derivative 0, not NaN, where the points meet.
        return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)[None]
