"""Priors and soft equalities against their equations."""

import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.factors import priors

rng = np.random.default_rng(1)
x, x0, x1 = rng.standard_normal((3, 3))
y = rng.standard_normal(2)
B = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, -1.0]])
R, d, point = rng.standard_normal((5, 5)), rng.standard_normal(5), rng.standard_normal(5)

CASES = {
    "prior": (priors.prior, None, jnp.asarray(x0), (x,), x - x0),
    "tracking": (priors.tracking, jnp.asarray(x0), None, (x,), x - x0),
    "tracking_selected": (priors.tracking_selected, jnp.asarray(y), jnp.asarray(B), (x,), B @ x - y),
    "soft_equality": (priors.soft_equality, None, None, (x, x1), x1 - x),
    "linear_prior": (
        priors.linear_prior,
        None,
        tuple(map(jnp.asarray, (R, d, point))),
        (x, y),
        R @ (np.r_[x, y] - point) + d,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_residual_is_its_equation_and_its_derivatives_are_its_own(name, fourbar, instant, assert_derivatives):
    residual, series, data, variables, expected = CASES[name]
    at = instant(fourbar, series, data=data)
    np.testing.assert_allclose(residual(at, *map(jnp.asarray, variables)), expected, atol=1e-14)
    assert_derivatives(residual, at, *variables)
