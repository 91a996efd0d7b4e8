"""The KKT system [M Φ_qᵀ; Φ_q 0] [ddq; λ] = [Q; c] of arrays: pseudo-inverse and solution."""

from functools import reduce
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.algebra.pseudo_inverse import row_norms
from fgmbs.typing import Velocities

Sizes: TypeAlias = Velocities | None
"""Size of each velocity, by which metres and radians are compared; None where all are of one kind."""
RowSizes: TypeAlias = Float[Array, " m"] | Float[Array, ""] | float | None
"""How much each row changes, about, by a change of size 1."""

# Weight of the constraint rows against the mass matrix in `kkt_inverse`, and how often the geometric series is doubled:
# so often, and again, at most so many times, while it leaves more than this of a row that is not redundant. It leaves
# (1 + PENALTY σ)^-(2^doublings) of a row of relative stiffness σ, and rounding of about 1e-16 · PENALTY, which doubles
# along redundant rows. Next to singular poses σ is the square of the distance: a ten-thousandth of a radian takes 11 to
# 16 doublings. Rows that take more than all are left to fade: where a linkage lies flat, redundant rows look
# independent within a millionth of a radian, the square root of rounding.
_PENALTY = 1e5
_DOUBLINGS, _TIMES = 5, 4
_LEFT = 1e-8
_SHORTEST = 1e-3
"""Length of a row, relative to the longest by their sizes, below which it is not made as long as the others: what is
left of a row that vanishes in a pose, as some do of a linkage that is folded flat, is rounding, in which it would look
independent. Of one that is as short by itself the series has five digits more to go."""
_SQUARINGS, _NEARLY = 40, 1e-8
"""Steps of `right_inverse` at most, in which singular values of 1e-8 of the largest are inverted; relative change by
the last one, which squares it. Below, every step would double what rounding leaves along redundant rows."""
_UNROLL = 8
_WRITTEN_OUT = 12
"""Longest sum that a small product writes out: a call of the matrix library costs more than its arithmetic."""


class KKTInverse(NamedTuple):
    """Blocks of the pseudo-inverse of [M Φ_qᵀ; Φ_q 0]: ddq = P Q + S c, λ = Sᵀ Q − W c."""

    P: Float[Array, "nv nv"]
    S: Float[Array, "nv m"]
    W: Float[Array, "m m"]


@jax.custom_jvp
def kkt_inverse(
    M: Float[Array, "nv nv"], Phi_q: Float[Array, "m nv"], sizes: Sizes = None, rows: RowSizes = None
) -> KKTInverse:
    """Pseudo-inverse of the KKT matrix, for singular mass matrices and redundant constraints alike.

    Augmented Lagrangian: with A = M + α Φ_qᵀΦ_q positive definite, the multiplier iteration
    λ ← λ + α(Φ_q ddq − c) contracts by E = I − α Φ_q A⁻¹ Φ_qᵀ. Its limit is a geometric series in E, summed here by
    repeated squaring: no pivoting, no rank decision, smooth in its arguments. Rows are normalised first, and before
    them columns: the sizes matter to rounding, and to what is least where rows are redundant.

    Args:
        M: Mass matrix, or another metric.
        Phi_q: Constraint Jacobian.
        sizes: Of velocities.
        rows: Sizes of the rows, by which they are compared; without them none is taken for rounding.
    """
    if sizes is not None:
        P, S, W = kkt_inverse(sizes[:, None] * M * sizes, Phi_q * sizes, None, rows)
        return KKTInverse(sizes[:, None] * P * sizes, sizes[:, None] * S, W)
    squares = jnp.sum(Phi_q**2, axis=1)
    if rows is not None:
        squares = jnp.maximum(squares, (_SHORTEST * rows) ** 2 * jnp.max(squares / rows**2, initial=0.0))
    scale = jnp.sqrt(jnp.trace(M) / M.shape[0] / (squares + 1e-300) * _PENALTY)
    G = scale[:, None] * Phi_q
    A_inverse = spd_inverse(M + product(G.T, G))
    Z = product(A_inverse, G.T)
    E = jnp.eye(G.shape[0], dtype=G.dtype) - product(G, Z)

    def double(_, state):
        series, power = state
        return series + product(series, power), product(power, power)

    def undecided(state):
        # The sum of e (1 − e) over what the power leaves of each row: 0 of those that are met, 1 of redundant ones.
        _, power, _, k = state
        return (k == 0) | ((jnp.trace(power) - jnp.sum(power**2) > _LEFT) & (k <= _TIMES))

    def doubled(state):
        *state, few, k = state
        series, power = jax.lax.fori_loop(0, _DOUBLINGS, double, tuple(state))
        few = jnp.where(k == 0, series, few)
        return jnp.where(k == _TIMES, few, series), power, few, k + 1

    # Z + Z E + Z E² + …, by loops, so that the compiler does not write every product into the one that needs it.
    series, *_ = jax.lax.while_loop(undecided, doubled, (Z, E, Z, jnp.asarray(0, jnp.int32)))
    P = A_inverse - product(series, Z.T)
    S = series * scale
    # Φ_qᵀ W = M S. The geometric series of W itself cancels seven digits, and grows along redundant rows.
    W = product(S.T, product(M, S))
    return KKTInverse(P, S, W)


