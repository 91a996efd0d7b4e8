"""The same mechanism in other units of length, mass and time, and far from the origin: the same answers."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.inputs import Disturbance, GaussMarkov, RandomWalk
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.estimation.arguments import checked_start
from fgmbs.problems.estimation.noise_sizes import freed_sizes
from fgmbs.sensors import Encoder, Position

HEAD = """
parameters: {{L: {L!r}, M: {M!r}, T: {T!r}, X: {X!r}}}
gravity: [0, -9.81*L/T^2]
"""
FOURBAR = """
points:
  - {name: A, x: X*L, y: 0, fixed: true}
  - {name: P1, x: X*L + L*cos(0.3), y: L*sin(0.3)}
  - {name: P2, x: x_P1 + 0.2*L, y: 2*L}
  - {name: B, x: (X + 4)*L, y: 0, fixed: true}
planar_bodies:
  - {name: crank, points: [A, P1], mass: M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: coupler, points: [P1, P2], mass: 2*M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: rocker, points: [P2, B], mass: 4*M, I0: mass*length^2/3, cog: [length/2, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, P1]}
actuators: [{name: motor, angle: theta}]
"""
SLIDER = """
points:
  - {name: O, x: X*L, y: 0, fixed: true}
  - {name: pin, x: X*L + 0.1*L*cos(1), y: 0.1*L*sin(1)}
  - {name: wrist, x: x_pin + sqrt((0.3*L)^2 - y_pin^2), y: 0}
  - {name: front, x: x_wrist + 0.05*L, y: 0}
