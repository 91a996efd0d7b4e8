"""Inverse dynamics of a tree and its sensitivities by 4×4 matrices, as Lagrange's equations give them ([RID23]).

It shares nothing with the spatial vectors of the other kernels, and cross-checks them; those are faster. Joints have
one degree of freedom, and every joint i moves one link i. The paper's Denavit–Hartenberg frames are one choice of the
frames here: any constant Z_i with A_i = exp(Z_i q_i) A_i(0) fulfils B_i = Z_i A_i, C_i = Z_i B_i, D_i = Z_i C_i.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.tree.lagrangian.branches import check_parents
from fgmbs.mechanisms.tree.robot import Robot
from fgmbs.mechanisms.tree.topology import SIZES

Matrices: TypeAlias = Float[Array, "joints 4 4"]
"""One matrix per joint."""
Sensitivities: TypeAlias = Float[Array, "joints joints 4 4"]
"""Derivatives of the matrix of the first joint with respect to q (or its rates) of the second."""


class HomogeneousTree(eqx.Module):
    """A tree of links on joints of one degree of freedom."""

    placements: Matrices
    """A_i(0): pose of link i seen from its parent at q_i = 0."""
    generators: Matrices
    """Z_i: twist of the joint as a matrix, seen from the parent; about a unit vector, or along one, or a screw."""
    inertias: Matrices
    """J_i: pseudo-inertia of link i about its own frame, [RID23] eq. (7)."""
    gravity: Float[Array, " 3"]
    """Acceleration of free fall in the ground's frame [m/s²]."""
    parents: tuple[int, ...] = eqx.field(static=True)
    """Parent of every joint, which stands before it; −1 is the ground."""

    def __check_init__(self) -> None:
        check_parents("joint", self.parents)


class Loads(eqx.Module):
    """What acts on every link from outside."""

    forces: Float[Array, "joints 3"]
    """f_i, along the axes of the ground [N]."""
    points: Float[Array, "joints 3"]
    """Where they act, seen from the link [m]."""
    torques: Float[Array, "joints 3"]
    """h_i, along the axes of the ground [N·m]."""


class _Kinematics(NamedTuple):
    """A_i and its first two derivatives by q_i; T_i and its first two derivatives by time, the ground's behind them."""

    A: Matrices
    B: Matrices
    C: Matrices
    T: Float[Array, "joints_and_ground 4 4"]
    S: Float[Array, "joints_and_ground 4 4"]
    R: Float[Array, "joints_and_ground 4 4"]


def pseudo_inertia(
    mass: Float[Array, ""], center: Float[Array, " 3"], inertia: Float[Array, "3 3"]
) -> Float[Array, "4 4"]:
    """∫ r rᵀ dm of homogeneous r: J of [RID23] eq. (7), whose diagonal is ½(−Jxx + Jyy + Jzz) and so on.

    Args:
        mass: [kg]
        center: Centre of mass, seen from the link [m].
        inertia: About the centre of mass, along the axes of the link [kg m²].
    """
    second = jnp.eye(3) * jnp.trace(inertia) / 2 - inertia + mass * jnp.outer(center, center)
    first = mass * center[:, None]
    return jnp.block([[second, first], [first.T, mass[None, None]]])


def generator(placement: Float[Array, "4 4"], angular: Float[Array, " 3"], linear: Float[Array, " 3"]) -> Array:
    """Z of a joint whose twist per unit of q is given in the frame of its link.

    Z = A(0) ẑ A(0)⁻¹ with the 4×4 matrix ẑ of the twist.

    Args:
        placement: A(0).
        angular: Unit vector about which it turns; zero if it does not.
        linear: Velocity of the link's origin; a unit vector if it does not turn [m, m/rad].
    """
    x, y, z = angular
    zero = jnp.zeros_like(x)
    twist = jnp.stack([zero, -z, y, linear[0], z, zero, -x, linear[1], -y, x, zero, linear[2], *[zero] * 4])
    rotation = placement[:3, :3].T
    back = placement.at[:3, :3].set(rotation).at[:3, 3].set(-rotation @ placement[:3, 3])
    return placement @ twist.reshape(4, 4) @ back


