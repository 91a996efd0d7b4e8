"""Free runs against recordings: a true model foretells everything, the first state is found, rigs as their figures."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import Command
from fgmbs.problems.identify.free_runs.validation import free_run
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.status import Status

DT, T = 1e-2, 0.6
TRUE_SPEED = 1.5


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


@pytest.fixture(scope="module")
def sensors(pendulum):
    (rod,) = pendulum.body_names
    # Samples of the encoder lie between steps, and its turns are not counted.
    return Encoder("enc", body=rod, sigma=1e-3, delay=2e-3), Gyroscope("gyro", body=rod, sigma=1e-2)


@pytest.fixture(scope="module")
def swung(pendulum, sensors):
    motion = fgmbs.simulate(pendulum, T, DT, start_velocities={"y_tip": TRUE_SPEED})
    return motion, fgmbs.readings(pendulum, motion, sensors)


@pytest.fixture(scope="module")
def foretold(pendulum, swung, sensors):
    """From a start with a velocity that is not the true one."""
    return free_run(pendulum, swung[1], sensors, start={}, start_velocities={"y_tip": 1.2 * TRUE_SPEED}, dt=DT)


@pytest.mark.slow
def test_first_state_is_found_and_the_run_foretells_everything(foretold, swung):
    motion, _ = swung
    assert foretold.status == Status.converged
    # The encoder's first sample is stamped later than the first step.
    count = len(foretold.t)
    first = int(np.round(foretold.t[0] / DT))
    np.testing.assert_allclose(foretold.q, motion.q[first : first + count], atol=1e-6)
    np.testing.assert_allclose(foretold.dq, motion.dq[first : first + count], atol=1e-5)
    assert foretold.rms["enc"] < 1e-6 and foretold.rms["gyro"] < 1e-5
    assert foretold.fit["enc"] > 99.99 and foretold.fit["gyro"] > 99.99


@pytest.mark.slow
def test_what_is_foretold_lies_at_the_samples(foretold, swung):
    _, recording = swung
    gyro = foretold["gyro"]
    np.testing.assert_allclose(gyro.measured[:, 0], recording["gyro"].values)
    np.testing.assert_allclose(gyro.t, recording["gyro"].t, atol=1e-9)
    with pytest.raises(KeyError):
        foretold["none"]


def test_a_start_that_is_given_is_kept(pendulum, swung, sensors):
    _, recording = swung
    run = free_run(
        pendulum, recording, sensors, start={}, start_velocities={"y_tip": 1.2 * TRUE_SPEED}, fit_start=False
    )
    np.testing.assert_allclose(run.dq[0, 1], 1.2 * TRUE_SPEED, rtol=1e-12)
    # By hand, of what is reported.
    gyro = run["gyro"]
    error = gyro.predicted - gyro.measured
    np.testing.assert_allclose(gyro.rms, np.sqrt(np.mean(error**2, axis=0)))
    share = np.linalg.norm(error) / np.linalg.norm(gyro.measured - gyro.measured.mean())
    np.testing.assert_allclose(gyro.fit, 100 * (1 - share))
    assert gyro.fit < 95


def test_horizon_must_be_positive(pendulum, swung, sensors):
    with pytest.raises(fgmbs.ArgumentError, match="horizons: expected positive times in seconds; found 0.0"):
        free_run(pendulum, swung[1], sensors, horizons=(0.0,))


@pytest.mark.slow
def test_start_is_told_by_the_sensors(pendulum, swung, sensors):
    motion, recording = swung
    unknown = pendulum.with_parameters({"gravity.y": Unknown(pendulum.physical_parameters()["gravity.y"])})
    run = free_run(unknown, recording, sensors, horizons=(0.1, 0.3))
    assert run.rms["enc"] < 1e-6
    for horizon in (0.1, 0.3):
        assert run["enc"].horizons[horizon] < 1e-6
    assert not run.mechanism.physical_parameters()["gravity.y"] == 0


@pytest.mark.slow
def test_hand_made_numbers_of_the_rotary_pendulum(data_dir):
    sys.path.insert(0, str(Path(__file__).parents[3] / "experiments"))
    from rigs import furuta

    rig, recording = furuta.Furuta(), furuta.recording("sine_4V")
    sensors = tuple(Encoder(axis, of=axis, columns=axis, sigma=1e-3) for axis in ("arm", "pendulum"))
    motor = Command("motor", "u", gain=rig.motor_gain)
    start = {axis: recording[axis].values[0] for axis in ("arm", "pendulum")}
    speeds = {axis: recording[f"{axis}_speed"].values[0] for axis in ("arm", "pendulum")}
    options = dict(start=start, start_velocities=speeds)
    run = free_run(rig, recording, sensors, (motor,), **options, fit_start=False)
    # Found with another integrator, from the recorded start [rad].
    np.testing.assert_allclose(run.rms["arm"], 0.041, atol=1e-3)
    np.testing.assert_allclose(run.rms["pendulum"], 0.095, atol=2e-3)
    fitted = free_run(rig, recording, sensors, (motor,), **options)
    assert fitted.rms["arm"] < run.rms["arm"] and fitted.rms["pendulum"] < run.rms["pendulum"]


@pytest.mark.slow
def test_what_is_a_recordings_own_is_found_with_its_first_state(pendulum, swung, sensors):
    """The zero of the encoder, and of its first values those of others."""
    zero, (encoder, gyro) = 0.3, sensors
    recording = swung[1]
    turned = dataclasses.replace(recording["enc"], values=recording["enc"].values + zero)
    recording = dataclasses.replace(recording, signals={**recording.signals, "enc": turned})
    unknown = Encoder("enc", body=encoder.body, sigma=1e-3, delay=2e-3, bias=Unknown(0.1, own=True))
    options = dict(start={}, start_velocities={"y_tip": TRUE_SPEED}, dt=DT)
    run = free_run(pendulum, recording, (unknown, gyro), **options)
    np.testing.assert_allclose(run.parameters["enc.bias"], zero, atol=1e-6)
    assert run.rms["enc"] < 1e-6
    held = free_run(pendulum, recording, (unknown, gyro), fit_start=False, **options)
    assert held.parameters == {} and held.rms["enc"] == pytest.approx(zero - 0.1, rel=0.05)


@pytest.mark.slow
def test_a_fit_foretells_with_what_each_recording_has_of_its_own(pendulum):
    """The zero of an encoder: of recordings that were used as it was found, of another one anew."""
    (rod,) = pendulum.body_names
    zeros, speeds, recordings = (0.02, -0.05, 0.3), (0.5, 1.0, 1.5), []
    for seed, (zero, speed) in enumerate(zip(zeros, speeds, strict=True)):
        motion = fgmbs.simulate(pendulum, T, DT, start_velocities={"y_tip": speed})
        recordings.append(
            fgmbs.readings(pendulum, motion, [Encoder("enc", body=rod, sigma=1e-3, bias=zero)], seed=seed)
        )
    free = {"gravity.y": (-12.0, -8.0), "enc.bias": Unknown(own=True)}
    sensors = [Encoder("enc", body=rod, sigma=1e-3)]
    fit = fgmbs.identify(pendulum, recordings[:2], sensors, free=free, method="prediction")
    used = fit.free_run(recordings[1], start={}, start_velocities={"y_tip": speeds[1]})
    assert used.parameters == {} and used.rms["enc"] < 1.2e-3
    run = fit.free_run(recordings[2], start={}, start_velocities={"y_tip": 1.0})
    assert abs(run.parameters["enc.bias"] - zeros[2]) < 1.5e-2 and run.rms["enc"] < 1.2e-3
    # Found from the others, from a start that is wrong for both.
    validation = fgmbs.cross_validate(fit, start={}, start_velocities={"y_tip": 0.8})
    assert np.isnan(validation.parameters["enc.bias@0"]).tolist() == [True, False] and "nan" not in validation.report()
    for fold, zero in zip(validation.folds, zeros, strict=False):
        assert abs(fold.run.parameters["enc.bias"] - zero) < 1.5e-2 and fold.run.rms["enc"] < 1.2e-3
