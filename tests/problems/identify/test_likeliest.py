"""Parameters that are the most likely ones by themselves, over all motions: against a Kalman filter."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rod import INPUTS, T, measured, rod
from rod import START as ROD_START
from scipy.linalg import expm
from scipy.optimize import minimize, minimize_scalar

import fgmbs
from fgmbs.errors import Interrupted
from fgmbs.inputs import Disturbance
from fgmbs.losses import Tukey
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.identify import identifiability, identify, likeliest, smoother, solution
from fgmbs.problems.identify.free import first_thetas
from fgmbs.problems.smooth.rounds import volume_slope
from fgmbs.sensors import Encoder
from fgmbs.status import Status
from fgmbs.unknowns import freed

INERTIA, STIFFNESS, VISCOUS, POWER, DT, COUNT = 0.2, 2.0, 0.05, 0.02, 0.01, 600
AT_FIRST = 100.0
"""Standard deviation of the first position and velocity."""


class Oscillator(AbstractMechanism):
    """A mass on a spring with a damper: linear."""

    viscous: jax.Array = eqx.field(converter=lambda x: jnp.asarray(x, dtype=float), default=VISCOUS)
    inertia: jax.Array = eqx.field(converter=lambda x: jnp.asarray(x, dtype=float), default=INERTIA)

    coordinate_names = ("theta",)
    constraint_names = ()
    reference = jnp.zeros(1)

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return jnp.full((1, 1), self.inertia)

    def potential(self, q):
        return 0.5 * STIFFNESS * q[0] ** 2

    def forces(self, q, dq, t):
        return -self.viscous * dq - STIFFNESS * q


def exact_step(viscous, inertia=INERTIA, power=POWER):
    """Transition matrix and covariance of a time step of the oscillator under white torque. [Van Loan 1978]"""
    A = np.array([[0.0, 1.0], [-STIFFNESS / inertia, -viscous / inertia]])
    white = np.diag([0.0, 2 * power / inertia])
    both = expm(np.block([[-A, white], [np.zeros((2, 2)), A.T]]) * DT)
    F = both[2:, 2:].T
    return F, F @ both[:2, 2:]


def simulated(sigma, seed):
    rng = np.random.default_rng(seed)
    F, Q = exact_step(VISCOUS)
    L, x, positions = np.linalg.cholesky(Q), np.array([0.3, 0.0]), []
    for _ in range(COUNT):
        positions.append(x[0])
        x = F @ x + L @ rng.normal(size=2)
    return np.array(positions) + sigma * rng.normal(size=COUNT)


def minus_log_likelihood(viscous, sigma, y, *numbers):
    """By a Kalman filter."""
    F, Q = exact_step(viscous, *numbers)
    mean, cov, total = np.zeros(2), np.diag([AT_FIRST**2] * 2), 0.5 * len(y) * np.log(2 * np.pi)
    for reading in y:
        S, error = cov[0, 0] + sigma**2, reading - mean[0]
        total += 0.5 * (np.log(S) + error**2 / S)
        gain = cov[:, 0] / S
        mean, cov = F @ (mean + gain * error), F @ (cov - np.outer(gain, cov[0])) @ F.T + Q
    return total


@pytest.fixture(scope="module")
def sensors():
    return [Encoder("theta", of="theta", sigma=0.02)]


def recording(sigma=0.02, seed=1):
    y = simulated(sigma, seed)
    return y, fgmbs.Recording.of(DT * np.arange(COUNT), {"theta": y})


START = {"start": {"theta": 0.0}, "start_sigma": (AT_FIRST, AT_FIRST)}


def test_the_likelihood_is_that_of_a_kalman_filter_however_large_the_damping(sensors):
    y, read = recording()
    for viscous in (0.0, 0.3, 1.0):
        est = fgmbs.smooth(Oscillator(viscous), read, sensors, [Disturbance(POWER)], **START)
        assert float(est.log_likelihood) == pytest.approx(-minus_log_likelihood(viscous, 0.02, y), abs=1e-4)


def identified(read, sensors, first=VISCOUS):
    return fgmbs.identify(
        Oscillator(first), read, sensors, [Disturbance(POWER)], free={"viscous": (-5.0, 5.0)}, **START
    )


def test_damping_under_unknown_forces_is_the_most_likely_one_by_itself(sensors):
    """Together with the motion it would be 0, whatever it is."""
    y, read = recording()
    fit = identified(read, sensors)
    likeliest = minimize_scalar(lambda viscous: minus_log_likelihood(viscous, 0.02, y), bracket=(0.0, 0.2)).x
    assert abs(likeliest) > 0.2 * fit.std["viscous"]  # 0 is another answer
    assert fit.parameters["viscous"] == pytest.approx(likeliest, abs=0.01 * fit.std["viscous"])
    width = np.log(fit.std["viscous"] / fit.wide[0])  # its prior is integrated over
    assert fit.log_likelihood == pytest.approx(width - minus_log_likelihood(likeliest, 0.02, y), abs=0.05)
    curvature = sum(minus_log_likelihood(likeliest + step, 0.02, y) * w for step, w in ((-0.01, 1), (0, -2), (0.01, 1)))
    assert fit.std["viscous"] == pytest.approx(0.01 / np.sqrt(curvature), rel=0.01)
    assert fit.cost_history.size == fit.iterations


def test_what_makes_damping_less_likely_is_taken_back(sensors, monkeypatch):
    """A slope that is 30 times too large leads it away, until it is led no farther than it gets more likely."""
    y, read = recording()
    right = identified(read, sensors, first=0.0)

    def steep(*arguments, **options):
        at, slope = volume_slope(*arguments, **options)
        return at, 30 * slope

    monkeypatch.setattr(smoother, "volume_slope", steep)
    led = identified(read, sensors, first=0.0)
    monkeypatch.setattr(smoother, "WORSE", np.inf)
    away = identified(read, sensors, first=0.0)
    monkeypatch.setattr(smoother, "CORRECTIONS", 0)
    together = identified(read, sensors, first=0.0)
    assert led.unsettled.startswith("θ still moved by") and led.unsettled in led.warnings() and right.unsettled == ""
    away, together, led, right = (fit.profiled_log_likelihood for fit in (away, together, led, right))
    assert away < together - 100 and together < led < right + 1e-6


def with_power(read, sensors):
    free = {"viscous": (-5.0, 5.0), "inertia": (0.01, 5.0)}
    return (Oscillator(), read, sensors, [Disturbance()]), {"free": free, **START}


def known_beside_power(fit, y):
    """Standard deviations of (viscous, inertia) by the curvature of the exact likelihood of them and of the power of
    the torque, which is found or known."""
    best = np.array([fit.parameters["viscous"], fit.parameters["inertia"], np.log(float(fit.inputs[0].power))])
    h = 0.1 * np.array([fit.std["viscous"], fit.std["inertia"], 0.3])
    cost = lambda x: minus_log_likelihood(x[0], 0.02, y, x[1], np.exp(x[2]))
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    H = [[sum(a * b * cost(best + a * s + b * t) for a, b in signs) for s in np.diag(h)] for t in np.diag(h)]
    H = np.array(H) / (4 * np.outer(h, h))
    return [np.sqrt(np.diag(np.linalg.inv(part))[:2]) for part in (H, H[:2, :2])]


def test_what_is_found_with_a_size_of_noise_is_known_by_so_much_less(sensors):
    """Damping that is led far from what is most likely together with the motion, beside a torque of unknown power."""
    y, read = recording(seed=3)
    arguments, options = with_power(read, sensors)
    fit = fgmbs.identify(*arguments, **options)
    found, known = known_beside_power(fit, y)
    assert fit.unsettled == "" and found[0] > 1.06 * known[0]
    assert list(fit.std.values()) == pytest.approx(found, rel=0.01)


def test_standard_deviations_that_may_be_too_small_are_warned_of(sensors, monkeypatch):
    """Where no motion was found with numbers a little beside."""
    _, read = recording(seed=3)
    monkeypatch.setattr(smoother, "_beside", lambda *arguments: np.full((2, 3), np.nan))
    arguments, options = with_power(read, sensors)
    fit = fgmbs.identify(*arguments, **options)
    known = np.sqrt(np.diag(np.linalg.inv(fit.information)))
    assert list(fit.std.values()) == pytest.approx(known, rel=1e-9)
    assert any("standard deviations may be too small" in one for one in fit.warnings())
    assert "standard deviations may be too small" in str(fit.report())


def test_a_profile_is_that_of_the_exact_likelihood_when_a_size_of_noise_follows(sensors):
    y, read = recording(seed=3)
    arguments, options = with_power(read, sensors)
    fit = fgmbs.identify(*arguments, **options)
    best, std = fit.parameters["inertia"], fit.std["inertia"]
    profile = fit.profile("inertia", [best + k * std for k in (-2, 1, 3)])
    cost = lambda x, inertia: minus_log_likelihood(x[0], 0.02, y, inertia, np.exp(x[1]))
    first = [fit.parameters["viscous"], np.log(float(fit.inputs[0].power))]
    exact = [minimize(cost, first, value, method="Nelder-Mead", tol=1e-4).fun for value in profile.values]
    assert profile.deviance == pytest.approx(2 * (np.array(exact) - min(exact)), abs=0.02)
    known = (
        2 * (minus_log_likelihood(first[0], 0.02, y, value, np.exp(first[1])) - min(exact)) for value in profile.values
    )
    assert profile.deviance[-1] < 0.9 * list(known)[-1]


class Twin(Oscillator):
    """Its spring is as stiff as a number is large, squared: whatever its sign is."""

    root: jax.Array = eqx.field(converter=lambda x: jnp.asarray(x, dtype=float), default=1.0)

    def potential(self, q):
        return 0.5 * self.root**2 * q[0] ** 2

    def forces(self, q, dq, t):
        return -self.viscous * dq - self.root**2 * q


def twins(read, sensors, method):
    inputs = [Disturbance(POWER)] if method == "smoother" else []
    return (Twin(), read, sensors, inputs), {"free": {"root": (-4.0, 4.0)}, "restarts": 3, **START}


@pytest.mark.parametrize("method", ["smoother", "prediction"])
def test_other_parameters_that_are_as_likely_are_named(sensors, method):
    _, read = recording()
    arguments, options = twins(read, sensors, method)
    fit = fgmbs.identify(*arguments, method=method, **options)
    first, second = fit.maxima
    assert re.search(r"\broot .* SI ", fit.report())
    assert first.parameters == fit.parameters and first.log_likelihood == pytest.approx(fit.profiled_log_likelihood)
    assert second.parameters["root"] == pytest.approx(-fit.parameters["root"], rel=1e-4)
    assert second.log_likelihood == pytest.approx(first.log_likelihood, abs=1e-4)
    assert first.starts + second.starts == 5 and min(first.starts, second.starts) > 1
    told = f"outside of these intervals: root {second.parameters['root']:.4g} for {fit.parameters['root']:.4g}"
    assert any(told in text for text in fit.warnings())
    assert "Maxima of the likelihood" in fit.report() and "led to nothing" not in fit.report()
    lost = dataclasses.replace(fit, ends=(*fit.ends, likeliest.End(fit.theta, -np.inf, False)))
    assert lost.maxima == fit.maxima and re.search(r"starts that led to nothing +1\b", lost.report())
    alone = fgmbs.identify(*arguments, method=method, **options | {"restarts": 0})
    assert len(alone.maxima) == 1 and not any("nearly as likely" in text for text in alone.warnings())
    assert alone.parameters["root"] == pytest.approx(abs(fit.parameters["root"]), rel=1e-4)


def test_where_sizes_of_noise_may_explain_the_same_the_given_numbers_are_begun_at_too(sensors, monkeypatch):
    _, read = recording(seed=3)
    arguments, options = with_power(read, sensors)
    alone = fgmbs.identify(*arguments, **options)
    assert [one.starts for one in alone.maxima] == [1] and 1.05 < alone.widened < 1.5
    monkeypatch.setattr(identifiability, "TRADED", 1.05)
    fit = fgmbs.identify(*arguments, **options)
    assert [one.starts for one in fit.maxima] == [2]  # it leads to the same
    assert list(fit.parameters.values()) == pytest.approx(list(alone.parameters.values()), rel=1e-6)


def test_ctrl_c_between_starts_of_free_runs_keeps_the_best_of_them(sensors, monkeypatch):
    _, read = recording()
    arguments, options = twins(read, sensors, "prediction")
    fit_runs, done = identify.predict_best, []

    def some(*given):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(fit_runs(*given))
        return done[-1]

    monkeypatch.setattr(identify, "predict_best", some)
    with pytest.raises(Interrupted, match="interrupted after") as caught:
        fgmbs.identify(*arguments, method="prediction", **options)
    fit = caught.value.result
    assert "interrupted" in fit.notes and sum(one.starts for one in fit.maxima) == 2
    assert fit.cost_history[-1] == pytest.approx(min(float(one.cost) for one in done))


@pytest.mark.slow
def test_the_function_of_arrays_looks_from_the_same_starts(sensors):
    _, read = recording()
    arguments, options = twins(read, sensors, "smoother")
    fit, problem = fgmbs.identify(*arguments, **options), fgmbs.prepare_identify(*arguments, **options)
    found = fgmbs.finish(problem, fgmbs.solve(problem), recordings=read)
    for one, other in zip(found.maxima, fit.maxima, strict=True):
        assert one.parameters == pytest.approx(other.parameters, rel=1e-5)
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-5)
        assert (one.starts, one.settled) == (other.starts, other.settled)


def test_rough_first_values_are_where_they_are_said_to_be():
    numbers = {
        "by_log": fgmbs.Unknown(2.0, log=True),
        "known": fgmbs.Unknown(5.0, sigma=0.1, upper=5.05),
        "mass": fgmbs.Unknown(3.0, lower=0.0),
        "between": fgmbs.Unknown(1.0, lower=-1.0, upper=4.0),
        "any": fgmbs.Unknown(-20.0),
        "zero": fgmbs.Unknown(0.0),
    }
    free = freed(numbers, lambda path: path[0].key)[1]
    given, *rough = np.asarray(first_thetas(free, 500))
    ends = {
        "by_log": (np.log(0.2), np.log(20.0)),
        "known": (4.8, 5.05),
        "mass": (0.3, 30.0),
        "between": (-1.0, 4.0),
        "any": (-40.0, 0.0),
        "zero": (-1.0, 1.0),
    }
    assert np.array_equal(given, np.asarray(free.value)) and np.array_equal(rough, first_thetas(free, 500)[1:])
    for name, column in zip(free.names, np.transpose(rough), strict=True):
        low, high = ends[name]
        assert low <= np.min(column) < low + 0.02 * (high - low), name
        assert high - 0.02 * (high - low) < np.max(column) <= high, name


@pytest.mark.parametrize("given", [-1, True])
def test_restarts_are_counted(sensors, given):
    _, read = recording()
    with pytest.raises(fgmbs.ArgumentError, match="restarts: expected an integer of at least 0; found"):
        fgmbs.identify(Oscillator(), read, sensors, free=["viscous"], restarts=given)


@pytest.mark.slow
def test_the_function_of_arrays_knows_as_little_beside_a_size_of_noise(sensors):
    _, read = recording(seed=3)
    arguments, options = with_power(read, sensors)
    fit, problem = fgmbs.identify(*arguments, **options), fgmbs.prepare_identify(*arguments, **options)
    found = fgmbs.finish(problem, fgmbs.solve(problem), recordings=read)
    assert np.max(np.abs(fit.bend)) > 0
    assert list(found.parameters.values()) == pytest.approx(list(fit.parameters.values()), rel=1e-6)
    assert list(found.std.values()) == pytest.approx(list(fit.std.values()), rel=1e-4)


def test_samples_are_not_ignored_before_numbers_are_found():
    """Of a rod 2.5 times too light Tukey's loss would ignore all that contradicts it, and call it right."""
    _, read = measured(rod(), 1e-3, 0)
    rng = np.random.default_rng(1)
    spikes = (rng.random(len(T)) < 0.05) * rng.normal(size=len(T)) * 0.3
    wild = fgmbs.Recording({**read.signals, **fgmbs.Recording.of(T, {"enc": read["enc"].values + spikes}).signals})
    sensors = [Encoder("enc", of="theta", sigma=1e-3, loss=Tukey())]
    fit = fgmbs.identify(rod(0.8, 0.2), wild, sensors, INPUTS, free=["rod.mass", "rod.I0"], start=ROD_START)
    assert fit.parameters["rod.mass"] == pytest.approx(2.0, abs=2 * fit.std["rod.mass"])
    assert fit.parameters["rod.I0"] == pytest.approx(0.501, abs=2 * fit.std["rod.I0"])
    assert fit.std["rod.mass"] < 3e-3
    found = np.asarray(fit.states.fits[0].outliers)
    assert len(found) == pytest.approx(np.sum(np.abs(spikes) > 5e-3), abs=3)


