"""Levenberg–Marquardt on recordings that share θ: against Newton and SciPy on everything at once, and runs alone."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import fgmbs
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import soft_equality
from fgmbs.graph.recordings import JointGraph
from fgmbs.graph.time_graph import TimeGraph, Unknowns
from fgmbs.inputs import Disturbance
from fgmbs.losses import Cauchy
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.smooth.beginning import modelled
from fgmbs.sensors import Position
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status
from fgmbs.unknowns import Unknown, freed

R, T = 3, 4
SOLVER = LevenbergMarquardt(linear="sqrt", maxiter=60, tol=1e-12)
TARGETS = jnp.asarray(np.random.default_rng(4).uniform(-0.5, 1.5, (R, T)))
NUMBERS = jnp.concatenate([TARGETS.ravel(), jnp.array([1.5, 3.0])])
"""What the minimum depends on: targets, the prior of a, its upper bound."""
START = Unknowns(jnp.tile(jnp.array([-1.2, 1.0]), (R, T, 1)), jnp.array([0.5]))


def valley(at, x):
    """Rosenbrock's valley, bent by a global parameter."""
    return jnp.stack([x[1] - at.shared["a"][0] * x[0] ** 2, 1 - x[0] + at.series])


def parameter(at):
    return at.shared["a"] - at.data


def flat_valley(at, x):
    return jnp.stack([x[1] - x[0] ** 2, 1 - x[0] + at.series])


def graph_of(mechanism, upper, prior, targets):
    """One recording; without a bound, nothing is shared."""
    factors = [
        Factor(valley, ("x",), Noise.sigma(jnp.array([0.2, 1.0])), series=targets, shared=("a",)),
        Factor(soft_equality, ("x",), Noise.sigma(0.5), "interval", loss=Cauchy(1.0)),
        Factor(parameter, (), Noise.sigma(0.5), "global", data=prior, shared=("a",)),
    ]
    rest = (("x", 2),), 0.1 * jnp.arange(T), jnp.asarray(0.1)
    if upper is None:
        first = Factor(flat_valley, ("x",), Noise.sigma(jnp.array([0.2, 1.0])), series=targets)
        return TimeGraph(mechanism, (first, factors[1]), *rest)
    unknown = {"a": Unknown(np.full(1, 0.5), upper=5.0)}
    (mechanism, shared), free = freed((mechanism, unknown), lambda path: path[1].key)
    graph = TimeGraph(mechanism, tuple(factors), *rest, shared, free)
    return eqx.tree_at(lambda graph: graph.free.upper, graph, jnp.reshape(upper, 1))


def joint_graph(mechanism, numbers):
    targets, prior, upper = numbers[:-2].reshape(-1, T), numbers[-2:-1], numbers[-1]
    return JointGraph(eqx.filter_vmap(partial(graph_of, mechanism, upper, prior))(targets))


def flat(x):
    return jnp.concatenate([x.steps.ravel(), x.globals])


@eqx.filter_jit
def solve(x, graph, solver=SOLVER):
    return solver.run(x, graph)


def cost_by_hand(flat, numbers):
    """The cost of all recordings, written without the graph."""
    x, a = flat[:-1].reshape(R, T, 2), flat[-1]
    targets, prior = numbers[:-2].reshape(R, T), numbers[-2]
    rows = ((x[..., 1] - a * x[..., 0] ** 2) / 0.2) ** 2 + (1 - x[..., 0] + targets) ** 2
    jumps = jnp.log1p(jnp.sum((x[:, 1:] - x[:, :-1]) ** 2, axis=-1) / 0.25)
    return 0.5 * (jnp.sum(rows) + jnp.sum(jumps) + ((a - prior) / 0.5) ** 2)


@jax.jit
def newton(flat, numbers, held):
    """The minimum to the last digit, from a point close to it; a is on its bound, or not."""
    free = jnp.ones(flat.size).at[-1].set(1.0 - held)

    def step(_, flat):
        gradient, hessian = free * jax.grad(cost_by_hand)(flat, numbers), jax.hessian(cost_by_hand)(flat, numbers)
        return flat - jnp.linalg.solve(jnp.where(free * free[:, None] == 1, hessian, jnp.eye(flat.size)), gradient)

    return jax.lax.fori_loop(0, 10, step, jnp.where(free == 1, flat, numbers[-1]))


