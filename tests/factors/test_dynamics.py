"""Dynamics factors against the linkage written by hand."""

import jax.numpy as jnp
import numpy as np

from fgmbs.factors.dynamics import forward_dynamics, forward_dynamics_independent

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
