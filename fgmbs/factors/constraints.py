"""Position, velocity and acceleration constraints, in dependent and independent coordinates.

The independent versions read the selection B (dof, n) of the independent coordinates z = B q from `at.series`.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.factors.base import Instant
from fgmbs.typing import Constraints, Coordinates, Velocities


def position_constraint(at: Instant, q: Coordinates) -> Constraints:
    """Φ(q, t). [Blanco21] eq. (24)"""
    return at.mechanism.constraints(q, at.t)


def velocity_constraint(at: Instant, q: Coordinates, dq: Velocities) -> Constraints:
    """Φ_q q̇ + Φ_t. [Blanco21] eq. (25), where Φ_t is dropped"""
    return at.mechanism.constraint_rate(q, dq, at.t)


def acceleration_constraint(at: Instant, q: Coordinates, dq: Velocities, ddq: Velocities) -> Constraints:
    """Φ_q q̈ − c. [Blanco21] eq. (32), upper rows"""
    Phi_q = at.mechanism.constraint_jacobian(q, at.t)
    return Phi_q @ ddq - at.mechanism.constraint_bias(q, dq, at.t)


def position_constraint_independent(at: Instant, q: Coordinates, z: Float[Array, " dof"]) -> Float[Array, " rows"]:
    """[Φ(q, t); B q − z]. [Blanco21] eq. (30)"""
    return jnp.concatenate([position_constraint(at, q), at.series @ q - z])


def velocity_constraint_independent(
    at: Instant, q: Coordinates, dq: Velocities, dz: Float[Array, " dof"]
) -> Float[Array, " rows"]:
    """[Φ_q q̇ + Φ_t; B q̇ − ż]. [Blanco21] eq. (31)"""
    return jnp.concatenate([velocity_constraint(at, q, dq), at.series @ dq - dz])


def acceleration_constraint_independent(
    at: Instant, q: Coordinates, dq: Velocities, ddq: Velocities, ddz: Float[Array, " dof"]
) -> Float[Array, " rows"]:
    """[Φ_q q̈ − c; B q̈ − z̈]. [Blanco21] eq. (32)"""
    return jnp.concatenate([acceleration_constraint(at, q, dq, ddq), at.series @ ddq - ddz])
