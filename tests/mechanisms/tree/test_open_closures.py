"""What is said of a robot that cannot be assembled: lengths and angles by which its joints stay open."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import robots as made
from fgmbs.errors import AssemblyError
from fgmbs.kinematics import assemble

BODY = dict(mass=1.0, center=(0.1, 0, 0.2), inertia=(0.03, 0.03, 0.03))


def arm(kind, at=(2.3, 0, 0), rpy=(0, 0, 0)):
    """Two links of 1 m in a plane, whose end is tied to the ground."""
    return made.robot(
        made.link("a", **BODY),
        made.link("b", **BODY),
        made.revolute("j", "world", "a", axis=(0, 0, 1)),
        made.revolute("k", "a", "b", axis=(0, 0, 1), xyz=(1, 0, 0)),
        made.closure(kind, "c", "b", "world", xyz_a=(1, 0, 0), xyz_b=at, rpy_b=rpy),
    )


@pytest.mark.parametrize(
    ("robot", "row", "number"),
    [
        (arm("connect"), "x", "0.3"),  # stretched: no joint changes it to first order
        (arm("fixed", (2, 0, 0), (np.pi, 0, 0)), "turn x", "3.14"),
        (arm("fixed", (2, 0, 0), (2.0, 0, 0)), "turn x", "2"),
        (arm("revolute", (1, 1, 0), (np.pi, 0, 0)), "tilt 1", "3.14"),
    ],
)
def test_open_closures_are_told_in_lengths_and_angles(robot, row, number):
    with pytest.raises(AssemblyError) as error:
        assemble(robot)
    assert f"leave open \"closure 'c' ({row})\" by {number} (m for" in str(error.value)


@pytest.mark.parametrize("kind", ["fixed", "prismatic", "revolute"])
def test_angles_of_any_turn(kind):
    rng = np.random.default_rng(2)
    ball = made.spherical("s", "world", "a")
    robot = made.robot(made.link("a", **BODY), ball, made.closure(kind, "c", "a", "world"))
    for angle in (0.0, 1e-7, 1.0, 3.0, np.pi - 1e-5, np.pi):
        axis = rng.standard_normal(3) * (1, 1, kind != "revolute")  # about z, a revolute one is free
        turn = angle * axis / np.linalg.norm(axis)
        found = np.asarray(robot.openings(robot.retract(robot.reference, jnp.asarray(turn)), 0.0))
        if kind == "revolute":
            assert np.linalg.norm(found[3:]) == pytest.approx(angle, abs=1e-8)
        else:
            np.testing.assert_allclose(found[-3:], np.abs(turn), atol=1e-8)


@pytest.mark.parametrize(
    ("given", "length"),
    [
        ({"s.qw": 2.0, "s.qx": 0.0, "s.qy": 0.0, "s.qz": 0.0}, "2"),
        (dict.fromkeys(("s.qw", "s.qx", "s.qy", "s.qz"), 0.0), "0"),
        ({"s.qx": 1.5}, "1.5"),
    ],
)
def test_a_quaternion_has_unit_length(given, length):
    robot = made.robot(made.link("a", **BODY), made.spherical("s", "world", "a"))
    with pytest.raises(AssemblyError) as error:
        fgmbs.simulate(robot, 0.1, 0.05, start=given)
    expected = (
        "'s.qw', 's.qx', 's.qy' and 's.qz' are a unit quaternion, whose length is 1; the length of those given is "
    )
    assert str(error.value).endswith(expected + length)


def test_some_numbers_of_a_quaternion_may_be_given():
    robot = made.robot(made.link("a", **BODY), made.spherical("s", "world", "a"))
    assert assemble(robot, {"s.qx": 0.6})[1] == pytest.approx(0.6, abs=1e-12)
