"""Gyroscopes."""

from typing import ClassVar, Unpack

import equinox as eqx
from jaxtyping import Array, Float

from fgmbs.constraints.plane import cross
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading, rate
from fgmbs.sensors.channel import Channel, ChannelOptions


class Gyroscope(AbstractSensor):
    """Angular velocity of a body of a planar mechanism [rad/s]."""

    channel: Channel
    body: str = eqx.field(static=True)
    order: ClassVar[int] = 1

    def __init__(self, name: str, *, body: str, **options: Unpack[ChannelOptions]):
        """A gyroscope.

        Args:
            name: Its name.
            body: Body that it is fixed to.
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An argument that cannot be meant.
        """
        self.channel = Channel(name, 1, **options)
        self.body = body

    @property
    def units(self) -> tuple[str, ...]:
        return ("rad/s",)

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, "1"]:
        e, de = rate(mechanism, reading, lambda q, t: mechanism.body_frame(self.body, q, t)[0][:, 0])
        return cross(e, de)[None]
