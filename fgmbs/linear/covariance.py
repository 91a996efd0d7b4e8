"""Marginal covariances by a recursion backwards in time: linear in the number of steps, no dense inverse."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear.kernels import gram, scan, solve_triangular


class Marginals(eqx.Module):
    """The blocks of A⁻¹ that lie within the pattern of A."""

    steps: Float[Array, "*recordings steps nx nx"]
    """cov(x_k, x_k)."""
    pairs: Float[Array, "*recordings steps-1 nx nx"]
    """cov(x_{k+1}, x_k)."""
    globals: Float[Array, "p p"]
    cross: Float[Array, "*recordings steps p nx"]
    """cov(globals, x_k)."""

    def with_globals(self) -> Float[Array, "*recordings steps wide wide"]:
        """cov((x_k, globals), (x_k, globals))."""
        globals = jnp.broadcast_to(self.globals, (*self.steps.shape[:-2], *self.globals.shape))
        upper = jnp.concatenate([self.steps, self.cross.mT], axis=-1)
        return jnp.concatenate([upper, jnp.concatenate([self.cross, globals], axis=-1)], axis=-2)


def marginals(
    pivots: Float[Array, "rows nx nx"], couplings: Float[Array, "rows nx wide"], last_pivot: Float[Array, "wide wide"]
) -> Marginals:
    """Covariances of steps, neighbouring steps and globals from a `Triangle`.

    Row k reads x_k = K w + L⁻ᵀ ε with w = (x_{k+1}, globals), K = −L⁻ᵀ C and white noise ε; so cov(x_k, w) = K cov(w)
    and cov(x_k) = L⁻ᵀ L⁻¹ + K cov(w) Kᵀ, backwards from the last row.
    """
    _, nx, wide = couplings.shape
    dtype = couplings.dtype

    def recur(cov, row):
        pivot, coupling = row
        inverse = solve_triangular(pivot, jnp.eye(nx, dtype=dtype))
        K = -inverse.T @ coupling
        between = cov @ K.T
        own = gram(inverse) + K @ between
        cross = between[nx:]
        return jnp.block([[own, cross.T], [cross, cov[nx:, nx:]]]), (own, between[:nx], cross)

    cov = gram(solve_triangular(last_pivot, jnp.eye(wide, dtype=dtype)))
    _, (steps, pairs, cross) = scan(recur, cov, (pivots, couplings), reverse=True)
    return Marginals(
        jnp.concatenate([steps, cov[None, :nx, :nx]]),
        pairs,
        cov[nx:, nx:],
        jnp.concatenate([cross, cov[None, nx:, :nx]]),
    )
