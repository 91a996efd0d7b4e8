"""Levenberg–Marquardt against SciPy, jaxopt and differences, and how it ends when things go wrong."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxopt
import numpy as np
import pytest
import scipy.optimize

from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import soft_equality
from fgmbs.graph.time_graph import TimeGraph, Unknowns
from fgmbs.losses import Cauchy
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status
from fgmbs.unknowns import Unknown, freed

T = 4
TARGETS = jnp.array([[0.3], [-0.2], [0.5], [1.5]])
SOLVER = LevenbergMarquardt(maxiter=60, tol=1e-12)
TRACES = []


# Residuals.


def valley(at, x):
    """Rosenbrock's valley, bent by a global parameter."""
    TRACES.append(None)
    return jnp.stack([x[1] - at.shared["a"][0] * x[0] ** 2, 1 - x[0] + at.series[0]])


def parameter(at):
    return at.shared["a"] - at.data


def logarithm(at, x):
    """Not a number beyond x = 0; a full Gauss–Newton step from far out lands there."""
    return jnp.log(x) - at.series


@jax.custom_jvp
def _uphill(x):
    return 1 + x


_uphill.defjvp(lambda primals, tangents: (_uphill(*primals), -tangents[0]))


def misleading(at, x):
    """Its derivative has the wrong sign: no step ever helps."""
    return _uphill(x)


def rounded(at, x):
    """Its last digits are lost in a difference of large numbers."""
    target, offset = at.series
    return jnp.stack([(offset + jnp.exp(x[0])) - offset - target, x[0] + 0.3])


def _banana(pendulum, targets=TARGETS, prior=1.5):
    factors = (
        Factor(valley, ("x",), Noise.sigma(jnp.array([0.2, 1.0])), series=targets, shared=("a",)),
        Factor(soft_equality, ("x",), Noise.sigma(0.5), "interval", loss=Cauchy(1.0)),
        Factor(parameter, (), Noise.sigma(0.5), "global", data=jnp.array([prior]), shared=("a",)),
    )
    return _with_unknown(pendulum, 1, factors, (("x", 2),), 0.1 * jnp.arange(T), jnp.asarray(0.1))


def _with_unknown(pendulum, size, *arguments):
    """A graph that shares a vector of unknown numbers, "a"."""
    (mechanism, shared), free = freed((pendulum, {"a": Unknown(np.zeros(size))}), lambda path: path[1].key)
    return TimeGraph(mechanism, *arguments, shared, free)


def _one_factor(pendulum, residual, series=None):
    factor = Factor(residual, ("x",), Noise.sigma(1.0), series=series)
    return TimeGraph(pendulum, (factor,), (("x", 1),), 0.1 * jnp.arange(2.0), jnp.asarray(0.1))


def _steps(*values):
    return Unknowns(jnp.array(values)[:, None], jnp.zeros(0))


START = Unknowns(jnp.tile(jnp.array([-1.2, 1.0]), (T, 1)), jnp.array([1.0]))


def _flat(x):
    return jnp.concatenate([x.steps.ravel(), x.globals])


@eqx.filter_jit
def solve(x, graph, solver=SOLVER):
    return solver.run(x, graph)


PARAMETERS = jnp.concatenate([TARGETS[:, 0], jnp.array([1.5, 5.0, 1.0])])
"""What the minimum depends on: targets, the prior, the square-root information of the valley."""


def _cost(flat, parameters):
    """The cost of the banana graph, written without the graph."""
    x, a = flat[: 2 * T].reshape(T, 2), flat[2 * T]
    targets, prior, info = parameters[:T], parameters[T], parameters[T + 1 :]
    cost = jnp.sum((info[0] * (x[:, 1] - a * x[:, 0] ** 2)) ** 2) + jnp.sum((info[1] * (1 - x[:, 0] + targets)) ** 2)
    return 0.5 * (cost + ((a - prior) / 0.5) ** 2 + jnp.sum(jnp.log1p(jnp.sum((x[1:] - x[:-1]) ** 2, axis=1) / 0.25)))


