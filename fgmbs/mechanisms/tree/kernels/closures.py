"""Joints that close loops, as constraints."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.tree.kernels import angles
from fgmbs.mechanisms.tree.kernels.motion import (
    Columns,
    Moving,
    Placed,
    column_rates,
    columns,
    gathered,
    placed,
    twist_rates,
    twists,
)
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.kernels.vectors import cross, product, skew, times
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.typing import Constraints, Coordinates, Velocities

ROWS = {
    "revolute": ("x", "y", "z", "tilt 1", "tilt 2"),
    "prismatic": ("off 1", "off 2", "turn x", "turn y", "turn z"),
    "spherical": ("x", "y", "z"),
    "fixed": ("x", "y", "z", "turn x", "turn y", "turn z"),
}
"""Names of the rows of each kind: the first are lengths, those that turn or tilt are angles."""


def names(topology: TreeTopology) -> Iterator[tuple[str, bool]]:
    """(name, whether it is a length) of every row."""
    for name, kind in zip(topology.closures, topology.closure_kinds, strict=True):
        for row in ROWS[kind]:
            yield f"closure '{name}' ({row})", not row.startswith("t")


class _Ends(NamedTuple):
    """The two frames of a closure."""

    kind: str
    bodies: tuple[int, int]
    R: tuple[Float[Array, "3 3"], Float[Array, "3 3"]]
    p: tuple[Float[Array, "3"], Float[Array, "3"]]
    axis: Float[Array, "3"]

    @property
    def turn(self) -> Float[Array, "3 3"]:
        """The second frame, seen from the first."""
        return self.R[0].T @ self.R[1]

    def lengths(self, between: Float[Array, "3 *columns"]) -> Float[Array, "rows *columns"]:
        """Rows that are lengths, of the way between the origins, seen from the first frame."""
        return jnp.tensordot(_across(self.axis), between, 1) if self.kind == "prismatic" else between

    def angles(self, turn: Float[Array, "3 3"]) -> Float[Array, " rows"]:
        """Rows that are angles, of the second frame, seen from the first."""
        match self.kind:
            case "spherical":
                return jnp.zeros(0, turn.dtype)
            case "revolute":
                axis = turn @ self.axis
                return angles.of_direction(_across(self.axis) @ axis, self.axis @ axis)
            case _:
                return angles.of_turn(turn)


def _ends(topology: TreeTopology, numbers: TreeNumbers, at: Placed) -> Iterator[_Ends]:
    for k, (kind, bodies) in enumerate(zip(topology.closure_kinds, topology.closure_bodies, strict=True)):
        frames = [
            on_body(at, body, numbers.closure_turn[:, :, i, k], numbers.closure_place[:, i, k])
            for i, body in enumerate(bodies)
        ]
        R, p = zip(*frames, strict=True)
        axis = numbers.closure_axis[:, k] / jnp.sqrt(jnp.sum(numbers.closure_axis[:, k] ** 2))
        yield _Ends(kind, bodies, R, p, axis)


def are_relative(topology: TreeTopology) -> bool:
    """Whether bodies may be placed relative to a floating one: no loop is closed on the ground."""
    return all(body >= 0 for bodies in topology.closure_bodies for body in bodies)


def rows(topology: TreeTopology, numbers: TreeNumbers, q: Coordinates) -> Constraints:
    """Φ of all closures; seen from the first of their two frames [m, rad]."""
    at = placed(topology, numbers, q, are_relative(topology))
    found = [jnp.zeros(0, at.p.dtype)]
    for end in _ends(topology, numbers, at):
        found += [end.lengths(end.R[0].T @ (end.p[1] - end.p[0])), end.angles(end.turn)]
    return jnp.concatenate(found)


def jacobian(topology: TreeTopology, numbers: TreeNumbers, q: Coordinates) -> Float[Array, "m nv"]:
    """Φ_q, with respect to velocities, from what each column moves the two frames by."""
    at = placed(topology, numbers, q, are_relative(topology))
    return gathered(topology, numbers, rates(topology, numbers, at, columns(topology, numbers, at), topology.supports))


def rates(
    topology: TreeTopology, numbers: TreeNumbers, at: Placed, S: Columns, moves: np.ndarray
) -> Float[Array, "m columns"]:
    """Rate of Φ for each column of `S`, which moves some bodies: `moves` is (columns, bodies)."""
    found = [jnp.zeros((0, len(moves)), at.p.dtype)]
    for end in _ends(topology, numbers, at):
        there = [moves[:, body] if body >= 0 else np.zeros(len(moves)) for body in end.bodies]
        (w_a, v_a), (w_b, v_b) = ((S.w * moved, S.v * moved) for moved in there)
        p_a, p_b = (jnp.broadcast_to(p[:, None], w_a.shape) for p in end.p)
        v = v_b + cross(w_b, p_b) - v_a - cross(w_a, p_a)
        between = end.R[0].T @ (v - cross(w_a, p_b - p_a))
        turns = jnp.einsum("ijk,jl->kil", skew(end.R[0].T @ (w_b - w_a)), end.turn)
        found += [end.lengths(between), jax.vmap(jax.linearize(end.angles, end.turn)[1], out_axes=1)(turns)]
    return jnp.concatenate(found)


def bias(topology: TreeTopology, numbers: TreeNumbers, q: Coordinates, dq: Velocities) -> Constraints:
    """c with Φ_q q̈ = c: minus the second time derivative of Φ along the motion without acceleration."""
    at = placed(topology, numbers, q, are_relative(topology))
    S, rates = columns(topology, numbers, at), column_rates(topology, numbers, dq)
    V = twists(topology, S, rates)
    dV = twist_rates(topology, S, V, rates, jnp.zeros_like(rates))
    found = [jnp.zeros(0, at.p.dtype)]
    for end in _ends(topology, numbers, at):
        (w_a, v_a, alpha_a, a_a), (w_b, v_b, alpha_b, a_b) = (
            _motion(V, dV, body, p) for body, p in zip(end.bodies, end.p, strict=True)
        )
        r, v, w = end.p[1] - end.p[0], v_b - v_a, w_b - w_a
        a = a_b - a_a - jnp.cross(alpha_a, r) - 2 * jnp.cross(w_a, v) + jnp.cross(w_a, jnp.cross(w_a, r))
        alpha = alpha_b - alpha_a - jnp.cross(w_a, w)
        spin = skew((end.R[0].T @ w)[:, None])[..., 0]
        rate = spin @ end.turn
        turn = skew((end.R[0].T @ alpha)[:, None])[..., 0] @ end.turn + spin @ rate
        _, bend = jax.jvp(lambda R, dR, end=end: jax.jvp(end.angles, (R,), (dR,))[1], (end.turn, rate), (rate, turn))
        found += [-end.lengths(end.R[0].T @ a), -bend]
    return jnp.concatenate(found)


def _motion(V: Moving, dV: Moving, body: int, p: Float[Array, "3"]):
    """(ω, velocity, ω̇, acceleration) of a point of a body, −1 the ground."""
    if body < 0:
        return (jnp.zeros(3, p.dtype),) * 4
    w, alpha = V.w[:, body], dV.w[:, body]
    v = V.v[:, body] + jnp.cross(w, p)
    return w, v, alpha, dV.v[:, body] + jnp.cross(alpha, p) + jnp.cross(w, v)


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
