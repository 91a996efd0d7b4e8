"""Figures of robots: drawn in space, from the file of their results; many joints stay readable."""

import dataclasses
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from PIL import Image

import fgmbs
from fgmbs import cli, plots, results, robots
from fgmbs.mechanisms.tree.description import Shape
from fgmbs.plots import space
from fgmbs.plots.solids import faces_of
from fgmbs.plots.style import new_figure, plot_columns


def arm(*shapes):
    return robots.robot(
        robots.link("upper", mass=2.0, center=(0, 0, 0.2), inertia=(0.03, 0.03, 0.002), shapes=shapes),
        robots.link("fore", mass=1.0, center=(0, 0, 0.15), inertia=(0.01, 0.01, 0.001)),
        robots.revolute("shoulder", "world", "upper", axis=(0, 1, 0), xyz=(0.1, 0.0, 0.5)),
        robots.revolute("elbow", "upper", "fore", axis=(0, 1, 0), xyz=(0, 0, 0.4)),
        gravity=(0, 9.81, 0),
    )


@pytest.fixture(scope="module")
def folder(configs, tmp_path_factory):
    """What the shipped experiment writes, cut short."""
    folder = tmp_path_factory.mktemp("scara")
    file = str(configs / "experiments" / "scara_forward.yaml")
    assert cli.main(["run", file, "--duration", "0.1", "--dt", "5e-3", "--out", str(folder), "--animate"]) == 0
    return folder


@pytest.fixture(scope="module")
def dataset(folder):
    return results.load_results(folder / "results.nc")


def still(mechanism, q):
    """What the dataset of a robot in some poses holds to draw it."""
    q = jnp.asarray(q, float)
    variables, coordinates, attrs = results.contents.of_mechanism(mechanism, q, jnp.zeros(len(q)), ("step",))
    return xr.Dataset(variables, {"t": ("step", np.arange(len(q)) * 0.1), **coordinates}, attrs)


def segments(axes, alpha=1.0):
    """The lines of links in the pose that is not faded."""
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    found = [c for c in axes.collections if isinstance(c, Line3DCollection) and c.get_alpha() == alpha]
    return np.array(found[0]._segments3d)


def test_the_shipped_experiment_writes_results_and_figures(folder):
    names = {"results.nc", "mechanism.png", "motion.png", "energy.png", "animation.gif"}
    assert {path.name for path in folder.iterdir()} == names  # nothing has constraints
    with Image.open(folder / "animation.gif") as image:
        assert image.n_frames == 3


def test_the_robot_comes_back_from_its_file(dataset, configs):
    robot, back = fgmbs.load(configs / "robots" / "scara.yaml"), results.mechanism_of(dataset)
    assert Path(back.description.source).samefile(robot.description.source)
    assert dataclasses.replace(back.description, source=robot.description.source) == robot.description
    assert back.topology == robot.topology
    for name, value in vars(robot.parameters).items():
        np.testing.assert_array_equal(getattr(back.parameters, name), value)
    heavier = dataset.assign(parameters=dataset["parameters"] + 1.0)
    np.testing.assert_array_equal(results.mechanism_of(heavier).parameters.masses, robot.parameters.masses + 1.0)


def test_positions_and_orientations_are_those_of_the_frames(dataset, configs):
    robot = fgmbs.load(configs / "robots" / "scara.yaml")
    q = jnp.asarray(dataset["q"].values[-1])
    for name in ("forearm", "tool"):
        R, p = robot.body_frame(name, q, 0.0)
        np.testing.assert_allclose(dataset["position"].sel(point=name)[-1], p, atol=1e-14)
        turned = space._rotations(dataset["orientation"].sel(point=name).values[-1]).as_matrix()
        np.testing.assert_allclose(turned, R, atol=1e-14)


def test_links_are_lines_between_joints_and_the_tool_draws_its_path(dataset):
    axes = plots.mechanism_figure(dataset).axes[0]
    assert (axes.get_xlabel(), axes.get_zlabel()) == ("x [m]", "z [m]")
    at = {str(name): p for name, p in zip(dataset.point.values, dataset["position"].values[0], strict=True)}
    chain = ["world", "upper_arm", "forearm", "spindle", "flange", "tool"]
    expected = [[at[a], at[b]] for a, b in zip(chain, chain[1:], strict=False)]
    np.testing.assert_allclose(segments(axes), expected)
    (path,) = [line for line in axes.lines if str(line.get_label()).startswith("path")]
    assert path.get_label() == "path of tool"
    np.testing.assert_array_equal(np.array(path.get_data_3d()).T, dataset["position"].sel(point="tool"))


