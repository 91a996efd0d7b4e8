"""Functions compiled as one kernel give what they give otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs import loops
from fgmbs.one_kernel import one_kernel

RNG = np.random.default_rng(0)
A = RNG.standard_normal((7, 7))
B = RNG.standard_normal((7, 3))
S = A @ A.T + np.eye(7)


def newton(a, b):
    def step(x):
        return x - jnp.linalg.solve(a + jnp.diag(3 * x**2), a @ x + x**3 - b)

    return jax.lax.while_loop(lambda x: jnp.max(jnp.abs(a @ x + x**3 - b)) > 1e-10, step, jnp.zeros_like(b))


FUNCTIONS = {
    "solve": (jnp.linalg.solve, (A, B)),
    "solve of a vector": (jnp.linalg.solve, (A, B[:, 0])),
    "cholesky": (jnp.linalg.cholesky, (S,)),
    "triangular": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1), (S, B)),
    "triangular from the right": (lambda a, b: jax.lax.linalg.triangular_solve(a, b.T, lower=False), (S, B)),
    "triangularize": (lambda a: jnp.abs(jnp.linalg.qr(a, mode="r")), (np.concatenate([A, B.T]),)),
    "triangularize a wide one": (lambda a: jnp.abs(jnp.linalg.qr(a, mode="r")), (B.T,)),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(-x)), (np.array([3.0, np.nan, 1.0, 3.0, -np.inf, np.inf, 0.0]),)),
    "sort along columns": (lambda a: jnp.argsort(a, axis=0), (A,)),
    "product": (lambda a, b: jnp.einsum("kij,klj->kil", a, b), (RNG.random((2, 3, 4)), RNG.random((2, 5, 4)))),
    "large product": (lambda a: jnp.tensordot(a, a, ((0, 2), (0, 2))), (RNG.random((9, 17, 9)),)),
    "empty product": (lambda a, b: a @ b, (np.zeros((4, 0)), np.zeros((0, 3)))),
    "outer product": (jnp.outer, (A[0], B[0])),
    "entries": (lambda a, x: a.at[2].add(x).at[:-1, 1].set(0.0), (A, A[0])),
    "loops": (newton, (S, B[:, 0])),
    "nothing read": (lambda x, y, z, b: (x + 1, z[:0]), (A, B, np.zeros((0, 2)), A > 0)),
    "read by nobody in the end": (lambda x, y: jax.lax.cond(True, jnp.sin, lambda x: x + y[0, 0], x), (A, B)),
    "many columns": (jax.vmap(jnp.linalg.cholesky), (np.stack([S, 2 * S]),)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_function(name):
    function, args = FUNCTIONS[name]
    args = tuple(map(jnp.asarray, args))
    program = jax.jit(one_kernel(function))
    assert "xla_cpu_small_call" in program.lower(*args).as_text()
    for found, expected in zip(jax.tree.leaves(program(*args)), jax.tree.leaves(function(*args)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


def test_batches_and_derivatives_are_those_of_the_function():
    program = jax.jit(one_kernel(jnp.linalg.solve))
    many = jnp.stack([S, A, A.T])
    np.testing.assert_allclose(
        jax.vmap(program, (0, None))(many, B), jax.vmap(jnp.linalg.solve, (0, None))(many, B), rtol=1e-11
    )
    for derivative in (jax.jacfwd, jax.jacrev):
        found, expected = (derivative(f)(jnp.asarray(A), jnp.asarray(B)) for f in (program, jnp.linalg.solve))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert "xla_cpu_small_call" not in jax.jit(jax.vmap(program, (0, None))).lower(many, B).as_text()


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (jnp.linalg.eigvalsh, S),
        (lambda a: a.at[jnp.array([0, 2])].add(1.0), A),
        (lambda a: a @ a, np.eye(100)),
        (jnp.sum, np.ones(5000)),
    ],
)
def test_what_needs_a_library_stays_as_it_is(function, argument):
    program, argument = jax.jit(one_kernel(function)), jnp.asarray(argument)
    assert "xla_cpu_small_call" not in program.lower(argument).as_text()
    np.testing.assert_allclose(program(argument), function(argument), rtol=1e-11)


def test_what_is_no_array_passes_through():
    found = jax.jit(lambda x: one_kernel(lambda x, name: {name: x + 1, "kept": None})(x, "y"))(jnp.ones(2))
    assert found["kept"] is None
    np.testing.assert_array_equal(found["y"], [2.0, 2.0])


def test_rows_of_very_different_weight_are_triangularized_as_lapack_does():
    rows = A[np.argsort(-np.abs(A).max(axis=1))] * np.logspace(8, -8, 7)[:, None]
    np.testing.assert_allclose(
        np.abs(loops.triangularize(jnp.asarray(rows))), np.abs(np.linalg.qr(rows, mode="r")), rtol=1e-9
    )


def test_failed_factorizations_are_not_finite():
    assert np.all(np.isnan(loops.cholesky(jnp.asarray(S).at[4, 4].set(-1.0))))
    lower, pivots, permutation = loops.lu(jnp.asarray(A))
    expected = jax.lax.linalg.lu(jnp.asarray(A))
    for found, right in zip((lower, pivots, permutation), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)
