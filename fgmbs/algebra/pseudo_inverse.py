"""Least squares with rank decisions, for constraint Jacobians with redundant rows.

A singular value below √ε times the largest (1.5e-8 in double precision) counts as zero, with all rows scaled to unit
length first, so that the decision depends neither on units nor on the lengths of the links. Redundant rows are
dependent only where the constraints hold: at a distance δ from there their singular value is of the order of δ, which
the limit leaves room for.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float


class RankFactors(NamedTuple):
    """Thin singular value decomposition U diag(s) Vᵀ and which singular values count."""

    U: Float[Array, "rows k"]
    s: Float[Array, " k"]
    Vt: Float[Array, "k columns"]
    keep: Bool[Array, " k"]

    def pseudo_inverse(self, damping: Float[Array, ""] | float = 0.0) -> Float[Array, "columns rows"]:
        """V diag(s / (s² + μ s₁²)) Uᵀ over the singular values that count; μ = `damping`, relative to the largest."""
        s = jnp.where(self.keep, self.s, 1.0)
        return (self.Vt.T * jnp.where(self.keep, s / (s**2 + damping * jnp.max(self.s) ** 2), 0.0)) @ self.U.T

    def null_projector(self) -> Float[Array, "columns columns"]:
        """P = I − A⁺A, the orthogonal projector on the null space."""
        V = jnp.where(self.keep, self.Vt.T, 0.0)
        return jnp.eye(V.shape[0], dtype=V.dtype) - V @ V.T


def rank_limit(dtype: DTypeLike) -> float:
    """Relative size below which a singular value counts as zero, √ε."""
    return float(jnp.finfo(dtype).eps) ** 0.5


def row_norms(A: Float[Array, "rows columns"], sizes: Float[Array, " rows"] | float = 1.0) -> Float[Array, " rows"]:
    """Length of every row, at least `rank_limit` times the longest, each compared by its size; 1 where all are zero."""
    norms = jnp.linalg.norm(A, axis=1) / sizes
    norms = jnp.maximum(norms, rank_limit(A.dtype) * jnp.max(norms, initial=0.0)) * sizes
    return jnp.where(norms > 0, norms, 1.0)


def rank_factors(A: Float[Array, "rows columns"]) -> RankFactors:
    """The factors of A, whose rows have comparable lengths."""
    U, s, Vt = jnp.linalg.svd(A, full_matrices=False)
    return RankFactors(U, s, Vt, s > rank_limit(A.dtype) * jnp.max(s, initial=0.0))


@jax.custom_jvp
def pseudo_inverse(A: Float[Array, "rows columns"]) -> Float[Array, "columns rows"]:
    """A⁺, differentiable where the rank of A is constant; no derivative passes through the decomposition."""
    return rank_factors(A).pseudo_inverse()


@pseudo_inverse.defjvp
def _pseudo_inverse_jvp(primals, tangents):
    (A,), (t_A,) = primals, tangents
    X = pseudo_inverse(A)
    # Golub, Pereyra 1973: derivative of the pseudo-inverse at constant rank.
    t_X = -X @ t_A @ X + X @ X.T @ t_A.T @ (jnp.eye(A.shape[0], dtype=A.dtype) - A @ X)
    return X, t_X + (jnp.eye(A.shape[1], dtype=A.dtype) - X @ A) @ t_A.T @ X.T @ X
