"""What is drawn of the bodies of a plane: a line through the points of each, or the shape that its file gives it."""

import json
import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fgmbs.arguments import close_to
from fgmbs.results import visuals_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

    from fgmbs.mechanisms.planar.visuals import Visual

_COLOR, _PLATE = "#333333", "#BBBBBB"
_MOST_STEPS = 1000
"""Steps at which the extent of a shape is looked for; in between, the margin holds it."""
_ROUND = np.stack([f(np.linspace(0, 2 * np.pi, 64, endpoint=False)) for f in (np.cos, np.sin)], axis=1)
"""Corners of a disc of radius 1."""


class Body(NamedTuple):
    """How a body is drawn."""

    points: list[int]
    color: str
    plate: str
    """Color of the inside of three points and more."""
    line: bool
    """Whether a line joins its points."""
    shapes: list[np.ndarray]
    """Corners (corners, 2) in the frame from its first to its second point [m]."""


def bodies_of(dataset: "xr.Dataset") -> list[Body]:
    """All bodies of a motion in the plane."""
    visuals = visuals_of(dataset)
    points = json.loads(dataset.attrs["bodies"])
    position = dataset["position"].values
    whole = np.isfinite(position).all(axis=(1, 2))
    start = position[np.argmax(whole)] if whole.any() else None
    return [_body(name, indices, visuals.get(name), start) for name, indices in points.items()]


def _body(name: str, points: list[int], visual: "Visual | None", start: np.ndarray | None) -> Body:
    if visual is None:
        return Body(points, _COLOR, _PLATE, True, [])
    shapes = []
    if visual.width is not None and start is not None:
        origin, axes = _frame(points, start)
        shapes.append(_around((start[points] - origin) @ axes.T, visual.width / 2))
    if visual.outline is not None:
        shapes.append(np.array(visual.outline))
    if visual.radius is not None:
        shapes.append(visual.cog + visual.radius * _ROUND)
    color = known_color(name, visual.color)
    return Body(points, color, color, visual.width is None and visual.outline is None, shapes)


def known_color(name: str, color: str) -> str:
    """A color, unless matplotlib does not know it, which should not cost the figure."""
    from matplotlib.colors import CSS4_COLORS, is_color_like

    if is_color_like(color):
        return color
    advice = close_to(color, CSS4_COLORS)
    text = f"body '{name}': it is drawn in {_COLOR}, as matplotlib knows no color '{color}'{advice}"
    warnings.warn(text, stacklevel=2)
    return _COLOR


def _around(points: np.ndarray, radius: float) -> np.ndarray:
    """Corners of the plate with round corners about some points."""
    from scipy.spatial import ConvexHull

    edge = (points[:, None] + radius * _ROUND).reshape(-1, 2)
    return edge[ConvexHull(edge).vertices]


def _frame(points: list[int], positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Origin (…, 2) and axes (…, 2, 2), as rows, of a body where all points are at some positions (…, points, 2)."""
    origin = positions[..., points[0], :]
    d = positions[..., points[1], :] - origin
    e = d / np.linalg.norm(d, axis=-1, keepdims=True)
    return origin, np.stack([e, np.stack([-e[..., 1], e[..., 0]], axis=-1)], axis=-2)


def placed(body: Body, positions: np.ndarray) -> list[np.ndarray]:
    """Corners (…, corners, 2) of the shapes of a body where all points are at some positions (…, points, 2)."""
    if not body.shapes:
        return []
    origin, axes = _frame(body.points, positions)
    return [origin[..., None, :] + shape @ axes for shape in body.shapes]


def extent(bodies: list[Body], positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest coordinates of points and shapes over the positions (steps, points, 2) of all points."""
    every = positions[:: -(-len(positions) // _MOST_STEPS)]
    drawn = [positions, *(corners for body in bodies for corners in placed(body, every))]
    drawn = np.concatenate([corners.reshape(-1, 2) for corners in drawn])
    drawn = drawn[np.isfinite(drawn).all(axis=1)]
    return drawn.min(axis=0), drawn.max(axis=0)


def draw(axes: "Axes", bodies: list[Body], positions: np.ndarray, alpha: float) -> list:
    """Draws bodies where all points are at some positions (points, 2): two points as a rod, more as a plate."""
    artists = []
    for body in bodies:
        for corners in placed(body, positions):
            inside = axes.fill(*corners.T, facecolor=body.color, edgecolor="none", alpha=0.5 * alpha, zorder=3)
            artists += inside + axes.fill(*corners.T, fill=False, edgecolor=body.color, alpha=alpha, zorder=3)
        if not body.line:
            continue
        corners = positions[body.points]
        if len(body.points) > 2:
            x, y = (corners - corners.mean(axis=0)).T
            corners = corners[np.argsort(np.arctan2(y, x))]
            artists += axes.fill(*corners.T, facecolor=body.plate, edgecolor="none", alpha=0.6 * alpha, zorder=3)
            corners = np.concatenate([corners, corners[:1]])
        artists += axes.plot(*corners.T, color=body.color, linewidth=3.0, alpha=alpha, solid_capstyle="round", zorder=3)
    return artists
