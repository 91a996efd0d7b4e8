"""The unknown gain of a recorded command: against the exact regression of a linear mechanism."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pushed_mass
import pytest
from pushed_mass import MASS

import fgmbs
from fgmbs import ArgumentError, Unknown
from fgmbs.inputs import Command, Disturbance
from fgmbs.sensors import Accelerometer, Encoder

pytestmark = pytest.mark.slow

DT, STEPS, POWER, SIGMA = 0.02, 121, 0.3, 0.02
START, SPEED, BEGUN = 1.2, 1.0, (0.3, 0.5)
GAIN, PRIOR = 1.7, (0.5, 3.0)
VOLTS = np.where(np.arange(STEPS) % 40 < 20, 2.0, -1.0) + 0.01 * np.arange(STEPS)


@pytest.fixture(scope="module")
def mass():
    return pushed_mass.mass()


def response():
    """Positions by a unit of gain: the volts are held from step to step."""
    (F, _), x, places = pushed_mass.step(POWER, DT), np.zeros(2), [0.0]
    for volts in VOLTS[:-1]:
        x = F @ x + np.array([DT**2 / 2, DT]) * volts / MASS
        places.append(x[0])
    return np.array(places)


def spread():
    """(mean, covariance) of all samples without the command."""
    return pushed_mass.distribution(POWER, SIGMA, DT, STEPS, (START, SPEED), BEGUN)


@pytest.fixture(scope="module")
def samples():
    mean, cov = spread()
    return mean + GAIN * response() + np.linalg.cholesky(cov) @ np.random.default_rng(5).standard_normal(STEPS)


@pytest.fixture(scope="module")
def exact(samples):
    """(gain, its standard deviation) by generalized least squares."""
    mean, cov = spread()
    by_gain = np.linalg.solve(cov, response())
    information = by_gain @ response() + PRIOR[1] ** -2
    return (by_gain @ (samples - mean) + PRIOR[0] * PRIOR[1] ** -2) / information, information**-0.5


SENSORS = (Encoder("enc", of="x_left", unit="m", sigma=SIGMA),)


def inputs(gain):
    return Disturbance(POWER), Command("x_left", "volts", gain=gain, name="drive")


@pytest.fixture(scope="module")
def recording(samples):
    return fgmbs.Recording.of(DT * np.arange(STEPS), {"enc": samples, "volts": VOLTS}, units={"enc": "m"})


@pytest.fixture(scope="module")
def estimate(mass, recording):
    begun = {"start": {"x_left": START}, "start_velocities": {"x_left": SPEED}, "start_sigma": BEGUN}
    return fgmbs.smooth(mass, recording, SENSORS, inputs(Unknown(PRIOR[0], sigma=PRIOR[1])), dt=DT, **begun)


def test_it_is_that_of_the_regression(estimate, exact):
    gain, std = exact
    assert float(estimate.unknowns["drive.gain"]) == pytest.approx(gain, rel=1e-6)
    assert float(estimate.unknowns_std["drive.gain"]) == pytest.approx(std, rel=1e-6)
    np.testing.assert_allclose(estimate.commands[1:, 0], gain * VOLTS[:-1], rtol=1e-6)  # held from the step before
    assert "drive.gain" in estimate.report()


def test_the_bands_of_accelerations_know_of_it(estimate, exact):
    """White forces have no value at an instant: what is told is the acceleration by the command."""
    ddq = np.asarray(estimate.ddq)[1:, 0]
    np.testing.assert_allclose(ddq, exact[0] * VOLTS[:-1] / MASS, rtol=1e-6)
    np.testing.assert_allclose(estimate.ddq_std[1:, 0], exact[1] * np.abs(VOLTS[:-1]) / MASS, rtol=1e-6)


def test_a_filter_finds_it_too(mass, recording, exact):
    """Of a linear mechanism the last estimate of a fixed-lag smoother is that of all steps together."""
    prior = Unknown(PRIOR[0], sigma=PRIOR[1])
    begun = {"start": {"x_left": START}, "start_velocities": {"x_left": SPEED}, "start_sigma": BEGUN}
    est = fgmbs.smooth(mass, recording, SENSORS, inputs(prior), dt=DT, window=3, **begun)
    assert float(est.unknowns["drive.gain"]) == pytest.approx(exact[0], rel=1e-6)
    assert float(est.unknowns_std["drive.gain"]) == pytest.approx(exact[1], rel=1e-6)


def test_pins_and_sensors_depend_on_it(configs):
    """A pendulum that is pushed by a recorded force, seen by an accelerometer only: noise-free, to 1e-6."""
    pendulum = fgmbs.load(configs / "mechanisms" / "pendulum.yaml")
    t = 0.01 * np.arange(101)
    push = 4 * np.sin(5 * t)
    force = {"x_tip": lambda t: 10 * jnp.sin(5 * t)}
    motion = fgmbs.hybrid_dynamics(pendulum, t, forces=force, actuators=["x_tip"], start={}, start_velocities={})
    sensors = (Encoder("enc", body="rod", sigma=1e-3), Accelerometer("acc", body="rod", at=(0.5, 0.0), sigma=1e-2))
    read = fgmbs.readings(pendulum, motion, sensors)
    volts = fgmbs.Recording.of(t, {"volts": push}).signals
    recording = fgmbs.Recording({**read.signals, **volts})
    drive = Command("x_tip", "volts", gain=Unknown(1.0), hold="linear", name="drive")
    est = fgmbs.smooth(pendulum, recording, sensors, (Disturbance(1e-6), drive), dt=0.01, start={})
    gain, std = float(est.unknowns["drive.gain"]), float(est.unknowns_std["drive.gain"])
    assert gain == pytest.approx(2.5, rel=1e-4)
    # Forces on the pin and their bands, by differences along the steps and θ.
    k, e, n = 60, 1e-6, pendulum.n
    x, E = jnp.concatenate([est.q[k], est.dq[k]]), est.tangents[k]
    along = fgmbs.dynamics.forcing.force_directions(pendulum, est.q[k], est.t[k], ("x_tip",))

    def pins(x, gain):
        ddq, lambda_ = fgmbs.acceleration(pendulum, x[:n], x[n:], est.t[k], along @ jnp.array([gain * push[k]]))
        return pendulum.joint_forces(x[:n], x[n:], ddq, lambda_, est.t[k])

    found, bands = est.joint_forces()
    np.testing.assert_allclose(found[k], pins(x, gain), rtol=1e-9, atol=1e-12)  # one of them is zero
    by_gain = np.eye(E.shape[1])[-1]  # θ stands behind the local coordinates
    ends = [[pins(x + s * e * one, gain + s * e * g) for s in (1, -1)] for one, g in zip(E.T, by_gain, strict=True)]
    J = np.stack([(ahead - behind) / (2 * e) for ahead, behind in ends], axis=-1)
    expected = np.sqrt(np.einsum("pia,ab,pib->pi", J, est.local_covariance[k], J))
    np.testing.assert_allclose(bands[k], expected, rtol=1e-5, atol=1e-11)
    assert np.max(expected) > std * abs(push[k]) * 0.1  # and the gain has its part


def test_what_cannot_be_meant(mass, recording):
    with pytest.raises(ArgumentError, match=r"input 'drive': gain: expected one number; found shape \(2,\)"):
        inputs(Unknown([1.0, 2.0]))
    silent = fgmbs.Recording.of(
        recording["enc"].t, {"enc": recording["enc"].values, "volts": np.zeros(STEPS)}, units={"enc": "m"}
    )
    with pytest.raises(ArgumentError, match="unknown 'drive.gain': expected numbers that the readings depend on"):
        fgmbs.smooth(mass, silent, SENSORS, inputs(Unknown(1.0)), dt=DT, start={"x_left": START})


def test_the_likelihood_has_the_slope_of_the_density_by_it(mass, recording, samples):
    begun = {"start": {"x_left": START}, "start_velocities": {"x_left": SPEED}, "start_sigma": BEGUN}
    problem = fgmbs.prepare_smooth(mass, recording, SENSORS, inputs(1.0), dt=DT, **begun)

    def likelihood(gain):
        changed = eqx.tree_at(lambda p: p.inputs[1].gain, problem, gain)
        return fgmbs.solve(changed).survey.log_likelihood

    value, slope = jax.jit(jax.value_and_grad(likelihood))(1.3)
    mean, cov = spread()
    left = samples - mean - 1.3 * response()
    assert float(slope) == pytest.approx(response() @ np.linalg.solve(cov, left), rel=1e-6)