@kkt_inverse.defjvp
def _kkt_inverse_jvp(primals, tangents):
    # d(K⁺) = −K⁺ dK K⁺; with redundant rows this leaves out how their null space turns, which neither accelerations nor
    # reaction forces Φ_qᵀ λ feel.
    inverse = kkt_inverse(*primals)
    P, S, W = inverse
    t_M, t_Phi_q, *_ = tangents
    t_PM = P @ t_M + S @ t_Phi_q
    t_SM = S.T @ t_M - W @ t_Phi_q
    P_Phi = P @ t_Phi_q.T
    S_Phi = S.T @ t_Phi_q.T
    t_P = -(t_PM @ P + P_Phi @ S.T)
    t_S = -(t_PM @ S - P_Phi @ W)
    t_W = t_SM @ S - S_Phi @ W
    return inverse, KKTInverse(t_P, t_S, t_W)


@jax.custom_jvp
def right_inverse(J: Float[Array, "m nv"], sizes: Velocities) -> Float[Array, "nv m"]:
    """S with S b the x of J x = b that is least by sizes, also next to poses where J loses a rank.

    Redundant rows are met in the least-squares sense.

    Args:
        J: The matrix.
        sizes: Size of each of x.
    """
    J = J * sizes
    norms = row_norms(J)
    J = J / norms[:, None]
    S = kkt_inverse(jnp.eye(J.shape[1], dtype=J.dtype), J).S

    # The series is good to ten digits, but where rows fade to none; every step squares what is left.
    def step(state):
        S, _, k = state
        change = S - product(S, product(J, S))
        return S + change, jnp.max(jnp.abs(change)) > _NEARLY * jnp.max(jnp.abs(S)), k + 1

    more = lambda state: state[1] & (state[2] < _SQUARINGS)
    return sizes[:, None] * jax.lax.while_loop(more, step, (S, jnp.asarray(True), jnp.asarray(0)))[0] / norms


@right_inverse.defjvp
def _right_inverse_jvp(primals, tangents):
    # As of the KKT matrix with M = 1/sizes²; the sizes are no variables.
    J, sizes = primals
    S = right_inverse(J, sizes)
    W = product(S.T / sizes**2, S)
    t_J = tangents[0]
    across = (t_J * sizes**2).T
    return S, -product(S, product(t_J, S)) + product(across - product(S, product(J, across)), W)


@jax.custom_jvp
def solve_kkt(
    M: Float[Array, "nv nv"],
    Phi_q: Float[Array, "m nv"],
    Q: Velocities,
    c: Float[Array, " m"],
    sizes: Sizes = None,
    rows: RowSizes = None,
) -> tuple[Velocities, Float[Array, " m"]]:
    """(ddq, λ) of [M Φ_qᵀ; Φ_q 0] [ddq; λ] = [Q; c], of least norm with rows of unit length. [Blanco21] eq. (5)"""
    return refined(kkt_inverse(M, Phi_q, sizes, rows), M, Phi_q, Q, c)


