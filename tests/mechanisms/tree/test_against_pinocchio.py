"""Kernels of trees, and their closed derivatives, are those of Pinocchio."""

import dataclasses
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import tree
from fgmbs.io.robots.urdf import read_urdf

ROBOTS = [
    ("puma560/puma560.urdf", False, 1e-12),
    ("panda/panda.urdf", False, 1e-12),
    ("ur5/ur5.urdf", False, 1e-12),
    ("human43/human43_synthetic.urdf", False, 1e-11),
    ("anymal_b/anymal_b.urdf", True, 1e-11),
    ("g1_43/g1_43.urdf", True, 1e-11),
]


def relative(found, expected):
    return np.max(np.abs(np.asarray(found) - expected)) / np.max(np.abs(expected))


@pytest.mark.parametrize(("name", "floating", "tolerance"), ROBOTS, ids=[name.split("/")[0] for name, *_ in ROBOTS])
def test_dynamics_and_derivatives(beside_pinocchio, name, floating, tolerance):
    pin = pytest.importorskip("pinocchio")
    pair = beside_pinocchio(name, floating)
    model, data, G, q = pair.model, pair.data, pair.G, pair.q_pin
    dq, ddq = G @ pair.dq, G @ pair.ddq
    tau = G.T @ pin.rnea(model, data, q, dq, ddq)
    bias = G.T @ pin.rnea(model, data, q, dq, 0 * ddq)
    M = pin.crba(model, data, q)
    M = G.T @ (np.triu(M) + np.triu(M, 1).T) @ G
    state = pair.robot, pair.q, pair.dq
    assert relative(tree.inverse_dynamics(*state, pair.ddq), tau) < tolerance
    assert relative(tree.bias(*state), bias) < tolerance
    assert relative(tree.mass_matrix(*state[:2]), M) < tolerance

    pin.computeRNEADerivatives(model, data, q, dq, ddq)
    by = tree.inverse_dynamics_jacobians(*state, pair.ddq)
    assert relative(by.q, G.T @ data.dtau_dq @ G) < tolerance
    assert relative(by.dq, G.T @ data.dtau_dv @ G) < tolerance
    assert relative(by.ddq, M) < tolerance

    exact = 1e-9 if np.linalg.cond(M) < 1e6 else 1e-6
    assert relative(tree.forward_dynamics(*state, tau), pair.ddq) < exact
    forward = tree.forward_dynamics_jacobians(*state, tau)
    assert relative(M @ forward.q, -G.T @ data.dtau_dq @ G) < exact
    assert relative(M @ forward.dq, -G.T @ data.dtau_dv @ G) < exact
    assert relative(M @ forward.ddq, np.eye(pair.robot.nv)) < exact


@pytest.mark.parametrize(("name", "floating"), [("panda/panda.urdf", False), ("anymal_b/anymal_b.urdf", True)])
def test_frames_momenta_and_energies(beside_pinocchio, name, floating):
    pin = pytest.importorskip("pinocchio")
    pair = beside_pinocchio(name, floating)
    robot, model, data, q, dq = pair.robot, pair.model, pair.data, pair.q_pin, pair.G @ pair.dq
    pin.computeAllTerms(model, data, q, dq)
    pin.updateFramePlacements(model, data)
    for frame in robot.frame_names[-3:]:
        there = model.getFrameId(frame)
        R, p = tree.frame(robot, pair.q, frame)
        np.testing.assert_allclose(R, data.oMf[there].rotation, atol=1e-13)
        np.testing.assert_allclose(p, data.oMf[there].translation, atol=1e-13)
        J = pin.computeFrameJacobian(model, data, q, there, pin.LOCAL_WORLD_ALIGNED) @ pair.G
        np.testing.assert_allclose(tree.frame_jacobian(robot, pair.q, frame), np.roll(J, 3, axis=0), atol=1e-12)
    kinetic, potential = tree.energies(robot, pair.q, pair.dq)
    np.testing.assert_allclose(kinetic, pin.computeKineticEnergy(model, data, q, dq), rtol=1e-12)
    if floating:  # else links on the ground count there
        np.testing.assert_allclose(potential, pin.computePotentialEnergy(model, data, q), rtol=1e-12)
        h = np.roll(pin.computeCentroidalMomentum(model, data, q, dq).vector, 3)
        np.testing.assert_allclose(tree.momentum(robot, pair.q, pair.dq), h, rtol=1e-11)
        np.testing.assert_allclose(tree.center_of_mass(robot, pair.q), pin.centerOfMass(model, data, q), atol=1e-12)


