"""Least squares within bounds, against SciPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from fgmbs.linear.bounds import Margins, bounded_least_squares

solve = jax.jit(bounded_least_squares)


@pytest.mark.parametrize("p", [1, 2, 5, 12])
def test_equals_scipy(p):
    rng = np.random.default_rng(p)
    on_bounds = []
    for _ in range(30):
        # Numbers of very different sizes that depend on each other.
        A = np.tril(rng.standard_normal((p, p)) + 3 * np.eye(p)).T * 10.0 ** rng.uniform(-2, 2, p)
        x = rng.standard_normal(p) / np.linalg.norm(A, axis=0)
        width = np.abs(rng.standard_normal((2, p))) / np.linalg.norm(A, axis=0)
        lower = np.where(rng.uniform(size=p) < 0.7, -width[0], -np.inf)
        upper = np.where(rng.uniform(size=p) < 0.7, width[1], np.inf)
        b = 2 * A @ x
        ours = np.asarray(solve(*map(jnp.asarray, (A, b, lower, upper))))
        reference = scipy.optimize.lsq_linear(A, b, (lower, upper), method="bvls", tol=1e-15, max_iter=1000)
        np.testing.assert_allclose(ours * np.linalg.norm(A, axis=0), reference.x * np.linalg.norm(A, axis=0), atol=1e-9)
        assert np.all((ours >= lower) & (ours <= upper))
        on_bounds.append(np.sum((ours == lower) | (ours == upper)))
    assert 0 < np.mean(on_bounds) < p


def test_without_bounds_it_is_the_solution():
    A, b = jnp.array([[2.0, 1.0], [0.0, 1e-6]]), jnp.array([1.0, 3.0])
    free = jnp.full(2, jnp.inf)
    np.testing.assert_allclose(solve(A, b, -free, free), np.linalg.solve(A, b), rtol=1e-12)
    assert solve(jnp.zeros((0, 0)), jnp.zeros(0), jnp.zeros(0), jnp.zeros(0)).shape == (0,)


def test_a_number_that_stands_on_its_bound_leaves_it_or_stays():
    A, lower, upper = jnp.eye(2), jnp.array([0.0, -1.0]), jnp.array([1.0, 0.0])
    np.testing.assert_array_equal(solve(A, jnp.array([0.5, 0.5]), lower, upper), [0.5, 0.0])
    np.testing.assert_array_equal(solve(A, jnp.array([-0.5, -0.5]), lower, upper), [0.0, -0.5])


@pytest.mark.parametrize("p", [2, 5])
def test_margins_against_every_active_set(p):
    """The best of all that holds, over which bounds and margins are met exactly."""
    rng, k, met = np.random.default_rng(p), 2, 0
    within = jax.jit(bounded_least_squares)
    for _ in range(20):
        A = np.tril(rng.standard_normal((p, p)) + 3 * np.eye(p)).T * 10.0 ** rng.uniform(-2, 2, p)
        unit = np.linalg.norm(A, axis=0)
        b, slopes = 3 * rng.standard_normal(p), rng.standard_normal((k, p)) * unit
        lower, values = -np.abs(rng.standard_normal(p)) / unit, np.abs(rng.standard_normal(k)) * (p == 2 or 0.1)
        free = np.full(p, np.inf)
        ours = np.asarray(within(*map(jnp.asarray, (A, b, lower, free)), Margins(jnp.asarray(values), slopes)))
        rows, ends = np.concatenate([slopes, np.eye(p)]), np.concatenate([-values, lower])
        best = np.inf
        for size in range(p + 1):
            for held in map(list, itertools.combinations(range(p + k), size)):
                kkt = np.block([[A.T @ A, rows[held].T], [rows[held], np.zeros((size, size))]])
                x = np.linalg.lstsq(kkt, np.concatenate([A.T @ b, ends[held]]), rcond=None)[0][:p]
                if np.all(rows @ x >= ends - 1e-7 * np.abs(rows) @ (1 / unit)):
                    best = min(best, np.sum((A @ x - b) ** 2))
        assert np.sum((A @ ours - b) ** 2) == pytest.approx(best, rel=1e-6, abs=1e-6)
        assert np.all(slopes @ ours + values >= -1e-8) and np.all(ours >= lower)
        met += np.any(slopes @ ours + values < 1e-8)
    assert 0 < met < 20
