"""Least squares of a few numbers within bounds."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.linear.kernels import solve_triangular

_MOST = 10
"""Changes of the set of numbers on their bounds, for each number."""

_ROUNDING = 1e-13


def bounded_least_squares(
    A: Float[Array, "p p"], b: Float[Array, " p"], lower: Float[Array, " p"], upper: Float[Array, " p"]
) -> Float[Array, " p"]:
    """argmin ‖A x − b‖² with lower ≤ x ≤ upper, which must hold for x = 0; A is regular.

    The primal active-set method (Nocedal and Wright, Numerical Optimization, section 16.5): exact after finitely many
    steps, a single one where no bound is met.
    """
    p = b.shape[0]
    if p == 0:
        return b

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
