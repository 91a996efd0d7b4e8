"""Fixed joints whose links stay bodies of their own: nothing moves otherwise, and what they transmit is right."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import robots as made
from fgmbs.errors import ArgumentError, DescriptionError
from fgmbs.io.robots.stored import parse_robot, to_robot_yaml
from fgmbs.mechanisms.tree.lagrangian.recursion import of_robot
from fgmbs.mechanisms.tree.redescribed import redescribed
from fgmbs.sensors import Encoder, ForceTorque, Reading
from fgmbs.unknowns import Unknown

LOOSE = 0.7, -0.4
"""Angles of the arm [rad]."""


def fixed_of(robot):
    return [joint.name for joint in robot.description.joints if joint.kind == "fixed"]


@pytest.mark.parametrize(
    ("name", "floating"),
    [("panda/panda.urdf", False), ("anymal_b/anymal_b.urdf", True), ("loops/five_bar.urdf", False)],
)
@pytest.mark.filterwarnings("ignore:.*inertia")
def test_nothing_moves_otherwise(robots, name, floating):
    one = fgmbs.load(robots / name, floating=floating)
    other = fgmbs.load(robots / name, floating=floating, separate=fixed_of(one))
    if name != "loops/five_bar.urdf":
        assert other.topology.count == one.topology.count + len(fixed_of(one)) > one.topology.count
    for key in ("coordinate_names", "velocity_names", "actuator_names", "frame_names", "fixed_points", "vectors"):
        assert getattr(one, key) == getattr(other, key)
    rng = np.random.default_rng(1)
    dq, ddq, tau, away = (jnp.asarray(rng.standard_normal(one.nv)) for _ in range(4))
    q = one.retract(one.reference, away)
    tree = fgmbs.tree
    for what in (
        lambda robot: tree.mass_matrix(robot, q),
        lambda robot: tree.inverse_dynamics(robot, q, dq, ddq),
        lambda robot: jnp.stack(tree.inverse_dynamics_jacobians(robot, q, dq, ddq)),
        lambda robot: robot.accelerations(q, dq, jnp.zeros(()), tau)[0],
        lambda robot: robot.constraint_bias(q, dq, jnp.zeros(())),
        lambda robot: robot.potential(q),
        lambda robot: robot.point_positions(q),
        lambda robot: robot.retract(q, dq),
    ):
        expected = np.asarray(what(one))
        np.testing.assert_allclose(what(other), expected, atol=1e-12 * np.abs(expected).max(initial=1e-300))


def test_what_a_fixed_joint_transmits_is_that_of_a_joint_that_stands(beside_pinocchio, robots, tmp_path):
    """Of Pinocchio, to which the joint of the hand is one that could turn."""
    pin = pytest.importorskip("pinocchio")
    pair = beside_pinocchio("panda/panda.urdf")
    text = (robots / "panda" / "panda.urdf").read_text()
    turning = (
        '<joint name="panda_hand_joint" type="revolute"><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" '
    )
    text, count = re.subn('<joint name="panda_hand_joint" type="fixed">', turning + 'velocity="1"/>', text)
    assert count == 1
    (tmp_path / "hand.urdf").write_text(text)
    model = pin.buildModelFromUrdf(str(tmp_path / "hand.urdf"))
    q, dq, ddq = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
    for name in list(pair.model.names)[1:]:
        there, here = model.joints[model.getJointId(name)], pair.model.joints[pair.model.getJointId(name)]
        q[there.idx_q : there.idx_q + there.nq] = pair.q_pin[here.idx_q : here.idx_q + here.nq]
        for new, old in ((dq, pair.G @ pair.dq), (ddq, pair.G @ pair.ddq)):
            new[there.idx_v] = old[here.idx_v]
    data = model.createData()
    pin.rnea(model, data, q, dq, ddq)
    wrench = data.f[model.getJointId("panda_hand_joint")]
    expected = np.concatenate([wrench.linear, wrench.angular])
    robot = fgmbs.load(robots / "panda" / "panda.urdf", separate=["panda_hand_joint"])
    state = (jnp.asarray(x) for x in (pair.q, pair.dq, pair.ddq))
    reading = Reading(*state, jnp.zeros(0), {}, jnp.asarray(0.0))
    sensor = ForceTorque("s", joint="panda_hand_joint", sigma=1)
    sensor.check(robot)
    np.testing.assert_allclose(sensor.predict(robot, reading), expected, atol=1e-12 * np.abs(expected).max())


def arm(separate=True, tool=(0.4, 0.1), plate=False):
    """Two links, a flange that holds a tool of a mass and a centre, on a plate that may be separate, too."""
    inertia = (0.03, 0.03, 0.001)
    mass, centre = tool
    return made.robot(
        made.link("ground"),
        made.link("plate", 5.0, (0.0, 0.0, -0.02), inertia),
        made.link("upper", 2.0, (0, 0, -0.2), inertia),
        made.link("fore", 1.0, (0, 0, -0.2), inertia),
        made.link("tool", mass, (0, 0, centre), (0.002, 0.002, 0.001)),
        made.fixed("floor", "ground", "plate", separate=plate),
        made.revolute("shoulder", "plate", "upper", (0, 1, 0)),
        made.revolute("elbow", "upper", "fore", (0, 1, 0), xyz=(0, 0, -0.4)),
        made.fixed("flange", "fore", "tool", xyz=(0, 0, -0.4), rpy=(0, np.pi, 0), separate=separate),
    )


def test_a_plate_under_a_robot_that_moves_reads_its_weight_and_what_it_does():
    robot = arm(plate=True)
    assert robot.fixed_points == arm(separate=False).fixed_points
    motion = fgmbs.simulate(robot, 0.4, 2e-3, start=dict(zip(("shoulder", "elbow"), LOOSE, strict=True)))
    cell = ForceTorque("cell", joint="floor", sigma=1)
    read = fgmbs.readings(robot, motion, [cell])
    masses = {"plate": 5.0, "upper": 2.0, "fore": 1.0, "tool": 0.4}

    def centre(q):  # of mass, of all together
        parts = []
        for name, mass in masses.items():
            R, p = robot.body_frame(name, q, 0.0)
            k = robot.topology.links.index(name)
            parts.append(mass * (p + R @ robot.parameters.centres[k]))
        return sum(parts) / sum(masses.values())

    places = np.asarray(jax.vmap(centre)(motion.q))
    acceleration = np.gradient(np.gradient(places, 2e-3, axis=0, edge_order=2), 2e-3, axis=0, edge_order=2)
    expected = sum(masses.values()) * (acceleration + np.array([0, 0, 9.81]))
    for k, axis in enumerate("xyz"):
        np.testing.assert_allclose(read[f"cell.force.{axis}"].values[4:-4], expected[4:-4, k], atol=2e-2)
    assert np.ptp(expected[:, 2]) > 10  # it does not stand


def test_numbers_of_the_tool_are_its_own():
    robot = arm()
    assert {"tool.mass", "tool.center.z", "tool.inertia.xx"} <= set(robot.physical_parameters())
    assert "tool.mass" not in arm(separate=False).physical_parameters()
    q, zero = jnp.asarray(LOOSE), jnp.zeros(2)
    for changed in ((0.8, 0.1), (0.4, -0.05)):
        mass, centre = changed
        again = robot.with_parameters({"tool.mass": mass, "tool.center.z": centre})
        expected = fgmbs.tree.inverse_dynamics(arm(separate=False, tool=changed), q, zero, zero)
        np.testing.assert_allclose(fgmbs.tree.inverse_dynamics(again, q, zero, zero), expected, rtol=1e-12)
    assert len(fgmbs.tree.base_parameters(robot).texts()) == len(
        fgmbs.tree.base_parameters(arm(separate=False)).texts()
    )


def test_it_is_written_back(tmp_path):
    robot = arm(plate=True).with_parameters({"tool.mass": 0.7})
    again = made_of(robot, tmp_path)
    assert again.topology == robot.topology
    for key, value in robot.physical_parameters().items():
        np.testing.assert_allclose(again.physical_parameters()[key], value, atol=1e-15)


def made_of(robot, folder):
    file = folder / "robot.yaml"
    file.write_text(to_robot_yaml(redescribed(robot)))
    assert any(joint.separate for joint in parse_robot(file.read_text(), "robot.yaml").joints)
    return fgmbs.load(file)


@pytest.mark.slow
def test_a_tool_is_weighed_by_a_sensor_at_the_flange():
    robot = arm()
    motion = fgmbs.simulate(robot, 1.0, 5e-3, start=dict(zip(("shoulder", "elbow"), LOOSE, strict=True)))
    encoders = [Encoder(name, of=name, sigma=1e-3) for name in ("shoulder", "elbow")]
    cell = ForceTorque("cell", joint="flange", sigma=(0.05, 0.05, 0.05, 0.005, 0.005, 0.005))
    recording = fgmbs.readings(robot, motion, [*encoders, cell], seed=1)
    free = {"tool.mass": (0.05, 3.0), "tool.center.z": Unknown(0.0, sigma=0.3)}
    lighter = robot.with_parameters({"tool.mass": 0.2})
    fit = fgmbs.identify(lighter, recording, [*encoders, cell], [fgmbs.inputs.Disturbance(1e-6)], free=free)
    for name, value in (("tool.mass", 0.4), ("tool.center.z", 0.1)):
        assert abs(fit.parameters[name] - value) < 4 * fit.std[name] < 0.05 * value
    assert fit.mechanism.physical_parameters()["tool.mass"] == pytest.approx(fit.parameters["tool.mass"])


def test_what_cannot_be_separate_is_refused(robots, configs):
    file = robots / "panda" / "panda.urdf"
    for given, text in (
        (["panda_joint1"], "separate: expected names of fixed joints; found 'panda_joint1', which is revolute"),
        (["panda_joint9"], "separate: there is no joint 'panda_joint9'"),
        ("panda_joint8", "separate: expected names of fixed joints in a list; found str 'panda_joint8'"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(text)):
            fgmbs.load(file, separate=given)
    with pytest.raises(ArgumentError, match="separate: expected none, because .* is no file of a robot"):
        fgmbs.load(configs / "mechanisms" / "fourbar.yaml", separate=["a"])
    whole = arm().description
    turning = tuple(dataclasses.replace(joint, separate=True) for joint in whole.joints)
    with pytest.raises(
        DescriptionError, match="'elbow'.separate: expected of fixed joints only; found one that is rev"
    ):
        fgmbs.robot(dataclasses.replace(whole, joints=turning))


def test_a_second_formulation_takes_none():
    with pytest.raises(ArgumentError, match="expected joints of one degree of freedom; found 'flange', fixed"):
        of_robot(arm())