@pytest.mark.parametrize("limit", [3.0, 0.8], ids=["inside", "on the bound"])
@pytest.mark.parametrize("linear", ["sqrt", "sequential", "dense"])
def test_minimum_is_that_of_everything_at_once(pendulum, linear, limit):
    numbers = NUMBERS.at[-1].set(limit)
    x, state = solve(START, joint_graph(pendulum, numbers), LevenbergMarquardt(linear=linear, maxiter=60, tol=1e-12))
    assert state.status == Status.converged
    assert (x.globals[0] == limit) == (limit < 1)
    exact = newton(flat(x), numbers, limit < 1)
    np.testing.assert_allclose(flat(x), exact, atol=1e-9)
    np.testing.assert_allclose(state.look.cost, cost_by_hand(exact, numbers), rtol=1e-12)
    history = np.asarray(state.history)[: int(state.iter_num)]
    assert np.all(np.diff(history) <= 0) and history[-1] == state.look.cost


@pytest.mark.slow
def test_final_factorization_is_that_of_the_system_at_the_solution(pendulum):
    """Held by the state or not."""

    @eqx.filter_jit
    def covariances(graph, solver):
        _, state = solver.run(START, graph)
        return solver.factorization(state).marginals(), state.look.system.information().to_dense()

    for holds in (False, True):
        solver = LevenbergMarquardt(linear="sqrt", maxiter=60, tol=1e-12, holds_factor=holds)
        marginals, A = covariances(joint_graph(pendulum, NUMBERS), solver)
        cov = np.linalg.inv(A)
        np.testing.assert_allclose(marginals.globals, cov[-1:, -1:], rtol=1e-9)
        np.testing.assert_allclose(marginals.steps[2, 3], cov[-3:-1, -3:-1], rtol=1e-9)


def test_one_recording_is_the_graph_alone(pendulum):
    numbers = jnp.concatenate([TARGETS[0], NUMBERS[-2:]])
    start = Unknowns(START.steps[:1], START.globals)
    joint, joint_state = solve(start, joint_graph(pendulum, numbers))
    graph = graph_of(pendulum, numbers[-1], numbers[-2:-1], TARGETS[0])
    alone, state = solve(Unknowns(START.steps[0], START.globals), graph)
    np.testing.assert_allclose(flat(joint), flat(alone), atol=1e-11)
    assert joint_state.iter_num == state.iter_num
    np.testing.assert_allclose(joint_state.history, state.history, rtol=1e-11)


def test_recordings_that_share_nothing_are_solved_as_alone(pendulum):
    start = START._replace(globals=jnp.zeros(0))
    joint = JointGraph(eqx.filter_vmap(partial(graph_of, pendulum, None, None))(TARGETS))
    x, state = solve(start, joint)
    assert state.status == Status.converged
    for k in range(R):
        graph = graph_of(pendulum, None, None, TARGETS[k])
        alone, _ = solve(Unknowns(start.steps[k], start.globals), graph)
        np.testing.assert_allclose(x.steps[k], alone.steps, atol=1e-9)


def test_update_is_the_identity_after_convergence(pendulum):
    graph = joint_graph(pendulum, NUMBERS)
    solution = solve(START, graph)
    again = eqx.filter_jit(SOLVER.update)(*solution, graph)
    for before, after in zip(jax.tree.leaves(solution), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [3.0, 0.8], ids=["inside", "on the bound"])
def test_derivatives_equal_differences(pendulum, limit):
    """By targets, by the prior and by the bound, which every recording has a copy of."""
    numbers = NUMBERS.at[-1].set(limit)
    start = solve(START, joint_graph(pendulum, numbers)).params

    def final(numbers):
        return flat(SOLVER.run(start, joint_graph(pendulum, numbers)).params)

    forward, reverse = jax.jit(lambda numbers: (jax.jacfwd(final)(numbers), jax.jacrev(final)(numbers)))(numbers)
    step = 1e-4 * np.eye(numbers.size)
    sides = [[newton(flat(start), numbers + sign * e, limit < 1) for e in step] for sign in (1, -1)]
    differences = np.transpose(np.subtract(*sides) / 2e-4)
    np.testing.assert_allclose(forward, differences, atol=1e-6 * np.max(np.abs(differences)))
    np.testing.assert_allclose(reverse, forward, atol=1e-10)
    assert np.all(np.any(np.abs(differences[:, :-1]) > 1e-4, axis=0)) or limit < 1