def inverse_dynamics(
    tree: HomogeneousTree,
    q: Float[Array, " joints"],
    dq: Float[Array, " joints"],
    ddq: Float[Array, " joints"],
    loads: Loads,
) -> Float[Array, " joints"]:
    """Generalized forces Q that move a tree as given ([RID23] eq. (9)).

    Q_i = tr[∂T_i/∂q_i K_i] − G_iᵀ T_p w_i. The inertia H_i, gravity E_i gᵀ and external forces F_i Vᵀ of eq. (8) obey
    the same recursion, and only their sum K_i = H_i − E_i gᵀ − F_i Vᵀ is carried.
    """
    moving = _kinematics(tree, q, dq, ddq)
    parents = _parents(tree)
    own = _own_terms(tree, moving, loads)

    def add(K, joint):
        K_i = K[joint] + own[joint]
        return K.at[parents[joint]].add(moving.A[joint] @ K_i), K_i

    _, K = jax.lax.scan(add, jnp.zeros_like(moving.T), jnp.arange(q.size), reverse=True)
    T_q = moving.T[parents] @ moving.B
    G = _below(tree) @ loads.torques
    return _trace(T_q, K) - jnp.sum(G * _axes(tree, moving.T), axis=1)


def inverse_dynamics_jacobians(
    tree: HomogeneousTree,
    q: Float[Array, " joints"],
    dq: Float[Array, " joints"],
    ddq: Float[Array, " joints"],
    loads: Loads,
) -> tuple[Float[Array, "joints joints"], Float[Array, "joints joints"], Float[Array, "joints joints"]]:
    """∂Q/∂q, ∂Q/∂q̇ and ∂Q/∂q̈ of `inverse_dynamics` ([RID23] eqs (10)–(17))."""
    moving = _kinematics(tree, q, dq, ddq)
    parents = _parents(tree)
    T_q, S_q, R_q = _kinematic_sensitivities(tree, moving, dq, ddq)
    own = _own_terms(tree, moving, loads)

    def add(below, joint):  # eqs (13)–(15); the sums over children are gathered at their parent
        (K, *K_x), i, p = below, joint, parents[joint]
        K_i = K[i] + own[i]
        # ∂R/∂q̇ = 2 ∂S/∂q and ∂R/∂q̈ = ∂T/∂q: their recursions (10), (11) are the same
        rates = R_q[i], 2 * S_q[i], T_q[i]
        K_x_i = [_J_times_transposed(tree.inertias[i], R_x) + K_x_[i] for R_x, K_x_ in zip(rates, K_x, strict=True)]
        to_parent = [jnp.einsum("ij,mjk->mik", moving.A[i], K_x_) for K_x_ in K_x_i]
        to_parent[0] = to_parent[0].at[i].add(moving.B[i] @ K_i)
        K = K.at[p].add(moving.A[i] @ K_i)
        return (K, *(K_x_.at[p].add(more) for K_x_, more in zip(K_x, to_parent, strict=True))), (K_i, *K_x_i)

    zeros = jnp.zeros((q.size + 1, q.size, 4, 4), q.dtype)
    _, (K, *K_x) = jax.lax.scan(add, (jnp.zeros_like(moving.T), zeros, zeros, zeros), jnp.arange(q.size), reverse=True)
    T_i = moving.T[parents] @ moving.B
    Q_q, Q_dq, Q_ddq = (jnp.einsum("iab,imba->im", T_i, K_x_) for K_x_ in K_x)
    # eq. (16): ∂²T_i/∂q_m∂q_i is ∂T_p/∂q_m B_i of m < i and T_p C_i of m = i
    T_p_q = jnp.concatenate([T_q, zeros[:1]])[parents]
    Q_q += jnp.einsum("imab,ibc,ica->im", T_p_q, moving.B, K)
    Q_q += jnp.diag(_trace(moving.T[parents] @ moving.C, K))
    G = _below(tree) @ loads.torques
    Q_q -= jnp.einsum("ia,imab,ib->im", G, T_p_q[..., :3, :3], _vee(tree.generators))
    return Q_q, Q_dq, Q_ddq


