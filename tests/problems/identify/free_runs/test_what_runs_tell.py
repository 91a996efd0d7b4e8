"""What a fit of free runs says of its numbers, beside what the smoother says of the same data."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems.identify.rod import INPUTS, START, TORQUE, T, measured, rod

import fgmbs
from fgmbs import Unknown
from fgmbs.errors import ArgumentError, Interrupted
from fgmbs.inputs import Command, Disturbance
from fgmbs.losses import Huber, Tukey
from fgmbs.problems.identify import identify, profile
from fgmbs.sensors import Encoder
from fgmbs.status import Status

MOTOR = (Command("motor", "u", hold="linear"), Disturbance(1e-5))
EVERY = 8
"""So few samples need no shorter runs on the way to those of the whole recording, which would be a program more."""


def heavy():
    return rod(I0=0.6)


@pytest.fixture(scope="module")
def read():
    """A recording of a rod, with outliers."""
    sensors, recording = measured(heavy(), 1e-2, seed=3, every=EVERY)
    signals = {"enc": recording["enc"].values.copy(), "u": TORQUE[::EVERY]}
    signals["enc"][5::10] += 2.0
    spoiled = fgmbs.Recording.of(T[::EVERY], signals, source="spoiled", units={"enc": "rad", "u": "N m"})
    return sensors, recording, spoiled


def test_a_zero_that_the_first_state_imitates_is_not_determined():
    """Without gravity nothing tells where zero is."""
    floating = heavy().with_parameters({"gravity.y": 0.0})
    sensors, recording = measured(floating, 1e-3, seed=1, every=EVERY)
    free = {"rod.I0": True, "enc.bias": True}
    fit = fgmbs.identify(floating, recording, sensors, MOTOR, free=free, method="prediction", start=START)
    told = fit.identifiability()
    assert told.without_influence == ("enc.bias",) and told.determined == ("rod.I0",)
    assert any("enc.bias" in warning for warning in fit.warnings())
    assert fit.parameters["rod.I0"] == pytest.approx(0.6, abs=4 * fit.std["rod.I0"])


@pytest.mark.parametrize("loss", [None, Huber(2.0)])
def test_likelihood_is_minus_the_cost_but_for_a_constant(read, loss):
    """That of normalized densities, of which a robust loss is taken as if it were none."""
    *_, spoiled = read
    sensors = (Encoder("enc", of="theta", sigma=1e-2, loss=loss),)
    fit = fgmbs.identify(heavy(), spoiled, sensors, INPUTS, free={"rod.I0": True}, method="prediction", start=START)
    constant = -len(T[::EVERY]) * np.log(1e-2 * np.sqrt(2 * np.pi))
    # The wide priors count nothing.
    assert fit.log_likelihood == pytest.approx(constant - fit.cost_history[-1], rel=1e-6)
    advice = 'find its size by method="smoother", free={"enc.sigma": True}, or mend the model'
    assert any(advice in text for text in fit.warnings()) == (loss is None)


def test_a_start_that_is_known_holds_a_free_run_as_it_holds_the_smoother(read):
    """A tight start beside data that contradict it: the mean, weighed by what either knows; forces are hardly any."""
    sensors, recording, _ = read
    inputs = Command("motor", "u", hold="linear"), Disturbance(1e-10)
    options = dict(free={"rod.I0": True}, start={"theta": -0.75}, start_sigma=(1e-3, 1e-2))
    found = fgmbs.identify(heavy(), recording, sensors, inputs, method="prediction", **options)
    prediction, x = found.solved
    theta = prediction.model.mechanism.coordinate_names.index("theta")
    assert prediction.segments.prior[0, theta] == pytest.approx(-0.75)
    beside = fgmbs.identify(heavy(), recording, sensors, inputs, **options)
    first = float(beside.states.q[0, theta])
    assert -0.8 < first < -0.74
    assert float(x.steps[0, theta]) == pytest.approx(first, abs=2e-4)


def test_sizes_of_noise_are_not_found_by_free_runs(read):
    sensors, recording, _ = read
    unknown = (Encoder("enc", of="theta", sigma=Unknown(1e-2)),)
    for own, free in ((sensors, {"rod.I0": True, "enc.sigma": True}), (unknown, {"rod.I0": True})):
        with pytest.raises(ArgumentError, match=r"free: .*free runs find none; found 'enc\.sigma'"):
            fgmbs.identify(heavy(), recording, own, INPUTS, free=free, method="prediction")


@pytest.mark.parametrize("method", [pytest.param("smoother", marks=pytest.mark.slow), "prediction"])
def test_ctrl_c_while_the_result_is_made_keeps_it(read, monkeypatch, method):
    sensors, recording, _ = read
    name = "identification" if method == "smoother" else "identification_of_free_runs"
    make, calls = getattr(identify, name), []

    def once(*given):
        calls.append(given)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return make(*given)

    monkeypatch.setattr(identify, name, once)
    with pytest.raises(Interrupted, match="interrupted after") as caught:
        fgmbs.identify(heavy(), recording, sensors, INPUTS, free={"rod.I0": True}, method=method, start=START)
    fit = caught.value.result
    assert "interrupted" in fit.notes
    assert fit.parameters["rod.I0"] == pytest.approx(0.6, rel=0.05)


@pytest.mark.slow
def test_of_several_starts_the_likeliest_is_taken_where_priors_tell_them_apart(read):
    sensors, recording, _ = read
    free = {"rod.I0": Unknown(jnp.asarray(0.6), sigma=0.01, lower=0.35, upper=5.0), "enc.bias": True}
    fit = fgmbs.identify(
        heavy(), recording, sensors, INPUTS, free=free, method="prediction", horizon=0.5, restarts=1, start=START
    )
    best, *others = fit.maxima
    assert all(best.log_likelihood >= other.log_likelihood - 1e-3 for other in others)
    assert best.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-6)


def test_a_profile_is_of_the_values_at_which_a_solution_was_found(read, monkeypatch):
    sensors, recording, _ = read
    fit = fgmbs.identify(heavy(), recording, sensors, INPUTS, free={"rod.I0": True}, method="prediction", start=START)
    fitted = profile.refitted

    def lost_at_the_best(fit, index, theta, at):
        cost, at, status = fitted(fit, index, theta, at)
        return (np.nan, at, Status.non_finite) if theta == fit.theta[index] else (cost, at, status)

    monkeypatch.setattr(profile, "refitted", lost_at_the_best)
    best, std = fit.parameters["rod.I0"], fit.std["rod.I0"]
    told = fit.profile("rod.I0", [best - std, best + 2 * std])
    assert told.deviance[1] == np.inf and told.deviance[0] == 0 and 0 < told.deviance[2] < np.inf


def test_a_loss_that_rejects_nearly_all_is_warned_of(read):
    """Where noise is ten times what was said, Tukey's ignores most of it, and the rest tells little."""
    _, recording, _ = read
    for sigma in (1e-3, 1e-2):
        sensors = (Encoder("enc", of="theta", sigma=sigma, loss=Tukey()),)
        options = dict(free={"rod.I0": True}, method="prediction", start=START, throw=False)
        fit = fgmbs.identify(heavy(), recording, sensors, INPUTS, **options)
        rejects = sigma == 1e-3
        assert fit.groups[0].outliers > 0.5 if rejects else fit.groups[0].outliers < 0.1
        assert any(text.startswith("enc: its loss rejects") for text in fit.warnings()) == rejects
