"""The angle between two links as a coordinate."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.mechanisms.planar.constraints.plane import cross, dot
from fgmbs.typing import Scalar


@jax.custom_jvp
def relative_angle(
    a: Float[Array, "2"],
    b: Float[Array, "2"],
    c: Float[Array, "2"],
    d: Float[Array, "2"],
    theta: Scalar,
    scale: Scalar,
) -> Float[Array, ""]:
    """Φ = (cos θ (u × v) − sin θ (u · v)) / s = sin(angle from u to v − θ) [rad], with links u = b − a, v = d − c.

    θ counts turns freely: nothing wraps. As with `absolute_angle`, the multiplier is the torque on θ and θ + π
    holds too.

    Args:
        scale: Product s of the lengths of the two links [m²].
    """
    u, v = b - a, d - c
    return (jnp.cos(theta) * cross(u, v) - jnp.sin(theta) * dot(u, v)) / scale


@relative_angle.defjvp
def _relative_angle_jvp(primals, tangents):
    a, b, c, d, theta, scale = primals
    t_a, t_b, t_c, t_d, t_theta, t_scale = tangents
    u, v, t_u, t_v = b - a, d - c, t_b - t_a, t_d - t_c
    Phi = relative_angle(*primals)
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    t_links = cos * (cross(t_u, v) + cross(u, t_v)) - sin * (dot(t_u, v) + dot(u, t_v))
    return Phi, (t_links - (sin * cross(u, v) + cos * dot(u, v)) * t_theta - Phi * t_scale) / scale
