"""Constraint factors against the linkage written by hand, against each other, and against time differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.factors import constraints

B = np.array([[0.0, 1.0, 0.0, 0.0], [0.2, 0.0, 0.0, -1.3]])


def test_residuals_are_their_equations(fourbar, by_hand, instant):
    q, dq, ddq = by_hand.state(0)
    at = instant(fourbar)
    Phi_q, c = by_hand.Phi_q(q), by_hand.c(dq)
    np.testing.assert_allclose(constraints.position_constraint(at, jnp.asarray(q)), by_hand.Phi(q), atol=1e-13)
    rate = constraints.velocity_constraint(at, jnp.asarray(q), jnp.asarray(dq))
    np.testing.assert_allclose(rate, Phi_q @ dq, atol=1e-13)
    bias = constraints.acceleration_constraint(at, *map(jnp.asarray, (q, dq, ddq)))
    np.testing.assert_allclose(bias, Phi_q @ ddq - c, atol=1e-13)


def test_independent_versions_have_the_same_rows_and_those_of_the_selection(fourbar, by_hand, instant):
    q, dq, ddq = map(jnp.asarray, by_hand.state(1))
    z, dz, ddz = jnp.asarray(np.random.default_rng(2).standard_normal((3, 2)))
    at = instant(fourbar, jnp.asarray(B))
    pairs = [
        (constraints.position_constraint_independent(at, q, z), constraints.position_constraint(at, q), q, z),
        (
            constraints.velocity_constraint_independent(at, q, dq, dz),
            constraints.velocity_constraint(at, q, dq),
            dq,
            dz,
        ),
        (
            constraints.acceleration_constraint_independent(at, q, dq, ddq, ddz),
            constraints.acceleration_constraint(at, q, dq, ddq),
            ddq,
            ddz,
        ),
    ]
    for independent, dependent, x, w in pairs:
        np.testing.assert_allclose(independent, np.r_[dependent, B @ x - w], atol=1e-14)


def test_each_residual_is_the_time_derivative_of_the_one_before(driven_crank, instant):
    """Along any curve q(t), with a constraint that depends on time."""
    rng = np.random.default_rng(4)
    q0 = np.asarray(driven_crank.reference)
    velocity, acceleration, jerk = jnp.asarray(rng.standard_normal((3, q0.size)))

    @jax.jit
    def along(t):
        q = q0 + velocity * t + acceleration * t**2 / 2 + jerk * t**3 / 6
        dq, ddq = velocity + acceleration * t + jerk * t**2 / 2, acceleration + jerk * t
        at = instant(driven_crank, t=t)
        return (
            constraints.position_constraint(at, q),
            constraints.velocity_constraint(at, q, dq),
            constraints.acceleration_constraint(at, q, dq, ddq),
        )

    h = 1e-5
    (Phi0, rate0, _), (_, rate, bias), (Phi1, rate1, _) = along(0.3 - h), along(0.3), along(0.3 + h)
    np.testing.assert_allclose(rate, (Phi1 - Phi0) / (2 * h), atol=1e-7)
    np.testing.assert_allclose(bias, (rate1 - rate0) / (2 * h), atol=1e-7)


def test_prescribed_motion_enters_position_and_velocity(driven_crank, instant):
    q = driven_crank.reference
    motor = driven_crank.constraint_names.index("motor") if "motor" in driven_crank.constraint_names else -1
    omega = 2 * np.pi
    Phi = [constraints.position_constraint(instant(driven_crank, t=t), q) for t in (0.0, 0.1)]
    assert float(Phi[1][motor] - Phi[0][motor]) == pytest.approx(-0.1 * omega, rel=1e-12)
    at_rest = constraints.velocity_constraint(instant(driven_crank), q, jnp.zeros_like(q))
    assert float(at_rest[motor]) == pytest.approx(-omega, rel=1e-12)


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_derivatives_equal_differences(order, independent, fourbar, by_hand, instant, assert_derivatives):
    name = ("position", "velocity", "acceleration")[order] + "_constraint" + "_independent" * independent
    variables = (*by_hand.state(5)[: order + 1], *([np.array([0.4, -0.7])] if independent else []))
    assert_derivatives(getattr(constraints, name), instant(fourbar, jnp.asarray(B)), *variables)
