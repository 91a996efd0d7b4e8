"""Joints that close loops, as constraints."""

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.tree.kernels.motion import Placed
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.kernels.vectors import product, times
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.typing import Constraints

ROWS = {
    "revolute": ("x", "y", "z", "tilt 1", "tilt 2"),
    "prismatic": ("off 1", "off 2", "turn x", "turn y", "turn z"),
    "spherical": ("x", "y", "z"),
    "fixed": ("x", "y", "z", "turn x", "turn y", "turn z"),
}
"""Names of the rows of each kind: the first are lengths, those that turn or tilt are angles near zero."""


def names(topology: TreeTopology) -> Iterator[tuple[str, bool]]:
    """(name, whether it is a length) of every row."""
    for name, kind in zip(topology.closures, topology.closure_kinds, strict=True):
        for row in ROWS[kind]:
            yield f"closure '{name}' ({row})", not row.startswith("t")


def rows(topology: TreeTopology, numbers: TreeNumbers, at: Placed) -> Constraints:
    """Φ of all closures; seen from the first of their two frames [m, rad]."""
    found = [jnp.zeros(0, at.p.dtype)]
    for k, (kind, bodies) in enumerate(zip(topology.closure_kinds, topology.closure_bodies, strict=True)):
        (R_a, p_a), (R_b, p_b) = (
            on_body(at, body, numbers.closure_turn[:, :, i, k], numbers.closure_place[:, i, k])
            for i, body in enumerate(bodies)
        )
        between, turn = R_a.T @ (p_b - p_a), R_a.T @ R_b
        axis = numbers.closure_axis[:, k] / jnp.sqrt(jnp.sum(numbers.closure_axis[:, k] ** 2))
        across = _across(axis)
        skewed = jnp.stack([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / 2
        found += {
            "revolute": [between, across @ turn @ axis],
            "prismatic": [across @ between, skewed],
            "spherical": [between],
            "fixed": [between, skewed],
        }[kind]
    return jnp.concatenate(found)


def on_body(
    at: Placed, body: int, R: Float[Array, "3 3"], p: Float[Array, "3"]
) -> tuple[Float[Array, "3 3"], Float[Array, "3"]]:
    """(rotation, origin) of a frame on a body, −1 the ground."""
    if body < 0:
        return R, p
    turn, place = at.R[..., body, None], at.p[:, body, None]
    return product(turn, R[..., None])[..., 0], (place + times(turn, p[:, None]))[:, 0]


def _across(axis: Float[Array, "3"]) -> Float[Array, "2 3"]:
    """Two unit vectors at right angles to an axis; smooth but in the direction −z."""
    x, y, z = axis
    sign = jnp.where(z >= 0, 1.0, -1.0)
    a = -1 / (sign + z)
    b = x * y * a
    return jnp.stack([jnp.stack([1 + sign * x * x * a, sign * b, -sign * x]), jnp.stack([b, sign + y * y * a, -y])])


def lengths(topology: TreeTopology) -> np.ndarray:
    """Which rows are lengths."""
    return np.array([length for _, length in names(topology)], bool)
