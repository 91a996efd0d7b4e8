"""Datasets of simulations: names, units, files."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fgmbs
from fgmbs import results
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.results.summaries import simulation_summary


@pytest.fixture(scope="module")
def simulation(configs):
    return fgmbs.simulate(fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml"), 0.1, 1e-3)


@pytest.fixture(scope="module")
def driven(configs):
    mechanism = fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml")
    t = np.arange(101) * 5e-3
    return fgmbs.inverse_dynamics(mechanism, t, {"theta": 1.2 * (1 - np.cos(2 * t))}, covariance=True)


@pytest.fixture(scope="module")
def dataset(simulation):
    return results.to_dataset(simulation, {"dt": 1e-3})


def test_a_file_gives_back_the_whole_dataset(dataset, tmp_path):
    results.write(dataset, tmp_path / "deeper" / "out.nc")
    read = results.load_results(tmp_path / "deeper" / "out.nc")
    xr.testing.assert_identical(read, dataset)
    assert [path.name for path in (tmp_path / "deeper").iterdir()] == ["out.nc"]


def test_save_writes_every_array_of_the_simulation(simulation, tmp_path):
    simulation.save(tmp_path / "out.nc")
    read = results.load_results(tmp_path / "out.nc")
    for name in ("t", "q", "dq", "ddq", "multipliers", "reactions", "kinetic", "potential", "power", "iterations"):
        np.testing.assert_array_equal(read[name], getattr(simulation, name))
    np.testing.assert_array_equal(read["constraint_norm"], simulation.constraint_norm)
    np.testing.assert_array_equal(read["velocity_constraint_norm"], simulation.velocity_constraint_norm)
    xr.testing.assert_identical(read, simulation.to_dataset())
    assert simulation.state(3)["start"] == dict(zip(simulation.coordinate_names, simulation.q[3].tolist(), strict=True))
    assert read.attrs["status"].startswith("converged")
    assert set(read["step_status"].values) == {results.STATUSES.index("converged")}


def test_save_writes_every_array_of_a_driven_motion(driven, tmp_path):
    driven.save(tmp_path / "out.nc")
    read = results.load_results(tmp_path / "out.nc")
    arrays = (
        "t",
        "q",
        "dq",
        "ddq",
        "forces",
        "multipliers",
        "reactions",
        "joint_forces",
        "kinetic",
        "potential",
        "power",
    )
    arrays += (
        "motor_power",
        "tracking_error",
        "missing",
        "jumps",
        "sigma",
        "constraint_norm",
        "velocity_constraint_norm",
    )
    for name in arrays:
        np.testing.assert_array_equal(read[name], getattr(driven, name))
    np.testing.assert_array_equal(read["force_covariance"], driven.covariance)
    assert read["iterations"].sel(stage="positions") == driven.iterations["positions"]
    np.testing.assert_allclose(read["desired_q"].sel(desired="theta"), 1.2 * (1 - np.cos(2 * read.t)), atol=1e-14)
    assert read.attrs["status"].startswith("converged")
    assert read["status"] == results.STATUSES.index("converged")


def test_every_status_has_its_number():
    assert [int(results.contents.codes(getattr(fgmbs.Status, name))) for name in results.STATUSES] == [*range(9)]
    messages = {fgmbs.Status[getattr(fgmbs.Status, name)] for name in results.STATUSES}
    assert len(messages) == len(results.STATUSES) == len(fgmbs.Status)


def test_names_and_units_of_a_driven_motion_stand_in_the_dataset(driven):
    dataset = results.to_dataset(driven)
    assert dataset.actuator.values.tolist() == ["motor"] and dataset.force_unit.values.tolist() == ["N m"]
    assert dataset.desired.values.tolist() == ["theta"] and dataset.desired_unit.values.tolist() == ["rad"]
    assert tuple(dataset.pin.values) == driven.joint_names
    assert dataset["forces"].units == "N m" and dataset["motor_power"].units == "W"
    assert dataset["tracking_error"].units == "rad" and dataset["joint_forces"].units == "N"


ARM = """
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {name: P, x: 1, y: 0}
planar_bodies:
  - {name: rod, points: [A, P], length: 1, mass: 1, I0: 1/3, cog: [0.5, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, P]}
