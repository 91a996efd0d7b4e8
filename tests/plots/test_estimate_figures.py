"""Figures of estimates show what the dataset holds, with bands and units, whatever its length."""

import io

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from fgmbs import plots, results
from fgmbs.plots.timeline import Timeline, thinned, thinned_band, thinned_dots


@pytest.fixture(scope="module")
def dataset(estimate):
    return results.to_dataset(estimate)


@pytest.fixture(scope="module")
def compared(dataset, swing):
    truth = {"t": swing.t, "x_tip": swing.q[:, 0], "d_y_tip": swing.dq[:, 1], "force_y_tip": np.zeros(61)}
    return results.with_truth(dataset, truth)


@pytest.fixture(scope="module")
def two(dataset):
    """The recording and once more the same."""
    samples = [dim for dim in dataset.dims if str(dim).endswith(".sample")]
    parts = [dataset, dataset.copy(deep=True)]
    for name in ("recording", "cam.recording", "gyro.recording"):
        parts[1][name] = parts[1][name] + 1
    moved = [set(map(str, part.variables)) for part in parts][0]
    along = {dim: [name for name in moved if dim in dataset[name].dims] for dim in ("step", *samples)}
    joined = {name: xr.concat([part[name] for part in parts], dim) for dim, names in along.items() for name in names}
    rest = dataset.drop_vars([name for names in along.values() for name in names])
    return rest.assign({k: v for k, v in joined.items() if k in dataset.data_vars}).assign_coords(
        {k: v for k, v in joined.items() if k in dataset.coords}
    )


def lines(axes):
    return {line.get_label(): line for line in axes.lines}


@pytest.mark.parametrize(
    "draw, variable, label",
    [
        (plots.coordinate_figure, "q", "position [m]"),
        (plots.velocity_figure, "dq", "velocity [m/s]"),
        (plots.acceleration_figure, "ddq", "acceleration [m/s²]"),
        (plots.unknown_force_figure, "forces", "force [N]"),
    ],
)
def test_quantities_are_shown_with_their_bands(dataset, draw, variable, label):
    upper, lower = draw(dataset).axes
    assert (upper.get_ylabel(), lower.get_xlabel()) == (label, "time [s]")
    assert lower.get_ylabel() == f"σ {label[label.index('[') :]}"
    values, std = dataset[variable].values[:, -1], dataset[f"{variable}_std"].values[:, -1]
    np.testing.assert_array_equal(lines(upper)["y_tip"].get_ydata(), values)
    np.testing.assert_array_equal(lines(lower)["y_tip"].get_ydata(), std)
    edges = upper.collections[-1].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose(
        [edges.min(), edges.max()], [(values - 2 * std).min(), (values + 2 * std).max()], rtol=1e-12
    )


def test_known_values_are_shown_with_the_error(compared, swing):
    upper, lower = plots.coordinate_figure(compared).axes
    np.testing.assert_array_equal(upper.lines[-2].get_ydata(), swing.q[:, 0])  # y_tip is not known
    assert lower.get_ylabel() == "error [m]"
    np.testing.assert_allclose(
        lines(lower)["x_tip"].get_ydata(), compared["q"].values[:, 0] - swing.q[:, 0], atol=1e-15
    )
    force = plots.unknown_force_figure(compared).axes[1]
    np.testing.assert_array_equal(lines(force)["y_tip"].get_ydata(), compared["forces"].values[:, 0])


def test_sensors_show_readings_predictions_and_outliers(dataset):
    cam, gyro = plots.sensor_figure(dataset).axes
    assert (cam.get_ylabel(), gyro.get_ylabel()) == ("cam [m]", "gyro [rad/s]")
    shown = lines(cam)
    for k, row in enumerate(("cam.x", "cam.y")):
        np.testing.assert_array_equal(shown[f"read {row}"].get_ydata(), dataset["cam.measured"].values[:, k])
        np.testing.assert_array_equal(shown[f"predicted {row}"].get_ydata(), dataset["cam.predicted"].values[:, k])
    outlier = lines(gyro)["outliers: 1"]
    np.testing.assert_allclose(outlier.get_xdata(), [0.1])
    assert outlier.get_ydata() == dataset["gyro.measured"].values[20]


def test_angles_that_wrap_and_gaps_break_the_line(dataset):
    turned = dataset.copy(deep=True)
    turned["gyro.predicted"][:, 0] = np.angle(np.exp(1j * np.linspace(0, 9, 61)))
    turned["gyro.measured"].attrs["circular"] = 1
    late = turned.assign_coords({"gyro.t": turned["gyro.t"] + 0.5 * (turned["gyro.t"] > 0.2)})
    for shown, breaks in ((turned, 1), (late, 2)):
        line = lines(plots.sensor_figure(shown).axes[1])["predicted"]
        assert np.isnan(line.get_ydata()).sum() == breaks


