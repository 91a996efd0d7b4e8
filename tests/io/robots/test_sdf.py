"""SDF files against URDF files of the same robots, and against poses worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import DescriptionError
from fgmbs.io.robots.sdf import parse_sdf, read_sdf
from fgmbs.io.robots.urdf import read_urdf
from fgmbs.mechanisms.tree.description import Joint, Link, Mimic, RobotDescription
from fgmbs.mechanisms.tree.loops import close_loops
from fgmbs.mechanisms.tree.poses import compose
from fgmbs.mechanisms.tree.robot import robot


@pytest.fixture(scope="module")
def gtdynamics(data_dir):
    return data_dir / "robots" / "gtdynamics"


TWO_LINKS = """<sdf version="1.9"><model name="m">
  <link name="base"><inertial><mass>2</mass></inertial></link>
  <link name="arm"><pose relative_to="base">1 0 0 0 0 0</pose></link>
  {more}
</model></sdf>"""


def two_links(more):
    return parse_sdf(TWO_LINKS.format(more=more), "robot.sdf")


def joint_text(inside="", kind="revolute", axis="<axis><xyz>0 1 0</xyz></axis>"):
    return f'<joint name="j" type="{kind}"><parent>base</parent><child>arm</child>{axis}{inside}</joint>'


@pytest.mark.parametrize(
    ("file", "joints", "loops", "mass"),
    [
        ("four_bar_linkage_pure", 3, 1, 4.0),
        ("four_bar_linkage", 4, 1, 231.0),
        ("jumping_robot", 5, 1, 1.7201),
        ("simple_rr", 2, 0, 0.03),
        ("simple_rrr", 3, 0, 0.04),
        ("simple_rpr", 3, 0, 0.04),
        ("simple_screw_joint", 1, 0, 0.02),
        ("simple_joints", 1, 8, 0.02),
        ("simple", 0, 0, 1.0),
        ("spider", 32, 0, 165.0),
    ],
)
def test_files_of_gtdynamics(gtdynamics, file, joints, loops, mass):
    description = read_sdf(gtdynamics / f"{file}.sdf")
    assert len([joint for joint in description.joints if joint.kind != "fixed"]) == joints
    assert len(description.closures) == loops
    assert sum(link.mass for link in description.links) == pytest.approx(mass, rel=1e-12)


def in_zero_position(description):
    """Poses of links from those of their joints."""
    children = {joint.child for joint in description.joints}
    poses = {link.name: np.eye(4) for link in description.links if link.name not in children}
    while left := [joint for joint in description.joints if joint.child not in poses]:
        joint = next(joint for joint in left if joint.parent in poses)
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = joint.pose.rotation, joint.pose.xyz
        poses[joint.child] = poses[joint.parent] @ pose
    return poses


@pytest.mark.parametrize("file", ["four_bar_linkage_pure", "four_bar_linkage"])
def test_sdf_and_urdf_of_one_robot_agree(gtdynamics, file):
    """The angles in the files are rounded to five digits."""
    sdf = read_sdf(gtdynamics / f"{file}.sdf")
    urdf = read_urdf(gtdynamics / f"{file}.urdf")
    assert [joint.name for joint in sdf.joints] == [joint.name for joint in urdf.joints]
    assert [one.name for one in sdf.closures] == [one.name for one in urdf.closures]
    poses = [in_zero_position(description) for description in (sdf, urdf)]
    for name in poses[1]:
        np.testing.assert_allclose(poses[0][name], poses[1][name], atol=3e-5)
    for ours, theirs in zip(sdf.joints, urdf.joints, strict=True):
        np.testing.assert_allclose(ours.axis, theirs.axis, atol=1e-5)
        assert (ours.lower, ours.upper, ours.damping) == (theirs.lower, theirs.upper, theirs.damping)
    for ours, theirs in zip(sdf.closures, urdf.closures, strict=True):
        assert (ours.kind, {ours.link_a, ours.link_b}) == (theirs.kind, {theirs.link_a, theirs.link_b})
        places = {theirs.link_a: theirs.pose_a, theirs.link_b: theirs.pose_b}
        if file == "four_bar_linkage":
            continue  # the SDF has its j4 at the origin of l4, the URDF at that of l1
        for link, pose in ((ours.link_a, ours.pose_a), (ours.link_b, ours.pose_b)):
            np.testing.assert_allclose(pose.xyz, places[link].xyz, atol=3e-5)
    q = jnp.linspace(0.1, 0.4, len(sdf.joints))
    M = [np.asarray(robot(description).mass_matrix(q)) for description in (sdf, urdf)]
    np.testing.assert_allclose(M[0], M[1], atol=2e-4 * np.abs(M[1]).max())


def test_masses_and_centres_of_the_jumping_robot_are_those_of_its_urdf(gtdynamics):
    """Its links l4, l5 and its moments of inertia across the plane differ between the two files."""
    sdf, urdf = read_sdf(gtdynamics / "jumping_robot.sdf"), read_urdf(gtdynamics / "jumping_robot.urdf")
    for ours, theirs in zip(sdf.links[1:], urdf.links[1:], strict=True):
        assert (ours.name, ours.mass) == (theirs.name, theirs.mass)
        assert ours.center == theirs.center and ours.inertia[0][0] == theirs.inertia[0][0]


def test_joints_are_placed_by_the_frame_they_name(gtdynamics):
    """Both links are turned by 90°; positions worked out by hand."""
    description = read_sdf(gtdynamics / "simple_joints.sdf")
    links = in_zero_position(description)
    at = {}
    for one in description.closures:
        pose = links[one.link_a] @ np.array([*one.pose_a.xyz, 1.0])
        other = links[one.link_b] @ np.array([*one.pose_b.xyz, 1.0])
        np.testing.assert_allclose(pose, other, atol=1e-10)
        a, b = (
            links[link][:3, :3] @ np.array(frame.rotation) @ one.axis
            for link, frame in ((one.link_a, one.pose_a), (one.link_b, one.pose_b))
        )
        np.testing.assert_allclose(a, b, atol=1e-10)
        at[one.name] = pose[:3], a
    first = description.joints[-1]
    np.testing.assert_allclose(links[first.child][:3, 3], [0, 0, 1], atol=1e-10)
    np.testing.assert_allclose(at["joint_childframe"], ([1, 1, 0], [0, 0, -1]), atol=1e-10)
    np.testing.assert_allclose(at["joint_defaultframe"], at["joint_childframe"], atol=1e-12)
    np.testing.assert_allclose(at["joint_parentframe"], ([1, -1, 0], [1, 0, 0]), atol=1e-10)
    np.testing.assert_allclose(at["joint_childframe_axisparent"], ([1, 1, 0], [1, 0, 0]), atol=1e-10)
    np.testing.assert_allclose(at["joint_worldframe_axisparent"], ([0, 0, 1], [1, 0, 0]), atol=1e-10)


def test_the_screw_of_gtdynamics_advances_half_a_metre_per_turn(gtdynamics):
    description = read_sdf(gtdynamics / "simple_screw_joint.sdf")
    assert description.joints[0].pitch == pytest.approx(0.5 / (2 * np.pi), rel=1e-15)
    assert any("0.5 m per turn" in note for note in description.notes)


@pytest.mark.parametrize(
    "pitch", ["<screw_thread_pitch>0.5</screw_thread_pitch>", "<thread_pitch>-12.566370614359172</thread_pitch>"]
)
def test_both_pitches_of_version_1_10_mean_the_same(pitch):
    text = TWO_LINKS.replace("1.9", "1.10").format(more=joint_text(pitch, "screw"))
    assert parse_sdf(text, "robot.sdf").joints[0].pitch == pytest.approx(0.5 / (2 * np.pi), rel=1e-14)


AWAY = """<sdf version="1.9"><model name="m"><link name="base"/>
      <link name="rod"><pose>1 0 0 0 0 0</pose>
        <inertial><pose>0.2 0 0 0 0 0</pose><mass>2</mass><inertia><ixx>1</ixx><iyy>1</iyy><izz>0.3</izz></inertia>
        </inertial></link>
      <joint name="j" type="revolute"><parent>base</parent><child>rod</child><pose>-0.5 0 0 0 0 0</pose>
        <axis><xyz>0 0 1</xyz></axis></joint></model></sdf>"""
"""A rod of 2 kg that turns about a point 0.5 m from the origin of its frame."""


def test_a_link_away_from_its_joint_moves_as_one_on_it():
    made = robot(parse_sdf(AWAY, "robot.sdf"))
    assert float(made.mass_matrix(jnp.zeros(1))[0, 0]) == pytest.approx(0.3 + 2 * 0.7**2, rel=1e-14)
    _, origin = made.body_frame("rod_frame", jnp.array([jnp.pi / 2]), 0.0)
    np.testing.assert_allclose(origin, [0.5, 0.5, 0.0], atol=1e-14)


def test_the_frame_of_such_a_link_is_there_beside_a_link_of_its_name():
    made = robot(parse_sdf(AWAY.replace("base", "rod_frame"), "robot.sdf"))
    _, origin = made.body_frame("rod_frame_", jnp.array([jnp.pi / 2]), 0.0)
    np.testing.assert_allclose(origin, [0.5, 0.5, 0.0], atol=1e-14)
    assert made.description.notes[-1].endswith("the file's is the frame 'rod_frame_'")


def test_names_and_frames_of_nested_models():
    text = """<sdf version="1.9"><world name="w"><gravity>0 0 -1.6</gravity><model name="outer"><pose>0 0 3 0 0 0</pose>
      <link name="base"/>
      <frame name="mount" attached_to="base"><pose>0 1 0 0 0 1.5707963267948966</pose></frame>
      <model name="gripper"><pose relative_to="mount">2 0 0 0 0 0</pose><link name="palm"/>
        <link name="finger"><pose>0 0 0.5 0 0 0</pose></link>
        <joint name="slide" type="prismatic"><parent>palm</parent><child>finger</child><axis><xyz>2 0 0</xyz></axis>
        </joint></model>
      <joint name="hold" type="fixed"><parent>mount</parent><child>gripper::palm</child></joint>
      <joint name="ground" type="fixed"><parent>world</parent><child>base</child></joint>
    </model></world></sdf>"""
    description = parse_sdf(text, "robot.sdf")
    poses = in_zero_position(description)
    np.testing.assert_allclose(poses["gripper::finger"][:3, 3], [0, 3, 3.5], atol=1e-14)
    slide = next(joint for joint in description.joints if joint.name == "gripper::slide")
    assert (slide.parent, slide.axis) == ("gripper::palm", (1.0, 0.0, 0.0))
    assert description.gravity == (0.0, 0.0, -1.6)
    assert any("axis of length 2 was normalized" in note for note in description.notes)
    mount = next(frame for frame in description.frames if frame.name == "mount")
    assert mount.link == "base" and mount.pose.xyz == pytest.approx((0, 1, 0), abs=1e-15)


def test_missing_meshes_are_no_error():
    shapes = """<link name="hand"><visual name="v"><geometry><mesh><uri>model://gone/hand.dae</uri></mesh></geometry>
      <material><diffuse>1 0.5 0 1</diffuse></material></visual>
      <visual name="b"><pose>0 0 1 0 0 0</pose><geometry><box><size>1 2 3</size></box></geometry></visual></link>
      <joint name="h" type="fixed"><parent>arm</parent><child>hand</child></joint>"""
    hand = next(link for link in two_links(joint_text() + shapes).links if link.name == "hand")
    mesh, box = hand.shapes
    assert (mesh.kind, mesh.file, mesh.color) == ("mesh", "model://gone/hand.dae", "#ff8000")
    assert (box.kind, box.size, box.pose.xyz) == ("box", (1.0, 2.0, 3.0), (0.0, 0.0, 1.0))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (joint_text(kind="revolute2"), "robot.sdf:4: <joint name='j'>: expected joints of one axis; write revolute2"),
        (
            joint_text(kind="hinge"),
            "expected a type of (revolute, continuous, prismatic, screw, ball, fixed)",
        ),
        (joint_text(axis=""), "<joint name='j'>: expected an <axis>; found none"),
        (joint_text(axis="<axis><xyz>0 1</xyz></axis>"), "<xyz>: expected 3 finite numbers; found '0 1'"),
        (joint_text(axis="<axis><xyz>0 0 0</xyz></axis>"), "<xyz>: expected a direction; found '0 0 0'"),
        (joint_text().replace(">arm<", ">leg<"), "expected the name of a link, joint, frame or model; found 'leg'"),
        (joint_text('<pose relative_to="k">0 0 0 0 0 0</pose>'), "found 'k'"),
        ("<include><uri>model://x</uri></include>", "expected the model itself; found <include> of 'model://x'"),
        ('<link name="arm"/>', "<link name='arm'>: expected a name of its own; there are two"),
        ('<frame name="f"><pose relative_to="f">0 0 0 0 0 0</pose></frame>', "found a cycle: f → f"),
    ],
)
def test_what_a_model_cannot_say(more, text):
    with pytest.raises(DescriptionError) as error:
        two_links(more)
    assert text in str(error.value)


def test_what_a_ball_has_no_axis_for_is_said():
    axis = "<axis><xyz>0 0 1</xyz><limit><upper>1</upper></limit><dynamics><damping>3</damping></dynamics></axis>"
    told = "joint 'j': a ball joint has no axis, and the <dynamics> and <limit> there is left out"
    assert told in two_links(joint_text(kind="ball", axis=axis)).notes
    assert not any("ball" in note for note in two_links(joint_text(kind="ball")).notes)


def test_a_root_that_floats_leaves_its_pose_and_says_so():
    text = TWO_LINKS.format(more=joint_text())
    placed = text.replace('<link name="base">', '<link name="base"><pose>1 2 3 0 0 0.5</pose>')
    told = "link 'base': its pose in the file, at (1, 2, 3) m, is left out, because it floats"
    free = parse_sdf(placed, "robot.sdf", floating=True)
    assert any(note.startswith(told) for note in free.notes)
    assert [joint.name for joint in free.joints] == ["j"]
    assert free.joints[0].pose.xyz == pytest.approx((1, 0, 0), abs=1e-15)
    for other, floating in ((placed, False), (text, True)):
        assert not any("floats" in note for note in parse_sdf(other, "robot.sdf", floating=floating).notes)


def test_what_is_static_does_not_float():
    text = TWO_LINKS.format(more=joint_text() + "<static>true</static>")
    assert not parse_sdf(text, "robot.sdf").floating
    with pytest.raises(
        DescriptionError, match="<model name='m'>: expected no <static>true</static> of a robot that fl"
    ):
        parse_sdf(text, "robot.sdf", floating=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<robot/>", "robot.sdf:1: <robot>: expected <sdf>"),
        ("<sdf version='1.4'><model name='m'/></sdf>", "expected a version from 1.5 to 1.12; found '1.4'"),
        ("<sdf version='1.7'><model name='m'/></sdf>", "<model name='m'>: expected a <link>; found none"),
        ("<sdf version='1.7'/>", "expected one model; found none"),
        ("<sdf version='1.7'><model name='a'/><model name='b'/></sdf>", "found a, b; say which one by model='…'"),
        ("<sdf version='1.7'>\n<model></sdf>", "robot.sdf:2:10: expected XML; found an error: mismatched tag"),
        (
            '<!DOCTYPE x [<!ENTITY a "b">]><sdf version="1.7"/>',
            "robot.sdf:1: expected no document type",
        ),
    ],
)
def test_what_is_no_model(text, message):
    with pytest.raises(DescriptionError) as error:
        parse_sdf(text, "robot.sdf")
    assert message in str(error.value)


def test_the_last_joint_of_a_loop_closes_it_and_says_what_is_lost():
    joints = (
        Joint("a", "revolute", "base", "left"),
        Joint("b", "revolute", "left", "tip"),
        Joint("c", "revolute", "right", "tip", damping=2.0),
        Joint("d", "revolute", "base", "right"),
    )
    links = tuple(Link(name) for name in ("base", "left", "tip", "right"))
    description = close_loops(RobotDescription("loop", links, joints))
    assert [joint.name for joint in description.joints] == ["a", "b", "d"]
    assert [one.name for one in description.closures] == ["c"]
    (note,) = description.notes
    assert note == "joint 'c' closes a loop and has no coordinate and no motor; its damping of 2 is left out"


@pytest.mark.parametrize(
    ("details", "note"),
    [
        (dict(actuated=False), "no coordinate"),
        (dict(actuated=False, upper=1.0), "no coordinate; its limits are left out"),
        (dict(mimic=Mimic("a", 2.0)), "no coordinate and no motor; that it follows 'a' is left out"),
        (
            dict(mimic=Mimic("a", 2.0), max_effort=30.0, max_velocity=2.0),
            "motor; its max velocity of 2, its max effort of 30, that it follows 'a' are left out",
        ),
    ],
)
def test_all_that_a_closure_cannot_have_is_told(details, note):
    joints = (Joint("a", "revolute", "base", "left"), Joint("c", "revolute", "base", "left", **details))
    description = close_loops(RobotDescription("loop", (Link("base"), Link("left")), joints))
    assert description.notes[0].startswith("joint 'c' closes a loop and has no ")
    assert description.notes[0].endswith(note)


def test_a_screw_closes_no_loop():
    joints = (Joint("a", "revolute", "x", "y"), Joint("b", "screw", "x", "y"))
    with pytest.raises(DescriptionError, match="joint 'b': expected one of .* to close a loop; found screw"):
        close_loops(RobotDescription("loop", (Link("x"), Link("y")), joints))


def test_a_pose_and_its_composition():
    from fgmbs.mechanisms.tree.poses import from_quaternion, from_rpy, inverse

    pose = from_rpy((1.0, 2.0, 3.0), (0.3, -0.7, 1.1))
    back = compose(pose, inverse(pose))
    np.testing.assert_allclose(back.rotation, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(back.xyz, 0, atol=1e-15)
    half = 0.5**0.5
    np.testing.assert_allclose(
        from_quaternion((0.0, 0.0, 0.0), (2 * half, 0.0, 0.0, 2 * half)).rotation,
        from_rpy((0.0, 0.0, 0.0), (0.0, 0.0, np.pi / 2)).rotation,
        atol=1e-15,
    )
