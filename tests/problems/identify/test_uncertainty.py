"""How sure it is: the noise model against the residuals, profile likelihood, two routes, hard input, Ctrl-C."""

import numpy as np
import pytest
from pushed_mass import mass
from rod import START, TORQUE, T, measured, rod

import fgmbs
from fgmbs import planar
from fgmbs.errors import ArgumentError, Interrupted
from fgmbs.inputs import Command, Disturbance
from fgmbs.problems.identify import report
from fgmbs.sensors import Encoder, Position

TRUE, FREE = {"rod.I0": 0.8, "bearing.damping": 0.3}, ["rod.I0", "bearing.damping"]
INPUTS = (Command("motor", "u", hold="linear"), Disturbance(1e-6))
SIGMA = 2e-2


def damped(I0, damping):
    return rod(2.0, I0, planar.angular_damper("bearing", "theta", damping))


def fitted(data, sigma, method="smoother", **options):
    sensors = (Encoder("enc", of="theta", sigma=sigma),)
    return fgmbs.identify(damped(1.0, 0.1), data[1], sensors, INPUTS, free=FREE, start=START, method=method, **options)


@pytest.fixture(scope="module")
def data():
    return measured(damped(*TRUE.values()), SIGMA, seed=1)


@pytest.fixture(scope="module")
def fit(data):
    return fitted(data, SIGMA)


def test_right_noise_is_not_contradicted(fit):
    assert fit.reduced_chi2["enc"] == pytest.approx(1, abs=4 * np.sqrt(2 / 201))
    assert fit.scale == 1 and not fit.contradicted
    assert fit.intervals(scaled=True) == fit.intervals()


def test_what_is_advised_against_residuals_that_contradict_their_noise(fit):
    """To find its size, but of jumps between free runs, which have none."""
    assert report._advice(fit, "enc") == 'find its size, free={"enc.sigma": True}, or mend the model'
    assert report._advice(fit, "between free runs") == "mend the model"


def test_intervals_allow_for_noise_that_is_larger_than_it_was_said(data, fit):
    wrong = fitted(data, SIGMA / 4)
    assert wrong.reduced_chi2["enc"] == pytest.approx(16 * fit.reduced_chi2["enc"], rel=0.02)
    assert wrong.scale == pytest.approx(4 * np.sqrt(fit.overall_reduced_chi2), rel=0.02)
    for name, value in TRUE.items():
        low, high = np.subtract(wrong.intervals(scaled=True)[name], wrong.parameters[name])
        assert high == pytest.approx(np.ptp(fit.intervals()[name]) / 2, rel=0.25)  # the share of the forces stays
        assert low < value - wrong.parameters[name] < high
        assert np.ptp(wrong.intervals()[name]) < 0.4 * np.ptp(fit.intervals()[name])
    text = " ".join(wrong.warnings())
    assert "enc: its residuals are larger than the noise model says" in text and "scaled=True" in text
    assert 'find its size, free={"enc.sigma": True}, or mend the model' in text
    assert "times as wide for χ²" in wrong.report()
    with pytest.raises(ArgumentError, match="level: expected a probability between 0 and 1; found 2.0"):
        fit.intervals(2.0)


def test_the_report_has_the_same_warnings(data):
    """Those of the motion as well, once each: a spike, and noise that is larger."""
    sensors, recording = data
    enc = recording["enc"].values.copy()
    enc[100] += 20 * SIGMA
    spoiled = fgmbs.Recording.of(T, {"enc": enc, "u": TORQUE}, units={"enc": "rad", "u": "N m"})
    fit = fitted((sensors, spoiled), SIGMA)
    assert any(text.startswith("enc: 1 samples are farther than 5 σ") for text in fit.warnings())
    assert sum(text.startswith("enc: its residuals") or "enc: χ² is" in text for text in fit.warnings()) == 1
    _, said = fit.report().split("\nWarnings\n")
    assert [line[2:] for line in said.split("\n\n")[0].splitlines()] == list(fit.warnings())


def test_noise_that_is_smaller_is_said_and_makes_nothing_narrower(data, fit):
    wrong = fitted(data, 4 * SIGMA)
    assert wrong.reduced_chi2["enc"] == pytest.approx(fit.reduced_chi2["enc"] / 16, rel=0.02)
    assert wrong.scale == 1
    assert any("enc: its residuals are smaller" in text for text in wrong.warnings())


@pytest.mark.slow
def test_both_routes_agree_within_their_intervals(data, fit):
    other = fitted(data, SIGMA, "prediction")
    for name in FREE:
        assert abs(other.parameters[name] - fit.parameters[name]) < 0.2 * fit.std[name]
        assert other.std[name] == pytest.approx(fit.std[name], rel=0.05)
        assert other.profile(name).interval() == pytest.approx(fit.profile(name).interval(), rel=1e-2)
    assert other.reduced_chi2["enc"] == pytest.approx(fit.reduced_chi2["enc"], rel=0.01)
    readings = other.profiled_log_likelihood  # of normal readings, from their residuals alone
    assert readings == pytest.approx(-201 * np.log(SIGMA * np.sqrt(2 * np.pi)) - 0.5 * 201 * 0.98, abs=15)


