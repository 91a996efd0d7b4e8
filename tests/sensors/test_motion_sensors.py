"""Sensors of positions, velocities and accelerations against differences of positions, and an exact pendulum."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.sensors import Accelerometer, Distance, Encoder, Gyroscope, Position, Reading, Velocity
from fgmbs.unknowns import Unknown, is_unknown

DT = 1e-3
INSIDE = slice(3, -3)
A, B = np.array([0.0, 0.0]), np.array([4.0, 0.0])


def derivative(values, order=1):
    """Derivative along the first axis at all but the outer three samples, to DT⁶."""
    weights = {1: np.array([-1, 9, -45, 0, 45, -9, 1]) / 60, 2: np.array([2, -27, 270, -490, 270, -27, 2]) / 180}[order]
    count = len(values) - 6
    return sum(w * values[k : k + count] for k, w in enumerate(weights)) / DT**order


def read(mechanism, motion, sensor):
    """Readings at the samples of a motion, those of the mechanism's own accelerations."""

    def at(t, q, dq, ddq):
        return sensor.predict(mechanism, Reading(q, dq, ddq, None, {}, t))

    return np.asarray(jax.jit(jax.vmap(at))(*(jnp.asarray(x) for x in (motion.t, motion.q, motion.dq, motion.ddq))))


def angle(d):
    return np.unwrap(np.arctan2(d[:, 1], d[:, 0]))


def turned(angles):
    """Rotation matrices."""
    c, s = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)


@pytest.fixture(scope="module")
def points(motion):
    """P1 and P2 in time."""
    return motion.q[:, :2], motion.q[:, 2:4]


@pytest.fixture(scope="module")
def coupler(points):
    """Angle of the coupler, and the place (0.7, −0.3) on it."""
    P1, P2 = points
    alpha = angle(P2 - P1)
    return alpha, P1 + turned(alpha) @ np.array([0.7, -0.3])


def test_encoders_read_angles(fourbar, motion, points):
    P1, P2 = points
    theta, rocker = motion.q[:, 4], angle(B - P2)
    np.testing.assert_allclose(read(fourbar, motion, Encoder("e", of="theta", sigma=1))[:, 0], theta, atol=1e-14)
    of_body = read(fourbar, motion, Encoder("e", body="rocker", sigma=1))[:, 0]
    np.testing.assert_allclose(of_body, rocker, atol=1e-12)
    backwards = read(fourbar, motion, Encoder("e", body="rocker", axis="-z", sigma=1))[:, 0]
    np.testing.assert_allclose(backwards, -rocker, atol=1e-12)
    relative = read(fourbar, motion, Encoder("e", body="rocker", relative_to="crank", sigma=1))[:, 0]
    np.testing.assert_allclose(np.exp(1j * relative), np.exp(1j * (rocker - theta)), atol=1e-9)
    length = read(fourbar, motion, Encoder("e", of="x_P2", unit="m", sigma=1, gain=-2.0, bias=3.0))[:, 0]
    np.testing.assert_allclose(length, 3 - 2 * P2[:, 0], atol=1e-14)


def test_gyroscopes_read_the_rate_of_the_angle(fourbar, motion, coupler):
    rate = read(fourbar, motion, Gyroscope("g", body="coupler", sigma=1))[INSIDE, 0]
    np.testing.assert_allclose(rate, derivative(coupler[0]), atol=1e-9)
    assert np.ptp(rate) > 0.5


def test_velocities_are_those_of_the_places(fourbar, motion, coupler, points):
    v = read(fourbar, motion, Velocity("v", body="coupler", at=(0.7, -0.3), sigma=1))[INSIDE]
    np.testing.assert_allclose(v, derivative(coupler[1]), atol=1e-9)
    v = read(fourbar, motion, Velocity("v", point="P2", axes=("-y",), sigma=1))[INSIDE]
    np.testing.assert_allclose(v[:, 0], -derivative(points[1])[:, 1], atol=1e-9)
    rate = read(fourbar, motion, Velocity("v", of="theta", sigma=1))[INSIDE, 0]
    np.testing.assert_allclose(rate, derivative(motion.q[:, 4]), atol=1e-9)