def test_a_start_that_could_not_be_led_is_no_answer(sensors, monkeypatch):
    """Where nothing else has converged, and how the likelihood slopes there is not known."""
    corrected = smoother.corrected

    def ends_early(problem, at, tell, *of_start):
        if not of_start:
            at = eqx.tree_at(lambda at: at.status, at, Status.iteration_limit)
        return corrected(problem, at, tell, *of_start)

    def unknown(problem, at, since, *, enough):
        return at, np.full(problem.free.size, np.nan)

    monkeypatch.setattr(smoother, "corrected", ends_early)
    monkeypatch.setattr(smoother, "volume_slope", unknown)
    with pytest.raises(fgmbs.SolveError, match="reached the iteration limit"):
        identified(recording()[1], sensors, first=0.3)


@pytest.mark.slow
def test_the_given_number_is_kept_where_no_other_is_arrived_at_that_is_likelier(sensors, monkeypatch):
    """By the function of arrays as by the loop."""
    monkeypatch.setattr(smoother, "CORRECTIONS", 0)
    monkeypatch.setattr(solution, "CORRECTIONS", 0)
    _, read = recording()
    arguments = Oscillator(0.06), read, sensors, [Disturbance(POWER)]
    problem = fgmbs.prepare_identify(*arguments, free={"viscous": (-5.0, 5.0)}, **START)
    found = fgmbs.finish(problem, fgmbs.solve(problem), recordings=read)
    for fit in (found, identified(read, sensors, first=0.06)):
        assert fit.parameters["viscous"] == pytest.approx(0.06, abs=1e-6)
        assert fit.unsettled.startswith("θ still moved by 0.1 ")


@pytest.mark.slow
def test_intervals_of_damping_hold_it(sensors):
    fits = [identified(recording(seed=seed)[1], sensors) for seed in range(60)]
    z = np.array([(fit.parameters["viscous"] - VISCOUS) / fit.std["viscous"] for fit in fits])
    assert np.mean(np.abs(z) < 1.96) > 0.87
    assert abs(np.mean(z)) < 0.6  # of so short a motion; together with the motion it would be -1.5
