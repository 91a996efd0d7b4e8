"""What sensors see of a motion, in numbers and in words."""

import numpy as np
import pytest

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.sensors import Encoder, Gyroscope, Unknown


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
    assert seen.calibration["gyro.bias"] > 0.5
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
