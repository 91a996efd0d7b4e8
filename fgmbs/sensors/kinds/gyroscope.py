"""Gyroscopes."""

from typing import ClassVar, Unpack

import equinox as eqx
from jaxtyping import Array, Float

from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.channel import Channel, ChannelOptions
from fgmbs.sensors.places import Axes, about, checked_axes


class Gyroscope(AbstractSensor):
    """Angular velocity of a body in its own axes, that of Rᵀ dR/dt [rad/s]."""

    channel: Channel
    body: str = eqx.field(static=True)
    axes: Axes = eqx.field(static=True)
    order: ClassVar[int] = 1

    def __init__(self, name: str, *, body: str, axes: Axes = ("z",), **options: Unpack[ChannelOptions]):
        """A gyroscope.

        Args:
            name: Its name.
            body: Body that it is fixed to.
            axes: Axes of the body about which it reads, as ("x", "y", "z") in space; in the plane a body turns about z.
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An invalid argument.
        """
        self.axes = checked_axes(name, axes)
        self.channel = Channel(name, len(self.axes), **options)
        self.body = body

    @property
    def units(self) -> tuple[str, ...]:
        return ("rad/s",) * self.rows

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        (R, _), (dR, _) = mechanism.body_motion(self.body, reading.q, reading.dq, reading.t)
        return about(self.axes, R.T @ dR)
