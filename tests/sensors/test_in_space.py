"""Sensors of bodies in space, whose coordinates are no vector space, against exactly known motions and differences."""

import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import LabelledPendulum, product, rigid_body, spherical_pendulum
from jax.test_util import check_grads
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import fgmbs
from fgmbs.errors import ArgumentError
from fgmbs.inputs import WhiteNoise
from fgmbs.sensors import (
    Accelerometer,
    Distance,
    Encoder,
    Gyroscope,
    LoadCell,
    Position,
    Reading,
    Torque,
    Velocity,
)
from fgmbs.sensors.base import turned_back
from fgmbs.unknowns import Unknown, known

AXES = ("x", "y", "z")
AT = np.array([0.1, -0.2, 0.3])
WEIGHT = np.array([0.0, 0.0, -9.81])
TOP = rigid_body(inertia=(0.03, 0.03, 0.05))
LENGTH, PRECESSION, SPIN = 0.02, 1.7, 6.0
TILT = 0.6


def top(t):
    """A torque-free symmetric top that is thrown: its attitudes R(t), angular velocities and accelerations in its axes,
    places of its centre. Its axis goes round the angular momentum, which is upright, at a constant rate."""
    inertia, axial = 0.03, 0.05
    nutation = (inertia - axial) / axial * PRECESSION * np.cos(TILT)  # of the body about its axis
    psi, phi = PRECESSION * t, nutation * t
    up, side = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    R = (
        Rotation.from_rotvec(psi[:, None] * up)
        * Rotation.from_rotvec(TILT * side)
        * Rotation.from_rotvec(phi[:, None] * up)
    )
    # Euler rates of a body with the angles (psi, TILT, phi) about z, x, z.
    s, c = np.sin(TILT), np.cos(TILT)
    w = np.stack(
        [PRECESSION * s * np.sin(phi), PRECESSION * s * np.cos(phi), PRECESSION * c + nutation + 0 * phi], axis=1
    )
    dw = nutation * PRECESSION * s * np.stack([np.cos(phi), -np.sin(phi), 0 * phi], axis=1)
    place = t[:, None] * np.array([1.0, 0.5, 3.0]) + t[:, None] ** 2 / 2 * WEIGHT
    velocity = np.array([1.0, 0.5, 3.0]) + t[:, None] * WEIGHT
    return types.SimpleNamespace(t=t, R=R, w=w, dw=dw, place=place, velocity=velocity)


def states(motion):
    """(q, dq, ddq) of the top."""
    quaternion = np.roll(motion.R.as_quat(), 1, axis=1)
    q = np.concatenate([motion.place, quaternion], axis=1)
    dq = np.concatenate([motion.velocity, motion.w], axis=1)
    ddq = np.concatenate([np.broadcast_to(WEIGHT, motion.w.shape), motion.dw], axis=1)
    return q, dq, ddq


def read(mechanism, sensor, motion, forces=None, **calibration):
    sensor = eqx.tree_at(lambda s: s.channel.calibration, sensor, known(sensor.channel.calibration) | calibration)

    def at(t, q, dq, ddq):
        return sensor.predict(mechanism, Reading(q, dq, ddq, None, forces or {}, t))

    return np.asarray(jax.jit(jax.vmap(at))(jnp.asarray(motion.t), *map(jnp.asarray, states(motion))))


@pytest.fixture(scope="module")
def motion():
    return top(np.linspace(0.0, 2.0, 21))


@pytest.mark.slow
def test_the_top_is_a_motion_of_the_body(motion):
    q, dq, ddq = map(jnp.asarray, states(motion))
    found, _ = jax.vmap(lambda q, dq: TOP.accelerations(q, dq, jnp.asarray(0.0)))(q, dq)
    np.testing.assert_allclose(found, ddq, atol=1e-12)


def test_gyroscopes_read_body_rates_along_their_axes(motion):
    np.testing.assert_allclose(read(TOP, Gyroscope("g", body="top", axes=AXES, sigma=1), motion), motion.w, atol=1e-12)
    mounted = read(TOP, Gyroscope("g", body="top", axes=("-z", "x"), sigma=1), motion)
    np.testing.assert_allclose(mounted, np.stack([-motion.w[:, 2], motion.w[:, 0]], axis=1), atol=1e-12)