# A mechanism.


CAMERA = (Position("cam", point="tip", sigma=2e-3, bias=Unknown(sigma=0.1)),)
LENGTH = 1.03


@pytest.fixture(scope="module")
def seen(pendulum):
    """What a camera saw of a pendulum that was let go, 18 steps of 10 ms and 13 of 20 ms: [(dt, recording, motion)]."""
    found = []
    for seed, (dt, steps, y) in enumerate([(0.01, 18, -0.4), (0.02, 13, -0.8)]):
        motion = fgmbs.simulate(pendulum, dt * (steps - 1), dt, start={"y_tip": y})
        found.append((dt, fgmbs.readings(pendulum, motion, CAMERA, seed=seed), motion))
    return found


def joint_problem(mechanism, seen, scale):
    """(model, time steps, data, x) of all that was seen; the motion is scaled as is the guess of the length."""
    made = []
    for dt, one, motion in seen:
        problem = fgmbs.prepare_smooth(mechanism, one, CAMERA, (Disturbance(1e-2),), dt=dt, start={})
        first = jnp.concatenate([motion.q[0], motion.dq[0]])
        model, data = modelled(problem, nominal_delays(problem.sensors), first)
        made.append((model, data._replace(prior_weights=data.prior_weights.at[0].set(0.0))))
    most = max(len(data.times) for _, data in made)
    parts = []
    for (_, data), (_, _, motion) in zip(made, seen, strict=True):
        x = scale * jnp.concatenate([motion.q, motion.dq], axis=1)
        x = jnp.concatenate([x, jnp.repeat(x[-1:], len(data.times) - len(x), axis=0)])
        parts.append(padded(data, x, most))
    data, x = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    dts = jnp.stack([model.dt for model, _ in made])
    return made[0][0], dts, data._replace(prior=x), x


def padded(data, x, steps):
    """With more steps that nothing links: they stay where they are."""
    more = steps - len(x)
    if more == 0:
        return data, x
    data = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.repeat(leaf[-1:], more, axis=0)]), data)
    new = jnp.arange(steps) >= steps - more
    samples = tuple(part._replace(mask=jnp.where(new[:, None, None], 0.0, part.mask)) for part in data.samples)
    data = data._replace(linked=jnp.where(new, 0.0, data.linked), samples=samples)
    data = data._replace(prior_weights=jnp.where(new[:, None], 1.0, data.prior_weights))
    return data, jnp.concatenate([x, jnp.repeat(x[-1:], more, axis=0)])


@pytest.fixture(scope="module")
def pendulums(pendulum, seen):
    """Of unknown length."""
    return joint_problem(pendulum.with_parameters({"L": Unknown(LENGTH, sigma=0.1, log=True)}), seen, LENGTH)


def graph_in_time(model, dt, x, data):
    return eqx.tree_at(lambda model: model.dt, model, dt).graph(x, data)


def joint_pendulums(model, dts, x, data):
    return JointGraph(eqx.filter_vmap(graph_in_time, in_axes=(None, 0, Unknowns(0, None), 0))(model, dts, x, data))


@eqx.filter_jit
def solve_pendulums(model, dts, x, data):
    return SOLVER.run(x, joint_pendulums(model, dts, x, data))


