"""Drawings of the mechanism itself."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fgmbs.errors import ArgumentError
from fgmbs.plots import space
from fgmbs.plots.bodies import Body, bodies_of, draw, extent
from fgmbs.plots.style import GREY, legend, look, new_figure, one_motion
from fgmbs.results import written_whole

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_FRAMES = 200
_FRAMES_PER_SECOND = 25
_POSES = 7
"""Poses that the drawing shows besides the first."""


def can_be_drawn(dataset: "xr.Dataset") -> bool:
    """Whether it has positions of points in the plane or in space."""
    return "position" in dataset and dataset.sizes["axis"] in (2, 3)


@one_motion
def mechanism_figure(dataset: "xr.Dataset") -> "Figure":
    """The mechanism at the start and, faded, on its way, with the paths of its points."""
    figure = new_figure((6.4, 5.6))
    axes, draw_step, moving = _stage(figure, dataset)
    position = dataset["position"].values
    for place, point in enumerate(moving):
        colour, style = look(place)
        label = f"path of {dataset.point.values[point]}"
        axes.plot(*position[:, point].T, color=colour, linestyle=style, linewidth=1.0, zorder=2, label=label)
    poses = np.linspace(0, len(position) - 1, _POSES + 1).astype(int).tolist()
    for k, step in enumerate(poses[1:]):
        draw_step(step, 0.10 + 0.10 * (k + 1) / _POSES)
    draw_step(0, 1.0)
    t = dataset.t.values
    axes.set_title(f"{dataset.attrs['name']}: pose at t = {t[0]:g} s, faded every {t[poses[1]] - t[0]:.3g} s")
    if moving:
        legend(axes)
    return figure


@one_motion
def animation(dataset: "xr.Dataset", path: str | Path) -> None:
    """Writes the motion as a GIF, in real time unless it is longer than 8 s."""
    from matplotlib.animation import FuncAnimation, PillowWriter

    figure = new_figure((5.6, 5.0))
    axes, draw_step, moving = _stage(figure, dataset)
    t, position = dataset.t.values, dataset["position"].values
    count = int(np.clip((t[-1] - t[0]) * _FRAMES_PER_SECOND + 1, 2, _MOST_FRAMES))
    drawn: list = []

    def frame(step: int):
        for artist in drawn:
            artist.remove()
        drawn[:] = draw_step(step, 1.0)
        for k, point in enumerate(moving):
            drawn.extend(axes.plot(*position[: step + 1, point].T, color=look(k)[0], linewidth=1.0, zorder=2))
        axes.set_title(f"{dataset.attrs['name']}: t = {t[step]:.2f} s")

    steps = np.linspace(0, len(t) - 1, count).astype(int).tolist()
    film = FuncAnimation(figure, frame, steps, init_func=lambda: None)
    with written_whole(Path(path)) as temporary:
        film.save(temporary, PillowWriter(fps=_FRAMES_PER_SECOND), dpi=80)


def _stage(figure: "Figure", dataset: "xr.Dataset") -> tuple["Axes", Callable[[int, float], list], list[int]]:
    """Axes that hold the whole motion, what draws a step there, and the points whose paths are drawn.

    Raises:
        ArgumentError: It cannot be drawn.
    """
    if not can_be_drawn(dataset):
        name = dataset.attrs["name"]
        raise ArgumentError(f"dataset: expected positions of points in the plane or in space; {name} has none")
    if dataset.sizes["axis"] == 3:
        return *space.stage(figure, dataset), space.traced(dataset)
    axes, bodies = _plane(figure, dataset)
    moving = np.flatnonzero(~dataset["fixed"].values).tolist()
    return axes, lambda step, alpha: _draw(axes, dataset, bodies, step, alpha), moving


def _plane(figure: "Figure", dataset: "xr.Dataset") -> tuple["Axes", list[Body]]:
    """Axes in metres that hold the whole motion, with the supports; and how its bodies are drawn."""
    axes = figure.add_subplot()
    bodies = bodies_of(dataset)
    low, high = extent(bodies, dataset["position"].values)
    margin = 0.08 * max(*(high - low), 1e-9)
    axes.set_aspect("equal")
    axes.set(xlim=(low[0] - margin, high[0] + margin), ylim=(low[1] - margin, high[1] + margin))
    axes.set(xlabel="x [m]", ylabel="y [m]")
    supports = dataset["position"].values[0, dataset["fixed"].values]
    axes.plot(*supports.T, "^", color=GREY, markersize=11, markeredgecolor="black", zorder=5, clip_on=False)
    return axes, bodies


def _draw(axes: "Axes", dataset: "xr.Dataset", bodies: list[Body], step: int, alpha: float) -> list:
    """Draws the bodies and the moving points of one pose."""
    points = dataset["position"].values[step]
    if not np.isfinite(points).all():
        return []
    moving = points[~dataset["fixed"].values]
    return draw(axes, bodies, points, alpha) + axes.plot(
        *moving.T, "o", color="white", markeredgecolor="#333333", markersize=5, alpha=alpha, zorder=4
    )
