"""Block QR of the whitened rows: the condition number of J is never squared."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear.blocks import Damped, Globals, LeastSquares, Steps
from fgmbs.linear.factorization import Factorization
from fgmbs.linear.kernels import diagonal_matrix, scan
from fgmbs.linear.triangle import Triangle


def factorize(system: LeastSquares, damping_steps: Steps, damping_globals: Globals) -> Factorization:
    """QR factorization of [J; √D | r].

    The past is carried as the rows on (x_k, globals, 1) that it leaves behind.
    """
    nx, p = system.step_size, system.num_globals
    wide = nx + p
    sqrt_steps, sqrt_globals = _sqrt(damping_steps), _sqrt(damping_globals)
    num_rows = wide + system.step_residual.shape[1] + nx

    def eliminate(past, rows):
        pair, step, damping = rows
        R, C, rest = _eliminate(_overlap(past, pair, nx), nx)
        past = jnp.concatenate([rest[:wide], jnp.column_stack(step), diagonal_matrix(damping, p + 1)[:nx]])
        return past, (R.T, C[:, :-1], -C[:, -1])

    first = [jnp.column_stack(rows) for rows in system.first_rows()]
    first = jnp.concatenate([*first, diagonal_matrix(jnp.concatenate([sqrt_steps[0], sqrt_globals]), 1)[:wide]])
    if first.shape[0] > num_rows:
        first = _triangularize(first)[:wide]
    pairs = (system.pair_start, system.pair_end, system.pair_arrow, system.pair_residual)
    steps = (system.step_jacobian[1:], system.step_arrow[1:], system.step_residual[1:])
    past, (pivots, couplings, right) = scan(eliminate, _pad_rows(first, num_rows), (pairs, steps, sqrt_steps[1:]))
    R, C, _ = _eliminate(past, wide)
    return Factorization(
        Damped(system, damping_steps, damping_globals), Triangle(pivots, couplings, right, R.T, -C[:, 0])
    )


def marginalize_first(
    system: LeastSquares,
) -> tuple[Float[Array, "wide wide"], Float[Array, " wide"]]:
    """The prior ½‖S (x_1, globals) + s‖² that step 0 leaves behind with its initial, step-0 and pair-0 rows.

    Directions of which those rows say nothing come out as zero rows of S; step 0 itself must be determined by them.
    Rows on the globals alone stay with the system. First derivatives only, and of SᵀS, Sᵀs, sᵀs rather than of S, s,
    which are unique up to a rotation.

    Returns:
        (S, s): square-root information, of size wide = nx + p, and residual.
    """
    nx = system.step_size
    wide = nx + system.num_globals
    past = jnp.concatenate([jnp.column_stack(rows) for rows in system.first_rows()[:2]])
    pair = (system.pair_start[0], system.pair_end[0], system.pair_arrow[0], system.pair_residual[0])
    _, _, rest = _eliminate(_overlap(past, pair, nx), nx)
    prior = rest[:wide]
    return prior[:, :-1], prior[:, -1]


def _overlap(past, pair, nx):
    """Rows on (x_k, x_{k+1}, globals, 1): those of the past, which do not touch x_{k+1}, and those of the pair."""
    past = jnp.concatenate([past[:, :nx], jnp.zeros((past.shape[0], nx), past.dtype), past[:, nx:]], axis=1)
    return jnp.concatenate([past, jnp.column_stack(pair)])


def _eliminate(rows: Float[Array, "rows columns"], size: int) -> tuple[Array, Array, Array]:
    """(R, C, rest) with Qᵀ rows = [R C; 0 rest], R triangular for the first `size` columns, rest triangular too."""
    rows = _pad_rows(rows, rows.shape[1])
    R = _triangularize(rows)
    return R[:size, :size], R[:size, size:], R[size:, size:]


def _triangularize(rows):
    return jnp.linalg.qr(rows, mode="r")


def _pad_rows(rows: Float[Array, "rows columns"], count: int) -> Float[Array, "more columns"]:
    return jnp.pad(rows, ((0, max(0, count - rows.shape[0])), (0, 0)))


def _sqrt(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """√x, with derivative 0 in place of infinity at 0."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1)), 0)
