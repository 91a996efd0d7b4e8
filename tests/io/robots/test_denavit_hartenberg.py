"""Denavit–Hartenberg tables: both conventions, and the shipped arm worked out by hand."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from fgmbs.errors import DescriptionError
from fgmbs.io.robots.closures import parse_closures
from fgmbs.io.robots.denavit_hartenberg import parse_table, read_table
from fgmbs.io.robots.urdf import read_urdf
from fgmbs.mechanisms.tree.description import Joint, Link, RobotDescription
from fgmbs.mechanisms.tree.robot import robot


@pytest.fixture(scope="module")
def puma(data_dir):
    return json.loads((data_dir / "robots" / "puma560" / "puma560_parameters.json").read_text())


def text_of(convention, rows):
    return yaml.safe_dump({"name": "puma", "convention": convention, "joints": rows})


def distal_rows(puma):
    return [
        dict(
            name=f"j{i + 1}",
            d=float(puma["d"][i]),
            a=float(puma["a"][i]),
            alpha=float(puma["alpha"][i]),
            mass=float(puma["m"][i]),
            center=[float(x) for x in puma["r"][i]],
            inertia=[float(x) for x in puma["I_diag"][i]],
            rotor_inertia=float(puma["Jm"][i]),
            gear_ratio=float(puma["G"][i]),
        )
        for i in range(6)
    ]


def modified_rows(puma):
    """The same arm: link i's frame goes from its far end to its joint, by Tx(a_i) Rx(α_i) backwards."""
    rows, before = [], (0.0, 0.0)
    for row in distal_rows(puma):
        cosine, sine = np.cos(row["alpha"]), np.sin(row["alpha"])
        R = np.array([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]])
        inertia = R @ np.diag(row["inertia"]) @ R.T
        center = R @ row["center"] + [row["a"], 0, 0]
        moments = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        rows.append(
            row | dict(a=before[0], alpha=before[1], center=center.tolist(), inertia=[float(x) for x in moments])
        )
        before = row["a"], row["alpha"]
    return rows


def test_both_conventions_and_a_urdf_describe_one_puma(puma, data_dir):
    """Joint 1's placeholder mass and inertia in the URDF do not enter, but for its moment about the joint."""
    distal, modified = (
        robot(parse_table(text_of(convention, rows), "puma.yaml"))
        for convention, rows in (("distal", distal_rows(puma)), ("modified", modified_rows(puma)))
    )
    urdf = robot(read_urdf(data_dir / "robots" / "puma560" / "puma560.urdf"))
    q, dq = jnp.array([0.3, -0.4, 1.2, 0.7, -0.9, 0.5]), jnp.array([1.0, -0.5, 0.8, 0.2, -1.1, 0.6])
    M = np.asarray(distal.mass_matrix(q))
    armature = np.diag(puma["armature"])
    np.testing.assert_allclose(modified.mass_matrix(q), M, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.asarray(urdf.mass_matrix(q)) + armature, M, rtol=1e-9, atol=1e-10)
    forces = distal.forces(q, dq, 0.0)
    np.testing.assert_allclose(modified.forces(q, dq, 0.0), forces, rtol=1e-11, atol=1e-12)


def test_the_puma_has_the_inertias_of_the_known_table(puma):
    """In its nominal position qn, with those of the rotors."""
    made = robot(parse_table(text_of("distal", distal_rows(puma)), "puma.yaml"))
    q = jnp.array(puma["configurations"]["qn"], dtype=float)
    expected = [3.6594, 4.4137, 0.9378, 0.1925, 0.1713, 0.1941]
    np.testing.assert_allclose(np.diag(made.mass_matrix(q)), expected, atol=5.1e-5)
    gravity = [0, 31.6399, 6.0351, 0, 0.0283, 0]
    np.testing.assert_allclose(-made.forces(q, jnp.zeros(6), 0.0), gravity, atol=5.1e-5)


def test_frames_of_the_shipped_arm(configs):
    """A SCARA arm: planar positions by hand; the tool looks down."""
    made = robot(read_table(configs / "robots" / "scara.yaml"))
    q = jnp.array([0.4, 0.9, 0.1, -0.3])
    R, p = made.body_frame("tool", q, 0.0)
    reach = np.array([0.3 * np.cos(0.4) + 0.25 * np.cos(1.3), 0.3 * np.sin(0.4) + 0.25 * np.sin(1.3)])
    np.testing.assert_allclose(p, [*reach, 0.4 - 0.05 - 0.1 - 0.06], atol=1e-14)
    np.testing.assert_allclose(np.asarray(R)[:, 2], [0, 0, -1], atol=1e-14)
    _, elbow = made.body_frame("upper_arm_frame", q, 0.0)
    np.testing.assert_allclose(elbow, [0.3 * np.cos(0.4), 0.3 * np.sin(0.4), 0.4], atol=1e-14)


