"""Least squares of a few numbers within bounds, and where functions of them are not negative."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.linear.kernels import solve_triangular

_MOST = 10
"""Changes of the set of numbers on their bounds, for each number."""

_ROUNDING = 1e-13
_TIED = 1e5
"""Weight that ties a margin to the numbers it is one of, relative to theirs: it is missed by 1e-10 of what pulls."""


class Margins(NamedTuple):
    """Linear functions of numbers x, slopes x + values, that must not be negative."""

    values: Float[Array, " k"]
    slopes: Float[Array, "k p"]


def bounded_least_squares(
    A: Float[Array, "p p"],
    b: Float[Array, " p"],
    lower: Float[Array, " p"],
    upper: Float[Array, " p"],
    margins: Margins | None = None,
) -> Float[Array, " p"]:
    """argmin ‖A x − b‖² with lower ≤ x ≤ upper and margins of zero or more, which must hold for x = 0; A is regular.

    The primal active-set method (Nocedal and Wright, Numerical Optimization, section 16.5): exact after finitely many
    steps, a single one where no bound is met. Margins are further numbers with a bound of their own, tied to x by heavy
    rows: they hold to ten digits.
    """
    p = b.shape[0]
    if p == 0:
        return b
    if margins is not None:
        x = bounded_least_squares(*_with_margins(A, b, lower, upper, margins))
        return jnp.clip(x[:p], lower, upper)

    def best(x, held):
        """With the held numbers where they are; the normal equations, which square the condition, are not formed."""
        moves = jnp.where(held, 0.0, A)
        rows = jnp.concatenate([jnp.column_stack([moves, b - A @ jnp.where(held, x, 0.0)]), jnp.eye(p, p + 1)])
        rows = rows.at[p:].multiply(held[:, None])
        R = jnp.linalg.qr(rows, mode="r")[:p]
        return jnp.where(held, x, solve_triangular(R[:, :p].T, R[:, p], transpose=True))

    def improve(state):
        x, held, _, count = state
        target = best(x, held)
        move = target - x
        # How far along the way each number meets a bound.
        bound = jnp.where(move > 0, upper, lower)
        meets = ~held & (jnp.where(move > 0, target > upper, target < lower))
        share = jnp.where(meets, (bound - x) / jnp.where(meets, move, 1.0), 1.0)
        first = jnp.argmin(share)
        stopped = jnp.any(meets)
        x = jnp.clip(jnp.where(stopped, x + share[first] * move, target), lower, upper)
        met = stopped & (jnp.arange(p) == first)
        x = jnp.where(met, bound, x)
        # At the best point of those that are free, one leaves its bound if the cost falls away from it.
        r = A @ x - b
        slope = A.T @ r
        gains = jnp.where(held, jnp.where(x <= lower, -slope, slope), 0.0)
        gains = jnp.where(gains > _ROUNDING * (jnp.abs(A).T @ jnp.abs(r)), gains, 0.0)
        leaving = jnp.argmax(gains)
        leaves = ~stopped & (gains[leaving] > 0)
        held = jnp.where(stopped, held | met, held & ~(leaves & (jnp.arange(p) == leaving)))
        return x, held, ~stopped & ~leaves, count + 1

    def going(state):
        *_, done, count = state
        return ~done & (count < _MOST * p)

    none: Bool[Array, " p"] = jnp.zeros(p, bool)
    x, *_ = jax.lax.while_loop(going, improve, (jnp.zeros_like(b), none, jnp.asarray(False), jnp.asarray(0)))
    return x


def _with_margins(A, b, lower, upper, margins: Margins):
    """(A, b, lower, upper) of (x, margins)."""
    k = margins.values.shape[0]
    unit = jnp.linalg.norm(A, axis=0)
    size = jnp.max(jnp.abs(margins.slopes) / unit, axis=1)
    size = jnp.where(size > 0, size, 1.0)
    # Heavy rows first: a triangular factor of rows of very different weights is accurate in this order.
    tied = _TIED * jnp.concatenate([margins.slopes / size[:, None], -jnp.eye(k)], axis=1)
    A = jnp.concatenate([tied, jnp.pad(A, ((0, 0), (0, k)))])
    b = jnp.concatenate([jnp.zeros(k, b.dtype), b])
    least = jnp.minimum(-margins.values, 0.0) / size
    return A, b, jnp.concatenate([lower, least]), jnp.concatenate([upper, jnp.full(k, jnp.inf)])
