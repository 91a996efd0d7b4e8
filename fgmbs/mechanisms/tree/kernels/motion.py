"""Where the bodies of a tree are and how they move, seen from the ground.

Twists and wrenches are pairs [angular; linear] of vectors along the axes of the ground. Their linear part belongs to
one point: the origin of the ground, or of the floating body that all hangs on, so that rounding does not grow with the
distance that a robot has gone. Tangents of rotations are seen from the body (right tangents).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.kernels.vectors import Matrices, Vectors, cross, of_quaternion, product, times
from fgmbs.mechanisms.tree.topology import SIZES, TURNING, TreeTopology
from fgmbs.typing import Coordinates, Velocities


class Placed(NamedTuple):
    """Bodies in a configuration."""

    R: Matrices
    p: Vectors
    """Origins [m]."""


class Columns(NamedTuple):
    """What each column moves its body by, per unit: an angular velocity and the velocity of the point."""

    w: Float[Array, "3 columns"]
    v: Float[Array, "3 columns"]


class Moving(NamedTuple):
    """A motion of all bodies: twists, or their rates."""

    w: Vectors
    v: Vectors

    @property
    def stacked(self) -> Float[Array, "6 bodies"]:
        return jnp.concatenate([self.w, self.v])


def taken(x: Float[Array, "*rows count"], places: np.ndarray) -> Float[Array, "*rows places"]:
    """Entries along the last axis, left as they are where they are all in their turn."""
    return x if np.array_equal(places, np.arange(x.shape[-1])) else x[..., places]


def joint_coordinates(topology: TreeTopology, numbers: TreeNumbers, q: Coordinates) -> Float[Array, " joints"]:
    """The coordinate of every joint that has one; of others their first."""
    q = q if topology.names(velocities=False) else jnp.zeros(1, q.dtype)  # of fixed joints any will do
    x = taken(q, topology.starts[0])
    return x * numbers.multiplier + numbers.offset if topology.has_followers else x


def column_rates(topology: TreeTopology, numbers: TreeNumbers, dq: Velocities) -> Float[Array, " columns"]:
    """The rate of every column."""
    rates = taken(dq, topology.velocity_of_column)
    return rates * numbers.scale if topology.has_followers else rates


def gathered(topology: TreeTopology, numbers: TreeNumbers, x: Float[Array, "*rows columns"]) -> Array:
    """What columns have, as what velocities have: forces of followers act on their leaders."""
    if not topology.has_followers:
        return x
    to = np.zeros((len(topology.columns), len(topology.names(True))))
    to[np.arange(len(to)), topology.velocity_of_column] = 1
    return (x * numbers.scale) @ jnp.asarray(to, x.dtype)


def placed(topology: TreeTopology, numbers: TreeNumbers, q: Coordinates, relative: bool = False) -> Placed:
    """All bodies; `relative` to the floating body that all hangs on, if there is one, but not turned."""
    x = joint_coordinates(topology, numbers, q)
    turn = numbers.A + numbers.B * jnp.sin(x) + numbers.C * jnp.cos(x)
    shift = numbers.place + numbers.slide * x
    turns, shifts = {}, {}
    for j, kind in enumerate(topology.kinds):
        if kind not in TURNING:
            continue
        start, fixed, place = topology.starts[0][j], numbers.A[..., j : j + 1], numbers.place[:, j : j + 1]
        at = q[start : start + SIZES[kind][0], None]
        turns[j] = product(fixed, of_quaternion(at[-4:]))
        shifts[j] = place if kind == "spherical" else place + times(fixed, at[:3])
    if turns and topology.floats and relative:
        shifts[0] = jnp.zeros_like(shifts[0])
    place_in_level: dict[int, int] = {}
    parts, order = [], [k for level in topology.levels for k in level]
    for level in topology.levels:
        own = np.array(level)
        R, p = taken(turn, own), taken(shift, own)
        for i, k in enumerate(level):
            if k in turns:
                R = jnp.concatenate([R[..., :i], turns[k], R[..., i + 1 :]], axis=-1)
                p = jnp.concatenate([p[:, :i], shifts[k], p[:, i + 1 :]], axis=-1)
        if parts:
            before = np.array([place_in_level[topology.parents[k]] for k in level])
            R_parent, p_parent = taken(parts[-1][0], before), taken(parts[-1][1], before)
            R, p = product(R_parent, R), p_parent + times(R_parent, p)
        parts.append((R, p))
        place_in_level = {k: i for i, k in enumerate(level)}
    back = np.argsort(order)
    R, p = (jnp.concatenate(x, axis=-1) for x in zip(*parts, strict=True)) if parts else (turn, shift)
    return Placed(taken(R, back), taken(p, back))


def columns(topology: TreeTopology, numbers: TreeNumbers, at: Placed) -> Columns:
    """What moves the bodies."""
    R, p = taken(at.R, topology.columns), taken(at.p, topology.columns)
    w = times(R, numbers.angular)
    v = cross(p, w)
    if any(kind in ("prismatic", "screw", "floating") for kind in topology.kinds):
        v = v + times(R, numbers.linear)
    return Columns(w, v)


def summed_outwards(topology: TreeTopology, x: Float[Array, "rows columns"]) -> Float[Array, "rows bodies"]:
    """Of each body the sum over all columns that move it."""
    return x @ jnp.asarray(topology.supports, x.dtype)


def summed_inwards(topology: TreeTopology, x: Float[Array, "rows bodies"]) -> Float[Array, "rows columns"]:
    """Of each column the sum over all bodies that it moves."""
    return x @ jnp.asarray(topology.supports.T, x.dtype)


def twists(topology: TreeTopology, S: Columns, rates: Float[Array, " columns"]) -> Moving:
    """Of all bodies."""
    V = summed_outwards(topology, jnp.concatenate([S.w * rates, S.v * rates]))
    return Moving(V[:3], V[3:])


def at_columns(topology: TreeTopology, V: Moving) -> Moving:
    """Of the body of each column."""
    return Moving(taken(V.w, topology.columns), taken(V.v, topology.columns))


def twist_cross(V: Moving, S: Columns) -> Columns:
    """V × S: the rate of what moves with V."""
    return Columns(cross(V.w, S.w), cross(V.v, S.w) + cross(V.w, S.v))


def wrench_cross(V: Moving, n: Vectors, f: Vectors) -> tuple[Vectors, Vectors]:
    """V ×* F."""
    return cross(V.w, n) + cross(V.v, f), cross(V.w, f)


def twist_rates(
    topology: TreeTopology,
    S: Columns,
    V: Moving,
    rates: Float[Array, " columns"],
    accelerations: Float[Array, " columns"],
) -> Moving:
    """Rates of the twists, without gravity."""
    dS = twist_cross(at_columns(topology, V), S)
    dV = summed_outwards(
        topology,
        jnp.concatenate([S.w * accelerations + dS.w * rates, S.v * accelerations + dS.v * rates]),
    )
    return Moving(dV[:3], dV[3:])
