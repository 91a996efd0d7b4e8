"""Curves through samples against SciPy and exact functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BPoly

from fgmbs.signals.curves import force_curve, motion_curve

T = np.sort(np.random.default_rng(0).uniform(0, 2, 12))


def values(curve, t):
    return np.asarray(jax.jit(jax.vmap(curve))(jnp.asarray(t)))


def test_motion_curve_is_the_hermite_interpolant():
    rng = np.random.default_rng(1)
    y, dy, ddy = rng.standard_normal((3, 12, 2))
    curve = motion_curve(*map(jnp.asarray, (T, y, dy, ddy)))
    exact = BPoly.from_derivatives(T, np.stack([y, dy, ddy], axis=1))
    t = np.linspace(T[0], T[-1], 57)
    np.testing.assert_allclose(values(curve, t), exact(t), atol=1e-9)


@pytest.mark.slow
def test_motion_curve_goes_on_beyond_its_ends():
    y, dy, ddy = T**2, 2 * T, np.full(12, 2.0)
    curve = motion_curve(jnp.asarray(T), *(jnp.asarray(x)[:, None] for x in (y, dy, ddy)))
    rate = jax.vmap(jax.grad(lambda t: curve(t)[0]))
    t = np.array([T[0] - 1e-9, T[-1] + 1e-9])
    np.testing.assert_allclose(rate(jnp.asarray(t)), 2 * t, atol=1e-9)


def test_force_curve_meets_parabolas_and_samples():
    t = np.linspace(T[0], T[-1], 57)
    parabola = force_curve(jnp.asarray(T), jnp.asarray((1 + T - T**2)[:, None]))
    np.testing.assert_allclose(values(parabola, t)[:, 0], 1 + t - t**2, atol=1e-10)
    f = np.sin(5 * T)
    curve = force_curve(jnp.asarray(T), jnp.asarray(f[:, None]))
    np.testing.assert_allclose(values(curve, T)[:, 0], f, atol=1e-12)


@pytest.mark.slow
def test_force_curve_is_of_third_order():
    errors = []
    for steps in (20, 40, 80):
        t = np.linspace(0, 2, steps + 1)
        fine = np.linspace(0, 2, 10 * steps + 1)
        errors.append(
            np.abs(
                values(force_curve(*map(jnp.asarray, (t, np.sin(3 * t)[:, None]))), fine)[:, 0] - np.sin(3 * fine)
            ).max()
        )
    assert np.log2(errors[0] / errors[1]) > 2.7 and np.log2(errors[1] / errors[2]) > 2.7


def test_force_curve_jumps_where_it_is_told_to():
    t = np.linspace(0, 1, 11)
    f = np.where(t <= 0.5, t, 5 - t**2)
    curve = force_curve(jnp.asarray(t), jnp.asarray(f[:, None]), jnp.asarray(np.isclose(t, 0.5)))
    before, after = np.linspace(0.3, 0.4999, 9), np.linspace(0.5, 0.8, 9)
    np.testing.assert_allclose(values(curve, before)[:, 0], before, atol=1e-12)
    np.testing.assert_allclose(values(curve, after)[:, 0], 5 - after**2, atol=1e-12)
