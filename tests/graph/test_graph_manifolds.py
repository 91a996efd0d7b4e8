"""The time graph of a rigid body with a unit quaternion: everything against differences along q ⊞ v."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import rigid_body, rotation

from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.transitions import Euler
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import configuration_prior, prior
from fgmbs.factors.transition import transition
from fgmbs.graph.time_graph import TimeGraph, Unknowns
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status

T, DT = 2, 0.1
ARM = jnp.array([0.3, -0.2, 0.5])
SOLVER = LevenbergMarquardt(maxiter=50, tol=1e-10)
rng = np.random.default_rng(3)


def point(at, q):
    """Where a point of the body is, against where it was seen."""
    return q[:3] + rotation(q[3:]) @ ARM - at.series


def _motion(body):
    """A body that turns, with what an estimate is off: (q, dq)."""
    dq = jnp.array([0.3, 0.0, 1.0, 2.0, -1.0, 3.0])
    q0 = body.retract(body.reference, jnp.array([0.1, 0.2, 0.3, 0.5, -0.8, 0.4]))
    off = jnp.asarray(0.1 * rng.standard_normal((T, 6)))
    q = jnp.stack([body.retract(q0, DT * k * dq + off[k]) for k in range(T)])
    return q, dq + jnp.asarray(0.1 * rng.standard_normal((T, 6)))


@pytest.fixture(scope="module")
def graph():
    body = rigid_body()
    q, dq = _motion(body)
    seen = jnp.stack([q[k, :3] + rotation(q[k, 3:]) @ ARM for k in range(T)])
    names = ("q", "dq", "u")
    factors = (
        Factor(configuration_prior, ("q",), Noise.sigma(0.3), "initial", data=q[0]),
        Factor(prior, ("dq",), Noise.sigma(1.0), "initial", data=dq[0]),
        Factor(
            transition,
            names,
            Noise.sigma(jnp.full(12, 0.1)),
            "interval",
            series=(jnp.broadcast_to(jnp.eye(6), (T, 6, 6)), jnp.zeros((T, 2, 0)), None),
            data=(Euler(), Forcing((), (), jnp.zeros(0))),
        ),
        Factor(point, ("q",), Noise.sigma(0.05), series=seen),
    )
    return TimeGraph(body, factors, (("q", 7), ("dq", 6), ("u", 0)), DT * jnp.arange(T), jnp.asarray(DT))


@pytest.fixture(scope="module")
def x(graph):
    return Unknowns(jnp.concatenate(_motion(graph.mechanism), axis=1), jnp.zeros(0))


def moved(graph, x, delta):
    return graph.moved(x, Unknowns(delta.reshape(T, 12), jnp.zeros(0)))


@pytest.mark.slow
def test_linearization_is_that_along_the_manifold(graph, x):
    assert graph.step_size == 13 and graph.local_size == 12

    @jax.jit
    def by_hand(delta):
        return jnp.concatenate([r.ravel() for r in graph.residuals(moved(graph, x, delta))])

    look = eqx.filter_jit(TimeGraph.look)(graph, x)
    J = np.asarray(jax.jacfwd(by_hand)(jnp.zeros(12 * T)))
    system = look.system
    np.testing.assert_allclose(system.information().to_dense(), J.T @ J, atol=1e-9 * np.abs(J.T @ J).max())
    np.testing.assert_allclose(system.gradient()[0].ravel(), J.T @ by_hand(jnp.zeros(12 * T)), rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(np.concatenate([r.ravel() for r in look.residuals]), by_hand(jnp.zeros(12 * T)))


@pytest.mark.slow
def test_hessian_is_exact(graph, x):
    """Against differences of the gradient of the cost along q ⊞ v."""
    gradient = jax.jit(jax.grad(lambda delta: graph.cost(moved(graph, x, delta))))
    H = np.asarray(eqx.filter_jit(TimeGraph.hessian)(graph, x).to_dense())
    h = 1e-5
    differences = np.stack([(gradient(h * e) - gradient(-h * e)) / (2 * h) for e in jnp.eye(12 * T)])
    np.testing.assert_allclose(H, differences, atol=1e-7 * np.abs(H).max())


@pytest.mark.slow
def test_derivative_of_the_solution(graph, x):
    """With respect to what was seen and to the inertia, against differences of solutions."""
    mechanism = graph.mechanism

    def at(shift, inertia):
        where = lambda graph: (graph.factors[3].series, graph.mechanism.inertia)
        return eqx.tree_at(where, graph, (graph.factors[3].series + shift, inertia))

    start = eqx.filter_jit(SOLVER.run)(x, graph)
    assert start.state.status == Status.converged
    np.testing.assert_allclose(jnp.linalg.norm(start.params.steps[:, 3:7], axis=1), 1.0, atol=1e-14)

    @jax.jit
    def solution(shift, inertia):
        return SOLVER.run(start.params, at(shift, inertia)).params.steps

    shift, inertia = jnp.zeros((T, 3)), mechanism.inertia
    t_shift, t_inertia = jnp.asarray(rng.standard_normal((T, 3))), jnp.array([0.01, -0.02, 0.015])
    _, exact = jax.jvp(solution, (shift, inertia), (t_shift, t_inertia))
    # Steps so long that it does not matter where the iterations stop; the error is of fourth order.
    h = 1e-2
    ahead, far = (solution(shift + s * t_shift, inertia + s * t_inertia) for s in (h, 2 * h))
    back, behind = (solution(shift + s * t_shift, inertia + s * t_inertia) for s in (-h, -2 * h))
    differences = (8 * (ahead - back) - (far - behind)) / (12 * h)
    np.testing.assert_allclose(exact, differences, atol=1e-5 * np.abs(exact).max())