def test_axes_have_one_scale_and_stand_against_gravity():
    axes = plots.mechanism_figure(still(arm(), [[0.3, 0.4], [0.5, 0.6]])).axes[0]
    limits = np.array([axes.get_xlim(), axes.get_ylim(), axes.get_zlim()])
    widths = limits[:, 1] - limits[:, 0]
    np.testing.assert_allclose(np.abs(widths) / axes._box_aspect, abs(widths[0]) / axes._box_aspect[0])
    assert widths[1] < 0 < widths[0] and axes._vertical_axis == 1  # gravity is along y


def test_solids_are_where_the_link_is():
    box = robots.box((0.1, 0.06, 0.4), xyz=(0, 0, 0.2), color="tomato")
    dataset = still(arm(box), [[np.pi / 2, 0.0], [0.0, 0.0]])
    axes = plots.mechanism_figure(dataset).axes[0]
    (surface,) = [c for c in axes.collections if type(c).__name__ == "Poly3DCollection"]
    corners = np.array(surface._faces)[..., :3].reshape(-1, 3)
    # Its length lies along x, its edge of 0.1 m along z.
    np.testing.assert_allclose([corners.min(0), corners.max(0)], [[0.1, -0.03, 0.45], [0.5, 0.03, 0.55]], atol=1e-12)
    np.testing.assert_allclose(segments(axes)[-1], [[0.5, 0, 0.5], [0.65, 0, 0.5]], atol=1e-12)  # to its centre


@pytest.mark.parametrize(
    ("shape", "width", "area"),
    [
        (robots.box((1, 2, 3)), (1, 2, 3), 22),
        (robots.box((1, 2, 3), rpy=(np.pi / 2, 0, 0)), (1, 3, 2), 22),
        (robots.sphere(1.0), (2, 2, 2), 4 * np.pi),
        (robots.cylinder(1.0, 3.0), (2, 2, 3), 8 * np.pi),
        (Shape("capsule", size=(1.0, 3.0)), (2, 2, 5), 10 * np.pi),
    ],
)
def test_faces_have_the_size_of_their_solid(shape, width, area):
    faces = faces_of(shape, "")
    np.testing.assert_allclose(np.ptp(faces.reshape(-1, 3), axis=0), width, atol=1e-12)
    crossed = np.cross(faces[:, 2] - faces[:, 0], faces[:, 3] - faces[:, 1])
    np.testing.assert_allclose(np.linalg.norm(crossed, axis=1).sum() / 2, area, rtol=0.05)


def test_meshes_are_drawn_where_they_are(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.stl")
    source, scale = str(tmp_path / "robot.urdf"), (2.0, 1.0, 1.0)
    faces = faces_of(Shape("mesh", size=scale, file="box.stl"), source)
    np.testing.assert_allclose(np.ptp(faces.reshape(-1, 3), axis=0), [2, 2, 3])
    (tmp_path / "broken.stl").write_text("no mesh")
    for file in ("none.stl", "package://a/box.stl", "broken.stl", ""):
        assert faces_of(Shape("mesh", size=scale, file=file), source) is None


def test_closures_and_ends_are_drawn():
    closing = robots.closure("revolute", "pin", "upper", "fore", xyz_a=(0.1, 0, 0), xyz_b=(0, 0, 0.3), axis=(0, 1, 0))
    parts = arm().description
    looped = robots.robot(*parts.links[1:], *parts.joints, closing)
    lines = segments(plots.mechanism_figure(still(looped, [[0.0, 0.0], [0.1, 0.0]])).axes[0])
    ends = {tuple(np.round(end, 12)) for _, end in lines}
    assert {(0.2, 0.0, 0.5), (0.1, 0.0, 1.2)} <= ends


def test_of_many_columns_the_dozen_that_varies_most_is_told_apart():
    t = np.linspace(0, 1, 50)
    values = np.sin(np.outer(t, np.arange(43))) * np.where(np.arange(43) % 3, 1.0, 5.0)
    axes = new_figure((4.0, 3.0)).add_subplot()
    plot_columns(axes, t, values, np.array([f"q{k}" for k in range(43)]))
    named = [str(line.get_label()) for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert len(axes.lines) == 43 and len(named) == 13 and named[0] == "31 others"
    assert all(int(name[1:]) % 3 == 0 for name in named[1:])
    values[:, 7] = np.nan
    plot_columns(axes, t, values, np.array([f"q{k}" for k in range(43)]))


def test_points_of_no_body_are_drawn():
    dataset = still(arm(), [[0.0, 0.0], [0.5, 0.0]]).drop_vars("orientation")
    dataset.attrs = {"name": "points", "bodies": "{}"}
    axes = plots.mechanism_figure(dataset).axes[0]
    dots = np.array(axes.lines[-1].get_data_3d()).T
    np.testing.assert_array_equal(dots, dataset["position"][0])
