"""Equations of motion at one step.

Q(q, q̇, t) + A(q, t) u + A_c c moves the mechanism, u the unknown forces, c commands; with neither this is forward,
with all of it unknown inverse dynamics. All of Q is unknown in [Blanco21], where priors fix what is known of it; here
what is known is no variable. Jacobians by q and q̇ are kept, which [Blanco21] section 6.6 drops. Those by forces are its
closed forms (47), ∂q̈/∂Q = P, and (50), ∂z̈/∂Q = B P, by the derivative rule of `kkt.solve_kkt`.
"""

from jaxtyping import Array, Float

from fgmbs.factors.base import Instant
from fgmbs.typing import Coordinates, Velocities


def dynamics(at: Instant, q: Coordinates, dq: Velocities, ddq: Velocities, u: Float[Array, " nu"]) -> Velocities:
    """q̈(q, q̇, u) − q̈ in dependent coordinates. [Blanco21] eqs. (26), (28)

    `at.data` is the `Forcing`, `at.series` the commands (2, nc) at both ends of the interval that ends here.
    """
    return at.data.motion(at.mechanism, q, dq, at.t, u, at.series[1])[0] - ddq


def dynamics_independent(
    at: Instant, q: Coordinates, dq: Velocities, ddz: Float[Array, " dof"], u: Float[Array, " nu"]
) -> Float[Array, " dof"]:
    """z̈(q, q̇, u) − z̈ in independent coordinates z = B q. [Blanco21] eqs. (27), (29)

    `at.data` is the `Forcing`, `at.series` = (B (dof, n), commands (2, nc)). The accelerations of eq. (15) are the rows
    B q̈ of those of the KKT system.
    """
    B, commands = at.series
    ddq, _ = at.data.motion(at.mechanism, q, dq, at.t, u, commands[1])
    return B @ ddq - ddz
