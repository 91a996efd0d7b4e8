"""Block QR of the whitened rows: the condition number of J is never squared."""

from operator import itemgetter

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear.blocks import Damped, Globals, LeastSquares, Steps
from fgmbs.linear.factorization import Factorization
from fgmbs.linear.joint import JointTriangle
from fgmbs.linear.kernels import diagonal_matrix, scan, solve_triangular
from fgmbs.linear.triangle import Triangle


def factorize(system: LeastSquares, damping_steps: Steps, damping_globals: Globals) -> Factorization:
    """QR factorization of [J; √D | r].

    The past is carried as the rows on (x_k, globals, 1) that it leaves behind.
    """
    problem = Damped(system, damping_steps, damping_globals)
    factor = _joint_triangle if system.joint else _triangle
    return Factorization(problem, factor(jax.lax.stop_gradient(problem)))


def marginalize_first(
    factorization: Factorization,
) -> tuple[Float[Array, "wide wide"], Float[Array, " wide"], Float[Array, ""]]:
    """The prior ½‖S (x_1, globals) + s‖² that step 0 leaves behind with all rows on it and on the globals alone.

    A QR factorization, of two steps or more and without damping, has found it on its way. Directions of which those
    rows say nothing are in the null space of S; step 0 must be determined by them. S and s are unique up to a rotation:
    so are their derivatives, of which there are first ones only; those of SᵀS and Sᵀs are exact as long as the null
    space of S stays where it is.

    Returns:
        (S, s, rho): square-root information, of size wide = nx + p, residual, and what no increment lowers: those rows
        cost ½rho² more than the prior.
    """
    problem, factor = factorization.problem, factorization.factor
    assert isinstance(problem, Damped)
    if not isinstance(factor, QRTriangle):
        factor = _triangle(jax.lax.stop_gradient(problem))
    prior = _left_behind(problem.system, factor.left)
    return prior[:-1, :-1], prior[:-1, -1], prior[-1, -1]


def unfollowed(system: LeastSquares, count: int) -> tuple[Float[Array, " count"], Float[Array, " count"]]:
    """What is left of the columns of the last globals where the steps and the other globals follow them as far as they
    can: its square, and its product with what they leave of the residuals.

    So much each of these globals would be known by if it were the only one that is unknown beside the others. The rows
    of a step that are left are summed up, not carried on: the work is linear in the number of such globals.
    """
    p = system.num_globals - count
    of_one = lambda system: _unfollowed_by_steps(system, p)
    if not system.joint:
        left, sums = of_one(system)
    else:
        left, sums = jax.vmap(of_one)(system.each())
        alone = jnp.column_stack([system.global_jacobian, system.global_residual])
        left, sums = jnp.concatenate([left.reshape(-1, left.shape[-1]), alone]), jnp.sum(sums, axis=0)
    squares, products = sums + _followed(left, p)[1]
    return squares, products


def _unfollowed_by_steps(system: LeastSquares, p: int):
    """(rows on (globals, 1) that the steps do not follow and the first p globals may, sums over those that are left
    without either)."""
    nx = system.step_size

    def advance(state, rows):
        past, sums = state
        pair, step = rows
        rows, more = _followed(_overlap(past, pair, nx), 2 * nx + p)
        return (jnp.concatenate([rows[nx:, nx:], jnp.column_stack(step)]), sums + more), None

    first = jnp.concatenate([jnp.column_stack(rows) for rows in system.first_rows()])
    past, sums = _followed(first, nx + p)
    past = _pad_rows(past, past.shape[0] + system.step_residual.shape[1])
    pairs = (system.pair_start, system.pair_end, system.pair_arrow, system.pair_residual)
    steps = (system.step_jacobian[1:], system.step_arrow[1:], system.step_residual[1:])
    (past, sums), _ = scan(advance, (past, sums), (pairs, steps))
    rows, more = _followed(past, nx + p)
    return rows[nx:, nx:], sums + more


def _followed(rows: Float[Array, "rows columns"], size: int) -> tuple[Array, Float[Array, "2 others"]]:
    """(R of the first `size` columns with what it makes of the others, sums over the rows below it: the squares of
    these others but the last, which is the residual, and their products with it)."""
    rows = jnp.linalg.qr(_sort_rows(rows, size, size), mode="r")
    below = rows[size:, size:]
    return rows[:size], jnp.stack([jnp.sum(below[:, :-1] ** 2, axis=0), below[:, -1] @ below[:, :-1]])


class QRTriangle(Triangle):
    """The triangle that a QR factorization leaves."""

    left: Float[Array, "wide_1 wide_1"]
    """Rows on (x_1, globals, 1) that step 0 leaves behind; on (x_0, globals, 1) of a system of one step."""


