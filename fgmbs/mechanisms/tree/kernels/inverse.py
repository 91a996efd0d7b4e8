"""Forces of a motion of a tree, its mass matrix, and the derivatives of the forces in closed form.

Sums over the bodies that a joint moves, and over the joints that move a body, are products with constant masks: few
large operations, which batch. All vectors are seen from the ground, where nothing has to be carried from body to body.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.tree.kernels.motion import (
    Columns,
    Moving,
    Placed,
    at_columns,
    column_rates,
    columns,
    gathered,
    joint_coordinates,
    placed,
    summed_inwards,
    taken,
    twist_cross,
    twist_rates,
    twists,
    wrench_cross,
)
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.kernels.vectors import (
    Vectors,
    cross,
    dot,
    identity,
    outer,
    product,
    skew,
    times,
    transposed_times,
)
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.typing import Coordinates, Velocities


class Jacobians(NamedTuple):
    """Derivatives of generalized forces with respect to local coordinates, velocities and accelerations."""

    q: Float[Array, "nv nv"]
    dq: Float[Array, "nv nv"]
    ddq: Float[Array, "nv nv"]


def forces_of_motion(
    topology: TreeTopology,
    numbers: TreeNumbers,
    q: Coordinates,
    dq: Velocities,
    ddq: Velocities,
    wrenches: Float[Array, "bodies 6"] | None = None,
) -> Velocities:
    """Recursive Newton–Euler: the generalized forces of a motion, with those of joints (friction, springs, rotors)."""
    moved = _moved(topology, numbers, q, dq, ddq, wrenches)
    F = summed_inwards(topology, jnp.concatenate([moved.n, moved.f]))
    S = moved.S
    tau = dot(S.w, F[:3]) + dot(S.v, F[3:]) + numbers.rotor * moved.accelerations
    return gathered(topology, numbers, tau + joint_forces(topology, numbers, q, moved.rates))


class _Moved(NamedTuple):
    """A robot in motion, and what moves it so."""

    at: Placed
    S: Columns
    rates: Float[Array, " columns"]
    accelerations: Float[Array, " columns"]
    V: Moving
    dV: Moving
    n: Vectors
    """Moments on the bodies about the point …"""
    f: Vectors
    """… and forces, less their weight and the wrenches from outside."""


def _moved(topology: TreeTopology, numbers: TreeNumbers, q, dq, ddq, wrenches) -> _Moved:
    at = placed(topology, numbers, q, relative=True)
    S = columns(topology, numbers, at)
    rates, accelerations = (column_rates(topology, numbers, x) for x in (dq, ddq))
    V = twists(topology, S, rates)
    dV = twist_rates(topology, S, V, rates, accelerations)
    n, f = body_forces(numbers, at, V, dV)
    if wrenches is not None:
        n_out, f_out = seen_from_ground(at, wrenches)
        n, f = n - n_out, f - f_out
    return _Moved(at, S, rates, accelerations, V, dV, n, f)


def net_wrenches(
    topology: TreeTopology, numbers: TreeNumbers, q: Coordinates, dq: Velocities, ddq: Velocities
) -> tuple[Placed, Vectors, Vectors]:
    """(places, moments about the point, forces) that move the bodies, less their weight; places are relative."""
    moved = _moved(topology, numbers, q, dq, ddq, None)
    return moved.at, moved.n, moved.f


def body_forces(numbers: TreeNumbers, at: Placed, V: Moving, dV: Moving) -> tuple[Vectors, Vectors]:
    """(moments about the point, forces) that move the bodies, less their weight."""
    c = at.p + times(at.R, numbers.centre)
    a = dV.v + cross(dV.w, c) + cross(V.w, V.v + cross(V.w, c)) - numbers.gravity[:, None]
    f = numbers.mass * a
    w, dw = transposed_times(at.R, V.w), transposed_times(at.R, dV.w)
    n = times(at.R, times(numbers.inertia, dw) + cross(w, times(numbers.inertia, w)))
    return n + cross(c, f), f


def seen_from_ground(at: Placed, wrenches: Float[Array, "bodies 6"]) -> tuple[Vectors, Vectors]:
    """(moments about the point, forces) of wrenches about the origins of the bodies, seen from the bodies."""
    f = times(at.R, wrenches[:, 3:].T)
    return times(at.R, wrenches[:, :3].T) + cross(at.p, f), f


def joint_forces(
    topology: TreeTopology, numbers: TreeNumbers, q: Coordinates, rates: Float[Array, " columns"]
) -> Float[Array, " columns"]:
    """What joints hold against the motion: friction and springs [N m, N]."""
    tau = numbers.friction(rates)
    if topology.has_springs:
        x = taken(joint_coordinates(topology, numbers, q), topology.columns)
        tau = tau + numbers.stiffness * (x - numbers.rest)
    return tau


class Composite(NamedTuple):
    """Sums over all bodies that a column moves."""

    m: Float[Array, " columns"]
    mc: Float[Array, "3 columns"]
    """First moments about the point [kg m]."""
    J: Float[Array, "3 3 columns"]
    """Inertia about the point [kg m²]."""

    def times(self, S: Columns) -> Columns:
        """Momenta (angular, linear) of the columns' motion."""
        return Columns(times(self.J, S.w) + cross(self.mc, S.v), self.m * S.v + cross(S.w, self.mc))


