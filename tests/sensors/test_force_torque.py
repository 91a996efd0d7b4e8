"""What a force–torque sensor tells of the load behind it."""

import numpy as np
import pytest
from families import rigid_body

import fgmbs
from fgmbs import robots
from fgmbs.errors import ArgumentError
from fgmbs.sensors import Encoder, ForceTorque
from fgmbs.unknowns import Unknown

MASS, CENTRE = 1.3, -0.3


@pytest.fixture(scope="module")
def arm():
    """Two links whose joints turn freely, about different axes."""
    inertia = (0.03, 0.03, 0.001)
    return robots.robot(
        robots.link("ground"),
        robots.link("upper", 2.0, (0, 0, -0.2), inertia),
        robots.link("load", MASS, (0, 0, CENTRE), inertia),
        robots.revolute("shoulder", "ground", "upper", (0, 1, 0)),
        robots.revolute("elbow", "upper", "load", (1, 0, 0.3), xyz=(0, 0, -0.4)),
    )


@pytest.mark.slow
def test_mass_and_centre_of_a_load(arm):
    """No torque is known and no force acts: the wrench through the elbow has the scale of the mass."""
    motion = fgmbs.simulate(arm, 1.5, 5e-3, start={"shoulder": 0.6, "elbow": -0.9})
    encoders = [Encoder(name, of=name, sigma=1e-3) for name in ("shoulder", "elbow")]
    cell = ForceTorque("cell", joint="elbow", sigma=(0.2, 0.2, 0.2, 0.02, 0.02, 0.02))
    recording = fgmbs.readings(arm, motion, [*encoders, cell], seed=1)
    assert "cell.force.x" in recording and "cell.torque.z" in recording
    sought = {"load.mass": Unknown(1.0, sigma=1.0, log=True), "load.center.z": Unknown(-0.2, sigma=0.3)}
    result = fgmbs.smooth(arm.with_parameters(sought), recording, [*encoders, cell], [fgmbs.inputs.Disturbance(1e-6)])
    assert result.status == fgmbs.Status.converged
    for name, exact in (("load.mass", MASS), ("load.center.z", CENTRE)):
        found, std = float(result.unknowns[name]), float(result.unknowns_std[name])
        assert abs(found - exact) < 4 * std < 0.02 * abs(exact) * 4


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"force": (), "torque": ()}, "force: expected axes of forces or of torques; found none of both"),
        ({"torque": ("x", "x")}, "torque: expected different ones of 'x', 'y' and 'z'"),
        ({"columns": ["a", "b"]}, "columns: expected 6 names"),
        ({"misalignment": 0.1}, "misalignment: only for sensors of two axes or three; this one has 6 rows"),
    ],
)
def test_what_a_force_torque_sensor_needs(change, text):
    with pytest.raises(ArgumentError) as error:
        ForceTorque("s", **(dict(joint="elbow", sigma=1) | change))
    assert text in str(error.value)


def test_a_frame_that_is_not_there(arm):
    with pytest.raises(ArgumentError, match="sensor 's': body: there is no body 'lod'.*load"):
        ForceTorque("s", joint="elbow", frame="lod", sigma=1).check(arm)


def test_a_mechanism_without_such_joints():
    with pytest.raises(
        ArgumentError, match="sensor 's': joint: expected a mechanism of joints in space; found RigidBody"
    ):
        ForceTorque("s", joint="elbow", sigma=1).check(rigid_body())


def test_the_wrench_through_a_joint_at_rest(arm):
    """Weight, and its moment about the elbow."""
    motion = fgmbs.simulate(arm, 0.01, 5e-3)
    cell = ForceTorque("cell", joint="elbow", sigma=1)
    clean = fgmbs.readings(arm, motion, [cell])
    np.testing.assert_allclose(clean["cell.force.z"].values, MASS * 9.81, rtol=1e-9)
    np.testing.assert_allclose(clean["cell.torque.x"].values, 0, atol=1e-9)
