"""The fixed-lag smoother against Kalman filter and Rauch–Tung–Striebel smoother in numpy, and against the batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import prior
from fgmbs.graph.time_graph import Rows, TimeGraph, Unknowns
from fgmbs.solvers.fixed_lag import FixedLagSmoother
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status

N, WINDOW, DT = 10, 4, 0.1
F = np.array([[1.0, DT], [-0.3, 0.9]])
Q = 0.02 * np.array([[DT**2, 0.3 * DT], [0.3 * DT, 1.0]])
H = np.array([[1.0, 0.2]])
SIGMA = 0.3
P0 = np.array([[0.5, 0.1], [0.1, 2.0]])
X0 = np.array([1.0, -0.5])
rng = np.random.default_rng(7)
Y = rng.standard_normal((N, 1))
SEEN = np.ones((N, 1))
SEEN[[3, 7]] = 0.0


def transition(at, x0, x1):
    return x1 - F @ x0


def swinging(at, x0, x1):
    return x1 - F @ x0 - at.dt * jnp.sin(x0[::-1]) * x1


def reading(at, x):
    return H @ x - at.series


def rate(at, x):
    return x[1:] - at.data


def predict(steps, theta, rows):
    return 2 * steps[1] - steps[0], rows


def _graph(mechanism, rule, extra=()):
    factors = (
        Factor(prior, ("x",), Noise.covariance(jnp.asarray(P0)), "initial", data=jnp.asarray(X0)),
        *extra,
        Factor(reading, ("x",), Noise.sigma(SIGMA), series=jnp.asarray(Y), weights=jnp.asarray(SEEN)),
        Factor(rule, ("x",), Noise.covariance(jnp.asarray(Q)), "interval"),
    )
    return TimeGraph(mechanism, factors, (("x", 2),), DT * jnp.arange(N), jnp.asarray(DT))


def _smoother(graph):
    return FixedLagSmoother(graph, SOLVER, "marginal", predict)


SOLVER = LevenbergMarquardt(maxiter=20, tol=1e-12)


def _head(rows: Rows, count) -> Rows:
    return jax.tree.map(lambda leaf: leaf[:count], rows)


@eqx.filter_jit
def run(smoother, window):
    """All windows in one scan; the first window is filled but for its newest step."""
    rows = smoother.graph.rows
    newest = jax.tree.map(lambda leaf: leaf[window - 1 :], rows)
    state = smoother.init(jnp.zeros((window, 2)), _head(rows, window - 1))
    return jax.lax.scan(lambda state, rows: smoother.step(state, rows), state, newest)[1]


@eqx.filter_jit
def step(smoother, state, rows):
    return smoother.step(state, rows)


def _kalman(count, y=Y):
    """Filtered means and covariances of steps 0 … count − 1, and the predicted ones."""
    x, P = X0, P0
    filtered, predicted = [], []
    for k in range(count):
        if k:
            x, P = F @ x, F @ P @ F.T + Q
        predicted.append((x, P))
        if SEEN[k]:
            K = P @ H.T / (H @ P @ H.T + SIGMA**2)
            x, P = x + K @ (y[k] - H @ x), P - K @ H @ P
        filtered.append((x, P))
    return filtered, predicted


def _smoothed(count):
    """Means of all steps, given the data of the first `count`."""
    filtered, predicted = _kalman(count)
    means = [filtered[-1][0]]
    for k in reversed(range(count - 1)):
        (x, P), (x_next, P_next) = filtered[k], predicted[k + 1]
        means.append(x + P @ F.T @ np.linalg.solve(P_next, means[-1] - x_next))
    return np.array(means[::-1])


@pytest.fixture(scope="module")
def linear(pendulum):
    return _smoother(_graph(pendulum, transition))


@pytest.fixture(scope="module")
def estimates(linear):
    return run(linear, WINDOW)


def test_newest_step_is_the_kalman_filter(estimates):
    filtered, _ = _kalman(N)
    np.testing.assert_allclose(estimates.steps[:, -1], [x for x, _ in filtered[WINDOW - 1 :]], atol=1e-10)
    assert np.all(estimates.status == Status.converged)


def test_every_step_of_the_window_is_the_fixed_lag_smoother(estimates):
    for k, steps in enumerate(estimates.steps):
        np.testing.assert_allclose(steps, _smoothed(k + WINDOW)[k:], atol=1e-10)


def test_window_as_long_as_the_data_is_the_batch(pendulum):
    """With more rows on the first step than it has variables."""
    extra = (Factor(rate, ("x",), Noise.sigma(0.7), "initial", data=jnp.array([0.4])),)
    graph = _graph(pendulum, swinging, extra)
    window = run(_smoother(graph), N)
    batch, state = eqx.filter_jit(SOLVER.run)(Unknowns(jnp.zeros((N, 2)), jnp.zeros(0)), graph)
    assert state.status == Status.converged
    np.testing.assert_allclose(window.steps[0], batch.steps, atol=1e-8)


def test_covariances_are_those_of_the_kalman_filter(linear, estimates):
    filtered, _ = _kalman(N)
    newest = jax.jit(jax.vmap(lambda estimate: (estimate.newest_covariance(), estimate.marginals().steps[-1])))
    for covariances in newest(estimates):
        np.testing.assert_allclose(covariances, [P for _, P in filtered[WINDOW - 1 :]], atol=1e-10)


def test_step_by_step_equals_scan_bit_for_bit(pendulum):
    smoother = _smoother(_graph(pendulum, swinging))
    scanned = run(smoother, WINDOW)
    rows = smoother.graph.rows
    state = eqx.filter_jit(smoother.init)(jnp.zeros((WINDOW, 2)), _head(rows, WINDOW - 1))
    for k in range(WINDOW - 1, N):
        state, estimate = step(smoother, state, jax.tree.map(lambda leaf, k=k: leaf[k], rows))
        np.testing.assert_array_equal(estimate.steps, scanned.steps[k - WINDOW + 1])
        np.testing.assert_array_equal(estimate.iterations, scanned.iterations[k - WINDOW + 1])


def test_fewer_rows_than_variables_on_the_first_step_leave_it_free(pendulum):
    graph = _graph(pendulum, transition)
    weak = Factor(rate, ("x",), Noise.sigma(0.7), "initial", data=jnp.array([0.4]))
    graph = eqx.tree_at(lambda graph: graph.factors, graph, (weak, *graph.factors[1:]))
    state = _smoother(graph).init(jnp.zeros((WINDOW, 2)), _head(graph.rows, WINDOW - 1))
    R, d, x0 = state.prior
    x = np.array([0.3, -1.2])
    residual = R @ (x - x0) + d
    assert float(residual @ residual) == pytest.approx(((x[1] - 0.4) / 0.7) ** 2, rel=1e-12)


def test_derivatives_pass_through_windows_and_marginals(linear):
    """The newest estimate is linear in all data: its derivative is the gain of the Kalman filter run over them."""

    def newest(data):
        graph = eqx.tree_at(lambda graph: graph.factors[1].series, linear.graph, data)
        return run(_smoother(graph), WINDOW).steps[-1, -1]

    gain = np.asarray(jax.jit(jax.jacfwd(newest))(jnp.asarray(Y)))
    without = _kalman(N, 0 * Y)[0][-1][0]
    for k in range(N):
        reading = np.where(np.arange(N) == k, 1.0, 0.0)[:, None]
        np.testing.assert_allclose(gain[:, k, 0], _kalman(N, reading)[0][-1][0] - without, atol=1e-10)
