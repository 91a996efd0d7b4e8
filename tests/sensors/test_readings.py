"""Readings along a motion: when, how exact, with which noise and calibration."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.sensors import Accelerometer, Encoder, Gyroscope, LoadCell, Position, Torque
from fgmbs.sensors.readings import readings
from fgmbs.unknowns import Unknown

IMU = Accelerometer("imu", body="coupler", at=(0.3, 0.1), sigma=0.1)
ENCODER = Encoder("crank", of="theta", sigma=1e-3)


@pytest.fixture(scope="module")
def coarse(motion):
    """Every tenth sample."""
    forces = {name: force[::10] for name, force in motion.forces.items()}
    return types.SimpleNamespace(t=motion.t[::10], q=motion.q[::10], dq=motion.dq[::10], forces=forces)


def test_at_the_times_of_the_motion_they_are_those_of_the_motion(fourbar, motion):
    recording = readings(fourbar, motion, [ENCODER, Torque("i", of="motor", gain=2.0, sigma=1)])
    np.testing.assert_array_equal(recording["crank"].t, motion.t)
    np.testing.assert_allclose(recording["crank"].values, motion.q[:, 4], atol=1e-15)
    np.testing.assert_allclose(recording["i"].values, 2 * motion.forces["motor"], atol=1e-12)
    assert (recording["crank"].unit, recording["i"].unit) == ("rad", "N m")


def test_between_samples_they_are_nearly_exact(fourbar, motion, coarse):
    """Positions to DT⁴ y⁗ / 384, rates to DT³ y⁗ / 125; of the motor, linear in time, 0.02 N·m are missing."""
    sensors = [ENCODER, Gyroscope("gyro", body="coupler", sigma=1), IMU]
    fine, between = (readings(fourbar, m, sensors, rates=1000) for m in (motion, coarse))
    for name, bound in (("crank", 1e-6), ("gyro", 3e-4), ("imu.x", 2e-2), ("imu.y", 2e-2)):
        assert len(between[name]) == 401
        error = np.abs(fine[name].values - between[name].values)
        assert 1e-12 < error.max() < bound, (name, error.max())
        np.testing.assert_allclose(error[::10], 0, atol=1e-9)


@pytest.mark.slow
def test_forces_of_the_motion_drive_accelerations(fourbar, motion):
    cell = LoadCell("cell", pin="crank@A", sigma=1)
    each = (motion.q, motion.dq, motion.ddq, motion.lambda_, motion.forces["motor"][:, None])
    joints = jax.vmap(lambda q, dq, ddq, lambda_, u: fourbar.joint_forces(q, dq, ddq, lambda_, 0.0, u)[0])(
        *(jnp.asarray(x[::200]) for x in each)
    )
    at = motion.t[::200]
    recording = readings(fourbar, motion, [cell], times={"cell": at})
    np.testing.assert_allclose(np.stack([recording["cell.x"].values, recording["cell.y"].values], 1), joints, atol=1e-7)
    without = readings(fourbar, motion, [cell], times={"cell": at}, forces={})
    assert np.abs(without["cell.y"].values - joints[:, 1]).max() > 1


def test_forces_of_a_driven_motion_belong_to_its_motors(fourbar, motion):
    motors = [types.SimpleNamespace(name=name) for name in motion.forces]
    columns = np.stack(list(motion.forces.values()), axis=1)
    driven = types.SimpleNamespace(t=motion.t, q=motion.q, dq=motion.dq, motors=motors, forces=columns)
    recording = readings(fourbar, driven, [Torque("i", of="y_P2", unit="N", sigma=1)])
    np.testing.assert_allclose(recording["i"].values, motion.forces["y_P2"], atol=1e-12)


def test_rates_and_times(fourbar, motion):
    gyroscope = Gyroscope("gyro", body="crank", sigma=1, delay=0.05)
    recording = readings(fourbar, motion, [ENCODER, gyroscope], rates={"crank": 33.0, "gyro": 100.0})
    np.testing.assert_allclose(recording["crank"].t, np.arange(14) / 33)
    # 50 ms pass before it knows of the start; then it tells what was then.
    np.testing.assert_allclose(recording["gyro"].t, np.arange(5, 41) / 100)
    np.testing.assert_allclose(recording["gyro"].values, motion.dq[:-50:10, 4], atol=1e-10)
    at = [0.05, 0.1234, 0.45]
    recording = readings(fourbar, motion, [gyroscope], times={"gyro": at})
    np.testing.assert_allclose(
        recording["gyro"].values, np.interp(np.subtract(at, 0.05), motion.t, motion.dq[:, 4]), atol=1e-4
    )


def test_noise_has_its_size_and_belongs_to_the_seed_and_the_name(fourbar, motion):
    camera = Position("camera", point="P2", sigma=(0.02, 0.5))
    truth, first, again, other = (
        readings(fourbar, motion, sensors, rates=20000, seed=seed)
        for sensors, seed in (([camera], None), ([camera], 7), ([ENCODER, camera], 7), ([camera], 8))
    )
    count = len(first["camera.x"])
    x, y = (first[f"camera.{axis}"].values - truth[f"camera.{axis}"].values for axis in "xy")
    for noise, sigma in ((x, 0.02), (y, 0.5)):  # five standard deviations of mean and variance
        assert abs(noise.mean()) < 5 * sigma / np.sqrt(count)
        assert abs(noise.std() / sigma - 1) < 5 / np.sqrt(2 * count)
    assert abs(np.corrcoef(x, y)[0, 1]) < 5 / np.sqrt(count)
    np.testing.assert_array_equal(first["camera.x"].values, again["camera.x"].values)
    assert np.abs(first["camera.x"].values - other["camera.x"].values).max() > 0.02


def test_readings_are_in_steps_and_within_a_turn(fourbar, motion):
    step = 2 * np.pi / 512
    absolute = Encoder("absolute", of="theta", bias=2.8, resolution=step, sigma=1e-9)
    counting = Encoder("counting", of="theta", bias=2.8, incremental=True, sigma=1e-9)
    recording = readings(fourbar, motion, [absolute, counting])
    turn, count = recording["absolute"].values, recording["counting"].values
    np.testing.assert_allclose(turn / step, np.round(turn / step), atol=1e-9)
    assert np.abs(turn).max() <= np.pi + step / 2 and count.max() > np.pi
    np.testing.assert_allclose(np.angle(np.exp(1j * (turn - count))), 0, atol=step / 2 + 1e-9)
    error = jax.vmap(absolute.error)(jnp.asarray(count[:, None]), jnp.asarray(turn[:, None]))
    np.testing.assert_allclose(error, 0, atol=step / 2 + 1e-9)


def test_calibration_makes_the_readings_that_it_explains(fourbar, motion):
    unknown = {"gain": Unknown(500.0, sigma=9), "bias": Unknown((1.0, 2.0), sigma=9), "misalignment": Unknown(sigma=1)}
    camera = Position("camera", point="P2", unit="px", sigma=1, delay=Unknown(sigma=0.1), **unknown)
    truth = {"gain": 480.0, "bias": (30.0, -7.0), "misalignment": 0.1, "delay": 0.03}
    recording = readings(fourbar, motion, [camera], calibration={"camera": truth})
    pixels = np.stack([recording[f"camera.{axis}"].values for axis in "xy"], axis=1)
    complex_ = (pixels[:, 0] - 30 + 1j * (pixels[:, 1] + 7)) / 480 * np.exp(0.1j)
    np.testing.assert_allclose(np.stack([complex_.real, complex_.imag], 1), motion.q[:-30, 2:4], atol=1e-9)
    np.testing.assert_allclose(recording["camera.x"].t, motion.t[30:])
    prior = readings(fourbar, motion, [camera])
    np.testing.assert_allclose(prior["camera.x"].values, 500 * motion.q[:, 2] + 1)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"rates": {"crnk": 10.0}}, "rates: expected names of sensors; found 'crnk'; did you mean 'crank'?"),
        ({"rates": {"crank": 0.0}}, "rates['crank']: expected a positive number; found 0.0"),
        ({"rates": 5.0, "times": {"crank": [0.1]}}, "times: expected times or a rate of 'crank'; found both"),
        (
            {"times": {"crank": [0.1, 0.5]}},
            "times['crank']: expected times from 0 to 0.4 s, when the motion can be read; found",
        ),
        ({"times": {"crank": [[0.1]]}}, "times['crank']: expected times of shape (samples,); found shape (1, 1)"),
        ({"times": {"crank": [0.2, 0.1]}}, "Signal: t[1]: expected times that increase"),
        (
            {"calibration": {"crank": {"gain": 2}}},
            "calibration['crank']: expected names of unknown calibration numbers; found",
        ),
        ({"calibration": {"imu": {}}}, "calibration: expected names of sensors; found 'imu'"),
        ({"forces": {"moter": [1.0]}}, "forces: expected names of targets; found 'moter'; did you mean 'motor'?"),
        (
            {"forces": {"motor": [1.0]}},
            "forces['motor']: expected 401 numbers, one for each time of the motion; found shape (1,)",
        ),
        ({"sensors": []}, "sensors: expected at least one; found none"),
        ({"sensors": [ENCODER, ENCODER]}, "sensors: expected different names; found 'crank' twice"),
        (
            {"sensors": [ENCODER, Gyroscope("g", body="crank", columns="crank", sigma=1)]},
            "sensor 'g': columns: expected columns that no other sensor reads; found 'crank', which 'crank' reads",
        ),
        (
            {"sensors": [Gyroscope("g", body="crunk", sigma=1)]},
            "sensor 'g': body: there is no body 'crunk'; did you mean",
        ),
        (
            {"sensors": [Gyroscope("g", body="crank", delay=0.7, sigma=1)]},
            "sensor 'g': delay: expected less than the motion takes; found 0.7 s",
        ),
    ],
)
def test_arguments_that_cannot_be_meant(fourbar, motion, arguments, text):
    with pytest.raises(ArgumentError) as error:
        readings(fourbar, motion, **{"sensors": [ENCODER], **arguments})
    assert str(error.value).startswith(text)
