"""Block Cholesky, one step after the other."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from fgmbs.linear.blocks import BlockTridiagonal, Damped, Globals, LeastSquares, Steps
from fgmbs.linear.factorization import Factorization
from fgmbs.linear.joint import JointTriangle, cholesky_factor
from fgmbs.linear.kernels import cholesky, diagonal_matrix, gram, scan, solve_triangular
from fgmbs.linear.triangle import Triangle


def factorize(system: LeastSquares, damping_steps: Steps, damping_globals: Globals) -> Factorization:
    """Cholesky factorization of JᵀJ + D, assembled as it goes: JᵀJ is never stored.

    The past is carried as the normal equations of (x_k, globals, 1) that it leaves behind.
    """
    problem = Damped(system, damping_steps, damping_globals)
    factor = _joint_triangle if system.joint else _triangle
    return Factorization(problem, factor(jax.lax.stop_gradient(problem)))


def factorize_matrix(matrix: BlockTridiagonal) -> Factorization:
    """Cholesky factorization of a given matrix; its minimizer, of ½ δᵀ A δ, is zero."""
    return Factorization(matrix, cholesky_factor(jax.lax.stop_gradient(matrix)))


def _triangle(problem: Damped) -> Triangle:
    *steps, normal = _eliminate_steps(problem)
    last_pivot = cholesky(normal[:-1, :-1])
    return Triangle(*steps, last_pivot, solve_triangular(last_pivot, -normal[:-1, -1]))


def _joint_triangle(problem: Damped) -> JointTriangle:
    system = problem.system
    normal = gram(jnp.column_stack([system.global_jacobian, system.global_residual]))
    return JointTriangle.of_normal(*problem.each(_eliminate_steps), normal + diagonal_matrix(problem.globals, 1))


def _eliminate_steps(problem: Damped) -> tuple[Array, Array, Array, Array]:
    """(pivots, couplings, right, what is left: the normal equations of the last step, the globals and 1)."""
    system, damping_steps, damping_globals = problem.system, problem.steps, problem.globals
    nx, p = system.step_size, system.num_globals

    def eliminate(normal, rows):
        pair, step, damping = rows
        full = gram(jnp.column_stack(pair))
        L = cholesky(full[:nx, :nx] + normal[:nx, :nx])
        X = solve_triangular(L, full[:nx, nx:] + jnp.pad(normal[:nx, nx:], ((0, 0), (nx, 0))))
        normal = full[nx:, nx:] + jnp.pad(normal[nx:, nx:], ((nx, 0), (nx, 0))) - gram(X)
        normal += gram(jnp.column_stack(step)) + diagonal_matrix(damping, p + 1)
        return normal, (L, X[:, :-1], -X[:, -1])

    normal = gram(jnp.concatenate([jnp.column_stack(rows) for rows in system.first_rows()]))
    normal += diagonal_matrix(jnp.concatenate([damping_steps[0], damping_globals]), 1)
    pairs = (system.pair_start, system.pair_end, system.pair_arrow, system.pair_residual)
    steps = (system.step_jacobian[1:], system.step_arrow[1:], system.step_residual[1:])
    normal, (pivots, couplings, right) = scan(eliminate, normal, (pairs, steps, damping_steps[1:]))
    return pivots, couplings, right, normal
