"""How a mechanism goes on from one step to the next under known and unknown forces, and what it adds of its own."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.dynamics import acceleration
from fgmbs.factors.base import Instant
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities


class Forcing(eqx.Module):
    """Where the forces u that are estimated and the commands c that are known act."""

    unknown: tuple[str, ...] = eqx.field(static=True)
    """Actuator or coordinate of each force u."""
    known: tuple[str, ...] = eqx.field(static=True)
    """Actuator or coordinate of each command c."""
    decay: Float[Array, " nu"]
    """What is left of each force after one step if nothing is added to it."""

    def applied(
        self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar, u: Float[Array, " nu"], c: Float[Array, " nc"]
    ) -> Velocities:
        """Generalized forces of u and c [N, N·m]."""
        directions = force_directions(mechanism, q, t, self.unknown + self.known)
        return directions @ jnp.concatenate([u, c])

    def by_target(self, u: Float[Array, " nu"], c: Float[Array, " nc"]) -> dict[str, Scalar]:
        """Total force on each actuator or coordinate [N, N·m]."""
        total = {}
        for name, force in zip(self.unknown + self.known, jnp.concatenate([u, c]), strict=True):
            total[name] = total.get(name, 0.0) + force
        return total

    def motion(
        self,
        mechanism: AbstractMechanism,
        q: Coordinates,
        dq: Velocities,
        t: Scalar,
        u: Float[Array, " nu"],
        c: Float[Array, " nc"],
    ) -> tuple[Velocities, Constraints]:
        """(ddq, λ)."""
        return acceleration(mechanism, q, dq, t, self.applied(mechanism, q, t, u, c))


def force_directions(
    mechanism: AbstractMechanism, q: Coordinates, t: Scalar, names: Sequence[str]
) -> Float[Array, "nv names"]:
    """Generalized force per unit of a force on each of these actuators or coordinates."""
    columns = [jnp.zeros((mechanism.nv, 0), q.dtype)]
    A = mechanism.actuation(q, t)
    for name in names:
        if name in mechanism.actuator_names:
            columns.append(A[:, mechanism.actuator_names.index(name), None])
        else:
            columns.append(jnp.eye(mechanism.nv, 1, -mechanism.coordinate_names.index(name), dtype=q.dtype))
    return jnp.concatenate(columns, axis=1)


def transition(
    at: Instant,
    q0: Coordinates,
    dq0: Velocities,
    u0: Float[Array, " nu"],
    q1: Coordinates,
    dq1: Velocities,
    u1: Float[Array, " nu"],
) -> Float[Array, " rows"]:
    """[B r_q; B r_dq; u(t+1) − decay · u(t)]: what unknown forces have added between two steps.

    r_q and r_dq are rules of fourth order for q and q̇, after Hermite and Simpson, with the accelerations of the
    mechanism at both ends and in the middle, where q and q̇ are those of the cubic polynomial between the ends. White
    forces leave uncorrelated parts: of covariance Δt³/12 D in B r_q, of Δt D in B r_dq, if D is the spectral
    density of the accelerations z̈ that they make. Of a force that wanders between u(t) and u(t+1), the straight line
    between them left out, the parts are Δt⁵/720 C and Δt³/12 C, C being that of the rate of z̈.

    `at.data` is the `Forcing`, `at.series` = (B (dof, n), commands (2, nc) at both ends).
    """
    forcing, (B, (c0, c1)), dt = at.data, at.series, at.dt
    q = (q0 + q1) / 2 + dt / 8 * (dq0 - dq1)
    dq = 3 / 2 / dt * (q1 - q0) - (dq0 + dq1) / 4
    # One trace of the mechanism for both ends and the middle.
    ddq0, ddq, ddq1 = jax.vmap(lambda *row: forcing.motion(at.mechanism, *row)[0])(
        jnp.stack([q0, q, q1]),
        jnp.stack([dq0, dq, dq1]),
        at.t - dt * jnp.asarray([1.0, 0.5, 0.0], q0.dtype),
        jnp.stack([u0, (u0 + u1) / 2, u1]),
        jnp.stack([c0, (c0 + c1) / 2, c1]),
    )
    r_q = q1 - q0 - dt / 2 * (dq0 + dq1) - dt**2 / 12 * (ddq0 - ddq1)
    r_dq = dq1 - dq0 - dt / 6 * (ddq0 + 4 * ddq + ddq1)
    return jnp.concatenate([B @ r_q, B @ r_dq, u1 - forcing.decay * u0])


def between(
    fraction: Scalar,
    dt: Scalar,
    q0: Coordinates,
    dq0: Velocities,
    u0: Float[Array, " nu"],
    q1: Coordinates,
    dq1: Velocities,
    u1: Float[Array, " nu"],
) -> tuple[Coordinates, Velocities, Float[Array, " nu"]]:
    """(q, dq, u) at a fraction of the way from one step to the next: cubic for q, linear for u.

    The polynomial misses q by O(Δt⁴) and dq by O(Δt³). A little outside of [0, 1] it goes on.
    """
    s = fraction
    q = q0 + dt * s * dq0
    # What is left of the position and velocity at the end once the start has been followed in a straight line.
    a, b = q1 - q0 - dt * dq0, dt * (dq1 - dq0)
    q = q + s**2 * (3 * a - b) + s**3 * (b - 2 * a)
    dq = dq0 + (2 * s * (3 * a - b) + 3 * s**2 * (b - 2 * a)) / dt
    return q, dq, u0 + s * (u1 - u0)
