"""Free runs: the simulated motion, its derivatives, and what diverges."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.algebra.slopes import slopes_of
from fgmbs.inputs import Disturbance
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.identify.free_runs.rollout import free_run, free_run_with_slopes, free_runs, known_forces
from fgmbs.sensors import Encoder
from fgmbs.status import Status

T, DT, STEPS = 0.2, 1e-2, 21


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


@pytest.fixture(scope="module")
def motion(pendulum):
    return fgmbs.simulate(pendulum, T, DT)


@pytest.fixture(scope="module")
def problem(pendulum, motion):
    sensors = (Encoder("enc", body="rod", sigma=1e-3, delay=DT / 3),)
    recording = fgmbs.readings(pendulum, motion, sensors, times={"enc": motion.t[1:-1]})
    unknown = pendulum.with_parameters({"gravity.y": Unknown(-9.81), "L": Unknown(1.0, log=True)})
    return fgmbs.prepare_smooth(unknown, recording, sensors, (Disturbance(1e-4),), start={}, dt=DT)


@pytest.fixture(scope="module")
def first(problem, motion):
    """The first step, that of the first sample."""
    k = int(np.argmin(np.abs(motion.t - float(problem.recording.start))))
    return k, jnp.concatenate([motion.q[k], motion.dq[k]])


@eqx.filter_jit
def ends(problem, theta, x, E, change):
    model, delays = known_forces(problem.model(problem.sizes.value, nominal_delays(problem.sensors))), jnp.zeros(1)
    moved = model.at(theta + change[-theta.size :])
    return free_run(moved, x + E @ change, problem.data(delays, x, x)).steps


def test_free_run_is_the_simulated_motion(problem, first, motion):
    k, x = first
    run, (residuals,) = free_runs(problem, problem.free.value, x)
    count = int(problem.recording.count)
    there = min(count, len(motion.t) - k)
    np.testing.assert_allclose(run.steps[:there, : motion.q.shape[1]], motion.q[k : k + there], atol=1e-9)
    assert bool(jnp.all(run.status == Status.converged))
    # Samples lie between the steps: what is left is the cubic polynomial between them.
    assert float(jnp.max(jnp.abs(residuals))) < 1e-2
    assert int(jnp.sum(residuals != 0)) > 10
    np.testing.assert_array_equal(run.steps[count:], np.broadcast_to(run.steps[count - 1], run.steps[count:].shape))


@pytest.mark.slow
def test_slopes_are_those_of_differences_and_of_reverse_mode(problem, first):
    _, x = first
    theta = problem.free.value
    model = known_forces(problem.model(problem.sizes.value, nominal_delays(problem.sensors)))
    # A longer rod begins where its constraint lets it.
    move = lambda theta: model.chart.move(model.at(theta).mechanism, x, jnp.zeros(2), 0.0)
    E = jnp.concatenate([model.chart.tangent(model.at(theta).mechanism, x, 0.0), jax.jacfwd(move)(theta)], axis=1)
    data = problem.data(jnp.zeros(1), x, x)
    run, slopes = eqx.filter_jit(free_run_with_slopes)(model.at(theta), slopes_of(model.at, theta), x, E, data)
    zero, h = jnp.zeros(E.shape[1]), 1e-6
    np.testing.assert_allclose(run.steps, ends(problem, theta, x, E, zero), atol=1e-12)
    count = int(problem.recording.count)
    for k in range(2, E.shape[1]):  # along a straight start the length of the rod is not kept to second order
        step = zero.at[k].set(h)
        difference = (ends(problem, theta, x, E, step) - ends(problem, theta, x, E, -step)) / (2 * h)
        np.testing.assert_allclose(slopes[:count, :, k], difference[:count], rtol=1e-5, atol=1e-6)
    last = lambda change: jnp.sum(ends(problem, theta, x, E, change)[count - 1])
    np.testing.assert_allclose(jax.grad(last)(zero), jnp.sum(slopes[count - 1], axis=0), rtol=1e-7, atol=1e-9)


def test_one_diverging_run_is_told_and_leaves_the_others_alone(problem, first):
    _, x = first
    theta = problem.free.value
    several = jnp.stack([x, x.at[-1].set(jnp.inf)])
    run, _ = jax.vmap(lambda x: free_runs(problem, theta, x))(several)
    assert bool(jnp.all((run.status == Status.converged)[0])) and bool((run.status == Status.non_finite)[1, 1])
    np.testing.assert_allclose(run.steps[0], free_runs(problem, theta, x)[0].steps, atol=1e-12)
