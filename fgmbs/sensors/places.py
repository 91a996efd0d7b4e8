"""Where a sensor sits or looks, and along which axes."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.trajectories.arguments import Numbers, finite
from fgmbs.typing import Coordinates, Scalar

Axes = tuple[str, ...]
"""What each row reads: "x", "y", or "-x", "-y" for the other direction."""


class Place(eqx.Module):
    """A point of the mechanism, or a place on a body."""

    point: str | None = eqx.field(static=True)
    body: str | None = eqx.field(static=True)
    at: Float[Array, "2"]
    """In the frame of the body [m]."""

    def position(self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar) -> Float[Array, "2"]:
        """Position, seen from the ground [m]."""
        if self.point is not None:
            return mechanism.point_position(self.point, q)
        rotation, origin = mechanism.body_frame(str(self.body), q, t)
        return origin + rotation @ self.at


def place(sensor: str, point: str | None, body: str | None, at: Numbers | None) -> Place:
    """The place that arguments of a sensor tell.

    Raises:
        ArgumentError: None or two of them, or `at` without a body, or not two numbers.
    """
    if (point is None) == (body is None):
        found = "both" if point is not None else "none"
        raise ArgumentError(f"sensor {sensor!r}: point: expected a point, or else a body; found {found}")
    if at is not None and body is None:
        raise ArgumentError(f"sensor {sensor!r}: at: only with body; found at={at!r}")
    try:
        offset = finite("at", (0.0, 0.0) if at is None else at)
    except ArgumentError as error:
        raise ArgumentError(f"sensor {sensor!r}: {error}") from None
    if offset.shape != (2,):
        raise ArgumentError(f"sensor {sensor!r}: at: expected (x, y) in the frame of the body; found {at!r}")
    return Place(point, body, jnp.asarray(offset, dtype=float))


def checked_axes(sensor: str, axes: Axes) -> Axes:
    """`axes` as a tuple.

    Raises:
        ArgumentError: Not one or two different axes.
    """
    letters = [axis.removeprefix("-") for axis in axes if isinstance(axis, str)]
    if isinstance(axes, str) or sorted(letters) not in (["x"], ["y"], ["x", "y"]) or len(letters) < len(axes):
        raise ArgumentError(
            f"sensor {sensor!r}: axes: expected one or two of 'x' and 'y', with '-' for the other direction, as in "
            f"('x', '-y'); found {axes!r}"
        )
    return tuple(axes)


def along(axes: Axes, vector: Float[Array, "2"]) -> Float[Array, " rows"]:
    """Components of a vector."""
    components = [vector["xy".index(axis[-1])] for axis in axes]
    return jnp.stack([-c if axis[0] == "-" else c for c, axis in zip(components, axes, strict=True)])