def test_accelerometers_read_specific_force_in_the_axes_of_the_body(fourbar, motion, coupler):
    alpha, place = coupler
    a = derivative(place, 2) + np.array([0.0, 9.81])
    in_body = np.einsum("tji,tj->ti", turned(alpha[INSIDE]), a)
    reading = read(fourbar, motion, Accelerometer("a", body="coupler", at=(0.7, -0.3), sigma=1))[INSIDE]
    # Differences of second order: rounding of 1e-12 in the positions over DT².
    np.testing.assert_allclose(reading, in_body, atol=1e-5)
    mounted = Accelerometer("a", body="coupler", at=(0.7, -0.3), axes=("-y", "x"), misalignment=0.3, sigma=1)
    beta = alpha[INSIDE] - np.pi / 2 + 0.3
    np.testing.assert_allclose(
        read(fourbar, motion, mounted)[INSIDE], np.einsum("tji,tj->ti", turned(beta), a), atol=1e-5
    )


def test_an_accelerometer_on_a_pendulum_is_exact(pendulum):
    """ddphi = −3g/(2L) cos phi; at the tip −L dphi² + g sin phi along the rod, L ddphi + g cos phi across it."""
    phi, dphi, g = -0.6, 1.7, 9.81
    c, s = np.cos(phi), np.sin(phi)
    q, dq = jnp.array([c, s]), dphi * jnp.array([-s, c])
    ddq, _ = eqx.filter_jit(pendulum.accelerations)(q, dq, jnp.asarray(0.0))
    reading = Reading(q, dq, ddq, None, {}, jnp.asarray(0.0))
    tip = Accelerometer("tip", body="rod", at=(1.0, 0.0), sigma=1).predict(pendulum, reading)
    np.testing.assert_allclose(tip, [-(dphi**2) + g * s, -1.5 * g * c + g * c], atol=1e-9)
    pivot = Accelerometer("pivot", body="rod", sigma=1).predict(pendulum, reading)
    np.testing.assert_allclose(pivot, [g * s, g * c], atol=1e-9)
    np.testing.assert_allclose(Gyroscope("g", body="rod", sigma=1).predict(pendulum, reading), dphi, atol=1e-12)


def test_a_camera_reads_pixels(fourbar, motion, coupler):
    """Pixels count to the right and downwards from the corner; the camera is turned."""
    camera = Position(
        "c",
        body="coupler",
        at=(0.7, -0.3),
        axes=("x", "-y"),
        unit="px",
        gain=500.0,
        bias=(320.0, 900.0),
        misalignment=Unknown(0.2, sigma=0.1),
        sigma=1,
    )
    x, y = coupler[1].T
    image = turned(np.array(-0.2)) @ np.stack([x, -y])
    np.testing.assert_allclose(read(fourbar, motion, camera), (500 * image).T + [320, 900], atol=1e-9)
    assert camera.units == ("px", "px") and camera.columns == ("c.x", "c.y")
    one = read(fourbar, motion, Position("p", point="P2", axes=("y",), sigma=1))
    np.testing.assert_allclose(one[:, 0], motion.q[:, 3], atol=1e-14)


def test_distances(fourbar, motion, points):
    P2 = points[1]
    reading = read(fourbar, motion, Distance("d", between=("A", "P2"), sigma=1))[:, 0]
    np.testing.assert_allclose(reading, np.hypot(*P2.T), atol=1e-12)


def test_a_distance_has_derivatives_where_the_points_meet(pendulum):
    distance = Distance("d", between=("pivot", "tip"), sigma=1)
    zero = jnp.zeros(2)
    J = jax.jacfwd(lambda q: distance.predict(pendulum, Reading(q, zero, None, None, {}, jnp.asarray(0.0))))(zero)
    np.testing.assert_array_equal(J, 0)


def test_derivatives_of_predictions_are_those_of_differences(fourbar, motion):
    k, h = 200, 1e-6
    sensors = (
        Accelerometer("a", body="coupler", at=(0.7, -0.3), misalignment=Unknown(0.1, sigma=1), sigma=1),
        Gyroscope("g", body="rocker", sigma=1),
        Encoder("e", body="coupler", sigma=1),
    )

    def predictions(x):
        q, dq, ddq, mu = x[:5], x[5:10], x[10:15], x[15]
        reading = Reading(q, dq, ddq, None, {}, jnp.asarray(0.0))
        turned = eqx.tree_at(lambda s: s.channel.calibration["misalignment"], sensors[0], mu, is_leaf=is_unknown)
        return jnp.concatenate([s.predict(fourbar, reading) for s in (turned, *sensors[1:])])

    x = jnp.concatenate([jnp.asarray(y[k]) for y in (motion.q, motion.dq, motion.ddq)] + [jnp.array([0.1])])
    differences = jax.jit(jax.vmap(lambda e: (predictions(x + h * e) - predictions(x - h * e)) / (2 * h)))(jnp.eye(16))
    np.testing.assert_allclose(jax.jit(jax.jacfwd(predictions))(x), differences.T, atol=1e-6)
