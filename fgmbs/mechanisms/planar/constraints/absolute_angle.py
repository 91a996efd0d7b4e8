"""The angle of a link from the x axis of the ground as a coordinate."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.typing import Scalar


@jax.custom_jvp
def absolute_angle(a: Float[Array, "2"], b: Float[Array, "2"], theta: Scalar, length: Scalar) -> Float[Array, ""]:
    """Φ = (−sin θ (x_b − x_a) + cos θ (y_b − y_a)) / L = sin(angle of a → b − θ) [rad].

    [Blanco21] switches between two rows, (44) and (45), by the value of θ. This is −sin θ · (44a) + cos θ · (45a): one
    smooth row with the same Jacobian on the solution, and no row that loses its hold near some θ. Divided by L it is an
    angle error, whatever the unit of length, and its multiplier is the torque on θ, because Φ_θ = −1 on the solution.

    The row also holds at θ + π. That solution is half a turn away and the row is monotonic in θ up to a quarter turn
    from the right one, so a search that starts from the angle of the drawn link, or from the step before, stays there.

    Args:
        length: Distance of a and b [m].
    """
    d = b - a
    return (jnp.cos(theta) * d[1] - jnp.sin(theta) * d[0]) / length


@absolute_angle.defjvp
def _absolute_angle_jvp(primals, tangents):
    a, b, theta, length = primals
    t_a, t_b, t_theta, t_length = tangents
    Phi = absolute_angle(a, b, theta, length)
    d, t_d = b - a, t_b - t_a
    cos, sin = jnp.cos(theta), jnp.sin(theta)
    # −sin θ · [Blanco21] (44b) + cos θ · (45b)
    t_Phi = cos * t_d[1] - sin * t_d[0] - (cos * d[0] + sin * d[1]) * t_theta
    return Phi, (t_Phi - Phi * t_length) / length