def _newton(parameters, flat):
    """The minimum to the last digit, from a point close to it."""

    def step(_, flat):
        return flat - jnp.linalg.solve(jax.hessian(_cost)(flat, parameters), jax.grad(_cost)(flat, parameters))

    return jax.lax.fori_loop(0, 8, step, flat)


@eqx.filter_jit
def look(x, graph):
    """What the graph says at a point."""
    return graph.factor_costs(x), SOLVER.optimality_fun(x, graph), graph.linearize(x)[0]


@pytest.fixture(scope="module")
def banana(pendulum):
    return _banana(pendulum)


@pytest.fixture(scope="module")
def solution(banana):
    return solve(START, banana)


# The minimum.


def test_minimum_is_the_one_that_scipy_finds(solution):
    x, state = solution
    cost = partial(_cost, parameters=PARAMETERS)
    reference = scipy.optimize.minimize(
        jax.jit(cost), _flat(START), jac=jax.jit(jax.grad(cost)), hess=jax.jit(jax.hessian(cost)), method="trust-exact"
    )
    exact = _newton(PARAMETERS, jnp.asarray(reference.x))
    # Where the cost cannot tell two points apart: a distance of √eps along the valley.
    np.testing.assert_allclose(_flat(x), exact, atol=1e-7)
    assert float(state.look.cost) == pytest.approx(float(cost(exact)), rel=1e-14)


def _curve(at, x):
    return at.shared["a"][:1] * jnp.exp(-at.shared["a"][1:] * at.t) + x - at.series


def _curve_rows(y, times, flat):
    x, (amplitude, rate) = flat[:-2], flat[-2:]
    return jnp.concatenate([(amplitude * jnp.exp(-rate * times) + x - y) / 0.1, (x[1:] - x[:-1]) / 0.05, x[:1] / 0.01])


def _first(at, x):
    return x


