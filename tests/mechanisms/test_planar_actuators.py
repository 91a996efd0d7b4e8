"""Actuators of planar mechanisms: virtual work, the ground, degenerate positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.io.planar.load import load, parse_mechanism, to_yaml
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.planar.constraints.plane import cross
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

ACTUATORS = """
actuators:
  - {name: turn, body: coupler}
  - {name: cylinder, points: [A, F]}
  - {name: motor, angle: theta}
  - {points: [B, F]}
  - {name: push, coordinate: y_G}
  - {body: 2}
  - {name: q14, coordinate: q14}
  - {points: [2, D]}
"""


@pytest.fixture(scope="module")
def actuated(everything) -> PlanarMechanism:
    return PlanarMechanism.from_description(parse_mechanism(to_yaml(everything.description) + ACTUATORS))


@jax.jit
def actuation(mechanism, q):
    return mechanism.actuation(q, jnp.zeros_like(q[0]))


@jax.jit
def constraint_jacobian(mechanism, q):
    return mechanism.constraint_jacobian(q, jnp.zeros_like(q[0]))


@jax.jit
def actuation_derivatives(mechanism, q):
    def flat(q):
        return mechanism.actuation(q, jnp.zeros_like(q[0]))

    return jax.jacfwd(flat)(q), jax.jacrev(jax.jacfwd(flat))(q)


def measured(mechanism, q):
    """What each command works on, in the order of the file: angles, distances, coordinates."""
    p, place = mechanism.point_positions(q), mechanism.coordinate_names.index

    def angle(i, j):
        return jnp.arctan2(*(p[j] - p[i])[::-1])

    def distance(i, j):
        return jnp.linalg.norm(p[j] - p[i])

    direct = q[place("theta")], q[place("y_G")], q[place("q14")]
    return jnp.stack(
        [angle(1, 2), distance(0, 5), direct[0], distance(1, 5), direct[1], angle(3, 2), direct[2], distance(2, 3)]
    )


measured_jacobian = jax.jit(jax.jacfwd(measured, argnums=1))


def test_names_are_in_the_order_of_the_file(actuated):
    assert actuated.actuator_names == (
        *("turn", "cylinder", "motor", "actuator3", "push", "actuator5", "q14", "actuator7"),
    )


def test_virtual_work_for_any_velocity(actuated, state):
    """The power A u · dq of each unit command is the rate of the angle, distance or coordinate it works on."""
    q, dq, _ = state
    rates = jax.jvp(lambda q: measured(actuated, q), (q,), (dq,))[1]
    A = actuation(actuated, q)
    assert A.shape == (actuated.n, 8)
    np.testing.assert_allclose(A.T @ dq, rates, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(A, measured_jacobian(actuated, q).T, atol=1e-13)


def test_virtual_work_of_the_motors_of_a_five_bar(configs):
    """With velocities that keep the constraints a torque on a crank's angle works on the crank."""
    mechanism = load(configs / "mechanisms" / "five_bar.yaml")
    assert mechanism.actuator_names == ("drive_l", "drive_r")
    assert mechanism.dof == 2
    q = mechanism.reference
    assert mechanism.coordinate_names[2:4] == ("x_E", "y_E")
    np.testing.assert_allclose(q[2:4], [0.0, 0.2 + 0.06**0.5], atol=1e-15)
    _, s, V = np.linalg.svd(constraint_jacobian(mechanism, q))
    assert min(s) > 1e-2  # away from singular positions
    for dq in V[6:]:
        p, dp = mechanism.point_positions(q), jax.jvp(mechanism.point_positions, (q,), (jnp.asarray(dq),))[1]
        rates = [cross(p[elbow] - p[base], dp[elbow]) / 0.25**2 for base, elbow in ((0, 1), (4, 3))]
        np.testing.assert_allclose(actuation(mechanism, q).T @ dq, rates, atol=1e-12)


def test_the_second_motor_of_the_four_bar_is_one_too_many(configs):
    mechanism = load(configs / "mechanisms" / "fourbar_two_motors.yaml")
    assert mechanism.actuator_names == ("motor", "motor_rocker")
    assert mechanism.dof == 1
    q = mechanism.reference
    motion = np.linalg.svd(constraint_jacobian(mechanism, q))[2][-1]
    work = actuation(mechanism, q).T @ motion
    assert np.all(np.abs(work) > 1e-3)  # either motor alone moves it


@pytest.mark.slow
def test_an_actuator_is_the_force_of_the_file_of_the_same_size(actuated, everything, state):
    """Torques on a body and on an angle, as listed under `forces`."""
    q, dq, t = state
    torques = "\nforces:\n- {body: coupler, torque: 3.0}\n- {angle: theta, torque: -2.0}\n"
    text = to_yaml(everything.description).replace("\nforces:\n", torques)
    loaded = PlanarMechanism.from_description(parse_mechanism(text))
    command = jnp.zeros(8).at[jnp.array([0, 2])].set(jnp.array([3.0, -2.0]))
    expected = loaded.forces(q, dq, t) - everything.forces(q, dq, t)
    np.testing.assert_allclose(actuation(actuated, q) @ command, expected, atol=1e-12)


def test_actuators_do_nothing_without_a_command(actuated, everything, state):
    q, dq, t = state
    np.testing.assert_array_equal(actuated.forces(q, dq, t), everything.forces(q, dq, t))
    np.testing.assert_array_equal(actuated.potential(q), everything.potential(q))


def test_the_ground_takes_its_share(actuated, state):
    """Of a cylinder on a fixed point only the unit force on its other end is left, whatever the order of its ends."""
    q, _, _ = state
    A, p, names = actuation(actuated, q), actuated.point_positions(q), actuated.coordinate_names
    for column, (ground, free, called) in {1: (0, 5, "_F"), 7: (3, 2, "2")}.items():
        places = [names.index(f"{axis}{called}") for axis in "xy"]
        force = np.asarray(A[jnp.array(places), column])
        np.testing.assert_allclose(force, (p[free] - p[ground]) / np.linalg.norm(p[free] - p[ground]), rtol=1e-12)
        assert not np.any(np.delete(A[:, column], places))


def test_coincident_points_give_no_force_and_finite_derivatives(actuated):
    together = jnp.zeros(actuated.n)  # A and all free points at the origin; D stays away from them
    A = actuation(actuated, together)
    assert not np.any(A[:, jnp.array([0, 1, 3])])
    assert np.all(np.isfinite(A))
    assert all(np.all(np.isfinite(derivative)) for derivative in actuation_derivatives(actuated, together))


def test_derivative_is_that_of_finite_differences(actuated, state):
    q, dq, _ = state
    derivative = actuation_derivatives(actuated, q)[0] @ dq
    step = 1e-6
    difference = (actuation(actuated, q + step * dq) - actuation(actuated, q - step * dq)) / (2 * step)
    np.testing.assert_allclose(derivative, difference, atol=1e-8)  # rounding 1e-16 / 1e-6 and step² 1e-12


def test_a_mechanism_without_actuators(everything, state):
    q, _, t = state
    assert everything.actuator_names == ()
    assert everything.actuation(q, t).shape == (everything.n, 0)


def test_a_family_without_actuators_has_no_columns(everything, state):
    q, _, t = state
    assert AbstractMechanism.actuator_names.fget(everything) == ()
    assert AbstractMechanism.actuation(everything, q, t).shape == (everything.nv, 0)