actuators: [{name: a, angle: theta}, {name: b, points: [A, P]}, {name: c, coordinate: x_P}, {name: d, body: rod}]
"""


@pytest.mark.slow
def test_forces_have_the_unit_of_what_they_act_on():
    mechanism = fgmbs.PlanarMechanism.from_description(parse_mechanism(ARM))
    t = np.linspace(0, 1, 11)
    motors = ("a", "c", "d", "y_P", "theta")
    desired = {"theta": (0.1 * t**2, 0.2 * t, 0.2 + 0 * t)}
    dataset = results.to_dataset(fgmbs.inverse_dynamics(mechanism, t, desired, motors))
    assert dataset.force_unit.values.tolist() == ["N m", "N", "N m", "N", "N m"]
    assert dataset["forces"].units == "N m, N"
    np.testing.assert_array_equal(dataset["sigma"], [0.0])


def test_known_forces_alone_stand_beside_those_that_are_found(driven):
    dataset = results.to_dataset(driven)
    compared = results.with_truth(
        dataset, {"t": dataset.t.values[:50], "force_motor": dataset["forces"].values[:50, 0] - 2}
    )
    assert "truth_q" not in compared
    np.testing.assert_allclose(results.errors(compared)["forces"], 2.0, rtol=1e-12)
    assert results.rmse(compared) == {"forces [N m]": pytest.approx(2.0)}


def test_energy_drift_counts_the_work_of_actuators(driven):
    dataset = results.to_dataset(driven)
    gained = np.ptp((dataset["kinetic"] + dataset["potential"]).values)
    assert np.abs(results.energy_drift(dataset)).max() < 1e-4 * gained  # of the trapezoidal rule for the work
    idle = dataset.assign(motor_power=0 * dataset["motor_power"])
    assert np.abs(results.energy_drift(idle)).max() > 0.9 * gained


def test_names_units_config_and_versions_stand_in_the_dataset(simulation, dataset):
    assert tuple(dataset.coordinate.values) == simulation.coordinate_names
    assert dataset.unit.values.tolist() == ["m", "m", "m", "m", "rad"]
    assert tuple(dataset.velocity.values) == simulation.coordinate_names
    assert dataset.velocity_unit.values.tolist() == ["m/s"] * 4 + ["rad/s"]
    assert dataset["dq"].dims == dataset["ddq"].dims == dataset["reactions"].dims == ("step", "velocity")
    assert dataset["q"].units == "m, rad" and dataset["dq"].units == "m/s, rad/s"
    assert dataset.t.units == "s" and dataset["kinetic"].units == "J"
    assert tuple(dataset.constraint.values) == simulation.mechanism.constraint_names
    assert json.loads(dataset.attrs["config"]) == {"dt": 1e-3}
    assert dataset.attrs["jax_version"] == jax.__version__ and dataset.attrs["fgmbs_version"]


def test_the_mechanism_comes_back_with_its_parameters(simulation, dataset):
    mechanism = results.mechanism_of(dataset)
    assert mechanism.description == simulation.mechanism.description
    assert mechanism.parameters == simulation.mechanism.parameters


def test_positions_are_those_of_the_points(dataset):
    q = dataset["q"]
    for point in ("P1", "P2"):
        for axis in "xy":
            expected = q.sel(coordinate=f"{axis}_{point}").values
            np.testing.assert_array_equal(dataset["position"].sel(point=point, axis=axis), expected)
    assert dataset.point.values[dataset.fixed.values].tolist() == ["A", "B"]
    np.testing.assert_array_equal(dataset["position"].sel(point="B"), np.tile([4.0, 0.0], (101, 1)))


def test_errors_are_taken_at_common_times_only(dataset):
    t = np.array([0.0, 0.01, 0.0155, 0.02])  # the third lies between two steps
    truth = {"t": t, "x_P1": dataset["q"].sel(coordinate="x_P1").values[[0, 10, 15, 20]] - 0.5}
    compared = results.with_truth(dataset, truth)
    np.testing.assert_allclose(results.errors(compared)["q"].sel(coordinate="x_P1"), [0.5] * 3, rtol=1e-12)
    assert results.rmse(compared) == {"q [m]": pytest.approx(0.5)}


def test_energy_drift_counts_the_work_of_dampers(dataset):
    t = dataset.t.values
    lossy = dataset.assign(power=("step", np.full(t.shape, -2.0)), kinetic=dataset["kinetic"] - 2.0 * dataset.t)
    np.testing.assert_allclose(results.energy_drift(lossy), results.energy_drift(dataset), atol=1e-12)


def test_a_motion_near_a_singular_pose_says_when(dataset):
    assert "warning" not in simulation_summary(dataset)
    margins = dataset["rank_margin"].values.copy()
    margins[3] = 0.004
    near = dataset.assign(rank_margin=("step", margins, dataset["rank_margin"].attrs))
    said = simulation_summary(near)
    assert f"least 0.004, at t = {float(dataset.t[3]):g} s" in said
    assert f"nearly singular at t = {float(dataset.t[3]):g} s, where distance of body" in said


def test_a_batch_has_members(simulation, dataset, tmp_path):
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), simulation)
    results.save(batch, tmp_path / "batch.nc")
    read = results.load_results(tmp_path / "batch.nc")
    assert read["q"].dims == ("member", "step", "coordinate") and read["parameters"].dims == ("member", "parameter")
    np.testing.assert_array_equal(read.isel(member=1)["position"], dataset["position"])


def test_a_batch_of_driven_motions_has_members(driven, tmp_path):
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), driven)
    results.save(batch, tmp_path / "batch.nc")
    read = results.load_results(tmp_path / "batch.nc")
    assert read["forces"].dims == ("member", "step", "actuator") and read["sigma"].dims == ("member", "desired")
    xr.testing.assert_equal(read.isel(member=1), results.to_dataset(driven).drop_vars("rank_margin"))  # of single ones


def test_a_motion_that_nothing_desires_has_forces_only(driven, tmp_path):
    empty = {name: getattr(driven, name)[..., :0] for name in ("tracking_error", "missing", "jumps", "sigma")}
    results.save(dataclasses.replace(driven, followed=(), **empty), tmp_path / "out.nc")
    read = results.load_results(tmp_path / "out.nc")
    assert "desired" not in read.dims and "tracking_error" not in read
    np.testing.assert_array_equal(read["forces"], driven.forces)


def test_a_file_that_cannot_be_written_is_reported(dataset, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(fgmbs.ArgumentError, match="cannot write .*file/out.nc.*(Not a directory|File exists)"):
        results.write(dataset, tmp_path / "file" / "out.nc")


def test_writing_keeps_the_old_file_when_it_fails(tmp_path):
    path = tmp_path / "out.nc"
    path.write_text("old")
    with pytest.raises(RuntimeError), results.written_whole(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_of_results_is_reported(tmp_path):
    with pytest.raises(fgmbs.ArgumentError, match="expected a netCDF file of results; found '.*none.nc'"):
        results.load_results(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("no netCDF")
    with pytest.raises(fgmbs.ArgumentError, match="expected a netCDF file of results; found '.*text.nc'"):
        results.load_results(tmp_path / "text.nc")
