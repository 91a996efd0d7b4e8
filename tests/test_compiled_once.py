"""What needs no compilation: the same question with other numbers, and the second one of many things."""

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.sensors import Encoder, Gyroscope

SENSORS = (Gyroscope("gyro", body="coupler", sigma=0.01), Encoder("enc", body="crank", sigma=2e-3))
FORCES = (Disturbance(1e-2),)


def simulated(mechanism, duration=1.0, dt=0.01, x=0.99, **options):
    return fgmbs.simulate(mechanism, duration, dt, start={"x_P1": x}, **options)


def test_a_simulation_of_another_duration(configs, tmp_path, compiled):
    """Of lengths of one bucket, beyond which only what is told of every step is compiled anew; other numbers, too."""
    fourbar = fgmbs.load(configs / "mechanisms" / "fourbar.yaml")
    simulated(fourbar).save(tmp_path / "first.nc")
    compiled.clear()
    simulated(fourbar, duration=1.02, x=0.95).save(tmp_path / "second.nc")
    simulated(fourbar, duration=0.51, dt=0.005)
    simulated(fourbar.with_parameters({"L_coupler": 2.01}))
    assert not compiled
    simulated(fourbar, duration=3.0)
    assert compiled == ["jit(_told)"]


def test_soft_constraints_of_another_duration(configs, compiled):
    fourbar = fgmbs.load(configs / "mechanisms" / "fourbar.yaml")
    simulated(fourbar, coordinates="dependent", integrator="trapezoidal", duration=0.1)
    compiled.clear()
    simulated(fourbar, coordinates="dependent", integrator="trapezoidal", duration=0.102, dt=0.01 / 10)
    assert set(compiled) <= {"jit(_unpacked)", "jit(_told)"}  # of another bucket


def test_the_second_of_everything(configs, tmp_path, compiled):
    """Seed, length of the recording, fixed-lag estimate, report, file."""
    fourbar = fgmbs.load(configs / "mechanisms" / "fourbar.yaml")
    motion = simulated(fourbar, dt=5e-3, duration=0.5)

    def asked(seed, end, x, name):
        recording = fgmbs.readings(fourbar, motion, SENSORS, rates={"gyro": 200, "enc": 40}, seed=seed)
        arguments = fourbar, recording.between(0.0, end), SENSORS, FORCES
        estimate = fgmbs.smooth(*arguments, dt=5e-3, start={"x_P1": x})
        lagged = fgmbs.smooth(*arguments, dt=5e-3, start={"x_P1": x}, window=4)
        for number, result in enumerate((estimate, lagged)):
            result.report()
            result.save(tmp_path / f"{name}{number}.nc")
            result.joint_forces()

    asked(1, 0.5, 0.99, "first")
    compiled.clear()
    asked(2, 0.49, 0.985, "second")
    assert not compiled
