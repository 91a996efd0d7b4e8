"""A point that slides along a line through two points, which may move."""

import jax
from jaxtyping import Array, Float

from fgmbs.mechanisms.planar.constraints.plane import cross


@jax.custom_jvp
def mobile_slider(p: Float[Array, "2"], a: Float[Array, "2"], b: Float[Array, "2"]) -> Float[Array, ""]:
    """Φ = (b − a) × (p − a) [m²]: |b − a| times the distance of p to the left of the line. [Blanco21] eq. (43a)"""
    return cross(b - a, p - a)


@mobile_slider.defjvp
def _mobile_slider_jvp(primals, tangents):
    p, a, b = primals
    t_p, t_a, t_b = tangents
    # [Blanco21] eq. (43b)
    return mobile_slider(p, a, b), cross(b - a, t_p - t_a) + cross(t_b - t_a, p - a)