def test_positions_and_velocities_of_places(motion):
    arm = motion.R.apply(AT)
    position = read(TOP, Position("p", body="top", at=AT, axes=AXES, sigma=1), motion)
    np.testing.assert_allclose(position, motion.place + arm, atol=1e-12)
    velocity = read(TOP, Velocity("v", body="top", at=AT, axes=("z", "-y"), sigma=1), motion)
    exact = motion.velocity + motion.R.apply(np.cross(motion.w, AT))
    np.testing.assert_allclose(velocity, exact[:, [2, 1]] * [1, -1], atol=1e-12)
    h = 1e-4
    before, after = (
        read(TOP, Position("p", body="top", at=AT, axes=AXES, sigma=1), top(motion.t + e)) for e in (-h, h)
    )
    np.testing.assert_allclose(exact, (after - before) / (2 * h), atol=1e-6)
    rate = read(TOP, Velocity("v", of="w_y", sigma=1), motion)
    np.testing.assert_allclose(rate[:, 0], motion.w[:, 1], atol=1e-14)


def test_accelerometers_read_specific_force_in_the_axes_of_the_body(motion):
    """ẇ × r + w × (w × r) in free fall, and no weight."""
    exact = np.cross(motion.dw, AT) + np.cross(motion.w, np.cross(motion.w, AT))
    found = read(TOP, Accelerometer("a", body="top", at=AT, axes=AXES, sigma=1), motion)
    np.testing.assert_allclose(found, exact, atol=1e-11)
    h = 1e-3
    before, here, after = (
        motion_.place + motion_.R.apply(AT) for motion_ in (top(motion.t - h), motion, top(motion.t + h))
    )
    differences = motion.R.inv().apply((after - 2 * here + before) / h**2 - WEIGHT)
    np.testing.assert_allclose(found, differences, atol=1e-5)


def test_an_accelerometer_at_rest_reads_the_weight_upwards():
    body = rigid_body()
    still = Reading(body.reference, jnp.zeros(6), jnp.zeros(6), None, {}, jnp.asarray(0.0))
    found = Accelerometer("a", body="b", axes=("x", "-z"), sigma=1).predict(body, still)
    np.testing.assert_allclose(found, [0, -9.81], atol=1e-14)


def test_a_reading_needs_no_more_of_the_retraction_than_its_derivative():
    """With another retraction, q + E v brought back to length 1, sensors read the same."""
    motion = top(np.linspace(0.0, 2.0, 5))

    class Projected(type(TOP)):
        def retract(self, q, v):
            u = q[3:] + product(q[3:], jnp.concatenate([jnp.zeros(1), v[3:] / 2]))
            return jnp.concatenate([q[:3] + v[:3], u / jnp.sqrt(u @ u)])

    other = Projected(TOP.mass, TOP.inertia, TOP.weight)
    for sensor in (
        Accelerometer("a", body="b", at=AT, axes=AXES, sigma=1),
        Gyroscope("g", body="b", axes=AXES, sigma=1),
        Velocity("v", body="b", at=AT, axes=AXES, sigma=1),
    ):
        np.testing.assert_allclose(read(other, sensor, motion), read(TOP, sensor, motion), atol=1e-11)


@pytest.mark.parametrize("axis, direction", [("x", [1, 0, 0]), ("y", [0, 1, 0]), ("z", [0, 0, 1]), ("-y", [0, -1, 0])])
def test_encoders_read_angles_about_their_axis(axis, direction):
    body = rigid_body()
    encoder = Encoder("e", body="b", axis=axis, sigma=1)
    for angle in (-3.0, -0.4, 0.0, 1.3, 3.1):
        turn = np.roll(Rotation.from_rotvec(angle * np.array(direction)).as_quat(), 1)
        reading = Reading(jnp.concatenate([jnp.zeros(3), jnp.asarray(turn)]), jnp.zeros(6), None, None, {}, 0.0)
        np.testing.assert_allclose(encoder.predict(body, reading), [angle], atol=1e-12)
    assert encoder.circular


