"""Robust losses against their defining properties and their textbook forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.losses import Cauchy, Huber, Tukey

LOSSES = [Huber(1.5), Cauchy(2.0), Tukey(3.0)]
S = jnp.array([0.0, 1e-12, 0.3, 2.0, 2.25, 4.0, 8.9, 9.0, 11.0, 1e8])


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
class TestEveryLoss:
    def test_weight_is_the_derivative_of_rho(self, loss):
        derivative = jax.vmap(jax.grad(loss.rho))(S)
        np.testing.assert_allclose(loss.weight(S), derivative, rtol=1e-12, atol=1e-15)
        smooth = S[(S != 2.25) & (S != 9.0)]  # away from the thresholds, where ρ'' jumps
        second = jax.vmap(jax.grad(jax.grad(loss.rho)))(smooth)
        np.testing.assert_allclose(jax.vmap(jax.grad(loss.weight))(smooth), second, rtol=1e-9, atol=1e-12)

    def test_small_residuals_cost_as_in_least_squares(self, loss):
        assert loss.rho(0.0) == 0
        assert loss.weight(0.0) == 1
        assert loss.rho(1e-6) == pytest.approx(1e-6, rel=1e-6)

    def test_large_residuals_cost_less(self, loss):
        assert np.all(loss.rho(S) <= S * (1 + 1e-12))
        assert np.all(np.diff(loss.rho(S)) >= 0)
        assert np.all(np.diff(loss.weight(S)) <= 0)


def test_huber_is_linear_in_the_residual_beyond_its_threshold():
    r = np.array([1.5, 2.0, 40.0])
    np.testing.assert_allclose(Huber(1.5).rho(jnp.asarray(r**2)), 2 * 1.5 * r - 1.5**2, rtol=1e-14)
    assert Huber(1e6).rho(123.0) == 123.0


def test_cauchy_is_the_negative_log_likelihood_of_a_cauchy_distribution():
    r = np.array([0.1, 2.0, 40.0])
    np.testing.assert_allclose(Cauchy(2.0).rho(jnp.asarray(r**2)), 4 * np.log(1 + r**2 / 4), rtol=1e-12)


def test_tukey_ignores_outliers():
    r = np.array([0.5, 2.9, 3.0, 100.0])
    expected = 3.0 * (1 - np.maximum(1 - (r / 3) ** 2, 0) ** 3)
    np.testing.assert_allclose(Tukey(3.0).rho(jnp.asarray(r**2)), expected, rtol=1e-13)
    assert Tukey(3.0).weight(9.0 + 1e-9) == 0
