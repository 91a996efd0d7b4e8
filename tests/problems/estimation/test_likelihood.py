"""The likelihood of recordings: exact where all is linear, its derivatives against solving again."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pushed_mass
import pytest
from scipy.stats import multivariate_normal

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import Disturbance
from fgmbs.linear import METHODS
from fgmbs.problems.estimation.likelihood import evidence
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt

DT = 0.01


@pytest.mark.slow
def test_of_a_linear_mechanism_it_is_the_density_of_the_samples():
    """A mass without spring and damper, pushed by white noise: position and velocity at all steps by hand."""
    mass = pushed_mass.mass()
    start, speed, sigma0, sigma, power = 1.2, 1.0, (0.3, 0.5), 0.02, 0.3
    motion = fgmbs.simulate(mass, 0.2, DT, start={"x_left": 1.3}, start_velocities={"x_left": speed})
    sensor = Encoder("enc", of="x_left", unit="m", sigma=sigma)
    recording = fgmbs.readings(mass, motion, (sensor,), seed=1)
    begun = {"start": {"x_left": start}, "start_velocities": {"x_left": speed}, "start_sigma": sigma0}
    est = fgmbs.smooth(mass, recording, (sensor,), (Disturbance(power),), **begun)

    mean, cov = pushed_mass.distribution(power, sigma, DT, len(est.t), (start, speed), sigma0)
    exact = multivariate_normal(mean, cov).logpdf(np.ravel(recording["enc"].values))
    assert float(est.log_likelihood) == pytest.approx(exact, abs=1e-6)


@pytest.fixture(scope="module")
def problem():
    """A four-bar linkage with an unknown length and an unknown bias."""
    fourbar = fgmbs.load("configs/mechanisms/fourbar.yaml")
    sensors = (
        Gyroscope("gyro", body="coupler", sigma=1e-2, bias=Unknown(0.0, sigma=1.0)),
        Encoder("enc", body="crank", sigma=1e-2),
    )
    motion = fgmbs.simulate(fourbar, 0.2, DT)
    recording = fgmbs.readings(fourbar, motion, sensors, calibration={"gyro": {"bias": 0.1}}, seed=3)
    mechanism = fourbar.with_parameters({"L_crank": Unknown(1.0, sigma=0.1, log=True)})
    return fgmbs.prepare_smooth(mechanism, recording, sensors, (Disturbance(1.0),), start={"x_P1": 0.98})


def changed(problem, numbers):
    """The problem with other numbers; how much larger they are is given."""
    power, sigma, length, mass, prior, sample = numbers

    def of(problem):
        channels = problem.recording.channels
        return problem.inputs[0].power, problem.sensors[0].channel.sigma, problem.free.sigma, channels[1].values

    old = of(problem)
    new = old[0] + power, old[1] + sigma, old[2] + prior, old[3].at[7].add(sample)
    parameters = problem.mechanism.parameters
    given = {"L_coupler": parameters["L_coupler"] + length, "crank.mass": parameters["crank.mass"] + mass}
    problem = eqx.tree_at(of, problem, new)
    return eqx.tree_at(lambda problem: problem.mechanism, problem, problem.mechanism.with_parameters(given))


NAMES = ("power", "sigma of a sensor", "length", "mass", "sigma of a prior", "sample")


@pytest.mark.slow
def test_derivatives_equal_differences_of_solutions(problem):
    """Total ones: the estimate, its weights and its covariance move along."""

    @eqx.filter_jit
    def again(numbers, at):
        """(solution, likelihood), to the last digit."""
        of, state = changed(problem, numbers), at.at
        model, data = of.model(at.sizes, state.delays), of.data(state.delays, state.first, state.behind)
        solver = LevenbergMarquardt(linear="sqrt", maxiter=20, tol=1e-12)
        x = jax.lax.fori_loop(0, 10, lambda _, x: solver.run(x, model.graph(x, data))[0], at.x)
        graph = model.graph(x, data)
        look = graph.look(x)
        return x, evidence(graph, look, METHODS["sqrt"](look.system, *graph.zeros(x)))

    still = jnp.zeros(len(NAMES))
    likelihood = lambda numbers: fgmbs.solve(changed(problem, numbers)).survey.log_likelihood
    solution, slope = eqx.filter_jit(fgmbs.solve)(problem), jax.jit(jax.jacfwd(likelihood))(still)
    solution = eqx.tree_at(lambda solution: solution.x, solution, again(still, solution)[0])
    for k, name in enumerate(NAMES):
        step = 5e-5 * jnp.eye(len(NAMES))[k]
        near, far = (again(by * step, solution)[1] - again(-by * step, solution)[1] for by in (1, 2))
        difference = (8 * near - far) / (12 * 5e-5)
        assert float(slope[k]) == pytest.approx(float(difference), rel=2e-6, abs=2e-6), name
