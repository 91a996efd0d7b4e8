"""Parameters from recordings that were simulated."""

import dataclasses

import numpy as np
import pytest

import fgmbs
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command, Disturbance
from fgmbs.problems.identify.free import Parts, freed_by_name, numbers_of
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.status import Status
from fgmbs.unknowns import Unknown, is_unknown

TRUTH = {"coupler.mass": 2.5, "rocker.mass": 3.0, "crank.mass": 1.4}


@pytest.fixture(scope="module")
def crank(configs):
    return fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


@pytest.fixture(scope="module")
def driven(crank):
    """(encoder and gyroscope along a motion that a known torque makes, without noise, the motion)."""
    t = np.arange(401) * 2.5e-3
    torque = 20 + 10 * t
    motion = fgmbs.hybrid_dynamics(crank.with_parameters(TRUTH), t, forces={"motor": torque}, start={"theta": 0.3})
    recording = fgmbs.readings(crank, motion, SENSORS)
    return recording.merged(fgmbs.Recording.of(t, {"u": torque}, source="motor")), motion


SENSORS = (Encoder("crank", of="theta", sigma=1e-3), Gyroscope("gyro", body="coupler", sigma=1e-2))
INPUTS = (Command("motor", "u", hold="linear"), Disturbance(1e-4))


@pytest.fixture(scope="module")
def fit(crank, driven):
    return fgmbs.identify(crank, driven[0], SENSORS, INPUTS, free=list(TRUTH), start={"theta": 0.3})


def test_without_noise_parameters_are_the_true_ones(fit):
    for name, value in TRUTH.items():
        assert fit.parameters[name] == pytest.approx(value, rel=1e-6)
        assert fit.mechanism.physical_parameters()[name] == pytest.approx(value, rel=1e-6)
    assert fit.status == fgmbs.Status.converged


@pytest.mark.slow
def test_covariance_is_that_of_the_whole_problem(crank, driven, fit):
    """Against `smooth` with the same unknowns, whose Schur complement is held against dense systems elsewhere."""
    free = {name: Unknown(value, log=True) for name, value in fit.parameters.items()}
    estimate = fgmbs.smooth(crank.with_parameters(free), driven[0], SENSORS, INPUTS, start={"theta": 0.3})
    for name in TRUTH:
        assert fit.std[name] == pytest.approx(float(estimate.unknowns_std[name]), rel=1e-4)
        low, high = fit.intervals()[name]
        assert low < TRUTH[name] < high and low > 0


def test_all_are_determined(fit):
    told = fit.identifiability()
    assert told.rank == 3 and not told.combinations and not told.without_influence
    assert told.determined == tuple(fit.names)


def test_the_report_says_it(fit):
    text = fit.report()
    assert "coupler.mass" in text and "95 % interval" in text and "3 of 3 combinations" in text


def test_the_report_says_once_that_it_did_not_end_well(fit):
    ended = Status.iteration_limit
    open_ = dataclasses.replace(fit, status=ended, states=dataclasses.replace(fit.states, status=ended))
    assert open_.report().count("the solve did not end well") == 1


def test_what_is_not_finite_is_told_without_a_crash(fit):
    ended, nothing = Status.non_finite, np.full_like(fit.information, np.nan)
    changes = dict(status=ended, information=nothing, influence=nothing[0], log_likelihood=np.nan)
    lost = dataclasses.replace(fit, states=dataclasses.replace(fit.states, status=ended), **changes)
    assert all(np.isnan(std) for std in lost.std.values())
    assert "the solve did not end well" in lost.report()
    with pytest.raises(fgmbs.SolveError):
        lost.check()


def test_start_far_off_and_wrong_power_do_no_harm(crank, driven):
    wrong = crank.with_parameters({"coupler.mass": 20.0, "rocker.mass": 0.3, "crank.mass": 0.2})
    fit = fgmbs.identify(wrong, driven[0], SENSORS, INPUTS, free=list(TRUTH), start={"theta": 0.3})
    for name, value in TRUTH.items():
        assert fit.parameters[name] == pytest.approx(value, rel=1e-5)


