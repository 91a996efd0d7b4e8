"""Velocities of points and of the mechanism."""

from typing import ClassVar, Unpack

import equinox as eqx
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.names import velocity_index
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading, rate
from fgmbs.sensors.channel import Channel, ChannelOptions
from fgmbs.sensors.kinds.coordinates import check_unit
from fgmbs.sensors.places import Axes, Place, along, checked_axes, place
from fgmbs.unknowns import Unknown


class Velocity(AbstractSensor):
    """Velocity of a point, seen from the ground, or one of the velocities of the mechanism."""

    channel: Channel
    place: Place | None
    of: str | None = eqx.field(static=True)
    """Velocity of the mechanism, where there is no place."""
    axes: Axes = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    order: ClassVar[int] = 1

    def __init__(
        self,
        name: str,
        *,
        of: str | None = None,
        point: str | None = None,
        body: str | None = None,
        at: Numbers | Unknown | None = None,
        axes: Axes = ("x", "y"),
        unit: str | None = None,
        **options: Unpack[ChannelOptions],
    ):
        """A sensor of velocities.

        Args:
            name: Its name.
            of: Name of a velocity of the mechanism, often that of its coordinate; or
            point: point of the mechanism; or
            body: body that it looks at …
            at: … and where, in the frame of the body; by default its origin [m].
            axes: What each row reads of a point, as ("x", "y") or ("-x",).
            unit: Of a velocity of the mechanism: "rad/s", which is the default, or "m/s" for one of a length.
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An invalid argument.
        """
        if of is not None and (point is not None or body is not None):
            raise ArgumentError(f"sensor {name!r}: of: expected a coordinate, or else a point or body; found both")
        accepted = ("m/s",) if of is None else ("rad/s", "m/s")
        if unit is not None and unit not in accepted:
            expected = " or ".join(map(repr, accepted))
            raise ArgumentError(f"sensor {name!r}: unit: expected {expected}; found {unit!r}")
        self.of, self.axes = of, checked_axes(name, axes)
        self.unit = unit or ("m/s" if of is None else "rad/s")
        self.place = place(name, point, body, at) if of is None else None
        self.channel = Channel(name, len(self.axes) if of is None else 1, **options)

    @property
    def units(self) -> tuple[str, ...]:
        return (self.unit,) * self.rows

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        if self.place is None:
            place = velocity_index(mechanism, str(self.of), "of")
            check_unit(str(self.of), self.unit, mechanism.velocity_units[place])
            return reading.dq[place][None]
        here = self.place
        if here.body is None:
            _, v = rate(mechanism, reading, lambda q, t: here.position(mechanism, q, t))
        else:
            _, moving = mechanism.body_motion(here.body, reading.q, reading.dq, reading.t)
            v = here.on(*moving)
        return along(self.axes, v)
