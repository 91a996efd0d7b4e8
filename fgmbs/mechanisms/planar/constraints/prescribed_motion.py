"""A coordinate that follows a given function of time."""

import jax

from fgmbs.typing import Scalar


@jax.custom_jvp
def prescribed_motion(coordinate: Scalar, value: Scalar) -> Scalar:
    """Φ = q_i − f(t) [m, rad] for value = f(t). Depends on time (rheonomic): Φ_t = −f', and its rate −f''."""
    return coordinate - value


@prescribed_motion.defjvp
def _prescribed_motion_jvp(primals, tangents):
    t_coordinate, t_value = tangents
    return prescribed_motion(*primals), t_coordinate - t_value
