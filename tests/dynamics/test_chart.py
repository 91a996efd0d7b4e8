"""Local coordinates of a moving mechanism."""

import equinox as eqx
import jax
import jax.numpy as jnp
import linkages
import numpy as np
import pytest

import fgmbs
from fgmbs.dynamics.chart import MotionChart
from fgmbs.io.planar.load import load


@pytest.fixture(scope="module", params=("fourbar", "five_bar", "parallel_robot"))
def moving(request):
    """(mechanism, chart, x on the constraints with one more variable)."""
    mechanism = load(f"configs/mechanisms/{request.param}.yaml").evaluated()
    q = fgmbs.assemble(mechanism)
    chart = MotionChart(mechanism.dof)
    x = jnp.concatenate([q, jnp.zeros(mechanism.nv), jnp.ones(1)])
    kick = jnp.linspace(0.02, 0.1, 2 * chart.dof + 1)
    return mechanism, chart, move(mechanism, chart, x, kick)


ZERO = jnp.zeros(())
move = eqx.filter_jit(lambda mechanism, chart, x, delta: chart.move(mechanism, x, delta, ZERO))
tangent = eqx.filter_jit(lambda mechanism, chart, x: chart.tangent(mechanism, x, ZERO))
coordinates = eqx.filter_jit(lambda mechanism, chart, x: chart.coordinates(mechanism, x, ZERO))
derivative = eqx.filter_jit(
    lambda mechanism, chart, x, delta: jax.jacfwd(lambda delta: chart.move(mechanism, x, delta, ZERO))(delta)
)


def test_moved_steps_satisfy_the_constraints(moving):
    mechanism, chart, x = moving
    n = mechanism.n
    delta = 0.03 * jnp.cos(jnp.arange(2.0 * chart.dof + 1))
    y = move(mechanism, chart, x, delta)
    assert np.max(np.abs(mechanism.constraints(y[:n], 0.0))) < 1e-12
    assert np.max(np.abs(mechanism.constraint_rate(y[:n], y[n : 2 * n], 0.0))) < 1e-12


def test_independent_coordinates_move_as_told(moving):
    mechanism, chart, x = moving
    delta = 0.03 * jnp.sin(1 + jnp.arange(2.0 * chart.dof + 1))
    C = coordinates(mechanism, chart, x)
    np.testing.assert_allclose(C @ (move(mechanism, chart, x, delta) - x), delta, atol=1e-12)


def test_tangent_is_the_derivative_of_the_motion(moving):
    mechanism, chart, x = moving
    still = jnp.zeros(2 * chart.dof + 1)
    E = tangent(mechanism, chart, x)
    np.testing.assert_allclose(E, derivative(mechanism, chart, x, still), atol=1e-11)
    e = 1e-6
    for k in range(still.size):
        ahead, behind = (move(mechanism, chart, x, still.at[k].set(s)) for s in (e, -e))
        np.testing.assert_allclose(E[:, k], (ahead - behind) / (2 * e), atol=1e-8)


def test_a_move_and_the_tangent_at_its_end_go_together(moving):
    mechanism, chart, x = moving
    delta = 0.03 * jnp.cos(jnp.arange(2.0 * chart.dof + 1))

    @eqx.filter_jit
    def both(mechanism, x, delta):
        B = chart.selection(mechanism, x[: mechanism.n], ZERO)
        y = chart.move(mechanism, x, delta, ZERO, B)
        apart = y, chart.tangent(mechanism, y, ZERO, B=B)
        return apart, chart.moved_with_tangent(mechanism, x, delta, ZERO, B)

    for one, other in zip(*both(mechanism, x, delta), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


def test_mobility_is_that_of_both_metrics_alone(moving):
    """Where both are inverted at once, as where the independent velocities are given and one is enough."""
    mechanism, chart, x = moving
    q = x[: mechanism.n]

    @eqx.filter_jit
    def found(mechanism, q):
        P, B = chart.mobility(mechanism, q, ZERO)
        alone = MotionChart(chart.dof, tuple(range(chart.dof))).mobility(mechanism, q, ZERO)[0]
        return P, alone, B, chart.selection(mechanism, q, ZERO)

    P, alone, B, selection = found(mechanism, q)
    np.testing.assert_allclose(P, alone, atol=1e-12 * np.abs(alone).max())
    np.testing.assert_array_equal(B, selection)
    # Along the constraints, and there the inverse of the mass matrix.
    M, J = np.asarray(mechanism.mass_matrix(q)), np.asarray(mechanism.constraint_jacobian(q, 0.0))
    assert np.abs(J @ P).max() < 1e-9 * np.abs(P).max()
    np.testing.assert_allclose(P @ M @ P, P, atol=1e-9 * np.abs(P).max())


def test_no_motion_leaves_a_step_where_it_is(moving):
    mechanism, chart, x = moving
    np.testing.assert_allclose(move(mechanism, chart, x, jnp.zeros(2 * chart.dof + 1)), x, atol=1e-14)


def test_a_step_off_the_constraints_is_brought_back(moving):
    mechanism, chart, x = moving
    y = move(mechanism, chart, x + 1e-4, jnp.zeros(2 * chart.dof + 1))
    assert np.max(np.abs(mechanism.constraints(y[: mechanism.n], 0.0))) < 1e-12


def test_out_of_reach_is_not_a_number():
    mechanism = load("configs/mechanisms/fourbar.yaml").evaluated()
    q = fgmbs.assemble(mechanism)
    x = jnp.concatenate([q, jnp.zeros(mechanism.nv)])
    chart = MotionChart(1, (mechanism.coordinate_names.index("y_P1"),))
    assert np.all(np.isnan(move(mechanism, chart, x, jnp.array([5.0, 0.0]))[: mechanism.n]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fourbar", "fourbar_angle", "parallelogram", "double_pendulum", "slider_crank"])
def test_independent_velocities_tell_all_others(name):
    """No velocity is faster than the independent ones, also where rows are redundant."""
    mechanism = getattr(linkages, name)()
    chart, nv = MotionChart(mechanism.dof), mechanism.nv
    q = fgmbs.assemble(mechanism, start=mechanism.reference + 0.1 * jnp.cos(jnp.arange(nv)))
    x = jnp.concatenate([q, jnp.zeros(nv)])
    R = tangent(mechanism, chart, x)[nv:, chart.dof :]
    B = coordinates(mechanism, chart, x)[chart.dof :, nv:]
    np.testing.assert_allclose(mechanism.constraint_jacobian(q, 0.0) @ R, 0, atol=1e-12)
    np.testing.assert_allclose(B @ R, np.eye(chart.dof), atol=1e-12)
    assert np.max(np.abs(R)) <= 1.01
    assert sorted(np.unique(B)) == [0.0, 1.0] and np.all(np.sum(B, axis=1) == 1)


def test_selection_changes_inside_compiled_code():
    mechanism = linkages.pendulum()

    def chosen(theta):
        q = jnp.stack([2 * jnp.cos(theta), 2 * jnp.sin(theta), theta])
        return jnp.argmax(MotionChart(1).selection(mechanism, q, ZERO), axis=1)[0]

    # dx = −2 sin θ, dy = 2 cos θ, dθ = 1
    assert list(jax.jit(jax.vmap(chosen))(jnp.array([0.0, np.pi / 2, np.pi]))) == [1, 0, 1]
