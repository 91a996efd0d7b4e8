"""Local coordinates of a moving mechanism: every step of an estimate stays on the constraints."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.kkt import kkt_inverse, spd_inverse
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar

_MASSLESS_PREFERENCE = 10.0
"""How many times better a coordinate with mass must be to become independent before one without (an angle)."""
_CORRECTIONS = 2
_CLOSED = 1e-3
"""Last correction of a position that closes, relative to the coordinates; the next move squares it."""


class MotionChart(eqx.Module):
    """Coordinates δ = (δz, δż, δu) of steps x = (q, q̇, u) with Φ(q, t) = 0 and Φ_q q̇ + Φ_t = 0; u is free.

    z = B q are independent coordinates, chosen anew at every x. [Blanco21] eqs. (8)–(12), and the position and velocity
    problems (30), (31) solved for good.

    Attributes:
        dof: Degrees of freedom.
        independent: Which coordinates are the independent ones; None: the best at every x.
    """

    dof: int = eqx.field(static=True)
    independent: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def local_size(self, mechanism: AbstractMechanism, size: int) -> int:
        """Number of local coordinates of a step of `size` numbers."""
        return size - mechanism.n - mechanism.nv + 2 * self.dof

    def selection(self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar) -> Float[Array, "dof nv"]:
        """B at q."""
        if self.dof == mechanism.nv:
            return jnp.eye(mechanism.nv, dtype=q.dtype)
        return self._selection(mechanism, q, _projector(mechanism, q, t)[0])

    def tangent(self, mechanism: AbstractMechanism, x: Float[Array, " nx"], t: Scalar) -> Float[Array, "nx local"]:
        """∂x/∂δ at δ = 0."""
        q, dq, u = _split(mechanism, x)
        if self.dof == mechanism.nv:
            return jnp.eye(x.shape[0], dtype=x.dtype)
        P, S = _projector(mechanism, q, t)
        B, R = self._independent(mechanism, q, P)
        # Φ_q q̇ + Φ_t stays zero while q moves along R: B q̇ does not change, the rest of q̇ makes up for it.
        bend = jax.vmap(lambda r: jax.jvp(lambda q: mechanism.constraint_rate(q, dq, t), (q,), (r,))[1], 1, 1)(R)
        carried = R @ (B @ (S @ bend)) - S @ bend
        nothing = jnp.zeros((u.shape[0], self.dof), x.dtype)
        motion = jnp.block([[R, jnp.zeros_like(R)], [carried, R], [nothing, nothing]])
        free = jnp.eye(x.shape[0], u.shape[0], -(x.shape[0] - u.shape[0]), dtype=x.dtype)
        return jnp.concatenate([motion, free], axis=1)

    def move(
        self, mechanism: AbstractMechanism, x: Float[Array, " nx"], delta: Float[Array, " local"], t: Scalar
    ) -> Float[Array, " nx"]:
        """x ⊞ δ, by Newton's method from q + R δz; NaN where the mechanism does not reach z."""
        q, dq, u = _split(mechanism, x)
        dz, ddz, du = delta[: self.dof], delta[self.dof : 2 * self.dof], delta[2 * self.dof :]
        if self.dof == mechanism.nv:
            return jnp.concatenate([mechanism.retract(q, dz), dq + ddz, u + du])
        B, R = self._independent(mechanism, q, _projector(mechanism, q, t)[0])

        moved = mechanism.retract(q, R @ dz)
        back, _ = self._back(mechanism, moved, B, t)
        for _ in range(_CORRECTIONS):
            # Of the error each leaves its distance from where `back` was taken.
            moved = mechanism.retract(moved, -back @ mechanism.constraints(moved, t))
        back, R = self._back(mechanism, moved, B, t)
        last = back @ mechanism.constraints(moved, t)
        closed = jnp.linalg.norm(last) <= _CLOSED * (1 + jnp.linalg.norm(q))
        moved = jnp.where(closed, mechanism.retract(moved, -last), jnp.nan)
        dq = R @ (B @ dq + ddz)
        for _ in range(_CORRECTIONS):
            dq = dq - back @ mechanism.constraint_rate(moved, dq, t)
        return jnp.concatenate([moved, dq, u + du])

    def _back(self, mechanism, q, B, t):
        """(S', R) with Φ_q S' = 1, B S' = 0: back to the constraints at constant z; and B R = 1, Φ_q R = 0."""
        P, S = _projector(mechanism, q, t)
        R = _lift(B, P)
        return S - R @ (B @ S), R

    def coordinates(self, mechanism: AbstractMechanism, x: Float[Array, " nx"], t: Scalar) -> Float[Array, "local nx"]:
        """C with δ = C (y − x) for a neighbour y of x: the selection of (z, ż, u)."""
        B = self.selection(mechanism, x[: mechanism.n], t)
        count = x.shape[0] - 2 * mechanism.nv
        return jax.scipy.linalg.block_diag(B, B, jnp.eye(count, dtype=x.dtype))

    def _independent(self, mechanism, q, P):
        B = self._selection(mechanism, q, P)
        return B, _lift(B, P)

    def _selection(self, mechanism, q, P):
        if self.independent is not None:
            return jnp.eye(mechanism.nv, dtype=q.dtype)[jnp.asarray(self.independent)]
        return best_selection(mechanism, q, jax.lax.stop_gradient(P), self.dof)


def best_selection(
    mechanism: AbstractMechanism, q: Coordinates, P: Float[Array, "nv nv"], dof: int
) -> Float[Array, "dof nv"]:
    """Rows of the identity for the coordinates that the motion moves most, one after the other.

    Args:
        P: Orthogonal projector on the null space of Φ_q.
    """
    massless = jnp.diag(mechanism.mass_matrix(q)) == 0
    preference = jnp.where(massless, _MASSLESS_PREFERENCE**2, 1.0)
    selected = []
    for _ in range(dof):
        share = jnp.diag(P)
        row = jax.nn.one_hot(jnp.argmax(preference * share), P.shape[0], dtype=P.dtype)
        column = P @ row
        P = P - jnp.outer(column, column) / (row @ column)
        selected.append(row)
    return jnp.stack(selected)


def _split(mechanism, x):
    n, nv = mechanism.n, mechanism.nv
    return x[:n], x[n : n + nv], x[n + nv :]


def _projector(mechanism, q, t):
    """(P, S): the projector on the null space of Φ_q and the pseudo-inverse of Φ_q."""
    inverse = kkt_inverse(jnp.eye(mechanism.nv, dtype=q.dtype), mechanism.constraint_jacobian(q, t))
    return inverse.P, inverse.S


def _lift(B, P):
    """R with B R = I and columns in the null space."""
    return P @ B.T @ spd_inverse(B @ P @ B.T)
