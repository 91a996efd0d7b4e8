"""Numbers of the mechanism that are known to be others in some recordings."""

import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.errors import ArgumentError
from fgmbs.graph.given import of_recordings
from fgmbs.inputs import Command, Disturbance
from fgmbs.sensors import Encoder, Gyroscope

TRUTH = {"coupler.mass": 2.5, "crank.mass": 1.4}
LOADS = ({}, {"rocker.mass": 3.5}, {"rocker.mass": 5.0})
SENSORS = (Encoder("crank", of="theta", sigma=1e-3), Gyroscope("gyro", body="coupler", sigma=1e-2))
INPUTS = (Command("motor", "u", hold="linear"), Disturbance(1e-4))


@pytest.fixture(scope="module")
def crank(configs):
    return fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


def recorded(mechanism, numbers, slope, steps=201):
    """What sensors read along a motion that a known torque makes, without noise."""
    t = np.arange(steps) * 2.5e-3
    torque = 20 + slope * t
    loaded = mechanism.with_parameters(TRUTH | numbers)
    motion = fgmbs.hybrid_dynamics(loaded, t, forces={"motor": torque}, start={"theta": 0.3})
    recording = fgmbs.readings(loaded, motion, SENSORS)
    return recording.merged(fgmbs.Recording.of(t, {"u": torque}, source="motor")).with_numbers(numbers), motion


@pytest.fixture(scope="module")
def runs(crank):
    return [recorded(crank, numbers, 10 * k, 201 - 10 * k) for k, numbers in enumerate(LOADS)]


def identified(crank, recordings, **options):
    return fgmbs.identify(crank, recordings, SENSORS, INPUTS, free=list(TRUTH), start={"theta": 0.3}, **options)


@pytest.fixture(scope="module")
def fit(crank, runs):
    return identified(crank, [recording for recording, _ in runs[:2]])


def test_what_is_shared_is_found_from_recordings_of_other_loads(crank, runs, fit):
    for name, value in TRUTH.items():
        assert fit.parameters[name] == pytest.approx(value, rel=1e-6)
    # The mechanism that was found is that without a load; each recording has its own, also one that was not used.
    first = crank.physical_parameters()["rocker.mass"]
    assert fit.mechanism.physical_parameters()["rocker.mass"] == pytest.approx(float(first))
    run = fit.free_run(runs[2][0], start={"theta": 0.3})
    assert run.mechanism.physical_parameters()["rocker.mass"] == LOADS[2]["rocker.mass"]
    assert run.rms["crank"][0] < 1e-6
    assert "with rocker.mass = 3.5" in fit.report()


@pytest.mark.slow
def test_of_a_single_recording_what_is_found_is_without_its_load(crank, runs):
    fit = identified(crank, runs[1][0])
    first = float(crank.physical_parameters()["rocker.mass"])
    assert float(fit.mechanism.physical_parameters()["rocker.mass"]) == first
    assert float(fit.states.mechanism.physical_parameters()["rocker.mass"]) == LOADS[1]["rocker.mass"]
    assert float(fit.free_run(runs[0][0], start={"theta": 0.3}).mechanism.physical_parameters()["rocker.mass"]) == first


@pytest.mark.slow
def test_free_runs_have_other_loads_too(crank, runs):
    fit = identified(crank, [recording for recording, _ in runs[:2]], method="prediction")
    for name, value in TRUTH.items():
        assert fit.parameters[name] == pytest.approx(value, rel=1e-6)


@pytest.mark.slow
def test_cross_validation_foretells_each_with_its_own_load(runs, fit):
    folds = fgmbs.cross_validate(fit)
    assert np.all(folds.rms["crank"] < 1e-5)
    for fold in folds.folds:
        assert fold.fit.parameters["coupler.mass"] == pytest.approx(2.5, abs=0.02 * fold.fit.std["coupler.mass"])


