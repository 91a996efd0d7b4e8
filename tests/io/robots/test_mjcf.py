"""MJCF files against MuJoCo itself and against URDF files of the same robots."""

import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import DescriptionError
from fgmbs.io.robots.closures import with_closures
from fgmbs.io.robots.mjcf import read_mjcf
from fgmbs.io.robots.urdf import read_urdf
from fgmbs.mechanisms.tree.robot import robot

mujoco = pytest.importorskip("mujoco")

ARM = """<mujoco model="arm"><option gravity="0 1 -9"/><worldbody>
  <body name="a" pos="0 0 1" euler="0 20 0">
    <joint name="h" type="hinge" axis="0 0 1" pos=".1 0.2 0" damping="0.3" armature="0.05"
      range="-40 60" limited="true"/>
    <joint name="s" type="slide" axis="0 1 1" frictionloss="0.7" stiffness="3" springref="0.1"/>
    <geom type="capsule" size=".02 .2"/>
    <body name="fixed" pos="0 0 .2"><geom type="box" size=".1 .05 .02" rgba="1 0 0 1"/>
      <body name="b" pos=".3 0 0" euler="10 0 40"><joint name="ball" type="ball" pos="0 .1 0"/>
        <geom type="box" size=".1 .1 .2" pos="0 0.03 0"/>
        <body name="c" pos="0 0 .2"><joint type="hinge" axis="1 1 0" pos="0 0 0.1"/>
          <geom type="sphere" size=".1"/></body>
      </body></body></body>
  <body name="d" pos="0 1 0" euler="0 0 30"><freejoint name="f"/>
    <geom type="cylinder" size=".1 .3" pos="0.1 0 0"/></body>
</worldbody>
<equality><weld name="wld" body1="b" body2="c"/>
  <connect name="con" body1="a" body2="c" anchor="0.1 0.2 0.3"/></equality>
<actuator><motor joint="h"/></actuator></mujoco>"""


