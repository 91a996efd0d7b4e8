"""Two points a constant distance apart."""

import jax
from jaxtyping import Array, Float

from fgmbs.mechanisms.planar.constraints.plane import dot
from fgmbs.typing import Scalar


@jax.custom_jvp
def squared_distance(a: Float[Array, "2"], b: Float[Array, "2"], length: Scalar) -> Float[Array, ""]:
    """Φ = |b − a|² − L² [m²]. [Blanco21] eq. (41a)"""
    d = b - a
    return dot(d, d) - length**2


@squared_distance.defjvp
def _squared_distance_jvp(primals, tangents):
    a, b, length = primals
    t_a, t_b, t_length = tangents
    # [Blanco21] eq. (41b)
    return squared_distance(a, b, length), 2 * dot(b - a, t_b - t_a) - 2 * length * t_length