@pytest.mark.slow
def test_profile_of_a_linear_problem_is_normal():
    """A mass on a line: its place is linear in the gain of the force on it."""
    mechanism, force = mass(), np.sin(4 * T)
    motion = fgmbs.hybrid_dynamics(mechanism, T, forces={"x_left": 3 * force}, start={"x_left": 0.0})
    sensors = (Position("place", point="left", sigma=1e-2),)
    recording = fgmbs.readings(mechanism, motion, sensors, seed=2)
    recording = recording.merged(fgmbs.Recording.of(T, {"u": force}, source="force"))
    inputs = Command("x_left", "u", hold="linear", name="push"), Disturbance(1e-4)
    found = fgmbs.identify(mechanism, recording, sensors, inputs, free=["push.gain"], start={"x_left": 0.0})
    profile = found.profile("push.gain")
    assert profile.interval() == pytest.approx(found.intervals()["push.gain"], rel=1e-4)
    z = (profile.values - found.parameters["push.gain"]) / found.std["push.gain"]
    np.testing.assert_allclose(profile.deviance, z**2, atol=1e-3)
    assert found.profile("push.gain", [2.9, 3.1]).values[[0, -1]] == pytest.approx([2.9, 3.1])


@pytest.mark.slow
def test_profile_of_friction_near_zero_is_lopsided():
    found = fitted(measured(damped(0.8, 0.0), SIGMA, seed=4), SIGMA)
    profile = found.profile("bearing.damping")
    best = found.parameters["bearing.damping"]
    low, high = profile.interval()
    assert low == 0.0 and profile.values[0] == 0.0
    assert high - best > 1.3 * (best - low)
    assert np.all(np.diff(profile.deviance[profile.values >= best]) > 0)
    assert profile.others["rod.I0"] == pytest.approx(0.8, rel=0.05)
    with pytest.raises(ArgumentError, match="values: expected one number or more at which .* is held; found none"):
        found.profile("bearing.damping", [])
    with pytest.raises(ArgumentError, match="values: expected numbers from 0 to inf, its bounds; found -1"):
        found.profile("bearing.damping", [-1.0])
    with pytest.raises(ArgumentError, match="name: there is no free number 'bearing'"):
        found.profile("bearing")


def test_tight_dynamics_converge(data):
    """In a step the motion strays by 3e-9 rad, an angle is read to 2e-2."""
    sensors, recording = data
    inputs = INPUTS[0], Disturbance(1e-11)
    found = fgmbs.identify(damped(3.0, 2.0), recording, sensors, inputs, free=FREE, start=START)
    assert found.status == fgmbs.Status.converged and found.iterations <= 15
    for name, value in TRUE.items():
        assert abs(found.parameters[name] - value) < 4 * found.std[name]


@pytest.mark.slow
def test_friction_and_back_emf_are_one_number():
    """Both are a torque against the speed of the motor: their sum is told, and all the rest."""
    wired = lambda damping, constant: planar.mechanism(
        planar.point("pivot", 0, 0, fixed=True),
        planar.point("tip", 1.0, 0.0),
        planar.body("rod", "pivot", "tip", length=1.0, mass=2.0, I0=0.8, cog=(0.5, 0)),
        planar.absolute_angle("theta", "pivot", "tip"),
        planar.actuator("motor", angle="theta", gain=1.0, back_emf=constant),
        planar.angular_damper("bearing", "theta", damping),
    )
    sensors, recording = measured(wired(0.3, 0.5), 1e-3, seed=3)
    free = ["bearing.damping", "motor.back_emf", "rod.I0"]
    found = fgmbs.identify(wired(0.2, 0.2), recording, sensors, INPUTS, free=free, start=START)
    told = found.identifiability()
    (one,) = told.combinations
    assert told.rank == 2 and set(one.parts) == {"bearing.damping", "motor.back_emf"}
    assert told.determined == ("rod.I0",) and found.std["rod.I0"] < 0.01
    assert found.parameters["rod.I0"] == pytest.approx(0.8, abs=4 * found.std["rod.I0"])
    total = found.parameters["bearing.damping"] + found.parameters["motor.back_emf"]
    assert total == pytest.approx(0.8, abs=0.02)
    # Neither is known alone, and no interval says so.
    assert found.undetermined == {"bearing.damping": True, "motor.back_emf": True, "rod.I0": False}
    for name, true in (("bearing.damping", 0.3), ("motor.back_emf", 0.5)):
        low, high = found.intervals()[name]
        assert low < true < high and high > 10
    assert found.report().count("not determined") == 2


@pytest.mark.parametrize("doing", ["solving along the first motion", "solving with larger forces"])
def test_what_there_is_when_it_is_interrupted_is_kept(data, doing):
    """Ctrl-C, however early."""

    def progress(what, *_):
        if what == doing:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted after") as caught:
        fitted(data, SIGMA, progress=progress)
    found = caught.value.result
    assert isinstance(found, fgmbs.Identification) and "interrupted" in found.notes
    first = doing == "solving along the first motion"
    assert found.parameters["rod.I0"] == pytest.approx(1.0 if first else 0.8, rel=1e-3 if first else 0.1)
    assert found.states.q.shape[0] == 201 and found.report()


@pytest.mark.parametrize("method", ["smoother", "prediction"])
def test_before_the_recordings_were_followed_there_is_nothing_to_keep(data, method):
    def progress(what, *_):
        assert what == "following"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(data, SIGMA, method, progress=progress)


def test_a_recording_without_a_signal_is_refused(data):
    recording = fgmbs.Recording.of(T, {"u": TORQUE}, source="no angle")
    with pytest.raises(ArgumentError, match="no angle.*enc"):
        fgmbs.identify(damped(1.0, 0.1), recording, data[0], INPUTS, free=FREE, start=START)
