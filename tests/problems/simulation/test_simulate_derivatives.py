"""Derivatives of a motion with respect to the mechanism against finite differences of whole simulations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.problems.simulation.simulate import simulate

STEPS, DT = 40, 5e-3
VALUES = {"L_coupler": 2.0, "L_rocker": 3.6, "crank.mass": 1.0, "rocker.mass": 4.0}
H = 3e-3
"""Step of the differences: their error is H⁴ times a fifth derivative, the rounding 1e-13 / H."""


def final(loop, options, values):
    """The last coordinates of the four-bar with these lengths and masses."""
    mechanism = loop.with_parameters(dict(zip(VALUES, values, strict=True)))
    return simulate(mechanism, STEPS * DT, DT, **options).q[-1]


def differences(function, x):
    """Jacobian by central differences of fourth order, all points at once."""
    moves = jnp.concatenate([k * H * jnp.eye(x.size) for k in (-2, -1, 1, 2)])
    back2, back, ahead, ahead2 = jnp.split(jax.jit(jax.vmap(function))(x + moves), 4)
    return ((8 * (ahead - back) - (ahead2 - back2)) / (12 * H)).T


OPTIONS = {
    "chart": {},
    "dependent": {"coordinates": "dependent", "integrator": "trapezoidal"},
    # Chosen by hand: the automatic choice changes at another step for other numbers, by a jump of the truncation error.
    "independent": {"coordinates": "independent", "integrator": "trapezoidal", "independent": ("y_P2",)},
    "batch": {"batch": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["chart", "dependent", "independent", "batch"])
def test_forward_and_reverse_mode_equal_differences(loop, case):
    function = partial(final, loop, OPTIONS[case])
    x = jnp.array(list(VALUES.values()))
    expected = np.asarray(differences(function, x))
    forward = np.asarray(jax.jit(jax.jacfwd(function))(x))
    reverse = np.asarray(jax.jit(jax.jacrev(function))(x))
    tolerance = 1e-6 * np.max(np.abs(expected), axis=0)
    assert np.all(np.abs(forward - expected) <= tolerance)
    np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-12)