@pytest.fixture
def arm(tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text(ARM)
    return file


@pytest.mark.parametrize("file", ["five_bar", "four_bar_crank_rocker"])
def test_a_loop_in_mjcf_is_the_loop_in_urdf_and_a_file_beside_it(data_dir, file):
    """A revolute joint across a planar loop, and `connect`, which leaves the same freedom there."""
    loops = data_dir / "robots" / "loops"
    ours = robot(read_mjcf(loops / f"{file}.xml"))
    theirs = robot(with_closures(read_urdf(loops / f"{file}.urdf"), loops / f"{file}_closure.json"))
    assert ours.joint_names == theirs.joint_names
    q = jnp.linspace(0.2, 0.5, len(ours.joint_names))
    np.testing.assert_allclose(ours.mass_matrix(q), theirs.mass_matrix(q), rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(ours.forces(q, q, 0.0), theirs.forces(q, q, 0.0), rtol=1e-12, atol=1e-14)
    names = {one.name: one for one in ours.description.closures}
    for one in theirs.description.closures:
        connect = names[one.name]
        assert (connect.kind, connect.link_a, connect.link_b) == ("connect", one.link_a, one.link_b)
        assert connect.pose_a.xyz == one.pose_a.xyz and connect.pose_b.xyz == one.pose_b.xyz


def test_bodies_are_where_mujoco_has_them(arm):
    """In any position; links that were moved to their joints by the frame of the file."""
    description = read_mjcf(arm)
    made = robot(description)
    moved = {frame.name for frame in description.frames}
    model = mujoco.MjModel.from_xml_path(str(arm))
    data = mujoco.MjData(model)
    random = np.random.default_rng(3)
    data.qpos[:] = random.normal(size=model.nq)
    mujoco.mj_normalizeQuat(model, data.qpos)
    q = jnp.array(data.qpos)
    # Of the free body, which MuJoCo has absolute and we count from where it is in the file.
    R, own = np.zeros(9), data.qpos[-4:].copy()
    mujoco.mju_quat2Mat(R, model.qpos0[-4:])
    data.qpos[-7:-4] = model.qpos0[-7:-4] + R.reshape(3, 3) @ data.qpos[-7:-4]
    mujoco.mju_mulQuat(data.qpos[-4:], model.qpos0[-4:], own)
    mujoco.mj_kinematics(model, data)
    for name in ("a", "fixed", "b", "c", "d"):
        frame = f"{name}_frame" if f"{name}_frame" in moved else name
        R, p = made.body_frame(frame, q, 0.0)
        np.testing.assert_allclose(p, data.body(name).xpos, atol=1e-13)
        np.testing.assert_allclose(R, data.body(name).xmat.reshape(3, 3), atol=1e-13)


def test_mass_matrix_and_forces_are_those_of_mujoco(arm, tmp_path):
    """Without the free body, whose velocities MuJoCo takes along the axes of the ground, and without closures."""
    start, end = ARM.index('  <body name="d"'), ARM.index("</worldbody>")
    text = ARM[:start] + ARM[end : ARM.index("<equality>")] + ARM[ARM.index("<actuator>") :]
    file = tmp_path / "tree.xml"
    file.write_text(text.replace('frictionloss="0.7"', ""))
    made = robot(read_mjcf(file))
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    random = np.random.default_rng(4)
    data.qpos[:], data.qvel[:] = random.normal(size=model.nq) * 0.5, random.normal(size=model.nv)
    mujoco.mj_normalizeQuat(model, data.qpos)
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    np.testing.assert_allclose(made.mass_matrix(jnp.array(data.qpos)), M, rtol=1e-12, atol=1e-13)
    Q = made.forces(jnp.array(data.qpos), jnp.array(data.qvel), 0.0)
    np.testing.assert_allclose(Q, data.qfrc_passive - data.qfrc_bias, rtol=1e-11, atol=1e-12)


def test_what_a_joint_says(arm):
    description = read_mjcf(arm)
    joints = {joint.name: joint for joint in description.joints}
    assert (joints["h"].parent, joints["h"].child, joints["s"].child) == ("world", "a_h", "a")
    assert (joints["h"].damping, joints["h"].rotor_inertia) == (0.3, 0.05)
    assert joints["h"].lower == pytest.approx(np.radians(-40)) and joints["s"].upper == np.inf
    assert (joints["s"].friction, joints["s"].stiffness, joints["s"].spring_reference) == (0.7, 3.0, 0.1)
    assert joints["h"].actuated and not joints["s"].actuated and not joints["f"].actuated
    assert (joints["ball"].kind, joints["f"].kind, joints["fixed_fixed"].kind) == ("spherical", "floating", "fixed")
    assert description.gravity == (0.0, 1.0, -9.0) and description.name == "arm"
    assert [one.kind for one in description.closures] == ["fixed", "connect"]
    box = next(link for link in description.links if link.name == "fixed").shapes[0]
    assert (box.kind, box.size, box.color) == ("box", (0.2, 0.1, 0.04), "#ff0000")


def test_closures_hold_in_the_reference_position(arm):
    made = robot(read_mjcf(arm))
    assert float(jnp.max(jnp.abs(made.constraints(made.reference, 0.0)))) < 1e-12


def test_a_joint_that_follows_another(tmp_path):
    file = tmp_path / "gripper.xml"
    file.write_text("""<mujoco><worldbody><body name="p"><joint name="x" type="slide"/><geom size=".1"/></body>
      <body name="o"><joint name="y" type="slide"/><geom size=".1"/></body></worldbody>
      <equality><joint joint1="y" joint2="x" polycoef="0.1 -2 0 0 0"/></equality></mujoco>""")
    mimic = read_mjcf(file).joints[1].mimic
    assert (mimic.joint, mimic.multiplier, mimic.offset) == ("x", -2.0, 0.1)


def test_missing_meshes_are_no_error(tmp_path):
    file = tmp_path / "mesh.xml"
    file.write_text("""<mujoco><asset><mesh name="skin" file="gone.stl"/></asset><worldbody><body name="p">
      <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><joint name="x"/><geom type="mesh" mesh="skin"/></body>
      </worldbody></mujoco>""")
    description = read_mjcf(file)
    assert description.links[1].mass == 1.0
    assert description.notes == ("meshes whose files are missing are not drawn: skin",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<robot/>", "bad.xml:1: <robot>: expected <mujoco>"),
        ("<mujoco><worldbody><body/></mujoco>", "bad.xml:1:29: expected XML; found an error: mismatched tag"),
        ("<mujoco><worldbody><bodi/></worldbody></mujoco>", "expected MJCF that MuJoCo compiles; found: XML Error"),
        ('<!DOCTYPE m [<!ENTITY a "b">]><mujoco/>', "bad.xml:1: expected no document type"),
        (
            '<mujoco><worldbody><body name="p"><joint name="x"/><geom size=".1"/></body></worldbody>'
            '<equality><joint name="e" joint1="x"/></equality></mujoco>',
            "equality 'e': expected connect, weld, or joint with a straight line between two joints; found joint",
        ),
    ],
)
def test_what_is_no_robot(tmp_path, text, message):
    file = tmp_path / "bad.xml"
    file.write_text(text)
    with pytest.raises(DescriptionError) as error:
        read_mjcf(file)
    assert message in str(error.value)
