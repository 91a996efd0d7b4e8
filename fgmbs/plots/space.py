"""Mechanisms in space: links as lines between their joints, with what their description gives them of solids."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from fgmbs.io.robots.stored import of_json
from fgmbs.mechanisms.tree.description import RobotDescription
from fgmbs.plots.bodies import known_color
from fgmbs.plots.solids import faces_of
from fgmbs.plots.style import COLOURS

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE, _SOLID = "#333333", "#9AA5B1"
_LEAST = 0.35
"""Least width of the axes, relative to their largest: also a motion in a plane is drawn in space."""
_TRIAD = 0.12
"""Length of the axes of the ground, relative to the largest width."""
_MOST_PATHS, _MOST_STEPS = 6, 300
_TURNED, _RAISED = -60, 20
"""Where it is seen from [°]."""


class Solid(NamedTuple):
    """A surface on a link."""

    point: int
    """Which of the points is the origin of the link."""
    faces: np.ndarray
    color: str


class Scene(NamedTuple):
    """How a mechanism is drawn."""

    lines: np.ndarray
    """Pairs of points that a line joins."""
    ends: list[tuple[int, np.ndarray]]
    """Places on links that a line joins with their origins: where loops are closed, and what has no other line."""
    solids: list[Solid]
    joints: list[int]
    """Points that are marked."""
    up: np.ndarray


def scene_of(dataset: "xr.Dataset") -> Scene:
    """How the mechanism of a dataset in space is drawn."""
    bodies: dict[str, list[int]] = json.loads(dataset.attrs["bodies"])
    lines = [(first, other) for first, *others in filter(None, bodies.values()) for other in others]
    ends, solids, joints = [], [], list(range(dataset.sizes["point"]))
    if "robot" in dataset.attrs:
        description = of_json(dataset.attrs["robot"])
        ends = _ends(description, bodies)
        solids = _solids(description, bodies)
        joints = [points[0] for points in bodies.values()]
    return Scene(np.array(lines, int).reshape(-1, 2), ends, solids, joints, _up(dataset))


def _ends(description: RobotDescription, bodies: dict[str, list[int]]) -> list[tuple[int, np.ndarray]]:
    closed = [end for c in description.closures for end in ((c.link_a, c.pose_a.xyz), (c.link_b, c.pose_b.xyz))]
    busy = {link for link, _ in closed} | {link for link, points in bodies.items() if len(points) > 1}
    alone = [(link.name, link.center) for link in description.links if link.name not in busy]
    return [(bodies[link][0], np.array(place)) for link, place in closed + alone if np.any(place)]


def _solids(description: RobotDescription, bodies: dict[str, list[int]]) -> list[Solid]:
    found = []
    for link in description.links:
        for shape in link.shapes:
            faces = faces_of(shape, description.source)
            if faces is not None:
                color = known_color(link.name, shape.color) if shape.color else _SOLID
                found.append(Solid(bodies[link.name][0], faces, color))
    return found


def _up(dataset: "xr.Dataset") -> np.ndarray:
    """Against gravity; z, where the mechanism does not tell, or without gravity."""
    names = dataset.parameter.values.tolist()
    gravity = [f"gravity.{x}" for x in "xyz"]
    if not set(gravity) <= set(names):
        return np.array([0.0, 0.0, 1.0])
    up = -dataset["parameters"].values[[names.index(name) for name in gravity]]
    return up if np.any(up) else np.array([0.0, 0.0, 1.0])


def traced(dataset: "xr.Dataset") -> list[int]:
    """The points whose paths are drawn: those at the ends of chains, at most six, that move farthest."""
    bodies = [points for points in json.loads(dataset.attrs["bodies"]).values() if points]
    carriers = {first for first, *others in bodies if others}
    ends = sorted({point for points in bodies for point in points} - carriers)
    position = dataset["position"].values
    length = np.nansum(np.linalg.norm(np.diff(position, axis=0), axis=-1), axis=0)
    ends = [point for point in ends if length[point] > 1e-6 * max(length.max(), 1e-300)]
    return sorted(sorted(ends, key=lambda point: -length[point])[:_MOST_PATHS])


def stage(figure: "Figure", dataset: "xr.Dataset") -> tuple["Axes", Callable[[int, float], list]]:
    """Axes in metres that hold the whole motion, up against gravity, with the ground; and what draws a step there."""
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_subplot(projection="3d", computed_zorder=False)
    scene = scene_of(dataset)
    position = dataset["position"].values
    turned = dataset["orientation"].values if "orientation" in dataset else None
    low, high = _extent(scene, position, turned)
    widest = max(*(high - low), 1e-9)
    margin = np.maximum(0.04 * widest, (_LEAST * widest - (high - low)) / 2)
    low, high = low - margin, high + margin
    vertical = int(np.argmax(np.abs(scene.up)))
    limits = np.stack([low, high], axis=1)
    if scene.up[vertical] < 0:
        limits[vertical] = limits[vertical, ::-1]
    axes.set(xlim=limits[0], ylim=limits[1], zlim=limits[2], xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
    axes.set_box_aspect(high - low)
    axes.view_init(elev=_RAISED, azim=_TURNED, vertical_axis="xyz"[vertical])
    for axis, width in zip((axes.xaxis, axes.yaxis, axes.zaxis), high - low, strict=True):
        axis.labelpad = 8.0
        axis.set_major_locator(MaxNLocator(max(2, round(5 * width / np.max(high - low)))))
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
    ground = position[0, np.flatnonzero(dataset["fixed"].values)[:1]].reshape(-1, 3)
    for origin in ground if len(ground) else np.zeros((1, 3)):
        for k in range(3):
            tip = origin + _TRIAD * widest * np.eye(3)[k]
            axes.plot(
                *np.stack([origin, tip], axis=1), color=(COLOURS[1], COLOURS[2], COLOURS[0])[k], linewidth=2.0, zorder=6
            )
    return axes, lambda step, alpha: _draw(axes, scene, position[step], None if turned is None else turned[step], alpha)


def _extent(scene: Scene, position: np.ndarray, turned: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest coordinates of all that is drawn, looked for at some hundred steps."""
    every = slice(None, None, -(-len(position) // _MOST_STEPS))
    drawn = [position[every][:, sorted({*scene.joints, *scene.lines.ravel()})]]
    if turned is not None:
        corners = [(point, place[None]) for point, place in scene.ends]
        corners += [(solid.point, _corners(solid.faces)) for solid in scene.solids]
        for point, places in corners:
            R = _rotations(turned[every, point]).as_matrix()
            drawn.append(position[every, [point]][:, None] + places @ np.swapaxes(R, 1, 2))
    found = np.concatenate([part.reshape(-1, 3) for part in drawn])
    found = found[np.isfinite(found).all(axis=1)]
    return found.min(axis=0), found.max(axis=0)


def _corners(faces: np.ndarray) -> np.ndarray:
    """The eight corners (8, 3) of the box about some faces."""
    sides = np.stack([faces.min(axis=(0, 1)), faces.max(axis=(0, 1))])
    return np.stack([grid.ravel() for grid in np.meshgrid(*sides.T, indexing="ij")], axis=1)


def _rotations(quaternions: np.ndarray) -> Rotation:
    """Rotations of quaternions (…, 4) with w first; none where they are no numbers."""
    safe = np.where(np.isfinite(quaternions).all(axis=-1, keepdims=True), quaternions, [1.0, 0.0, 0.0, 0.0])
    return Rotation.from_quat(safe, scalar_first=True)


def _draw(axes: "Axes", scene: Scene, points: np.ndarray, turned: np.ndarray | None, alpha: float) -> list:
    """Draws one pose; a faded one by its lines alone."""
    from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

    if not np.isfinite(points).all():
        return []
    lines = list(points[scene.lines])
    if turned is not None:
        lines += [points[k] + np.stack([0 * place, _rotations(turned[k]).apply(place)]) for k, place in scene.ends]
    whole = alpha == 1.0
    look = {"colors": _LINE, "linewidths": 3.0 if whole else 1.5, "alpha": min(1.0, 1.5 * alpha), "zorder": 2 + whole}
    artists = [axes.add_collection3d(Line3DCollection(lines, **look))] if lines else []
    if whole and scene.solids and turned is not None:
        faces = [points[s.point] + s.faces @ _rotations(turned[s.point]).as_matrix().T for s in scene.solids]
        colors = np.repeat([s.color for s in scene.solids], [len(s.faces) for s in scene.solids])
        surface = Poly3DCollection(np.concatenate(faces), facecolors=colors, alpha=0.6, shade=True, zorder=4)
        artists.append(axes.add_collection3d(surface))
    if whole:
        dots = {"color": "white", "markeredgecolor": _LINE, "markersize": 4, "linewidth": 0, "zorder": 5}
        artists += axes.plot(*points[scene.joints].T, "o", **dots)
    return artists
