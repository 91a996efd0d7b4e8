"""Loops are closed where they are drawn, and nowhere half a turn off."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from fgmbs import robots as made
from fgmbs.errors import AssemblyError
from fgmbs.kinematics import assemble
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.tree.kernels import angles

BODY = dict(mass=1.0, center=(0.1, 0, 0.2), inertia=(0.03, 0.03, 0.03))
KINDS = ["fixed", "prismatic", "revolute"]
ROWS = jax.jit(jax.vmap(angles.of_turn))


def ball(kind):
    """A link on a ball joint, tied to the ground; a revolute closure leaves it to turn about z."""
    joint = made.spherical("s", "world", "a")
    return made.robot(made.link("a", **BODY), joint, made.closure(kind, "c", "a", "world"))


def turns(count, seed):
    return Rotation.random(count, random_state=seed)


def test_angles_of_a_turn_are_its_rotation_vector():
    axes = np.random.default_rng(0).standard_normal((400, 3))
    axes[::5, 0] = 0
    sizes = np.stack([np.logspace(-9, 0, 200), np.pi - np.logspace(-5, 0, 200)]).T.ravel()
    turned = Rotation.from_rotvec(sizes[:, None] * axes / np.linalg.norm(axes, axis=1, keepdims=True))
    np.testing.assert_allclose(ROWS(jnp.asarray(turned.as_matrix())), turned.as_rotvec(), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, -1, 0), (1, -1, 0), (1, 2, -3)])
def test_half_a_turn_is_as_far_as_it_is(axis):
    turn = Rotation.from_rotvec(np.pi * np.array(axis) / np.linalg.norm(axis)).as_matrix()
    found = angles.of_turn(jnp.asarray(turn))
    assert float(jnp.linalg.norm(found)) == pytest.approx(np.pi)
    assert float(jnp.linalg.norm(jnp.cross(found, jnp.asarray(axis, float)))) < 1e-6
    along = jax.jacfwd(angles.of_turn)(jnp.asarray(turn))
    assert bool(jnp.all(jnp.isfinite(along)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_closes_from_half_a_turn_off(kind):
    robot, rng = ball(kind), np.random.default_rng(1)
    for off in (0.0, 1e-15, 1e-12, 1e-7, 1e-6, 1e-3, 0.3, 1.0, 2.0):
        axis = rng.standard_normal(3) * (1, 1, kind != "revolute")
        start = robot.retract(robot.reference, jnp.asarray((np.pi - off) * axis / np.linalg.norm(axis)))
        q = assemble(robot, start=start)
        R, _ = robot.body_frame("a", q, 0.0)
        shut = R[2, 2] if kind == "revolute" else jnp.trace(R) / 3
        assert float(shut) == pytest.approx(1, abs=1e-12), (off, axis)


def test_an_arm_that_is_welded_from_a_drawing_turned_over():
    """Its hand is to point along x; it is drawn as it points along −x."""
    links = [made.link(name, **BODY) for name in "abc"]
    joints = [
        made.revolute("j", "world", "a", axis=(0, 0, 1)),
        made.revolute("k", "a", "b", axis=(0, 0, 1), xyz=(1, 0, 0)),
        made.revolute("l", "b", "c", axis=(0, 0, 1), xyz=(1, 0, 0), rpy=(0, 0, np.pi - 0.1)),
    ]
    weld = made.closure("fixed", "w", "c", "world", xyz_b=(1.0, 1.0, 0))
    robot = made.robot(*links, *joints, weld)
    R, p = robot.body_frame("c", assemble(robot), 0.0)
    np.testing.assert_allclose(R, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(p, [1, 1, 0], atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_hold_where_a_loop_is_open(kind):
    """The Jacobian and the bias in closed form, as those of differentiation."""
    robot, rng = ball(kind).evaluated(), np.random.default_rng(3)
    for turn in turns(6, 4).as_rotvec():
        q = robot.retract(robot.reference, jnp.asarray(turn))
        dq, t = jnp.asarray(rng.standard_normal(robot.nv)), jnp.zeros(())
        expected = AbstractMechanism.constraint_jacobian(robot, q, t)
        np.testing.assert_allclose(robot.constraint_jacobian(q, t), expected, atol=1e-9)
        bias = AbstractMechanism.constraint_bias(robot, q, dq, t)
        np.testing.assert_allclose(robot.constraint_bias(q, dq, t), bias, rtol=1e-7, atol=1e-7)


def loop(kind="revolute", at=(1.2, 0, 0.3)):
    """A four-bar that its drawing leaves open."""
    bar = dict(mass=1.0, center=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
    return made.robot(
        *(made.link(name, **bar) for name in "abc"),
        made.revolute("j", "world", "a", axis=(0, 1, 0)),
        made.revolute("k", "a", "b", axis=(0, 1, 0), xyz=(1, 0, 0)),
        made.revolute("l", "b", "c", axis=(0, 1, 0), xyz=(1.1, 0, 0)),
        made.closure(kind, "c", "c", "world", xyz_a=(1, 0, 0), xyz_b=at, axis=(0, 1, 0)),
    )


@pytest.mark.parametrize("kind", ["revolute", "connect"])
def test_a_row_that_changes_sign_at_half_a_turn_of_a_joint_is_no_angle(kind):
    """The height of the end seen from its link: its slope has another sign in the open drawing."""
    robot = loop(kind)
    q = assemble(robot, {"j": 0.4})
    assert float(q[0]) == pytest.approx(0.4)
    assert float(jnp.max(jnp.abs(robot.constraints(q, 0.0)))) < 1e-12


def test_a_gap_that_nothing_changes_does_not_hide_the_others():
    with pytest.raises(AssemblyError) as error:
        assemble(loop(at=(1.2, 0.25, 0.3)))
    assert "leave open \"closure 'c' (y)\" by 0.25 (m for lengths" in str(error.value)


@pytest.mark.parametrize("given", [{"j": 0.4}, {"j": 1.0}, {"j": -1.0}, {"k": 1.0}])
def test_joints_are_assembled_without_whole_turns(given):
    """Springs and limits count them; Newton's method may go anywhere from a stretched drawing."""
    assert float(jnp.max(jnp.abs(assemble(loop(), given)))) < np.pi