def test_recordings_are_smoothed_as_each_by_itself(crank):
    """Lengths, by which the poses differ, too."""
    numbers = ({}, {"L_crank": 1.05})
    found = [recorded(crank, one, 5.0) for one in numbers]
    shared = crank.with_parameters(TRUTH)
    together = fgmbs.smooth(shared, [one for one, _ in found], SENSORS, INPUTS, start={"theta": 0.3})
    forces, _ = together.joint_forces()
    for k, (recording, motion) in enumerate(found):
        alone = fgmbs.smooth(shared, recording, SENSORS, INPUTS, start={"theta": 0.3})
        here = np.asarray(together.recording) == k
        part = together.of_recording(k)
        assert np.allclose(together.q[here], alone.q, atol=1e-9)
        assert np.allclose(together.q[here], motion.q, atol=1e-6)
        assert np.allclose(together.q_std[here], alone.q_std, rtol=1e-6)
        assert np.allclose(forces[here], alone.joint_forces()[0], atol=1e-6)
        assert np.allclose(part.joint_forces()[0], forces[here], atol=1e-6)
        assert float(part.mechanism.physical_parameters()["L_crank"]) == float(numbers[k].get("L_crank", 1.0))
        assert float(alone.mechanism.physical_parameters()["L_crank"]) == float(numbers[k].get("L_crank", 1.0))
    assert not {"L_crank"} & {test.name for test in together.score_tests()}


def test_what_is_no_number_of_the_mechanism_is_refused(crank, runs):
    recording, _ = runs[0]
    with pytest.raises(
        ArgumentError, match="numbers: expected names of parameters; found 'rocker.mas'; did you mean 'rocker.mass'"
    ):
        identified(crank, [recording.with_numbers({"rocker.mas": 1.0}), runs[1][0]])
    with pytest.raises(ArgumentError, match=r"numbers\['rocker.mass'\]: expected .*; found -1"):
        identified(crank, recording.with_numbers({"rocker.mass": -1.0}))
    with pytest.raises(ArgumentError, match="expected numbers that are not to be found; found 'crank.mass', which is"):
        identified(crank, recording.with_numbers({"crank.mass": 1.0}))
    with pytest.raises(ArgumentError, match=r"numbers\['rocker.mass'\]: expected finite numbers; found nan"):
        recording.with_numbers({"rocker.mass": np.nan})


def test_recordings_keep_their_numbers():
    one = fgmbs.Recording.of([0.0, 1.0, 2.0], {"a": [0.0, 1.0, 2.0]}).with_numbers({"load": 0.5})
    other = fgmbs.Recording.of([0.0, 1.0], {"b": [0.0, 1.0]})
    for kept in (one.between(0.0, 1.0), one.shifted(1.0), one.merged(other), other.merged(one)):
        assert kept.numbers == {"load": 0.5}
    assert one.with_numbers({"load": 1.0}).numbers == {"load": 1.0}
    assert "with load = 0.5" in repr(one)
    with pytest.raises(ArgumentError, match="merged: expected one number 'load' of both; found 0.5 and 1.0"):
        one.merged(other.with_numbers({"load": 1.0}))
    with pytest.raises(ValueError, match="read-only"):
        one.numbers["load"][...] = 1.0


def test_robots_have_numbers_of_recordings(configs):
    robot = fgmbs.load(configs / "robots" / "scara.yaml")
    name = next(name for name in robot.physical_parameters() if name.endswith(".mass"))
    recordings = [fgmbs.Recording.of([0.0, 1.0], {"a": [0.0, 1.0]}).with_numbers(one) for one in ({}, {name: 7.5})]
    mechanism, given, replaced = of_recordings(robot, recordings)
    masses = [float(given.of(k).put(mechanism).evaluated().physical_parameters()[name]) for k in range(2)]
    first = float(robot.physical_parameters()[name])
    assert masses == [first, 7.5] and not replaced.names
    loaded, given, replaced = of_recordings(robot, recordings[1:])
    assert float(loaded.physical_parameters()[name]) == 7.5 and not given.names
    assert float(replaced.put(loaded).physical_parameters()[name]) == first
    q = jnp.full(robot.n, 0.3)
    expected = robot.with_parameters({name: 7.5}).mass_matrix(q)
    np.testing.assert_allclose(loaded.evaluated().mass_matrix(q), expected, rtol=1e-14)
