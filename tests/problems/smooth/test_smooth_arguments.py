"""What state estimation refuses, and how it says so."""

import numpy as np
import pytest

import fgmbs
from fgmbs.inputs import Command, Disturbance, RandomWalk, WhiteNoise
from fgmbs.problems.estimation.arguments import checked_start
from fgmbs.sensors import Encoder, Gyroscope, Position

T = np.arange(100) * 0.01
ENCODER = Encoder("enc", body="crank", sigma=0.01)
GYRO = Gyroscope("gyro", body="coupler", sigma=0.02)


@pytest.fixture(scope="module")
def fourbar(configs):
    return fgmbs.load(configs / "mechanisms" / "fourbar.yaml")


@pytest.fixture(scope="module")
def recording():
    return fgmbs.Recording.of(T, {"enc": 0.1 * T, "gyro": 0.1 + 0 * T, "u": T}, source="run.csv")


def message(call, error=fgmbs.ArgumentError):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("sensors", "expected"),
    [
        ((), "sensors: expected at least one; found none, so that nothing is observable"),
        ((Encoder("enc", body="crnak", sigma=1.0),), "sensor 'enc'"),
        ((Encoder("enc", body="crnak", sigma=1.0),), "'crank'"),
        ((Encoder("encoder", body="crank", sigma=1.0),), "found 'encoder'; did you mean 'enc'?"),
        ((ENCODER, ENCODER), "sensors: expected different names; found 'enc' twice"),
        (
            (ENCODER, Encoder("other", body="rocker", sigma=1.0, columns="enc")),
            "sensor 'other': columns: expected columns that no other sensor reads; found 'enc', which 'enc' reads",
        ),
    ],
    ids=["none", "body", "nearest body", "signal", "twice", "one column"],
)
def test_sensors(fourbar, recording, sensors, expected):
    assert expected in message(lambda: fgmbs.smooth(fourbar, recording, sensors, dt=0.01))


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ((RandomWalk("x_P3", 1.0),), "input 'x_P3': on: there is no actuator or coordinate 'x_P3'"),
        ((RandomWalk("x_P1", 1.0),) * 2, "found 'x_P1' twice; say name=…"),
        ((RandomWalk("x_P1", 1.0, name="enc"),), "found 'enc' twice"),
        (
            (Disturbance(), WhiteNoise("x_P1", 1.0)),
            "inputs: expected sizes of all white forces, or a single one of them",
        ),
        ((Command("x_P1", "volts"),), "found 'volts'"),
    ],
    ids=["target", "twice", "name of a sensor", "two white ones", "signal"],
)
def test_inputs(fourbar, recording, inputs, expected):
    assert expected in message(lambda: fgmbs.smooth(fourbar, recording, (ENCODER,), inputs, dt=0.01))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"dt": 0.0}, "dt: expected a positive time step in seconds; found 0.0"),
        ({"dt": 0.99}, "expected at least three steps of dt = 0.99 s; found 0.99 s"),
        ({"window": 1}, "window: expected an integer of at least 2 time steps, or None; found 1"),
        (
            {"window": 5},
            "window: a fixed-lag smoother needs all sizes of noise; those of 'disturbance.power' are missing",
        ),
        ({"start": {"x_P9": 1.0}}, "start: there is no coordinate 'x_P9'"),
        ({"start": [{}, {}]}, "start: expected one for each of the 1 recordings; found 2"),
        ({"start_sigma": (1.0, -1.0)}, "start_sigma: expected two positive numbers"),
        ({"independent": ("x_P1", "y_P1")}, "independent: expected 1 different coordinates, the degrees of freedom"),
        ({"independent": ("phi",)}, "independent: there is no coordinate 'phi'"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_other_arguments(fourbar, recording, arguments, expected):
    call = {"dt": 0.01} | arguments
    assert expected in message(lambda: fgmbs.smooth(fourbar, recording, (ENCODER,), **call))


def test_a_start_is_unknown_anyway(fourbar):
    for given, name in (({"x_P1": fgmbs.Unknown(1.0)}, "start"), ({"y_P1": fgmbs.Unknown()}, "start_velocities")):
        starts = {"start": None, "start_velocities": None} | {name: given}
        found = message(lambda starts=starts: checked_start([fourbar], 1, (), [0.01], **starts, sigma=None))
        assert found.startswith(
            f"{name}[{next(iter(given))!r}]: expected a number; found Unknown; every start is found"
        )


def test_a_start_that_cannot_be_assembled(fourbar, recording):
    call = lambda: fgmbs.smooth(fourbar, recording, (ENCODER,), dt=0.01, start={"x_P1": 3.0})
    assert "cannot be assembled" in message(call, fgmbs.AssemblyError)


def test_a_mechanism_without_freedom(configs, recording):
    driven = fgmbs.load(configs / "mechanisms" / "driven_crank.yaml")
    body = driven.body_names[0]
    call = lambda: fgmbs.smooth(driven, recording, (Encoder("enc", body=body, sigma=1.0),), dt=0.01)
    assert "no degree of freedom" in message(call, fgmbs.AssemblyError)


def test_recordings(fourbar):
    assert "recording: expected at least one" in message(lambda: fgmbs.smooth(fourbar, [], (ENCODER,)))


@pytest.mark.slow
def test_nothing_observable(fourbar):
    """A camera that looks at a pivot of the ground."""
    recorded = fgmbs.Recording.of(T, {"camera.x": 4.0 + 0 * T, "camera.y": 0 * T})
    camera = Position("camera", point="B", sigma=0.01)
    call = lambda: fgmbs.smooth(fourbar, recorded, (camera,), (Disturbance(0.1),), dt=0.01, start={"x_P1": 1.0})
    assert "nothing is observable: what 'camera' read" in message(call)


@pytest.mark.slow
def test_a_run_that_does_not_converge_returns_its_best_state(swing):
    """Angles that no motion of this mechanism makes."""
    recorded = fgmbs.Recording.of(T, {"enc": np.random.default_rng(3).uniform(-3, 3, len(T))})
    sensors, inputs = (Encoder("enc", body="rod", sigma=1e-9),), (Disturbance(1e-13),)
    arguments = {"dt": 0.01, "start": {}}
    with pytest.raises(fgmbs.SolveError) as caught:
        fgmbs.smooth(swing.mechanism, recorded, sensors, inputs, **arguments)
    result = caught.value.result
    assert np.all(np.isfinite(result.q))
    assert result.cost_history.size > 1
    assert "state estimation:" in str(caught.value)
    kept = fgmbs.smooth(swing.mechanism, recorded, sensors, inputs, throw=False, **arguments)
    assert kept.status != fgmbs.Status.converged


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"dt": -1.0}, "dt: expected a positive time step in seconds; found -1.0"),
        ({"window": 1}, "window: expected an integer of at least 2"),
        ({"slots": 0}, "slots: expected an integer of at least 1; found 0"),
        ({"inputs": ()}, "those of 'disturbance.power' are missing"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_online(fourbar, arguments, expected):
    call = {"dt": 0.01, "inputs": (Disturbance(0.1),)} | arguments
    assert expected in message(lambda: fgmbs.online(fourbar, (ENCODER,), **call))


def test_online_samples(fourbar):
    online = fgmbs.online(fourbar, (ENCODER,), (Disturbance(0.1), Command("x_P1", "u", name="push")), dt=0.01)
    assert "found 'encoder'; did you mean 'enc'?" in message(lambda: online.sample({"encoder": 1.0}))
    assert "expected at most 1 values for a step; found 2" in message(
        lambda: online.sample({"enc": [(0.0, 1.0), (0.1, 2.0)]}, {"push": 0.0})
    )
    assert "commands: expected values of ['push']; found []" in message(lambda: online.sample({"enc": 1.0}))
    assert "expected 1 number" in message(lambda: online.sample({"enc": (0.0, [1.0, 2.0])}, {"push": 0.0}))


def test_observability(fourbar):
    class Uneven:
        t, q, dq = np.array([0.0, 1.0, 3.0]), np.zeros((3, 4)), np.zeros((3, 4))

    assert "expected at least three equal steps in time" in message(
        lambda: fgmbs.observability(fourbar, Uneven, (ENCODER,))
    )


def test_a_recording_of_one_sample_is_no_motion(fourbar):
    recording = fgmbs.Recording.of([0.0], {ENCODER.columns[0]: [0.3]}, source="short.csv")
    expected = f"recording 'short.csv': expected at least three steps; found one sample of '{ENCODER.columns[0]}'"
    assert expected in message(lambda: fgmbs.smooth(fourbar, recording, (ENCODER,)))
