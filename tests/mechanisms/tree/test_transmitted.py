"""Wrenches in joints are those of Pinocchio; in loops that move freely none turns a joint about its axis."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.errors import ArgumentError
from fgmbs.sensors import ForceTorque, Reading


@pytest.mark.parametrize(
    ("name", "floating", "tolerance"),
    [
        ("panda/panda.urdf", False, 1e-12),
        ("puma560/puma560.urdf", False, 1e-12),
        ("anymal_b/anymal_b.urdf", True, 1e-11),
    ],
)
def test_wrenches_of_all_joints(beside_pinocchio, name, floating, tolerance):
    pin = pytest.importorskip("pinocchio")
    pair = beside_pinocchio(name, floating)
    pin.rnea(pair.model, pair.data, pair.q_pin, pair.G @ pair.dq, pair.G @ pair.ddq)
    state = jnp.asarray(pair.q), jnp.asarray(pair.dq), jnp.asarray(pair.ddq)
    reading = Reading(*state, jnp.zeros(0), {}, jnp.asarray(0.0))
    found, expected = [], []
    for joint, kind in zip(pair.robot.topology.joints, pair.robot.topology.kinds, strict=True):
        there = pair.model.getJointId("root_joint" if kind == "floating" else joint)
        expected.append(np.concatenate([pair.data.f[there].linear, pair.data.f[there].angular]))
        found.append(np.asarray(ForceTorque("s", joint=joint, sigma=1).predict(pair.robot, reading)))
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())


def test_a_wrench_in_another_frame(beside_pinocchio):
    """About the origin, and along the axes, of the flange; some rows of it, the other way round."""
    pin = pytest.importorskip("pinocchio")
    pair = beside_pinocchio("panda/panda.urdf")
    pin.rnea(pair.model, pair.data, pair.q_pin, pair.G @ pair.dq, pair.G @ pair.ddq)
    joint, frame = pair.model.getJointId("panda_joint5"), pair.model.getFrameId("panda_link8")
    pin.framesForwardKinematics(pair.model, pair.data, pair.q_pin)
    moved = pair.data.oMf[frame].inverse() * pair.data.oMi[joint]
    expected = moved * pair.data.f[joint]
    state = jnp.asarray(pair.q), jnp.asarray(pair.dq), jnp.asarray(pair.ddq)
    reading = Reading(*state, jnp.zeros(0), {}, jnp.asarray(0.0))
    rows = dict(force=("z", "-x"), torque=("y",), gain=-1.0)
    sensor = ForceTorque("s", joint="panda_joint5", frame="panda_link8", sigma=1, **rows)
    sensor.check(pair.robot)
    assert sensor.columns == ("s.force.z", "s.force.x", "s.torque.y") and sensor.units == ("N", "N", "N m")
    (x, _, z), (_, n, _) = expected.linear, expected.angular
    np.testing.assert_allclose(sensor.predict(pair.robot, reading), [-z, x, -n], rtol=1e-11)


@pytest.mark.parametrize(
    "name", ["bennett", *(pytest.param(name, marks=pytest.mark.slow) for name in ("five_bar", "four_bar_crank_rocker"))]
)
def test_nothing_turns_a_free_joint_of_a_loop(robots, name):
    """In a loop that moves freely the torque about the axis of every joint is 0, whatever closures transmit."""
    robot = fgmbs.load(robots / "loops" / f"{name}.urdf").evaluated()
    q = fgmbs.assemble(robot)
    null = np.linalg.svd(np.asarray(robot.constraint_jacobian(q, 0.0)))[2][-robot.dof :]
    dq = jnp.asarray(np.random.default_rng(1).standard_normal(robot.dof) @ null)
    ddq, lambda_ = fgmbs.acceleration(robot, q, dq, 0.0)
    none = jnp.zeros_like(lambda_)
    for joint in robot.description.joints:
        if joint.kind == "fixed":
            continue
        about = []
        for given in (lambda_, none):
            wrench = robot.joint_wrench(joint.name, q, dq, ddq, given, 0.0)
            size = np.linalg.norm(wrench.force)
            about.append(float(np.asarray(joint.axis) @ np.asarray(wrench.axes.T @ wrench.moment)))
        assert abs(about[0]) < 1e-9 * size
        assert abs(about[1]) > 1e-3 * size  # not for nothing


def test_a_joint_that_is_fixed_or_not_there_is_named(robots):
    robot = fgmbs.load(robots / "panda" / "panda.urdf")
    told = r"found 'panda_joint8', which is fixed; load the robot with separate=\['panda_joint8'\]"
    with pytest.raises(ArgumentError, match=told):
        ForceTorque("s", joint="panda_joint8", sigma=1).check(robot)
    with pytest.raises(ArgumentError, match="joint: there is no joint 'panda_joint9'.*panda_joint"):
        ForceTorque("s", joint="panda_joint9", sigma=1).check(robot)
