"""The time graph against the same problem written out row by row, and differentiated as a whole."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import prior, soft_equality
from fgmbs.graph.time_graph import TimeGraph, Unknowns
from fgmbs.io.planar.load import load
from fgmbs.losses import Cauchy, Huber, Tukey
from fgmbs.unknowns import Unknown, freed

T, NX, P, DT = 4, 3, 3, 0.1
PENDULUM = Path(__file__).parents[2] / "configs" / "mechanisms" / "pendulum.yaml"

rng = np.random.default_rng(0)
X0 = rng.standard_normal(2)
COV = np.array([[2.0, 0.6], [0.6, 1.0]])
READINGS = rng.standard_normal((T, 2))
MASK = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.5], [0.0, 0.0]])
MATRICES = rng.standard_normal((T, 2, 2))
INPUTS = rng.standard_normal((T, 1))
SWITCH = np.array([[9.0, 9.0], [1.0, 0.5], [1.0, 1.0], [0.3, 1.0]])  # row 0 belongs to no interval

# Residuals as a user writes them: one function each.


def reading(at, v, x):
    """Reads its variables in another order than the graph stores them."""
    return jnp.stack([x[0] * v[0] - at.shared["b"] * at.series[0], jnp.sin(x[1]) + at.shared["a"][1] - at.series[1]])


def squares(at, x):
    return x**2 * at.data - at.t


def transition(at, x0, v0, x1, v1):
    return x1 - x0 - at.dt * jnp.stack([v0[0] * x1[1], v1[0] + at.series[0] * at.t]) * at.shared["a"]


def pull(at, v0, v1):
    return jnp.stack([v1[0] - v0[0] ** 3, v0[0] * v1[0] - at.t])


def parameter_prior(at):
    return jnp.append(at.shared["a"] - at.data, at.shared["b"] ** 2 - at.shared["a"][0])


def _graph():
    factors = (
        Factor(parameter_prior, (), Noise.sigma(0.5), "global", data=jnp.ones(2), shared=("a", "b")),
        Factor(
            transition, ("x", "v"), Noise.sigma(jnp.array([0.3, 2.0])), "interval", jnp.asarray(INPUTS), shared=("a",)
        ),
        Factor(prior, ("x",), Noise.covariance(jnp.asarray(COV)), "initial", data=jnp.asarray(X0)),
        Factor(
            reading,
            ("v", "x"),
            Noise.sigma(0.8),
            "step",
            jnp.asarray(READINGS),
            weights=jnp.asarray(MASK),
            shared=("b", "a"),
            loss=Huber(0.7),
        ),
        Factor(squares, ("x",), Noise.sigma(1.5), data=jnp.array(0.7), weights=jnp.asarray(MATRICES), loss=Cauchy(2.0)),
        Factor(pull, ("v",), Noise.sigma(1.0), "interval", weights=jnp.asarray(SWITCH), loss=Tukey(5.0)),
    )
    times = 1.0 + DT * jnp.arange(T)
    sizes = (("x", 2), ("v", 1))
    unknown = {"b": Unknown(0.0), "a": Unknown([0.3, -0.2])}
    model, free = freed((load(PENDULUM), unknown), lambda path: path[1].key)
    return TimeGraph(model[0], factors, sizes, times, jnp.asarray(DT), model[1], free)


GRAPH = _graph()
X = Unknowns(jnp.asarray(rng.standard_normal((T, NX))), jnp.roll(jnp.asarray(rng.standard_normal(P)), -1))
FLAT = jnp.concatenate([X.steps.ravel(), X.globals])


def _rows(flat):
    """Whitened residuals of every factor at every place: (scope, place, loss, residual), written without the graph."""
    steps, (*a, b) = flat[: T * NX].reshape(T, NX), flat[T * NX :]
    x, v, a = steps[:, :2], steps[:, 2], jnp.stack(a)
    rows = [
        ("global", 0, None, jnp.concatenate([a - 1, jnp.stack([b**2 - a[0]])]) / 0.5),
        ("initial", 0, None, jnp.asarray(np.linalg.inv(np.linalg.cholesky(COV))) @ (x[0] - X0)),
    ]
    for k in range(T):
        t = 1.0 + DT * k
        y = READINGS[k]
        r = jnp.stack([x[k, 0] * v[k] - b * y[0], jnp.sin(x[k, 1]) + a[1] - y[1]])
        rows.append(("step", k, GRAPH.factors[3].loss, MASK[k] * r / 0.8))
        rows.append(("step", k, GRAPH.factors[4].loss, MATRICES[k] @ (x[k] ** 2 * 0.7 - t) / 1.5))
        if k:
            drift = jnp.stack([v[k - 1] * x[k, 1], v[k] + INPUTS[k, 0] * t])
            r = x[k] - x[k - 1] - DT * drift * a
            rows.append(("interval", k - 1, None, r / np.array([0.3, 2.0])))
            r = jnp.stack([v[k] - v[k - 1] ** 3, v[k - 1] * v[k] - t])
            rows.append(("interval", k - 1, GRAPH.factors[5].loss, SWITCH[k] * r))
    return rows


def _cost(flat):
    return sum(0.5 * (r @ r if loss is None else loss.rho(r @ r)) for _, _, loss, r in _rows(flat))


@jax.jit
def _by_hand(flat):
    """Reweighted residuals and their Jacobian, cost, gradient and Hessian."""
    residual = lambda flat: [r for *_, r in _rows(flat)]
    r, J = residual(flat), jax.jacrev(residual)(flat)
    weights = [1.0 if loss is None else jnp.sqrt(loss.weight(r @ r)) for _, _, loss, r in _rows(flat)]
    pairs = [(w * r, w * J) for w, r, J in zip(weights, r, J, strict=True)]
    return pairs, _cost(flat), jax.grad(_cost)(flat), jax.hessian(_cost)(flat)


@eqx.filter_jit
def _by_graph(graph, x):
    return graph.linearize(x), graph.cost(x), graph.gradient(x), graph.hessian(x).to_dense(), graph.factor_costs(x)


@pytest.fixture(scope="module")
def by_hand():
    return jax.tree.map(np.asarray, _by_hand(FLAT))


@pytest.fixture(scope="module")
def by_graph():
    return _by_graph(GRAPH, X)


def _flat(x):
    steps, globals_ = x
    return np.concatenate([np.ravel(steps), globals_])


def _stacked(system):
    """Rows of a linearization by scope and place: {(scope, place): (r, J)}."""
    rows = {}

    def add(scope, place, r, blocks, arrow):
        J = np.zeros((len(r), T * NX + P))
        for k, block in blocks:
            J[:, k * NX : (k + 1) * NX] = block
        J[:, T * NX :] = arrow
        rows[scope, place] = np.asarray(r), J

    add("initial", 0, system.initial_residual, [(0, system.initial_jacobian)], system.initial_arrow)
    add("global", 0, system.global_residual, [], system.global_jacobian)
    for k in range(T):
        add("step", k, system.step_residual[k], [(k, system.step_jacobian[k])], system.step_arrow[k])
    for k in range(T - 1):
        blocks = [(k, system.pair_start[k]), (k + 1, system.pair_end[k])]
        add("interval", k, system.pair_residual[k], blocks, system.pair_arrow[k])
    return rows


def by_steps(system):
    return system.initial_jacobian, system.step_jacobian, system.pair_start, system.pair_end


def test_jacobian_by_steps_alone_is_that_of_look():
    blocks, system = jax.jit(lambda x: (GRAPH.jacobian(x), GRAPH.look(x).system))(X)
    for ours, theirs in zip(blocks, by_steps(system), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-13)


def test_rows_are_those_of_the_dense_jacobian(by_hand, by_graph):
    pairs, *_ = by_hand
    (system, _), *_ = by_graph
    expected = {}
    for (scope, place, *_), (r, J) in zip(_rows(FLAT), pairs, strict=True):
        before = expected.get((scope, place), (np.zeros(0), np.zeros((0, FLAT.size))))
        expected[scope, place] = (np.r_[before[0], r], np.vstack([before[1], J]))
    actual = _stacked(system)
    assert actual.keys() == expected.keys()
    for key, (r, J) in expected.items():
        np.testing.assert_allclose(actual[key][0], r, atol=1e-13, err_msg=str(key))
        np.testing.assert_allclose(actual[key][1], J, atol=1e-13, err_msg=str(key))


def test_robust_losses_are_active_and_masks_remove_rows(by_graph):
    """Otherwise the comparisons above would prove less than they seem to."""
    for scope, place, loss, r in _rows(FLAT):
        if loss is not None and (scope, place) == ("step", 0):
            assert loss.weight(r @ r) < 0.99
    (system, _), *_ = by_graph
    assert not np.any(system.step_jacobian[3, :2]) and not np.any(system.step_residual[3, :2])
    assert np.any(system.step_jacobian[0, :2])


def test_gradient_of_the_robust_cost_is_that_of_the_linearization(by_hand, by_graph):
    _, _, gradient, _ = by_hand
    (system, _), _, graph_gradient, *_ = by_graph
    np.testing.assert_allclose(_flat(system.gradient()), gradient, atol=1e-12)
    np.testing.assert_allclose(_flat(graph_gradient), gradient, atol=1e-12)


def test_hessian_is_the_dense_one(by_hand, by_graph):
    *_, hessian = by_hand
    *_, graph_hessian, _ = by_graph
    np.testing.assert_allclose(graph_hessian, hessian, atol=1e-12 * np.max(np.abs(hessian)))


def test_costs_by_factor_sum_to_the_cost(by_hand, by_graph):
    _, cost, *_ = by_hand
    (_, linearized_cost), graph_cost, *_, costs = by_graph
    np.testing.assert_allclose(graph_cost, cost, rtol=1e-13)
    np.testing.assert_allclose(linearized_cost, cost, rtol=1e-13)
    np.testing.assert_allclose(np.sum(costs), cost, rtol=1e-13)
    parts = {f.name: c for f, c in zip(GRAPH.factors, costs, strict=True)}
    rows = [r for scope, _, _, r in _rows(FLAT) if scope == "initial"]
    assert float(parts["prior"]) == pytest.approx(float(rows[0] @ rows[0]) / 2)


def test_a_part_of_the_steps_at_a_time_gives_the_same(monkeypatch, by_graph):
    monkeypatch.setattr("fgmbs.graph.places.TOGETHER", 3)
    in_parts = jax.jit(lambda x: GRAPH.linearize(x))(X)
    for ours, all_at_once in zip(jax.tree.leaves(in_parts), jax.tree.leaves(by_graph[0]), strict=True):
        np.testing.assert_allclose(ours, all_at_once, rtol=1e-13, atol=1e-13)


def test_other_rows_are_another_graph_of_the_same_structure():
    head = GRAPH.with_rows(jax.tree.map(lambda leaf: leaf[:2], GRAPH.rows))
    assert head.num_steps == 2
    assert jax.tree.structure(head) == jax.tree.structure(GRAPH)
    assert head.factors[1].series.shape == (2, 1)
    np.testing.assert_array_equal(head.times, GRAPH.times[:2])
    same = GRAPH.with_rows(GRAPH.rows)
    assert all(a is b for a, b in zip(jax.tree.leaves(same), jax.tree.leaves(GRAPH), strict=True))


def test_pack_and_unpack_are_inverse():
    values = {"v": jnp.arange(4.0)[:, None], "x": jnp.arange(8.0).reshape(4, 2)}
    x = GRAPH.pack(values, jnp.array([5.0, 6.0, 7.0]))
    np.testing.assert_array_equal(x.steps[1], [2, 3, 1])
    np.testing.assert_array_equal(x.globals, [5, 6, 7])
    np.testing.assert_array_equal(GRAPH.pack(values).globals, [0.3, -0.2, 0])
    for name, value in GRAPH.unpack(x.steps).items():
        np.testing.assert_array_equal(value, values[name])


def test_names_that_the_graph_does_not_have_are_reported():
    def graph(factor):
        return TimeGraph(GRAPH.mechanism, (factor,), GRAPH.sizes, GRAPH.times, GRAPH.dt, GRAPH.shared)

    with pytest.raises(
        ArgumentError, match=r"factor 'soft_equality' reads the variable 'w'; the graph has \['x', 'v'\]"
    ):
        graph(Factor(soft_equality, ("w",), Noise.sigma(1.0), "interval"))
    with pytest.raises(ArgumentError, match=r"factor 'odd' reads 'c'; the graph shares \['a', 'b'\]"):
        graph(Factor(parameter_prior, (), Noise.sigma(1.0), "global", shared=("c",), name="odd"))


def test_derivatives_reach_parameters_of_the_mechanism():
    def length(at, x):
        return x - at.mechanism.parameters["L"]

    factor = Factor(length, ("x",), Noise.sigma(0.1))
    graph = TimeGraph(GRAPH.mechanism, (factor,), (("x", 1),), GRAPH.times, GRAPH.dt)
    x = Unknowns(jnp.full((T, 1), 1.5), jnp.zeros(0))
    gradient = eqx.filter_grad(lambda graph: graph.cost(x))(graph)
    assert float(gradient.mechanism.parameters["L"]) == pytest.approx(-T * 0.5 / 0.01)
