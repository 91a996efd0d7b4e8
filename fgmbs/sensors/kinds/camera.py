"""Cameras."""

from collections.abc import Sequence
from typing import ClassVar, Unpack

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors.base import AbstractSensor, Reading, turned_back
from fgmbs.sensors.channel import Channel, ChannelOptions
from fgmbs.sensors.places import Place, place
from fgmbs.unknowns import Unknown, known, number

_BESIDE = 0.01
"""Depth, as a part of the distance, below which a point lies beside the camera or behind it."""


class Camera(AbstractSensor):
    """Where points are in the picture of a camera in space: gain · (x, y) / z + bias, in the axes of the camera.

    Its x points to the right of the picture, y down and z forward. The gain is the focal length [px], the bias the
    pixel of the optical axis, the misalignment a turn of the picture about it. No camera sees what lies beside it or
    behind it: there the depth counts as a hundredth of the distance, so that a reading is finite and has derivatives. A
    place straight behind is then near the middle of the picture, and a pose that begins there may stay there.
    """

    channel: Channel
    place: Place
    position: Float[Array, "3"] | Unknown
    rotation: Float[Array, "3"] | Unknown
    distortion: Float[Array, " terms"] | Unknown | None
    on: str | None = eqx.field(static=True)
    order: ClassVar[int] = 0

    def __init__(
        self,
        name: str,
        *,
        position: Numbers | Unknown,
        rotation: Numbers | Unknown,
        point: str | Sequence[str] | None = None,
        body: str | None = None,
        at: Numbers | Unknown | None = None,
        on: str | None = None,
        distortion: Numbers | Unknown | None = None,
        **options: Unpack[ChannelOptions],
    ):
        """A camera that follows a point, or several.

        Args:
            name: Its name.
            position: Where the camera is, seen from the ground or from the body that it is fixed to [m].
            rotation: Rotation vector that turns these axes into those of the camera [rad].
            point: Point of the mechanism that it looks at, or several; or
            body: body that it looks at …
            at: … and where, in the frame of the body, one place or several; by default its origin [m].
            on: Body that carries the camera; by default it stands on the ground.
            distortion: Radial distortion (k₁, k₂, …): a place r from the middle is seen at r (1 + k₁ r² + k₂ r⁴ + …).
            **options: What all sensors take, see `ChannelOptions`; the gain is needed. Columns of several points are
                NAME.POINT.x and NAME.POINT.y by default, of several places NAME.0.x …; what is not seen is nan.

        Raises:
            ArgumentError: An invalid argument.
        """
        if options.get("gain") is None:
            raise ArgumentError(f"sensor {name!r}: gain: expected the focal length of the camera in px; found none")
        self.place, self.on = place(name, point, body, at, several=True), on
        try:
            self.position, self.rotation = (
                _three(key, value) for key, value in (("position", position), ("rotation", rotation))
            )
            self.distortion = None if distortion is None else number("distortion", distortion)
        except ArgumentError as error:
            raise ArgumentError(f"sensor {name!r}: {error}") from None
        if self.distortion is not None and known(self.distortion).ndim > 1:
            raise ArgumentError(f"sensor {name!r}: distortion: expected numbers k₁, k₂, …; found {distortion!r}")
        marks = self._marks()
        if marks and options.get("columns") is None:
            options["columns"] = [f"{name}.{mark}.{axis}" for mark in marks for axis in "xy"]
        self.channel = Channel(name, 2 * max(1, len(marks)), group=2, **options)

    def _marks(self) -> tuple[str, ...]:
        """What several points or places are called."""
        points, at = self.place.point, known(self.place.at)
        if isinstance(points, tuple):
            return points
        return tuple(map(str, range(len(at)))) if at is not None and at.ndim == 2 else ()

    @property
    def units(self) -> tuple[str, ...]:
        return ("px",) * self.rows

    def ideal(self, mechanism: AbstractMechanism, reading: Reading) -> Float[Array, " rows"]:
        places = self.place.position(mechanism, reading.q, reading.t)
        if places.shape[-1] != 3:
            raise ArgumentError("position: expected a mechanism in space; in the plane `Position` is the camera")
        if self.on is not None:
            R, origin = mechanism.body_frame(self.on, reading.q, reading.t)
            places = (places - origin) @ R
        return self._seen(places) if places.ndim == 1 else jax.vmap(self._seen)(places).ravel()

    def _seen(self, p: Float[Array, "3"]) -> Float[Array, "2"]:
        """A place in the picture, seen from what the camera is fixed to."""
        p = turned_back(p - known(self.position), known(self.rotation))
        depth = jnp.maximum(p[2], _BESIDE * _length(p))
        seen = p[:2] / depth
        if self.distortion is None:
            return seen
        terms, square, factor = jnp.atleast_1d(known(self.distortion)), seen @ seen, jnp.zeros((), p.dtype)
        for term in terms[::-1]:
            factor = (factor + term) * square
        return seen * (1 + factor)


def _length(p: Float[Array, "3"]) -> Float[Array, ""]:
    """|p|; that of the camera itself is no place that it sees, and is only kept from 0."""
    square = p @ p
    there = square > 0
    return jnp.where(there, jnp.sqrt(jnp.where(there, square, 1.0)), 1.0)


def _three(argument: str, value: Numbers | Unknown) -> Float[Array, "3"] | Unknown:
    given = number(argument, value)
    if known(given).shape != (3,):
        raise ArgumentError(f"{argument}: expected 3 numbers; found {value!r}")
    return given
