"""Equations of motion of a user's own mechanism from its energies, by automatic differentiation.

A class derived from `AbstractMechanism` writes its kinetic energy T(q, dq), of second degree in dq, and its potential
V(q), and answers with these functions:

    def mass_matrix(self, q):
        return lagrangian.mass_matrix(self.kinetic, q)

    def forces(self, q, dq, t):
        return lagrangian.forces(self.kinetic, self.potential, q, dq) - self.friction * dq

Forces that come from no potential are added, as virtual work per coordinate [N, N·m].
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.typing import Coordinates, Scalar, Velocities

KineticEnergy = Callable[[Coordinates, Velocities], Scalar]
PotentialEnergy = Callable[[Coordinates], Scalar]


def mass_matrix(kinetic: KineticEnergy, q: Coordinates) -> Float[Array, "n n"]:
    """M = ∂²T/∂dq², which does not depend on dq."""
    return jax.hessian(kinetic, argnums=1)(q, jnp.zeros_like(q))


def forces(kinetic: KineticEnergy, potential: PotentialEnergy, q: Coordinates, dq: Velocities) -> Velocities:
    """Q = ∂T/∂q − (∂²T/∂dq∂q) dq − ∂V/∂q, so that M ddq = Q is Lagrange's d/dt ∂L/∂dq = ∂L/∂q with L = T − V."""
    momentum = jax.grad(kinetic, argnums=1)
    drift = jax.jvp(lambda q: momentum(q, dq), (q,), (dq,))[1]  # of the momentum where dq stays the same
    return jax.grad(kinetic)(q, dq) - drift - jax.grad(potential)(q)
