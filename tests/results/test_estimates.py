"""Datasets and reports of estimates: what they hold, what they say, and what they warn of."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fgmbs import results
from fgmbs.problems.smooth.smoothed_motion import Branch
from fgmbs.sensors import Gyroscope, Position
from fgmbs.status import Status


@pytest.fixture(scope="module")
def dataset(estimate):
    return results.to_dataset(estimate, {"dt": 5e-3})


@pytest.fixture(scope="module")
def truth(swing):
    names = ("x_tip", "y_tip")
    columns = {"t": swing.t} | dict(zip(names, swing.q.T, strict=True))
    return columns | {f"d_{name}": value for name, value in zip(names, swing.dq.T, strict=True)}


def test_a_file_gives_back_the_whole_dataset(estimate, dataset, tmp_path):
    estimate.save(tmp_path / "out.nc")
    read = results.load_results(tmp_path / "out.nc")
    xr.testing.assert_identical(read, dataset.assign_attrs(config="{}"))


def test_every_array_of_the_estimate_is_there(estimate, dataset):
    for name in ("t", "q", "q_std", "dq", "dq_std", "ddq", "ddq_std", "forces", "forces_std", "recording"):
        np.testing.assert_array_equal(dataset[name], getattr(estimate, name))
    np.testing.assert_array_equal(dataset["multipliers"], estimate.multipliers)
    np.testing.assert_array_equal(dataset["multipliers_std"], estimate.multipliers_std)
    forces, std = estimate.joint_forces()
    np.testing.assert_array_equal(dataset["joint_forces"], forces)
    np.testing.assert_array_equal(dataset["joint_forces_std"], std)
    np.testing.assert_array_equal(dataset["cost_history"], estimate.cost_history)
    assert json.loads(dataset.attrs["notes"]) == list(estimate.notes)
    assert dataset["status"] == results.STATUSES.index("converged")
    assert "step_status" not in dataset and "commands" not in dataset


def test_a_motion_beside_a_singular_pose_is_doubted(dataset):
    assert not [text for text in results.warnings(dataset) if text.startswith("motion")]
    sharp = {"nearest": 0.02, "nearest_steps": 0.4, "nearest_t": 0.125, "dependent": "the rod"}
    for near in (sharp, sharp | {"nearest": 1e-4, "nearest_steps": 1e3}):
        doubted = dataset.assign(rank_margin=dataset["rank_margin"].assign_attrs(near))
        (text,) = (text for text in results.warnings(doubted) if text.startswith("motion"))
        assert f"at t = 0.125 s it passes by a singular pose (margin of rank {near['nearest']:.2g}, " in text
        assert "in which the rod depend on each other" in text


def test_sensors_have_samples_and_rows_of_their_own(estimate, dataset):
    for fit, columns in zip(estimate.fits, (["cam.x", "cam.y"], ["gyro"]), strict=True):
        for name in ("t", "recording", "measured", "predicted", "normalized", "weight"):
            np.testing.assert_array_equal(dataset[f"{fit.name}.{name}"], getattr(fit, name))
        assert dataset[f"{fit.name}.row"].values.tolist() == columns
        assert dataset[f"{fit.name}.unit"].values.tolist() == list(fit.units)
    assert dataset["gyro.measured"].attrs["robust"] and not dataset["cam.measured"].attrs["robust"]


def test_groups_forces_and_calibration_have_names_and_units(estimate, dataset):
    assert dataset.group.values.tolist() == ["cam", "gyro", "disturbance", "y_tip"]
    assert dataset.group_unit.values.tolist() == ["m", "rad/s", "W", "N/√s"]
    for name in ("count", "dof", "chi2", "size", "p_value", "correlation", "whiteness"):
        np.testing.assert_array_equal(dataset[f"group_{name}"], [getattr(group, name) for group in estimate.groups])
    assert dataset.force.values.tolist() == ["y_tip"] and dataset.force_unit.values.tolist() == ["N"]
    assert dataset.unknown.values.tolist() == ["cam.bias[0]", "cam.bias[1]"]
    np.testing.assert_array_equal(dataset["unknown_value"], estimate.unknowns["cam.bias"])
    np.testing.assert_array_equal(dataset["unknown_prior_std"], [0.1, 0.1])
    np.testing.assert_allclose(dataset["unknown_left"], np.asarray(estimate.unknowns_std["cam.bias"]) / 0.1, rtol=1e-12)
    np.testing.assert_allclose(dataset["unknown_away"], np.abs(estimate.unknowns["cam.bias"]) / 0.1, rtol=1e-12)
    assert dataset["q"].units == "m" and dataset["ddq_std"].units == "m/s²" and dataset["forces"].units == "N"


def test_the_report_tells_the_step_of_every_recording(dataset):
    first = np.arange(61) < 31
    t = np.where(first, 0.005 * np.arange(61), 0.02 * (np.arange(61) - 31))
    several = dataset.assign(recording=("step", 1 - first.astype(int)), t=("step", t))
    assert "steps         61 of dt = 0.005, 0.02 s, t = 0 to 0.15 s, 0 to 0.58 s" in results.estimate_report(several)


def test_the_report_tells_sensors_outliers_and_calibration(estimate, dataset):
    said = estimate.report()
    assert said == results.estimate_report(dataset)
    for line in (
        "mechanism     pendulum: x_tip, y_tip",
        "steps         61 of dt = 0.005 s, t = 0 to 0.3 s",
        "status        converged",
        f"iterations    {int(estimate.iterations)}, cost {float(estimate.cost_history[-1]):.6g}",
        "- a spike was added",
    ):
        assert line in said.replace("swing: ", "")
    words = {line.split()[0]: line.split() for line in said.splitlines() if line.startswith("  ")}
    bias, std = (float(numbers["cam.bias"][1]) for numbers in (estimate.unknowns, estimate.unknowns_std))
    assert words["cam.bias[1]"] == ["cam.bias[1]", f"{bias:.6g}", f"{std:.2g}", "m", "0", "0.1"]
    (spike,) = estimate.fits[1].outliers
    largest = abs(float(estimate.fits[1].normalized[spike, 0]))
    assert estimate.fits[1].t[spike] == pytest.approx(0.1)
    assert words["gyro"] == ["gyro", "61", "1", "1.64%", "1", f"{largest:.1f}", "σ", "0.1"]
    force = estimate.groups[-1]
    assert words["y_tip"][:5] == ["y_tip", "force", "60", f"{force.chi2:.1f}", f"{force.dof:.1f}"]
    assert words["y_tip"][-3:] == ["5", "N/√s", "given"]


def test_known_values_are_compared_with_the_bands(dataset, truth):
    said = results.estimate_report(results.with_truth(dataset, truth), seconds=2.5)
    error = dataset["q"].values - np.stack([truth["x_tip"], truth["y_tip"]], axis=1)
    inside = np.mean(np.abs(error) <= 2 * dataset["q_std"].values)
    assert f"RMSE q [m]    {np.sqrt(np.mean(error**2)):.3e}" in said
    assert f"within ±2σ    q {inside:.1%}" in said and inside > 0.8
    assert "time          2.5 s including compilation" in said


@pytest.fixture
def sound(dataset):
    """The dataset with nothing to warn of."""
    good = dataset.copy(deep=True)
    good["group_p_value"][:] = 0.5
    good["group_whiteness"][:] = 0.5
    good["forces_std"][:] = 1e-3 * np.ptp(good["forces"].values)
    assert results.warnings(good) == []
    return good


def test_residuals_that_do_not_fit_are_warned_of(sound):
    sound["group_p_value"][:] = 1e-6
    sound["group_chi2"][:] = sound["group_dof"] * np.array([2.0, 0.5, 3.0, 1.05])
    worse, better, larger = results.warnings(sound)
    assert worse.startswith("cam: χ² is 2 times what is expected (p = 1e-06): the sensor is worse than its sigma says")
    assert better.startswith("gyro: χ² is 0.5 times") and "its sigma is larger than its noise" in better
    assert larger.startswith("disturbance: χ² is 3 times") and "the unknown force is larger than its size" in larger


def test_residuals_that_are_autocorrelated_are_warned_of_for_sensors_only(sound):
    sound["group_whiteness"][:] = 1e-9
    sound["group_correlation"][:] = [0.4, 0.01, 0.9, 0.9]
    (warning,) = results.warnings(sound)
    sound["group_correlation"][:] = [-0.4, 0.01, 0.9, 0.9]  # as a motion leaves them that follows the noise
    assert results.warnings(sound) == []
    assert warning.startswith("cam: residuals are autocorrelated (correlation of neighbours 0.40, p = 1e-09)")


def test_a_band_as_wide_as_the_range_is_warned_of(sound):
    sound["q_std"][:, 1] = 0.3 * np.ptp(sound["q"].values[:, 1])
    sound["dq_std"][:, 0] = np.abs(sound["dq"][:, 0]).max()
    q, dq = results.warnings(sound)
    assert q.startswith("y_tip: hardly observed: its band is ±") and " m where it changes by " in q
    assert dq.startswith("velocity of x_tip: hardly observed: its band is ±")


def test_a_coordinate_that_cannot_move_and_a_steady_velocity_bring_no_warning(sound):
    sound["q"][:, 0], sound["q_std"][:, 0] = 1.0, 1e-17
    sound["dq"][:, 0], sound["dq_std"][:, 0] = 3.0, 0.01
    assert results.warnings(sound) == []


def test_a_number_far_from_what_was_known_is_warned_of(sound):
    sound["unknown_away"][0] = 3.9
    assert results.warnings(sound) == []
    sound["unknown_away"][0] = 81.0
    (far,) = results.warnings(sound)
    assert far.startswith(
        "cam.bias[0]: it ended 81 standard deviations from what was known before, 0 ± 0.1 m: the motion"
    )


def test_a_number_taken_as_known_that_the_data_contradict_is_warned_of(estimate, sound):
    tests = estimate.score_tests()
    assert sound.known.values.tolist() == [test.name for test in tests]
    np.testing.assert_array_equal(sound["known_change"] / sound["known_std"], [test.z for test in tests])
    gain = sound.known.values.tolist().index("gyro.gain")
    other = sound.known.values.tolist().index("L")
    sound["known_std"][:], sound["known_change"][:] = 0.01, 0.0
    sound["known_change"][gain], sound["known_change"][other] = 0.035, 0.034  # 3.5 of so many are chance
    assert results.warnings(sound) == [] and "contradict" not in results.estimate_report(sound)
    sound["known_change"][gain], sound["known_change"][other] = -0.05, 0.049
    (warning,) = results.warnings(sound)
    assert warning == (
        "gyro.gain: the data contradict it by 5 standard deviations: they want 0.95 ± 0.01 instead of 1, all else "
        "being right; L would explain that, too; correct it, or make it Unknown"
    )
    far = sound.copy(deep=True)
    far["cam.normalized"][3, 0] = -7.0
    assert "; samples that are far off may be the cause; correct it" in results.warnings(far)[1]
    said = results.estimate_report(sound)
    (line,) = (line for line in said.splitlines() if line.startswith("  gyro.gain"))
    assert line.split() == ["gyro.gain", "1", "0.95", "0.01", "5.0"]


def test_what_the_data_do_not_tell_is_warned_of(sound):
    sound["unknown_left"][1] = 0.99
    sound["group_found"][3], sound["group_dof"][3] = True, 0.01
    force, bias = results.warnings(sound)
    assert bias == "cam.bias[1]: the data say nothing about it; it is what was assumed before"
    assert force.startswith("y_tip: the data show no such force")


def test_outliers_are_warned_of_where_they_are_many_or_pull(sound):
    sound["gyro.weight"][:10] = 0.1
    sound["cam.normalized"][3, 0] = -7.0
    pull, many = results.warnings(sound)
    assert pull == "cam: 1 samples are farther than 5 σ; a robust loss would keep them from pulling"
    assert many.startswith("gyro: 18% of its samples are outliers: its unit, sign, place or clock may be wrong")


def test_a_solve_that_failed_and_lost_steps_are_warned_of(sound):
    sound["q"][4:] = np.nan
    failed = sound.assign_attrs(status="stalled: no damping gives a step that lowers the cost")
    warnings = results.warnings(failed)
    assert warnings[0].startswith("the solve did not end well (stalled: no damping")
    assert warnings[1] == "57 of 61 steps are no numbers, the first at t = 0.02 s"


_FIRST, _OTHER = (0.7, -0.7), (0.6, 0.8)


@pytest.mark.parametrize(
    "other, said, warned",
    [
        (
            Branch(0, _OTHER, 1.5, np.nan, False),
            "the first samples are 4.48 times less likely",
            "from another one, which",
        ),
        (Branch(0, _OTHER, 30.0, np.nan, False), "the first samples are more than a million times less likely", None),
        (Branch(0, _OTHER, 9.0, 0.31, False), "has a probability of 0.31", "one, with a probability of 0.31, which"),
        (Branch(0, _OTHER, 9.0, 1e-4, False), "has a probability of 0.0001", None),
    ],
)
@pytest.mark.parametrize("given", [True, False])
def test_the_next_best_start_is_reported(estimate, other, said, warned, given):
    first = Branch(0, _FIRST, 0.0, 1 - other.weight, given)
    dataset = results.to_dataset(dataclasses.replace(estimate, branches=(first, other)))
    report = results.estimate_report(dataset)
    assert f"the {'one that was given' if given else 'best'} of 2 that were compared; " in report and said in report
    assert "y_tip = 0.8" in report  # the other coordinate is nearly the same
    warnings = [warning for warning in results.warnings(dataset) if warning.startswith("start")]
    assert len(warnings) == (warned is not None) and all(warned in warning for warning in warnings)


def test_a_given_start_that_the_data_refute_is_warned_of(estimate):
    branches = Branch(0, _FIRST, 0.0, 1.0, False), Branch(0, _OTHER, 300.0, 0.0, True)
    found = results.warnings(results.to_dataset(dataclasses.replace(estimate, branches=branches)))
    assert [text for text in found if text.startswith("start: it is not the one that was given")]


@pytest.mark.parametrize(("times", "given", "warned"), [(30.0, False, True), (30.0, True, False), (1.0, False, False)])
def test_a_motion_that_explains_nothing_may_be_another_one(estimate, times, given, warned):
    branches = Branch(0, _FIRST, 0.0, 1.0, given), Branch(0, _OTHER, 300.0, 0.0, False)
    groups = tuple(dataclasses.replace(group, chi2=times * group.dof) for group in estimate.groups)
    found = results.warnings(results.to_dataset(dataclasses.replace(estimate, branches=branches, groups=groups)))
    assert warned == any(text.startswith("start: the best that was found leaves a χ² of 30 times") for text in found)


def test_starts_belong_to_their_recordings(estimate):
    branches = (
        Branch(0, _FIRST, 0.0, np.nan, False),
        Branch(1, _FIRST, 0.0, 0.6, False),
        Branch(1, _OTHER, 1.0, 0.4, False),
    )
    half = dataclasses.replace(estimate, branches=branches, recording=(jnp.arange(estimate.t.size) > 30).astype(int))
    found = results.warnings(results.to_dataset(half))
    assert [text for text in found if text.startswith("start of recording 1: the data hardly tell")]
    assert not [text for text in found if text.startswith("start of recording 0")]


def test_steps_that_were_solved_one_by_one_are_counted(estimate, sound):
    status = jnp.broadcast_to(estimate.status._value, (61,)).at[4:7].set(Status.stalled._value)
    windowed = dataclasses.replace(estimate, step_status=dataclasses.replace(Status.converged, _value=status))
    dataset = results.to_dataset(windowed)
    assert dataset["step_status"].dims == ("step",)
    assert np.flatnonzero(dataset["step_status"] != results.STATUSES.index("converged")).tolist() == [4, 5, 6]
    # What the last steps of windows differ by is no force.
    several = sound.assign(step_status=dataset["step_status"])
    several["group_p_value"][2:], several["group_chi2"][2:] = 0.0, 1e6
    (warning,) = results.warnings(several)
    assert warning.startswith("3 of 61 steps did not end well") and warning.endswith("the first at t = 0.02 s")
    assert "disturbance" not in results.estimate_report(several)


def test_names_that_no_file_allows_are_replaced(estimate, tmp_path):
    sensors = (Position("a/b", point="tip", sigma=1.0), Gyroscope("a_b", body="rod", sigma=1.0))
    dataclasses.replace(estimate, sensors=sensors).save(tmp_path / "out.nc")
    read = results.load_results(tmp_path / "out.nc")
    assert read.sensor.values.tolist() == ["a/b", "a_b"] and read.sensor_key.values.tolist() == ["a_b", "a_b_1"]
    np.testing.assert_array_equal(read["a_b.measured"], estimate.fits[0].measured)
    np.testing.assert_array_equal(read["a_b_1.measured"], estimate.fits[1].measured)