def _triangle(problem: Damped) -> QRTriangle:
    system = problem.system
    nx, p = system.step_size, system.num_globals
    wide = nx + p
    num_rows = wide + system.step_residual.shape[1] + nx
    damping_steps, damping_globals = jnp.sqrt(problem.steps), jnp.sqrt(problem.globals)

    def eliminate(past, pair):
        R = _triangularize(_overlap(past, pair, nx))
        return R[nx:, nx:], (R[:nx, :nx].T, R[:nx, nx:-1], -R[:nx, -1])

    def taken_in(left, rows):
        step, damping = rows
        return jnp.concatenate([left[:-1], jnp.column_stack(step), diagonal_matrix(damping, p + 1)[:nx]])

    def advance(past, rows):
        left, eliminated = eliminate(past, rows[0])
        return taken_in(left, rows[1]), eliminated

    first = [jnp.column_stack(rows) for rows in system.first_rows()]
    first = jnp.concatenate([*first, diagonal_matrix(jnp.concatenate([damping_steps[0], damping_globals]), 1)[:wide]])
    if first.shape[0] > num_rows:
        first = _triangularize(first)
    past = _pad_rows(first, num_rows)
    pairs = (system.pair_start, system.pair_end, system.pair_arrow, system.pair_residual)
    steps = (system.step_jacobian[1:], system.step_arrow[1:], system.step_residual[1:])
    rows = (pairs, (steps, damping_steps[1:]))
    if system.num_steps > 1:
        # Step 0 apart: what it leaves behind is asked for.
        left, eliminated = eliminate(past, jax.tree.map(itemgetter(0), pairs))
        past = taken_in(left, jax.tree.map(itemgetter(0), rows[1]))
        past, others = scan(advance, past, jax.tree.map(itemgetter(slice(1, None)), rows))
        eliminated = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), eliminated, others)
        R = _triangularize(past)
    else:
        _, eliminated = scan(advance, past, rows)
        R = left = _triangularize(past)
    return QRTriangle(*eliminated, R[:wide, :wide].T, -R[:wide, -1], left)


def _joint_triangle(problem: Damped) -> JointTriangle:
    """What each recording leaves for the globals, which it need not determine, and the rows on them alone: one QR."""
    system, p = problem.system, problem.system.num_globals
    each = problem.each(_triangle)
    if p == 0:
        return JointTriangle(each)
    U, u = jax.vmap(Triangle.of_globals)(each)
    left = jnp.concatenate([U, -u[..., None]], axis=-1).reshape(-1, p + 1)
    alone = jnp.column_stack([system.global_jacobian, system.global_residual])
    R = _triangularize(jnp.concatenate([left, alone, diagonal_matrix(jnp.sqrt(problem.globals), 1)[:p]]))
    return JointTriangle.completed(each, R[:p, :p].T, -R[:p, -1])


def _overlap(past, pair, nx):
    """Rows on (x_k, x_{k+1}, globals, 1): those of the past, which do not touch x_{k+1}, and those of the pair."""
    past = jnp.concatenate([past[:, :nx], jnp.zeros((past.shape[0], nx), past.dtype), past[:, nx:]], axis=1)
    return jnp.concatenate([past, jnp.column_stack(pair)])


def _triangularize(rows: Float[Array, "rows columns"]) -> Float[Array, "columns columns"]:
    """R of the QR factorization."""
    return jnp.linalg.qr(_sort_rows(rows, -1, rows.shape[1]), mode="r")


def _sort_rows(rows: Float[Array, "rows columns"], size: int, count: int) -> Float[Array, "more columns"]:
    """The rows, heaviest first in the first `size` columns, at least `count`.

    With that order Householder reflections are stable row by row (Powell and Reid 1969; Cox and Higham 1998): weights
    twelve orders of magnitude apart cost no digits.
    """
    weights = jnp.max(jnp.abs(rows[:, :size]), axis=1, initial=0.0)
    return _pad_rows(rows[jnp.argsort(-jax.lax.stop_gradient(weights))], count)


def _pad_rows(rows: Float[Array, "rows columns"], count: int) -> Float[Array, "more columns"]:
    return jnp.pad(rows, ((0, max(0, count - rows.shape[0])), (0, 0)))


@jax.custom_jvp
def _left_behind(system: LeastSquares, left: Float[Array, "wide_1 wide_1"]) -> Float[Array, "wide_1 wide_1"]:
    """`left`, as a function of the system; the last column is the residual."""
    del system
    return left


@_left_behind.defjvp
def _left_behind_jvp(primals, tangents):
    size = primals[0].step_size
    rows, t_rows = jax.jvp(_first_rows, primals[:1], tangents[:1])
    Q, triangle = _orthonormalize(rows)
    # Signs of rows depend on the order of elimination: value and tangent are of one.
    R, C, left, rho = triangle[:size, :size], triangle[:size, size:], triangle[size:, size:], triangle[-1, -1]
    # With rows = Q₁ [R C] + Q₂ [0 rest], d rest = Q₂ᵀ (d rows − d rows₁ R⁻¹ C) up to a rotation: rest⁻¹ is not needed.
    t_rest = Q[:, size:].T @ (t_rows[:, size:] - t_rows[:, :size] @ solve_triangular(R.T, C, transpose=True))
    # The last row holds only the remaining residual rho: turn the rest of its tangent into the other rows.
    turn = jnp.linalg.pinv(left[:-1, :-1]).T @ t_rest[-1, :-1]
    t_rest = t_rest.at[:-1, -1].add(rho * turn).at[-1, -1].add(-turn @ left[:-1, -1])
    return left, t_rest.at[-1, :-1].set(0.0)


def _first_rows(system: LeastSquares) -> Float[Array, "rows columns"]:
    """All rows on step 0 or the globals alone, and between steps 0 and 1."""
    past = jnp.concatenate([jnp.column_stack(rows) for rows in system.first_rows()])
    pair = (system.pair_start[0], system.pair_end[0], system.pair_arrow[0], system.pair_residual[0])
    rows = _overlap(past, pair, system.step_size)
    return _sort_rows(rows, -1, rows.shape[1])


@jax.custom_jvp
def _orthonormalize(rows):
    return jax.lax.linalg.qr(rows, full_matrices=False)


@_orthonormalize.defjvp
def _orthonormalize_jvp(primals, tangents):
    raise NotImplementedError("marginalize_first has first derivatives only: a prior of deficient rank has no others")
