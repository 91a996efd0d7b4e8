"""Closing a mechanism: the rows that a position must satisfy, and the one Newton's method that satisfies them."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fgmbs.algebra.kkt import product, right_inverse, spd_solve
from fgmbs.algebra.pseudo_inverse import row_norms
from fgmbs.kinematics.base import AbstractKinematics
from fgmbs.typing import Coordinates, Scalar, Velocities

_LEAST_DAMPING, _MOST_DAMPING = 1e-12, 1e9
"""Damping relative to rows of unit length: the least keeps redundant rows and free directions solvable."""
_STUCK = 1e-9
"""Slope of the gaps, relative to them, below which no step makes them smaller to first order."""
_CONSTANT = 1e-6
"""Length of a normalized row, below which it is rounding: no step changes its gap, nor is it judged by it."""


class Closure(eqx.Module):
    """What a position must satisfy: Φ(q, t) = 0 and, where a motion is known, q[followed] = y(t)."""

    followed: tuple[int, ...] = eqx.field(static=True, default=())
    """Coordinates with a known motion."""
    motion: Callable[[Scalar], Float[Array, " k"]] | None = None
    """That motion y(t), a pytree [m, rad]."""
    held: Bool[Array, " k"] | None = None
    """Which of them are held to it; by default all. The rows of the others are zero."""

    def rows(self, mechanism: AbstractKinematics, q: Coordinates, t: Scalar) -> Float[Array, " rows"]:
        """[Φ; q[followed] − y], zero where q is closed [m², m, rad]."""
        Phi = mechanism.constraints(q, t)
        return jnp.concatenate([Phi, self._gaps(q, t)]) if self.followed else Phi

    def jacobian(self, mechanism: AbstractKinematics, q: Coordinates, t: Scalar) -> Float[Array, "rows nv"]:
        """[Φ_q; E[followed]], with respect to velocities: d/dt q = E dq."""
        Phi_q = mechanism.constraint_jacobian(q, t)
        return jnp.concatenate([Phi_q, self._picked(mechanism.coordinate_rates(q))]) if self.followed else Phi_q

    def rate(self, mechanism: AbstractKinematics, q: Coordinates, dq: Velocities, t: Scalar) -> Float[Array, " rows"]:
        """Derivative of the rows with respect to time, zero where dq is closed."""
        rate = mechanism.constraint_rate(q, dq, t)
        return jnp.concatenate([rate, self._gap_rate(mechanism, q, dq, t)]) if self.followed else rate

    def bias(self, mechanism: AbstractKinematics, q: Coordinates, dq: Velocities, t: Scalar) -> Float[Array, " rows"]:
        """c with jacobian · ddq = c: minus the second derivative of the rows along the motion without acceleration."""
        c = mechanism.constraint_bias(q, dq, t)
        if not self.followed:
            return c
        ddgap = mechanism.rate(lambda q, t: self._gap_rate(mechanism, q, dq, t), q, dq, t)[1]
        return jnp.concatenate([c, -ddgap])

    def inverse(self, mechanism: AbstractKinematics, q: Coordinates, t: Scalar) -> Float[Array, "nv rows"]:
        """S with dq = −S · rate(dq = 0) and ddq = S · bias: the right inverse of the Jacobian, of least norm by sizes.

        Redundant rows are met in the least-squares sense. Its last columns are R, the motions that the constraints
        allow. Differentiable of any order.
        """
        sizes = mechanism.local_sizes
        return right_inverse(
            self.jacobian(mechanism, q, t), jnp.ones(mechanism.nv, q.dtype) if sizes is None else sizes
        )

    def close(
        self,
        mechanism: AbstractKinematics,
        q: Coordinates,
        t: Scalar,
        *,
        size: Scalar,
        limit: int,
        damping: float = _LEAST_DAMPING,
    ) -> "Closed":
        """The closed position near q; see the function `close`."""
        rows = partial(self.rows, mechanism, t=t)
        sizes = row_sizes(mechanism, self.followed)

        def jacobian(q):
            return mechanism.sized(self.jacobian(mechanism, q, t))

        return close(mechanism, rows, jacobian, q, row_sizes=sizes, size=size, limit=limit, damping=damping)

    def _picked(self, values):
        picked = values[jnp.asarray(self.followed, int)]
        return picked if self.held is None else (picked.T * self.held).T

    def _gaps(self, q, t):
        y = self.motion(t)
        return self._picked(q) - (y if self.held is None else y * self.held)

    def _gap_rate(self, mechanism, q, dq, t):
        return mechanism.rate(self._gaps, q, dq, t)[1]


def row_sizes(mechanism: AbstractKinematics, followed: tuple[int, ...]) -> Float[Array, " rows"] | float:
    """Sizes of the rows [Φ; q[followed]]."""
    if not followed:
        return mechanism.constraint_sizes
    mine, sizes = jnp.broadcast_to(mechanism.constraint_sizes, mechanism.m), mechanism.coordinate_sizes
    return jnp.concatenate([mine, sizes[jnp.asarray(followed, int)]])


def metric(mechanism: AbstractKinematics, dtype: jnp.dtype) -> Float[Array, "nv nv"]:
    """What velocities are measured with: vᵀ G v counts each by its size."""
    sizes = mechanism.local_sizes
    return jnp.eye(mechanism.nv, dtype=dtype) if sizes is None else jnp.diag(1 / sizes**2).astype(dtype)


class Instant(eqx.Module):
    """A motion around one instant: y + dy s + ½ ddy s² at a time s after it."""

    t: Scalar
    y: Float[Array, " k"]
    dy: Float[Array, " k"] | float = 0.0
    ddy: Float[Array, " k"] | float = 0.0

    def __call__(self, t: Scalar) -> Float[Array, " k"]:
        s = t - self.t
        return self.y + s * (self.dy + s / 2 * self.ddy)


class Closed(NamedTuple):
    """Where closing ended."""

    q: Coordinates
    closed: Bool[Array, ""]
    """Whether what is left of each row, |row| / |its gradient|, is rounding."""
    iterations: Int[Array, ""]
    damping: Float[Array, ""]
    done: Bool[Array, ""]
    """Whether a further step would change nothing."""


def close(
    mechanism: AbstractKinematics,
    rows: Callable[[Coordinates], Float[Array, " rows"]],
    jacobian: Callable[[Coordinates], Float[Array, "rows nv"]],
    q: Coordinates,
    *,
    row_sizes: Float[Array, " rows"] | float,
    size: Scalar,
    limit: int | Int[Array, ""],
    damping: float = _LEAST_DAMPING,
) -> Closed:
    """The closed position near q, by damped Newton steps of least norm.

    A step v = −(JᵀJ + μ)⁻¹ Jᵀ gaps, changes by their sizes and rows of unit length, q ⊞ v; μ falls to its least value
    while the gaps shrink and grows where they do not. Redundant rows, freedom and singular poses are welcome.

    Args:
        mechanism: The mechanism.
        rows: What has to become zero.
        jacobian: Its derivative by changes of q by their sizes.
        q: Where to start [m, rad].
        row_sizes: Sizes of the rows.
        size: Extent of the coordinates, to which rounding is relative.
        limit: Most steps.
        damping: First μ; the least one for a start nearby.
    """
    rounding = float(jnp.finfo(q.dtype).eps) * size
    identity = jnp.eye(mechanism.nv, dtype=q.dtype)

    def body(s):
        J = jacobian(s.q)
        norms = row_norms(J, row_sizes)
        J, gaps = J / norms[:, None], rows(s.q) / norms
        changes = jnp.linalg.norm(J, axis=1) > _CONSTANT
        J, before = J * changes[:, None], jnp.linalg.norm(gaps * changes)
        slope = gaps @ J
        stuck = jnp.linalg.norm(slope) <= _STUCK * before
        trial = mechanism.moved(s.q, -spd_solve(product(J.T, J) + s.damping * identity, slope))
        gaps_trial = rows(trial) / norms
        lower = jnp.linalg.norm(gaps_trial * changes) < before  # False for NaN
        left = jnp.max(jnp.abs(jnp.where(lower, gaps_trial, gaps)), initial=0.0)
        closed = left <= 1e3 * rounding
        damping = jnp.where(lower, jnp.maximum(s.damping / 10, _LEAST_DAMPING), s.damping * 10)
        done = stuck | (damping > _MOST_DAMPING) | (left <= rounding) | (closed & ~lower)
        return Closed(jnp.where(lower, trial, s.q), closed, s.iterations + 1, damping, done)

    false = jnp.asarray(False)
    start = Closed(q, false, jnp.asarray(0), jnp.asarray(damping, q.dtype), false)
    return jax.lax.while_loop(lambda s: ~s.done & (s.iterations < limit), body, start)
