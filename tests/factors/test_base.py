"""Whitening, scopes and names of factors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.factors.base import Factor, Noise, value_and_jacobian
from fgmbs.factors.priors import prior

r = jnp.array([1.0, -2.0, 0.5])
COV = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])


def test_standard_deviations_whiten_rows():
    np.testing.assert_allclose(Noise.sigma(0.1).whiten(r), r / 0.1)
    np.testing.assert_allclose(Noise.sigma(jnp.array([0.1, 2.0, 5.0])).whiten(r), r / np.array([0.1, 2.0, 5.0]))
    np.testing.assert_allclose(Noise.sigma(2.0).whiten(r), r / 2)


def test_squared_norm_is_the_mahalanobis_distance():
    whitened = Noise.covariance(jnp.asarray(COV)).whiten(r)
    np.testing.assert_allclose(whitened @ whitened, r @ np.linalg.inv(COV) @ r, rtol=1e-13)
    sqrt_info = Noise.covariance(jnp.asarray(COV)).sqrt_info
    np.testing.assert_allclose(sqrt_info @ COV @ sqrt_info.T, np.eye(3), atol=1e-13)


def test_whitened_samples_are_uncorrelated_with_unit_variance():
    samples = np.random.default_rng(0).multivariate_normal(np.zeros(3), COV, 20000)
    whitened = jax.vmap(Noise.covariance(jnp.asarray(COV)).whiten)(jnp.asarray(samples))
    # The spread of an entry of a sample covariance of N samples is at most sqrt(2/N) = 0.01.
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(3), atol=0.05)


def test_covariance_of_diagonal_form_equals_standard_deviations():
    sigma = jnp.array([0.1, 2.0, 5.0])
    np.testing.assert_allclose(Noise.covariance(jnp.diag(sigma**2)).whiten(r), Noise.sigma(sigma).whiten(r), rtol=1e-14)


def test_weights_act_on_top_of_the_noise(fourbar, instant):
    factor = Factor(prior, ("q",), Noise.covariance(jnp.asarray(COV)))
    at, x = instant(fourbar, data=jnp.ones(3)), r + 1
    whitened = factor.whitened(at, None, x)
    mask, matrix = jnp.array([1.0, 0.0, 2.0]), jnp.arange(9.0).reshape(3, 3)
    np.testing.assert_allclose(factor.whitened(at, mask, x), mask * whitened)
    np.testing.assert_allclose(factor.whitened(at, matrix, x), matrix @ whitened)


def test_noise_and_data_are_leaves_and_structure_is_not():
    factor = Factor(prior, ("q",), Noise.sigma(0.1), data=r)
    leaves = jax.tree.leaves(factor)
    assert len(leaves) == 2
    assert all(eqx.is_inexact_array(leaf) for leaf in leaves)


def test_name_is_that_of_the_function_unless_given():
    assert Factor(prior, ("q",), Noise.sigma(1.0)).name == "prior"
    assert Factor(prior, ("q",), Noise.sigma(1.0), name="start").name == "start"


def test_unknown_scope_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # else the annotation refuses it first
    with pytest.raises(ArgumentError, match="'initial', 'step', 'interval' or 'global'; found 'always'"):
        Factor(prior, ("q",), Noise.sigma(1.0), "always")


def test_value_and_jacobian_of_a_pytree():
    x = {"a": jnp.array([1.0, 2.0]), "b": (jnp.array(3.0),)}
    value, jacobian = value_and_jacobian(lambda x: jnp.sin(x["a"]) * x["b"][0], x)
    np.testing.assert_allclose(value, 3 * np.sin([1.0, 2.0]))
    np.testing.assert_allclose(jacobian["a"], np.diag(3 * np.cos([1.0, 2.0])))
    np.testing.assert_allclose(jacobian["b"][0], np.sin([1.0, 2.0]))


@pytest.mark.parametrize("group", [None, 2])
def test_a_factor_without_rows_costs_nothing(group):
    """Constraints of a mechanism that has none."""
    factor = Factor(prior, ("q",), Noise.sigma(1.0), group=group)
    assert not np.any(np.asarray(factor.squares(jnp.zeros((5, 0)))))
    assert factor.squares(jnp.ones((5, 4))).shape == (5, 1 if group is None else 2)