def inertia_about_point(numbers: TreeNumbers, at: Placed) -> Composite:
    """Of each body by itself."""
    c = at.p + times(at.R, numbers.centre)
    J = product(product(at.R, numbers.inertia), jnp.swapaxes(at.R, 0, 1))
    mc = numbers.mass * c
    return Composite(numbers.mass, mc, J + dot(mc, c) * identity(numbers.mass) - outer(mc, c))


_UPPER = np.triu_indices(3)
_SYMMETRIC = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])


def composite(topology: TreeTopology, of: Composite) -> Composite:
    """Summed inwards."""
    rows = jnp.concatenate([jnp.broadcast_to(of.m, of.mc[:1].shape), of.mc, of.J[_UPPER]])
    total = summed_inwards(topology, rows)
    return Composite(total[0], total[1:4], total[4:10][_SYMMETRIC])


def _masks(topology: TreeTopology) -> tuple[np.ndarray, np.ndarray]:
    """([i, j]: the body of column j is that of i or carries it, [i, j]: it is carried by it)."""
    ancestry = topology.ancestry[np.ix_(topology.columns, topology.columns)] > 0
    return ancestry.T, ancestry & ~ancestry.T


def mass_matrix_of_columns(topology: TreeTopology, numbers: TreeNumbers, S: Columns, of: Composite) -> Array:
    """Composite rigid bodies: the mass matrix of the columns, rotors included."""
    U = of.times(S)
    G = jnp.concatenate([U.w, U.v]).T @ jnp.concatenate([S.w, S.v])
    inward, outward = _masks(topology)
    return jnp.where(inward, G, jnp.where(outward, G.T, 0.0)) + jnp.diag(numbers.rotor)


def both_sides(topology: TreeTopology, numbers: TreeNumbers, M: Float[Array, "columns columns"]) -> Array:
    """A matrix of columns as one of velocities."""
    return gathered(topology, numbers, gathered(topology, numbers, M).T).T


def mass_matrix(topology: TreeTopology, numbers: TreeNumbers, q: Coordinates) -> Float[Array, "nv nv"]:
    """M(q)."""
    at = placed(topology, numbers, q, relative=True)
    S = columns(topology, numbers, at)
    total = composite(topology, inertia_about_point(numbers, at))
    return both_sides(topology, numbers, mass_matrix_of_columns(topology, numbers, S, total))


def mass_matrix_and_bias(
    topology: TreeTopology, numbers: TreeNumbers, q: Coordinates, dq: Velocities, wrenches: Array | None = None
) -> tuple[Float[Array, "nv nv"], Velocities]:
    """(M, h) with the forces of a motion M q̈ + h."""
    return mass_matrix(topology, numbers, q), forces_of_motion(topology, numbers, q, dq, jnp.zeros_like(dq), wrenches)


