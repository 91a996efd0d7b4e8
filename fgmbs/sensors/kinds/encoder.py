"""Encoders: angles and lengths."""

from typing import ClassVar, Unpack

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.arguments import of_type
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.names import coordinate_index
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.channel import Channel, ChannelOptions
from fgmbs.sensors.kinds.coordinates import check_unit
from fgmbs.sensors.places import about, checked_axes
from fgmbs.unknowns import Unknown

_ANY_OFFSET = 1e3
"""Standard deviation of the offset of an incremental encoder, beyond any it can have [rad, m]."""


class Encoder(AbstractSensor):
    """A coordinate, or the angle of a body.

    An absolute encoder of an angle reads it modulo 2π. An incremental one counts from where it was switched on: its
    bias is unknown unless it is given.
    """

    channel: Channel
    of: str | None = eqx.field(static=True)
    """Coordinate …"""
    body: str | None = eqx.field(static=True)
    """… or body, the angle of whose frame it reads …"""
    relative_to: str | None = eqx.field(static=True)
    """… from that of another body; None is the ground …"""
    axis: str = eqx.field(static=True)
    """… about this axis of both."""
    incremental: bool = eqx.field(static=True)
    unit: str = eqx.field(static=True)
    order: ClassVar[int] = 0

    def __init__(
        self,
        name: str,
        *,
        of: str | None = None,
        body: str | None = None,
        relative_to: str | None = None,
        axis: str = "z",
        incremental: bool = False,
        unit: str = "rad",
        **options: Unpack[ChannelOptions],
    ):
        """An encoder.

        Args:
            name: Its name.
            of: Coordinate that it reads; or
            body: body whose angle it reads, from the frame of the ground or of the body `relative_to`.
            relative_to: See there.
            axis: Axis of the joint, one of both frames, as "x" or "-z"; in the plane "z". Of a rotation that is not
                about it, what is read is its part about the axis.
            incremental: It counts from where it was switched on.
            unit: "m" for a coordinate that is a length.
            **options: What all sensors take, see `ChannelOptions`.

        Raises:
            ArgumentError: An invalid argument.
        """
        if (of is None) == (body is None):
            found = "both" if of else "none"
            raise ArgumentError(f"sensor {name!r}: of: expected a coordinate, or else a body; found {found}")
        if relative_to is not None and body is None:
            raise ArgumentError(f"sensor {name!r}: relative_to: only with body; found relative_to={relative_to!r}")
        of_type(f"sensor {name!r}: unit", unit, str, "'rad' or 'm'")
        if unit not in ("rad", "m") or (unit == "m" and body is not None):
            accepted = "'rad' or 'm'" if body is None else "'rad' for the angle of a body"
            raise ArgumentError(f"sensor {name!r}: unit: expected {accepted}; found {unit!r}")
        if body is not None and options.get("gain") is not None:
            raise ArgumentError(
                f"sensor {name!r}: gain: only for an encoder of a coordinate, whose turns are counted; give the "
                f"mechanism a relative coordinate of the body {body!r} and name it by of"
            )
        if incremental and options.get("bias") is None:
            options = {**options, "bias": Unknown(sigma=_ANY_OFFSET)}
        self.channel = Channel(name, 1, **options)
        self.of, self.body, self.relative_to = of, body, relative_to
        (self.axis,) = checked_axes(name, (axis,), "axis")
        self.incremental, self.unit = incremental, unit

    @property
    def units(self) -> tuple[str, ...]:
        return (self.unit,)

    @property
    def circular(self) -> bool:
        # The turns of a body are not in its frame; those of a coordinate are counted.
        return self.body is not None or (self.unit == "rad" and not self.incremental)

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, "1"]:
        if self.of is not None:
            place = coordinate_index(mechanism, self.of, "of")
            check_unit(self.of, self.unit, mechanism.coordinate_units[place])
            return reading.q[place][None]
        R, _ = mechanism.body_frame(str(self.body), reading.q, reading.t)
        if self.relative_to is not None:
            R = mechanism.body_frame(self.relative_to, reading.q, reading.t)[0].T @ R
        sine = about((self.axis,), R - R.T, "axis")  # 2 sin of an angle about the axis
        cosine = jnp.trace(R) - (jnp.diag(R)["xyz".index(self.axis[-1])] if len(R) == 3 else 0.0)
        return jnp.arctan2(sine, cosine)
