"""Figures of results. All they show is in the dataset, so that each can be drawn again from its file."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fgmbs.plots.driven import desired_points as desired_points
from fgmbs.plots.driven import force_figure as force_figure
from fgmbs.plots.driven import joint_figure as joint_figure
from fgmbs.plots.driven import path_figure as path_figure
from fgmbs.plots.driven import power_figure as power_figure
from fgmbs.plots.driven import tracking_figure as tracking_figure
from fgmbs.plots.estimates import acceleration_figure as acceleration_figure
from fgmbs.plots.estimates import coordinate_figure as coordinate_figure
from fgmbs.plots.estimates import unknown_force_figure as unknown_force_figure
from fgmbs.plots.estimates import velocity_figure as velocity_figure
from fgmbs.plots.motion import constraint_figure as constraint_figure
from fgmbs.plots.motion import energy_figure as energy_figure
from fgmbs.plots.motion import error_figure as error_figure
from fgmbs.plots.motion import motion_figure as motion_figure
from fgmbs.plots.page import report_page as report_page
from fgmbs.plots.poses import animation as animation
from fgmbs.plots.poses import can_be_drawn as can_be_drawn
from fgmbs.plots.poses import mechanism_figure as mechanism_figure
from fgmbs.plots.sensors import residual_figure as residual_figure
from fgmbs.plots.sensors import sensor_figure as sensor_figure
from fgmbs.plots.style import COLOURS as COLOURS
from fgmbs.plots.style import require_matplotlib as require_matplotlib
from fgmbs.problems.identify.report import identification_sections
from fgmbs.results import is_estimate, written_whole

if TYPE_CHECKING:
    import xarray as xr

    from fgmbs.problems.identify.result import Identification

_DOTS_PER_INCH = 150


def save_all(dataset: "xr.Dataset", folder: str | Path, animate: bool = False) -> list[Path]:
    """Draws all figures of a dataset into a folder and returns their files; of an estimate also `report.html`.

    Where there are no positions of points, drawings and animations of the mechanism are left out.

    Args:
        animate: Also draw the animation.
    """
    estimate = is_estimate(dataset)
    # The poses of other recordings would be tied to those of the first.
    drawn = dataset.isel(step=dataset.recording.values == 0) if estimate else dataset
    paths = []
    for name, draw in (_of_estimate(dataset) if estimate else _of_motion(dataset)).items():
        paths.append(Path(folder) / name)
        with written_whole(paths[-1]) as temporary:
            shown = drawn if draw is mechanism_figure else dataset
            draw(shown).savefig(temporary, dpi=_DOTS_PER_INCH, bbox_inches="tight")
    if estimate:
        paths.append(_page(report_page(dataset, _pictures(paths)), folder))
    if animate and can_be_drawn(dataset):
        paths.append(Path(folder) / "animation.gif")
        animation(drawn, paths[-1])
    return paths


def save_identification(fit: "Identification", dataset: "xr.Dataset", folder: str | Path) -> list[Path]:
    """Draws the motion that was found with parameters into a folder and returns the files; also `report.html`.

    Args:
        fit: The identification …
        dataset: … and the dataset of its `states`.
        folder: Where.
    """
    paths = save_all(dataset, folder)[:-1]
    page = report_page(dataset, _pictures(paths), identification_sections(fit), "Identification")
    return [*paths, _page(page, folder)]


def _pictures(paths: list[Path]) -> dict[str, bytes]:
    return {path.stem: path.read_bytes() for path in paths}


def _page(text: str, folder: str | Path) -> Path:
    path = Path(folder) / "report.html"
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _of_motion(dataset: "xr.Dataset") -> dict[str, Callable]:
    """Figures of simulations and driven motions."""
    functions = {"mechanism.png": mechanism_figure} if can_be_drawn(dataset) else {}
    functions["motion.png"] = motion_figure
    if dataset.sizes["constraint"]:
        functions["constraints.png"] = constraint_figure
    functions["energy.png"] = energy_figure
    if "truth_q" in dataset:
        functions["errors.png"] = error_figure
    if "forces" in dataset:
        functions |= {"forces.png": force_figure, "power.png": power_figure}
    if "desired" in dataset.dims:
        functions["tracking.png"] = tracking_figure
        if desired_points(dataset):
            functions["path.png"] = path_figure
    if "joint_forces" in dataset:
        functions["joints.png"] = joint_figure
    return functions


def _of_estimate(dataset: "xr.Dataset") -> dict[str, Callable]:
    functions = {
        "coordinates.png": coordinate_figure,
        "velocities.png": velocity_figure,
        "accelerations.png": acceleration_figure,
    }
    if "forces" in dataset:
        functions["forces.png"] = unknown_force_figure
    functions |= {"sensors.png": sensor_figure, "residuals.png": residual_figure}
    if "joint_forces" in dataset:
        functions["joints.png"] = joint_figure
    if can_be_drawn(dataset):
        functions["mechanism.png"] = mechanism_figure
    return functions
