"""Joints that are held: what is left moves as the whole robot with them at rest."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import robots, tree
from fgmbs.mechanisms.tree.locked import with_locked
from fgmbs.mechanisms.tree.robot import robot


@pytest.fixture(scope="module")
def whole():
    joint = dict(xyz=(0.1, -0.2, 0.3), rpy=(0.3, 0.2, -0.5))
    return robots.robot(
        robots.link("a", mass=1.0, center=(0.1, 0.0, 0.2), inertia=(0.02, 0.03, 0.04)),
        robots.link("b", mass=2.0, center=(0.0, 0.1, 0.2), inertia=(0.05, 0.03, 0.04)),
        robots.link("c", mass=0.5, center=(0.1, 0.3, 0.0), inertia=(0.02, 0.01, 0.02)),
        robots.link("d", mass=0.7, center=(0.0, -0.1, 0.1), inertia=(0.01, 0.01, 0.01)),
        robots.revolute("turn", "world", "a", axis=(0, 1, 1), **joint),
        robots.screw("thread", "a", "b", axis=(1, 0, 1), pitch=0.05, lower=-2, upper=2, **joint),
        robots.prismatic("slide", "b", "c", axis=(0, 2, 1), **joint),
        robots.revolute("hinge", "c", "d", axis=(1, 0, 0), mimic=("slide", 2.0, 0.1), **joint),
    ).description


@pytest.mark.parametrize("held", [{"turn": 0.4}, {"thread": -1.3}, {"slide": 0.2}, {"thread": 0.7, "slide": -0.1}])
def test_is_the_whole_robot_with_joints_at_rest(whole, held):
    free, rest = robot(whole), robot(with_locked(whole, held))
    names = list(free.coordinate_names)
    kept = np.array([names.index(name) for name in rest.coordinate_names])
    assert len(kept) == len(names) - len(held)
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, len(kept)))
    where = jnp.asarray([held.get(name, 0.0) for name in names])
    still = jnp.zeros(len(names))
    whole_state = [at.at[kept].set(part) for at, part in ((where, q), (still, dq), (still, ddq))]
    expected = tree.inverse_dynamics(free, *whole_state)[kept]
    np.testing.assert_allclose(tree.inverse_dynamics(rest, q, dq, ddq), expected, rtol=1e-12, atol=1e-12)
    for name in ("a", "b", "c", "d"):
        for found, expected in zip(tree.frame(rest, q, name), tree.frame(free, whole_state[0], name), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ({"slid": 0.1}, "there is no joint 'slid'.*'slide'"),
        ({"hinge": 0.1}, r"locked\['hinge'\]: expected a joint of its own; found one that follows 'slide'"),
        ({"thread": 3.0}, r"locked\['thread'\]: expected a number from -2 to 2; found 3"),
        ({"turn": float("nan")}, r"locked\['turn'\]"),
        ({"turn": "0.1"}, r"locked\['turn'\]"),
    ],
)
def test_what_cannot_be_held(whole, held, text):
    with pytest.raises(fgmbs.ArgumentError, match=text):
        with_locked(whole, held)


def test_a_gripper_is_held(data_dir):
    arm = fgmbs.load(data_dir / "robots/panda/panda.urdf", locked={"panda_finger_joint1": 0.02})
    assert arm.coordinate_names == tuple(f"panda_joint{k}" for k in range(1, 8))
    with pytest.raises(fgmbs.ArgumentError, match="no file of a robot"):
        fgmbs.load("configs/mechanisms/fourbar.yaml", locked={"x": 1.0})


@pytest.mark.parametrize("order", [("jc", "jb", "ja"), ("ja", "jb", "jc")])
def test_followers_of_followers_are_held_in_any_order(order):
    joints = {
        "ja": robots.revolute("ja", "world", "a", (0, 1, 0)),
        "jb": robots.revolute("jb", "a", "b", (0, 1, 0), xyz=(0.1, 0, 0), mimic=("ja", 2.0, 0.1)),
        "jc": robots.revolute("jc", "b", "c", (0, 1, 0), xyz=(0.1, 0, 0), mimic=("jb", -1.0)),
        "jd": robots.revolute("jd", "c", "d", (0, 1, 0), xyz=(0.1, 0, 0)),
    }
    links = [robots.link(name, 1.0, (0.1, 0, 0), (0.02, 0.02, 0.03)) for name in "abcd"]
    whole = robots.robot(*links, *(joints[name] for name in order), joints["jd"]).description
    held = robot(with_locked(whole, {"ja": 0.3}))
    assert held.coordinate_names == ("jd",)
    free = robot(whole)
    q = np.where(np.array(free.coordinate_names) == "ja", 0.3, 0.2)
    for one, other in zip(tree.frame(held, [0.2], "d"), tree.frame(free, q, "d"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-14)
