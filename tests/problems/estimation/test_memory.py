"""A disturbance with a memory: its likelihood and its sizes by hand, and when white forces ask for one."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pushed_mass
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize, minimize_scalar

import fgmbs
from fgmbs import ArgumentError, results
from fgmbs.inputs import Disturbance
from fgmbs.problems.smooth import remembering
from fgmbs.sensors import Accelerometer, Encoder
from fgmbs.unknowns import is_unknown

DT, STEPS, START, BEGUN, SIGMA = 0.01, 401, (1.2, 1.0), (0.3, 0.5), 5e-4
POWER, TIME = 0.3, 0.25


def transition(power, time):
    """(F, Q) over a step of (position, velocity, force by √mass), a Gauss–Markov process, exactly."""
    push = pushed_mass.MASS**-0.5
    A = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, push], [0.0, 0.0, -1 / time]])
    noise = np.diag([0.0, 0.0, 2 * power / time**2])
    # Van Loan's way.
    both = expm(DT * np.block([[-A, noise], [np.zeros((3, 3)), A.T]]))
    F = both[3:, 3:].T
    return F, F @ both[:3, 3:]


def log_density(samples, power, time):
    """Of all samples, where the force has a memory."""
    return filtered(samples, *transition(power, time), (*START, 0.0), (*np.square(BEGUN), power / time))


def log_density_of_white(samples, power):
    """The same where it is white."""
    return filtered(samples, *pushed_mass.step(power, DT), START, np.square(BEGUN))


def filtered(samples, F, Q, mean, variances):
    """The logarithm of the density of all samples, by a Kalman filter."""
    x, P, total = np.array(mean), np.diag(variances), 0.0
    for y in samples:
        s = P[0, 0] + SIGMA**2
        total -= 0.5 * (np.log(2 * np.pi * s) + (y - x[0]) ** 2 / s)
        gain = P[:, 0] / s
        x, P = x + gain * (y - x[0]), P - np.outer(gain, P[0])
        x, P = F @ x, F @ P @ F.T + Q
    return total


def recorded(seed=0, power=POWER, time=TIME, white=False):
    rng, (F, Q) = np.random.default_rng(seed), transition(power, time)
    x, read = np.array([1.3, 1.0, 0.0]), []
    if white:
        F, Q = pushed_mass.step(power, DT)
        x = x[:2]
    for _ in range(STEPS):
        read.append(x[0] + SIGMA * rng.standard_normal())
        x = rng.multivariate_normal(F @ x, Q, method="cholesky") if white else _moved(rng, F, Q, x)
    return np.array(read)


def _moved(rng, F, Q, x):
    values, vectors = np.linalg.eigh(Q)
    return F @ x + vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(3))


@pytest.fixture(scope="module")
def samples():
    return recorded()


def problem_of(samples, force):
    """(arguments, options) of an estimate."""
    recording = fgmbs.Recording.of(DT * np.arange(STEPS), {"enc": samples}, units={"enc": "m"})
    sensor = Encoder("enc", of="x_left", unit="m", sigma=SIGMA)
    begun = {"start": {"x_left": START[0]}, "start_velocities": {"x_left": START[1]}, "start_sigma": BEGUN}
    return (pushed_mass.mass(), recording, (sensor,), (force,)), {"dt": DT, **begun}


def estimated(samples, force):
    arguments, options = problem_of(samples, force)
    return fgmbs.smooth(*arguments, **options)


def prepared(samples, force):
    arguments, options = problem_of(samples, force)
    return fgmbs.prepare_smooth(*arguments, **options)


@pytest.fixture(scope="module")
def asked(samples):
    """An estimate of white forces of unknown power, which the data ask to remember."""
    return estimated(samples, Disturbance())


@pytest.mark.slow
def test_its_likelihood_is_that_of_a_kalman_filter(samples, asked):
    """Between steps the force is taken as a straight line and what leaves it, which is exact to (Δt/τ)²."""
    found = (float(asked.unknowns[name]) for name in ("disturbance.power", "disturbance.time_constant"))
    assert float(asked.log_likelihood) == pytest.approx(log_density(samples, *found), abs=2e-3)
    assert asked.groups[-1].count == STEPS - 1


@pytest.mark.slow
def test_its_likelihood_is_that_of_a_kalman_filter_where_power_and_time_constant_are_known(samples):
    est = estimated(samples, Disturbance(POWER, time_constant=TIME))
    assert float(est.log_likelihood) == pytest.approx(log_density(samples, POWER, TIME), abs=2e-3)
    assert est.groups[-1].count == STEPS - 1


@pytest.mark.slow
def test_power_and_time_constant_are_most_likely(samples):
    est = estimated(samples, Disturbance())
    best = minimize(
        lambda logs: -log_density(samples, *np.exp(logs)), np.log([POWER, TIME]), method="Nelder-Mead", tol=1e-6
    ).x
    names = "disturbance.power", "disturbance.time_constant"
    found = np.log([float(est.unknowns[name]) for name in names])
    np.testing.assert_allclose(found, best, atol=0.01)
    e, bend = 0.02 * np.eye(2), np.zeros((2, 2))
    cost = lambda logs: -log_density(samples, *np.exp(logs))
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    for i in range(2):
        for j in range(2):
            bend[i, j] = sum(a * b * cost(best + a * e[i] + b * e[j]) for a, b in signs) / (4 * 0.02**2)
    std = np.array([float(est.unknowns_std[name]) for name in names]) / np.exp(found)
    np.testing.assert_allclose(std, np.sqrt(np.diag(np.linalg.inv(bend))), rtol=0.05)


@pytest.mark.slow
def test_white_forces_get_a_memory_where_the_data_ask_for_one(samples, asked):
    assert asked.inputs[0].time_constant is not None
    best = minimize_scalar(lambda log: -log_density_of_white(samples, np.exp(log)), (np.log(1e-3), np.log(1.0)))
    assert float(asked.log_likelihood) > -best.fun + 5
    pushed, std = np.asarray(asked.disturbance), np.asarray(asked.disturbance_std)
    assert pushed.shape == asked.dq.shape and np.std(pushed[:, 0]) > np.mean(std[:, 0]) > 0
    dataset = results.to_dataset(asked)
    np.testing.assert_array_equal(dataset["disturbance"], pushed)
    units = dict(zip(dataset.unknown.values, dataset.unknown_unit.values, strict=True))
    assert units == {"disturbance.power": "W", "disturbance.time_constant": "s"}
    assert "disturbance.time_constant" in asked.report()


@pytest.mark.slow
def test_white_forces_stay_white():
    found = [estimated(recorded(seed, white=True), Disturbance()) for seed in range(5)]
    assert [white.inputs[0].time_constant for white in found] == [None] * 5
    for white in found:
        assert np.all(np.asarray(white.disturbance) == 0) and np.all(np.asarray(white.disturbance_std) == 0)
        assert "disturbance" not in results.to_dataset(white)
    assert float(found[0].log_likelihood) == pytest.approx(
        log_density_of_white(recorded(0, white=True), float(found[0].unknowns["disturbance.power"])), abs=2e-3
    )


def test_no_memory_is_looked_for_where_there_is_to_be_none(samples):
    """White forces that are to stay it; and a power that was found once is not looked for again, nor is a memory."""
    found = eqx.tree_at(lambda force: force.power, Disturbance(), jnp.asarray(POWER), is_leaf=is_unknown)
    for force, sizes, looked in (
        (Disturbance(), 1, True),
        (Disturbance(time_constant=0.0), 1, False),
        (found, 0, False),
    ):
        problem = prepared(samples, force)
        assert problem.sizes.size == sizes and problem.inputs[0].time_constant is None
        assert (remembering._asking(problem) is not None) == looked


@pytest.mark.slow
def test_white_forces_stay_white_where_there_is_to_be_no_memory(samples):
    white = estimated(samples, Disturbance(time_constant=0.0))
    assert white.inputs[0].time_constant is None
    found = eqx.tree_at(lambda force: force.power, Disturbance(), white.inputs[0].power, is_leaf=is_unknown)
    assert estimated(samples, found).inputs[0].time_constant is None


@pytest.mark.slow
def test_the_independent_velocities_do_not_matter():
    """A crank turns: with its angle, or with the best coordinate of its end, which is another one now and then."""
    found = []
    for name, independent in (("fourbar_crank_angle", ("theta",)), ("fourbar", None)):
        mechanism = fgmbs.load(f"configs/mechanisms/{name}.yaml")
        sensors = Encoder("enc", body="crank", sigma=1e-3), Accelerometer("imu", body="coupler", at=(0.5, 0), sigma=0.1)
        motion = fgmbs.simulate(mechanism, 1.2, 0.01, start_velocities={"x_P1": 0.0, "y_P1": 8.0})
        recording = fgmbs.readings(mechanism, motion, sensors, seed=2)
        force = Disturbance(5.0, time_constant=0.3)
        found.append(fgmbs.smooth(mechanism, recording, sensors, (force,), start={}, independent=independent))
    one, other = found
    assert float(one.q[:, 0].min()) < -0.9
    # What is left is the error of the integration rule, in other coordinates.
    assert float(one.log_likelihood) == pytest.approx(float(other.log_likelihood), abs=0.05)
    np.testing.assert_allclose(one.q[:, :4], other.q[:, :4], atol=0.05 * float(np.median(one.q_std[:, 0])))
    np.testing.assert_allclose(one.ddq_std[:, :4], other.ddq_std[:, :4], rtol=0.02, atol=1e-3)
    forces = [np.asarray(each.joint_forces()[0]) for each in found]
    np.testing.assert_allclose(*forces, atol=0.01 * np.max(np.abs(forces[0])))
    powers = [np.sum(np.asarray(each.disturbance * each.dq), axis=1) for each in found]
    np.testing.assert_allclose(*powers, atol=0.01 * np.max(np.abs(powers[0])))


def test_what_cannot_be_meant():
    with pytest.raises(ArgumentError, match="input 'disturbance': time_constant: expected a positive number; found -1"):
        Disturbance(time_constant=-1.0)
    two = Disturbance(1.0, time_constant=0.1), Disturbance(1.0, time_constant=0.2, name="other")
    recording = fgmbs.Recording.of(DT * np.arange(5), {"enc": np.ones(5)}, units={"enc": "m"})
    sensor = Encoder("enc", of="x_left", unit="m", sigma=0.1)
    with pytest.raises(
        ArgumentError, match="expected one disturbance with a time constant; found 'disturbance' and 'other'"
    ):
        fgmbs.prepare_smooth(pushed_mass.mass(), recording, (sensor,), two)
