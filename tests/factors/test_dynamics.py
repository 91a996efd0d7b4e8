"""Dynamics factors against the linkage written by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.factors.dynamics import (
    forward_dynamics,
    forward_dynamics_independent,
    inverse_dynamics,
    inverse_dynamics_independent,
)
from fgmbs.mechanisms.planar import load

from .conftest import CONFIGS

B = jnp.array([[0.0, 1.0, 0.0, 0.0]])


def test_residual_is_the_acceleration_missing(fourbar, by_hand, instant):
    q, dq, ddq = by_hand.state(0)
    residual = forward_dynamics(instant(fourbar), *map(jnp.asarray, (q, dq, ddq)))
    np.testing.assert_allclose(residual, by_hand.ddq(q, dq) - ddq, atol=1e-9)


def test_independent_version_is_its_selected_row(fourbar, by_hand, instant):
    q, dq, _ = by_hand.state(1)
    ddz = jnp.array([0.7])
    residual = forward_dynamics_independent(instant(fourbar, B), jnp.asarray(q), jnp.asarray(dq), ddz)
    np.testing.assert_allclose(residual, by_hand.ddq(q, dq)[1] - ddz, atol=1e-9)


def test_independent_version_is_the_closed_form_in_independent_coordinates(fourbar, by_hand, instant):
    """Eq. (15): z̈ = (Rᵀ M R)⁻¹ Rᵀ (Q − M S c), M and Q read off from the accelerations of the free linkage."""
    q, dq, _ = by_hand.state(1)
    crank, coupler, rocker = by_hand.masses
    M = np.kron([[(crank + coupler) / 3, coupler / 6], [coupler / 6, (coupler + rocker) / 3]], np.eye(2))
    Q = np.array([0, -9.81 * (crank + coupler) / 2, 0, -9.81 * (coupler + rocker) / 2])
    SR = np.linalg.inv(np.vstack([by_hand.Phi_q(q), B]))
    S, R = SR[:, :3], SR[:, 3:]
    ddz = np.linalg.solve(R.T @ M @ R, R.T @ (Q - M @ S @ by_hand.c(dq)))
    residual = forward_dynamics_independent(instant(fourbar, B), jnp.asarray(q), jnp.asarray(dq), jnp.asarray(ddz))
    np.testing.assert_allclose(residual, 0, atol=1e-9)


def test_derivatives_equal_differences(fourbar, by_hand, instant, assert_derivatives):
    # Accelerations are rounded to some 1e-11; their differences over 2e-5 to 1e-6.
    state = by_hand.state(2)
    assert_derivatives(forward_dynamics, instant(fourbar), *state, tol=1e-5)
    assert_derivatives(forward_dynamics_independent, instant(fourbar, B), *state[:2], np.array([0.3]), tol=1e-5)


# Inverse dynamics with a motor at the crank and one at the rocker.


@pytest.fixture(scope="module")
def driven():
    """(mechanism, q, dq, ddq, u): accelerations by dense algebra in numpy."""
    mechanism = load(CONFIGS / "fourbar_two_motors.yaml").evaluated()
    rng = np.random.default_rng(6)
    q = np.asarray(mechanism.reference) + 0.05 * rng.standard_normal(mechanism.n)
    dq, u = rng.standard_normal(mechanism.n), 30 * rng.standard_normal(2)
    evaluate = jax.jit(
        lambda q, dq: (
            mechanism.mass_matrix(q),
            mechanism.constraint_jacobian(q, 0.3),
            mechanism.forces(q, dq, 0.3),
            mechanism.constraint_bias(q, dq, 0.3),
        )
    )
    M, Phi_q, Q, c = map(np.asarray, evaluate(jnp.asarray(q), jnp.asarray(dq)))
    K = np.block([[M, Phi_q.T], [Phi_q, np.zeros((len(c), len(c)))]])
    A = np.eye(mechanism.n)[:, 4:]  # torques on the angles, which stand behind the two moving points
    ddq = np.linalg.solve(K, np.r_[Q + A @ u, c])[: mechanism.n]
    return mechanism, *map(jnp.asarray, (q, dq, ddq, u))


def test_inverse_dynamics_is_zero_for_forces_that_make_the_acceleration(driven, instant):
    mechanism, q, dq, ddq, u = driven
    np.testing.assert_allclose(inverse_dynamics(instant(mechanism), q, dq, ddq, u), 0, atol=1e-9)
    np.testing.assert_allclose(inverse_dynamics(instant(mechanism), q, dq, ddq - 0.4, u), 0.4, atol=1e-9)
    B = jnp.eye(mechanism.n)[4:5]
    np.testing.assert_allclose(
        inverse_dynamics_independent(instant(mechanism, B), q, dq, B @ ddq + 0.7, u), -0.7, atol=1e-9
    )


def test_derivatives_of_inverse_dynamics_equal_differences(driven, instant, assert_derivatives):
    mechanism, q, dq, ddq, u = driven
    assert_derivatives(inverse_dynamics, instant(mechanism), q, dq, ddq, u, tol=1e-6)
    B = jnp.eye(mechanism.n)[4:5]
    assert_derivatives(inverse_dynamics_independent, instant(mechanism, B), q, dq, B @ ddq, u, tol=1e-6)


def test_without_actuators_inverse_dynamics_are_forward_dynamics(fourbar, by_hand, instant):
    state = tuple(map(jnp.asarray, by_hand.state(3)))
    inverse = inverse_dynamics(instant(fourbar), *state, jnp.zeros(0))
    np.testing.assert_array_equal(inverse, forward_dynamics(instant(fourbar), *state))
