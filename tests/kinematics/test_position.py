"""The position problem as compiled code: it closes, it is nearest, it batches, it has derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import linkages
import numpy as np
import pytest

from fgmbs.kinematics import solve_position
from fgmbs.status import Status

solve = eqx.filter_jit(solve_position)
CRANK_GIVEN = jnp.arange(5) == 4
ROUGH = jnp.array([0.3, -0.2, 0.5, 0.1])


@pytest.mark.parametrize("theta", [0.3, 1.0, 2.0, 3.0])
def test_given_crank_angle_gives_the_circle_intersection(theta):
    mechanism = linkages.fourbar_angle()
    q, info = solve(mechanism, mechanism.reference, 0.0, CRANK_GIVEN, jnp.full(5, theta))
    assert info.status == Status.converged
    np.testing.assert_allclose(q[:4], linkages.fourbar_pose(theta), atol=1e-13)


def test_solution_is_nearest_to_the_start():
    mechanism = linkages.fourbar()
    start = mechanism.reference + ROUGH
    q, info = solve(mechanism, start)
    angles = np.linspace(-1.0, 1.0, 20001)
    poses = np.stack([linkages.fourbar_pose(angle) for angle in angles])
    nearest = poses[np.argmin(np.linalg.norm(poses - start, axis=1))]
    assert info.status == Status.converged
    np.testing.assert_allclose(q, nearest, atol=2e-4)  # grid of 1e-4 rad


def test_assembled_configuration_stays_where_it_is():
    mechanism = linkages.parallelogram()
    q, _ = solve(mechanism, mechanism.reference)
    np.testing.assert_allclose(q, mechanism.reference, atol=1e-15)


@pytest.mark.parametrize("spread", [0.01, 0.1, 1.0, 3.0])
def test_redundant_rows_close(spread):
    mechanism = linkages.parallelogram()
    start = mechanism.reference + spread * jax.random.normal(jax.random.key(0), (6,))
    q, info = solve(mechanism, start)
    assert info.status == Status.converged
    assert np.max(np.abs(mechanism.constraints(q, 0.0))) < 1e-12


def test_start_far_away_on_the_concave_side_closes_at_the_nearest_point():
    mechanism = linkages.pendulum()
    q, _ = solve(mechanism, jnp.array([30.0, 40.0, 0.9]))
    # x = 2 cos θ, y = 2 sin θ nearest to (30, 40): minimize over θ by brute force
    theta = np.linspace(-4, 4, 800001)
    distance = (2 * np.cos(theta) - 30) ** 2 + (2 * np.sin(theta) - 40) ** 2 + (theta - 0.9) ** 2
    np.testing.assert_allclose(q[2], theta[np.argmin(distance)], atol=1e-5)


def test_impossible_lengths_are_not_assembled_and_leave_finite_numbers():
    mechanism = linkages.fourbar((1.0, 2.0, 0.5, 4.0))
    q, info = solve(mechanism, mechanism.reference)
    assert info.status == Status.not_assembled and not info.assembled
    assert np.all(np.isfinite(q)) and np.max(info.gaps) > 0.1


def test_non_finite_numbers_are_reported():
    mechanism = linkages.fourbar((1.0, np.nan, 2.0, 4.0))
    q, info = solve(mechanism, mechanism.reference)
    assert info.status == Status.non_finite
    np.testing.assert_array_equal(q, mechanism.reference)


def test_batch_equals_loop_and_a_failing_member_leaves_the_others_untouched():
    lengths = jnp.array(linkages.FOURBAR_LENGTHS) * (1 + 0.02 * jax.random.normal(jax.random.key(1), (8, 4)))
    lengths = lengths.at[3, 2].set(0.1).at[5, 1].set(jnp.nan)
    mechanisms = eqx.tree_at(lambda m: m.lengths, linkages.fourbar(), lengths)
    start = linkages.fourbar().reference

    def one(lengths):
        return solve_position(eqx.tree_at(lambda m: m.lengths, linkages.fourbar(), lengths), start)

    q, info = jax.jit(jax.vmap(one))(lengths)
    assert [k for k in range(8) if not info.assembled[k]] == [3, 5]
    for k in range(8):
        alone, info_alone = solve(jax.tree.map(lambda x: x, linkages.fourbar(tuple(lengths[k]))), start)
        assert bool(info_alone.assembled) == bool(info.assembled[k])
        if info.assembled[k]:
            np.testing.assert_allclose(q[k], alone, atol=1e-12)
    assert mechanisms.lengths.shape == (8, 4)


def _pose(lengths, start, value):
    mechanism = eqx.tree_at(lambda m: m.lengths, linkages.fourbar(), lengths)
    return solve_position(mechanism, start, 0.0, jnp.arange(4) == 1, jnp.full(4, value))[0]


def _free_pose(lengths, start, t):
    mechanism = eqx.tree_at(lambda m: m.lengths, linkages.fourbar(), lengths)
    return solve_position(mechanism, start, t)[0]


LENGTHS = jnp.array(linkages.FOURBAR_LENGTHS)
START = linkages.fourbar().reference + ROUGH


@pytest.mark.slow
@pytest.mark.parametrize("pose, last", [(_pose, 0.2), (_free_pose, 0.0)], ids=["given", "free"])
def test_derivatives_in_both_modes_equal_finite_differences(pose, last):
    arguments = LENGTHS, START, jnp.asarray(last)
    forward = jax.jit(jax.jacfwd(pose, (0, 1, 2)))(*arguments)
    reverse = jax.jit(jax.jacrev(pose, (0, 1, 2)))(*arguments)
    compiled = jax.jit(pose)
    for i, argument in enumerate(arguments):
        steps = 1e-5 * np.eye(argument.size).reshape(argument.size, *argument.shape)

        def moved(step, i=i):
            return compiled(*(x + step if k == i else x for k, x in enumerate(arguments)))

        differences = np.stack([(moved(s) - moved(-s)) / 2e-5 for s in steps], axis=-1).reshape(forward[i].shape)
        np.testing.assert_allclose(forward[i], differences, atol=1e-9)  # h² = 1e-10, rounding 1e-15 / h = 1e-10
        np.testing.assert_allclose(reverse[i], forward[i], atol=1e-12)


def test_second_derivatives_equal_differences_of_first_ones():
    t = jnp.asarray(0.0)
    second = jax.jit(jax.jacfwd(jax.jacrev(_free_pose)))(LENGTHS, START, t)
    first = jax.jit(jax.jacfwd(_free_pose))
    steps = 1e-5 * np.eye(4)
    differences = np.stack([(first(LENGTHS + s, START, t) - first(LENGTHS - s, START, t)) / 2e-5 for s in steps], -1)
    np.testing.assert_allclose(second, differences, atol=1e-8)


def test_derivative_with_redundant_rows_is_the_closed_form():
    def pose(crank):
        mechanism = eqx.tree_at(lambda m: m.lengths, linkages.parallelogram(), jnp.stack([crank, jnp.asarray(2.0)]))
        return solve_position(mechanism, mechanism.reference, 0.0, jnp.arange(6) == 0, jnp.full(6, 0.6))[0]

    # y = √(L² − x²) for each crank: dy/dL = L / y
    expected = np.array([0, 1 / 0.8] * 3)
    crank = jnp.asarray(1.0)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(pose))(crank), expected, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.jacrev(pose))(crank), expected, atol=1e-12)


def test_derivative_with_respect_to_time_of_a_driven_mechanism():
    mechanism = linkages.driven_pendulum()
    t = 0.7
    theta, dtheta = 0.3 + 0.5 * t + 0.2 * t**2, 0.5 + 0.4 * t
    dq = jax.jit(jax.jacfwd(lambda t: solve_position(mechanism, mechanism.reference, t)[0]))(jnp.asarray(t))
    np.testing.assert_allclose(dq, dtheta * np.array([-2 * np.sin(theta), 2 * np.cos(theta), 1]), atol=1e-12)


def test_a_row_that_does_not_change_is_open_by_no_more_than_the_mechanism_is_large():
    """The end of the crank on its support: there no motion changes the length of the crank to first order."""
    mechanism = linkages.fourbar()
    q = mechanism.reference.at[:2].set(0.0)
    slopes = jnp.linalg.norm(mechanism.constraint_jacobian(q, 0.0), axis=1)
    assert jnp.min(slopes) < 1e-9 and jnp.max(mechanism.openings(q, 0.0)) < 3
