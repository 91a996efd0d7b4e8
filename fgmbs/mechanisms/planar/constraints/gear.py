"""Two angles in a fixed ratio."""

import jax

from fgmbs.typing import Scalar


@jax.custom_jvp
def gear(angle_a: Scalar, angle_b: Scalar, ratio: Scalar, offset: Scalar) -> Scalar:
    """Φ = θ_a − r θ_b − θ_0 [rad]; r < 0 for wheels that mesh outside, r > 0 for a belt or an inner mesh."""
    return angle_a - ratio * angle_b - offset


@gear.defjvp
def _gear_jvp(primals, tangents):
    _, angle_b, ratio, _ = primals
    t_angle_a, t_angle_b, t_ratio, t_offset = tangents
    return gear(*primals), t_angle_a - ratio * t_angle_b - t_ratio * angle_b - t_offset
