"""Robots are written with the parameters that they have now, and come back."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import tree
from fgmbs.errors import DescriptionError
from fgmbs.io.robots.stored import parse_robot, to_robot_yaml
from fgmbs.io.texts import file_of

KINDS = [
    ("ur5/ur5.urdf", {}),
    ("panda/panda.urdf", {}),  # followers, fixed joints
    ("double_pendulum/double_pendulum.urdf", {"floating": True}),
    ("loops/bennett.urdf", {}),
    ("loops/five_bar.urdf", {}),
]


def motion_of(robot, seed=0):
    rng = np.random.default_rng(seed)
    rates, second = (jnp.asarray(rng.normal(size=robot.nv)) for _ in range(2))
    q = robot.retract(jnp.asarray(robot.home), 0.3 * jnp.asarray(rng.normal(size=robot.nv)))
    return q, rates, second


def again(robot, folder):
    path = folder / "again.yaml"
    path.write_text(file_of(robot))
    return fgmbs.load(path)


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_it_is_the_same_robot(data_dir, tmp_path, name, options):
    robot = fgmbs.load(data_dir / "robots" / name, **options)
    changed = {f"{robot.topology.links[-1]}.mass": 3.21, "gravity.x": 0.7}
    if robot.topology.kinds[-1] in ("revolute", "prismatic", "continuous"):
        changed |= {f"{robot.joint_names[-1]}.friction": 0.4, f"{robot.joint_names[-1]}.rotor_inertia": 2e-4}
    robot = robot.with_parameters(changed)
    back = again(robot, tmp_path)
    assert back.topology.joints == robot.topology.joints and back.actuator_names == robot.actuator_names
    assert back.coordinate_names == robot.coordinate_names and back.constraint_names == robot.constraint_names
    assert set(back.frame_names) == set(robot.frame_names)
    state = motion_of(robot)
    expected = tree.inverse_dynamics(robot, *state)
    np.testing.assert_allclose(
        tree.inverse_dynamics(back, *state), expected, rtol=0, atol=1e-12 * np.abs(expected).max()
    )
    for point in robot.frame_names:
        place = robot.point_position(point, state[0])
        np.testing.assert_allclose(back.point_position(point, state[0]), place, rtol=0, atol=1e-12)
    closed = robot.constraints(state[0], 0.0)
    np.testing.assert_allclose(back.constraints(state[0], 0.0), closed, rtol=0, atol=1e-12)
    for key in ("lower", "upper", "max_velocity", "max_effort"):
        np.testing.assert_array_equal(back.limits(key), robot.limits(key))


def test_a_table_comes_back_with_what_was_found(configs, tmp_path):
    robot = fgmbs.load(configs / "robots" / "scara.yaml").with_parameters({"elbow.damping": 0.77, "flange.mass": 0.9})
    numbers = again(robot, tmp_path).physical_parameters()
    for name, value in robot.physical_parameters().items():
        if not name.startswith("frame"):  # in another order
            np.testing.assert_allclose(numbers[name], value, rtol=1e-12, atol=1e-15, err_msg=name)
    text = (tmp_path / "again.yaml").read_text()
    assert "damping: 0.77" in text and "inf" not in text


def test_faults_have_their_places(configs):
    text = to_robot_yaml(fgmbs.load(configs / "robots" / "scara.yaml").description)
    wrong = (
        text.replace("damping: 1.1", "dampng: 1.1")
        .replace("mass: 2.1", "mass: heavy")
        .replace("kind: prismatic", "kind: sliding")
    )
    with pytest.raises(DescriptionError) as caught:
        parse_robot(wrong, "arm.yaml")
    said = str(caught.value)
    assert "expected no key 'dampng' here; did you mean 'damping'?" in said
    assert "links[2].mass: expected a number; found 'heavy'" in said
    assert "kind: expected 'revolute'" in said and "found 'sliding'" in said
    for wrong, expected in (
        ("links: [3]\njoints: []", "links[0]: expected a mapping; found 3"),
        ("name: 3\nlinks: []\njoints: []", "name: expected a text; found 3"),
        (
            text.replace("floating: true", "").replace("name: scara", "name: scara\nfloating: perhaps"),
            "expected true or",
        ),
        (text.replace("xyz: [0.0, 0.0, 0.4]", "xyz: [0.0, 0.0]"), "pose.xyz: expected one entry more; found 2"),
        (text.replace("mass: 2.1", "mass: [2.1]"), "links[2].mass: expected a number; found"),
    ):
        with pytest.raises(DescriptionError) as caught_too:
            parse_robot(wrong, "arm.yaml")
        assert expected in str(caught_too.value)
    assert all(line.strip().startswith("arm.yaml:") for line in said.splitlines() if "expected" in line)


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("mass: 2.1", "mass: .inf", "link 'forearm'.mass: expected finite numbers; found inf"),
        (
            "xyz: [0.0, 0.0, 0.4]",
            "xyz: [.nan, 0.0, 0.4]",
            "joint 'shoulder'.pose.xyz: expected finite numbers; found nan",
        ),
        ("gear_ratio: 80.0", "gear_ratio: .inf", "joint 'elbow'.gear_ratio: expected finite numbers; found inf"),
        (
            "xyz: [0.0, 0.0, 0.4]",
            "rotation: [[1, 0, 0], [0, 2, 0], [0, 0, 1]]",
            "joint 'shoulder'.pose.rotation: expected three perpendicular axes of unit length; found ((1.0, 0.0",
        ),
        ("name: scara", "name: scara\nfriction_width: 0", "robot.friction_width: expected a positive number; found 0"),
    ],
)
def test_numbers_that_no_robot_has_are_refused(configs, tmp_path, old, new, said):
    text = file_of(fgmbs.load(configs / "robots" / "scara.yaml"))
    assert old in text
    (tmp_path / "arm.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(DescriptionError) as caught:
        fgmbs.load(tmp_path / "arm.yaml")
    assert f"arm.yaml: {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("link", "joint", "message"),
    [
        (
            "inertia: [[0.1, 0.05, 0], [0, 0.1, 0], [0, 0, 0.1]]",
            "",
            "link 'a'.inertia: expected a symmetric matrix; found 0.05 in row 1, column 2 and 0 opposite to it",
        ),
        ("mass: 1.0", ", gear_ratio: 0", "joint 'j'.gear_ratio: expected a number other than 0; found 0"),
    ],
)
def test_numbers_that_no_link_and_no_gear_has(tmp_path, link, joint, message):
    file = tmp_path / "robot.yaml"
    links = f"links: [{{name: world}}, {{name: a, {link}}}]"
    file.write_text(f"name: r\n{links}\njoints: [{{name: j, kind: prismatic, parent: world, child: a{joint}}}]\n")
    with pytest.raises(DescriptionError) as error:
        fgmbs.load(file)
    assert message in str(error.value)


def test_a_gear_ratio_does_not_become_zero(configs):
    robot = fgmbs.load(configs / "robots" / "scara.yaml")
    name = f"{robot.joint_names[0]}.gear_ratio"
    with pytest.raises(fgmbs.errors.ArgumentError, match="expected a number other than 0; found 0"):
        robot.with_parameters({name: 0.0})
