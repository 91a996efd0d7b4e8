"""A point rigidly attached to a link."""

import jax
from jaxtyping import Array, Float

from fgmbs.mechanisms.planar.constraints.plane import perpendicular


@jax.custom_jvp
def rigid_point(
    a: Float[Array, "2"], b: Float[Array, "2"], p: Float[Array, "2"], offset: Float[Array, "2"]
) -> Float[Array, "2"]:
    """Φ = p − a − ξ (b − a) − η (b − a)⟂ [m].

    Linear in the points. Unlike two distances it holds for points in one line too, and does not hold for the mirror
    image of the body.

    Args:
        offset: (ξ, η), place of p in the frame a → b, in lengths of a → b [1].
    """
    d = b - a
    return p - a - offset[0] * d - offset[1] * perpendicular(d)


@rigid_point.defjvp
def _rigid_point_jvp(primals, tangents):
    a, b, p, offset = primals
    t_a, t_b, t_p, t_offset = tangents
    d = b - a
    t_Phi = rigid_point(t_a, t_b, t_p, offset) - t_offset[0] * d - t_offset[1] * perpendicular(d)
    return rigid_point(a, b, p, offset), t_Phi
