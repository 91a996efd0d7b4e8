"""URDF files: what is read, and the texts of what is wrong."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.errors import ArgumentError, DescriptionError
from fgmbs.io.robots.urdf import parse_urdf
from fgmbs.mechanisms.tree.robot import robot

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def link(name, inner=INERTIAL):
    return f'<link name="{name}">{inner}</link>'


def joint(name, parent, child, kind="continuous", inner=""):
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inner}</joint>'


def made(*parts, **options):
    return robot(parse_urdf("\n".join(["<robot name='r'>", *parts, "</robot>"]), "r.urdf", **options))


BASE, ARM, HAND = link("base", ""), link("arm"), link("hand")
CASES = {
    "kind": ([BASE, ARM, joint("a", "base", "arm", "hinge")], r"r.urdf:4: <joint name='a'>: expected a type .*'hinge'"),
    "cycle": (
        [BASE, ARM, joint("a", "base", "arm"), joint("b", "arm", "base")],
        r"r.urdf:5: <joint name='b'>: expected a tree; found the cycle base → arm → base",
    ),
    "two roots": ([BASE, ARM, HAND, joint("a", "base", "arm")], r"expected one root.* found 2: 'base', 'hand'"),
    "names": (
        [BASE, ARM, ARM, joint("a", "base", "arm")],
        r"link 'arm': expected a name of its own; found 2 of this name",
    ),
    "mimic": (
        [BASE, ARM, joint("a", "base", "arm", inner='<mimic joint="b"/>')],
        r"joint 'a'.mimic: expected the name of a joint; found 'b'",
    ),
    "a leader that closes a loop": (
        [BASE, ARM, HAND, joint("a", "base", "arm"), joint("b", "arm", "hand", inner='<mimic joint="c"/>')]
        + [joint("c", "base", "hand")],
        r"joint 'b'.mimic: expected the name of a joint with a coordinate; found 'c', which closes a loop and has none",
    ),
    "limits": (
        [BASE, ARM, joint("a", "base", "arm", "revolute", '<limit lower="1" upper="-1" effort="1" velocity="1"/>')],
        r"joint 'a'.limit: expected lower ≤ upper; found lower 1 and upper -1",
    ),
    "no inertia": (
        [BASE, link("arm", ""), joint("a", "base", "arm")],
        r"link 'arm': expected an inertia, because the continuous joint 'a' moves it; found none",
    ),
    "missing link": ([BASE, ARM, joint("a", "base", "amr")], r"joint 'a'.child: expected .*'amr'.*arm"),
    "length": (
        [BASE, ARM, joint("a", "base", "arm", inner='<origin xyz="0 0"/>')],
        r"r.urdf:4: <origin>: xyz: expected 3 finite numbers; found '0 0'",
    ),
    "zero axis": ([BASE, ARM, joint("a", "base", "arm", inner='<axis xyz="0 0 0"/>')], r"expected a direction"),
    "XML": ([BASE, "<link name='x'>"], r"r.urdf:4:\d+: expected XML; found an error"),
}


@pytest.mark.parametrize("case", CASES)
def test_faults_say_where_and_what(case):
    parts, text = CASES[case]
    with pytest.raises(DescriptionError, match=text):
        made(*parts)


def test_entities_are_refused():
    bomb = '<?xml version="1.0"?>\n<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><robot name="r">&a;</robot>'
    with pytest.raises(DescriptionError, match=r"bomb.urdf:2: expected no document type"):
        parse_urdf(bomb, "bomb.urdf")


def test_meshes_need_not_be_there():
    mesh = '<visual><geometry><mesh filename="package://nowhere/arm.dae"/></geometry></visual>'
    arm = made(BASE, link("arm", INERTIAL + mesh), joint("a", "base", "arm"))
    assert arm.description.links[1].shapes[0].file == "package://nowhere/arm.dae"


def test_impossible_inertias_are_warned_of(tmp_path):
    flat = INERTIAL.replace('izz="1"', 'izz="3"')
    (tmp_path / "flat.urdf").write_text(f"<robot name='r'>{BASE}{link('arm', flat)}{joint('a', 'base', 'arm')}</robot>")
    with pytest.warns(
        UserWarning, match="link 'arm': its principal moments of inertia are those of no body, 1 . 1 < 3"
    ):
        flat = fgmbs.load(tmp_path / "flat.urdf")
    assert flat.margins()["arm.inertia"] < 0


def test_fixed_joints_are_merged_and_their_frames_kept():
    """Two links on one joint weigh as one."""
    shift = '<origin xyz="0 2 0"/>'
    both = made(BASE, ARM, HAND, joint("a", "base", "arm"), joint("b", "arm", "hand", "fixed", shift))
    assert both.joint_names == ("a",) and both.frame_names == ("base", "arm", "hand")
    np.testing.assert_allclose(both.mass_matrix(both.reference), [[1 + 1 + 4]])
    np.testing.assert_allclose(both.point_position("hand", both.reference), [0, 2, 0], atol=1e-15)


def test_joints_that_follow_have_no_coordinate():
    mimic = '<mimic joint="a" multiplier="-2" offset="0.5"/>'
    both = made(BASE, ARM, HAND, joint("a", "base", "arm"), joint("b", "base", "hand", inner=mimic))
    assert both.coordinate_names == ("a",) and both.joint_names == ("a", "b")
    np.testing.assert_allclose(both.mass_matrix(both.reference), [[1 + 4]])


def test_a_floating_base_has_a_unit_quaternion():
    free = made(BASE.replace("></link>", f">{INERTIAL}</link>"), ARM, joint("a", "base", "arm"), floating=True)
    assert (free.n, free.nv) == (8, 7)
    assert free.coordinate_names[:7] == tuple(f"base.{x}" for x in ("x", "y", "z", "qw", "qx", "qy", "qz"))
    v = jnp.asarray(np.random.default_rng(0).standard_normal(7))
    q = free.retract(free.reference, v)
    np.testing.assert_allclose(free.local(free.reference, q), v, atol=1e-14)
    np.testing.assert_allclose(jnp.sum(q[3:7] ** 2), 1.0, rtol=1e-15)


def test_options_that_do_not_fit_are_refused(configs):
    with pytest.raises(ArgumentError, match="floating: expected none, because .* is no file of a robot"):
        fgmbs.load(configs / "mechanisms" / "fourbar.yaml", floating=True)


def test_equal_topologies_are_one_program():
    one, other = (made(BASE, link("arm", INERTIAL.replace('"1"', f'"{k}"')), joint("a", "base", "arm")) for k in (1, 2))
    assert one.topology == other.topology and hash(one.topology) == hash(other.topology) and one.origin == other.origin
    assert one.parameters.masses != other.parameters.masses
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert one.described.topology == one.topology
