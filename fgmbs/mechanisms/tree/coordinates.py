"""Coordinates of a robot: how they are moved by velocities times time.

A unit quaternion (w, x, y, z) is moved by a turn that is seen from the body. The velocities of a floating joint are
[ω; v] of the body, seen from it; its coordinates are the position of its origin and a quaternion.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.tree.kernels.vectors import moved_quaternion, of_quaternion, turn_between
from fgmbs.mechanisms.tree.topology import SIZES, TURNING, TreeTopology
from fgmbs.typing import Coordinates, Velocities


def is_flat(topology: TreeTopology) -> bool:
    """Whether all coordinates are numbers of one joint each."""
    return not any(kind in TURNING for kind in topology.kinds)


def retract(topology: TreeTopology, q: Coordinates, v: Velocities) -> Coordinates:
    """q ⊞ v. A floating body moves straight on, in the direction it has at the start, and turns."""
    parts = []
    for kind, x, d in _by_joint(topology, q, v):
        match kind:
            case "floating":
                R = of_quaternion(x[3:, None])[..., 0]
                parts += [x[:3] + R @ d[3:], moved_quaternion(x[3:], d[:3])]
            case "spherical":
                parts.append(moved_quaternion(x, d))
            case _:
                parts.append(x + d)
    return jnp.concatenate(parts) if parts else q


def local(topology: TreeTopology, q0: Coordinates, q1: Coordinates) -> Velocities:
    """The v with q0 ⊞ v = q1."""
    parts = []
    for (kind, x, _), (_, y, _) in zip(_by_joint(topology, q0, None), _by_joint(topology, q1, None), strict=True):
        match kind:
            case "floating":
                R = of_quaternion(x[3:, None])[..., 0]
                parts += [turn_between(x[3:], y[3:]), R.T @ (y[:3] - x[:3])]
            case "spherical":
                parts.append(turn_between(x, y))
            case _:
                parts.append(y - x)
    return jnp.concatenate(parts) if parts else q0


def local_rates(topology: TreeTopology, q: Coordinates, t_q: Coordinates) -> Velocities:
    """Velocities of coordinates that change by t_q; what changes the length of a quaternion only is none."""
    if is_flat(topology):
        return t_q
    parts = []
    for (kind, x, _), (_, t, _) in zip(_by_joint(topology, q, None), _by_joint(topology, t_q, None), strict=True):
        match kind:
            case "floating":
                R = of_quaternion(x[3:, None])[..., 0]
                parts += [_turning(x[3:], t[3:]), R.T @ t[:3]]
            case "spherical":
                parts.append(_turning(x, t))
            case _:
                parts.append(t)
    return jnp.concatenate(parts)


def _turning(q: Float[Array, "4"], t: Float[Array, "4"]) -> Float[Array, "3"]:
    return 2 * (q[0] * t[1:] - t[0] * q[1:] - jnp.cross(q[1:], t[1:])) / (q @ q)


def _by_joint(topology: TreeTopology, q: Coordinates, v: Velocities | None):
    """(kind, coordinates, velocities) of each joint, runs of scalar ones as one."""
    i = k = 0
    run = 0
    own = [kind for j, kind in enumerate(topology.kinds) if topology.leaders[j] == j and kind != "fixed"]
    for kind in [*own, None]:
        if kind is not None and kind not in SIZES:
            run += 1
            continue
        if run:
            yield "scalar", q[i : i + run], None if v is None else v[k : k + run]
            i, k, run = i + run, k + run, 0
        if kind is not None:
            n, nv = SIZES[kind]
            yield kind, q[i : i + n], None if v is None else v[k : k + nv]
            i, k = i + n, k + nv


def home(topology: TreeTopology, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The zero position, as near to it as the limits of each joint allow."""
    parts = [np.zeros(0)]
    for j, kind in enumerate(topology.kinds):
        if topology.leaders[j] != j:
            continue
        match kind:
            case "floating":
                parts.append(np.array([0.0, 0, 0, 1, 0, 0, 0]))
            case "spherical":
                parts.append(np.array([1.0, 0, 0, 0]))
            case "fixed":
                pass
            case _:
                parts.append(np.clip([0.0], lower[j], upper[j]))
    return np.concatenate(parts)
