"""Independent coordinates z and the maps between their rates and those of all coordinates."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.errors import ArgumentError
from fgmbs.kinematics.mobility import mobility
from fgmbs.kinematics.names import Numbers, coordinate_index, finite_vector, listed
from fgmbs.kinematics.pseudo_inverse import left_inverse, row_norms
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar

_SWAP_ABOVE = 1.01
"""Largest |R_ij| that is left alone; above 1, so that coordinates equally good are not exchanged over rounding."""
_WORST_SHARE = 1e-6
"""Smallest singular value of the independent rows of an orthonormal null-space basis for a usable choice."""


def velocity_maps(
    mechanism: AbstractMechanism, q: Coordinates, t: Scalar, B: Float[Array, "dof nv"]
) -> tuple[Float[Array, "nv m"], Float[Array, "nv dof"]]:
    """(S, R) with dq = S b + R dz and ddq = S c + R ddz. [Blanco21] eqs. (8)–(12)

    [S R] is the inverse of [Φ_q; B], where rows are redundant its left inverse: exact where the redundant equations
    agree, which they do on Φ = 0, and least squares elsewhere. The columns of R span the null space of Φ_q.
    Differentiable of any order.

    Args:
        q: Coordinates [m, rad].
        t: Time [s].
        B: Which velocities are independent, dz = B dq, as `select_independent` or `selection_matrix` returns it.
    """
    Phi_q = mechanism.constraint_jacobian(q, jnp.asarray(t, q.dtype))
    m = Phi_q.shape[0]
    SR = left_inverse(jnp.concatenate([Phi_q, B]))
    return SR[:, :m], SR[:, m:]


def selection_matrix(mechanism: AbstractMechanism, indices: Sequence[int]) -> Float[Array, "dof nv"]:
    """B with dz = B dq for the velocities with these indices. [Blanco21] eq. (9)"""
    return jnp.eye(mechanism.nv, dtype=mechanism.reference.dtype)[jnp.asarray(indices, int)]


def select_independent(mechanism: AbstractMechanism, q: Coordinates, t: Scalar, dof: int) -> Float[Array, "dof nv"]:
    """B, the selection of independent velocities with a well-conditioned R; compiles, batches, needs no factorization.

    Gauss–Jordan elimination of Φ_q with complete pivoting leaves `dof` columns without pivot, which are independent;
    a column whose entry of R exceeds 1 changes places with the dependent one of that entry, until none does. Then R
    amplifies no velocity: 1 ≤ σ_min(R), |R_ij| ≤ 1. The selection is piecewise constant and has no derivative.

    Args:
        q: Coordinates [m, rad].
        t: Time [s].
        dof: Degrees of freedom, as `degrees_of_freedom` counts them; static.
    """
    Phi_q = jax.lax.stop_gradient(mechanism.constraint_jacobian(q, jnp.asarray(t, q.dtype)))
    m, nv = Phi_q.shape
    if dof == nv:
        return jnp.eye(nv, dtype=Phi_q.dtype)

    def pivot(A, basic, i, j):
        """Gauss–Jordan step: column j becomes the unit vector of row i, and basic[i] = j."""
        row = A[i] / A[i, j]
        return (A - jnp.outer(A[:, j], row)).at[i].set(row), basic.at[i].set(j)

    def is_basic(basic):
        return jnp.zeros(nv + 1, bool).at[basic].set(True)[:nv]

    def eliminate(_, state):
        A, basic = state
        free = (basic == nv)[:, None] & ~is_basic(basic)
        i, j = jnp.unravel_index(jnp.argmax(jnp.where(free, jnp.abs(A), -1.0)), A.shape)
        return pivot(A, basic, i, j)

    def largest(A, basic):
        """Largest entry of R = [−A; I] and its place, in rows that have a pivot and columns that have none."""
        R = jnp.where((basic < nv)[:, None] & ~is_basic(basic), jnp.abs(A), -1.0)
        return jnp.max(R), jnp.unravel_index(jnp.argmax(R), A.shape)

    def swap(state):
        k, A, basic = state
        return k + 1, *pivot(A, basic, *largest(A, basic)[1])

    state = jax.lax.fori_loop(
        0, nv - dof, eliminate, (Phi_q / row_norms(Phi_q)[:, None], jnp.full(m, nv)), unroll=nv - dof <= 4
    )
    # Every swap multiplies the volume of R by more than _SWAP_ABOVE, so that it ends; the count guards against NaN.
    _, _, basic = jax.lax.while_loop(
        lambda s: (s[0] < 2 * nv) & (largest(*s[1:])[0] > _SWAP_ABOVE), swap, (jnp.asarray(0), *state)
    )
    (columns,) = jnp.nonzero(~is_basic(basic), size=dof)
    return jax.nn.one_hot(columns, nv, dtype=Phi_q.dtype)


def independent_coordinates(
    mechanism: AbstractMechanism, q: Numbers, names: Sequence[str] | None = None, *, t: float = 0.0
) -> tuple[int, ...]:
    """Indices of independent coordinates: the best-conditioned ones, or the user's own choice after a check.

    Args:
        q: Assembled coordinates [m, rad].
        names: The coordinates that shall be independent; chosen by `select_independent` if None.
        t: Time [s].

    Raises:
        ArgumentError: No degree of freedom; unknown or repeated names; not as many as degrees of freedom; names that do
            not determine the velocities in this configuration. Says which choice would work.
    """
    q = finite_vector(mechanism, q, mechanism.coordinate_names, "q")
    dof = mobility(mechanism, q, t).dof
    if dof == 0:
        raise ArgumentError("the mechanism has no degree of freedom, so that no coordinate is independent")
    best = tuple(int(i) for i in np.argmax(_select(mechanism, q, jnp.asarray(t, q.dtype), dof), axis=1))
    if names is None:
        return best
    advice = f"{listed(mechanism.coordinate_names[i] for i in best)} would do"
    chosen = tuple(coordinate_index(mechanism, name, "independent coordinates") for name in names)
    if len(set(chosen)) < len(chosen):
        raise ArgumentError(f"independent coordinates: {listed(names)} has a coordinate twice; {advice}")
    if len(chosen) != dof:
        raise ArgumentError(
            f"independent coordinates: expected {dof}, the degrees of freedom; found {len(chosen)}: {listed(names)}; "
            f"{advice}"
        )
    # B R = I for the best choice, so that B' R tells how the user's choice sees the same motions.
    R = np.asarray(_maps(mechanism, q, jnp.asarray(t, q.dtype), selection_matrix(mechanism, best))[1])
    share = np.linalg.svd(np.linalg.qr(R)[0][list(chosen)], compute_uv=False)[-1]
    if share < _WORST_SHARE:
        raise ArgumentError(
            f"independent coordinates: {listed(names)} do not determine the motion in this configuration (smallest "
            f"singular value {share:.1e} of their rows in the null space of Φ_q; limit {_WORST_SHARE:g}); {advice}"
        )
    return chosen


_select = eqx.filter_jit(select_independent)
_maps = eqx.filter_jit(lambda mechanism, q, t, B: velocity_maps(mechanism.evaluated(), q, t, B))