def test_gravity_and_rotor_of_a_sliding_joint(configs):
    made = robot(read_table(configs / "robots" / "scara.yaml"))
    q = jnp.zeros(4)
    assert float(made.mass_matrix(q)[2, 2]) == pytest.approx(0.75 + 1.1e-5 * 390**2, rel=1e-12)
    assert float(made.forces(q, jnp.zeros(4), 0.0)[2]) == pytest.approx(0.75 * 9.81, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("joints: []", "t.yaml:1:1: expected a key 'convention'; found none"),
        (
            "convention: left\njoints: [{name: a}]",
            "t.yaml:1:13: convention: expected 'distal' or 'modified'",
        ),
        ("[]", "joints: expected a list of 1 or more; found a list of 0"),
        (
            "convention: distal\njoints: [{name: a, mass: heavy}]",
            "joints[0].mass: expected a finite number; found 'heavy'",
        ),
        (
            "convention: distal\njoints: [{name: a, alpa: 1}]",
            "joints[0].alpa: expected no key 'alpa' here; did you mean",
        ),
        ("[{name: a, mass: -1}]", "expected a number that is not negative; found -1"),
        (
            "convention: distal\njoints: [{name: a, center: [1, 2]}]",
            "joints[0].center: expected one entry more; found 2",
        ),
        ("[{name: a, center: [1, 2, 3, 4]}]", "joints[0].center: expected a list of 3;"),
        (
            "convention: distal\njoints: [{name: a, inertia: [1, 2, 3, 4]}]",
            "expected a list of 3 or 6; found a list of 4",
        ),
        (
            "convention: distal\njoints: [{name: a, gear_ratio: 0}]",
            "joints[0].gear_ratio: expected a number other than 0",
        ),
        (
            "convention: distal\njoints: [{name: a}, {name: a, link: b}]",
            "joints[1].name: expected a name of its own; ther",
        ),
        ("[{name: a, lower: 2, upper: 1}]", "expected at most the upper limit, 1; found 2"),
        ("[{name: a, type: ball}]", "expected 'revolute' or 'prismatic'; found 'ball'"),
    ],
)
def test_what_is_no_table(text, message):
    with pytest.raises(DescriptionError) as error:
        parse_table(f"convention: distal\njoints: {text}" if text.startswith("[") else text, "t.yaml")
    assert message in str(error.value)


@pytest.fixture
def pair():
    links = (Link("base"), Link("left"), Link("right"))
    joints = (Joint("a", "revolute", "base", "left"), Joint("b", "revolute", "base", "right"))
    return RobotDescription("pair", links, joints)


def test_a_file_of_closures(pair):
    text = """closures: [{name: c, type: spherical, axis: [0, 0, 2], link_a: left, xyz_a: [0.1, 0, 0], link_b: right,
      rpy_b: [pi/2, 0, 0]}]\nactuated: [b]\ngravity: [0, 0, -1.6]"""
    made = parse_closures(pair, text, "c.yaml")
    (one,) = made.closures
    assert (one.kind, one.link_a, one.link_b, one.axis) == ("spherical", "left", "right", (0.0, 0.0, 1.0))
    assert one.pose_a.xyz == (0.1, 0.0, 0.0) and one.pose_b.rotation[2][1] == 1.0
    assert [joint.actuated for joint in made.joints] == [False, True] and made.gravity == (0.0, 0.0, -1.6)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("name: c, type: hinge, link_a: left, link_b: right", "c.yaml:1:28: closures[0].type: expected 'revolute'"),
        (
            "name: c, type: fixed, link_a: lift, link_b: right",
            "expected the name of a link; found 'lift'; did",
        ),
        ("name: a, type: fixed, link_a: left, link_b: right", "expected a name of its own; there is another 'a'"),
        ("name: c, type: fixed, link_a: left", "closures[0]: expected a key 'link_b'; found none"),
        (
            "name: c, type: fixed, axis: [0, 0, 0], link_a: left, link_b: right",
            "closures[0].axis: expected a direction; found [0.0, 0.0, 0.0]",
        ),
    ],
)
def test_what_closes_no_loop(pair, entry, message):
    with pytest.raises(DescriptionError) as error:
        parse_closures(pair, f"closures: [{{{entry}}}]", "c.yaml")
    assert message in str(error.value)


def test_a_motor_on_no_joint(pair):
    with pytest.raises(DescriptionError, match=r"actuated\[0\]: expected the name of a joint; found 'd'"):
        parse_closures(pair, "closures: []\nactuated: [d]", "c.yaml")
