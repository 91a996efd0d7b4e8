"""Load cells and torque sensors against Newton's law of a body."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.sensors import LoadCell, Reading, Torque

# A motor on the coupler itself, which is no coordinate; theta has no actuator.
DRIVEN = """
points:
  - {x: 0, y: 0, fixed: true, name: A}
  - {x: 0.7, y: 0.8, name: P}
  - {x: 1.3, y: 2.6, name: Q}
  - {x: 4, y: 0, fixed: true, name: B}
planar_bodies:
  - {name: crank, points: [A, P], mass: 1, I0: mass*length^2/3, cog: [length/2, 0.1]}
  - {name: coupler, points: [P, Q], mass: 2, I0: 0.6*mass*length^2, cog: [0.7*length, -0.2]}
  - {name: rocker, points: [B, Q], mass: 4, I0: mass*length^2/3, cog: [length/2, 0]}
relative_coordinates: [{type: RelativeAngleAbsoluteDOF, points: [A, P], name: theta}]
actuators: [{name: fan, body: coupler}]
"""


@pytest.fixture(scope="module")
def driven():
    return PlanarMechanism.from_description(parse_mechanism(DRIVEN)).evaluated()


@pytest.fixture(scope="module")
def instant(driven):
    """Forces on the body, an angle without actuator and a point, and what they do."""
    q, forces = driven.reference, {"fan": 7.0, "theta": -4.0, "x_Q": 3.0}
    applied = driven.actuation(q, 0.0)[:, 0] * 7 + jnp.array([0.0, 0.0, 3.0, 0.0, -4.0])
    ddq, lambda_ = eqx.filter_jit(driven.accelerations)(q, jnp.zeros(5), jnp.asarray(0.0), applied)
    return Reading(q, jnp.zeros(5), ddq, lambda_, forces, jnp.asarray(0.0))


def force(mechanism, instant, pin, **options):
    return np.asarray(LoadCell("cell", pin=pin, sigma=1, **options).predict(mechanism, instant))


def about_centre(driven, instant, body, first, second, cog):
    """(centre of mass, its acceleration, angular acceleration, positions of the points), as a rigid body at rest."""
    r = {name: np.asarray(driven.point_position(name, instant.q)) for name in (first, second)}
    a = {"A": np.zeros(2), "P": instant.ddq[:2], "Q": instant.ddq[2:4], "B": np.zeros(2)}
    d, dda = r[second] - r[first], np.asarray(a[second] - a[first])
    alpha = (d[0] * dda[1] - d[1] * dda[0]) / (d @ d)
    arm = np.array([[d[0], -d[1]], [d[1], d[0]]]) / np.sqrt(d @ d) @ cog(np.sqrt(d @ d))
    return r[first] + arm, np.asarray(a[first]) + alpha * np.array([-arm[1], arm[0]]), alpha, r


def cross(a, b):
    return a[0] * b[1] - a[1] * b[0]


@pytest.mark.slow
def test_forces_on_a_body_give_its_momentum(driven, instant):
    centre, a, alpha, r = about_centre(driven, instant, "coupler", "P", "Q", lambda L: np.array([0.7 * L, -0.2]))
    P, Q = force(driven, instant, "coupler@P"), force(driven, instant, "coupler@Q")
    np.testing.assert_allclose(P + Q + [0, -2 * 9.81], 2 * a, atol=1e-8)
    L = np.linalg.norm(r["Q"] - r["P"])
    inertia = 0.6 * 2 * L**2 - 2 * ((0.7 * L) ** 2 + 0.2**2)
    torque = 7.0 + cross(r["P"] - centre, P) + cross(r["Q"] - centre, Q)
    np.testing.assert_allclose(torque, inertia * alpha, atol=1e-8)


def test_a_force_on_an_angle_is_a_couple_on_its_body(driven, instant):
    """Without an actuator too: the moment on the crank about A is that of its pin, its weight and the couple."""
    centre, _, alpha, r = about_centre(driven, instant, "crank", "A", "P", lambda L: np.array([L / 2, 0.1]))
    moment = -4.0 + cross(r["P"], force(driven, instant, "crank@P")) + cross(centre, np.array([0, -9.81]))
    np.testing.assert_allclose(moment, (r["P"] @ r["P"]) / 3 * alpha, atol=1e-8)


def test_pins_of_one_point_balance_the_force_on_it(driven, instant):
    pins = force(driven, instant, "coupler@Q") + force(driven, instant, "rocker@Q")
    np.testing.assert_allclose(pins, [3.0, 0.0], atol=1e-8)


def test_frames_and_axes(driven, instant):
    d = np.array([0.6, 1.8]) / np.hypot(0.6, 1.8)
    ground = force(driven, instant, "coupler@P")
    along, across = d @ ground, cross(d, ground)
    np.testing.assert_allclose(force(driven, instant, "coupler@P", frame="body"), [along, across], atol=1e-10)
    np.testing.assert_allclose(force(driven, instant, "coupler@P", frame="body", axes=("-y",)), [-across], atol=1e-10)
    np.testing.assert_allclose(force(driven, instant, "coupler@P", gain=-1), -ground)
    joints = driven.joint_forces(
        instant.q, instant.dq, instant.ddq, instant.lambda_, instant.t, jnp.array([instant.forces["fan"]])
    )
    np.testing.assert_allclose(ground, joints[driven.pin_names.index("coupler@P")], atol=1e-12)


def test_torques(driven, instant):
    read = lambda **given: Torque("i", sigma=1, **given).predict(driven, instant)
    np.testing.assert_allclose(read(of="fan"), 7)
    np.testing.assert_allclose(read(of="fan", unit="A", gain=0.5, bias=0.1), 3.6)
    np.testing.assert_allclose(read(of="x_Q", unit="N"), 3)
    np.testing.assert_allclose(read(of="y_Q", unit="N"), 0)
    slope = jax.jacfwd(
        lambda u: Torque("i", of="fan", sigma=1).predict(
            driven, Reading(instant.q, instant.dq, None, None, {"fan": u}, instant.t)
        )
    )(jnp.asarray(2.0))
    np.testing.assert_array_equal(slope, 1)


@pytest.mark.parametrize(
    "sensor, text",
    [
        (
            LoadCell("c", pin="copler@P", sigma=1),
            "sensor 'c': pin: there is no pin 'copler@P'; did you mean 'coupler@P'?",
        ),
        (
            Torque("i", of="fann", sigma=1),
            "sensor 'i': of: there is no actuator or coordinate 'fann'; did you mean 'fan'?",
        ),
    ],
)
def test_what_is_not_there_is_named(driven, sensor, text):
    with pytest.raises(ArgumentError) as error:
        sensor.check(driven)
    assert str(error.value).startswith(text)


@pytest.mark.parametrize(
    "build, text",
    [
        (
            lambda: LoadCell("c", pin="a@b", frame="pin", sigma=1),
            "sensor 'c': frame: expected 'ground' or 'body'; found 'pin'",
        ),
        (lambda: Torque("i", of="m", unit="V", sigma=1), "sensor 'i': unit: expected 'N m', 'N' or 'A'; found 'V'"),
        (
            lambda: Torque("i", of="m", unit="A", sigma=1),
            "sensor 'i': gain: expected the current per torque of a reading in A",
        ),
    ],
)
def test_arguments_that_cannot_be_meant(build, text):
    with pytest.raises(ArgumentError) as error:
        build()
    assert str(error.value).startswith(text)
