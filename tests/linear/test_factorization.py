"""What every method must answer, against dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from all_methods import ALL, answers
from hypothesis import given, settings
from hypothesis import strategies as st

from fgmbs.linear import METHODS


def dense_answers(systems, system, damping, b):
    """(solution, minimizer, log det, steps' marginals) by dense algebra that AD differentiates as it stands."""
    matrix = system.information().to_dense() + jnp.diag(jnp.concatenate([damping[0].ravel(), damping[1]]))
    flatten = lambda x: jnp.concatenate([x[0].ravel(), x[1]])
    cov, size = jnp.linalg.inv(matrix), system.num_steps * systems.nx
    k, blocks = jnp.arange(system.num_steps), cov[:size, :size].reshape(system.num_steps, systems.nx, -1, systems.nx)
    gradient = flatten(system.gradient())
    return cov @ flatten(b), -cov @ gradient, jnp.linalg.slogdet(matrix)[1], blocks[k, :, k]


@pytest.mark.parametrize("method", METHODS)
def test_bounds_on_globals_are_those_of_the_dense_system(systems, method):
    system, damping = systems.random(7, 3), systems.damping(7, 3)
    J, r = systems.dense(system)
    rows = np.concatenate([J, np.diag(np.sqrt(systems.flat(damping)))])
    right = np.concatenate([-r, np.zeros(J.shape[1])])
    free = np.linalg.lstsq(rows, right)[0]
    lower, upper = np.full(free.size, -np.inf), np.full(free.size, np.inf)
    # One bound that is met, one that is not, and no bound.
    lower[-3:], upper[-3:] = np.sort([[0.5 * free[-3], -0.1], [2 * free[-2], -np.sign(free[-2])], [-np.inf, np.inf]]).T
    lower, upper = np.minimum(lower, 0), np.maximum(upper, 0)
    reference = scipy.optimize.lsq_linear(rows, right, (lower, upper), method="bvls", tol=1e-15).x
    within = jax.jit(lambda *bounds: METHODS[method](system, *damping).minimizer_within(*bounds))
    found = within(jnp.asarray(lower[-3:]), jnp.asarray(upper[-3:]))
    np.testing.assert_allclose(systems.flat(found), reference, atol=1e-9)
    np.testing.assert_array_equal((reference == lower) | (reference == upper), np.arange(free.size) == free.size - 3)


@pytest.mark.parametrize(("num_steps", "p"), [(1, 0), (2, 3), (3, 0), (17, 3)])
@pytest.mark.parametrize("method", ALL)
def test_answers_are_those_of_the_dense_system(systems, method, num_steps, p):
    system, damping = systems.random(num_steps, p), systems.damping(num_steps, p)
    J, r = systems.dense(system)
    A = J.T @ J + np.diag(systems.flat(damping))
    b = np.random.default_rng(2).standard_normal(len(A))
    result = answers(method)(system, damping, systems.split(b, num_steps))

    assert result["finite"]
    np.testing.assert_allclose(systems.flat(result["solution"]), np.linalg.solve(A, b), rtol=1e-10, atol=1e-12)
    minimizer = np.linalg.solve(A, -J.T @ r) if method != "matrix" else np.zeros(len(A))
    np.testing.assert_allclose(systems.flat(result["minimizer"]), minimizer, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(result["log_determinant"], np.linalg.slogdet(A)[1], rtol=1e-12)

    cov, nx, size = np.linalg.inv(A), systems.nx, num_steps * systems.nx
    marginals = result["marginals"]
    close = dict(rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(marginals.globals, cov[size:, size:], **close)
    for k in range(num_steps):
        here, after = slice(k * nx, (k + 1) * nx), slice((k + 1) * nx, (k + 2) * nx)
        np.testing.assert_allclose(marginals.steps[k], cov[here, here], **close)
        np.testing.assert_allclose(marginals.cross[k], cov[size:, here], **close)
        if k + 1 < num_steps:
            np.testing.assert_allclose(marginals.pairs[k], cov[after, here], **close)


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_every_kind_may_be_missing(systems, method):
    system, damping = systems.random(3, 0, rows=(0, 4, 0, 0)), systems.damping(3, 0)
    J, r = systems.dense(system)
    A = J.T @ J + np.diag(systems.flat(damping))
    result = answers(method)(system, damping, damping)
    np.testing.assert_allclose(systems.flat(result["minimizer"]), np.linalg.solve(A, -J.T @ r), rtol=1e-10)


def along(answers, arguments, directions):
    """The derivatives of a scalar of the answers along a direction: first forward, second, first reverse."""

    def scalar(e):
        moved = jax.tree.map(lambda x, t_x: x + e * t_x, arguments, directions)
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(answers(*moved)))

    def forward(e):
        return jax.jvp(scalar, (e,), (1.0,))[1]

    return jax.jit(lambda e: (*jax.jvp(forward, (e,), (1.0,)), jax.grad(scalar)(e)))(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sequential", "sqrt"])
def test_derivatives_of_the_answers_to_second_order(systems, method):
    arguments = systems.random(11, 2), systems.damping(11, 2), systems.damping(11, 2, seed=5)
    directions = systems.random(11, 2, seed=1), systems.damping(11, 2, seed=2), systems.damping(11, 2, seed=6)

    def structured(system, damping, b):
        factorization = METHODS[method](system, *damping)
        return (
            factorization.solve(*b),
            factorization.minimizer(),
            factorization.log_determinant(),
            factorization.marginals().steps,
        )

    expected = along(lambda *a: dense_answers(systems, *a), arguments, directions)
    np.testing.assert_allclose(along(structured, arguments, directions), expected, rtol=1e-9)


@pytest.mark.parametrize("method", ["sqrt", "sequential"])
def test_derivatives_exist_without_damping(systems, method):
    system = systems.random(11, 2)
    zero = jax.tree.map(jnp.zeros_like, systems.damping(11, 2))
    norm = jax.jit(jax.grad(lambda system, d: jnp.sum(METHODS[method](system, *d).minimizer()[0] ** 2), argnums=(0, 1)))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(norm(system, zero)))


@pytest.mark.parametrize("method", METHODS)
def test_solution_is_linear_and_its_own_transpose(systems, method):
    system, damping = systems.random(3, 2), systems.damping(3, 2)
    b, c = systems.damping(3, 2, seed=5), systems.damping(3, 2, seed=6)
    factorization = jax.jit(METHODS[method])(system, *damping)
    (transposed,) = jax.linear_transpose(lambda b: factorization.solve(*b), b)(c)
    np.testing.assert_allclose(systems.flat(transposed), systems.flat(factorization.solve(*c)), rtol=1e-12)


@pytest.mark.parametrize("method", ALL)
def test_batch_equals_loop_and_a_failing_member_spoils_no_other(systems, method):
    batch = [systems.random(2, 3, seed) for seed in range(4)]
    damping = [systems.damping(2, 3, seed) for seed in range(4)]
    damping[1] = jax.tree.map(lambda d: d - 1e4 if method != "sqrt" else jnp.nan * d, damping[1])
    arguments = [(s, d, d) for s, d in zip(batch, damping, strict=True)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arguments)
    result = jax.jit(jax.vmap(answers(method)))(*stacked)
    assert result["finite"].tolist() == [True, False, True, True]
    assert np.all(np.isnan(result["solution"][0][1]))
    for k in (0, 2, 3):
        for one, many in zip(jax.tree.leaves(answers(method)(*arguments[k])), jax.tree.leaves(result), strict=True):
            np.testing.assert_allclose(many[k], one, rtol=1e-11, atol=1e-12)


def test_new_values_do_not_compile_again(systems):
    traces = []

    @jax.jit
    def step(system, damping):
        traces.append(1)
        return METHODS["sequential"](system, *damping).minimizer()

    for seed in range(3):
        step(systems.random(5, 2, seed), systems.damping(5, 2, seed))
    assert len(traces) == 1


def test_program_does_not_grow_with_the_number_of_steps(systems):
    def size(method, num_steps):
        arguments = systems.random(num_steps, 2), *systems.damping(num_steps, 2)
        return len(str(jax.make_jaxpr(lambda *a: METHODS[method](*a).minimizer())(*arguments)).splitlines())

    assert size("sequential", 20) == size("sequential", 200)
    assert size("sqrt", 20) == size("sqrt", 200)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(seed=st.integers(0, 10**6), scale=st.floats(-2, 2))
def test_sequential_and_sqrt_agree(systems, seed, scale):
    system, damping = systems.random(2, 3, seed, prior=10**scale), systems.damping(2, 3, seed)
    sequential, sqrt = (answers(method)(system, damping, damping) for method in ("sequential", "sqrt"))
    for a, b in zip(jax.tree.leaves(sequential), jax.tree.leaves(sqrt), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
