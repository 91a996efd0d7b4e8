"""How frames on bodies move: in a few products, where derivatives of their places along a motion would be many."""

import jax.numpy as jnp

from fgmbs.mechanisms.base import BodyFrame
from fgmbs.mechanisms.tree.kernels.closures import on_body
from fgmbs.mechanisms.tree.kernels.motion import Placed, column_rates, columns, placed, twist_rates, twists
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.typing import Coordinates, Velocities


def frame_at(topology: TreeTopology, numbers: TreeNumbers, at: Placed, frame: int) -> BodyFrame:
    """Where a frame is when bodies are there."""
    own = numbers.frame_turn[..., frame], numbers.frame_place[:, frame]
    return on_body(at, topology.frame_bodies[frame], *own)


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
    at, body = placed(topology, numbers, q, relative=True), topology.frame_bodies[frame]
    R, p = frame_at(topology, numbers, at, frame)
    if body < 0:
        still = jnp.zeros_like(R), jnp.zeros_like(p)
        return ((R, p), still) if ddq is None else ((R, p), still, still)
    there = frame_at(topology, numbers, placed(topology, numbers, q), frame) if topology.floats else (R, p)
    S, rates = columns(topology, numbers, at), column_rates(topology, numbers, dq)
    V = twists(topology, S, rates)
    turned, w = lambda a, b: jnp.cross(a, b.T).T, V.w[:, body]
    dR, dp = turned(w, R), V.v[:, body] + jnp.cross(w, p)
    if ddq is None:
        return there, (dR, dp)
    dV = twist_rates(topology, S, V, rates, column_rates(topology, numbers, ddq))
    dw = dV.w[:, body]
    return there, (dR, dp), (turned(dw, R) + turned(w, dR), dV.v[:, body] + jnp.cross(dw, p) + jnp.cross(w, dp))
