"""What needs no compilation: the same question with other numbers, and the second one of many things."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import Disturbance
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.sensors import Encoder, Gyroscope

FORCES = (Disturbance(1e-2),)


def simulated(mechanism, duration=1.0, dt=0.01, x=0.99, **options):
    return fgmbs.simulate(mechanism, duration, dt, start={"x_P1": x}, **options)


def test_a_simulation_of_another_duration(configs, tmp_path, compiled):
    """Of one bucket; beyond it only what is reported of every step is compiled anew. Other numbers, too."""
    fourbar = fgmbs.load(configs / "mechanisms" / "fourbar.yaml")
    simulated(fourbar).save(tmp_path / "first.nc")
    compiled.clear()
    simulated(fourbar, duration=1.02, x=0.95).save(tmp_path / "second.nc")
    simulated(fourbar, duration=0.51, dt=0.005)
    simulated(fourbar.with_parameters({"L_coupler": 2.01}))
    assert not compiled
    simulated(fourbar, duration=3.0)
    assert compiled == ["jit(_observed)"]


def test_a_mechanism_that_is_drawn_otherwise(configs, compiled):
    """And the result has the drawing of its own mechanism."""
    text = (configs / "mechanisms" / "fourbar.yaml").read_text()
    drawn = text.replace("name: crank, ", "name: crank, visual: {color: orange, width: L_crank/10}, ")
    assert text != drawn
    plain, other = (PlanarMechanism.from_description(parse_mechanism(t)) for t in (text, drawn))
    first = fgmbs.to_dataset(simulated(plain))
    compiled.clear()
    second = fgmbs.to_dataset(simulated(other))
    assert not compiled
    assert "visual" not in first.attrs["mechanism"] and "color: orange" in second.attrs["mechanism"]


@pytest.mark.slow
def test_soft_constraints_of_another_duration(configs, compiled):
    fourbar = fgmbs.load(configs / "mechanisms" / "fourbar.yaml")
    simulated(fourbar, coordinates="dependent", integrator="trapezoidal", duration=0.1)
    compiled.clear()
    simulated(fourbar, coordinates="dependent", integrator="trapezoidal", duration=0.102, dt=0.01 / 10)
    assert set(compiled) <= {"jit(_unpacked)", "jit(_observed)"}  # of another bucket


def test_inverse_dynamics_of_another_length(configs, compiled):
    """Of one bucket; and the steps that fill it change nothing."""
    crank = fgmbs.load(configs / "mechanisms" / "fourbar_counterweight.yaml")

    def driven(steps):
        t = 0.01 * jnp.arange(steps)
        return fgmbs.inverse_dynamics(crank, t, {"theta": lambda t: 1.2 * (1 - jnp.cos(2 * t))})

    whole = driven(160)
    compiled.clear()
    part = driven(151)
    assert not {"jit(_walk)", "jit(_forces)"} & set(compiled)
    assert part.q.shape == (151, crank.n) and len(part.step_status == part.status) == 151
    for name in ("q", "dq", "ddq", "forces", "multipliers", "joint_forces", "tracking_error", "missing"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[:151])


def test_what_surrounds_a_question_is_a_few_programs(configs, compiled):
    """Operations that JAX compiles one by one took seconds of a first call: there were 60 around a hybrid question."""
    crank, t = fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml"), 0.01 * np.arange(50)
    compiled.clear()
    fgmbs.hybrid_dynamics(crank, t, forces={"motor": np.sin(t)})
    assert len(compiled) <= 20
    compiled.clear()
    fgmbs.inverse_dynamics(crank, t, {"theta": 1.2 * (1 - np.cos(2 * t))})
    assert len(compiled) <= 20


def test_sizes_of_noise_that_begin_elsewhere(configs, compiled):
    """Where their search begins follows from the mechanism and from the duration."""
    pendulum = fgmbs.load(configs / "mechanisms" / "pendulum.yaml")
    motion = fgmbs.simulate(pendulum, 0.5, 5e-3, start={"x_tip": 0.7})
    sensors = (Gyroscope("gyro", body="rod", sigma=0.01), Encoder("enc", body="rod", sigma=2e-3))
    recording = fgmbs.readings(pendulum, motion, sensors, rates={"gyro": 200, "enc": 40}, seed=0)

    def begins(end, mechanism=pendulum):
        problem = fgmbs.prepare_smooth(mechanism, recording.between(0.0, end), sensors, [Disturbance()], dt=5e-3)
        return float(problem.sizes.value[0])

    first = begins(0.5)
    compiled.clear()
    assert len({first, begins(0.45), begins(0.5, pendulum.with_parameters({"m": 3.0}))}) > 1
    assert not compiled


def test_another_file_of_the_same_structure(configs, tmp_path, compiled):
    text = (configs / "mechanisms" / "fourbar.yaml").read_text()

    def loaded(length):
        (tmp_path / "fourbar.yaml").write_text(text.replace("L_coupler: 2.0", f"L_coupler: {length}"))
        return fgmbs.load(tmp_path / "fourbar.yaml")

    fourbar = loaded(2.01)
    first = simulated(fourbar)
    compiled.clear()
    other = loaded(2.03)
    assert float(other.parameters["L_coupler"]) == 2.03
    second = simulated(other)
    assert not compiled
    np.testing.assert_array_equal(second.q, simulated(fourbar.with_parameters({"L_coupler": 2.03})).q)
    assert np.max(np.abs(second.q - first.q)) > 0.01


def test_special_lengths_that_leave_a_freedom_more_are_another_program():
    """Three parallel cranks: of equal lengths they turn, else nothing moves."""
    text = """
      points: [{x: 0, y: 0, fixed: true}, {x: 1, y: 0, fixed: true}, {x: 2, y: 0, fixed: true},
               {x: 0, y: 1}, {x: 1, y: 1}, {x: 2, y: TOP}]
      planar_bodies:
        - {points: [0, 3], mass: 1, I0: 1, cog: [0, 0]}
        - {points: [1, 4], mass: 1, I0: 1, cog: [0, 0]}
        - {points: [2, 5], mass: 1, I0: 1, cog: [0, 0]}
        - {points: [3, 4, 5], mass: 1, I0: 1, cog: [0, 0]}
    """
    turning, locked = (
        PlanarMechanism.from_description(parse_mechanism(text.replace("TOP", top))) for top in ("1.0", "1.2")
    )
    assert turning.dof == 1 and locked.dof == 0
    assert turning.structure.blank == locked.structure.blank and turning.structure != locked.structure


def test_the_second_of_everything(configs, tmp_path, compiled):
    """Seed, length of the recording, fixed-lag estimate, report, file."""
    pendulum = fgmbs.load(configs / "mechanisms" / "pendulum.yaml")
    motion = fgmbs.simulate(pendulum, 0.5, 5e-3, start={"x_tip": 0.7})
    sensors = (Gyroscope("gyro", body="rod", sigma=0.01), Encoder("enc", body="rod", sigma=2e-3))

    def asked(seed, end, x, name):
        recording = fgmbs.readings(pendulum, motion, sensors, rates={"gyro": 200, "enc": 40}, seed=seed)
        arguments = pendulum, recording.between(0.0, end), sensors, FORCES
        estimate = fgmbs.smooth(*arguments, dt=5e-3, start={"x_tip": x})
        lagged = fgmbs.smooth(*arguments, dt=5e-3, start={"x_tip": x}, window=4)
        for number, result in enumerate((estimate, lagged)):
            result.report()
            result.save(tmp_path / f"{name}{number}.nc")
            result.joint_forces()

    asked(1, 0.5, 0.7, "first")
    compiled.clear()
    asked(2, 0.49, 0.695, "second")
    assert not compiled


@pytest.mark.slow
def test_every_program_of_an_estimate_is_compiled_once(configs, compiled):
    """Those that follow the first guess are compiled beside it, and found when they are called; in all rounds."""
    fourbar = fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml")
    motion = simulated(fourbar, dt=5e-3, duration=0.5)
    sensors = (Encoder("enc", body="crank", sigma=Unknown(1e-2, sigma=1.0)),)
    recording = fgmbs.readings(fourbar, motion, (Encoder("enc", body="crank", sigma=2e-3),), seed=1)
    compiled.clear()
    fgmbs.smooth(fourbar, recording, sensors, FORCES, dt=5e-3, start={"x_P1": 0.99})
    for program in ("begun", "_improved", "surveyed", "resized", "concluded"):
        assert compiled.count(f"jit({program})") == 1, program