def test_curve_fit_equals_scipy_and_jaxopt(pendulum):
    """An exponential through noise on a random walk: steps and global parameters together."""
    times = 0.4 * jnp.arange(8)
    y = 2 * jnp.exp(-0.7 * times) + 0.1 * jnp.asarray(np.random.default_rng(5).standard_normal(8))
    factors = (
        Factor(_curve, ("x",), Noise.sigma(0.1), series=y[:, None], shared=("a",)),
        Factor(soft_equality, ("x",), Noise.sigma(0.05), "interval"),
        Factor(_first, ("x",), Noise.sigma(0.01), "initial"),
    )
    graph = _with_unknown(pendulum, 2, factors, (("x", 1),), times, jnp.asarray(0.4))
    start = Unknowns(jnp.zeros((8, 1)), jnp.array([1.0, 0.1]))
    x, state = solve(start, graph)
    assert state.status == Status.converged
    rows = jax.jit(partial(_curve_rows, y, times))
    reference = scipy.optimize.least_squares(
        rows, np.asarray(_flat(start)), jac=jax.jit(jax.jacfwd(rows)), xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    np.testing.assert_allclose(_flat(x), reference.x, atol=1e-8)
    dense = jaxopt.LevenbergMarquardt(rows, tol=1e-12, xtol=1e-14, gtol=1e-12, maxiter=100).run(_flat(start)).params
    np.testing.assert_allclose(_flat(x), dense, atol=1e-8)
    assert float(state.look.cost) == pytest.approx(reference.cost, rel=1e-12)


LIMIT = 0.9


def _within(pendulum, limit):
    graph = _banana(pendulum)
    (_, shared), free = freed((pendulum, {"a": Unknown(np.full(1, 0.5), upper=limit)}), lambda path: path[1].key)
    return eqx.tree_at(lambda graph: (graph.shared, graph.free), graph, (shared, free))


@pytest.mark.parametrize("linear", ["sequential", "sqrt", "dense"])
def test_bounds_hold_exactly(pendulum, solution, linear):
    assert solution.params.globals[0] > LIMIT + 0.05
    solver = LevenbergMarquardt(linear=linear, maxiter=60, tol=1e-12)
    x, state = solve(START._replace(globals=jnp.array([0.5])), _within(pendulum, LIMIT), solver)
    assert state.status == Status.converged and x.globals[0] == LIMIT
    cost = jax.jit(lambda steps: _cost(jnp.append(steps, LIMIT), PARAMETERS))
    exact = scipy.optimize.minimize(cost, np.ravel(x.steps), jac=jax.jit(jax.grad(cost)), method="BFGS").x
    np.testing.assert_allclose(np.ravel(x.steps), exact, atol=1e-5)
    np.testing.assert_allclose(jax.grad(cost)(jnp.ravel(x.steps)), 0, atol=1e-8)


def test_a_bound_that_is_not_met_changes_nothing(pendulum, solution):
    x, _ = solve(START._replace(globals=jnp.array([0.5])), _within(pendulum, 1e3))
    np.testing.assert_allclose(_flat(x), _flat(solution.params), atol=1e-9)


@pytest.mark.slow
def test_derivatives_on_a_bound_equal_differences(pendulum):
    """By targets and by the bound itself."""
    start = START._replace(globals=jnp.array([0.5]))

    @jax.jit
    def final(numbers):
        graph = _within(pendulum, jnp.asarray(LIMIT))
        where = lambda graph: (graph.factors[0].series, graph.free.upper)
        graph = eqx.tree_at(where, graph, (numbers[:T, None], numbers[T:]))
        return _flat(SOLVER.run(start, graph)[0])

    numbers = jnp.append(TARGETS[:, 0], LIMIT)
    slope = jax.jit(jax.jacfwd(final))(numbers)
    step = 1e-5 * jnp.eye(T + 1)
    differences = [(final(numbers + e) - final(numbers - e)) / 2e-5 for e in step]
    np.testing.assert_allclose(slope, np.transpose(differences), atol=1e-7)
    np.testing.assert_allclose(jax.jit(jax.jacrev(final))(numbers), slope, atol=1e-10)


@pytest.mark.parametrize("linear", ["sqrt", "dense"])
def test_linear_methods_find_the_same_minimum(linear, banana, solution):
    x, state = solve(START, banana, LevenbergMarquardt(maxiter=60, tol=1e-12, linear=linear))
    assert state.status == Status.converged
    np.testing.assert_allclose(_flat(x), _flat(solution.params), atol=1e-7)  # see above


# The state that it leaves.


def test_state_tells_how_it_went(banana, solution):
    x, state = solution
    assert state.status == Status.converged
    history = np.asarray(state.history)
    count = int(state.iter_num)
    assert 2 < count < 60
    assert np.all(np.isfinite(history[:count])) and np.all(np.isnan(history[count:]))
    assert np.all(np.diff(history[:count]) <= 0)
    assert history[0] == pytest.approx(float(look(START, banana)[0].sum()), rel=1e-13)
    assert history[count - 1] == float(state.look.cost)
    costs, gradient, system = look(state.point, banana)
    assert float(costs.sum()) == pytest.approx(float(state.look.cost), rel=1e-12)
    np.testing.assert_allclose(_flat(gradient), 0, atol=1e-7)
    np.testing.assert_allclose(system.step_jacobian, state.look.system.step_jacobian, atol=1e-12)
    np.testing.assert_allclose(_flat(state.gradient), _flat(gradient), atol=1e-11)


def test_update_is_the_identity_after_convergence(banana, solution):
    again = eqx.filter_jit(SOLVER.update)(*solution, banana)
    for before, after in zip(jax.tree.leaves(solution), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(before, after)


def test_iteration_limit(banana, solution):
    solver = LevenbergMarquardt(maxiter=3)
    x, state = solve(START, banana, solver)
    assert state.status == Status.iteration_limit
    assert int(state.iter_num) == 3
    assert float(look(x, banana)[0].sum()) == pytest.approx(float(state.look.cost), rel=1e-12)
    np.testing.assert_array_equal(state.history, solution.state.history[:3])


def test_new_values_do_not_compile_again(banana, pendulum):
    solve(START, banana)
    before = len(TRACES)
    other = _banana(pendulum.with_parameters({"L": 2.0}), TARGETS + 1.0, 2.0)
    x, _ = solve(Unknowns(START.steps + 1, START.globals), other)
    assert len(TRACES) == before
    assert np.all(np.isfinite(_flat(x)))


# Where residuals end.


def test_trial_beyond_a_wall_is_rejected_and_damped(pendulum):
    graph = _one_factor(pendulum, logarithm, jnp.array([[0.0], [0.5]]))
    start = _steps(20.0, 30.0)
    x, state = solve(start, graph)
    assert state.status == Status.converged
    np.testing.assert_allclose(x.steps[:, 0], np.exp([0.0, 0.5]), rtol=1e-10)
    history = np.asarray(state.history)[: int(state.iter_num)]
    assert np.all(np.isfinite(history)) and np.all(np.diff(history) <= 0)
    assert history[1] == history[0], "the first trial lies beyond the wall"


def test_one_bad_member_leaves_the_others_untouched(pendulum):
    series = jnp.array([[0.0], [0.5]])
    starts = jnp.array([[20.0, 30.0], [-1.0, 2.0], [0.1, 4.0]])

    @eqx.filter_jit
    def together(starts):
        return jax.vmap(lambda x: solve(Unknowns(x[:, None], jnp.zeros(0)), _one_factor(pendulum, logarithm, series)))(
            starts
        )

    x, state = together(starts)
    assert np.array_equal(state.status == Status.non_finite, [False, True, False])
    np.testing.assert_array_equal(x.steps[1, :, 0], starts[1])
    for k in (0, 2):
        alone = solve(_steps(*starts[k]), _one_factor(pendulum, logarithm, series))
        for ours, theirs in zip(jax.tree.leaves((x, state)), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(ours[k], theirs, rtol=1e-12, atol=1e-12)


def test_start_that_is_not_finite_is_reported_and_returned(pendulum):
    start = _steps(-1.0, 2.0)
    x, state = solve(start, _one_factor(pendulum, logarithm, jnp.zeros((2, 1))))
    assert state.status == Status.non_finite
    assert int(state.iter_num) == 1
    np.testing.assert_array_equal(x.steps, start.steps)


def test_steps_that_never_help_end_as_stalled(pendulum):
    x, state = solve(_steps(0.0, 0.0), _one_factor(pendulum, misleading))
    assert state.status == Status.stalled
    np.testing.assert_array_equal(x.steps, 0.0)


def test_rounding_of_a_cost_does_not_count_against_a_step(pendulum):
    """Near the minimum its last digits say nothing; steps that were damped for them would end short of it."""
    for target in np.linspace(0.2, 3, 40):
        graph = _one_factor(pendulum, rounded, series=jnp.tile(jnp.array([target, 100.0]), (2, 1)))
        x, state = solve(_steps(0.0, 0.0), graph)
        assert (state.status, state.damping) == (Status.converged, 0)
        # (eˣ − s) eˣ + x + 0.3 = 0
        root = scipy.optimize.brentq(lambda x, s=target: (np.exp(x) - s) * np.exp(x) + x + 0.3, -2, 2, xtol=1e-15)
        np.testing.assert_allclose(x.steps, root, atol=1e-8)


def test_directions_without_information_stay_where_they_are(pendulum):
    def difference(at, x):
        return x[:1] - x[1:] - 2

    factor = Factor(difference, ("x",), Noise.sigma(1.0))
    graph = TimeGraph(pendulum, (factor,), (("x", 2),), 0.1 * jnp.arange(2.0), jnp.asarray(0.1))
    x, state = solve(Unknowns(jnp.array([[1.0, 1.0], [0.0, 5.0]]), jnp.zeros(0)), graph)
    assert state.status == Status.converged
    np.testing.assert_allclose(x.steps, [[2.0, 0.0], [3.5, 1.5]], atol=1e-6)


# Derivatives of the solution.


def _sensitive(parameters, pendulum, start):
    """The solution as a function of data of all kinds."""
    graph = _banana(pendulum, parameters[:T, None], parameters[T])
    graph = eqx.tree_at(lambda graph: graph.factors[0].noise.sqrt_info, graph, parameters[T + 1 :])
    return _flat(SOLVER.run(start, graph).params)


@pytest.fixture(scope="module")
def derivatives(pendulum, solution):
    """Of the solver, and differences of Newton's method on the dense problem."""
    h = 1e-4 * jnp.eye(PARAMETERS.size)
    weights = jnp.asarray(np.random.default_rng(1).standard_normal(2 * T + 1))

    @jax.jit
    def evaluate(parameters, start):
        function = partial(_sensitive, pendulum=pendulum, start=start)
        exact = partial(_newton, flat=_flat(start))
        gradient = jax.grad(lambda parameters: weights @ function(parameters))
        differences = jax.lax.map(lambda d: (exact(parameters + d) - exact(parameters - d)) / 2e-4, h)

        def mixed(pair):
            """Central difference in two directions, over 2e-3 each."""
            d, e = 10 * pair
            corners = exact(parameters + d + e) - exact(parameters + d - e)
            return weights @ (corners - exact(parameters - d + e) + exact(parameters - d - e)) / 4e-6

        count = PARAMETERS.size
        pairs = jnp.stack([jnp.repeat(h, count, axis=0), jnp.tile(h, (count, 1))], axis=1)
        second = jax.lax.map(mixed, pairs).reshape(count, count)
        return {
            "differences": differences.T,
            "forward": jax.jacfwd(function)(parameters),
            "reverse": jax.jacrev(function)(parameters),
            "second": jax.jacfwd(gradient)(parameters),
            "second_differences": second,
        }

    return jax.tree.map(np.asarray, evaluate(PARAMETERS, solution.params))


def test_forward_and_reverse_derivatives_equal_differences(derivatives):
    scale = np.max(np.abs(derivatives["differences"]))
    np.testing.assert_allclose(derivatives["forward"], derivatives["differences"], atol=1e-6 * scale)
    np.testing.assert_allclose(derivatives["reverse"], derivatives["forward"], atol=1e-11 * scale)
    assert np.all(np.any(np.abs(derivatives["forward"]) > 1e-4, axis=0))


@pytest.mark.slow
def test_cost_at_the_minimum_changes_as_the_data_say(pendulum):
    """By the envelope theorem; of a graph without global parameters, unlike the ones above."""
    series, start = jnp.array([[0.1], [0.4]]), jnp.array([[1.0], [2.0]])

    @jax.jit
    def derivatives(series):
        def solved(series):
            # Both steps are measured by the logarithm and pulled together, so that some cost is left.
            graph = _one_factor(pendulum, logarithm, series)
            pull = Factor(soft_equality, ("x",), Noise.sigma(0.5), "interval")
            graph = eqx.tree_at(lambda graph: graph.factors, graph, (*graph.factors, pull))
            x, state = SOLVER.run(Unknowns(start, jnp.zeros(0)), graph)
            return x.steps[:, 0], state.look.cost

        h = 1e-4 * jnp.eye(2)[:, :, None]
        differences = jax.vmap(
            lambda d: jax.tree.map(lambda a, b: (a - b) / 2e-4, solved(series + d), solved(series - d))
        )
        return jax.jacfwd(solved)(series), jax.jacrev(solved)(series), differences(h)

    (forward, forward_cost), (reverse, reverse_cost), (differences, cost_differences) = derivatives(series)
    np.testing.assert_allclose(forward[:, :, 0], differences.T, atol=1e-4)  # √eps over 2e-4
    np.testing.assert_allclose(reverse, forward, atol=1e-12)
    np.testing.assert_allclose(forward_cost[:, 0], cost_differences, atol=1e-7)
    np.testing.assert_allclose(reverse_cost, forward_cost, atol=1e-12)


def test_second_derivatives_equal_differences(derivatives):
    scale = np.max(np.abs(derivatives["second_differences"]))
    # Truncation: 1e-6 times fourth derivatives; rounding: 1e-15 / 4e-6.
    np.testing.assert_allclose(derivatives["second"], derivatives["second_differences"], atol=1e-4 * scale)
    np.testing.assert_allclose(derivatives["second"], derivatives["second"].T, atol=1e-9 * scale)
