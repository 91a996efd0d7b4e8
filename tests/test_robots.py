"""Robots made in Python against files of the same robots."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import robots, tree
from fgmbs.errors import ArgumentError, DescriptionError
from fgmbs.io.texts import file_of

GTDYNAMICS = (
    *("four_bar_linkage_pure.sdf", "four_bar_linkage_pure.urdf", "four_bar_linkage.sdf", "four_bar_linkage.urdf"),
    *("jumping_robot.sdf", "simple_urdf.urdf", "simple_urdf_eq_mass.urdf", "simple_urdf_prismatic.urdf"),
    *("simple_rr.sdf", "simple_rrr.sdf", "simple_rpr.sdf", "simple_screw_joint.sdf", "simple_joints.sdf", "simple.sdf"),
    *("cart_pole.urdf", "inverted_pendulum.urdf", "biped.urdf", "spider.sdf", "jumping_robot.urdf"),
)


@pytest.mark.filterwarnings("ignore:.*inertia")
@pytest.mark.parametrize("file", GTDYNAMICS)
def test_every_robot_of_gtdynamics_is_a_mechanism(data_dir, file):
    """Closures of files with rounded angles hold to about 1e-5 in the zero position."""
    made = fgmbs.load(data_dir / "robots" / "gtdynamics" / file)
    if not made.joint_names:
        assert file == "simple.sdf"
        return
    M = np.asarray(made.mass_matrix(made.reference))
    assert np.isfinite(M).all() and np.linalg.eigvalsh(M).min() >= -1e-12 * np.abs(M).max()
    if file != "simple_joints.sdf" and made.description.closures:
        assert np.abs(made.constraints(jnp.zeros(len(made.joint_names)), 0.0)).max() < 3e-5


def five_bar(*closing):
    def bar(name, length, mass, *moments):
        return robots.link(name, mass, (length / 2, 0, 0), moments)

    return robots.robot(
        *(bar(name, 0.3, 1.0, 0.00015, 0.007575, 0.007575) for name in ("l1", "l4")),
        *(bar(name, 0.42, 0.8, 0.00012, 0.01182, 0.01182) for name in ("l2", "l3")),
        robots.revolute("j1", "world", "l1", (0, 2, 0), xyz=(-0.12, 0, 0)),
        robots.revolute("j3", "l1", "l2", (0, 1, 0), xyz=(0.3, 0, 0), actuated=False),
        robots.revolute("j2", "world", "l4", (0, 1, 0), xyz=(0.12, 0, 0)),
        robots.revolute("j4", "l4", "l3", (0, 1, 0), xyz=(0.3, 0, 0), actuated=False),
        *closing,
    )


def test_a_five_bar_in_python_is_the_one_of_the_files(data_dir):
    closing = robots.closure("revolute", "j5", "l2", "l3", xyz_a=(0.42, 0, 0), xyz_b=(0.42, 0, 0), axis=(0, 1, 0))
    ours, theirs = five_bar(closing), fgmbs.load(data_dir / "robots" / "loops" / "five_bar.urdf")
    q = jnp.array([0.4, 0.9, 1.1, -0.3])
    assert ours.joint_names == theirs.joint_names and ours.actuator_names == theirs.actuator_names
    np.testing.assert_allclose(ours.mass_matrix(q), theirs.mass_matrix(q), rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(ours.constraints(q, 0.0), theirs.constraints(q, 0.0), atol=1e-15)
    np.testing.assert_allclose(ours.forces(q, q, 0.0), theirs.forces(q, q, 0.0), rtol=1e-12, atol=1e-15)


def test_a_joint_that_closes_a_loop_becomes_a_closure():
    made = five_bar(robots.revolute("j5", "l2", "l3", (0, 1, 0), xyz=(0.42, 0, 0)))
    assert made.joint_names == ("j1", "j3", "j2", "j4")
    (one,) = made.description.closures
    assert (one.name, one.link_a, one.link_b) == ("j5", "l2", "l3")
    assert one.pose_a.xyz == pytest.approx((0.42, 0, 0)) and one.pose_b.xyz == pytest.approx((0.42 - 0.24, 0, 0))


def test_frames_shapes_and_screws():
    made = robots.robot(
        robots.link("nut", 2.0, inertia=np.diag([0.1, 0.1, 0.3]), shapes=(robots.cylinder(0.1, 0.2),)),
        robots.screw("thread", "world", "nut", (0, 0, 1), 0.05, damping=0.4, upper=20.0),
        robots.frame("edge", "nut", xyz=(0.1, 0, 0), rpy=(0, 0, np.pi / 2)),
    )
    assert float(made.mass_matrix(jnp.zeros(1))[0, 0]) == pytest.approx(0.3 + 2 * 0.05**2)
    R, p = made.body_frame("edge", jnp.array([np.pi / 2]), 0.0)
    np.testing.assert_allclose(p, [0, 0.1, 0.05 * np.pi / 2], atol=1e-15)
    np.testing.assert_allclose(np.asarray(R)[:, 0], [-1, 0, 0], atol=1e-15)
    shape = next(link for link in made.description.links if link.name == "nut").shapes[0]
    assert (shape.kind, shape.size) == ("cylinder", (0.1, 0.2))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: robots.link("a", inertia=(1, 2)),
            "link 'a': inertia: expected 3 or 6 numbers, or 3×3; found shape",
        ),
        (lambda: robots.link("a", center=(1, 2)), "link 'a': center: expected 3 numbers; found shape (2,)"),
        (lambda: robots.link("a", 1.0, inertia=np.diag([1, 1, 1]) + np.eye(3, k=1)), "inertia: expected a symmetric"),
        (lambda: robots.revolute("j", "a", "b", (0, 0, 0)), "joint 'j': axis: expected a direction as axis; found (0"),
        (lambda: robots.revolute("j", "a", "b", (0, 0, 1), dampng=1), "expected details of (lower, upper, max_velo"),
        (
            lambda: turning(mimic=("k", 1, 2, 3)),
            "joint 'j': mimic: expected (other joint, multiplier, offset), the last",
        ),
        (lambda: turning(mimic=("k", "2")), "joint 'j': mimic[1]: expected a finite number; found '2'"),
        (
            lambda: turning(mimic=(2.0, "k")),
            "joint 'j': mimic: expected the name of the other joint first; found float",
        ),
        (lambda: turning(lower=True), "joint 'j': lower: expected a finite number; found True"),
        (lambda: turning(damping=None), "joint 'j': damping: expected a finite number; found None"),
        (lambda: turning(upper=10**400), "joint 'j': upper: expected a finite number; found 1000"),
        (
            lambda: robots.closure("revolute", "c", "a", "b", axis=(0, 0, 0)),
            "closure 'c': axis: expected a direction as axis; found (0",
        ),
        (
            lambda: pendulum().limits("foo"),
            "key: expected 'lower', 'upper', 'max_velocity' or 'max_effort'; found 'foo'",
        ),
    ],
)
def test_what_is_no_part(make, text):
    with pytest.raises(ArgumentError) as error:
        make()
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: pendulum(robots.frame("bob", "bob", xyz=(5, 0, 0))),
            "frame 'bob': expected a name of its own; found that of a link or of the ground",
        ),
        (
            lambda: pendulum(robots.frame("world", "bob", xyz=(5, 0, 0)), floating=True),
            "frame 'world': expected a name of its own; found that of a link or of the ground",
        ),
        (lambda: pendulum(lower=float("nan")), "joint 'pin'.lower: expected a number; found nan"),
        (lambda: pendulum(max_effort=float("nan")), "joint 'pin'.max_effort: expected a number; found nan"),
        (
            lambda: pendulum(lower=np.inf),
            "joint 'pin'.limit: expected numbers between the limits; found from inf to inf",
        ),
    ],
)
def test_what_is_no_robot(make, text):
    with pytest.raises(DescriptionError) as error:
        make()
    assert text in str(error.value)


def pendulum(*parts, floating=False, **details):
    body = dict(mass=1.0, center=(0, 0, -0.5), inertia=(0.1, 0.1, 0.1))
    pin = robots.revolute("pin", "rod", "bob", (0, 1, 0), **details)
    return robots.robot(robots.link("rod", **body), robots.link("bob", **body), pin, *parts, floating=floating)


def turning(**details):
    return robots.revolute("j", "a", "b", (0, 0, 1), **details)


def test_a_joint_on_a_link_that_is_not_there():
    with pytest.raises(DescriptionError, match="lag"):
        robots.robot(robots.link("leg"), robots.revolute("j", "world", "lag", (0, 0, 1)))


def test_a_file_of_closures_belongs_to_the_format_that_has_none(data_dir):
    """MJCF says itself where its loop is closed; the file of the URDF beside it is not read twice."""
    loops = data_dir / "robots" / "loops"
    theirs, ours = (fgmbs.load(loops / f"five_bar.{suffix}") for suffix in ("xml", "urdf"))
    assert len(theirs.description.closures) == len(ours.description.closures) == 1


LINK = dict(mass=1.0, center=(0.1, 0, 0.2), inertia=(0.02, 0.02, 0.03))


@pytest.mark.parametrize("kind", [robots.spherical, robots.floating])
def test_damping_of_a_joint_of_several_coordinates_is_written(tmp_path, kind):
    made = robots.robot(robots.link("a", **LINK), kind("s", "world", "a", damping=2.0, friction=0.3))
    file = tmp_path / "again.yaml"
    file.write_text(file_of(made))
    again, dq = fgmbs.load(file), np.arange(1.0, made.nv + 1)
    expected = tree.inverse_dynamics(made, made.reference, dq, 0 * dq)
    np.testing.assert_allclose(tree.inverse_dynamics(again, again.reference, dq, 0 * dq), expected, rtol=1e-12)
    assert again.description.joints[0].damping == 2.0


def test_what_stands_on_the_ground_does_not_move_the_centre_of_mass():
    """A link of its own that is fixed there, as one under which forces are measured."""

    def standing(separate):
        mount = robots.fixed("mount", "world", "foot", xyz=(1, 0, 0), separate=separate)
        links = (robots.link(name, **LINK) for name in ("foot", "arm"))
        return robots.robot(*links, mount, robots.revolute("j", "foot", "arm", (0, 1, 0)))

    one, other = standing(False), standing(True)
    np.testing.assert_allclose(tree.center_of_mass(other, [0.3]), tree.center_of_mass(one, [0.3]), atol=1e-15)
    np.testing.assert_allclose(tree.momentum(other, [0.3], [1.0]), tree.momentum(one, [0.3], [1.0]), atol=1e-15)


def test_nothing_hangs_on_the_ground_and_floats(data_dir):
    """Its own parent: a search along the parents would not end."""
    with pytest.raises(DescriptionError, match="no joint to 'world', the ground, of a robot that floats; found 'j'"):
        robots.robot(robots.link("a", **LINK), robots.revolute("j", "world", "a", (0, 1, 0)), floating=True)
    with pytest.raises(DescriptionError, match="of a robot that floats; found 'world_joint'"):
        fgmbs.load(data_dir / "robots/ur5/ur5.urdf", floating=True)
