"""Stamps that are off: what they add to the noise of a sensor, and how it is found."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import ArgumentError, Unknown
from fgmbs.inputs import Disturbance
from fgmbs.problems.estimation.graph import EstimationModel
from fgmbs.problems.smooth.beginning import modelled
from fgmbs.sensors import Accelerometer, Encoder, Gyroscope
from fgmbs.signals.recordings.timing import timing

RATE, SIGMA, OFF = 250.0, 1e-3, 4e-4
POWER = 1e-3


def encoder(**more):
    return Encoder("enc", body="rod", sigma=SIGMA, **more)


SENSORS = {
    "encoder": encoder(),
    "gyroscope": Gyroscope("gyro", body="rod", sigma=0.01, gain=1.3),
    "accelerometer": Accelerometer("acc", body="rod", at=(0.4, 0.1), sigma=0.05, axes=("x", "y")),
}


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


@pytest.fixture(scope="module")
def motion(pendulum):
    return fgmbs.simulate(pendulum, duration=4.0, dt=1 / RATE)


def test_what_is_given_is_checked():
    assert float(encoder(time_sigma=1e-4).time_sigma) == 1e-4 and encoder().time_sigma is None
    with pytest.raises(ArgumentError, match="sensor 'enc': time_sigma: expected a positive number or 0; found -1"):
        encoder(time_sigma=-1.0)
    with pytest.raises(ArgumentError, match="sensor 'enc': time_sigma: expected one number; found shape"):
        encoder(time_sigma=(1e-4, 2e-4))


def test_readings_have_the_noise_of_stamps(pendulum, motion):
    exact = fgmbs.readings(pendulum, motion, [encoder()], seed=3)["enc"]
    late = fgmbs.readings(pendulum, motion, [encoder(time_sigma=OFF)], seed=3)["enc"]
    np.testing.assert_array_equal(late.values, exact.values)
    assert np.std(late.t - exact.t) == pytest.approx(OFF, rel=0.1)
    assert timing(late.t).jitter == pytest.approx(OFF, rel=0.1) and timing(exact.t).jitter < 1e-12
    with pytest.raises(ArgumentError, match="time_sigma: expected stamps that keep the order of samples; found 0.01 s"):
        fgmbs.readings(pendulum, motion, [encoder(time_sigma=0.01)], seed=3)


@pytest.mark.parametrize("kind", SENSORS)
def test_the_rate_of_a_reading_is_that_of_its_differences(pendulum, motion, kind):
    sensor = SENSORS[kind]
    recording = fgmbs.readings(pendulum, motion, [sensor])
    problem = fgmbs.prepare_smooth(pendulum, recording, [sensor], [Disturbance(POWER)], start={}, start_velocities={})
    first = jnp.concatenate([motion.q[0], motion.dq[0]])
    model, _ = modelled(problem, jnp.zeros(1), first)
    assert isinstance(model, EstimationModel)
    y = np.stack([recording[column].values for column in sensor.columns], axis=1)
    y = np.unwrap(y, axis=0) if kind == "encoder" else y
    for k in (100, 400, 777):
        x = jnp.concatenate([motion.q[k], motion.dq[k]])
        rate = model.rate_of(sensor, x, motion.t[k], jnp.zeros(0))
        differences = (8 * (y[k + 1] - y[k - 1]) - (y[k + 2] - y[k - 2])) * RATE / 12
        np.testing.assert_allclose(rate, differences, rtol=1e-4, atol=1e-4)


def estimated(pendulum, motion, sensor):
    recording = fgmbs.readings(pendulum, motion, [encoder(time_sigma=OFF)], seed=1)
    return fgmbs.smooth(pendulum, recording, [sensor], dt=1 / RATE, start={}, start_velocities={})


def off(est, motion):
    """Mean square of the error of the velocities [m²/s²]."""
    truth = np.stack([np.interp(est.t, motion.t, column) for column in np.asarray(motion.dq).T], axis=1)
    return np.mean((np.asarray(est.dq) - truth)[20:-20] ** 2)


@pytest.mark.slow
def test_irregular_stamps_are_found_to_be_noise(pendulum, motion):
    """By default, with the size of the disturbance; the speed is that of the motion, not that of the stamps."""
    est = estimated(pendulum, motion, encoder())
    assert est.unknowns["enc.time_sigma"] == pytest.approx(OFF, rel=0.15)
    assert abs(float(est.unknowns["enc.time_sigma"]) - OFF) < 4 * float(est.unknowns_std["enc.time_sigma"])
    (group, _) = est.groups
    assert group.chi2 / group.dof == pytest.approx(1.0, abs=0.15) and not est.notes
    dataset = fgmbs.to_dataset(est)
    k = dataset.unknown.values.tolist().index("enc.time_sigma")
    assert dataset.unknown_unit.values[k] == "s"
    relative = est.unknowns_std["enc.time_sigma"] / est.unknowns["enc.time_sigma"]
    left = relative / est.priors["enc.time_sigma"].sigma  # of a positive number that of its logarithm
    assert float(dataset["unknown_left"][k]) == pytest.approx(float(left)) and left < 0.1
    blind = estimated(pendulum, motion, encoder(time_sigma=0.0))
    assert off(est, motion) < 0.5 * off(blind, motion)
    # What it should have read is that of the estimate, whatever the residual was divided by.
    (fit,) = est.fits
    tip = np.asarray(est.q)[:, :2]
    angle = np.interp(fit.t, est.t, np.unwrap(np.arctan2(tip[:, 1], tip[:, 0])))
    apart = fit.predicted[:, 0] - angle
    assert np.max(np.abs(apart - 2 * np.pi * np.round(apart / (2 * np.pi)))) < 1e-3


@pytest.mark.slow
def test_regular_stamps_have_no_noise(pendulum, motion):
    recording = fgmbs.readings(pendulum, motion, [encoder()], seed=1)
    problem = fgmbs.prepare_smooth(pendulum, recording, [encoder()])
    assert problem.sensors[0].time_sigma is None and problem.sizes.names == ("disturbance.power",)
    late = fgmbs.readings(pendulum, motion, [encoder(time_sigma=OFF)], seed=1)
    problem = fgmbs.prepare_smooth(pendulum, late, [encoder()], [Disturbance(POWER)])
    assert problem.sizes.names == ("enc.time_sigma",)
    assert fgmbs.prepare_smooth(pendulum, late, [encoder(time_sigma=OFF)], [Disturbance(POWER)]).sizes.names == ()
    unknown = encoder(time_sigma=Unknown(2e-4, sigma=0.1))
    problem = fgmbs.prepare_smooth(pendulum, recording, [unknown], [Disturbance(POWER)])
    assert problem.sizes.names == ("enc.time_sigma",) and float(np.exp(problem.sizes.value[0])) == pytest.approx(2e-4)