def _parents(tree: HomogeneousTree) -> Array:
    """Where the parent of every joint stands in arrays that have the ground behind the joints."""
    return jnp.asarray([parent % (len(tree.parents) + 1) for parent in tree.parents])


def _below(tree: HomogeneousTree) -> np.ndarray:
    """1 where the second joint is the first or moved by it: sums over the subtree, as of G in eq. (8)."""
    below = np.eye(len(tree.parents))
    for joint, parent in reversed(list(enumerate(tree.parents))):
        if parent >= 0:
            below[parent] += below[joint]
    return below


def _kinematics(tree: HomogeneousTree, q: Array, dq: Array, ddq: Array) -> _Kinematics:
    Z = tree.generators
    Z_Z = Z @ Z
    sin, versine = jnp.sin(q)[:, None, None], 1 - jnp.cos(q)[:, None, None]
    # The last term is the advance along the axis: of prismatic joints and screws.
    turned = jnp.eye(4) + sin * Z + versine * Z_Z + (q[:, None, None] - sin) * (Z + Z @ Z_Z)
    A = turned @ tree.placements
    B = Z @ A
    C = Z @ B
    parents = _parents(tree)

    def move(state, joint):  # eq. (5)
        T, S, R = state
        i, p = joint, parents[joint]
        velocity = B[i] * dq[i]
        acceleration = C[i] * dq[i] ** 2 + B[i] * ddq[i]
        T_i = T[p] @ A[i]
        S_i = S[p] @ A[i] + T[p] @ velocity
        R_i = R[p] @ A[i] + 2 * S[p] @ velocity + T[p] @ acceleration
        return (T.at[i].set(T_i), S.at[i].set(S_i), R.at[i].set(R_i)), None

    zeros = jnp.zeros((q.size + 1, 4, 4), A.dtype)
    start = zeros.at[-1].set(jnp.eye(4)), zeros, zeros
    (T, S, R), _ = jax.lax.scan(move, start, jnp.arange(q.size))
    return _Kinematics(A, B, C, T, S, R)


def _kinematic_sensitivities(
    tree: HomogeneousTree, moving: _Kinematics, dq: Array, ddq: Array
) -> tuple[Sensitivities, Sensitivities, Sensitivities]:
    """∂T_i/∂q_m, ∂S_i/∂q_m and ∂R_i/∂q_m, zero where q_m does not move link i ([RID23] eqs (10)–(12))."""
    A, B, C, T, S, R = moving
    D = tree.generators @ C
    parents = _parents(tree)
    number = len(tree.parents)

    def move(state, joint):
        T_q, S_q, R_q = state
        i, p = joint, parents[joint]
        velocity, its_change = B[i] * dq[i], C[i] * dq[i]
        acceleration = C[i] * dq[i] ** 2 + B[i] * ddq[i]
        T_i = (T_q[p] @ A[i]).at[i].set(T[p] @ B[i])
        S_i = (S_q[p] @ A[i] + T_q[p] @ velocity).at[i].set(S[p] @ B[i] + T[p] @ its_change)
        own = R[p] @ B[i] + 2 * S[p] @ its_change + T[p] @ (D[i] * dq[i] ** 2 + C[i] * ddq[i])
        R_i = (R_q[p] @ A[i] + 2 * S_q[p] @ velocity + T_q[p] @ acceleration).at[i].set(own)
        return (T_q.at[i].set(T_i), S_q.at[i].set(S_i), R_q.at[i].set(R_i)), None

    zeros = jnp.zeros((number + 1, number, 4, 4), A.dtype)
    (T_q, S_q, R_q), _ = jax.lax.scan(move, (zeros, zeros, zeros), jnp.arange(number))
    return T_q[:-1], S_q[:-1], R_q[:-1]


