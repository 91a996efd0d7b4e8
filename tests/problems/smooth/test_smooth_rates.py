"""Rates that are no round numbers: a camera of 29.97 Hz whose stamps are rounded, alone and beside a fast sensor."""

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.sensors import Gyroscope, Position
from fgmbs.status import Status

START = {"x_tip": 0.6, "y_tip": -0.8}
STAMPS = np.round(np.arange(90) * 1001 / 30000, 6)
CAMERA, GYRO = Position("cam", point="tip", sigma=1e-3), Gyroscope("gyro", body="rod", sigma=0.01)


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


@pytest.fixture(scope="module")
def motion(pendulum):
    return fgmbs.simulate(pendulum, 3.0, 1e-3, start=START)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sensors, dt", [((CAMERA,), 1001 / 30000), ((CAMERA, GYRO), 0.005)], ids=["alone", "with a gyro"]
)
def test_a_camera_at_its_own_rate(pendulum, motion, sensors, dt):
    """Readings without noise give back the motion, to a tenth of the noise that is expected; none is left out."""
    rates = {"gyro": 200} if GYRO in sensors else None
    recording = fgmbs.readings(pendulum, motion, sensors, times={"cam": STAMPS}, rates=rates)
    est = fgmbs.smooth(pendulum, recording, sensors, (Disturbance(1e-4),), start=START)
    assert est.status == Status.converged and float(est.t[1] - est.t[0]) == pytest.approx(dt, rel=1e-8)
    film = est.fits[0]
    np.testing.assert_allclose(film.t, STAMPS, atol=1e-6)  # to which they are rounded
    assert np.max(np.abs(film.normalized)) < 0.1
    truth = CubicHermiteSpline(motion.t, motion.q, motion.dq)
    np.testing.assert_allclose(est.q, truth(est.t), atol=1e-4)


@pytest.mark.slow
def test_samples_of_times_before_the_first_step_are_told_of(pendulum, motion):
    late = Gyroscope("gyro", body="rod", sigma=0.01, delay=0.055)
    recording = fgmbs.readings(pendulum, motion, (CAMERA, GYRO), rates={"cam": 50, "gyro": 100})
    est = fgmbs.smooth(pendulum, recording, (CAMERA, late), (Disturbance(1e-2),), start=START)
    (note,) = (note for note in est.notes if "left out" in note)
    assert "gyro: 6 of 301 samples are by its delay of 0.055 s of times before the first step, left out" in note
    assert len(est.fits[1].t) == 295
