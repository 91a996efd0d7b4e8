"""Positions of points: cameras, lasers."""

from typing import ClassVar, Unpack

import equinox as eqx
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.channel import Channel, ChannelOptions
from fgmbs.sensors.places import Axes, Place, along, checked_axes, place
from fgmbs.unknowns import Unknown


class Position(AbstractSensor):
    """Position of a point, seen from the ground.

    For a camera the gain is its scale [px/m], the bias the pixel of the origin and the misalignment its rotation.
    """

    channel: Channel
    place: Place
    axes: Axes = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    order: ClassVar[int] = 0

    def __init__(
        self,
        name: str,
        *,
        point: str | None = None,
        body: str | None = None,
        at: Numbers | Unknown | None = None,
        axes: Axes = ("x", "y"),
        unit: str = "m",
        **options: Unpack[ChannelOptions],
    ):
        """A sensor of positions.

        Args:
            name: Its name.
            point: Point of the mechanism; or
            body: body that it looks at …
            at: … and where, in the frame of the body; by default its origin [m].
            axes: What each row reads: ("x", "-y") for pixels that count downwards, ("y", "x") for a camera on its
                side, ("x",) for a length.
            unit: Unit of the readings; pixels need a gain.
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An invalid argument.
        """
        self.axes, self.unit = checked_axes(name, axes), unit
        self.place = place(name, point, body, at)
        if unit not in ("m", "px"):
            raise ArgumentError(f"sensor {name!r}: unit: expected 'm' or 'px'; found {unit!r}")
        if unit == "px" and options.get("gain") is None:
            raise ArgumentError(f"sensor {name!r}: gain: expected the scale in px/m of a reading in px; found none")
        self.channel = Channel(name, len(self.axes), **options)

    @property
    def units(self) -> tuple[str, ...]:
        return (self.unit,) * self.rows

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        return along(self.axes, self.place.position(mechanism, reading.q, reading.t))
