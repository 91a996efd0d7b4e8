"""Block QR of the whitened rows: the condition number of J is never squared."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear.blocks import Damped, Globals, LeastSquares, Steps
from fgmbs.linear.factorization import Factorization
from fgmbs.linear.kernels import diagonal_matrix, scan, solve_triangular
from fgmbs.linear.triangle import Triangle


def factorize(system: LeastSquares, damping_steps: Steps, damping_globals: Globals) -> Factorization:
    """QR factorization of [J; √D | r].

    The past is carried as the rows on (x_k, globals, 1) that it leaves behind.
    """
    problem = Damped(system, damping_steps, damping_globals)
    return Factorization(problem, _triangle(jax.lax.stop_gradient(problem)))


def marginalize_first(
    system: LeastSquares,
) -> tuple[Float[Array, "wide wide"], Float[Array, " wide"], Float[Array, ""]]:
    """The prior ½‖S (x_1, globals) + s‖² that step 0 leaves behind with its initial, step-0 and pair-0 rows.

    Directions of which those rows say nothing are in the null space of S; step 0 must be determined by them. Rows
    on the globals alone stay with the system. S and s are unique up to a rotation: so are their derivatives, of which
    there are first ones only; those of SᵀS and Sᵀs are exact as long as the null space of S stays where it is.

    Returns:
        (S, s, rho): square-root information, of size wide = nx + p, residual, and what no increment lowers: those rows
        cost ½rho² more than the prior.
    """
    nx = system.step_size
    past = jnp.concatenate([jnp.column_stack(rows) for rows in system.first_rows()[:2]])
    pair = (system.pair_start[0], system.pair_end[0], system.pair_arrow[0], system.pair_residual[0])
    prior = _marginal_rows(_sort_rows(_overlap(past, pair, nx)), nx)
    return prior[:-1, :-1], prior[:-1, -1], prior[-1, -1]


def _triangle(problem: Damped) -> Triangle:
    system = problem.system
    nx, p = system.step_size, system.num_globals
    wide = nx + p
    num_rows = wide + system.step_residual.shape[1] + nx
    damping_steps, damping_globals = jnp.sqrt(problem.steps), jnp.sqrt(problem.globals)

    def eliminate(past, rows):
        pair, step, damping = rows
        R = _triangularize(_overlap(past, pair, nx))
        past = jnp.concatenate([R[nx:-1, nx:], jnp.column_stack(step), diagonal_matrix(damping, p + 1)[:nx]])
        return past, (R[:nx, :nx].T, R[:nx, nx:-1], -R[:nx, -1])

    first = [jnp.column_stack(rows) for rows in system.first_rows()]
    first = jnp.concatenate([*first, diagonal_matrix(jnp.concatenate([damping_steps[0], damping_globals]), 1)[:wide]])
    if first.shape[0] > num_rows:
        first = _triangularize(first)[:wide]
    pairs = (system.pair_start, system.pair_end, system.pair_arrow, system.pair_residual)
    steps = (system.step_jacobian[1:], system.step_arrow[1:], system.step_residual[1:])
    past, (pivots, couplings, right) = scan(eliminate, _pad_rows(first, num_rows), (pairs, steps, damping_steps[1:]))
    R = _triangularize(past)
    return Triangle(pivots, couplings, right, R[:wide, :wide].T, -R[:wide, -1])


def _overlap(past, pair, nx):
    """Rows on (x_k, x_{k+1}, globals, 1): those of the past, which do not touch x_{k+1}, and those of the pair."""
    past = jnp.concatenate([past[:, :nx], jnp.zeros((past.shape[0], nx), past.dtype), past[:, nx:]], axis=1)
    return jnp.concatenate([past, jnp.column_stack(pair)])


def _triangularize(rows: Float[Array, "rows columns"]) -> Float[Array, "columns columns"]:
    """R of the QR factorization."""
    return jnp.linalg.qr(_sort_rows(rows), mode="r")


def _sort_rows(rows: Float[Array, "rows columns"]) -> Float[Array, "more columns"]:
    """The rows, heaviest first, at least as many as columns.

    With that order Householder reflections are stable row by row (Powell and Reid 1969; Cox and Higham 1998): weights
    twelve orders of magnitude apart cost no digits.
    """
    weights = jnp.max(jnp.abs(rows[:, :-1]), axis=1)
    return _pad_rows(rows[jnp.argsort(-jax.lax.stop_gradient(weights))], rows.shape[1])


def _pad_rows(rows: Float[Array, "rows columns"], count: int) -> Float[Array, "more columns"]:
    return jnp.pad(rows, ((0, max(0, count - rows.shape[0])), (0, 0)))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _marginal_rows(rows: Float[Array, "rows columns"], size: int) -> Float[Array, "wide_1 wide_1"]:
    """Rows on the other variables that the first `size` columns leave behind; the last column is the residual."""
    return jnp.linalg.qr(rows, mode="r")[size:, size:]


@_marginal_rows.defjvp
def _marginal_rows_jvp(size, primals, tangents):
    (rows,), (t_rows,) = primals, tangents
    Q, triangle = _orthonormalize(rows)
    R, C, left, rho = triangle[:size, :size], triangle[:size, size:], triangle[size:, size:], triangle[-1, -1]
    # With rows = Q₁ [R C] + Q₂ [0 rest], d rest = Q₂ᵀ (d rows − d rows₁ R⁻¹ C) up to a rotation: rest⁻¹ is not needed.
    t_rest = Q[:, size:].T @ (t_rows[:, size:] - t_rows[:, :size] @ solve_triangular(R.T, C, transpose=True))
    # The last row holds only the remaining residual rho: turn the rest of its tangent into the other rows.
    turn = jnp.linalg.pinv(left[:-1, :-1]).T @ t_rest[-1, :-1]
    t_rest = t_rest.at[:-1, -1].add(rho * turn).at[-1, -1].add(-turn @ left[:-1, -1])
    return left, t_rest.at[-1, :-1].set(0.0)


@jax.custom_jvp
def _orthonormalize(rows):
    return jax.lax.linalg.qr(rows, full_matrices=False)


@_orthonormalize.defjvp
def _orthonormalize_jvp(primals, tangents):
    raise NotImplementedError("marginalize_first has first derivatives only: a prior of deficient rank has no others")
