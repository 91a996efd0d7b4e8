"""Derivatives of sampled signals against exact ones, corners and noise included."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.io.planar.load import load
from fgmbs.problems.driven.sampled_motion import sampled_motion

DT = 5e-3
T = np.arange(400) * DT


@pytest.fixture(scope="module")
def smoothed(configs):
    mechanism = load(configs / "mechanisms" / "pendulum.yaml")
    function = eqx.filter_jit(lambda y, sigma: sampled_motion(mechanism, y, jnp.asarray(DT), sigma, True))
    unknown = jnp.full(1, jnp.nan)
    return lambda y, sigma=None: function(jnp.asarray(y)[:, None], unknown if sigma is None else jnp.full(1, sigma))


def test_meets_cubic_polynomials(smoothed):
    found = smoothed(1 + 2 * T - T**2 + 0.5 * T**3)
    np.testing.assert_allclose(found.dy[:, 0], 2 - 2 * T + 1.5 * T**2, atol=1e-6)
    np.testing.assert_allclose(found.ddy[:, 0], -2 + 3 * T, atol=1e-4)


@pytest.mark.parametrize("few", [3, 4, 5, 9])
def test_few_samples(smoothed, few):
    found = smoothed(T[:few] ** 2)
    np.testing.assert_allclose(found.ddy[:, 0], 2.0, atol=1e-8)


def test_nothing_moves(smoothed):
    for value in (0.0, 3.0):
        found = smoothed(np.full(len(T), value))
        np.testing.assert_allclose(found.y[:, 0], value, atol=1e-7)
        np.testing.assert_allclose(found.ddy[:, 0], 0, atol=1e-3)


@pytest.mark.parametrize("digits", [7, 5, 3])
def test_ends_are_as_good_as_the_noise_allows(smoothed, digits):
    """Signals rounded to a number of digits: the error of the acceleration everywhere, in that of plain differences."""
    found = smoothed(np.round(1.2 * (1 - np.cos(2 * T)), digits))
    error = np.abs(np.asarray(found.ddy[:, 0]) - 4.8 * np.cos(2 * T))
    noise = 0.5 * 10.0**-digits
    assert np.sqrt(np.mean(error**2)) < 0.2 * noise / DT**2
    assert max(error[0], error[-1]) < noise / DT**2
    assert np.abs(found.y[:, 0] - 1.2 * (1 - np.cos(2 * T))).max() < 4 * noise


def test_finds_the_noise(smoothed):
    rng = np.random.default_rng(0)
    for sigma in (1e-6, 1e-3):
        found = smoothed(np.sin(3 * T) + sigma * rng.standard_normal(len(T)))
        assert 0.8 < found.sigma[0] / sigma < 1.25
        ratio = (np.asarray(found.y[:, 0]) - np.sin(3 * T)) ** 2 / np.asarray(found.cov[:, 0, 0, 0])
        assert 0.2 < ratio.mean() < 3


def test_finds_corners_and_keeps_them_sharp(smoothed):
    """A path that turns off at right angles: its acceleration jumps from −a to a after sample 200."""
    t = T - T[200]
    y = np.round(np.where(t < 0, 0.1 * np.sin(t) - 0.48 * t**2, 0.1 * np.sin(t) + 0.48 * t**2), 9)
    found = smoothed(y)
    np.testing.assert_array_equal(np.flatnonzero(found.jumps[:, 0]), [200])
    exact = np.where(t <= 0, -0.96, 0.96) - 0.1 * np.sin(t)
    assert np.abs(found.ddy[:, 0] - exact)[5:-5].max() < 1e-3


def test_smooth_signals_have_no_corners(smoothed):
    rng = np.random.default_rng(0)
    for noise in (0.0, 1e-7, 1e-4, 1e-2):
        for frequency in (0.5, 2.0, 5.0):
            y = np.sin(2 * np.pi * frequency * T) + noise * rng.standard_normal(len(T))
            assert not np.asarray(smoothed(y).jumps).any()


def test_given_noise_is_taken(smoothed):
    y = np.sin(3 * T) + 1e-3 * np.random.default_rng(0).standard_normal(len(T))
    assert smoothed(y, 1e-3).sigma[0] == 1e-3
    exact = smoothed(y, 0.0)  # an interpolation
    np.testing.assert_allclose(exact.y[:, 0], y, atol=1e-7)
