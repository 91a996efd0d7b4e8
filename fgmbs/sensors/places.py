"""Where a sensor sits or looks, and along which axes."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar
from fgmbs.unknowns import Unknown, known, number

Axes = tuple[str, ...]
"""What each row reads: "x", "y", "z", or "-x", "-y", "-z" for the other direction."""


class Place(eqx.Module):
    """A point of the mechanism, or a place on a body; or several."""

    point: str | tuple[str, ...] | None = eqx.field(static=True)
    body: str | None = eqx.field(static=True)
    at: Float[Array, "*places d"] | Unknown | None
    """In the frame of the body; None is its origin [m]."""

    def position(self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar) -> Float[Array, "*places d"]:
        """Position, seen from the ground [m].

        Raises:
            ArgumentError: There is no such place.
        """
        if isinstance(self.point, str):
            return mechanism.point_position(self.point, q)
        if self.point is not None:
            return jnp.stack([mechanism.point_position(point, q) for point in self.point])
        return self.on(*mechanism.body_frame(str(self.body), q, t))

    def on(self, rotation: Float[Array, "d d"], origin: Float[Array, " d"]) -> Float[Array, "*places d"]:
        """Position on a body with this frame, and with derivatives of the frame that of the position.

        Raises:
            ArgumentError: `at` has another number of components.
        """
        if self.at is None:
            return origin
        if self.at.shape[-1:] != origin.shape:
            expected = f"expected {origin.size} numbers in the frame of the body"
            raise ArgumentError(f"at: {expected}; found {self.at.shape[-1]}")
        return origin + self.at @ rotation.T


def place(
    sensor: str,
    point: str | Sequence[str] | None,
    body: str | None,
    at: Numbers | Unknown | None,
    *,
    several: bool = False,
) -> Place:
    """The place that arguments of a sensor tell, or the places, if there may be several.

    Raises:
        ArgumentError: None or two of them, or `at` without a body, or neither two nor three numbers.
    """
    if (point is None) == (body is None):
        found = "both" if point is not None else "none"
        raise ArgumentError(f"sensor {sensor!r}: point: expected a point, or else a body; found {found}")
    if at is not None and body is None:
        raise ArgumentError(f"sensor {sensor!r}: at: only with body; found at={at!r}")
    try:
        offset = None if at is None else number("at", at)
    except ArgumentError as error:
        raise ArgumentError(f"sensor {sensor!r}: {error}") from None
    shape = (2,) if offset is None else known(offset).shape
    if shape[-1:] not in ((2,), (3,)) or len(shape) > 1 + several or shape[0] == 0:
        expected = "expected (x, y), in space (x, y, z), in the frame of the body"
        raise ArgumentError(f"sensor {sensor!r}: at: {expected}{', or several' * several}; found {at!r}")
    if point is not None and not isinstance(point, str):
        names = tuple(point) if several and isinstance(point, list | tuple) else ()
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            expected = "expected the name of a point" + ", or different names in a list" * several
            raise ArgumentError(f"sensor {sensor!r}: point: {expected}; found {point!r}")
        point = names
    return Place(point, body, offset)


def checked_axes(sensor: str, axes: Axes, argument: str = "axes") -> Axes:
    """`axes` as a tuple.

    Raises:
        ArgumentError: None, two alike, or something else.
    """
    letters = [axis.removeprefix("-") for axis in axes if isinstance(axis, str)]
    known = set(letters) <= {"x", "y", "z"} and len(set(letters)) == len(axes) > 0
    if isinstance(axes, str) or not known:
        raise ArgumentError(
            f"sensor {sensor!r}: {argument}: expected different ones of 'x', 'y' and 'z', with '-' for the other "
            f"direction, as in ('x', '-y'); found {axes!r}"
        )
    return tuple(axes)


def along(axes: Axes, vector: Float[Array, " d"]) -> Float[Array, " rows"]:
    """Components of a vector.

    Raises:
        ArgumentError: An axis that there is not in the plane.
    """
    if vector.shape == (2,):
        _refuse(axes, ("x", "y"), "axes")
    return _components(axes, vector)


def about(axes: Axes, turning: Float[Array, "d d"], argument: str = "axes") -> Float[Array, " rows"]:
    """Components of the vector w whose skew matrix is `turning`, w × v = turning v; in the plane it has z only.

    Raises:
        ArgumentError: An axis about which nothing turns in the plane.
    """
    if turning.shape == (2, 2):
        _refuse(axes, ("z",), argument)
        turning = jnp.pad(turning, ((0, 1), (0, 1)))
    return _components(axes, jnp.stack([turning[2, 1], turning[0, 2], turning[1, 0]]))


def _components(axes: Axes, vector: Float[Array, "..."]) -> Float[Array, " rows"]:
    components = [vector["xyz".index(axis[-1])] for axis in axes]
    return jnp.stack([-c if axis[0] == "-" else c for c, axis in zip(components, axes, strict=True)])


def _refuse(axes: Axes, known: Axes, argument: str) -> None:
    for axis in axes:
        if axis[-1] not in known:
            expected = f"expected axes of a mechanism in the plane, {listed(known)}"
            raise ArgumentError(f"{argument}: {expected}; found {axis!r}")