def test_regressor(beside_pinocchio):
    pair = beside_pinocchio("panda/panda.urdf")
    robot = pair.robot
    numbers = robot.numbers
    J = np.moveaxis(np.asarray(numbers.inertia), -1, 0)
    m, c = np.asarray(numbers.mass), np.asarray(numbers.centre).T
    about = J + m[:, None, None] * (np.einsum("bi,bi->b", c, c)[:, None, None] * np.eye(3) - c[:, :, None] * c[:, None])
    pi = np.column_stack([m, m[:, None] * c, about[:, [0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]])
    Y = tree.regressor(robot, pair.q, pair.dq, pair.ddq)
    tau = tree.inverse_dynamics(robot, pair.q, pair.dq, pair.ddq)
    np.testing.assert_allclose(np.einsum("vbk,bk->v", Y, pi), tau, atol=1e-12)


def test_wrenches_on_bodies(beside_pinocchio):
    pin = pytest.importorskip("pinocchio")
    pair = beside_pinocchio("ur5/ur5.urdf")
    wrenches = np.random.default_rng(1).standard_normal((6, 6))
    outside = pin.StdVec_Force()
    outside.append(pin.Force.Zero())
    for wrench in wrenches:
        outside.append(pin.Force(np.roll(wrench, 3)))
    motion = pair.q, pair.dq, pair.ddq
    tau = pin.rnea(pair.model, pair.data, pair.q_pin, *motion[1:], outside)
    np.testing.assert_allclose(tree.inverse_dynamics(pair.robot, *motion, wrenches), tau, rtol=1e-12)
    by = tree.inverse_dynamics_jacobians(pair.robot, *motion, wrenches)
    pin.computeRNEADerivatives(pair.model, pair.data, pair.q_pin, *motion[1:], outside)
    assert relative(by.q, pair.data.dtau_dq) < 1e-12
    back = tree.forward_dynamics(pair.robot, *motion[:2], tau, wrenches)
    np.testing.assert_allclose(back, pair.ddq, rtol=1e-9)


def test_derivative_rules_are_those_of_the_plain_sums(beside_pinocchio):
    """By the state in closed form, by numbers through the sums; forward, reverse and in a batch."""
    pair = beside_pinocchio("panda/panda.urdf")
    robot = pair.robot.bare()

    def moved(scale, v, dq, ddq):
        one = eqx.tree_at(lambda r: r.parameters.masses, robot, scale * robot.parameters.masses)
        return tree.inverse_dynamics(one, robot.retract(jnp.asarray(pair.q), v), dq, ddq)

    point = jnp.array(1.0), *map(jnp.asarray, (np.zeros(robot.nv), pair.dq, pair.ddq))
    by = tree.inverse_dynamics_jacobians(robot, pair.q, pair.dq, pair.ddq)
    forward, reverse = (way(moved, (0, 1, 2, 3))(*point) for way in (jax.jacfwd, jax.jacrev))
    for a, b, c in zip(forward[1:], reverse[1:], by, strict=True):
        np.testing.assert_allclose(a, c, atol=1e-12)
        np.testing.assert_allclose(b, c, atol=1e-12)
    step = 1e-6
    slope = (moved(1 + step, *point[1:]) - moved(1 - step, *point[1:])) / (2 * step)
    np.testing.assert_allclose(forward[0], slope, atol=1e-6)
    np.testing.assert_allclose(reverse[0], slope, atol=1e-6)


def test_puma_has_the_numbers_of_its_table(robots):
    """With rotors: gravity load in the nominal position and the diagonal of the mass matrix there."""
    table = json.loads((robots / "puma560" / "puma560_parameters.json").read_text())
    description = read_urdf(robots / "puma560" / "puma560.urdf")
    joints = [
        dataclasses.replace(joint, rotor_inertia=J, gear_ratio=G)
        for joint, J, G in zip(description.joints[:6], table["Jm"], table["G"], strict=True)
    ]
    robot = fgmbs.robot(dataclasses.replace(description, joints=(*joints, *description.joints[6:])))
    qn, zero = np.array(table["configurations"]["qn"]), np.zeros(6)
    np.testing.assert_allclose(
        tree.inverse_dynamics(robot, qn, zero, zero), [0, 31.6399, 6.0351, 0, 0.0283, 0], atol=5e-5
    )
    diagonal = np.diag(tree.mass_matrix(robot, qn))
    np.testing.assert_allclose(diagonal, [3.6594, 4.4137, 0.9378, 0.1925, 0.1713, 0.1941], atol=5e-5)
