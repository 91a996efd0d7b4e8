"""Equations of motion of a mechanism: accelerations, multipliers, reactions, energies."""

from jaxtyping import Array, Float

from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities


def acceleration(
    mechanism: AbstractMechanism, q: Coordinates, dq: Velocities, t: Scalar, applied: Velocities | float = 0.0
) -> tuple[Velocities, Float[Array, " m"]]:
    """Accelerations and constraint multipliers of a mechanism that moves freely.

    Solves [M Φ_qᵀ; Φ_q 0] [q̈; λ] = [Q; c], so that neither a singular mass matrix nor redundant constraints need
    special treatment ([Blanco21] eq. (5)). Redundant rows share the load so that Σ (λ_i |row i of Φ_q|)² is least.

    Args:
        mechanism: The mechanism.
        q: Coordinates that satisfy Φ(q, t) = 0 [m, rad].
        dq: Velocities that satisfy Φ_q dq = −Φ_t [m/s, rad/s].
        t: Time [s].
        applied: Generalized forces on top of the mechanism's own, as A u of its actuators [N, N·m].

    Returns:
        (ddq, lambda_): accelerations [m/s², rad/s²] and multipliers [N, N·m per unit of the constraint].
    """
    return mechanism.accelerations(q, dq, t, applied)


def reactions(
    mechanism: AbstractMechanism, q: Coordinates, lambda_: Float[Array, " m"], t: Scalar
) -> Float[Array, " nv"]:
    """Generalized reaction forces −Φ_qᵀ λ of the constraints on the coordinates [N, N·m]."""
    return -lambda_ @ mechanism.constraint_jacobian(q, t)


def energy(mechanism: AbstractMechanism, q: Coordinates, dq: Velocities) -> tuple[Scalar, Scalar]:
    """Kinetic energy ½ dqᵀ M dq and potential energy of gravity and springs [J]."""
    return 0.5 * dq @ mechanism.mass_matrix(q) @ dq, mechanism.potential(q)


def nonconservative_power(mechanism: AbstractMechanism, q: Coordinates, dq: Velocities, t: Scalar) -> Scalar:
    """Power of all forces that have no potential: negative where dampers dissipate, positive where drives feed [W].

    dq · Q + ½ dqᵀ Ṁ dq + V̇: where M depends on q, Q has Coriolis forces, whose power the second term takes away.
    """
    return dq @ mechanism.forces(q, dq, t) + mechanism.rate(lambda q, _: sum(energy(mechanism, q, dq)), q, dq, t)[1]