def jacobians(
    topology: TreeTopology,
    numbers: TreeNumbers,
    q: Coordinates,
    dq: Velocities,
    ddq: Velocities,
    wrenches: Float[Array, "bodies 6"] | None = None,
) -> Jacobians:
    """∂τ/∂q, ∂τ/∂q̇, ∂τ/∂q̈ of the forces of a motion.

    If column j turns all that it carries by δ, every vector x on a body b there changes by δ S_j × x (wrenches from
    outside too, which belong to the bodies), but for what comes from the body p before: δV_b = S_j × V_b + P,
    δV̇_b = S_j × V̇_b + A + P × V_b with P = V_p × S_j and A = V̇_p × S_j + V_p × P. The forces of the bodies change by
    S_j ×* F_b + I_b A + D_b P, where D P = V ×* I P + P ×* I V − I (V × P); by a change of q̇_j they change by
    I_b (V_j × S_j + P) + D_b S_j.
    """
    at, S, rates, _, V, dV, n, f = _moved(topology, numbers, q, dq, ddq, wrenches)
    of = inertia_about_point(numbers, at)
    h_w, h_v = of.times(Columns(*V))
    D = product(skew(V.w), of.J)
    D = D + jnp.swapaxes(D, 0, 1) - skew(h_w)  # (ω× J)ᵀ = −J ω×
    vc = outer(of.mc, V.v)
    D = D - (vc + jnp.swapaxes(vc, 0, 1) - 2 * dot(of.mc, V.v) * identity(of.m))  # −(v× c× + c× v×) m
    rows = jnp.concatenate([of.m[None], of.mc, of.J[_UPPER], D.reshape(9, -1), h_v, n, f])
    total = summed_inwards(topology, rows)
    carried = Composite(total[0], total[1:4], total[4:10][_SYMMETRIC])
    D, h_v, n, f = total[10:19].reshape(3, 3, -1), total[19:22], total[22:25], total[25:28]

    own_V = at_columns(topology, V)
    before_V, before_dV = _before(topology, V), _before(topology, dV)
    before_dV = Moving(before_dV.w, before_dV.v - numbers.gravity[:, None])
    P = twist_cross(before_V, S)
    A = _added(twist_cross(before_dV, S), twist_cross(before_V, P))
    B = _added(twist_cross(own_V, S), P)

    U = carried.times(S)
    DS = transposed_times(D, S.w) + 2 * cross(h_v, S.v)
    # Rows i that column j carries: S_iᵀ of what all that i carries feels.
    left = jnp.concatenate([U.w, U.v, DS])
    inner_q = left.T @ jnp.concatenate([A.w, A.v, P.w])
    inner_dq = left.T @ jnp.concatenate([B.w, B.v, S.w])
    # Rows i that carry column j: S_iᵀ of what all that j carries feels.
    n_turn, f_turn = wrench_cross(Moving(*S), n, f)
    IA, IB = carried.times(A), carried.times(B)
    outer_q = jnp.concatenate([n_turn + IA.w + times(D, P.w), f_turn + IA.v - 2 * cross(h_v, P.w)])
    outer_dq = jnp.concatenate([IB.w + times(D, S.w), IB.v - 2 * cross(h_v, S.w)])
    left = jnp.concatenate([S.w, S.v]).T
    inward, outward = _masks(topology)
    G = jnp.concatenate([U.w, U.v]).T @ jnp.concatenate([S.w, S.v])
    by_q = jnp.where(inward, inner_q, jnp.where(outward, left @ outer_q, 0.0))
    by_dq = jnp.where(inward, inner_dq, jnp.where(outward, left @ outer_dq, 0.0))
    by_ddq = jnp.where(inward, G, jnp.where(outward, G.T, 0.0)) + jnp.diag(numbers.rotor)
    _, rubbing = jax.jvp(lambda rates: joint_forces(topology, numbers, q, rates), (rates,), (jnp.ones_like(rates),))
    by_q, by_dq = by_q + jnp.diag(numbers.stiffness), by_dq + jnp.diag(rubbing)
    return Jacobians(*(both_sides(topology, numbers, x) for x in (by_q, by_dq, by_ddq)))


def _before(topology: TreeTopology, V: Moving) -> Moving:
    """Of the body before that of each column; zero of the ground."""
    parents = np.array(topology.parents, int)[topology.columns]
    grounded = parents < 0
    rows = V.stacked[:, np.where(grounded, 0, parents)]
    rows = jnp.where(grounded, 0.0, rows)
    return Moving(rows[:3], rows[3:])


def _added(a: Columns, b: Columns) -> Columns:
    return Columns(a.w + b.w, a.v + b.v)
