"""Motors that make coordinates move as they are known to, by whatever force that takes."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.algebra.kkt import kkt_inverse, refined, solve_kkt
from fgmbs.dynamics.forcing import force_directions
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities

_NO_FORCE = 1e-10
"""Share of what a force can effect, below which its effect is rounding."""


class Drive(eqx.Module):
    """Motors of unknown force, and the coordinates whose accelerations they make."""

    motors: tuple[str, ...] = eqx.field(static=True)
    """Actuator or velocity that each motor acts on."""
    followed: tuple[int, ...] = eqx.field(static=True)
    """Coordinates whose motion is known; the others move as dynamics says."""
    effort: Float[Array, " nu"]
    """Scale of each motor's force; of all that produce the motion, those with the least Σ (u/effort)² are taken."""

    def motion(
        self,
        mechanism: AbstractMechanism,
        q: Coordinates,
        dq: Velocities,
        t: Scalar,
        ddy: Float[Array, " k"],
        applied: Velocities | float = 0.0,
    ) -> tuple[Velocities, Constraints, Float[Array, " nu"]]:
        """(ddq, λ, u) where the motors give the followed coordinates their accelerations.

        Accelerations are affine in the forces, q̈ = q̈₀ + P A u with P of [Blanco21] eq. (47). Of all u that bring the
        followed coordinates from q̈₀ to ddy those of least Σ (u/effort)² are taken; where there are none, least squares.

        Args:
            mechanism: The mechanism.
            q: Coordinates [m, rad].
            dq: Velocities [m/s, rad/s].
            t: Time [s].
            ddy: Known accelerations [m/s², rad/s²].
            applied: Generalized forces on top of the mechanism's own [N, N·m].
        """
        M, Phi_q = mechanism.mass_matrix(q), mechanism.constraint_jacobian(q, t)
        Q, c = mechanism.forces(q, dq, t) + applied, mechanism.constraint_bias(q, dq, t)
        A = force_directions(mechanism, q, t, self.motors)
        inverse = kkt_inverse(M, Phi_q, mechanism.local_sizes, mechanism.constraint_sizes)
        free, _ = refined(inverse, M, Phi_q, Q, c)
        F, drift = self._followed(mechanism, q, dq)
        response = F @ inverse.P
        largest = jnp.max(jnp.abs(response @ F.T)) * jnp.max(jnp.abs(A))
        u = least_effort(response @ A, ddy - drift - F @ free, self.effort, largest)
        ddq, lambda_ = refined(inverse, M, Phi_q, Q + A @ u, c)
        return ddq, lambda_, u

    def missing(
        self,
        mechanism: AbstractMechanism,
        q: Coordinates,
        dq: Velocities,
        ddq: Velocities,
        t: Scalar,
        ddy: Float[Array, " k"],
    ) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Forces on the followed coordinates that would make their motion in full, and accelerations missing for it."""
        F, drift = self._followed(mechanism, q, dq)
        M, Phi_q = mechanism.mass_matrix(q), mechanism.constraint_jacobian(q, t)
        P = F @ kkt_inverse(M, Phi_q, mechanism.local_sizes, mechanism.constraint_sizes).P @ F.T
        lacking = ddy - drift - F @ ddq
        return least_effort(P, lacking, jnp.ones_like(lacking), jnp.max(jnp.abs(P))), lacking

    def _followed(self, mechanism, q, dq) -> tuple[Float[Array, "k nv"], Float[Array, " k"]]:
        """(F, drift) with d²q/dt² = F q̈ + drift of the followed coordinates."""
        places = jnp.asarray(self.followed, int)
        E = mechanism.coordinate_rates(q)
        if mechanism.is_vector_space:
            return E[places], jnp.zeros(len(self.followed), q.dtype)
        _, dE = jax.jvp(mechanism.coordinate_rates, (q,), (E @ dq,))
        return E[places], dE[places] @ dq


def least_effort(
    G: Float[Array, "rows nu"],
    target: Float[Array, " rows"],
    effort: Float[Array, " nu"],
    largest: Scalar,
) -> Float[Array, " nu"]:
    """u with G u = target and the least Σ (u/effort)²; in the least-squares sense where there is none.

    Args:
        G: Effect of each force.
        target: Effect wanted.
        effort: Scale of each force.
        largest: What such forces can effect where nothing is in their way: the size that rounding is relative to.
    """
    # A row on which no force acts is rounding, which must not count; `solve_kkt` looks at directions only.
    acting = jnp.max(jnp.abs(G), axis=1, initial=0.0) > _NO_FORCE * largest
    scaled = jnp.where(acting[:, None], G * effort, 0.0)
    u, _ = solve_kkt(jnp.eye(effort.shape[0], dtype=G.dtype), scaled, jnp.zeros_like(effort), target)
    return u * effort