def test_encoders_read_coordinates_that_are_lengths_or_whose_unit_nobody_tells(motion):
    x = read(TOP, Encoder("e", of="y", unit="m", sigma=1), motion)
    np.testing.assert_allclose(x[:, 0], motion.place[:, 1], atol=1e-14)


def test_three_axes_are_misaligned_by_a_rotation_vector(motion):
    by = np.array([0.02, -0.3, 0.5])
    known = Gyroscope("g", body="top", axes=AXES, misalignment=by, sigma=1)
    exact = Rotation.from_rotvec(by).inv().apply(motion.w)
    np.testing.assert_allclose(read(TOP, known, motion), exact, atol=1e-12)
    unknown = Gyroscope("g", body="top", axes=AXES, misalignment=Unknown(sigma=0.1), sigma=1)
    assert unknown.unknowns["misalignment"].value.shape == (3,)
    np.testing.assert_allclose(read(TOP, unknown, motion), motion.w, atol=1e-12)
    np.testing.assert_allclose(read(TOP, unknown, motion, misalignment=jnp.asarray(by)), exact, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0.0, 1e-5, 0.9e-3, 1.1e-3, 2.0])
def test_a_misalignment_has_derivatives_also_where_it_is_0(size):
    by, y = size * jnp.array([0.6, 0.0, 0.8]), jnp.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(
        turned_back(y, by), Rotation.from_rotvec(np.array(by)).inv().apply(np.array(y)), atol=1e-14
    )
    check_grads(lambda by: turned_back(y, jnp.asarray(by)), (by,), order=2)


def test_forces_act_along_velocities(motion):
    torque = Torque("u", of="w_x", sigma=1)
    assert read(TOP, torque, motion, forces={"w_x": 3.0})[0] == 3.0
    WhiteNoise("w_x", 1.0).check(TOP)
    for check in (Torque("u", of="e1", sigma=1).check, WhiteNoise("e1", 1.0).check):
        with pytest.raises(
            ArgumentError, match="there is no actuator or velocity 'e1'.*known actuators and velocities"
        ):
            check(TOP)


@pytest.mark.parametrize(
    "sensor, text",
    [
        (Position("s", body="b", at=(1, 2), sigma=1), "at: expected 3 numbers in the frame of the body; found 2"),
        (Velocity("s", of="e1", sigma=1), "of: there is no velocity 'e1'"),
        (Velocity("s", of="w_x", unit="m/s", sigma=1), "unit: expected 'rad/s' for 'w_x', which is an angle"),
        (Encoder("s", of="w_x", sigma=1), "of: there is no coordinate 'w_x'"),
        (Encoder("s", of="e1", sigma=1), "of: expected an angle or a length; found 'e1', which is a number [1]"),
        (
            Distance("s", between=("a", "b"), sigma=1),
            "point: expected a mechanism of points with names; found RigidBody",
        ),
        (LoadCell("s", pin="a@b", sigma=1), "pin: expected a mechanism of bodies with pins; found RigidBody"),
    ],
)
def test_what_is_not_there_is_named(sensor, text):
    with pytest.raises(ArgumentError) as error:
        sensor.check(TOP)
    assert str(error.value).startswith(f"sensor 's': {text}")


@pytest.mark.slow
def test_readings_of_samples_are_those_of_the_motion():
    """Local coordinates are cubic between samples: errors of fourth order in positions, of third in rates."""

    def errors(count):
        samples, between = top(np.linspace(0.0, 1.0, count)), top(np.linspace(0.013, 0.987, 40))
        q, dq, _ = states(samples)
        sensors = (
            Position("p", body="top", at=AT, axes=AXES, sigma=1),
            Gyroscope("g", body="top", axes=AXES, sigma=1),
            Accelerometer("a", body="top", at=AT, axes=AXES, sigma=1),
        )
        times = dict.fromkeys(("p", "g", "a"), between.t)
        recording = fgmbs.readings(TOP, types.SimpleNamespace(t=samples.t, q=q, dq=dq), sensors, times=times)
        found = [np.stack([recording[f"{s.name}.{axis}"].values for axis in AXES], axis=1) for s in sensors]
        force = np.cross(between.dw, AT) + np.cross(between.w, np.cross(between.w, AT))
        exact = (between.place + between.R.apply(AT), between.w, force)
        return [np.abs(a - b).max() for a, b in zip(found, exact, strict=True)]

    coarse, fine = errors(11), errors(41)
    assert fine[0] < 1e-7 and fine[1] < 1e-5 and fine[2] < 1e-4
    orders = np.log(np.array(coarse) / fine) / np.log(4)
    np.testing.assert_array_less([3.7, 2.7, 2.7], orders)