def _own_terms(tree: HomogeneousTree, moving: _Kinematics, loads: Loads) -> Matrices:
    """What link i itself adds to K_i: J_i R_iᵀ − m_i r_i gᵀ − p_i f_iᵀ, r_i and p_i homogeneous ([RID23] eq. (8))."""
    one = jnp.ones_like(loads.points[:, :1])
    points = jnp.concatenate([loads.points, one], axis=1)
    J = tree.inertias
    return (
        J @ jnp.swapaxes(moving.R[:-1], 1, 2)
        - J[:, :, 3:] * _direction(tree.gravity)
        - points[:, :, None] * _direction(loads.forces)[:, None, :]
    )


def _direction(vectors: Float[Array, "... 3"]) -> Float[Array, "... 4"]:
    return jnp.concatenate([vectors, jnp.zeros_like(vectors[..., :1])], axis=-1)


def _J_times_transposed(J: Float[Array, "4 4"], R_x: Matrices) -> Matrices:
    return jnp.einsum("ij,mkj->mik", J, R_x)


def _trace(first: Matrices, second: Matrices) -> Float[Array, " joints"]:
    return jnp.einsum("iab,iba->i", first, second)


def _vee(generators: Matrices) -> Float[Array, "joints 3"]:
    """w_i: about what the joints turn, seen from the parent; zero of prismatic ones."""
    return jnp.stack([generators[:, 2, 1], generators[:, 0, 2], generators[:, 1, 0]], axis=1)


def _axes(tree: HomogeneousTree, T: Array) -> Float[Array, "joints 3"]:
    """T_p w_i."""
    return jnp.einsum("iab,ib->ia", T[_parents(tree)][:, :3, :3], _vee(tree.generators))


def tree_of(
    parents: Sequence[int],
    placements: Float[Array, "joints 4 4"],
    twists: tuple[Float[Array, "joints 3"], Float[Array, "joints 3"]],
    inertias: tuple[Float[Array, " joints"], Float[Array, "joints 3"], Float[Array, "joints 3 3"]],
    gravity: Float[Array, " 3"],
) -> HomogeneousTree:
    """The tree of some numbers.

    Args:
        placements: Pose of every link at q = 0, seen from its parent.
        twists: Angular and linear part per unit of q, in the frame of the link (`generator`).
        inertias: Masses, centres and inertias (`pseudo_inertia`).
        gravity: Acceleration of free fall [m/s²].
    """
    return HomogeneousTree(
        placements,
        jax.vmap(generator)(placements, *twists),
        jax.vmap(pseudo_inertia)(*inertias),
        gravity,
        tuple(parents),
    )


def of_robot(robot: Robot) -> HomogeneousTree:
    """The tree of a robot, without friction, springs, rotors and closures.

    Raises:
        ArgumentError: A joint has more than one degree of freedom, or follows another.
    """
    topology, numbers = robot.of
    for j, (name, kind) in enumerate(zip(topology.joints, topology.kinds, strict=True)):
        if kind in SIZES or topology.leaders[j] != j:
            found = kind if topology.leaders[j] == j else "one that follows another"
            raise ArgumentError(f"robot: expected joints of one degree of freedom; found '{name}', {found}")

    turns = jnp.moveaxis(numbers.A + numbers.C, -1, 0)  # at q = 0
    bottom = jnp.broadcast_to(jnp.array([0.0, 0.0, 0.0, 1.0]), (topology.count, 1, 4))
    poses = jnp.concatenate([jnp.concatenate([turns, numbers.place.T[:, :, None]], axis=2), bottom], axis=1)
    inertias = numbers.mass, numbers.centre.T, jnp.moveaxis(numbers.inertia, -1, 0)
    return tree_of(topology.parents, poses, (numbers.angular.T, numbers.linear.T), inertias, numbers.gravity)
