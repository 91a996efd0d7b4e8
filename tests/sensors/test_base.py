"""What all sensors have in common: calibration, noise, wrapped differences, and what they refuse."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors import (
    AbstractSensor,
    Accelerometer,
    Channel,
    Distance,
    Encoder,
    Gyroscope,
    LoadCell,
    Position,
    Reading,
    Velocity,
)
from fgmbs.sensors.base import rate
from fgmbs.unknowns import Unknown, known

ANYTHING = Reading(jnp.zeros(2), jnp.zeros(2), None, None, {}, jnp.asarray(0.0))


class _Board(AbstractSensor):
    """A sensor of the user's own: the coordinates themselves."""

    channel: Channel
    order = 0

    @property
    def units(self):
        return ("m",) * self.rows

    def ideal(self, mechanism, reading):
        return reading.q


class _Turntable(AbstractMechanism):
    """One angle; the body on it turns twice as fast, its origin goes round at 2 m."""

    coordinate_names = ("phi",)
    constraint_names = ()
    reference: jax.Array

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return jnp.eye(1)

    def forces(self, q, dq, t):
        return jnp.zeros(1)

    def potential(self, q):
        return jnp.asarray(0.0)

    def body_frame(self, body, q, t):
        c, s = jnp.cos(2 * q[0]), jnp.sin(2 * q[0])
        return jnp.array([[c, -s], [s, c]]), 2 * jnp.array([jnp.cos(q[0]), jnp.sin(q[0])])


def board(**options):
    return _Board(Channel("board", 2, **{"sigma": 1.0, **options}))


def predict(sensor, q, **calibration):
    sensor = eqx.tree_at(lambda s: s.channel.calibration, sensor, known(sensor.channel.calibration) | calibration)
    return np.asarray(sensor.predict(turntable(), Reading(jnp.asarray(q), ANYTHING.dq, None, None, {}, 0.0)))


def turntable():
    return _Turntable(jnp.zeros(1))


def test_calibration_is_gain_times_turned_plus_bias():
    sensor = board(bias=(1.0, -2.0), gain=3.0, misalignment=0.4)
    c, s = np.cos(0.4), np.sin(0.4)
    np.testing.assert_allclose(
        predict(sensor, [0.5, 0.7]), 3 * np.array([c * 0.5 + s * 0.7, c * 0.7 - s * 0.5]) + [1, -2]
    )


def test_unknown_numbers_come_from_outside_or_from_their_priors():
    sensor = board(bias=Unknown(0.1, sigma=(1.0, 2.0)), gain=Unknown(2.0, sigma=0.1), misalignment=0.0)
    assert {key: unknown.value.shape for key, unknown in sensor.unknowns.items()} == {"bias": (2,), "gain": ()}
    np.testing.assert_array_equal(sensor.unknowns["bias"].sigma, [1, 2])
    np.testing.assert_allclose(predict(sensor, [0.5, 0.7]), [1.1, 1.5])
    np.testing.assert_allclose(predict(sensor, [0.5, 0.7], gain=jnp.asarray(1.0)), [0.6, 0.8])
    np.testing.assert_allclose(predict(sensor, [0.5, 0.7], bias=jnp.array([0.0, 1.0])), [1.0, 2.4])
    assert sensor.gain is sensor.unknowns["gain"] and sensor.misalignment == 0 and sensor.delay is None


def test_noise_is_that_of_each_row_and_of_rounding():
    np.testing.assert_allclose(board(sigma=0.3).noise_sigma(), [0.3, 0.3])
    rounded = board(sigma=(0.3, 1e-9), resolution=0.6).noise_sigma()
    errors = np.random.default_rng(0).uniform(-0.3, 0.3, 10**6)
    np.testing.assert_allclose(rounded, [np.hypot(0.3, errors.std()), errors.std()], rtol=2e-3)


@pytest.mark.parametrize(
    "sensor, circular",
    [
        (Encoder("e", of="theta", sigma=1), True),
        (Encoder("e", of="theta", incremental=True, sigma=1), False),
        (Encoder("e", of="x", unit="m", sigma=1), False),
        (Encoder("e", body="rod", sigma=1), True),
        (Encoder("e", body="rod", incremental=True, sigma=1), True),
        (Gyroscope("g", body="rod", sigma=1), False),
    ],
)
def test_angles_are_compared_modulo_a_turn_where_turns_are_not_counted(sensor, circular):
    error = sensor.error(jnp.array([3.1]), jnp.array([-3.1 + 4 * np.pi]))
    np.testing.assert_allclose(error, 6.2 - (2 * np.pi if circular else 4 * np.pi), atol=1e-12)
    np.testing.assert_array_equal(jax.jacfwd(sensor.error)(jnp.array([3.1]), jnp.array([-3.1])), 1)


