"""Block Cholesky, one step after the other."""

import jax.numpy as jnp

from fgmbs.linear.blocks import BlockTridiagonal, Damped, Globals, LeastSquares, Steps
from fgmbs.linear.factorization import Factorization
from fgmbs.linear.kernels import cholesky, diagonal_matrix, gram, scan, solve_triangular
from fgmbs.linear.triangle import Triangle


def factorize(system: LeastSquares, damping_steps: Steps, damping_globals: Globals) -> Factorization:
    """Cholesky factorization of JᵀJ + D, assembled as it goes: JᵀJ is never stored.

    The past is carried as the normal equations of (x_k, globals, 1) that it leaves behind.
    """
    nx, p = system.step_size, system.num_globals

    def eliminate(normal, rows):
        pair, step, damping = rows
        full = gram(jnp.column_stack(pair))
        L = cholesky(full[:nx, :nx] + normal[:nx, :nx])
        X = solve_triangular(L, full[:nx, nx:].at[:, nx:].add(normal[:nx, nx:]))
        normal = full[nx:, nx:].at[nx:, nx:].add(normal[nx:, nx:]) - gram(X)
        normal += gram(jnp.column_stack(step)) + diagonal_matrix(damping, p + 1)
        return normal, (L, X[:, :-1], -X[:, -1])

    normal = gram(jnp.concatenate([jnp.column_stack(rows) for rows in system.first_rows()]))
    normal += diagonal_matrix(jnp.concatenate([damping_steps[0], damping_globals]), 1)
    pairs = (system.pair_start, system.pair_end, system.pair_arrow, system.pair_residual)
    steps = (system.step_jacobian[1:], system.step_arrow[1:], system.step_residual[1:])
    normal, (pivots, couplings, right) = scan(eliminate, normal, (pairs, steps, damping_steps[1:]))
    last_pivot = cholesky(normal[:-1, :-1])
    last_right = solve_triangular(last_pivot, -normal[:-1, -1])
    triangle = Triangle(pivots, couplings, right, last_pivot, last_right)
    return Factorization(Damped(system, damping_steps, damping_globals), triangle)


def factorize_matrix(matrix: BlockTridiagonal) -> Factorization:
    """Cholesky factorization of a given matrix; its minimizer, of ½ δᵀ A δ, is zero."""
    _, p, nx = matrix.arrow.shape

    def eliminate(schur, blocks):
        lower, diagonal, arrow = blocks
        L = cholesky(schur[:nx, :nx])
        X = solve_triangular(L, jnp.concatenate([lower.T, schur[:nx, nx:]], axis=1))
        schur = jnp.block([[diagonal, arrow.T], [arrow, schur[nx:, nx:]]]) - gram(X)
        return schur, (L, X)

    arrow = matrix.arrow[0]
    schur = jnp.block([[matrix.diagonal[0], arrow.T], [arrow, matrix.corner]])
    schur, (pivots, couplings) = scan(eliminate, schur, (matrix.lower, matrix.diagonal[1:], matrix.arrow[1:]))
    zeros = jnp.zeros((pivots.shape[0] + 1, nx + p), pivots.dtype)
    return Factorization(matrix, Triangle(pivots, couplings, zeros[1:, :nx], cholesky(schur), zeros[0]))
