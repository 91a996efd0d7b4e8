"""The first guess of a recorded motion: of a linear mechanism it is the Kalman filter, of others it is near the end."""

import jax.numpy as jnp
import numpy as np
import pushed_mass
import pytest
from pushed_mass import MASS

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import Command, Disturbance
from fgmbs.losses import Huber
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.smooth.beginning import begun, modelled
from fgmbs.problems.smooth.guesses.following import follow
from fgmbs.sensors import Accelerometer, Encoder, Position

DT, STEPS, POWER, SIGMA = 0.02, 121, 0.3, 0.02
START, BEGUN, BIAS, GAIN = (1.2, 1.0), (0.3, 0.5), 0.1, 0.4
VOLTS = np.where(np.arange(STEPS) % 40 < 20, 2.0, -1.0)
T = DT * np.arange(STEPS)


@pytest.fixture(scope="module")
def recording():
    """Samples that are missing now and then."""
    rng = np.random.default_rng(3)
    read = START[0] + START[1] * T + 0.05 + SIGMA * rng.standard_normal(STEPS)
    there = (np.arange(STEPS) < 30) | (np.arange(STEPS) > 45)
    signals = fgmbs.Recording.of(T[there], {"enc": read[there]}).signals
    return fgmbs.Recording({**signals, **fgmbs.Recording.of(T, {"volts": VOLTS}).signals})


def followed(recording, **options):
    mass = pushed_mass.mass()
    drive = Command("x_left", "volts", gain=Unknown(0.0, sigma=GAIN), name="drive")
    sensor = Encoder("enc", of="x_left", unit="m", sigma=SIGMA, bias=Unknown(0.0, sigma=BIAS), **options)
    start = {"start": {"x_left": START[0]}, "start_velocities": {"x_left": START[1]}, "start_sigma": BEGUN}
    problem = fgmbs.prepare_smooth(mass, recording, (sensor,), (Disturbance(POWER), drive), dt=DT, **start)
    first = problem.starts_on_constraints()[0]
    model, data = modelled(problem, nominal_delays(problem.sensors), first)
    return problem, follow(model, first, model.free.sigma, data, int(problem.recording.count))


@pytest.mark.slow
def test_of_a_linear_mechanism_it_is_the_kalman_filter(recording):
    problem, found = followed(recording)
    read = dict(zip(np.round(recording["enc"].t / DT).astype(int).tolist(), recording["enc"].values, strict=True))
    # (position, velocity, then bias and gain in the order of the unknown numbers).
    bias, gain = (2 + problem.free.names.index(name) for name in ("enc.bias", "drive.gain"))
    (F2, Q2), F, Q = pushed_mass.step(POWER, DT), np.eye(4), np.zeros((4, 4))
    F[:2, :2], Q[:2, :2] = F2, Q2
    x, P, cost = np.array([*START, 0.0, 0.0]), np.diag(np.square([*BEGUN, 0.0, 0.0])), 0.0
    P[bias, bias], P[gain, gain] = BIAS**2, GAIN**2
    H, places = np.zeros(4), problem.mechanism.n
    H[[0, bias]] = 1
    for k in range(STEPS):
        if k:
            F[:2, gain] = np.array([DT**2 / 2, DT]) * VOLTS[k - 1] / MASS
            x, P = F @ x, F @ P @ F.T + Q
        if k in read:
            S, miss = H @ P @ H + SIGMA**2, float(np.squeeze(read[k])) - H @ x
            x, P = x + P @ H * miss / S, P - np.outer(P @ H, P @ H) / S
            cost += 0.5 * miss**2 / S
        # What another look would change by less than 1.4e-3 standard deviations is left.
        assert (np.abs(found.steps[k, ::places] - x[:2]) <= 2e-3 * np.sqrt(np.diag(P)[:2])).all()
        np.testing.assert_allclose(found.cost[k], cost, rtol=1e-6, atol=1e-6)
    assert (np.abs(found.theta - x[2:]) <= 2e-3 * np.sqrt(np.diag(P)[2:])).all()


@pytest.mark.slow
def test_a_wild_sample_does_not_lead_it_astray(recording):
    values = recording["enc"].values.copy()
    values[60] += 5.0
    wild = fgmbs.Recording({**recording.signals, **fgmbs.Recording.of(recording["enc"].t, {"enc": values}).signals})
    _, right = followed(recording, loss=Huber())
    _, found = followed(wild, loss=Huber())
    _, astray = followed(wild)
    off, without = (np.abs(np.asarray(one.steps - right.steps)[:, 0]).max() for one in (found, astray))
    assert off < 3 * SIGMA < without


@pytest.fixture(scope="module")
def filmed(configs):
    """A double pendulum that swings fast, and a camera whose scale, place and tilt are known roughly."""
    mechanism = fgmbs.load(configs / "mechanisms" / "double_pendulum_ibm.yaml")
    calibration = {
        "unit": "px",
        "sigma": 1.0,
        "gain": Unknown(6450.0, sigma=65.0),
        "bias": Unknown(np.zeros(2), sigma=3.0),
        "misalignment": Unknown(0.0, sigma=0.02),
    }
    return mechanism, [Position(point, point=point, **calibration) for point in ("joint", "tip")]


@pytest.mark.slow
@pytest.mark.parametrize("theta, phi", [(-2.785, 0.019), (-2.89, -0.535), (-2.838, -0.297), (2.831, 1.37)])
def test_a_start_far_from_the_drawing_is_found(filmed, theta, phi):
    """With a camera that could be anywhere, no start may be explained by a flipped one."""
    mechanism, cameras = filmed
    start, speeds = {"theta": theta, "phi": phi}, {"theta": -20.0, "phi": 20.0}
    motion = fgmbs.simulate(mechanism, 0.3, 2e-3, start=start, start_velocities=speeds)
    seen = fgmbs.readings(mechanism, motion, cameras, seed=1)
    found = begun(fgmbs.prepare_smooth(mechanism, seen, cameras, (Disturbance(1e-4),), dt=2e-3))
    off = np.asarray(found.x.steps)[:150, 4:6] - np.asarray(motion.q)[:150, 4:6]
    off -= 2 * np.pi * np.round(off[0] / (2 * np.pi))
    assert np.abs(off[10:]).max() < 0.02  # by then the speeds are found
    assert found.x.globals[jnp.asarray([2, 6])] == pytest.approx(6450.0, abs=70.0)
    assert int(np.isfinite(found.starts.behind).sum()) < 8  # whole turns of both arms are one motion


def test_centripetal_accelerations_do_not_hide_a_speed(swing):
    """At rest they have no slope: another pose would explain them, 200 standard deviations from the encoder."""
    speed = {"y_tip": 12 * np.cos(np.pi / 4)}
    motion = fgmbs.simulate(swing.mechanism, 0.2, 2e-3, start={}, start_velocities=speed)
    sensors = (Encoder("enc", body="rod", sigma=1e-2), Accelerometer("acc", body="rod", at=(1.0, 0.0), sigma=0.2))
    read = fgmbs.readings(swing.mechanism, motion, sensors, seed=0)
    found = fgmbs.smooth(swing.mechanism, read, sensors, [Disturbance(1e-3)], start={})
    assert np.max(np.abs(found.q - motion.q)) < 1e-2
