"""A rheonomic row: its time derivatives are those of the prescribed function."""

import jax
import jax.numpy as jnp
import numpy as np

from fgmbs.mechanisms.planar.constraints.prescribed_motion import prescribed_motion


def test_time_derivatives_are_those_of_the_prescribed_function():
    def row(t):
        return prescribed_motion(jnp.asarray(0.4), 1.2 * (1 - jnp.cos(2 * t)))

    t = jnp.asarray(0.9)
    np.testing.assert_allclose(jax.grad(row)(t), -2.4 * np.sin(1.8), atol=1e-14)
    np.testing.assert_allclose(jax.grad(jax.grad(row))(t), -4.8 * np.cos(1.8), atol=1e-14)
