"""Figures open, have units, and show the data they were given."""

import sys

import numpy as np
import pytest
from PIL import Image

import fgmbs
from fgmbs import planar, plots, results


@pytest.fixture(scope="module")
def dataset(configs):
    simulation = fgmbs.simulate(fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml"), 0.1, 1e-3)
    return results.to_dataset(simulation)


@pytest.fixture(scope="module")
def driven(configs):
    mechanism = fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml")
    t = np.arange(101) * 5e-3
    motion = fgmbs.inverse_dynamics(mechanism, t, {"theta": 1.2 * (1 - np.cos(2 * t))}, covariance=True)
    return results.to_dataset(motion)


def texts(figure):
    return [axes.get_xlabel() for axes in figure.axes], [axes.get_ylabel() for axes in figure.axes]


def lines(axes):
    return {line.get_label(): line.get_ydata() for line in axes.lines}


def test_motion_shows_every_coordinate_with_its_unit(dataset):
    figure = plots.motion_figure(dataset)
    x, y = texts(figure)
    assert x == ["time [s]"] * 4
    assert y == ["position [m]", "angle [rad]", "velocity [m/s]", "angular velocity [rad/s]"]
    shown = lines(figure.axes[0]) | lines(figure.axes[1])
    for name in dataset.coordinate.values:
        np.testing.assert_array_equal(shown[name], dataset["q"].sel(coordinate=name))


def test_mechanism_shows_the_paths_of_its_moving_points(dataset):
    axes = plots.mechanism_figure(dataset).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [m]", "y [m]")
    shown = lines(axes)
    assert {label for label in shown if label.startswith("path")} == {"path of P1", "path of P2"}
    np.testing.assert_array_equal(shown["path of P2"], dataset["position"].sel(point="P2", axis="y"))


def drawn_bodies(axes):
    """Corners of the shapes of the pose that is not faded, by color."""
    from matplotlib.colors import to_hex

    edges = [patch for patch in axes.patches if not patch.get_fill() and patch.get_alpha() == 1]
    return {to_hex(patch.get_edgecolor()): patch.get_xy() for patch in edges}


def test_bodies_are_drawn_as_their_file_says(configs, tmp_path):
    """Also from the file of the results."""
    mechanism = fgmbs.load(configs / "mechanisms" / "slider_crank.yaml").with_parameters({"block": 0.06})
    results.write(results.to_dataset(fgmbs.simulate(mechanism, 0.1, 2e-3)), tmp_path / "results.nc")
    dataset = results.load_results(tmp_path / "results.nc")
    axes = plots.mechanism_figure(dataset).axes[0]
    shown = drawn_bodies(axes)
    assert shown.keys() == {"#d55e00", "#0072b2", "#009e73"}
    at = {str(name): p for name, p in zip(dataset.point.values, dataset["position"].values[0], strict=True)}
    corners = [[-0.01, -0.02], [0.07, -0.02], [0.07, 0.02], [-0.01, 0.02]]
    np.testing.assert_allclose(shown["#009e73"][:4], at["wrist"] + corners, atol=1e-12)
    # A plate of this width about the crank: no corner is nearer to its line, nor farther away, than the half of it.
    link = at["pin"] - at["O"]
    along = np.clip((shown["#d55e00"] - at["O"]) @ link / (link @ link), 0, 1)
    distance = np.linalg.norm(shown["#d55e00"] - at["O"] - along[:, None] * link, axis=1)
    np.testing.assert_allclose(distance, 0.01, rtol=2e-3)  # round ends of 64 corners
    (low, high), every = axes.get_ylim(), np.concatenate(list(shown.values()))
    assert low < every[:, 1].min() and high > every[:, 1].max()
    assert len(axes.lines) == 3 + 1 + 8  # paths, supports, moving points of each pose; no lines of bodies
    plots.animation(dataset, tmp_path / "animation.gif")
    with Image.open(tmp_path / "animation.gif") as image:
        assert image.n_frames >= 2


def test_a_disc_is_drawn_about_the_centre_of_mass_beside_the_line():
    def pendulum(color):
        rod = planar.body("rod", "A", "B", mass=1, I0=1, cog=("length/2", 0.1), visual={"color": color, "radius": 0.2})
        mechanism = planar.mechanism(planar.point("A", 0, 0, fixed=True), planar.point("B", 0, -1), rod)
        return plots.mechanism_figure(results.to_dataset(fgmbs.simulate(mechanism, 0.1, 1e-2))).axes[0]

    axes = pendulum("#ff8800")
    np.testing.assert_allclose(np.linalg.norm(drawn_bodies(axes)["#ff8800"] - [0.1, -0.5], axis=1), 0.2)
    assert sum(line.get_color() == "#ff8800" for line in axes.lines) == 8
    with pytest.warns(UserWarning, match="'rod': .*matplotlib knows no color 'oragne'; did you mean 'orange'"):
        assert "#333333" in drawn_bodies(pendulum("oragne"))


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
    (axes,) = plots.error_figure(results.with_truth(dataset, truth)).axes
    assert axes.get_ylabel() == "error of coordinates [mm]"
    truth |= {"d_theta": dataset["dq"].sel(velocity="theta").values - 2e-3}
    figure = plots.error_figure(results.with_truth(dataset, truth))
    assert texts(figure)[1] == ["error of coordinates [mm]", "error of velocities [mrad/s]"]
    np.testing.assert_allclose(lines(figure.axes[0])["x_P1"], 1.0)
    np.testing.assert_allclose(lines(figure.axes[1])["theta"], 2.0)


def test_forces_are_shown_with_their_band_and_deviation(driven):
    upper, lower = plots.force_figure(driven).axes
    assert upper.get_ylabel() == "torque [N·m]" and lower.get_ylabel() == "σ of torque [N·m]"
    np.testing.assert_array_equal(lines(upper)["motor"], driven["forces"][:, 0])
    (band,) = upper.collections
    sigma = np.sqrt(driven["force_covariance"].values[:, 0, 0])
    np.testing.assert_array_equal(lines(lower)["motor"], sigma)
    low, high = driven["forces"].values[:, 0] - 2 * sigma, driven["forces"].values[:, 0] + 2 * sigma
    edges = band.get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edges.min(), edges.max()], [low.min(), high.max()])


