"""Functions compiled as one kernel give what they give otherwise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.compiled import loops
from fgmbs.compiled.one_kernel import one_kernel

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
    program = jax.jit(one_kernel(function)).lower(*args)
    assert "xla_cpu_small_call" in program.as_text()
    expected = jax.jit(function)(*args)
    for found, right in zip(jax.tree.leaves(program.compile()(*args)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-13)


BRANCHES = {
    "branches by member": lambda x: jax.lax.switch(jnp.argmax(x) % 3, [jnp.sin, jnp.cos, jnp.zeros_like], x),
    "branches alike": (lambda x: jax.lax.cond(jnp.asarray(3) > 2, lambda x: x + A[0], lambda x: x, x)),
    "places by member": (lambda x: jax.lax.dynamic_slice_in_dim(x, jnp.argmax(x), 2)),
    "entries by member": (lambda x: x.at[jnp.argmin(x)].set(0.0)[jnp.argsort(x)[:3]]),
    "chosen entries": (lambda x: x[jnp.array([0, 4, 2])]),
    "moments": (lambda x: (jnp.cumsum(x), jnp.flip(x), jnp.max(x), jnp.any(x > 0), jnp.pad(x, 1), jnp.tile(x, 2))),
    "a loop of steps": (lambda x: jax.lax.scan(lambda c, k: (c + k * x, c[0]), jnp.zeros(7), jnp.arange(4.0))),
    "loops of different length": lambda x: jax.lax.while_loop(lambda y: jnp.sum(y) < 40, lambda y: y + x**2, x),
    "a batch of loops": lambda x: jax.vmap(lambda s: grown(s, x))(jnp.array([1.0, 3.0, 0.2])),
    "a batch of loops alike": lambda x: jax.vmap(lambda n: times(n, x))(jnp.array([4, 0, 2])),
}


def grown(share, x):
    return jax.lax.while_loop(lambda y: jnp.sum(y) < 40, lambda y: y + share * x**2, x)


def times(count, x):
    return jax.lax.while_loop(lambda c: c[0] < count, lambda c: (c[0] + 1, 1.1 * c[1] + x), (0, x))


@pytest.mark.parametrize("name", [*FUNCTIONS, *BRANCHES])
def test_batches(name):
    """Of members that are different in their first argument, and of fewer that are alike in all."""
    function, args = FUNCTIONS[name] if name in FUNCTIONS else (BRANCHES[name], (A[1],))
    args, one = tuple(map(np.asarray, args)), jax.jit(function)
    first = np.stack([(s * args[0]).astype(args[0].dtype) for s in 1 + 0.01 * np.arange(37)])
    for many, axes in (((first, *args[1:]), (0, *[None] * (len(args) - 1))), (tuple(map(repeated(3), args)), 0)):
        many = tuple(map(jnp.asarray, many))
        program = jax.jit(jax.vmap(one_kernel(function), axes)).lower(*many)
        assert "xla_cpu_small_call" in program.as_text()
        members = [jax.tree.leaves(one(many[0][k], *args[1:])) for k in range(len(many[0]))]
        for found, *right in zip(jax.tree.leaves(program.compile()(*many)), *members, strict=True):
            np.testing.assert_allclose(found, np.stack(right), rtol=1e-11, atol=1e-13)


def repeated(members):
    return lambda x: np.broadcast_to(x, (members, *x.shape))


def test_batches_of_batches_and_derivatives():
    program = jax.jit(one_kernel(jnp.linalg.solve))
    many, b = jnp.asarray(np.stack([S, A, A.T])), jnp.asarray(B)
    both = jnp.asarray(np.stack([B, 2 * B]))
    over_both = lambda solve: jax.jit(jax.vmap(jax.vmap(solve, (0, None)), (None, 0)))(many, both)
    np.testing.assert_allclose(over_both(program), over_both(jnp.linalg.solve), rtol=1e-11)
    for derivative in (jax.jacfwd, jax.jacrev):
        found, right = (jax.jit(derivative(f))(jnp.asarray(A), b) for f in (program, jnp.linalg.solve))
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-12)
        found, right = (jax.jit(jax.vmap(derivative(f), (0, None)))(many, b) for f in (program, jnp.linalg.solve))
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-12)
    of_batch = lambda solve: jax.jit(jax.grad(lambda a: jnp.sum(jnp.sin(jax.vmap(solve, (0, None))(a, b)))))(many)
    np.testing.assert_allclose(of_batch(program), of_batch(jnp.linalg.solve), rtol=1e-10, atol=1e-12)


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


def waves(a):
    return jax.lax.fori_loop(0, 3, lambda _, a: jnp.sin(a) + jnp.cos(a), a)


@pytest.mark.parametrize(("most", "marked"), [(100, True), (4, False)])
def test_what_is_too_large_to_be_compiled_so_stays_as_it_is(monkeypatch, most, marked):
    monkeypatch.setattr("fgmbs.compiled.one_kernel._MOST", most)
    program, a = jax.jit(one_kernel(waves)), jnp.asarray(A)
    assert ('xla_cpu_small_call = "true"' in program.lower(a).as_text()) == marked
    np.testing.assert_allclose(program(a), waves(a), rtol=1e-13)


@pytest.mark.parametrize(("most", "shape"), [(100, f"x{len(A)}"), (4, "")])
def test_members_are_computed_one_after_another_where_a_block_would_be_too_large(monkeypatch, most, shape):
    monkeypatch.setattr("fgmbs.compiled.one_kernel._MOST_ACROSS", most)
    program, a = jax.jit(jax.vmap(one_kernel(waves))), jnp.asarray(A)
    text = program.lower(a).as_text()
    call = next(line for line in text.splitlines() if 'xla_cpu_small_call = "true"' in line)
    assert f"(tensor<{A.shape[1]}{shape}xf64>" in call, call
    np.testing.assert_allclose(program(a), waves(a), rtol=1e-13)


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
