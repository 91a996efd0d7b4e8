"""Equations of motion at one step."""

from jaxtyping import Array, Float

from fgmbs.dynamics import acceleration
from fgmbs.factors.base import Instant
from fgmbs.typing import Coordinates, Velocities


def forward_dynamics(at: Instant, q: Coordinates, dq: Velocities, ddq: Velocities) -> Velocities:
    """q̈(q, q̇) − q̈ in dependent coordinates. [Blanco21] eq. (26)"""
    return acceleration(at.mechanism, q, dq, at.t)[0] - ddq


def forward_dynamics_independent(
    at: Instant, q: Coordinates, dq: Velocities, ddz: Float[Array, " dof"]
) -> Float[Array, " dof"]:
    """z̈(q, q̇) − z̈ in independent coordinates z = B q. [Blanco21] eq. (27); `at.series` is B (dof, n).

    The accelerations of eq. (15) are the rows B q̈ of those of the KKT system.
    """
    return at.series @ acceleration(at.mechanism, q, dq, at.t)[0] - ddz
