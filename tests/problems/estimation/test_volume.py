"""The slope of the volume of motions by θ, against differences of dense determinants along the way of the motion."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.graph.recordings import JointGraph
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import Disturbance
from fgmbs.losses import Cauchy, Tukey
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.likelihood import slope_of_volume
from fgmbs.problems.smooth.beginning import modelled
from fgmbs.sensors import Position

COUNT, STEP = 6, 1e-4


@pytest.fixture(scope="module")
def graphs(swing):
    """Two parts of the swing of a pendulum, in charts that its unknown length moves, unknown gravity: (graph of the
    first, point), (graph of both, point)."""
    numbers = {"L": Unknown(1.05, sigma=0.1, log=True), "gravity.y": Unknown(-9.81, sigma=1.0)}
    mechanism = swing.mechanism.with_parameters(numbers)
    sensors = (Position("cam", point="tip", sigma=2e-3, loss=Cauchy(1.0), bias=Unknown(sigma=0.1)),)
    recording = fgmbs.readings(swing.mechanism, swing, sensors, seed=1)
    problem = fgmbs.prepare_smooth(mechanism, recording, sensors, (Disturbance(1e-2),), start={})
    model, data = modelled(problem, nominal_delays(problem.sensors), problem.recording.starts[0])
    data = jax.tree.map(lambda leaf: jnp.stack([leaf[4 : 4 + COUNT], leaf[24 : 24 + COUNT]]), data)
    steps = jnp.stack([jnp.concatenate([swing.q, swing.dq], axis=1)[k : k + COUNT] for k in (4, 24)])
    change = dict(zip(model.free.number_names, np.zeros(model.free.size), strict=True))
    change |= {"L": np.log(swing.mechanism.parameters["L"] / 1.05), "cam.bias[0]": 0.02}
    theta = model.free.value + jnp.asarray([*change.values()])
    both = eqx.filter_vmap(model.graph, in_axes=(Unknowns(0, None), 0))(Unknowns(steps, theta), data)
    first = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, both)
    return (first, Unknowns(steps[0], theta)), (JointGraph(both), Unknowns(steps, theta))


@eqx.filter_jit
def seen(graph, x):
    look = graph.look(x)
    return look.system, slope_of_volume(graph, x, look)


@eqx.filter_jit
def moved(graph, x, delta):
    return graph.moved(x, delta)


@eqx.filter_jit
def matrix(system):
    """J, written out: (derivatives of all rows by the motion, by θ)."""
    flat, unravel = jax.flatten_util.ravel_pytree(system.zeros())
    rows = jax.vmap(lambda along: jax.flatten_util.ravel_pytree(system.product(*unravel(along))._residuals())[0])
    J = rows(jnp.eye(flat.size)).T
    return J[:, : -system.num_globals], J[:, -system.num_globals :]


def dense_volume(system):
    """½ log det A − Σ log|det ∂r/∂x|."""
    transitions = np.linalg.slogdet(system.pair_end[..., : system.step_size, :])[1]
    return np.sum(np.log(np.linalg.svd(matrix(system)[0], compute_uv=False))) - np.sum(transitions)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(("few", "in_parts"), [(4, False), (3, False), (3, True)])
def test_slope_is_that_of_dense_determinants(graphs, which, few, in_parts, monkeypatch):
    """By sweeps forward and by one back, of all steps at once and in parts."""
    graph, x = graphs[which]
    monkeypatch.setattr("fgmbs.problems.estimation.likelihood._FEW", few)
    if in_parts:
        monkeypatch.setattr("fgmbs.graph.places.TOGETHER", 4)
    jax.clear_caches()
    check(graph, x)


def test_slope_beside_samples_that_are_ignored(graphs):
    graph, x = graphs[0]
    robust = next(k for k, factor in enumerate(graph.factors) if factor.loss is not None)
    squares = jnp.sort(graph.factors[robust].squares(graph.residuals(x)[robust]).ravel())
    middle = len(squares) // 2
    loss = Tukey(float(np.sqrt(squares[middle - 1 : middle + 1].mean())))
    graph = eqx.tree_at(lambda graph: graph.factors[robust].loss, graph, loss)
    weight = np.asarray(loss.weight(squares))
    assert np.sum(weight == 0) >= 2 and np.sum(weight > 0) >= 2
    check(graph, x, 1e-6)


def check(graph, x, step=STEP):
    system, slope = seen(graph, x)
    J, by_theta = map(np.asarray, matrix(system))
    p = x.globals.size
    assert p == 4 and np.all(np.abs(slope) > 1e-4)
    for k in range(p):
        theta = np.eye(p)[k]
        steps = np.linalg.lstsq(J, -by_theta @ theta)[0].reshape(graph.zeros(x).steps.shape)
        ends = [moved(graph, x, Unknowns(way * step * steps, way * step * theta)) for way in (1, -1)]
        up, down = (dense_volume(seen(graph, end)[0]) for end in ends)
        assert float(slope[k]) == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-7), k
