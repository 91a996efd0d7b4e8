"""Figures of results. All they show is in the dataset, so that each can be drawn again from its file."""

from pathlib import Path
from typing import TYPE_CHECKING

from fgmbs.plots.driven import desired_points as desired_points
from fgmbs.plots.driven import force_figure as force_figure
from fgmbs.plots.driven import joint_figure as joint_figure
from fgmbs.plots.driven import path_figure as path_figure
from fgmbs.plots.driven import power_figure as power_figure
from fgmbs.plots.driven import tracking_figure as tracking_figure
from fgmbs.plots.motion import constraint_figure as constraint_figure
from fgmbs.plots.motion import energy_figure as energy_figure
from fgmbs.plots.motion import error_figure as error_figure
from fgmbs.plots.motion import motion_figure as motion_figure
from fgmbs.plots.poses import animation as animation
from fgmbs.plots.poses import mechanism_figure as mechanism_figure
from fgmbs.plots.style import COLOURS as COLOURS
from fgmbs.plots.style import require_matplotlib as require_matplotlib
from fgmbs.results import written_whole

if TYPE_CHECKING:
    import xarray as xr

_DOTS_PER_INCH = 150


def save_all(dataset: "xr.Dataset", folder: str | Path, animate: bool = False) -> list[Path]:
    """Draws all figures of a dataset into a folder and returns their files.

    Args:
        animate: Also draw the animation.
    """
    functions = {
        "mechanism.png": mechanism_figure,
        "motion.png": motion_figure,
        "constraints.png": constraint_figure,
        "energy.png": energy_figure,
    }
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
    paths = []
    for name, draw in functions.items():
        paths.append(Path(folder) / name)
        with written_whole(paths[-1]) as temporary:
            draw(dataset).savefig(temporary, dpi=_DOTS_PER_INCH, bbox_inches="tight")
    if animate:
        paths.append(Path(folder) / "animation.gif")
        animation(dataset, paths[-1])
    return paths