@solve_kkt.defjvp
def _solve_kkt_jvp(primals, tangents):
    # One more solve with the same matrix: nv + m numbers a tangent instead of the (nv + m)² of d(K⁺).
    # ∂q̈/∂Q = P is [Blanco21] eq. (47), its rows of z eq. (50). Eq. (48) puts zeros into the others, as if a motor moved
    # no coordinate but its own; the constraints carry them along.
    M, Phi_q, Q, c, *sizes = primals
    t_M, t_Phi_q, t_Q, t_c, *_ = tangents
    inverse = kkt_inverse(M, Phi_q, *sizes)
    P, S, W = inverse
    ddq, lambda_ = refined(inverse, M, Phi_q, Q, c)
    t_Q = t_Q - t_M @ ddq - lambda_ @ t_Phi_q
    t_c = t_c - t_Phi_q @ ddq
    return (ddq, lambda_), (P @ t_Q + S @ t_c, t_Q @ S - W @ t_c)


def refined(
    inverse: KKTInverse,
    M: Float[Array, "nv nv"],
    Phi_q: Float[Array, "m nv"],
    Q: Velocities,
    c: Float[Array, " m"],
) -> tuple[Velocities, Float[Array, " m"]]:
    """The solution, and once more the solution for what it leaves of the right-hand side: exact to rounding."""
    P, S, W = inverse

    def solve(Q, c):
        return applied(P, Q) + applied(S, c), applied(S.T, Q) - applied(W, c)

    ddq, lambda_ = solve(Q, c)
    left = solve(Q - applied(M, ddq) - applied(Phi_q.T, lambda_), c - applied(Phi_q, ddq))
    return ddq + left[0], lambda_ + left[1]


def spd_inverse(A: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Inverse of a positive definite matrix by Gauss–Jordan steps.

    Plain arithmetic, which batches over steps as it is. On a CPU of two cores two batched LAPACK calls at once can wait
    for each other forever (jaxlib 0.10).
    """
    return _swept(A, A.shape[0])


def spd_solve(A: Float[Array, "n n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """A⁻¹ b of a positive definite matrix, as `spd_inverse`; more exact than the inverse where A is nearly singular."""
    bordered = jnp.concatenate([jnp.concatenate([A, b[None]]), jnp.append(b, 0.0)[:, None]], axis=1)
    return _swept(bordered, A.shape[0])[1:, 0]


def _swept(A, steps):
    """A after Gauss–Jordan steps with its first pivots, which are then its last rows and columns."""

    def eliminate(_, A):
        # The pivot is the first; then rows and columns move up, so that after n steps all are where they were.
        pivot, row, column = A[0, 0], A[0, 1:] / A[0, 0], A[1:, 0]
        rest = jnp.concatenate([A[1:, 1:] - jnp.outer(column, row), -column[:, None] / pivot], axis=1)
        return jnp.concatenate([rest, jnp.append(row, 1 / pivot)[None]])

    return jax.lax.fori_loop(0, steps, eliminate, A)


def product(A: Float[Array, "rows k"], B: Float[Array, "k columns"]) -> Float[Array, "rows columns"]:
    """A B, small ones as a sum of outer products.

    A and B are cut, not their products: in a batch those would be written down, which takes half as long again.
    """
    if not 0 < A.shape[1] <= _WRITTEN_OUT:
        return A @ B
    k = A.shape[1]
    pairs = zip(jax.lax.split(A, [1] * k, axis=1), jax.lax.split(B, [1] * k, axis=0), strict=True)
    return reduce(jax.lax.add, (a * b for a, b in pairs))


def applied(A: Float[Array, "rows k"], x: Float[Array, " k"]) -> Float[Array, " rows"]:
    """A x, short ones as a sum of columns: in a batch a call of the matrix library costs more than its arithmetic."""
    if not 0 < A.shape[1] <= _WRITTEN_OUT:
        return A @ x
    k = A.shape[1]
    pairs = zip(jax.lax.split(A, [1] * k, axis=1), jax.lax.split(x, [1] * k), strict=True)
    return jax.lax.squeeze(reduce(jax.lax.add, (a * b for a, b in pairs)), (1,))


def whitener(cov: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower triangular W with WᵀW = cov⁻¹, in plain arithmetic; NaN where cov is not positive definite."""
    n = cov.shape[0]

    def eliminate(k, rows):
        row = rows[k] / jnp.sqrt(rows[k, k])
        below = jnp.where(jnp.arange(n) > k, rows[:, k] / jnp.sqrt(rows[k, k]), 0.0)
        return (rows - jnp.outer(below, row)).at[k].set(row)

    rows = jnp.concatenate([cov, jnp.eye(n, dtype=cov.dtype)], axis=1)
    return jax.lax.fori_loop(0, n, eliminate, rows, unroll=n <= _UNROLL)[:, n:]
