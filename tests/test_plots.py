"""Figures open, have units, and show the data they were given."""

import sys

import numpy as np
import pytest
from PIL import Image

import fgmbs
from fgmbs import plots, results


@pytest.fixture(scope="module")
def dataset(configs):
    simulation = fgmbs.simulate(fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml"), 0.1, 1e-3)
    return results.to_dataset(simulation)


def texts(figure):
    return [axes.get_xlabel() for axes in figure.axes], [axes.get_ylabel() for axes in figure.axes]


def lines(axes):
    return {line.get_label(): line.get_ydata() for line in axes.lines}


def test_motion_shows_every_coordinate_with_its_unit(dataset):
    figure = plots.motion_figure(dataset)
    x, y = texts(figure)
    assert x == ["time [s]"] * 4
    assert y == ["position [m]", "velocity [m/s]", "angle [rad]", "angular velocity [rad/s]"]
    shown = lines(figure.axes[0]) | lines(figure.axes[2])
    for name in dataset.coordinate.values:
        np.testing.assert_array_equal(shown[name], dataset["q"].sel(coordinate=name))


def test_mechanism_shows_the_paths_of_its_moving_points(dataset):
    axes = plots.mechanism_figure(dataset).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [m]", "y [m]")
    shown = lines(axes)
    assert {label for label in shown if label.startswith("path")} == {"path of P1", "path of P2"}
    np.testing.assert_array_equal(shown["path of P2"], dataset["position"].sel(point="P2", axis="y"))


def test_constraints_are_shown_on_a_logarithmic_axis(dataset):
    axes = plots.constraint_figure(dataset).axes[0]
    assert axes.get_yscale() == "log" and "norm" in axes.get_ylabel()
    norm = dataset["constraint_norm"].values
    np.testing.assert_array_equal(axes.lines[0].get_ydata()[norm > 0], norm[norm > 0])


def test_energy_shows_kinetic_potential_total_and_drift(dataset):
    upper, lower = plots.energy_figure(dataset).axes
    assert upper.get_ylabel() == "energy [J]" and lower.get_ylabel() == "drift [J]"
    shown = lines(upper)
    assert list(shown) == ["kinetic", "potential, from the start", "total"]
    np.testing.assert_allclose(shown["total"], shown["kinetic"] + shown["potential, from the start"])
    np.testing.assert_array_equal(lower.lines[0].get_ydata(), results.energy_drift(dataset))


def test_errors_are_shown_in_thousandths(dataset):
    truth = {"t": dataset.t.values, "x_P1": dataset["q"].sel(coordinate="x_P1").values - 1e-3}
    figure = plots.error_figure(results.with_truth(dataset, truth))
    assert texts(figure)[1] == ["error of coordinates [mm]", "error of velocities [mm/s]"]
    np.testing.assert_allclose(lines(figure.axes[0])["x_P1"], 1.0)


def test_all_figures_can_be_drawn_from_the_file(dataset, tmp_path):
    results.write(dataset, tmp_path / "results.nc")
    paths = plots.save_all(results.load_results(tmp_path / "results.nc"), tmp_path, animate=True)
    names = ["mechanism.png", "motion.png", "constraints.png", "energy.png", "animation.gif"]
    assert [path.name for path in paths] == names
    for path in paths:
        with Image.open(path) as image:
            assert min(image.size) > 300
            assert path.suffix != ".gif" or image.n_frames >= 2


def test_a_batch_is_refused_with_advice(dataset):
    batch = dataset.expand_dims("member")
    with pytest.raises(fgmbs.ArgumentError, match=r"found a batch; take one: dataset.isel\(member=0\)"):
        plots.motion_figure(batch.assign_coords(t=dataset.t.expand_dims("member")))


def test_steps_that_are_no_numbers_do_not_stop_the_figures(dataset, tmp_path):
    broken = dataset.copy(deep=True)
    for name in ("q", "dq", "position", "kinetic", "potential", "constraint_norm", "velocity_constraint_norm"):
        broken[name][50:] = np.nan
    assert len(plots.save_all(broken, tmp_path, animate=True)) == 5


def test_the_style_of_the_user_stays(dataset):
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.energy_figure(dataset)
    assert dict(matplotlib.rcParams) == before


def test_a_missing_library_is_named_with_its_extra(dataset, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(fgmbs.ArgumentError, match=r'matplotlib, which is not installed: pip install "fgmbs\[plots\]"'):
        plots.energy_figure(dataset)
