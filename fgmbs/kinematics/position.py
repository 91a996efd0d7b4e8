"""The position problem: the assembled configuration nearest to a rough start."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fgmbs.algebra.pseudo_inverse import RankFactors, rank_factors, row_norms
from fgmbs.kinematics.base import AbstractKinematics, prepared
from fgmbs.kinematics.closure import close, row_sizes
from fgmbs.status import Status
from fgmbs.typing import Constraints, Coordinates, Scalar

_CLOSE_LIMIT = 150
"""Iterations to close the constraints from one starting point."""
_RECLOSE_LIMIT = 15
"""Iterations to close them again after a step along the closed configurations; a shorter step is tried after that."""
_DAMPING = 1e-3
"""First damping of both: the start may be far away."""
_SAME = 1e4
"""Change of a row by its size that is rounding of whole turns, in units in the last place of the largest coordinate."""
_NEAREST_LIMIT = 50
"""Steps along the closed configurations towards the start."""
_LONGEST_STEP = 0.2
"""Longest of these steps, relative to the largest coordinate: a longer one may end on another branch."""


class PositionInfo(eqx.Module):
    """How a position problem ended."""

    gaps: Constraints
    """What is left of each constraint, |Φ_i| / |∂Φ_i/∂q|: how far q would have to move to close it [m, rad]."""
    given_gaps: Coordinates
    """What is left of each given coordinate, |q_i − value_i|; 0 for the others [m, rad]."""
    iterations: Int[Array, ""]
    status: Status
    """`converged`, `not_assembled`, `non_finite`; `iteration_limit` is assembled, but perhaps not nearest."""

    @property
    def assembled(self) -> Bool[Array, "..."]:
        """Whether all constraints hold and all given coordinates have their values."""
        return (self.status == Status.converged) | (self.status == Status.iteration_limit)


class PositionProblem(eqx.Module):
    """min ½ |q − q_start|² subject to C(q) = [Φ(q, t); q_i − value_i for each given i] = 0.

    All of it with changes v of the coordinates by their sizes.
    """

    mechanism: AbstractKinematics
    q_start: Coordinates
    t: Float[Array, ""]
    given: Coordinates
    """1 for a given coordinate, 0 for the others, whose rows are zero: redundant rows do no harm."""
    values: Coordinates

    def rows(self, q):
        return jnp.concatenate([self.mechanism.constraints(q, self.t), self.given * (q - self.values)])

    @property
    def row_sizes(self):
        return row_sizes(self.mechanism, tuple(range(self.mechanism.n)))

    def rows_along(self, q):
        """v ↦ C(q ⊞ v)."""
        return lambda v: self.rows(self.mechanism.moved(q, v))

    def jacobian(self, q):
        return jax.jacfwd(self.rows_along(q))(self.zero)

    def distance(self, q):
        d = self.mechanism.relative(self.mechanism.local(self.q_start, q))
        return d @ d / 2

    def gradient(self, q):
        return jax.grad(lambda v: self.distance(self.mechanism.moved(q, v)))(self.zero)

    def lagrangian_hessian(self, q, lambda_):
        """∇²(distance + λᵀC): I + Σ λ_i ∇²C_i where the coordinates are a vector space."""
        rows = self.rows_along(q)
        return jax.hessian(lambda v: self.distance(self.mechanism.moved(q, v)) + lambda_ @ rows(v))(self.zero)

    @property
    def zero(self):
        return jnp.zeros(self.mechanism.nv, self.q_start.dtype)

    def scale(self, q):
        """The size that tolerances are relative to."""
        return jnp.maximum(self.mechanism.extent(q), self.mechanism.extent(self.q_start))


def solve_position(
    mechanism: AbstractKinematics,
    q_start: Coordinates,
    t: Scalar = 0.0,
    given_mask: Bool[Array, " n"] | None = None,
    given_values: Coordinates | None = None,
    guess: Coordinates | None = None,
) -> tuple[Coordinates, PositionInfo]:
    """The assembled configuration nearest to a start, as far as a local search finds it.

    Solves min ½ |q − q_start|² subject to Φ(q, t) = 0 ([Blanco21] eq. (1)) and q_i = value_i for the given coordinates,
    metres and radians by their sizes in the mechanism (`local_sizes`): the answer does not depend on units.
    Levenberg–Marquardt closes the constraints by steps near the minimum norm; then Newton steps along the closed
    configurations, each closed again and accepted only if nearer, approach the start. Redundant rows are welcome.

    Compiles, batches and differentiates: derivatives of any order, in forward and reverse mode, with respect to the
    mechanism, `q_start`, `t` and `given_values` come from the optimality conditions, not from the iterations. They mean
    something only where `info.assembled`. Nothing is raised: where the constraints cannot be closed, q is the best
    configuration found.

    Args:
        q_start: Where to start; a given coordinate need not have its value yet [m, rad].
        t: Time [s].
        given_mask: Which coordinates are given; none by default.
        given_values: Values of the given coordinates, anything finite for the others [m, rad].
        guess: Where the search begins, for another local solution; `q_start` by default [m, rad].
    """
    dtype = q_start.dtype
    given = jnp.zeros_like(q_start) if given_mask is None else given_mask.astype(dtype)
    values = q_start if given_values is None else given_values
    problem = PositionProblem(prepared(mechanism), q_start, jnp.asarray(t, dtype), given, values)
    guess = q_start if guess is None else guess
    q, lambda_, info = nearest_closed(jax.lax.stop_gradient(problem), jax.lax.stop_gradient(guess))
    return implicit_nearest(problem, q, lambda_)[0], info


class _Approach(NamedTuple):
    q: Array
    lambda_: Array
    gaps: Array
    step: Array
    radius: Array
    k: Array
    iterations: Array
    closed: Array
    done: Array


def nearest_closed(problem: PositionProblem, q):
    """(q, lambda_, info) of the closed configuration nearest to the start; the first pass closes q itself."""
    eps = float(jnp.finfo(problem.q_start.dtype).eps)

    def body(s):
        first = s.k == 0
        limit = jnp.where(first, _CLOSE_LIMIT, _RECLOSE_LIMIT)
        near = problem.mechanism.moved(s.q, s.step)
        q_trial, closed, k, *_ = close(
            problem.mechanism,
            problem.rows,
            problem.jacobian,
            near,
            row_sizes=problem.row_sizes,
            size=problem.scale(near),
            limit=limit,
            damping=_DAMPING,
        )
        # Near the end the distance changes by less than its rounding, which must not count against a step.
        nearer = problem.distance(q_trial) <= problem.distance(s.q) * (1 + 16 * eps)
        accept = first | (closed & nearer)
        q = jnp.where(first, _unwound(problem, q_trial), jnp.where(accept, q_trial, s.q))

        C_q, gradient = problem.jacobian(q), problem.gradient(q)
        norms = row_norms(C_q, problem.row_sizes)
        factors = rank_factors(C_q / norms[:, None])
        lambda_ = -(factors.pseudo_inverse().T @ gradient) / norms
        hessian = problem.lagrangian_hessian(q, lambda_)
        step = -_null_space_inverse(factors, hessian, convex=True) @ gradient
        length, scale = jnp.linalg.norm(step), problem.scale(q)
        radius = jnp.minimum(jnp.where(accept, 2 * s.radius, s.radius / 4), _LONGEST_STEP * scale)
        step = step * jnp.minimum(1.0, radius / jnp.where(length > 0, length, 1.0))
        still = jnp.minimum(length, radius) <= 1e3 * eps * scale
        closed = jnp.where(first, closed, s.closed)
        return _Approach(
            q,
            lambda_,
            problem.rows(q) / row_norms(problem.mechanism.relative(C_q), problem.row_sizes),
            step,
            radius,
            s.k + 1,
            s.iterations + k,
            closed,
            ~closed | still,
        )

    n_rows, zero = problem.rows(q).shape[0], jnp.asarray(0)
    no_rows = jnp.zeros(n_rows, q.dtype)
    start = _Approach(
        q,
        no_rows,
        no_rows,
        problem.zero,
        jnp.asarray(jnp.inf, q.dtype),
        zero,
        zero,
        jnp.asarray(False),
        jnp.asarray(False),
    )
    end = jax.lax.while_loop(lambda s: ~s.done & (s.k < _NEAREST_LIMIT), body, start)

    finite = jnp.all(jnp.isfinite(end.gaps)) & jnp.all(jnp.isfinite(end.q))
    lambda_ = jnp.where(finite & end.closed, end.lambda_, 0.0)
    status = Status.where(end.done, Status.converged, Status.iteration_limit)
    status = Status.where(end.closed, status, Status.not_assembled)
    status = Status.where(finite, status, Status.non_finite)
    m = n_rows - q.shape[0]
    left = jnp.abs(problem.rows(end.q)[m:])
    return end.q, lambda_, PositionInfo(jnp.abs(end.gaps[:m]), left, end.iterations, status)


def _unwound(problem: PositionProblem, q: Coordinates) -> Coordinates:
    """q less the whole turns by which an angle is away from the start, if all rows are the same without."""
    angles = np.array([unit == "rad" for unit in problem.mechanism.coordinate_units])
    turn = 2 * math.pi
    turns = jnp.where(angles, turn * jnp.round((q - problem.q_start) / turn), 0.0)
    apart = jax.vmap(lambda turns: problem.rows(q - turns))(jnp.diag(turns)) - problem.rows(q)
    rounding = _SAME * float(jnp.finfo(q.dtype).eps) * problem.scale(q)
    same = jnp.max(jnp.abs(apart) / problem.row_sizes, axis=1, initial=0.0) <= rounding
    return q - jnp.where(same, turns, 0.0)


def _null_space_inverse(factors: RankFactors, hessian, *, convex: bool):
    """P (P H P)⁺ P: what the Hessian does to steps that keep the constraints.

    Args:
        convex: Take absolute values of negative curvatures, for a direction of descent.
    """
    P = factors.null_projector()
    w, V = jnp.linalg.eigh(P @ hessian @ P + (jnp.eye(P.shape[0], dtype=P.dtype) - P))
    floor = jnp.asarray(jnp.finfo(w.dtype).eps ** 0.5, w.dtype)
    size = jnp.maximum(jnp.abs(w), floor)
    w = size if convex else jnp.where(w < 0, -size, size)
    return P @ (V / w) @ V.T @ P


@eqx.filter_custom_jvp
def implicit_nearest(problem, q, lambda_):
    """(q, lambda_) with the derivatives of the solution with respect to the problem.

    The optimality conditions ∇distance + C_qᵀ λ = 0, C = 0, differentiated: [H C_qᵀ; C_q 0] [t_v; t_λ] = −[t_g; t_C],
    with the exact Hessian H of the Lagrangian.
    """
    return q, lambda_


@implicit_nearest.def_jvp
def _implicit_nearest_jvp(primals, tangents):
    problem, q, lambda_ = primals
    q, lambda_ = implicit_nearest(problem, q, lambda_)  # so that this rule has derivatives again

    def conditions(problem):
        rows = problem.rows_along(q)

        def lagrangian(v):
            return problem.distance(problem.mechanism.moved(q, v)) + lambda_ @ rows(v)

        return jax.grad(lagrangian)(problem.zero), rows(problem.zero)

    values, t_values = eqx.filter_jvp(conditions, (problem,), (tangents[0],))
    # A None is the tangent of what does not depend on the numbers that vary.
    t_gradient, t_C = (jnp.zeros_like(x) if t is None else t for x, t in zip(values, t_values, strict=True))
    C_q, hessian = problem.jacobian(q), problem.lagrangian_hessian(q, lambda_)
    norms = jax.lax.stop_gradient(row_norms(C_q, problem.row_sizes))
    factors = rank_factors(jax.lax.stop_gradient(C_q) / norms[:, None])
    H = jax.lax.stop_gradient(hessian)
    G = _null_space_inverse(factors, H, convex=False)
    C_q_plus = factors.pseudo_inverse() / norms

    nv = problem.mechanism.nv

    def matvec(x):
        v, lambda_ = x[:nv], x[nv:]
        return jnp.concatenate([hessian @ v + C_q.T @ lambda_, C_q @ v])

    def solve(_, rhs):
        # Null-space method; a symmetric operator for redundant rows too.
        a, b = rhs[:nv], rhs[nv:]
        v = C_q_plus @ b
        v = v + G @ (a - H @ v)
        return jnp.concatenate([v, C_q_plus.T @ (a - H @ v)])

    # One vector, because the transpose of the solve wants all or none of its right-hand sides to vary.
    t_x = jax.lax.custom_linear_solve(matvec, -jnp.concatenate([t_gradient, t_C]), solve, symmetric=True)
    t_v, t_lambda = t_x[:nv], t_x[nv:]
    t_q = jax.jvp(lambda v: problem.mechanism.moved(q, v), (problem.zero,), (t_v,))[1]
    return (q, lambda_), (t_q, t_lambda)
