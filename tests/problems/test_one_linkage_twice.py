"""A five-bar linkage as a robot and as a planar mechanism: the same answers to every question.

Joints of the robot turn about +y, angles of the plane from x towards z: one is the negative of the other. Both solve in
coordinates of their own, so what is integrated agrees to the order of the rule.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import planar
from fgmbs.inputs import Command, Disturbance
from fgmbs.sensors import Encoder

pytestmark = pytest.mark.slow
START = {"j1": -2.0, "j2": -1.0}
DT, SIGMA, POWER = 2e-3, 1e-3, 1e-2


class Twin:
    """One of the two; what it says of its cranks has the signs of the robot."""

    def __init__(self, mechanism, cranks, motors, sign):
        self.mechanism, self.cranks, self.motors, self.sign = mechanism, cranks, motors, sign
        self.start = {crank: sign * angle for crank, angle in zip(cranks, START.values(), strict=True)}
        self.sensors = tuple(Encoder(f"e{k}", of=crank, sigma=SIGMA) for k, crank in enumerate(cranks))

    def of(self, q):
        places = [self.mechanism.coordinate_names.index(crank) for crank in self.cranks]
        return self.sign * np.asarray(q)[..., places]

    def read(self, angles):
        return {f"e{k}": self.sign * angles[:, k] for k in range(2)}


@pytest.fixture(scope="module")
def twins(data_dir):
    robot = fgmbs.load(data_dir / "robots" / "loops" / "five_bar.urdf")
    q = fgmbs.assemble(robot, START)

    def point(name, link, along=0.0, **options):
        R, p = robot.body_frame(link, q, 0.0)
        x, _, z = np.asarray(p + along * R[:, 0]).tolist()
        return planar.point(name, x, z, **options)

    def bar(name, first, second, mass, inertia):
        return planar.body(name, first, second, mass=mass, I0=f"{inertia} + mass*length^2/4", cog=("length/2", 0.0))

    linkage = planar.mechanism(
        point("A", "l1", fixed=True),
        point("P", "l2"),
        point("E", "l2", 0.42),
        point("Q", "l3"),
        point("B", "l4", fixed=True),
        bar("l1", "A", "P", 1.0, 0.007575),
        bar("l2", "P", "E", 0.8, 0.01182),
        bar("l3", "Q", "E", 0.8, 0.01182),
        bar("l4", "B", "Q", 1.0, 0.007575),
        planar.absolute_angle("t1", "A", "P"),
        planar.absolute_angle("t2", "B", "Q"),
        planar.actuator("m1", angle="t1"),
        planar.actuator("m2", angle="t2"),
    )
    return Twin(robot, ("j1", "j2"), ("j1", "j2"), 1.0), Twin(linkage, ("t1", "t2"), ("m1", "m2"), -1.0)


@pytest.fixture(scope="module")
def falling(twins):
    return [fgmbs.simulate(twin.mechanism, 0.4, DT, start=twin.start) for twin in twins]


@pytest.fixture(scope="module")
def read(twins, falling):
    """The same noise on both."""
    noise = SIGMA * np.random.default_rng(0).standard_normal((len(falling[0].t), 2))
    angles = twins[0].of(falling[0].q) + noise
    return [fgmbs.Recording.of(falling[0].t, twin.read(angles)) for twin in twins]


@pytest.fixture(scope="module")
def smoothed(twins, read):
    return [
        fgmbs.smooth(twin.mechanism, recording, twin.sensors, [Disturbance(POWER)], start=twin.start)
        for twin, recording in zip(twins, read, strict=True)
    ]


def apart(twins, first, second):
    return np.max(np.abs(twins[0].of(first) - twins[1].of(second)))


def test_it_falls_alike(twins, falling):
    assert apart(twins, *(motion.q for motion in falling)) < 5e-8
    finer = [fgmbs.simulate(twin.mechanism, 0.4, DT / 2, start=twin.start) for twin in twins]
    assert apart(twins, *(motion.q for motion in finer)) < apart(twins, *(motion.q for motion in falling)) / 10


def swing(sign, angle, size, rate):
    return lambda t: sign * (angle + size * jnp.sin(rate * t) ** 2)


def test_it_takes_the_same_torques(twins):
    t = np.linspace(0, 1, 201)
    found = []
    for twin in twins:
        desired = [swing(twin.sign, -2.0, 0.4, 3.0), swing(twin.sign, -1.0, -0.3, 2.0)]
        motion = fgmbs.inverse_dynamics(twin.mechanism, t, dict(zip(twin.cranks, desired, strict=True)))
        found.append(twin.sign * np.asarray(motion.forces))
    np.testing.assert_allclose(found[0], found[1], atol=1e-12 * np.max(np.abs(found[0])))


def test_half_a_motion_and_half_the_torques_give_the_rest(twins):
    t, found = np.linspace(0, 0.5, 251), []
    for twin in twins:
        known = {twin.cranks[0]: swing(twin.sign, -2.0, 0.4, 3.0)}
        forces = {twin.motors[1]: lambda t, sign=twin.sign: sign * 0.5 + 0.0 * t}
        start = {twin.cranks[1]: twin.start[twin.cranks[1]]}
        motion = fgmbs.hybrid_dynamics(twin.mechanism, t, known, forces, list(twin.motors), start=start)
        found.append((motion.q, twin.sign * np.asarray(motion.forces)))
    assert apart(twins, found[0][0], found[1][0]) < 1e-7
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-5)


def test_it_is_estimated_alike(twins, smoothed):
    assert apart(twins, *(estimate.q for estimate in smoothed)) < 2e-6
    stds = [np.abs(twin.of(estimate.q_std)) for twin, estimate in zip(twins, smoothed, strict=True)]
    np.testing.assert_allclose(stds[0], stds[1], rtol=1e-3)
    # But for the rough start, of which each knows nothing in coordinates of its own.
    assert smoothed[0].log_likelihood == pytest.approx(float(smoothed[1].log_likelihood), abs=0.5)


def test_online_it_is_the_same(twins, read):
    found = []
    for twin, recording in zip(twins, read, strict=True):
        estimator = fgmbs.online(twin.mechanism, twin.sensors, [Disturbance(POWER)], dt=DT)
        state = estimator.init(start=twin.start)
        for k in range(40):
            values = {sensor.name: recording[sensor.name].values[k] for sensor in twin.sensors}
            state, estimate = estimator.step(state, estimator.sample(values))
        found.append((twin.of(estimate.q), np.abs(twin.of(estimate.q_std))))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-3)


def test_a_sensor_tells_as_much_of_it(twins, smoothed):
    found = []
    for twin, estimate in zip(twins, smoothed, strict=True):
        told = fgmbs.observability(twin.mechanism, estimate, twin.sensors[:1], [Disturbance(POWER)], candidates=[])
        found.append(told.std[20:, [told.names.index(crank) for crank in twin.cranks]])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)


def test_the_same_mass_is_found(twins):
    """From torques that are recorded, of a crank that weighs 1.3 kg."""
    t = DT * np.arange(251)
    fits = []
    for twin in twins:
        desired = [swing(twin.sign, -2.0, 0.4, 9.0), swing(twin.sign, -1.0, -0.3, 7.0)]
        heavy = twin.mechanism.with_parameters({"l1.mass": 1.3})
        motion = fgmbs.inverse_dynamics(heavy, t, dict(zip(twin.cranks, desired, strict=True)))
        noise = SIGMA * np.random.default_rng(1).standard_normal((t.size, 2))
        columns = twin.read(twin.of(motion.q) + noise)
        columns |= {f"u{k}": np.asarray(motion.forces)[:, k] for k in range(2)}
        inputs = [Command(motor, f"u{k}", hold="linear") for k, motor in enumerate(twin.motors)]
        fits.append(
            fgmbs.identify(
                twin.mechanism,
                fgmbs.Recording.of(t, columns),
                twin.sensors,
                [*inputs, Disturbance(1e-4)],
                free={"l1.mass": (0.1, 10.0)},
                start=twin.start,
            )
        )
    assert fits[0].parameters["l1.mass"] == pytest.approx(
        fits[1].parameters["l1.mass"], abs=0.02 * fits[0].std["l1.mass"]
    )
    assert fits[0].std["l1.mass"] == pytest.approx(fits[1].std["l1.mass"], rel=0.01)
    assert abs(fits[0].parameters["l1.mass"] - 1.3) < 3 * fits[0].std["l1.mass"]