def test_a_start_on_a_bound_does_not_stay_there(crank, driven):
    free = {"coupler.mass": (0.5, 2.0), "rocker.mass": (0.1, 10.0), "crank.mass": (0.1, 10.0)}
    fit = fgmbs.identify(crank, driven[0], SENSORS, INPUTS, free=free, start={"theta": 0.3})
    assert fit.at_bound["coupler.mass"] and fit.parameters["coupler.mass"] == 2.0
    assert any("coupler.mass: at its bound" in text for text in fit.warnings())
    free["coupler.mass"] = (2.0, 9.0)
    fit = fgmbs.identify(crank, driven[0], SENSORS, INPUTS, free=free, start={"theta": 0.3})
    assert fit.parameters["coupler.mass"] == pytest.approx(2.5, rel=1e-5)


@pytest.mark.slow
def test_prediction_agrees_with_the_smoother(crank, driven, fit):
    """Two routes, the same data: without noise the same parameters."""
    other = fgmbs.identify(
        crank, driven[0], SENSORS, INPUTS, free=list(TRUTH), start={"theta": 0.3}, method="prediction"
    )
    for name, value in TRUTH.items():
        assert other.parameters[name] == pytest.approx(value, rel=1e-5)
        assert other.std[name] < fit.std[name] * 1.01
    run = other.free_run(driven[0], start={"theta": 0.3}, fit_start=False)
    assert run["crank"].rms < 1e-5


def test_free_numbers_by_name(crank):
    parts = Parts(crank, SENSORS, INPUTS)
    names = numbers_of(parts)
    assert {"coupler.mass", "L_crank", "gravity.y", "gyro.bias", "crank.sigma", "motor.gain"} <= set(names)
    freed = freed_by_name(parts, {"coupler.mass": True, "crank.bias": (-0.1, 0.1), "motor.gain": 1.5})
    mass, gain = freed.mechanism.parameters["coupler.mass"], freed.inputs[0].gain
    assert is_unknown(mass) and float(mass.value) == 2.0 and 0 < float(mass.lower) < 1e-3
    assert is_unknown(gain) and float(gain.value) == 1.5 and not gain.log
    assert float(freed.sensors[0].bias.upper[0]) == 0.1


@pytest.mark.parametrize(
    "free, text",
    [
        ({"coupler.mas": True}, r"free: there is no number 'coupler.mas'; .*coupler.mass"),
        ({"coupler.mass": (3.0, 5.0)}, r"free\['coupler.mass'\]: value: expected a number from 3 to 5"),
        ({"coupler.mass": (5.0, 3.0)}, r"free\['coupler.mass'\]: lower: expected a number below upper, which is 3"),
        ({"coupler.mass": (1, 2, 3)}, r"free\['coupler.mass'\]: expected a pair of bounds; found \(1, 2, 3\)"),
        ({}, "free: expected at least one number to find; found none"),
        ("coupler.mass", "free: expected names"),
    ],
)
def test_invalid_free_numbers(crank, driven, free, text):
    with pytest.raises(ArgumentError, match=text):
        fgmbs.identify(crank, driven[0], SENSORS, INPUTS, free=free)


def test_fewer_readings_than_numbers(crank):
    t = [0.0, 0.1, 0.2, 0.3]
    recording = fgmbs.Recording.of(t, {"crank": [0.3, 0.31, 0.32, 0.33], "u": [0.0] * 4}, source="four")
    free = [*TRUTH, "gravity.y", "L_crank"]
    with pytest.raises(ArgumentError, match="at least as many readings as free numbers, 5; found 4"):
        fgmbs.identify(crank, recording, SENSORS[:1], INPUTS, free=free)


def test_forces_of_one_name(crank, driven):
    twice = [*INPUTS, fgmbs.inputs.RandomWalk("motor")]
    with pytest.raises(ArgumentError, match="inputs: expected names that no other input .* found 'motor' twice"):
        fgmbs.identify(crank, driven[0], SENSORS, twice, free={"motor.gain": True})


@pytest.mark.parametrize(
    "options, text",
    [
        ({"horizon": 0.1}, "horizon: expected none with method='smoother', which has no .*; found 0.1; say method="),
        ({"solver": "adam"}, "solver: expected none with method='smoother'.*found 'adam'"),
        ({"method": "prediction", "horizon": -1.0}, "horizon: expected a positive time in seconds, or None; found -1"),
    ],
)
def test_what_is_of_free_runs_is_checked_before_anything_is_solved(crank, driven, options, text):
    told = []
    with pytest.raises(ArgumentError, match=text):
        fgmbs.identify(
            crank, driven[0], SENSORS, INPUTS, free=list(TRUTH), progress=lambda *of: told.append(of), **options
        )
    assert not told
