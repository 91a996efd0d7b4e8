"""The few operations on small blocks that every method is made of."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def scan(body, carry, rows, reverse=False):
    """`jax.lax.scan` over rows of arrays; up to three are written out, because a loop costs more than they do."""
    length = jax.tree.leaves(rows)[0].shape[0]
    return jax.lax.scan(body, carry, rows, reverse=reverse, unroll=length <= 3)


def cholesky(a: Float[Array, "size size"]) -> Float[Array, "size size"]:
    """The lower factor, from the lower half of a; NaN where a is not positive definite."""
    return jax.lax.linalg.cholesky(a, symmetrize_input=False)


def solve_triangular(
    lower: Float[Array, "size size"], b: Float[Array, "size ..."], transpose: bool = False
) -> Float[Array, "size ..."]:
    """lower⁻¹ b, or lower⁻ᵀ b."""
    columns = b if b.ndim == 2 else b[:, None]
    x = jax.lax.linalg.triangular_solve(lower, columns, left_side=True, lower=True, transpose_a=transpose)
    return x.reshape(b.shape)


def gram(a: Float[Array, "rows size"]) -> Float[Array, "size size"]:
    """aᵀa."""
    return a.T @ a


def diagonal_matrix(diagonal: Float[Array, " size"], zeros: int = 0) -> Float[Array, "size_zeros size_zeros"]:
    """diag(diagonal, 0, …, 0)."""
    return jnp.diag(jnp.pad(diagonal, (0, zeros)))
