"""What a position must satisfy: the constraints, and coordinates whose motion is known."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities


class Closure(eqx.Module):
    followed: tuple[int, ...] = eqx.field(static=True, default=())
    motion: Callable | None = None

    def rows(self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar) -> Float[Array, " rows"]:
        Phi = mechanism.constraints(q, t)
        return jnp.concatenate([Phi, q[jnp.asarray(self.followed)] - self.motion(t)]) if self.followed else Phi

    def jacobian(self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar) -> Float[Array, "rows nv"]:
        Phi_q = mechanism.constraint_jacobian(q, t)
        if not self.followed:
            return Phi_q
        return jnp.concatenate([Phi_q, mechanism.coordinate_rates(q)[jnp.asarray(self.followed)]])

    def rate(self, mechanism: AbstractMechanism, q: Coordinates, dq: Velocities, t: Scalar) -> Float[Array, " rows"]:
        rate = mechanism.constraint_rate(q, dq, t)
        if not self.followed:
            return rate
        return jnp.concatenate([rate, mechanism.rate(self._gap, q, dq, t)[1]])

    def bias(self, mechanism: AbstractMechanism, q: Coordinates, dq: Velocities, t: Scalar) -> Float[Array, " rows"]:
        bias = mechanism.constraint_bias(q, dq, t)
        if not self.followed:
            return bias
        rate = lambda q, t: mechanism.rate(self._gap, q, dq, t)[1]  # noqa: E731
        return jnp.concatenate([bias, -mechanism.rate(rate, q, dq, t)[1]])

    def _gap(self, q, t):
        return q[jnp.asarray(self.followed)] - self.motion(t)
