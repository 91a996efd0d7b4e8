"""Questions asked of robots without loops, on the ground and afloat."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import robots, tree
from fgmbs.inputs import Disturbance
from fgmbs.sensors import Accelerometer, Camera, Encoder, Gyroscope, Position

pytestmark = pytest.mark.slow
DT, AXES = 5e-3, ("x", "y", "z")


def arm(floating):
    """A body with two links; afloat it is a satellite with an arm."""
    holding = () if floating else (robots.fixed("feet", "world", "body"),)
    return robots.robot(
        *holding,
        robots.link("body", 4.0, (0.02, 0.0, 0.01), (0.06, 0.05, 0.07)),
        robots.link("upper", 1.0, (0.0, 0.0, -0.2), (0.02, 0.02, 0.002)),
        robots.link("lower", 0.7, (0.0, 0.0, -0.15), (0.01, 0.01, 0.001)),
        robots.revolute("shoulder", "body", "upper", (0, 1, 0), xyz=(0.1, 0, 0), damping=0.05),
        robots.revolute("elbow", "upper", "lower", (1, 0.3, 0), xyz=(0, 0, -0.4), damping=0.05),
        floating=floating,
    )


@pytest.fixture(scope="module")
def fixed():
    return arm(False)


@pytest.fixture(scope="module")
def afloat():
    return arm(True)


@pytest.fixture(scope="module")
def tumbling(afloat):
    start = {"shoulder": 0.5, "elbow": -0.8}
    names = afloat.velocity_names
    speeds = dict(zip(names, (0.4, -1.1, 0.8, 0.3, -0.2, 1.0, 0.7, -0.5), strict=True))
    return fgmbs.simulate(afloat, 1.0, DT, start=start, start_velocities=speeds)


def test_hybrid_dynamics_of_an_arm(fixed):
    """The shoulder moves as it is told, the elbow as it must: torques and accelerations are those of the tree."""
    t = DT * np.arange(201)
    told = 0.6 * np.sin(3 * t)
    motion = fgmbs.hybrid_dynamics(fixed, t, {"shoulder": told}, {"elbow": 0 * t}, start={"elbow": 0.4})
    q, dq, ddq = (np.asarray(x) for x in (motion.q, motion.dq, motion.ddq))
    np.testing.assert_allclose(q[:, 0], told, atol=1e-9)
    motors = list(motion.actuator_names)
    for k in (0, 77, 200):
        tau = np.asarray(tree.inverse_dynamics(fixed, q[k], dq[k], ddq[k]))
        size = np.abs(tau).max()
        assert abs(tau[1]) < 1e-6 * size  # nothing drives the elbow
        np.testing.assert_allclose(np.asarray(motion.forces)[k, motors.index("shoulder")], tau[0], atol=1e-6 * size)


def test_an_online_estimator_of_an_arm(fixed):
    """It begins 0.2 rad off, and holds the motion in its band."""
    motion = fgmbs.simulate(fixed, 1.0, DT, start={"shoulder": 0.5, "elbow": -0.8})
    sensors = [Encoder("at", of="shoulder", sigma=1e-3), Gyroscope("gyro", body="lower", axes=AXES, sigma=0.02)]
    recording = fgmbs.readings(fixed, motion, sensors, seed=2)
    estimator = fgmbs.online(fixed, sensors, [Disturbance(1e-4)], dt=DT)
    state = estimator.init({"shoulder": 0.5, "elbow": -0.6})
    far = []
    for k in range(len(motion.t)):
        read = {
            "at": recording["at"].values[k],
            "gyro": np.array([recording[f"gyro.{axis}"].values[k] for axis in AXES]),
        }
        state, estimate = estimator.step(state, estimator.sample(read))
        far.append((np.asarray(estimate.q) - np.asarray(motion.q[k])) / np.asarray(estimate.q_std))
    assert np.mean(np.abs(far[50:]) < 3) > 0.95
    assert np.asarray(estimate.q_std).max() < 0.02


def test_what_is_seen_of_an_arm(fixed):
    """An encoder on the shoulder sees the elbow by what it does to the shoulder; a gyroscope on the base nothing."""
    motion = fgmbs.simulate(fixed, 0.5, DT, start={"shoulder": 0.5, "elbow": -0.8})
    few = [Disturbance(1e-6)]
    seen = fgmbs.observability(fixed, motion, [Encoder("at", of="shoulder", sigma=1e-4)], few)
    blind = fgmbs.observability(fixed, motion, [Gyroscope("gyro", body="body", axes=AXES, sigma=1e-4)], few)
    assert not seen.unseen and np.nanmedian(seen.share, axis=0).max() < 0.1
    assert set(blind.unseen) == set(blind.names)


def test_a_satellite_with_an_arm_is_smoothed(afloat, tumbling):
    """An inertial unit, encoders, a place and a camera on the ground: a quaternion among the coordinates."""
    sensors = [
        *(Encoder(name, of=name, sigma=1e-3) for name in ("shoulder", "elbow")),
        Gyroscope("gyro", body="body", axes=AXES, sigma=0.01),
        Accelerometer("acc", body="body", axes=AXES, sigma=0.1),
        Position("place", body="body", axes=AXES, sigma=5e-3),
        Camera("eye", body="lower", position=(0, -5, 0), rotation=(-np.pi / 2, 0, 0), gain=800.0, sigma=1.0),
    ]
    recording = fgmbs.readings(afloat, tumbling, sensors, seed=4)
    result = fgmbs.smooth(afloat, recording, sensors, [Disturbance(1e-4)])
    assert result.status == fgmbs.Status.converged
    local = np.array([np.asarray(afloat.local(a, b)) for a, b in zip(tumbling.q, result.q, strict=True)])
    assert np.abs(local).max() < 0.05
    np.testing.assert_allclose(np.linalg.norm(np.asarray(result.q)[:, 3:7], axis=1), 1, atol=1e-12)
    normalized = (np.asarray(result.dq) - np.asarray(tumbling.dq)) / np.asarray(result.dq_std)
    assert np.mean(np.abs(normalized) < 3) > 0.95


def test_an_online_estimator_afloat(afloat, tumbling):
    sensors = [
        *(Encoder(name, of=name, sigma=1e-3) for name in ("shoulder", "elbow")),
        Gyroscope("gyro", body="body", axes=AXES, sigma=0.01),
        Position("place", body="body", axes=AXES, sigma=5e-3),
        Position("hand", body="lower", at=(0, 0, -0.3), axes=AXES, sigma=5e-3),
    ]
    recording = fgmbs.readings(afloat, tumbling, sensors, seed=4)
    estimator = fgmbs.online(afloat, sensors, [Disturbance(1e-4)], dt=DT)
    state, estimate = estimator.init({"shoulder": 0.5, "elbow": -0.8}), None
    for k in range(len(tumbling.t)):
        read = {}
        for sensor in sensors:
            values = np.array([recording[column].values[k] for column in sensor.columns])
            read[sensor.name] = values if len(values) > 1 else values[0]
        state, estimate = estimator.step(state, estimator.sample(read))
    off = np.asarray(afloat.local(tumbling.q[-1], jnp.asarray(estimate.q)))
    assert np.abs(off).max() < 0.05
    assert np.mean(np.abs((np.asarray(estimate.dq) - tumbling.dq[-1]) / estimate.dq_std) < 3) == 1


def test_numbers_of_a_satellite_are_identified(afloat, tumbling):
    """A mass told by how the arm turns the body, and a damping; a camera tells the attitude."""
    eye = dict(position=(0, -5, 0), rotation=(-np.pi / 2, 0, 0), gain=800.0, sigma=1.0)
    sensors = [
        *(Encoder(name, of=name, sigma=1e-3) for name in ("shoulder", "elbow")),
        Gyroscope("gyro", body="body", axes=AXES, sigma=0.01),
        Position("place", body="body", axes=AXES, sigma=5e-3),
        Camera("eye", body="body", at=[(0.1, 0.1, 0.1), (-0.1, 0.1, 0.1)], **eye),
    ]
    recording = fgmbs.readings(afloat, tumbling, sensors, seed=4)
    guess = afloat.with_parameters({"lower.mass": 0.9, "elbow.damping": 0.02})
    free = {"lower.mass": (0.1, 5.0), "elbow.damping": (1e-3, 1.0)}
    start = {"shoulder": 0.5, "elbow": -0.8}
    fit = fgmbs.identify(guess, recording, sensors, [Disturbance(1e-5)], free=free, start=start)
    assert fit.status == fgmbs.Status.converged
    for name, true in (("lower.mass", 0.7), ("elbow.damping", 0.05)):
        assert abs(fit.parameters[name] - true) < 3 * fit.std[name] < true
    assert "lower.mass" in fit.report()
    assert fit.mechanism.physical_parameters()["lower.mass"] == fit.parameters["lower.mass"]
