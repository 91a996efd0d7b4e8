"""The 4×4 recursion against Pinocchio, against its own derivatives by AD, and against a case solved by hand."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.errors import ArgumentError, DescriptionError
from fgmbs.mechanisms.tree.lagrangian.branches import Branches, branches_of, joint_parents_of
from fgmbs.mechanisms.tree.lagrangian.recursion import (
    Loads,
    inverse_dynamics,
    inverse_dynamics_jacobians,
    of_robot,
    tree_of,
)


@pytest.fixture(scope="module")
def topology(data_dir):
    return json.loads((data_dir / "robots" / "human43" / "topology.json").read_text())


@pytest.fixture(scope="module")
def pinocchio():
    return pytest.importorskip("pinocchio")


@pytest.fixture(scope="module")
def human(data_dir, pinocchio):
    """Pinocchio's model of the human and the number there of every joint of the paper's tables."""
    model = pinocchio.buildModelFromUrdf(str(data_dir / "robots" / "human43" / "human43_synthetic.urdf"))
    links = {}
    for frame in model.frames:
        if frame.type == pinocchio.FrameType.BODY and frame.name.startswith("L"):
            links[int(frame.name[1:].split("_")[0])] = frame.parentJoint
    return model, np.array([links[number] for number in range(1, 44)])


def tree_from(pinocchio, model, order):
    """The tree of a model, its joints in some order."""
    place = {int(joint): k for k, joint in enumerate(order)}
    twists, placements, inertias = [], [], []
    for joint in order:
        S = pinocchio.Model.createData(model).joints[int(joint)].S
        twists.append(np.asarray(S).reshape(6))
        placements.append(model.jointPlacements[int(joint)].homogeneous)
        inertia = model.inertias[int(joint)]
        inertias.append((inertia.mass, inertia.lever, inertia.inertia))
    twists = np.array(twists)
    return tree_of(
        [place.get(model.parents[int(joint)], -1) for joint in order],
        jnp.array(placements),
        (jnp.array(twists[:, 3:]), jnp.array(twists[:, :3])),
        tuple(jnp.array(part) for part in zip(*inertias, strict=True)),
        jnp.array(model.gravity.linear),
    )


@pytest.fixture(scope="module")
def case(human, pinocchio):
    """The human in some motion, with a force and a torque on every link."""
    model, order = human
    random = np.random.default_rng(5)
    q, dq, ddq = (jnp.array(random.normal(size=43)) for _ in range(3))
    loads = Loads(*(jnp.array(random.normal(size=(43, 3)) * scale) for scale in (50.0, 0.3, 20.0)))
    return tree_from(pinocchio, model, order), (q, dq, ddq), loads


def pinocchio_wrenches(pinocchio, model, order, q, loads):
    """Wrenches at the joint frames, along their axes, as Pinocchio wants them."""
    data = model.createData()
    pinocchio.forwardKinematics(model, data, q)
    wrenches = [pinocchio.Force.Zero() for _ in range(model.njoints)]
    for joint, force, point, torque in zip(order, loads.forces, loads.points, loads.torques, strict=True):
        R = data.oMi[int(joint)].rotation
        f = R.T @ np.asarray(force)
        wrenches[int(joint)] = pinocchio.Force(f, np.cross(point, f) + R.T @ np.asarray(torque))
    return wrenches


def test_tables_of_the_paper_describe_one_tree(topology):
    """[RID23] eq. (18) and eqs (19), (20)."""
    joint_parents = tuple(parent - 1 for parent in topology["joint_parent"])
    branches = Branches(
        tuple(parent - 1 for parent in topology["branch_parent"]),
        tuple((first - 1, last - 1) for first, last in topology["branch_first_last"]),
    )
    assert branches_of(joint_parents) == branches
    assert joint_parents_of(branches) == joint_parents


def test_the_human_has_the_tree_of_the_paper(case, topology):
    assert case[0].parents == tuple(parent - 1 for parent in topology["joint_parent"])


def test_joint_forces_are_those_of_pinocchio_with_forces_and_torques_on_every_link(case, human, pinocchio):
    """[RID23] eq. (9)."""
    tree, motion, loads = case
    model, order = human
    at = np.array([model.joints[int(joint)].idx_v for joint in order])
    q, dq, ddq = (np.zeros(43) for _ in range(3))
    for theirs, ours in zip((q, dq, ddq), motion, strict=True):
        theirs[at] = ours
    wrenches = pinocchio_wrenches(pinocchio, model, order, q, loads)
    expected = pinocchio.rnea(model, model.createData(), q, dq, ddq, wrenches)[at]
    found = jax.jit(inverse_dynamics)(tree, *motion, loads)
    assert np.abs(found - expected).max() <= 1e-11 * np.abs(expected).max()


def test_sensitivities_without_loads_are_those_of_pinocchio(case, human, pinocchio):
    """[RID23] eqs (16), (17); with loads that are fixed to the ground Pinocchio's derivatives are others."""
    tree, motion, _ = case
    model, order = human
    at = np.array([model.joints[int(joint)].idx_v for joint in order])
    moved = [np.zeros(43) for _ in range(3)]
    for theirs, ours in zip(moved, motion, strict=True):
        theirs[at] = ours
    data = model.createData()
    pinocchio.computeRNEADerivatives(model, data, *moved)
    M = np.triu(data.M) + np.triu(data.M, 1).T
    loads = Loads(*(jnp.zeros((43, 3)) for _ in range(3)))
    found = jax.jit(inverse_dynamics_jacobians)(tree, *motion, loads)
    for ours, theirs in zip(found, (data.dtau_dq, data.dtau_dv, M), strict=True):
        expected = theirs[np.ix_(at, at)]
        assert np.abs(ours - expected).max() <= 1e-11 * np.abs(expected).max()