def test_an_incremental_encoder_has_an_unknown_offset_unless_it_is_given():
    assert Encoder("e", of="theta", incremental=True, sigma=1).unknowns["bias"].sigma[0] > 100
    assert not Encoder("e", of="theta", incremental=True, bias=0.3, sigma=1).unknowns
    assert Encoder("e", of="theta", incremental=True, bias=Unknown(sigma=2), sigma=1).unknowns["bias"].sigma == 2


def test_any_mechanism_with_frames_has_gyroscopes_and_accelerometers():
    """On the turntable: rate 2 dphi; acceleration of the origin and of a lever that turns twice as fast."""
    table, phi, dphi, ddphi = turntable(), 0.3, 1.5, -0.7
    reading = Reading(jnp.array([phi]), jnp.array([dphi]), jnp.array([ddphi]), None, {}, jnp.asarray(0.0))
    gyroscope = Gyroscope("g", body="disc", sigma=1)
    gyroscope.check(table)
    np.testing.assert_allclose(gyroscope.predict(table, reading), 2 * dphi)
    unit = lambda angle: np.array([np.cos(angle), np.sin(angle)])
    motion = table.body_motion("disc", reading.q, reading.dq, reading.t, reading.ddq)
    position, velocity, acceleration = (origin for _, origin in motion)
    np.testing.assert_allclose(position, 2 * unit(phi))
    np.testing.assert_allclose(velocity, 2 * dphi * unit(phi + np.pi / 2))
    np.testing.assert_allclose(acceleration, 2 * ddphi * unit(phi + np.pi / 2) - 2 * dphi**2 * unit(phi))
    np.testing.assert_allclose(rate(table, reading, lambda q, t: q * t**2 + t)[1], [1.0])


@pytest.mark.parametrize(
    "sensor, text",
    [
        (
            Encoder("e", of="thet", sigma=1),
            "of: there is no coordinate 'thet'; did you mean 'theta'? known coordinates:",
        ),
        (Encoder("e", of="theta", unit="m", sigma=1), "unit: expected 'rad' for 'theta', which is an angle; found 'm'"),
        (Encoder("e", of="x_P1", sigma=1), "unit: expected 'm' for 'x_P1', which is a length; found 'rad'"),
        (
            Encoder("e", body="crank", relative_to="rokker", sigma=1),
            "body: there is no body 'rokker'; did you mean 'rocker'?",
        ),
        (Gyroscope("e", body="rod", sigma=1), "body: there is no body 'rod'; known bodies: crank, coupler, rocker"),
        (Accelerometer("e", body="coupla", sigma=1), "body: there is no body 'coupla'; did you mean 'coupler'?"),
        (
            Position("e", point="P", sigma=1),
            "point: there is no point 'P'; did you mean 'P2'? known points: A, P1, P2, B",
        ),
        (Distance("e", between=("A", "C"), sigma=1), "point: there is no point 'C'; known points: A, P1, P2, B"),
        (Velocity("e", of="y_P2", sigma=1), "unit: expected 'm/s' for 'y_P2', which is a length; found 'rad/s'"),
        (
            Position("e", body="crank", at=(1, 2, 3), sigma=1),
            "at: expected 2 numbers in the frame of the body; found 3",
        ),
        (
            Position("e", point="P1", axes=("x", "z"), sigma=1),
            "axes: expected axes of a mechanism in the plane, 'x' and 'y'; found 'z'",
        ),
        (
            Encoder("e", body="crank", axis="y", sigma=1),
            "axis: expected axes of a mechanism in the plane, 'z'; found 'y'",
        ),
        (
            Gyroscope("e", body="crank", axes=("-x",), sigma=1),
            "axes: expected axes of a mechanism in the plane, 'z'; found '-x'",
        ),
        (board(), "expected a mechanism of which it reads 2 numbers; found (5,)"),
    ],
)
def test_what_is_not_there_is_named(fourbar, sensor, text):
    with pytest.raises(ArgumentError) as error:
        sensor.check(fourbar)
    assert str(error.value).startswith(f"sensor {sensor.name!r}: {text}")


@pytest.mark.parametrize(
    "sensor, text",
    [
        (
            Position("p", point="P", sigma=1),
            "point: expected a mechanism of points with names; found _Turntable, which does",
        ),
        (
            Accelerometer("p", body="b", sigma=1),
            "mechanism: expected one that has gravity; found _Turntable, which does not",
        ),
        (LoadCell("p", pin="a@b", sigma=1), "pin: expected a mechanism of bodies with pins; found _Turntable"),
    ],
)
def test_a_family_says_what_it_lacks(sensor, text):
    with pytest.raises(ArgumentError) as error:
        sensor.check(turntable())
    assert str(error.value).startswith(f"sensor 'p': {text}")


