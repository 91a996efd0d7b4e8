"""Datasets of simulations: names, units, files."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import fgmbs
from fgmbs import results


@pytest.fixture(scope="module")
def simulation(configs):
    return fgmbs.simulate(fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml"), 0.1, 1e-3)


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
    assert read.attrs["status"].startswith("converged: ")
    assert set(read["step_status"].values) == {results.STATUSES.index("converged")}


def test_names_units_config_and_versions_stand_in_the_dataset(simulation, dataset):
    assert tuple(dataset.coordinate.values) == simulation.coordinate_names
    assert dataset.unit.values.tolist() == ["m", "m", "m", "m", "rad"]
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


def test_a_batch_has_members(simulation, dataset, tmp_path):
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), simulation)
    results.save(batch, tmp_path / "batch.nc")
    read = results.load_results(tmp_path / "batch.nc")
    assert read["q"].dims == ("member", "step", "coordinate") and read["parameters"].dims == ("member", "parameter")
    np.testing.assert_array_equal(read.isel(member=1)["position"], dataset["position"])


def test_a_file_that_cannot_be_written_is_told(dataset, tmp_path):
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


def test_what_is_no_file_of_results_is_told(tmp_path):
    with pytest.raises(fgmbs.ArgumentError, match="expected a netCDF file of results; found '.*none.nc'"):
        results.load_results(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("no netCDF")
    with pytest.raises(fgmbs.ArgumentError, match="expected a netCDF file of results; found '.*text.nc'"):
        results.load_results(tmp_path / "text.nc")
