"""Accelerometers."""

from typing import ClassVar, Unpack

import equinox as eqx
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.channel import Channel, ChannelOptions
from fgmbs.sensors.places import Axes, Place, along, checked_axes, place
from fgmbs.unknowns import Unknown


class Accelerometer(AbstractSensor):
    """Specific force in the axes of a body, Rᵀ (a − g): at rest it reads 9.81 m/s² upwards [m/s²]."""

    channel: Channel
    place: Place
    axes: Axes = eqx.field(static=True)
    order: ClassVar[int] = 2

    def __init__(
        self,
        name: str,
        *,
        body: str,
        at: Numbers | Unknown | None = None,
        axes: Axes = ("x", "y"),
        **options: Unpack[ChannelOptions],
    ):
        """An accelerometer.

        Args:
            name: Its name.
            body: Body that it is fixed to.
            at: Where, in the frame of the body; by default its origin [m].
            axes: Axes of the body that it reads, as ("x", "y"), ("-y",) or, in space, ("x", "y", "z").
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An invalid argument.
        """
        self.axes = checked_axes(name, axes)
        self.place = place(name, None, body, at)
        self.channel = Channel(name, len(self.axes), **options)

    @property
    def units(self) -> tuple[str, ...]:
        return ("m/s^2",) * self.rows

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        q, dq, t, ddq = reading.q, reading.dq, reading.t, reading.ddq
        frame, _, bent = mechanism.body_motion(str(self.place.body), q, dq, t, ddq)
        return along(self.axes, frame[0].T @ (self.place.on(*bent) - mechanism.gravity))
