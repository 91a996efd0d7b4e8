"""Equations of motion at one step.

In inverse dynamics the commands u of the actuators are unknowns: Q(q, q̇, t) + A(q, t) u moves the mechanism. All of Q
is unknown in [Blanco21], where priors fix what is known of it; here what is known is no variable. Their Jacobians by q
and q̇ are kept, which [Blanco21] section 6.6 drops.
"""

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


def inverse_dynamics(
    at: Instant, q: Coordinates, dq: Velocities, ddq: Velocities, u: Float[Array, " nu"]
) -> Velocities:
    """q̈(q, q̇, u) − q̈ in dependent coordinates, for commands u [N, N·m]. [Blanco21] eq. (28)"""
    return acceleration(at.mechanism, q, dq, at.t, at.mechanism.actuation(q, at.t) @ u)[0] - ddq


def inverse_dynamics_independent(
    at: Instant, q: Coordinates, dq: Velocities, ddz: Float[Array, " dof"], u: Float[Array, " nu"]
) -> Float[Array, " dof"]:
    """z̈(q, q̇, u) − z̈ in independent coordinates z = B q. [Blanco21] eq. (29); `at.series` is B (dof, n)."""
    return at.series @ acceleration(at.mechanism, q, dq, at.t, at.mechanism.actuation(q, at.t) @ u)[0] - ddz
