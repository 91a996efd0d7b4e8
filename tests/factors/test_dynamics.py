"""Dynamics factors against the linkage written by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.dynamics.forcing import Forcing
from fgmbs.factors import dynamics as factors
from fgmbs.io.planar.load import load

from .conftest import CONFIGS

B = jnp.array([[0.0, 1.0, 0.0, 0.0]])
NONE = Forcing((), (), jnp.zeros(0))
MOTORS = Forcing(("motor", "motor_rocker"), (), jnp.ones(2))
NO_FORCE = jnp.zeros(0)
NO_COMMAND = jnp.zeros((2, 0))

dynamics = eqx.filter_jit(factors.dynamics)
dynamics_independent = eqx.filter_jit(factors.dynamics_independent)


def test_residual_is_the_acceleration_missing(fourbar, by_hand, instant):
    q, dq, ddq = by_hand.state(0)
    residual = dynamics(instant(fourbar, NO_COMMAND, data=NONE), *map(jnp.asarray, (q, dq, ddq)), NO_FORCE)
    np.testing.assert_allclose(residual, by_hand.ddq(q, dq) - ddq, atol=1e-9)


def test_independent_version_is_its_selected_row(fourbar, by_hand, instant):
    q, dq, _ = by_hand.state(1)
    ddz = jnp.array([0.7])
    residual = dynamics_independent(
        instant(fourbar, (B, NO_COMMAND), data=NONE), jnp.asarray(q), jnp.asarray(dq), ddz, NO_FORCE
    )
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
    residual = dynamics_independent(
        instant(fourbar, (B, NO_COMMAND), data=NONE), jnp.asarray(q), jnp.asarray(dq), jnp.asarray(ddz), NO_FORCE
    )
    np.testing.assert_allclose(residual, 0, atol=1e-9)


def test_derivatives_equal_differences(fourbar, by_hand, instant, assert_derivatives):
    # Accelerations are rounded to some 1e-11; their differences over 2e-5 to 1e-6.
    state = by_hand.state(2)
    assert_derivatives(dynamics, instant(fourbar, NO_COMMAND, data=NONE), *state, NO_FORCE, tol=1e-5)
    at = instant(fourbar, (B, NO_COMMAND), data=NONE)
    assert_derivatives(dynamics_independent, at, *state[:2], np.array([0.3]), NO_FORCE, tol=1e-5)


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
    at = instant(mechanism, NO_COMMAND, data=MOTORS)
    np.testing.assert_allclose(dynamics(at, q, dq, ddq, u), 0, atol=1e-9)
    np.testing.assert_allclose(dynamics(at, q, dq, ddq - 0.4, u), 0.4, atol=1e-9)
    B = jnp.eye(mechanism.n)[4:5]
    at = instant(mechanism, (B, NO_COMMAND), data=MOTORS)
    np.testing.assert_allclose(dynamics_independent(at, q, dq, B @ ddq + 0.7, u), -0.7, atol=1e-9)


def test_known_forces_are_commands(driven, instant):
    """Forward and inverse dynamics are two ends of one factor: each motor's force may be known or not."""
    mechanism, q, dq, ddq, u = driven
    at = instant(mechanism, jnp.stack([0 * u, u]), data=Forcing((), MOTORS.unknown, jnp.zeros(0)))
    np.testing.assert_allclose(dynamics(at, q, dq, ddq, NO_FORCE), 0, atol=1e-9)
    at = instant(mechanism, jnp.stack([0 * u, u])[:, :1], data=Forcing(("motor_rocker",), ("motor",), jnp.ones(1)))
    np.testing.assert_allclose(dynamics(at, q, dq, ddq, u[1:]), 0, atol=1e-9)


@pytest.mark.slow
def test_derivatives_of_inverse_dynamics_equal_differences(driven, instant, assert_derivatives):
    mechanism, q, dq, ddq, u = driven
    assert_derivatives(dynamics, instant(mechanism, NO_COMMAND, data=MOTORS), q, dq, ddq, u, tol=1e-6)
    B = jnp.eye(mechanism.n)[4:5]
    at = instant(mechanism, (B, NO_COMMAND), data=MOTORS)
    assert_derivatives(dynamics_independent, at, q, dq, B @ ddq, u, tol=1e-6)


def test_derivatives_by_forces_are_the_closed_forms(fourbar, by_hand, instant):
    """[Blanco21] eqs. (47) and (50): ∂q̈/∂Q = M⁻¹ − M⁻¹Φ_qᵀ Γ⁻¹ Φ_q M⁻¹ and (Rᵀ M R)⁻¹Rᵀ, by dense algebra."""
    q, dq, ddq = map(jnp.asarray, by_hand.state(4))
    every = Forcing(fourbar.velocity_names, (), jnp.ones(4))
    at = instant(fourbar, NO_COMMAND, data=every)
    P = jax.jacfwd(lambda u: dynamics(at, q, dq, ddq, u))(jnp.zeros(4))
    M, Phi_q = np.asarray(fourbar.mass_matrix(q)), by_hand.Phi_q(np.asarray(q))
    M_inverse = np.linalg.inv(M)
    S = M_inverse @ Phi_q.T @ np.linalg.inv(Phi_q @ M_inverse @ Phi_q.T)
    np.testing.assert_allclose(P, M_inverse - S @ Phi_q @ M_inverse, atol=1e-9)
    at = instant(fourbar, (B, NO_COMMAND), data=every)
    Z = jax.jacfwd(lambda u: dynamics_independent(at, q, dq, ddq[:1], u))(jnp.zeros(4))
    R = np.linalg.inv(np.vstack([Phi_q, B]))[:, 3:]
    np.testing.assert_allclose(Z, np.linalg.solve(R.T @ M @ R, R.T), atol=1e-9)
