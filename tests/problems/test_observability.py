"""What sensors see of a motion, in numbers and in words."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import LabelledPendulum, rigid_body, spherical_pendulum
from scipy.integrate import solve_ivp

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.problems.observability import candidate_sensors
from fgmbs.sensors import Encoder, Gyroscope, Position
from fgmbs.unknowns import Unknown


@pytest.fixture(scope="module")
def flat(configs):
    """A four-bar that lies on a table: nothing tells where it is but what looks at it."""
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml").with_parameters({"gravity.y": 0.0})


@pytest.fixture(scope="module")
def turning(flat):
    """A pendulum that turns evenly, without weight."""
    return fgmbs.simulate(flat, 0.5, 0.01, start_velocities={flat.coordinate_names[1]: 2.0})


@pytest.fixture(scope="module")
def seen(flat, turning):
    body = flat.body_names[0]
    gyro = Gyroscope("gyro", body=body, sigma=0.01, bias=Unknown(0.0, sigma=0.1))
    return fgmbs.observability(flat, turning, [gyro], [Disturbance(1e-4)])


def test_a_gyroscope_sees_no_angle_without_gravity(flat, seen):
    for name in flat.coordinate_names:
        assert name in seen.unseen
    assert "no sensor" in seen.report()


def test_an_unknown_bias_is_not_told_from_an_unknown_speed(seen):
    assert seen.unknowns["gyro.bias"] > 0.5
    assert "gyro.bias cannot be told from this motion" in seen.report()


def test_an_encoder_or_a_camera_would_help_most(flat, seen):
    order = [one.name for one in seen.candidates]
    assert order[0].startswith(("position of", "angle of"))
    assert seen.candidates[0].information > seen.candidates[-1].information
    assert order[0] in seen.report()


def test_information_is_that_of_the_covariance(flat, turning, seen):
    """Adding the candidate for good makes of the bands what its factor promised."""
    body = flat.body_names[0]
    candidate = next(one for one in seen.candidates if one.name == f"angle of {body}")
    gyro = Gyroscope("gyro", body=body, sigma=0.01, bias=Unknown(0.0, sigma=0.1))
    added = Encoder(f"angle of {body}", body=body, sigma=1e-3)
    both = fgmbs.observability(flat, turning, [gyro, added], [Disturbance(1e-4)], candidates=[])
    column = seen.names.index(candidate.variable)
    assert np.median(seen.std[:, column] / both.std[:, column]) == pytest.approx(candidate.factor, rel=1e-6)
    assert not [name for name in both.unseen if not name.startswith("d_")]


@pytest.fixture(scope="module")
def thrown():
    """A body that spins about all its axes in free fall, by SciPy."""
    body = rigid_body()

    @jax.jit
    def rates(t, x):
        q, dq = x[:7], x[7:]
        return jnp.concatenate([body.coordinate_rates(q) @ dq, body.accelerations(q, dq, t)[0]])

    t = np.arange(41) * 0.02
    start = np.concatenate([body.reference, [1.0, 0.0, 3.0, 1.0, 4.0, -2.0]])
    x = solve_ivp(rates, (0, t[-1]), start, "DOP853", t, rtol=1e-10, atol=1e-12).y.T
    return types.SimpleNamespace(mechanism=body, t=t, q=x[:, :7], dq=x[:, 7:])


@pytest.mark.slow
@pytest.mark.parametrize("at, blind", [(None, {"e0", "e1", "e2", "e3"}), ((0.2, 0.0, 0.0), set())])
def test_a_camera_on_its_centre_sees_no_attitude_of_a_free_body(thrown, at, blind):
    """A gyroscope tells how it turns, but not from where; a camera on a point beside the centre sees that too."""
    space = ("x", "y", "z")
    sensors = [
        Position("camera", body="body", at=at, axes=space, sigma=1e-3),
        Gyroscope("gyro", body="body", axes=space, sigma=0.01),
    ]
    seen = fgmbs.observability(thrown.mechanism, thrown, sensors, [Disturbance(1e-4)], candidates=[])
    assert seen.names == (*thrown.mechanism.coordinate_names, *thrown.mechanism.velocity_names)
    assert seen.std.shape == seen.blind_std.shape == (41, 13)
    assert set(seen.unseen) == blind


def test_candidates_are_those_that_a_family_has_a_place_for(flat, thrown):
    def names(mechanism):
        sensors = candidate_sensors(mechanism, 1.0)
        for sensor in sensors:
            sensor.check(mechanism)
        return [sensor.name for sensor in sensors]

    assert names(flat) == ["angle of rod", "gyroscope on rod", "position of tip"]
    assert names(thrown.mechanism) == ["position of body body", "gyroscope on body"]
    plain = spherical_pendulum()
    coordinates = [f"encoder of {name}" for name in plain.coordinate_names]
    assert names(plain) == coordinates + [f"speed of {name}" for name in plain.velocity_names]
    labelled = LabelledPendulum(plain.body, plain.arm)
    assert names(labelled) == ["position of body body", "gyroscope on body", "position of centre"]
    assert candidate_sensors(labelled, 1.0)[-1].axes == ("x", "y", "z")
