"""Recordings that share θ: what the joint graph says is what the graphs of the recordings say, θ's own factors once."""

from operator import itemgetter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.factors.base import Factor, Noise
from fgmbs.graph.recordings import JointGraph
from fgmbs.graph.time_graph import TimeGraph, Unknowns
from fgmbs.inputs import Disturbance
from fgmbs.losses import Huber
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.smooth.beginning import modelled
from fgmbs.sensors import Position
from fgmbs.unknowns import Unknown, freed

T, DTS = 4, (0.1, 0.25)


def prior(at):
    return at.shared["a"] - at.data


def start(at, x):
    return x - at.t


def reading(at, x):
    """Of all that a residual may know."""
    return jnp.stack([at.shared["a"][0] * jnp.sin(x[0]), x[0] * x[1]]) - at.series


def going(at, x0, x1):
    return x1 - x0 - at.dt * at.shared["a"][1] * jnp.cos(x0)


def scale(at):
    return at.shared["a"][1:] - 0.5


def one_graph(mechanism, series, dt):
    factors = (
        Factor(prior, (), Noise.sigma(0.5), "global", data=jnp.array([1.0, -0.5]), shared=("a",)),
        Factor(start, ("x",), Noise.sigma(0.3), "initial"),
        Factor(reading, ("x",), Noise.sigma(0.2), series=series, shared=("a",), loss=Huber(0.5)),
        Factor(scale, (), Noise.sigma(2.0), "global", shared=("a",), loss=Huber(0.1)),
        Factor(going, ("x",), Noise.sigma(0.1), "interval", shared=("a",)),
    )
    (mechanism, shared), free = freed((mechanism, {"a": Unknown(np.zeros(2))}), lambda path: path[1].key)
    return TimeGraph(mechanism, factors, (("x", 2),), 1.0 + dt * jnp.arange(T), dt, shared, free)


@pytest.fixture(scope="module")
def graphs(configs):
    """(the joint graph, those of its recordings, a point)."""
    mechanism = fgmbs.load(configs / "mechanisms" / "pendulum.yaml")
    rng = np.random.default_rng(0)
    series, x = jnp.asarray(rng.standard_normal((2, 2, T, 2)))
    joint = JointGraph(eqx.filter_vmap(one_graph, in_axes=(None, 0, 0))(mechanism, series, jnp.asarray(DTS)))
    each = [one_graph(mechanism, one, jnp.asarray(dt)) for one, dt in zip(series, DTS, strict=True)]
    return joint, each, Unknowns(x, jnp.asarray(rng.standard_normal(2)))


@eqx.filter_jit
def sums(graphs, x):
    """(cost, its gradient by steps and θ, rows) of all recordings, θ's own factors counted with the first."""
    is_own = np.array([factor.scope == "global" for factor in graphs[0].factors])

    def cost(x):
        costs = [graph.factor_costs(Unknowns(steps, x.globals)) for graph, steps in zip(graphs, x.steps, strict=True)]
        return sum(jnp.sum(jnp.where(is_own & (k > 0), 0.0, costs[k])) for k in range(len(costs)))

    flat, unravel = jax.flatten_util.ravel_pytree(x)
    at = lambda flat: cost(unravel(flat))
    looks = [graph.look(Unknowns(steps, x.globals)) for graph, steps in zip(graphs, x.steps, strict=True)]
    return cost(x), jax.grad(at)(flat), jax.hessian(at)(flat), looks


def flat(x):
    return np.concatenate([np.ravel(x.steps), x.globals])


def test_cost_gradient_and_hessian_are_the_sums(graphs):
    joint, each, x = graphs
    cost, gradient, hessian, _ = sums(each, x)
    found = eqx.filter_jit(lambda graph, x: (graph.cost(x), graph.gradient(x), graph.hessian(x).to_dense()))(joint, x)
    np.testing.assert_allclose(found[0], cost, rtol=1e-13)
    np.testing.assert_allclose(flat(found[1]), gradient, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found[2], hessian, rtol=1e-11, atol=1e-10)


