"""How frames on bodies move: in a few products, where derivatives of their places along a motion would be many."""

import jax.numpy as jnp

from fgmbs.mechanisms.base import BodyFrame
from fgmbs.mechanisms.tree.kernels.closures import on_body
from fgmbs.mechanisms.tree.kernels.motion import column_rates, columns, placed, twist_rates, twists
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.typing import Coordinates, Velocities


def frame_motion(
    topology: TreeTopology,
    numbers: TreeNumbers,
    frame: int,
    q: Coordinates,
    dq: Velocities,
    ddq: Velocities | None,
) -> tuple[BodyFrame, ...]:
    """A frame with its first and, given accelerations, its second time derivative: Ṙ = ω × R, ṗ = v + ω × p, where v is
    that of the body at the point of twists."""
    body, own = topology.frame_bodies[frame], (numbers.frame_turn[..., frame], numbers.frame_place[:, frame])
    there = own if body < 0 else on_body(placed(topology, numbers, q), body, *own)
    if body < 0:
        none = jnp.zeros_like(there[0]), jnp.zeros_like(there[1])
        return (there, none) if ddq is None else (there, none, none)
    at = placed(topology, numbers, q, relative=True) if topology.floats else placed(topology, numbers, q)
    S, rates = columns(topology, numbers, at), column_rates(topology, numbers, dq)
    V = twists(topology, S, rates)
    R, p = on_body(at, body, *own)
    turned, w = lambda a, b: jnp.cross(a, b.T).T, V.w[:, body]
    dR, dp = turned(w, R), V.v[:, body] + jnp.cross(w, p)
    if ddq is None:
        return there, (dR, dp)
    dV = twist_rates(topology, S, V, rates, column_rates(topology, numbers, ddq))
    dw = dV.w[:, body]
    return there, (dR, dp), (turned(dw, R) + turned(w, dR), dV.v[:, body] + jnp.cross(dw, p) + jnp.cross(w, dp))