def test_residuals_show_spikes_at_the_edge_and_the_density(dataset):
    axes = plots.residual_figure(dataset).axes
    over_time, together, spread = axes[3:]
    assert over_time.get_ylabel() == "gyro [σ]" and over_time.get_ylim() == (-6, 6)
    spike = [line for line in over_time.lines if line.get_marker() in "^v"]
    assert len(spike) == 1 and abs(spike[0].get_ydata()[0]) == 6
    (bars,) = together.collections
    r = np.delete(dataset["gyro.normalized"].values[:, 0], 20)
    r = r - r.mean()
    np.testing.assert_allclose(bars.get_segments()[0][1, 1], np.sum(r[1:] * r[:-1]) / np.sum(r**2))
    stairs = spread.patches[0].get_data()
    assert np.sum(stairs.values * np.diff(stairs.edges)) == pytest.approx(60 / 61)  # one is beyond the edge


def test_only_the_sensors_that_fit_worst_are_shown(dataset, monkeypatch):
    monkeypatch.setattr("fgmbs.plots.sensors._MOST_SENSORS", 1)
    bad = dataset.copy(deep=True)
    bad["group_chi2"][1] = 9 * bad["group_dof"][1]
    (axes,) = plots.sensor_figure(bad).axes
    assert axes.get_ylabel() == "gyro [rad/s]" and "the 1 of 2 sensors that fit worst" in axes.get_title(loc="left")


def test_recordings_stand_one_behind_the_other(two):
    line = Timeline(two)
    t = line.shown(two.t.values, two.recording.values)
    assert (
        t[0] == 0
        and t[60] == pytest.approx(0.3)
        and 0.3 < line.borders[0] < t[61]
        and np.ptp(t[61:]) == pytest.approx(0.3)
    )
    upper, lower = plots.coordinate_figure(two).axes
    assert lower.get_xlabel() == "time [s], recordings one behind the other"
    shown = lines(upper)["x_tip"].get_ydata()
    assert np.flatnonzero(np.isnan(shown)).tolist() == [61] and len(shown) == 123
    assert lines(plots.joint_figure(two).axes[0])["pivot on rod"].get_xdata().max() == t[-1]


def test_long_lines_keep_their_extremes_and_gaps():
    t = np.arange(100_001) * 1e-3
    y = np.sin(t)
    y[70_003], y[31_234] = 9.0, -9.0
    y[50_000:50_200] = np.nan
    shown_t, shown = thinned(t, y)
    assert len(shown) < 7000 and np.nanmax(shown) == 9.0 and np.nanmin(shown) == -9.0 and np.isnan(shown).any()
    assert np.all(np.diff(shown_t) > 0)
    np.testing.assert_array_equal(shown, y[np.round(shown_t * 1e3).astype(int)])
    dots_t, dots = thinned_dots(t, y)
    assert len(shown) < len(dots) < 16_000 and set(shown_t) <= set(dots_t)
    _, low, high = thinned_band(t, y - 1, y + 1)
    assert len(low) < 4000 and np.nanmin(low) == -10.0 and np.nanmax(high) == 10.0 and np.isnan(low).any()


def test_long_estimates_make_small_figures(dataset):
    place = np.arange(50_000) % 61
    long = dataset.isel(step=place).assign_coords(t=("step", 5e-3 * np.arange(50_000)))
    file = io.BytesIO()
    plots.coordinate_figure(long).savefig(file, dpi=100)
    assert file.tell() < 300_000


def test_all_figures_and_the_page_can_be_made_from_the_file(dataset, tmp_path):
    results.write(dataset.assign_attrs(notes='["<b>bold</b>"]', config='{"out": "a & b"}'), tmp_path / "results.nc")
    paths = plots.save_all(results.load_results(tmp_path / "results.nc"), tmp_path)
    names = ("coordinates", "velocities", "accelerations", "forces", "sensors", "residuals", "joints", "mechanism")
    assert [path.name for path in paths] == [*(f"{name}.png" for name in names), "report.html"]
    for path in paths[:-1]:
        with Image.open(path) as image:
            assert min(image.size) > 300
    page = paths[-1].read_text(encoding="utf-8")
    assert page.count('src="data:image/png;base64,') == len(names)
    assert "http" not in page and "<script" not in page and "<b>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page and "a &amp; b" in page and "I0: mass*length^2/3" in page
    assert f"fgmbs {dataset.attrs['fgmbs_version']}" in page and '<td class="number">1.64%</td>' in page