@pytest.mark.slow
def test_recordings_of_a_mechanism_are_solved_as_scipy_does_all_at_once(pendulums):
    """Rows from the graphs of the single recordings, along moves of their steps on the constraints."""
    model, dts, data, steps = pendulums
    start = Unknowns(steps, model.free.value)
    x, state = solve_pendulums(model, dts, start, data)
    assert state.status == Status.converged

    @jax.jit
    def of_one(dt, data, steps, delta, theta):
        """(rows of the recording, rows of θ)."""
        here = Unknowns(steps, start.globals)
        graph = graph_in_time(model, dt, here, data)
        residuals = graph.residuals(graph.moved(here, Unknowns(delta.reshape(-1, 2), theta)))
        parts = list(zip(graph.factors, residuals, strict=True))
        split = [[r.ravel() for factor, r in parts if (factor.scope == "global") == alone] for alone in (False, True)]
        return tuple(map(jnp.concatenate, split))

    slopes = jax.jit(jax.jacfwd(of_one, (3, 4)))
    size, p = 2 * steps.shape[1], model.free.size

    def arguments(delta):
        for k in range(2):
            own = jax.tree.map(lambda leaf, k=k: leaf[k], (dts, data, steps))
            yield *own, jnp.asarray(delta[k * size : (k + 1) * size]), jnp.asarray(delta[2 * size :])

    def rows(delta):
        (first, alone), (second, _) = (of_one(*own) for own in arguments(delta))
        return np.concatenate([first, second, alone])

    def jacobian(delta):
        ((first, t_first), (_, t_alone)), ((second, t_second), _) = (slopes(*own) for own in arguments(delta))
        first, second = np.asarray(first), np.asarray(second)
        return np.block(
            [
                [first, np.zeros_like(first), np.asarray(t_first)],
                [np.zeros_like(second), second, np.asarray(t_second)],
                [np.zeros((len(t_alone), 2 * size)), np.asarray(t_alone)],
            ]
        )

    tight = dict(xtol=1e-15, ftol=1e-15, gtol=1e-15, method="lm")
    best = scipy.optimize.least_squares(rows, np.zeros(2 * size + p), jacobian, **tight)
    assert state.look.cost == pytest.approx(best.cost, rel=1e-10)
    np.testing.assert_allclose(x.globals, start.globals + best.x[2 * size :], atol=1e-9)
    joint = joint_pendulums(model, dts, start, data)
    moved = joint.moved(start, Unknowns(jnp.asarray(best.x[: 2 * size].reshape(2, -1, 2)), x.globals - start.globals))
    np.testing.assert_allclose(x.steps, moved.steps, atol=1e-9)
    # One alone finds something else.
    alone, _ = solve_pendulums(model, dts[:1], Unknowns(steps[:1], start.globals), jax.tree.map(lambda a: a[:1], data))
    assert np.max(np.abs(alone.globals - x.globals)) > 1e-4


@pytest.mark.slow
def test_more_padding_changes_nothing(pendulums):
    model, dts, data, steps = pendulums
    x, _ = solve_pendulums(model, dts, Unknowns(steps, model.free.value), data)
    count = steps.shape[1]
    more = [padded(*jax.tree.map(lambda leaf, k=k: leaf[k], (data, steps)), count + 3) for k in range(2)]
    data, steps = jax.tree.map(lambda *leaves: jnp.stack(leaves), *more)
    longer, _ = solve_pendulums(model, dts, Unknowns(steps, model.free.value), data._replace(prior=steps))
    np.testing.assert_allclose(longer.globals, x.globals, atol=1e-9)
    np.testing.assert_allclose(longer.steps[:, :count], x.steps, atol=1e-9)


@pytest.mark.slow  # 1 min of compilation
def test_derivatives_of_a_mechanism_equal_differences(pendulum, seen):
    """By readings of either recording, the centre of a prior, and gravity; moving in charts."""
    model, dts, data, steps = joint_problem(pendulum, seen, 1.0)
    start = solve_pendulums(model, dts, Unknowns(steps, model.free.value), data)[0]

    def final(numbers):
        (samples,) = data.samples
        values = samples.values.at[0, 7, 0, 0].add(numbers[0]).at[1, 4, 0, 1].add(numbers[1])
        gravity = model.mechanism.parameters["gravity.y"] * (1 + numbers[3])
        mechanism = model.mechanism.with_parameters({"gravity.y": gravity}).evaluated()
        moved = (model.free.value.at[0].add(numbers[2]), mechanism)
        where = lambda model: (model.free.value, model.mechanism)
        known = data._replace(samples=(samples._replace(values=values),))
        graph = joint_pendulums(eqx.tree_at(where, model, moved), dts, start, known)
        x = SOLVER.run(start, graph).params
        return jnp.concatenate([x.globals, x.steps[0, 3], x.steps[1, -1], x.steps[1, 5]])

    zero = jnp.zeros(4)
    forward, reverse = jax.jit(lambda numbers: (jax.jacfwd(final)(numbers), jax.jacrev(final)(numbers)))(zero)
    value, h = jax.jit(final), 1e-5
    differences = np.transpose([(value(h * e) - value(-h * e)) / (2 * h) for e in np.eye(4)])
    np.testing.assert_allclose(forward, differences, atol=1e-6 * np.max(np.abs(differences)))
    np.testing.assert_allclose(reverse, forward, atol=1e-9 * np.max(np.abs(forward)))
    assert np.all(np.any(np.abs(forward) > 1e-5, axis=0))