def test_known_forces_are_shown_with_the_difference(driven):
    known = {"t": driven.t.values[::2], "force_motor": driven["forces"].values[::2, 0] - 0.5}
    upper, lower = plots.force_figure(results.with_truth(driven, known)).axes
    np.testing.assert_array_equal(lines(upper)["known"], known["force_motor"])
    assert lower.get_ylabel() == "error of torque [N·m]"
    np.testing.assert_allclose(lines(lower)["motor"], 0.5)
    (axes,) = plots.force_figure(driven.drop_vars("force_covariance")).axes
    assert axes.get_xlabel() == "time [s]" and not axes.collections


def test_forces_and_torques_have_panels_of_their_own(driven):
    two = driven.drop_vars("force_covariance").isel(actuator=[0, 0])
    two = two.assign_coords(actuator=["motor", "piston"], force_unit=("actuator", ["N m", "N"]))
    assert texts(plots.force_figure(two)) == (["", "time [s]"], ["torque [N·m]", "force [N]"])


def test_tracking_shows_what_was_desired_and_the_error(driven):
    upper, lower = plots.tracking_figure(driven).axes
    assert upper.get_ylabel() == "angle [rad]" and lower.get_ylabel() == "tracking error [rad]"
    np.testing.assert_array_equal(lines(upper)["desired"], driven["desired_q"][:, 0])
    np.testing.assert_allclose(lines(upper)["theta"], driven["q"].sel(coordinate="theta"), atol=1e-15)
    np.testing.assert_array_equal(lines(lower)["theta"], driven["tracking_error"][:, 0])


def test_jumps_are_marked(driven):
    jumps = driven["jumps"].copy(deep=True)
    jumps[40] = True
    axes = plots.force_figure(driven.assign(jumps=jumps)).axes[0]
    (line,) = [line for line in axes.lines if line.get_label() == "acceleration jumps"]
    assert line.get_xdata()[0] == driven.t[40]


def as_point(dataset):
    """A dataset in which x and y of P2 are desired."""
    names = ["x_P2", "y_P2"]
    two = dataset.isel(desired=[0, 0]).assign_coords(desired=names, desired_unit=("desired", ["m", "m"]))
    error = two["tracking_error"] * 0 + 0.1
    return two.assign(desired_q=error * 0 + dataset["q"].sel(coordinate=names).values - 0.1, tracking_error=error)


def test_paths_of_desired_points_are_shown_in_the_plane(driven):
    assert plots.desired_points(driven) == {}
    dataset = as_point(driven)
    assert plots.desired_points(dataset) == {"P2": ("x_P2", "y_P2")}
    assert plots.desired_points(dataset.assign_coords(desired=["x3", "y3"])) == {"3": ("x3", "y3")}
    (axes,) = plots.path_figure(dataset).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x [m]", "y [m]")
    np.testing.assert_allclose(lines(axes)["path of P2"], driven["q"].sel(coordinate="y_P2"))
    np.testing.assert_allclose(lines(axes)["desired"], driven["q"].sel(coordinate="y_P2") - 0.1)


def test_power_shows_where_the_work_goes(driven):
    upper, lower = plots.power_figure(driven).axes
    np.testing.assert_array_equal(lines(upper)["motor"], driven["motor_power"][:, 0])
    shown = lines(lower)
    assert list(shown) == ["work of the actuators", "energy gained"]
    # The difference is the trapezoidal rule's.
    np.testing.assert_allclose(shown["work of the actuators"], shown["energy gained"], atol=2e-3)
    lossy = driven.assign(power=driven["power"] - 1.0)
    np.testing.assert_allclose(
        lines(plots.power_figure(lossy).axes[1])["work of dampers, forces"], -driven.t, atol=1e-12
    )


def test_joints_show_the_largest_forces_once(driven):
    (axes,) = plots.joint_figure(driven).axes
    shown = lines(axes)
    # Of the two bodies at a joint of two, one is shown.
    assert {name.split(" on ")[0] for name in shown} == {"A", "P1", "P2", "B"} and len(shown) == 4
    size = np.linalg.norm(driven["joint_forces"].sel(pin="crank@A"), axis=-1)
    np.testing.assert_array_equal(shown["A on crank"], size)
    peaks = [force.max() for force in shown.values()]
    assert peaks == sorted(peaks, reverse=True)


def test_all_figures_of_a_driven_motion_can_be_drawn_from_the_file(driven, tmp_path):
    results.write(as_point(driven), tmp_path / "results.nc")
    paths = plots.save_all(results.load_results(tmp_path / "results.nc"), tmp_path)
    names = ["mechanism", "motion", "constraints", "energy", "forces", "power", "tracking", "path", "joints"]
    assert [path.name for path in paths] == [f"{name}.png" for name in names]


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
