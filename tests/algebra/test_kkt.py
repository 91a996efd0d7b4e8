"""Constraint rows next to a loss of rank, with redundant ones, in any unit: their right inverse and accelerations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.algebra import kkt

right_inverse, solve_kkt, kkt_inverse = map(jax.jit, (kkt.right_inverse, kkt.solve_kkt, kkt.kkt_inverse))

SIZES = np.array([1.0, 1.0, 1e-3, 10.0, 1.0, 2.0])


def rows(weakest: float, seed: int = 0) -> np.ndarray:
    """Four rows of six, the smallest singular value by sizes given, the others near 1."""
    rng = np.random.default_rng(seed)
    U, _, Vt = np.linalg.svd(rng.normal(size=(4, 6)), full_matrices=False)
    return (U * np.array([1.2, 1.0, 0.7, weakest])) @ Vt / SIZES


def expected(J: np.ndarray) -> np.ndarray:
    return SIZES[:, None] * np.linalg.pinv(J * SIZES, rcond=1e-10)


@pytest.mark.parametrize("weakest", [0.5, 1e-2, 1e-4, 1e-6])
def test_it_is_that_of_numpy_next_to_a_loss_of_rank(weakest):
    J = rows(weakest)
    S = np.asarray(right_inverse(jnp.asarray(J), jnp.asarray(SIZES)))
    np.testing.assert_allclose(J @ S, np.eye(4), rtol=0, atol=1e-14 / weakest)
    np.testing.assert_allclose(S / SIZES[:, None], expected(J) / SIZES[:, None], rtol=0, atol=1e-10 / weakest**2)


def test_redundant_rows_are_met_in_the_least_squares_sense():
    J = rows(0.5)
    twice = np.concatenate([J, J[:1] - J[1:2]])
    b = np.arange(1.0, 6.0)
    S = np.asarray(right_inverse(jnp.asarray(twice), jnp.asarray(SIZES)))
    norms = np.linalg.norm(twice * SIZES, axis=1)  # rows of unit length
    x = SIZES * np.linalg.lstsq(twice * SIZES / norms[:, None], b / norms, rcond=1e-10)[0]
    np.testing.assert_allclose(S @ b, x, rtol=1e-8)


@pytest.mark.parametrize("weakest", [0.5, 1e-2])
def test_derivatives_are_those_of_differences(weakest):
    J, way = rows(weakest), rows(0.5, 1) * 1e-2

    def moved(s):
        return right_inverse(jnp.asarray(J) + s * jnp.asarray(way), jnp.asarray(SIZES)) / SIZES[:, None]

    h = 1e-4 * weakest
    slope = (expected(J + h * way) - expected(J - h * way)) / (2 * h) / SIZES[:, None]
    slope_at = jax.jit(lambda s: jax.jvp(moved, (s,), (1.0,))[1])
    tangent = slope_at(0.0)
    np.testing.assert_allclose(tangent, slope, rtol=0, atol=1e-6 * np.abs(slope).max())
    weights = np.random.default_rng(2).normal(size=J.T.shape)
    gradient = jax.jit(jax.grad(lambda s: jnp.vdot(moved(s), weights)))(0.0)
    assert gradient == pytest.approx(np.vdot(slope, weights), rel=1e-5)
    curvature = (slope_at(h) - slope_at(-h)) / (2 * h)
    second = jax.jit(lambda s: jax.jvp(slope_at, (s,), (1.0,))[1])(0.0)
    np.testing.assert_allclose(second, curvature, rtol=0, atol=1e-5 * np.abs(curvature).max())


def test_batches_are_what_each_one_is():
    many = np.stack([rows(weakest) for weakest in (0.5, 1e-3, 1e-5)])
    together = jax.jit(jax.vmap(right_inverse, (0, None)))(jnp.asarray(many), jnp.asarray(SIZES))
    for J, S in zip(many, together, strict=True):
        alone = right_inverse(jnp.asarray(J), jnp.asarray(SIZES))
        np.testing.assert_allclose(S, alone, rtol=0, atol=1e-9 * np.abs(alone).max())


@pytest.mark.parametrize("redundant", [False, True], ids=["independent rows", "redundant rows"])
@pytest.mark.parametrize("weakest", [0.5, 1e-2, 1e-3, 1e-4])
def test_accelerations_are_those_of_the_null_space_next_to_a_loss_of_rank(weakest, redundant):
    rng = np.random.default_rng(3)
    root = rng.normal(size=(6, 6))
    M, J = root @ root.T + np.diag([1, 1, 1, 1, 1, 10.0]), rows(weakest) * SIZES
    known, Q = rng.normal(size=6), rng.normal(size=6)
    N = np.linalg.svd(J)[2][4:].T
    expected = known + N @ np.linalg.solve(N.T @ M @ N, N.T @ (Q - M @ known))
    J = np.concatenate([J, J[:1] - J[1:2]]) if redundant else J
    ddq, _ = solve_kkt(jnp.asarray(M), jnp.asarray(J), jnp.asarray(Q), jnp.asarray(J @ known))
    np.testing.assert_allclose(ddq, expected, rtol=0, atol=1e-14 / weakest)
    inverse = kkt_inverse(jnp.asarray(M), jnp.asarray(J))
    np.testing.assert_allclose(inverse.P, N @ np.linalg.solve(N.T @ M @ N, N.T), rtol=0, atol=1e-9)


def test_rows_that_are_redundant_but_for_rounding_fade():
    """Their forces stay those of the load, which the others bear."""
    M, Q = jnp.diag(jnp.arange(1.0, 7.0)), jnp.ones(6)
    J = rows(0.5) * SIZES
    for lost in (0.0, 1e-12, 1e-9, 1e-6):
        twice = np.concatenate([J, J[:1] - J[1:2] + lost * np.ones(6)])
        ddq, lambda_ = solve_kkt(M, jnp.asarray(twice), Q, jnp.zeros(5))
        once, _ = solve_kkt(M, jnp.asarray(J), Q, jnp.zeros(4))
        np.testing.assert_allclose(ddq, once, rtol=0, atol=1e-5)
        assert jnp.max(jnp.abs(lambda_)) < 10


@pytest.mark.parametrize("units", [1.0, np.array([1.0, 1e6, 1e-6, 1.0, 1e3])])
def test_what_is_left_of_a_row_that_vanishes_is_rounding(units):
    """Of a row that others determine, in a pose in which it is a millionth of what it is elsewhere; in any units."""
    M, Q, known = jnp.diag(jnp.arange(1.0, 7.0)), jnp.ones(6), jnp.arange(6.0)
    J = rows(0.5) * SIZES
    short = 5e-6 * (J[:1] - J[1:2]) + 3e-13 * np.array([1.0, -1.0, 1.0, 1.0, 1.0, -1.0])
    both, c = np.concatenate([J, short]), np.append(J @ known, short @ known + 1e-12)
    scaled, c = jnp.asarray((both.T * units).T), jnp.asarray(units * c)
    once, _ = solve_kkt(M, jnp.asarray(J), Q, J @ known)
    ddq, _ = solve_kkt(M, scaled, Q, c, None, units)
    np.testing.assert_allclose(ddq, once, rtol=0, atol=1e-8)
    P, S, _ = kkt_inverse(M, scaled, None, units)
    np.testing.assert_allclose(P, kkt_inverse(M, jnp.asarray(J)).P, rtol=0, atol=1e-9)
    assert jnp.max(jnp.abs(S * units)) < 10