@pytest.mark.slow
def test_readings_of_a_pendulum_in_space_know_its_forces():
    """A force along a velocity, by its name, moves what the accelerometer reads."""
    pendulum = spherical_pendulum()
    side = lambda t: 2.0 * np.sin(3 * t)

    @jax.jit
    def rates(t, x):
        applied = jnp.zeros(6).at[0].set(2.0 * jnp.sin(3 * t))
        q, dq = x[:7], x[7:]
        ddq, lambda_ = pendulum.accelerations(q, dq, t, applied)
        return jnp.concatenate([pendulum.coordinate_rates(q) @ dq, ddq]), ddq

    t = np.linspace(0, 0.5, 51)
    start = np.concatenate([pendulum.reference, np.zeros(6)])
    x = solve_ivp(lambda t, x: rates(t, x)[0], (0, t[-1]), start, "DOP853", t, rtol=1e-11, atol=1e-12).y.T
    motion = types.SimpleNamespace(t=t, q=x[:, :7], dq=x[:, 7:])
    sensor = Accelerometer("a", body="b", axes=AXES, sigma=1)
    recording = fgmbs.readings(pendulum, motion, [sensor], forces={"v_x": side(t)})
    ddq = np.stack([rates(t, x)[1] for t, x in zip(t, x, strict=True)])
    R = Rotation.from_quat(np.roll(x[:, 3:7], -1, axis=1))
    exact = R.inv().apply(ddq[:, :3] - WEIGHT)
    found = np.stack([recording[f"a.{axis}"].values for axis in AXES], axis=1)
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_load_cells_and_distances_in_space():
    """The pivot of a pendulum carries m (a − g)."""
    plain = spherical_pendulum()
    pendulum = LabelledPendulum(plain.body, plain.arm)
    turn = Rotation.from_rotvec([0.4, 0.0, 0.0])
    w = np.array([1.0, 2.0, 0.5])
    place, velocity = turn.apply([0, 0, -0.5]), turn.apply(np.cross(w, [0, 0, -0.5]))
    q = jnp.concatenate([jnp.asarray(place), jnp.asarray(np.roll(turn.as_quat(), 1))])
    dq = jnp.concatenate([jnp.asarray(velocity), jnp.asarray(w)])
    ddq, lambda_ = pendulum.accelerations(q, dq, jnp.asarray(0.0))
    reading = Reading(q, dq, ddq, lambda_, {}, jnp.asarray(0.0))
    force = 2.0 * (np.asarray(ddq[:3]) - WEIGHT)
    cell = LoadCell("c", pin="body@pivot", axes=("z", "-x", "y"), sigma=1)
    cell.check(pendulum)
    np.testing.assert_allclose(cell.predict(pendulum, reading), force[[2, 0, 1]] * [1, -1, 1], atol=1e-12)
    in_body = LoadCell("c", pin="body@pivot", frame="body", axes=AXES, sigma=1).predict(pendulum, reading)
    np.testing.assert_allclose(in_body, turn.inv().apply(force), atol=1e-12)
    distance = Distance("d", between=("pivot", "centre"), sigma=1)
    np.testing.assert_allclose(distance.predict(pendulum, reading), [0.5], atol=1e-14)
    seen = Position("p", point="centre", axes=("y", "z"), sigma=1)
    np.testing.assert_allclose(seen.predict(pendulum, reading), place[1:], atol=1e-14)