def test_sensitivities_with_loads_are_derivatives_of_the_joint_forces(case):
    tree, motion, loads = case
    found = jax.jit(inverse_dynamics_jacobians)(tree, *motion, loads)
    expected = jax.jit(jax.jacfwd(inverse_dynamics, argnums=(1, 2, 3)))(tree, *motion, loads)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-12 * np.abs(theirs).max()


def test_a_screw_in_the_field_of_gravity():
    """Q = (I + m p²) q̈ + m g p of a nut that advances p per radian upwards."""
    mass, inertia, pitch = 2.0, 0.3, 0.1
    tree = tree_of(
        [-1],
        jnp.eye(4)[None],
        (jnp.array([[0.0, 0.0, 1.0]]), jnp.array([[0.0, 0.0, pitch]])),
        (jnp.array([mass]), jnp.zeros((1, 3)), inertia * jnp.eye(3)[None]),
        jnp.array([0.0, 0.0, -9.81]),
    )
    loads = Loads(jnp.array([[0.0, 0.0, 7.0]]), jnp.array([[0.2, 0.1, 0.3]]), jnp.array([[0.0, 5.0, 1.5]]))
    q, dq, ddq = jnp.array([0.4]), jnp.array([2.0]), jnp.array([3.0])
    expected = (inertia + mass * pitch**2) * 3.0 + mass * 9.81 * pitch - 7.0 * pitch - 1.5
    assert inverse_dynamics(tree, q, dq, ddq, loads)[0] == pytest.approx(expected, rel=1e-13)
    q_, dq_, ddq_ = inverse_dynamics_jacobians(tree, q, dq, ddq, loads)
    assert ddq_[0, 0] == pytest.approx(inertia + mass * pitch**2, rel=1e-13)
    assert abs(q_[0, 0]) < 1e-13 and abs(dq_[0, 0]) < 1e-13


@pytest.mark.parametrize(
    ("parents", "text"),
    [((-1, 1), "joint 1: expected a parent from -1 (none) to 0; found 1"), ((-1, 0, -1, 1), "expected joint 3 right")],
)
def test_tables_that_are_none(parents, text):
    with pytest.raises(DescriptionError) as error:
        branches_of(parents)
    assert text in str(error.value)


def test_branches_that_leave_a_joint_out():
    with pytest.raises(DescriptionError, match="branch 1: expected joints from 2 on; found 3 to 4"):
        joint_parents_of(Branches((-1, 0), ((0, 1), (3, 4))))


def test_three_formulations_agree_with_forces_and_torques_on_every_link(case, data_dir):
    """The recursion of the paper and the closed form of Newton–Euler, on the human of the file."""
    robot = fgmbs.load(data_dir / "robots" / "human43" / "human43_synthetic.urdf")
    tree, (_, motion, loads) = of_robot(robot), case
    n = len(robot.joint_names)

    def newton_euler(q, dq, ddq):
        """Loads that stay along the axes of the ground are other wrenches in every position."""

        def wrench(link, force, point, torque):
            R, _ = robot.body_frame(link, q, 0.0)
            f = R.T @ force
            return jnp.concatenate([R.T @ torque + jnp.cross(point, f), f])

        links = robot.topology.links
        loaded = zip(links, loads.forces, loads.points, loads.torques, strict=True)
        return fgmbs.tree.inverse_dynamics(robot, q, dq, ddq, jnp.stack([wrench(*one) for one in loaded]))

    assert n == 43 and tree.parents == case[0].parents
    Q = jax.jit(newton_euler)(*motion)
    found = jax.jit(inverse_dynamics)(tree, *motion, loads)
    assert np.abs(found - Q).max() <= 1e-12 * np.abs(Q).max()
    none = Loads(*(jnp.zeros((43, 3)) for _ in range(3)))
    closed = fgmbs.tree.inverse_dynamics_jacobians(robot, *motion)
    recursive = jax.jit(inverse_dynamics_jacobians)(tree, *motion, none)
    for ours, theirs in zip(recursive, closed, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-11 * np.abs(theirs).max()


def test_a_robot_with_a_floating_base_is_refused(data_dir):
    robot = fgmbs.load(data_dir / "robots" / "anymal_b" / "anymal_b.urdf", floating=True)
    with pytest.raises(ArgumentError, match="expected joints of one degree of freedom; found .*, floating"):
        of_robot(robot)
