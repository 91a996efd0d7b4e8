"""A robot in which nothing moves has places and weights; questions of motion refuse it by name."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import robots as made
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Disturbance
from fgmbs.sensors import Gyroscope

BODY = dict(mass=1.5, center=(0, 0, 0.2), inertia=(0.03, 0.03, 0.03))
NONE = jnp.zeros(0)
GYRO = [Gyroscope("g", body="b", axes=("x",), sigma=0.1)]


def stand(separate=False, root="world"):
    ground = [made.fixed("f", root, "a", separate=separate)] if root == "world" else []
    links = made.link("a", **BODY), made.link("b", **BODY)
    return made.robot(*links, *ground, made.fixed("g", "a", "b", xyz=(0, 0, 1), separate=separate), name="stand")


@pytest.mark.parametrize("robot", [stand(), stand(True), stand(root="a")], ids=["merged", "separate", "rooted"])
def test_its_places_are_told(robot):
    assert (robot.n, robot.nv, robot.m, robot.dof) == (0, 0, 0, 0)
    R, p = robot.body_frame("b", NONE, 0.0)
    np.testing.assert_allclose(R, np.eye(3))
    np.testing.assert_allclose(p, [0, 0, 1])
    assert robot.mass_matrix(NONE).shape == (0, 0)
    assert fgmbs.assemble(robot).shape == (0,)
    assert fgmbs.tree.base_parameters(robot).texts() == ()
    kinetic, potential = fgmbs.energy(robot, NONE, NONE)
    weights = 1.5 * 9.81 * (0.2 + 1.2) if robot.joint_names else 0.0  # what is one with the ground has no weight
    assert float(kinetic) == 0 and float(potential) == pytest.approx(weights)


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize(
    "question",
    [
        lambda robot: fgmbs.simulate(robot, 1.0, 0.1),
        lambda robot: fgmbs.inverse_dynamics(robot, np.arange(5) * 0.1, desired={}),
        lambda robot: fgmbs.hybrid_dynamics(robot, np.arange(5) * 0.1, forces={}),
        lambda robot: fgmbs.smooth(robot, fgmbs.Recording.of(np.arange(9.0), {"g": np.zeros(9)}), GYRO),
        lambda robot: fgmbs.online(robot, GYRO, [Disturbance(1e-3)], dt=0.1, window=3),
        lambda robot: fgmbs.identify(
            robot, fgmbs.Recording.of(np.arange(9.0), {"g": np.zeros(9)}), GYRO, free={"g.bias": True}
        ),
    ],
)
def test_it_does_not_move(separate, question):
    with pytest.raises(ArgumentError, match="^mechanism: expected one with coordinates; found .stand."):
        question(stand(separate))
