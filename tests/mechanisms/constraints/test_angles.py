"""What the angle rows promise: smooth everywhere, turns counted, radians, multipliers that are torques."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.mechanisms.planar.constraints.absolute_angle import absolute_angle
from fgmbs.mechanisms.planar.constraints.relative_angle import relative_angle


def direction(angle):
    return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def absolute(angle, theta, length):
    a = jnp.array([0.4, -0.2])
    return absolute_angle(a, a + length * direction(angle), theta, length)


def relative(angle, theta, length):
    a, c = jnp.array([0.4, -0.2]), jnp.array([-1.0, 0.3])
    u, v = 2.0 * direction(jnp.asarray(0.8)), length * direction(0.8 + angle)
    return relative_angle(a, a + u, c, c + v, theta, 2.0 * length)


@pytest.mark.parametrize("row", [absolute, relative])
@pytest.mark.parametrize("length", [1e-3, 1.0, 1e3])
def test_row_is_the_sine_of_the_angle_error_whatever_the_length(row, length):
    angles, errors = np.meshgrid(np.linspace(-7.0, 7.0, 15), np.linspace(-3.0, 3.0, 13))
    values = jax.vmap(row, in_axes=(0, 0, None))(jnp.ravel(angles), jnp.ravel(angles - errors), jnp.asarray(length))
    np.testing.assert_allclose(values, np.sin(errors).ravel(), atol=1e-12)


@pytest.mark.parametrize("row", [absolute, relative])
@pytest.mark.parametrize("turns", [-2, 0, 5])
def test_multiplier_is_the_torque_on_the_angle(row, turns):
    """Φ_θ = −1 on the solution: Q_θ = −λ, in N·m, at any angle and any number of turns."""
    for angle in np.linspace(-np.pi, np.pi, 9):
        slope = jax.grad(row, argnums=1)(jnp.asarray(angle), jnp.asarray(angle + 2 * np.pi * turns), jnp.asarray(0.3))
        np.testing.assert_allclose(slope, -1.0, atol=1e-12)


def test_search_within_a_quarter_turn_finds_the_angle_of_the_link():
    """And beyond it the other solution, half a turn away: a search must start from the drawn or the last angle."""

    def newton(theta, _):
        Phi, slope = jax.value_and_grad(absolute, argnums=1)(jnp.asarray(1.1), theta, jnp.asarray(0.5))
        return theta - jnp.clip(Phi / slope, -0.5, 0.5), None

    for offset, expected in [(1.5, 0.0), (-1.5, 0.0), (1.65, np.pi), (-1.65, -np.pi)]:
        theta, _ = jax.lax.scan(newton, jnp.asarray(1.1 + offset), length=20)
        np.testing.assert_allclose(theta, 1.1 + expected, atol=1e-12)
