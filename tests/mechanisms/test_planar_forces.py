"""Generalized forces against the potential and against the power of each element, written out anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from fgmbs.mechanisms.planar.forces import couple, damper_force, spring_energy, spring_force


def test_conservative_forces_are_minus_the_gradient_of_the_potential(everything, state):
    q, dq, t = state
    at_rest = 0.0 * dq
    mechanism = everything.evaluated()
    gradient = jax.jit(jax.grad(mechanism.potential))(q)
    without_loads = mechanism.forces(q, at_rest, t) - loads(mechanism, q, t)
    np.testing.assert_allclose(without_loads, -gradient, atol=1e-12)


def loads(mechanism, q, t):
    """Given forces and torques of the mechanism, by the coordinate each belongs to."""
    names = mechanism.coordinate_names
    Q = np.zeros(mechanism.n)
    Q[names.index("x_F")] += 3.0
    Q[names.index("y_F")] -= 1.0
    Q[names.index("x_B")] += 2 * np.sin(3 * 1.2 * t)
    Q[names.index("y_B")] += t**2
    Q[names.index("phi")] += 1.5

    def coupler_angle(q):
        B, second = (q[jnp.array([names.index(f"{axis}{point}") for axis in "xy"])] for point in ("_B", "2"))
        return jnp.arctan2(*(second - B)[::-1])

    return Q + 0.5 * np.cos(t) * jax.grad(coupler_angle)(q)


def test_power_of_all_elements(everything, state):
    """Q · dq = −dV/dt − Σ c (rate)² + given forces · velocities; the ground takes the force on its point."""
    q, dq, t = state
    mechanism = everything.evaluated()
    p, dp = mechanism.point_positions(q), jax.jvp(mechanism.point_positions, (q,), (dq,))[1]
    e = (p[5] - p[1]) / jnp.linalg.norm(p[5] - p[1])
    dissipation = 2.5 * (e @ (dp[5] - dp[1])) ** 2 + 0.7 * dq[mechanism.coordinate_names.index("phi")] ** 2
    expected = -jax.grad(mechanism.potential)(q) @ dq - dissipation + loads(mechanism, q, t) @ dq
    np.testing.assert_allclose(mechanism.forces(q, dq, t) @ dq, expected, rtol=1e-12)


def test_springs_and_weight_make_the_potential(everything, state):
    q, _, _ = state
    p = np.asarray(everything.point_positions(q))
    drawn = np.asarray(everything.point_positions(everything.reference))

    def length(points, i, j):
        return np.linalg.norm(points[j] - points[i])

    theta = q[everything.coordinate_names.index("theta")]
    springs = (
        30.0 * (length(p, 0, 4) - 0.9 * length(drawn, 0, 4)) ** 2 / 2
        + 60.0 * (length(p, 2, 5) - length(drawn, 2, 5)) ** 2 / 2
        + 4.0 * (theta - 0.2) ** 2 / 2
    )
    weightless = everything.with_parameters({"gravity.x": 0.0, "gravity.y": 0.0})
    np.testing.assert_allclose(weightless.potential(q), springs, rtol=1e-12)


def vectors(count):
    return jax.random.normal(jax.random.key(1), (count, 2))


@pytest.mark.parametrize("free_length", [0.0, 0.7])
def test_spring_force_is_minus_the_gradient_of_its_energy(free_length):
    for d in vectors(3):
        gradient = jax.grad(spring_energy)(d, 12.0, free_length)
        np.testing.assert_allclose(spring_force(d, 12.0, free_length), -gradient, atol=1e-12)


@pytest.mark.slow
def test_elements_of_no_length_have_finite_derivatives():
    zero = jnp.zeros(2)

    def elements(d):
        damper = damper_force(d, jnp.ones(2), 3.0)
        return jnp.stack([spring_energy(d, 12.0, 0.7), *spring_force(d, 12.0, 0.7), *damper])

    derivatives = jax.jit(lambda d: (elements(d), jax.jacfwd(elements)(d), jax.jacrev(jax.jacfwd(elements))(d)))(zero)
    assert all(np.all(np.isfinite(derivative)) for derivative in derivatives)
    # A spring of no free length is a smooth well.
    np.testing.assert_allclose(jax.hessian(spring_energy)(zero, 12.0, 0.0), 12.0 * np.eye(2), atol=1e-14)
    check_grads(lambda d: spring_force(jnp.asarray(d), 12.0, 0.0), (zero,), order=2, modes=("fwd", "rev"))


def test_couple_works_on_the_angle_of_its_body_whatever_the_distance():
    for d, dd in zip(vectors(4), vectors(8)[4:], strict=True):
        rate = jax.jvp(lambda d: jnp.arctan2(d[1], d[0]), (d,), (dd,))[1]
        np.testing.assert_allclose(couple(d, 2.5) @ dd, 2.5 * rate, rtol=1e-12)
