"""Generalized inverses and their derivative rules."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.algebra.pseudo_inverse import pseudo_inverse, rank_factors, row_norms


def _matrix(x, rows=5, columns=4, rank=2):
    """Of constant rank, a smooth function of x."""
    left, right = (
        jax.random.normal(jax.random.key(0), (rows, rank)),
        jax.random.normal(jax.random.key(1), (rank, columns)),
    )
    return (left + x * jnp.cos(left)) @ (right + jnp.sin(x * right))


@pytest.mark.parametrize("rank", [2, 4])
def test_inverse_and_its_derivatives(rank):
    def f(x):
        return pseudo_inverse(_matrix(x, rank=rank))

    def reference(x):
        return np.linalg.pinv(_matrix(x, rank=rank), rcond=1e-10)

    x, h = jnp.asarray(0.3), 1e-4
    value, first, second = jax.jit(lambda x: (f(x), jax.jacrev(f)(x), jax.jacfwd(jax.jacfwd(f))(x)))(x)
    plus, minus = reference(x + h), reference(x - h)
    np.testing.assert_allclose(value, reference(x), atol=1e-11)
    size = np.max(np.abs(second))
    np.testing.assert_allclose(first, (plus - minus) / (2 * h), atol=1e-6 * size)
    np.testing.assert_allclose(second, (plus - 2 * reference(x) + minus) / h**2, atol=1e-4 * size)


def test_damping_and_projector():
    A = _matrix(jnp.asarray(0.1))
    factors = rank_factors(A)
    mu = 1e-2 * np.linalg.norm(A, 2) ** 2
    np.testing.assert_allclose(factors.pseudo_inverse(1e-2), np.linalg.solve(A.T @ A + mu * np.eye(4), A.T), atol=1e-12)
    P = factors.null_projector()
    np.testing.assert_allclose(A @ P, 0, atol=1e-12)
    assert np.trace(P) == pytest.approx(2)


def test_zero_rows_have_a_norm_to_divide_by():
    np.testing.assert_array_equal(row_norms(jnp.zeros((2, 3))), [1, 1])
