"""Surfaces of what is drawn on a link: faces of four corners each, seen from the link; of meshes if they are there."""

import importlib.util
from pathlib import Path

import numpy as np

from fgmbs.mechanisms.tree.description import Shape

_AROUND, _ALONG = 16, 5
"""Corners around a round solid, and along a quarter of a great circle."""
_MOST_FACES = 1500
"""Faces of a mesh up to which it is drawn as it is; a finer one by its convex hull."""


def faces_of(shape: Shape, source: str) -> np.ndarray | None:
    """Corners (faces, 4, 3) of a shape; None of a mesh that cannot be read.

    Args:
        source: The file that names the mesh, which may be relative to it.
    """
    faces = _mesh(shape, source) if shape.kind == "mesh" else _solid(shape)
    return None if faces is None else faces @ np.array(shape.pose.rotation).T + np.array(shape.pose.xyz)


def _solid(shape: Shape) -> np.ndarray:
    """A box, sphere, cylinder or capsule about the origin, its axis along z."""
    quarter = np.linspace(0, np.pi / 2, _ALONG)
    match shape.kind:
        case "box":
            corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
            sides = [np.insert(corners, k, side, axis=1) for k in range(3) for side in (-1.0, 1.0)]
            return np.array(sides) * np.array(shape.size) / 2
        case "sphere":
            radius, half = shape.size[0], 0.0
        case "capsule":
            radius, half = shape.size[0], shape.size[1] / 2
        case _:
            radius, half = shape.size[0], shape.size[1] / 2
            return _revolved(np.array([0, radius, radius, 0]), np.array([-half, -half, half, half]))
    r, z = radius * np.cos(quarter), half + radius * np.sin(quarter)
    return _revolved(np.concatenate([r[::-1], r]), np.concatenate([-z[::-1], z]))


def _revolved(r: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Faces of the surface that a line turns out about the z axis."""
    angles = np.linspace(0, 2 * np.pi, _AROUND + 1)
    grid = np.stack(
        [np.outer(r, np.cos(angles)), np.outer(r, np.sin(angles)), np.outer(z, np.ones_like(angles))], axis=-1
    )
    corners = [grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1]]
    return np.stack(corners, axis=2).reshape(-1, 4, 3)


def _mesh(shape: Shape, source: str) -> np.ndarray | None:
    path = Path(source).parent / shape.file.removeprefix("file://")
    if not shape.file or not path.is_file() or importlib.util.find_spec("trimesh") is None:
        return None
    import trimesh

    try:
        mesh = trimesh.load(path, force="mesh")
        if len(mesh.faces) > _MOST_FACES:
            mesh = mesh.convex_hull
        triangles = np.asarray(mesh.triangles)
    except Exception:  # of the library, whatever is wrong with the file: it is only drawn
        return None
    if not len(triangles):
        return None
    return np.concatenate([triangles, triangles[:, 2:]], axis=1) * np.array(shape.size)
