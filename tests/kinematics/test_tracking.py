"""Inverse kinematics along a motion against closed forms, the position problem and finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.kinematics import assemble
from fgmbs.kinematics.closure import Closure
from fgmbs.kinematics.tracking import track
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

_track = eqx.filter_jit(track)
T = jnp.linspace(0.0, 1.0, 21)


@pytest.fixture(scope="module")
def crank(configs):
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


def elbow(theta):
    """P2 of the four-bar by the triangle P1, P2, D."""
    P1 = np.stack([np.cos(theta), np.sin(theta)], axis=-1)
    d = np.array([4.0, 0.0]) - P1
    length = np.linalg.norm(d, axis=-1, keepdims=True)
    along = (4 - 13 + length**2) / (2 * length)
    e = d / length
    return P1 + along * e + np.sqrt(4 - along**2) * np.stack([-e[..., 1], e[..., 0]], axis=-1)


def test_follows_the_branch_it_starts_on(crank):
    theta = 3.0 * T
    found = _track(crank, crank.reference, T, (4,), theta[:, None])
    assert found.reached.all()
    np.testing.assert_allclose(found.q[:, 2:4], elbow(np.asarray(theta)), atol=1e-12)
    other = _track(crank, assemble(crank, {"theta": 0.0}, branch="other"), T, (4,), theta[:, None])
    assert other.reached.all()
    assert np.abs(other.q[:, 2:4] - found.q[:, 2:4]).max(axis=1).min() > 0.5


def test_divides_long_ways(crank):
    """Half a turn and more between two samples: Newton's method alone would lose the branch."""
    theta = jnp.array([0.0, 3.5, 9.0, 16.0])
    found = _track(crank, crank.reference, jnp.arange(4.0), (4,), theta[:, None])
    assert found.reached.all()
    np.testing.assert_allclose(found.q[:, 2:4], elbow(np.asarray(theta)), atol=1e-12)


def test_more_coordinates_than_freedom(crank):
    theta = np.asarray(2.0 * T)
    y = np.c_[np.cos(theta), np.sin(theta), theta]
    found = _track(crank, crank.reference, T, (0, 1, 4), jnp.asarray(y))
    assert found.reached.all()
    np.testing.assert_allclose(found.q[:, 2:4], elbow(theta), atol=1e-10)


def test_stays_where_it_was_once_out_of_reach(crank):
    x = 1.0 + 0.1 * T
    found = _track(crank, crank.reference, T, (0,), x[:, None])
    assert not np.asarray(found.reached)[1:].any()
    np.testing.assert_allclose(found.q[1:], jnp.broadcast_to(found.q[0], (20, 5)), atol=1e-12)


def test_follows_constraints_that_move(configs):
    driven = load(configs / "mechanisms" / "driven_crank.yaml")
    found = _track(driven, assemble(driven), T, (), jnp.zeros((21, 0)))
    assert found.reached.all()
    for k in (5, 20):
        expected = assemble(driven, t=float(T[k]), start=found.q[k])
        np.testing.assert_allclose(found.q[k], expected, atol=1e-9)


@pytest.mark.slow
def test_derivatives_equal_differences(crank):
    def P2(x):
        mechanism = crank.with_parameters({"L_coupler": x[0], "base": x[1]})
        return track(mechanism, crank.reference, T, (4,), (x[2] * T)[:, None]).q[:, 2:4]

    x = jnp.array([2.0, 4.0, 2.5])
    function = jax.jit(P2)
    h = 1e-6
    expected = np.stack([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in jnp.eye(3)], axis=-1)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(P2))(x), expected, atol=1e-7)
    np.testing.assert_allclose(jax.jit(jax.jacrev(P2))(x), expected, atol=1e-7)
    second = jax.jit(jax.hessian(lambda x: P2(x)[10].sum()))(x)
    gradient = jax.jit(jax.grad(lambda x: P2(x)[10].sum()))
    expected = np.stack([(gradient(x + h * e) - gradient(x - h * e)) / (2 * h) for e in jnp.eye(3)])
    np.testing.assert_allclose(second, expected, atol=1e-6)


def test_inverse_of_a_closure_is_the_pseudo_inverse(configs):
    """With redundant rows too."""
    robot = load(configs / "mechanisms" / "parallel_robot.yaml")
    followed = (robot.n - 2, robot.n - 1)
    q = robot.reference
    J = np.concatenate([np.asarray(robot.constraint_jacobian(q, 0.0)), np.eye(robot.n)[list(followed)]])
    S = np.asarray(eqx.filter_jit(lambda m, q: Closure(followed).inverse(m, q, jnp.zeros(())))(robot, q))
    np.testing.assert_allclose(J @ S @ J, J, atol=1e-11)
    np.testing.assert_allclose(S @ J, np.eye(robot.n), atol=1e-11)


def test_freedom_that_is_left_moves_least():
    free = PlanarMechanism.from_description(
        parse_mechanism(
            """
            points: [{name: A, x: 0, y: 0, fixed: true}, {name: P, x: 1, y: 0}, {name: R, x: 2, y: 0}]
            planar_bodies:
              - {points: [A, P], mass: 1, I0: 1, cog: [0.5, 0]}
              - {points: [P, R], mass: 1, I0: 1, cog: [0.5, 0]}
            """
        )
    )
    found = _track(free, free.reference, T, (3,), (0.3 * T)[:, None])
    assert found.reached.all()
    np.testing.assert_allclose(found.q[:, 3], 0.3 * T, atol=1e-12)
    assert np.abs(np.diff(found.q[:, 1])).max() < 0.015  # the other joint hardly moves
