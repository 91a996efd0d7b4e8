"""Velocities and accelerations against differences of positions, and conflicts in words."""

import equinox as eqx
import jax
import jax.numpy as jnp
import linkages
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.kinematics import solve_acceleration, solve_velocity, velocities

velocity = eqx.filter_jit(solve_velocity)
acceleration = eqx.filter_jit(solve_acceleration)
CRANK = jnp.arange(5) == 4


def _pose(theta):
    return np.append(linkages.fourbar_pose(theta), theta)


def test_velocity_and_acceleration_of_a_driven_crank_equal_differences_of_positions():
    mechanism, theta, omega, alpha, h = linkages.fourbar_angle(), 0.7, 1.3, -0.4, 1e-4
    q = jnp.asarray(_pose(theta))
    dq = velocity(mechanism, q, 0.0, CRANK, jnp.full(5, omega))
    ddq = acceleration(mechanism, q, dq, 0.0, CRANK, jnp.full(5, alpha))

    def at(t):
        return _pose(theta + omega * t + alpha * t**2 / 2)

    np.testing.assert_allclose(dq, (at(h) - at(-h)) / (2 * h), atol=1e-7)  # h² times third derivatives
    np.testing.assert_allclose(ddq, (at(h) - 2 * at(0) + at(-h)) / h**2, atol=1e-6)


def test_prescribed_motion_gives_velocity_and_acceleration():
    mechanism, t = linkages.driven_pendulum(), 0.7
    theta, dtheta, ddtheta = 0.3 + 0.5 * t + 0.2 * t**2, 0.5 + 0.4 * t, 0.4
    e, f = np.array([np.cos(theta), np.sin(theta)]), np.array([-np.sin(theta), np.cos(theta)])
    q = jnp.asarray(np.append(2 * e, theta))
    dq = velocity(mechanism, q, t)
    np.testing.assert_allclose(dq, np.append(2 * dtheta * f, dtheta), atol=1e-12)
    expected = np.append(2 * ddtheta * f - 2 * dtheta**2 * e, ddtheta)
    np.testing.assert_allclose(acceleration(mechanism, q, dq, t), expected, atol=1e-12)


def test_redundant_rows_and_least_norm():
    mechanism = linkages.parallelogram()
    dq = velocity(mechanism, mechanism.reference, 0.0, jnp.arange(6) == 0, jnp.full(6, 0.8))
    np.testing.assert_allclose(dq, [0.8, -0.6] * 3, atol=1e-12)
    np.testing.assert_allclose(velocity(mechanism, mechanism.reference), np.zeros(6), atol=1e-15)


def test_velocity_is_the_projection_of_the_start():
    mechanism = linkages.double_pendulum()
    start = jnp.array([0.3, 1.0, -0.2, 0.5])
    dq = eqx.filter_jit(solve_velocity)(mechanism, mechanism.reference, 0.0, None, None, start)
    np.testing.assert_allclose(dq, [0, 1, 0, 0.5], atol=1e-14)


def test_derivatives_pass_through_the_pseudo_inverse():
    mechanism = linkages.parallelogram()

    def dq(theta):
        q = jnp.tile(jnp.stack([jnp.cos(theta), jnp.sin(theta)]), 3) + jnp.array([0.0, 0, 2, 0, 4, 0])
        return solve_velocity(mechanism, q, 0.0, jnp.arange(6) == 0, jnp.full(6, 0.8))

    # dx = 0.8, dy = −0.8 x / y = −0.8 cot θ
    theta = jnp.asarray(0.9)
    first = np.array([0, 0.8 / np.sin(0.9) ** 2] * 3)
    second = np.array([0, -1.6 * np.cos(0.9) / np.sin(0.9) ** 3] * 3)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(dq))(theta), first, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.jacrev(dq))(theta), first, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(jax.jacrev(dq)))(theta), second, atol=1e-11)


def test_velocities_by_name():
    mechanism = linkages.fourbar_angle()
    dq = velocities(mechanism, mechanism.reference, {"theta": 2.0})
    np.testing.assert_allclose(dq, [0, 2, 4 / 3, 2, 2], atol=1e-12)


def test_conflicting_velocities_are_named():
    mechanism = linkages.fourbar_angle()
    with pytest.raises(ArgumentError, match="theta = 1, y1 = 2 cannot all hold .* contradict 'crank-angle'"):
        velocities(mechanism, mechanism.reference, {"theta": 1.0, "y1": 2.0})
    with pytest.raises(ArgumentError, match="did you mean 'theta'"):
        velocities(mechanism, mechanism.reference, {"tetha": 1.0})