planar_bodies:
  - {name: crank, points: [O, pin], mass: M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: rod, points: [pin, wrist], mass: 0.5*M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: slide, points: [wrist, front], mass: 0.8*M, I0: mass*length^2/3, cog: [length/2, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [O, pin]}
constraints:
  - {name: guide, type: fixed_slider, point: wrist, line: [[X*L, 0], [(X + 1)*L, 0]]}
  - {name: guide_front, type: fixed_slider, point: front, line: [[X*L, 0], [(X + 1)*L, 0]]}
actuators: [{name: motor, angle: theta}]
"""
GEARED = """
points:
  - {name: base_l, x: (X - 0.1)*L, y: 0, fixed: true}
  - {name: elbow_l, x: (X - 0.25)*L, y: 0.2*L}
  - {name: E, x: X*L, y: 0.2*L + sqrt(0.35^2 - 0.25^2)*L}
  - {name: elbow_r, x: (X + 0.25)*L, y: 0.2*L}
  - {name: base_r, x: (X + 0.1)*L, y: 0, fixed: true}
planar_bodies:
  - {name: crank_l, points: [base_l, elbow_l], mass: M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: coupler_l, points: [elbow_l, E], mass: 2*M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: coupler_r, points: [elbow_r, E], mass: 2.5*M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: crank_r, points: [base_r, elbow_r], mass: M, I0: mass*length^2/3, cog: [length/2, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [base_l, elbow_l]}
  - {name: beta, type: RelativeAngleAbsoluteDOF, points: [base_r, elbow_r]}
constraints:
  - {name: gear, type: gear, angles: [theta, beta], ratio: -1}
actuators: [{name: motor, angle: theta}]
"""
PENDULUM = """
points:
  - {name: O, x: X*L, y: 0, fixed: true}
  - {name: P, x: (X + 1)*L, y: 0}
  - {name: Q, x: (X + 1.8)*L, y: 0.6*L}
planar_bodies:
  - {name: crank, points: [O, P], mass: M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: arm, points: [P, Q], mass: 2*M, I0: mass*length^2/3, cog: [length/2, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [O, P]}
"""
PRESCRIBED = f"{PENDULUM}constraints: [{{name: motion, type: motion, coordinate: theta, value: (t/T)^2}}]\n"
DRIVEN_PENDULUM = f"{PENDULUM}actuators: [{{name: motor, angle: theta}}]\n"
UNITS = [
    dict(L=1e-6, M=1.0, T=1.0),
    dict(L=1e4, M=1.0, T=1.0),
    dict(L=1.0, M=1e-9, T=1.0),
    dict(L=1.0, M=1e9, T=1.0),
    dict(L=1.0, M=1.0, T=1e-6),
    dict(L=1e4, M=1e-9, T=1e3),
]
MOVED = dict(L=1.0, M=1.0, T=1.0, X=1e3)
SAME = dict(L=1.0, M=1.0, T=1.0)


def made(text, L, M, T, X=0.0):
    return PlanarMechanism.from_description(parse_mechanism(HEAD.format(L=L, M=M, T=T, X=X) + text))


def bare(mechanism, q, L, X=0.0):
    """Coordinates as numbers, lengths in L and from the place of the drawing."""
    angles = len(mechanism.structure.blank.relative_coordinates)
    scale = np.append(np.full(mechanism.n - angles, L), np.ones(angles))
    place = [X if name.startswith("x_") else 0.0 for name in mechanism.coordinate_names]
    return np.asarray(q) / scale - np.array(place)


def simulated(text, L, M, T, X=0.0):
    mechanism = made(text, L, M, T, X)
    motion = fgmbs.simulate(mechanism, 0.5 * T, 1e-2 * T)
    return {"q": bare(mechanism, motion.q, L, X), "energy": np.asarray(motion.kinetic) / (M * (L / T) ** 2)}


def waved(mechanism, T):
    """Times and a smooth motion of theta away from the drawing."""
    t, w = np.arange(51) * 1e-2 * T, 2 / T
    begin = float(mechanism.reference[mechanism.coordinate_names.index("theta")])
    wave = begin + 0.1 * (1 - np.cos(w * t)), 0.1 * w * np.sin(w * t), 0.1 * w**2 * np.cos(w * t)
    return t, {"theta": wave}


def driven(text, L, M, T, X=0.0, question=fgmbs.inverse_dynamics):
    mechanism = made(text, L, M, T, X)
    motion = question(mechanism, *waved(mechanism, T))
    return {"q": bare(mechanism, motion.q, L, X), "torque": np.asarray(motion.forces) / (M * (L / T) ** 2)}


def swung(text, L, M, T, X=0.0):
    return driven(text, L, M, T, X, fgmbs.hybrid_dynamics)


def smoothed(text, L, M, T, X=0.0):
    """From the same readings in every unit; where the motion begins is not given."""
    sensors = Encoder("encoder", body="crank", sigma=2e-3), Position("camera", point="P2", sigma=5e-3 * L)
    first = Encoder("encoder", body="crank", sigma=2e-3), Position("camera", point="P2", sigma=5e-3)
    truth = fgmbs.simulate(made(text, **SAME), 0.5, 1e-2)
    read = {
        name: np.asarray(s.values) for name, s in fgmbs.readings(truth.mechanism, truth, first, seed=1).signals.items()
    }
    values = {"encoder": read["encoder"], "camera.x": (read["camera.x"] + X) * L, "camera.y": read["camera.y"] * L}
    recording = fgmbs.Recording.of(np.asarray(truth.t) * T, values)
    mechanism = made(text, L, M, T, X)
    estimate = fgmbs.smooth(mechanism, recording, sensors, (Disturbance(1e-3 * M * L**2 / T**3),), dt=1e-2 * T)
    std = bare(mechanism, estimate.q_std, L)
    return {"q": bare(mechanism, estimate.q, L, X), "dq": bare(mechanism, estimate.dq, L) * T, "q_std": std}


QUESTIONS = {
    "simulate the four-bar": (simulated, FOURBAR, 1e-12),
    "simulate a geared five-bar": (simulated, GEARED, 1e-12),
    "simulate a prescribed motion": (simulated, PRESCRIBED, 1e-12),
    "drive the slider-crank": (driven, SLIDER, 1e-12),
    "drive the geared five-bar": (driven, GEARED, 1e-12),
    "swing a pendulum": (swung, DRIVEN_PENDULUM, 1e-9),
    "smooth the four-bar": (smoothed, FOURBAR, 1e-8),  # where its iterations end
}


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_scale_with_the_units_and_move_with_the_drawing(question):
    ask, text, tolerance = QUESTIONS[question]
    expected = ask(text, **SAME)
    for unit in UNITS:
        for name, value in ask(text, **unit).items():
            np.testing.assert_allclose(
                value, expected[name], rtol=0, atol=tolerance * np.max(np.abs(expected[name])), err_msg=f"{name} {unit}"
            )
    for name, value in ask(text, **MOVED).items():  # positions have three digits less
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=max(1e-10, tolerance), err_msg=name)


@pytest.mark.parametrize("L", (1e3, 1e-6))
def test_two_geared_cranks_accelerate_as_they_must(L):
    """Equal cranks, geared 1 : −1, that stand level: by symmetry each falls freely, θ̈ = ±3/2 g/L."""
    text = """
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {name: P, x: -L, y: 0}
  - {name: B, x: 3*L, y: 0, fixed: true}
  - {name: Q, x: 4*L, y: 0}
planar_bodies:
  - {name: left, points: [A, P], mass: M, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: right, points: [B, Q], mass: M, I0: mass*length^2/3, cog: [length/2, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, P]}
  - {name: beta, type: RelativeAngleAbsoluteDOF, points: [B, Q]}
constraints:
  - {type: gear, angles: [theta, beta], ratio: -1}
"""
    mechanism = made(text, L, 1.0, 1.0).evaluated()
    ddq, _ = fgmbs.acceleration(mechanism, mechanism.reference, jnp.zeros(mechanism.n), 0.0)
    by_name = dict(zip(mechanism.coordinate_names, np.asarray(ddq), strict=True))
    assert by_name["theta"] == pytest.approx(1.5 * 9.81, rel=1e-10)  # gravity scales with L here
    assert by_name["beta"] == pytest.approx(-1.5 * 9.81, rel=1e-10)


@pytest.mark.slow
def test_forces_by_functions_of_the_clock():
    """They are known to a quarter of a microsecond, and a moment before a step must differ from the step."""
    t = np.arange(101) * 0.01
    mechanism = made(FOURBAR, **SAME)
    theta0 = float(mechanism.reference[mechanism.coordinate_names.index("theta")])

    def driven_from(start):
        def swing(t):
            s = t - start
            return theta0 + jnp.where(s < 0.5, 0.5 * s**2, 0.5 * 0.5**2 + 0.5 * (s - 0.5))

        return fgmbs.inverse_dynamics(mechanism, start + t, {"theta": swing})

    expected, by_the_clock = driven_from(0.0), driven_from(1.7e9)
    assert np.sum(expected.jumps) == 1
    np.testing.assert_array_equal(by_the_clock.jumps, expected.jumps)
    np.testing.assert_allclose(by_the_clock.forces, expected.forces, atol=1e-4 * np.max(np.abs(expected.forces)))


def test_first_sizes_of_noise_and_vague_starts_scale():
    """Of forces of which nothing is said: they are what the mechanism does by itself, in its own units."""

    def guessed(L, M, T):
        mechanism = made(FOURBAR, L, M, T)
        N = M * L / T**2
        inputs = RandomWalk("motor", name="torque"), GaussMarkov("x_P1", time_constant=T), Disturbance()
        _, first, _ = freed_sizes(mechanism, (), inputs, 2.0 * T)
        torque, force, disturbance = (float(one.size) for one in first)
        (start,) = checked_start([mechanism], 1, first, [0.01 * T], None, None, None)
        units = np.array([N * L / T**0.5, N, N * L / T, N * L, N])
        return np.array([torque, force, disturbance, *start.sigma[2:]]) / units

    expected = guessed(**SAME)
    assert (expected > 1e-3).all()
    for units in UNITS:
        np.testing.assert_allclose(guessed(**units), expected, rtol=1e-9)


def turned(mechanism, turns):
    """The angle of the first crank as drawn, so many turns on."""
    return float(mechanism.reference[mechanism.coordinate_names.index("theta")]) + 2 * np.pi * turns


@pytest.mark.slow
@pytest.mark.parametrize("text", [FOURBAR, GEARED], ids=["four-bar", "geared five-bar"])
@pytest.mark.parametrize("turns", [3, 1e5, -1e6])
def test_many_turns_on_it_is_the_same_motion(text, turns):
    """Angles of 1e6 turns have nine digits after the point left."""
    mechanism, rounding = made(text, **SAME), 1e-8 * max(1.0, abs(turns) / 1e6)
    expected = fgmbs.simulate(mechanism, 0.1, 1e-2)
    found = fgmbs.simulate(mechanism, 0.1, 1e-2, start={"theta": turned(mechanism, turns)})
    angle = found.q - expected.q
    np.testing.assert_allclose(angle, 2 * np.pi * np.round(angle / (2 * np.pi)), atol=rounding)
    np.testing.assert_allclose(found.dq, expected.dq, atol=rounding * np.max(np.abs(expected.dq)))
    t, wave = waved(mechanism, 1.0)
    further = {"theta": (wave["theta"][0] + 2 * np.pi * turns, *wave["theta"][1:])}
    torques = [fgmbs.inverse_dynamics(mechanism, t, desired).forces for desired in (wave, further)]
    np.testing.assert_allclose(torques[1], torques[0], atol=rounding * np.max(np.abs(torques[0])))


@pytest.mark.parametrize("ratio", [1e-9, pytest.param(1e9, marks=pytest.mark.slow)])
def test_mass_ratios(ratio):
    """From rest: forces and inertia along the one direction in which it moves, sums in which nothing cancels."""
    mechanism = made(FOURBAR.replace("mass: 2*M", f"mass: {ratio!r}*M"), **SAME).evaluated()
    q, rest, t = mechanism.reference, jnp.zeros(mechanism.nv), jnp.zeros(())
    way = np.linalg.svd(np.asarray(mechanism.constraint_jacobian(q, t)))[2][-1]
    forces = np.asarray(mechanism.forces(q, rest, t))
    along = way @ forces / (way @ np.asarray(mechanism.mass_matrix(q)) @ way)
    np.testing.assert_allclose(fgmbs.acceleration(mechanism, q, rest, 0.0)[0], along * way, rtol=1e-10)
    motion = fgmbs.simulate(mechanism, 0.5, 1e-3)
    energy = np.asarray(motion.kinetic + motion.potential)
    assert np.ptp(energy) < 1e-9 * np.max(motion.kinetic)


@pytest.mark.slow
def test_estimates_at_any_time_and_after_many_turns():
    mechanism = made(FOURBAR, **SAME)
    sensors = Encoder("encoder", body="crank", sigma=2e-3), Position("camera", point="P2", sigma=5e-3)
    truth = fgmbs.simulate(mechanism, 0.5, 1e-2)
    read = fgmbs.readings(mechanism, truth, sensors, seed=1)

    def estimate(later, turns):
        values = {name: np.asarray(signal.values) for name, signal in read.signals.items()}
        values["encoder"] = values["encoder"] + 2 * np.pi * turns
        recording = fgmbs.Recording.of(np.asarray(truth.t) + later, values)
        return fgmbs.smooth(mechanism, recording, sensors, (Disturbance(1e-3),), dt=1e-2)

    expected = estimate(0.0, 0)
    for later, turns in ((1.7e9, 0), (0.0, 1e6)):
        found = estimate(later, turns)
        for name in ("dq", "ddq", "q_std"):
            atol = 2e-9 * np.max(np.abs(getattr(expected, name)))
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=atol, err_msg=name)


@pytest.mark.slow
def test_a_motion_by_samples_at_any_time():
    """Stamps of today are rounded to a quarter of a microsecond."""
    mechanism = made(DRIVEN_PENDULUM, **SAME)
    t, wave = waved(mechanism, 1.0)
    expected, found = (fgmbs.hybrid_dynamics(mechanism, later + t, wave) for later in (0.0, 1.7e9))
    for name in ("q", "dq", "forces"):
        atol = 1e-6 * np.max(np.abs(getattr(expected, name)))
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=atol, err_msg=name)