def test_look_has_the_rows_of_all_recordings(graphs):
    joint, each, x = graphs
    cost, gradient, _, looks = sums(each, x)
    look, jacobian = eqx.filter_jit(lambda joint, x: (joint.look(x), joint.jacobian(x)))(joint, x)
    system = look.system
    by_steps = system.initial_jacobian, system.step_jacobian, system.pair_start, system.pair_end
    for ours, theirs in zip(jacobian, by_steps, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(look.cost, cost, rtol=1e-13)
    np.testing.assert_allclose(flat(Unknowns(*look.system.gradient())), gradient, rtol=1e-11, atol=1e-11)
    for name in vars(look.system):
        for k, one in enumerate(looks):
            of_all, of_one = getattr(look.system, name), getattr(one.system, name)
            np.testing.assert_allclose(of_all if name.startswith("global") else of_all[k], of_one, rtol=1e-12)
    for factor, r, *parts in zip(joint.each.factors, look.residuals, *(one.residuals for one in looks), strict=True):
        np.testing.assert_allclose(r, parts[0] if factor.scope == "global" else np.stack(parts), rtol=1e-12)


@pytest.fixture(scope="module")
def free_pendulums(swing):
    """Two pendulums of one unknown length in their charts: (joint graph, graphs, point), and δ."""
    mechanism = swing.mechanism.with_parameters({"L": Unknown(1.05, sigma=0.1, log=True)})
    sensors = (Position("cam", point="tip", sigma=2e-3, bias=Unknown(sigma=0.1)),)
    recording = fgmbs.readings(swing.mechanism, swing, sensors, seed=1)
    problem, count = fgmbs.prepare_smooth(mechanism, recording, sensors, (Disturbance(1e-2),), start={}), 6
    model, data = modelled(problem, nominal_delays(problem.sensors), problem.recording.starts[0])
    data = jax.tree.map(lambda leaf: jnp.stack([leaf[:count], leaf[20 : 20 + count]]), data)
    L = float(swing.mechanism.parameters["L"])
    steps = jnp.stack([jnp.concatenate([swing.q, swing.dq], axis=1)[k : k + count] for k in (0, 20)])
    x = Unknowns(steps, model.free.value + jnp.asarray([np.log(L / 1.05), 0.02, -0.01]))
    graphs = eqx.filter_vmap(model.graph, in_axes=(Unknowns(0, None), 0))(x, data)
    rng = np.random.default_rng(3)
    delta = Unknowns(jnp.asarray(1e-2 * rng.standard_normal((2, count, 2))), jnp.asarray([0.01, 0.02, 0.03]))
    return JointGraph(graphs), x, delta


def test_moves_and_tangents_are_those_of_each_recording(free_pendulums):
    """Where θ moves the constraints, too."""
    joint, x, delta = free_pendulums

    @eqx.filter_jit
    def both(joint, x, delta):
        zero = joint.zeros(x)
        slope = jax.jvp(lambda e: joint.moved(x, jax.tree.map(lambda d: e * d, delta)), (0.0,), (1.0,))[1]
        alone = []
        for k in range(2):
            part = itemgetter(k)
            graph = jax.tree.map(lambda leaf, part=part: part(leaf) if eqx.is_array(leaf) else leaf, joint.each)
            ends = (Unknowns(part(end.steps), end.globals) for end in (x, delta))
            alone.append(graph.moved(*ends).steps)
        return joint.moved(x, delta), jnp.stack(alone), slope, joint.tangents(x), zero

    moved, alone, slope, tangents, zero = both(joint, x, delta)
    np.testing.assert_allclose(moved.steps, alone, atol=1e-13)
    np.testing.assert_array_equal(moved.globals, x.globals + delta.globals)
    assert zero.steps.shape == delta.steps.shape and not np.any(zero.steps)
    wide = np.concatenate([delta.steps, np.broadcast_to(delta.globals, (*delta.steps.shape[:2], 3))], axis=-1)
    np.testing.assert_allclose(np.einsum("rkxc,rkc->rkx", tangents, wide), slope.steps, atol=1e-12)


def test_parts_of_the_recordings_give_what_all_together_give(graphs, monkeypatch):
    joint, _, x = graphs
    look = lambda graph, x: (graph.look(x), graph.gradient(x))
    together = eqx.filter_jit(look)(joint, x)
    monkeypatch.setattr("fgmbs.graph.places.TOGETHER", T)
    parts = eqx.filter_jit(lambda *arguments: look(*arguments))(joint, x)
    for ours, theirs in zip(jax.tree.leaves(parts), jax.tree.leaves(together), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
