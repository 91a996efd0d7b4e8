"""Unknown sizes of noise: where the density of the samples is largest, with the curvature that it has there."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pushed_mass
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import fgmbs
from fgmbs import ArgumentError, Unknown
from fgmbs.inputs import Disturbance, WhiteNoise
from fgmbs.problems.estimation.noise_sizes import SizeSearch, Told
from fgmbs.sensors import Encoder, Position
from fgmbs.unknowns import freed

DT, STEPS, START, SPEED, BEGUN = 0.02, 121, 1.2, 1.0, (0.3, 0.5)
TRUE = {"sigma": 0.02, "power": 0.3}
NAMES = ("disturbance.power", "enc.sigma")


@pytest.fixture(scope="module")
def mass():
    return pushed_mass.mass()


@pytest.fixture(scope="module")
def samples():
    rng, (F, Q) = np.random.default_rng(5), pushed_mass.step(TRUE["power"], DT)
    x, read = np.array([1.3, 1.0]), []
    for _ in range(STEPS):
        read.append(x[0] + TRUE["sigma"] * rng.standard_normal())
        x = F @ x + np.linalg.cholesky(Q) @ rng.standard_normal(2)
    return np.array(read)


def log_density(samples, power, sigma):
    """Of all samples, by hand."""
    mean, cov = pushed_mass.distribution(power, sigma, DT, STEPS, (START, SPEED), BEGUN)
    return multivariate_normal(mean, cov).logpdf(samples)


def estimated(mass, samples, power, sigma, **options):
    recording = fgmbs.Recording.of(DT * np.arange(STEPS), {"enc": samples}, units={"enc": "m"})
    sensor = Encoder("enc", of="x_left", unit="m", sigma=sigma)
    begun = {"start": {"x_left": START}, "start_velocities": {"x_left": SPEED}, "start_sigma": BEGUN}
    return fgmbs.smooth(mass, recording, (sensor,), (Disturbance(power),), dt=DT, **begun, **options)


def best(samples, prior=lambda logs: 0.0):
    """(logarithms of power and sigma, their covariance)."""
    cost = lambda logs: -log_density(samples, *np.exp(logs)) - prior(logs)
    found = minimize(cost, np.log([0.3, 0.02]), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-10}).x
    e, bend = 1e-3 * np.eye(2), np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            bend[i, j] = sum(a * b * cost(found + a * e[i] + b * e[j]) for a, b in signs) / 4e-6
    return found, np.linalg.inv(bend)


@pytest.mark.slow
def test_they_are_most_likely_and_as_sure_as_the_likelihood_is_curved(mass, samples):
    expected, covariance = best(samples)
    for first in (1.0, 0.05), (0.05, 0.01):
        est = estimated(mass, samples, Unknown(first[0]), Unknown(first[1]))
        found = np.array([float(est.unknowns[name]) for name in NAMES])
        std = np.array([float(est.unknowns_std[name]) for name in NAMES]) / found
        np.testing.assert_allclose(np.log(found), expected, atol=1e-5)
        np.testing.assert_allclose(std, np.sqrt(np.diag(covariance)), rtol=1e-3)
        assert float(est.log_likelihood) == pytest.approx(log_density(samples, *found), abs=1e-6)
        assert (float(est.inputs[0].power), float(est.sensors[0].sigma)) == pytest.approx(found)


@pytest.mark.slow
def test_priors_count_and_bounds_hold(mass, samples):
    prior = lambda logs: -0.5 * ((logs[0] - np.log(1.0)) / 0.1) ** 2
    expected, covariance = best(samples, prior)
    est = estimated(mass, samples, Unknown(1.0, sigma=0.1, log=True), Unknown(0.05))
    assert np.log(float(est.unknowns["disturbance.power"])) == pytest.approx(expected[0], abs=1e-5)
    assert float(est.unknowns_std["enc.sigma"]) == pytest.approx(
        float(est.unknowns["enc.sigma"]) * covariance[1, 1] ** 0.5, rel=1e-3
    )
    bound = estimated(mass, samples, 0.3, Unknown(0.05, lower=0.03))
    assert float(bound.unknowns["enc.sigma"]) == pytest.approx(0.03, rel=1e-15)


@pytest.mark.slow
def test_derivatives_know_that_they_move(mass, samples):
    """Of the estimate by a sample, both sizes being found: as by hand."""
    recording = fgmbs.Recording.of(DT * np.arange(STEPS), {"enc": samples}, units={"enc": "m"})
    sensor = Encoder("enc", of="x_left", unit="m", sigma=Unknown(0.03))
    begun = {"start": {"x_left": START}, "start_velocities": {"x_left": SPEED}, "start_sigma": BEGUN}
    problem = fgmbs.prepare_smooth(mass, recording, (sensor,), (Disturbance(Unknown(1.0)),), dt=DT, **begun)

    def sizes(change):
        values = problem.recording.channels[0].values.at[30].add(change)
        return fgmbs.solve(eqx.tree_at(lambda p: p.recording.channels[0].values, problem, values)).sizes

    _, slope = jax.jit(lambda change: jax.jvp(sizes, (change,), (jnp.ones(()),)))(0.0)
    # At the best sizes the density has no slope, for neighbouring samples too.
    found, covariance = best(samples)
    e, d, at = 1e-3, 1e-4, np.eye(STEPS)[30]
    cost = lambda logs, change: -log_density(samples + change * at, *np.exp(logs))
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    mixed = [sum(a * b * cost(found + a * e * u, b * d) for a, b in signs) / (4 * e * d) for u in np.eye(2)]
    names = [place.name for place in problem.sizes.places]
    order = [names.index(name) for name in NAMES]
    np.testing.assert_allclose(np.asarray(slope)[order], -covariance @ mixed, rtol=1e-4)


@pytest.mark.slow
def test_rows_of_a_sensor_have_sizes_of_their_own():
    """A pendulum whose camera sees x three times as badly as y."""
    pendulum = fgmbs.load("configs/mechanisms/pendulum.yaml")
    motion = fgmbs.simulate(pendulum, 3.0, 0.01)
    camera = Position("camera", point="tip", sigma=Unknown([0.02, 0.02]))
    true = {"camera": {"sigma": [0.03, 0.01]}}
    recording = fgmbs.readings(pendulum, motion, (camera,), calibration=true, seed=1)
    est = fgmbs.smooth(pendulum, recording, (camera,), (Disturbance(1e-4),), start={})
    found, std = est.unknowns["camera.sigma"], est.unknowns_std["camera.sigma"]
    np.testing.assert_array_less(np.abs(found - np.array([0.03, 0.01])), 4 * std)
    np.testing.assert_allclose(std / found, 1 / np.sqrt(2 * 301), rtol=0.05)


@pytest.mark.parametrize("answer", [0.1, 1.0, 4.0, 8.0])
def test_the_search_learns_how_far_a_change_reaches(answer):
    """Residuals may change by less than noise of another size should make them, or by far more: then steps as they are
    asked for, or half of them, go to and fro for ever."""
    _, free = freed({"sigma": Unknown(1.0, log=True)}, lambda path: path[0].key)
    search, target, dof = SizeSearch.of(free), 0.7, 100.0
    for _ in range(11):
        left = float(search.logs[0]) - target
        told = Told(jnp.array([dof * np.exp(-2 * answer * left)]), jnp.array([dof]), np.array([2.0]), jnp.eye(1))
        search = search.update(free, told)
        if int(search.probe) == 0:
            break
    assert int(search.probe) == 0 and abs(float(search.logs[0]) - target) < 0.01 * max(1.0, 1 / answer)


def test_what_cannot_be_meant(mass):
    with pytest.raises(ArgumentError, match="sensor 'enc': sigma: expected positive numbers; found 0"):
        Encoder("enc", of="x_left", unit="m", sigma=Unknown())
    with pytest.raises(ArgumentError, match=r"input 'disturbance': power: expected one number; found shape \(2,\)"):
        Disturbance(Unknown([1.0, 2.0]))
    two = Disturbance(), WhiteNoise("x_left", 1.0)
    sensor = Encoder("enc", of="x_left", unit="m", sigma=0.1)
    recording = fgmbs.Recording.of(DT * np.arange(5), {"enc": np.ones(5)}, units={"enc": "m"})
    with pytest.raises(ArgumentError, match="expected sizes of all white forces, or a single one of them"):
        fgmbs.prepare_smooth(mass, recording, (sensor,), two)
