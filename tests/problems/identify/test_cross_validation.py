"""Recordings that are left out, and models that are compared."""

import numpy as np
import pytest
from counting import compilations
from rod import T, measured, rod

import fgmbs
from fgmbs import planar
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command, Disturbance
from fgmbs.problems.identify.cross_validation import without

pytestmark = pytest.mark.slow

INPUTS = Command("motor", "u", hold="linear"), Disturbance(1e-7)
STARTS = [{"theta": -0.8 - 0.1 * k} for k in range(4)]
FREE = ["rod.I0", "bearing.damping"]


def damped(**numbers):
    return rod(2.0, 0.8, planar.angular_damper("bearing", "theta", **numbers))


@pytest.fixture(scope="module")
def data():
    """Four recordings of a rod with dry friction, the second shorter than the others."""
    true = damped(damping=0.05, coulomb=0.1, width=0.02)
    made = []
    for k, start in enumerate(STARTS):
        sensors, recording = measured(true, 2e-3, k, (2 + k) * np.sin((2 + 0.4 * k) * T), start=start)
        made.append(recording.between(0.0, 1.7) if k == 1 else recording)
    return sensors, made


def fitted(data, which, mechanism=None, free=FREE, **options):
    sensors, recordings = data
    mechanism = damped(damping=0.1) if mechanism is None else mechanism
    used, starts = [recordings[k] for k in which], [STARTS[k] for k in which]
    return fgmbs.identify(mechanism, used, sensors, INPUTS, free=free, start=starts, **options)


@pytest.fixture(scope="module")
def fit(data):
    return fitted(data, (0, 1, 2))


def test_a_fold_is_the_fit_of_the_others(data, fit):
    """Found by the programs of all, beside two recordings that are fitted for themselves."""
    fold, alone = without(fit, (1,)), fitted(data, (0, 2))
    for name in FREE:
        assert fold.parameters[name] == pytest.approx(alone.parameters[name], rel=1e-5)
        assert fold.std[name] == pytest.approx(alone.std[name], rel=1e-3)
    assert fold.profiled_log_likelihood == pytest.approx(alone.profiled_log_likelihood, abs=1e-2)
    assert [one.source for one in fold.recordings] == [data[1][0].source, data[1][2].source]


def test_folds_compile_nothing_and_forget_what_is_left_out(fit):
    fold = without(fit, (0,))
    assert compilations(lambda: without(fit, (2,))) == 0
    for name in FREE:  # the model is wrong, so that other recordings tell other numbers, less sharply
        assert fold.parameters[name] == pytest.approx(fit.parameters[name], rel=0.3)
        assert fold.parameters[name] != fit.parameters[name]
        assert 1.05 < fold.std[name] / fit.std[name] < 3


def test_one_recording_cannot_be_left_out(data):
    one = fitted(data, (0, 1, 2))
    alone = without(one, (0, 1))
    with pytest.raises(ArgumentError, match="at least two recordings"):
        fgmbs.cross_validate(alone)
    with pytest.raises(ArgumentError, match="fits: expected at least two models; found 1"):
        fgmbs.compare_models({"one": one})
    with pytest.raises(ArgumentError, match="fits: expected models of the same recordings"):
        fgmbs.compare_models({"one": one, "other": alone})
    with pytest.raises(ArgumentError, match="held_back: expected recordings that no model was found from"):
        fgmbs.compare_models({"one": one, "other": one}, data[1][0])


def test_dry_friction_is_preferred_where_there_is_some(data, fit):
    dry = damped(damping=0.1, coulomb=0.05, width=0.02)
    other = fitted(data, (0, 1, 2), dry, [*FREE, "bearing.coulomb"])
    compared = fgmbs.compare_models({"viscous": fit, "and Coulomb": other}, data[1][3])
    assert compared.models[0].name == "and Coulomb" and set(compared.best.values()) == {"and Coulomb"}
    assert compared.models[0].error < 0.7 * compared.models[1].error
    text = compared.report()
    assert "best by BIC: and Coulomb" in text and "free runs" in text
    validation = fgmbs.cross_validate(other, horizons=[0.3])
    assert [fold.recording for fold in validation.folds] == [0, 1, 2]
    assert np.all(validation.rms["enc"] < 3e-3) and validation.total()["enc"] < 0.02
    assert np.all(validation.at(0.3)["enc"] < 3e-3)
    assert np.std(validation.parameters["rod.I0"]) < 3 * other.std["rod.I0"]
    assert "Free runs of what was found from the other recordings" in validation.report()


def test_folds_of_free_runs(data, fit):
    found = fitted(data, (0, 1, 2), method="prediction")
    fold, alone = without(found, (1,)), fitted(data, (0, 2), method="prediction")
    for name in FREE:
        assert fold.parameters[name] == pytest.approx(alone.parameters[name], rel=1e-5)
        assert fold.std[name] == pytest.approx(alone.std[name], rel=1e-3)