@pytest.mark.parametrize(
    "build, text",
    [
        (lambda: board(sigma=0.0), "sensor 'board': sigma: expected positive numbers; found 0"),
        (
            lambda: Encoder("e", of="theta"),
            "sensor 'e': sigma: expected the standard deviation of its noise, in the unit of its readings; found none",
        ),
        (
            lambda: Encoder("e", of="theta", sgma=1),
            "sensor 'e': there is no argument 'sgma'; did you mean 'sigma'? known those of all sensors: sigma, columns",
        ),
        (lambda: board(sigma=(1.0, -1.0)), "sensor 'board': sigma: expected positive numbers; found sigma[1] = -1"),
        (
            lambda: board(sigma=(1.0, 1.0, 1.0)),
            "sensor 'board': sigma: expected 2 numbers, one for each row, or one; found",
        ),
        (lambda: board(sigma=np.nan), "sensor 'board': sigma: expected finite numbers; found nan"),
        (lambda: board(gain=0.0), "sensor 'board': gain: expected a number other than 0; found 0"),
        (lambda: board(gain=(1.0, 2.0)), "sensor 'board': gain: expected one number; found shape (2,)"),
        (lambda: board(resolution=-0.1), "sensor 'board': resolution: expected a positive number or 0; found -0.1"),
        (lambda: board(columns="a"), "sensor 'board': columns: expected 2 names; found ('a',)"),
        (lambda: board(columns=("a", "a")), "sensor 'board': columns: expected different names; found ('a', 'a')"),
        (lambda: Unknown(0.0, sigma=0.0), "sigma: expected positive numbers; found 0"),
        (lambda: Unknown(np.inf, sigma=1.0), "value: expected finite numbers; found inf"),
        (
            lambda: Gyroscope("g", body="b", sigma=1, misalignment=0.1),
            "sensor 'g': misalignment: only for sensors of two axes",
        ),
        (lambda: Gyroscope("", body="b", sigma=1), "name: expected a text; found ''"),
        (lambda: Encoder("e", sigma=1), "sensor 'e': of: expected a coordinate, or else a body; found none"),
        (
            lambda: Encoder("e", of="a", body="b", sigma=1),
            "sensor 'e': of: expected a coordinate, or else a body; found both",
        ),
        (
            lambda: Encoder("e", body="b", axis="w", sigma=1),
            "sensor 'e': axis: expected different ones of 'x', 'y' and",
        ),
        (lambda: Encoder("e", of="a", relative_to="b", sigma=1), "sensor 'e': relative_to: only with body"),
        (lambda: Encoder("e", of="a", unit="deg", sigma=1), "sensor 'e': unit: expected 'rad' or 'm'; found 'deg'"),
        (lambda: Encoder("e", body="a", unit="m", sigma=1), "sensor 'e': unit: expected 'rad' for the angle of a body"),
        (lambda: Encoder("e", body="a", gain=2.0, sigma=1), "sensor 'e': gain: only for an encoder of a coordinate"),
        (lambda: Position("p", sigma=1), "sensor 'p': point: expected a point, or else a body; found none"),
        (
            lambda: Position("p", point="a", body="b", sigma=1),
            "sensor 'p': point: expected a point, or else a body; found both",
        ),
        (lambda: Position("p", point="a", at=(1, 2), sigma=1), "sensor 'p': at: only with body; found at=(1, 2)"),
        (
            lambda: Position("p", body="a", at=(1, 2, 3, 4), sigma=1),
            "sensor 'p': at: expected (x, y), in space (x, y, z), in the frame of the body",
        ),
        (lambda: Position("p", point="a", unit="px", sigma=1), "sensor 'p': gain: expected the scale in px/m"),
        (lambda: Position("p", point="a", unit="mm", sigma=1), "sensor 'p': unit: expected 'm' or 'px'; found 'mm'"),
        (
            lambda: Position("p", point="a", axes=("x", "-x"), sigma=1),
            "sensor 'p': axes: expected different ones of 'x', 'y' and 'z'",
        ),
        (
            lambda: Position("p", point="a", axes=("x", "w"), sigma=1),
            "sensor 'p': axes: expected different ones of 'x', 'y' and 'z'",
        ),
        (
            lambda: Distance("d", between=("a", "a"), sigma=1),
            "sensor 'd': between: expected two different points; found",
        ),
        (
            lambda: Velocity("v", of="a", point="b", sigma=1),
            "sensor 'v': of: expected a coordinate, or else a point or body",
        ),
        (lambda: Velocity("v", point="b", unit="rad/s", sigma=1), "sensor 'v': unit: expected 'm/s'; found 'rad/s'"),
        (lambda: Velocity("v", sigma=1), "sensor 'v': point: expected a point, or else a body; found none"),
    ],
)
def test_arguments_that_cannot_be_meant(build, text):
    with pytest.raises(ArgumentError) as error:
        build()
    assert str(error.value).startswith(text)


def test_numbers_of_a_sensor_are_traced_and_batched():
    """One program for many noises, biases and levers."""

    def reading(sigma, bias):
        sensor = board(sigma=sigma, bias=Unknown(bias, sigma=sigma))
        return sensor.noise_sigma(), sensor.predict(turntable(), ANYTHING)

    noise, value = jax.vmap(reading)(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    np.testing.assert_array_equal(noise, [[1, 1], [2, 2]])
    np.testing.assert_array_equal(value, [[3, 3], [4, 4]])
