"""What a factorized problem answers, and the derivatives of the answers."""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.linear.blocks import BlockTridiagonal, Damped, Globals, Steps
from fgmbs.linear.bounds import Margins
from fgmbs.linear.covariance import Marginals
from fgmbs.linear.joint import cholesky_factor
from fgmbs.linear.triangle import AbstractFactor

Problem: TypeAlias = Damped | BlockTridiagonal


class Factorization(eqx.Module):
    """A factorized problem min ½‖J δ + r‖² + ½ δᵀ D δ with matrix A = JᵀJ + D.

    Derivatives (forward, reverse, any order) do not pass through the factor. Those of a solution are one more solution
    with the same factor, A dx = db − dA x: as accurate, without memory for the way back, and also where the factor
    itself has none. A failed factorization answers NaN; see `finite`.
    """

    problem: Problem
    factor: AbstractFactor

    @property
    def finite(self) -> Bool[Array, ""]:
        """Whether the factorization succeeded: every pivot is a finite number other than zero."""
        pivots = self.factor.diagonal()
        return jnp.all(jnp.isfinite(pivots) & (pivots != 0))

    def minimizer(self) -> tuple[Steps, Globals]:
        """argmin ½‖J δ + r‖² + ½ δᵀ D δ."""
        return _minimizer(self.problem, self.factor)

    def minimizer_within(self, lower: Globals, upper: Globals, margins: Margins | None = None) -> tuple[Steps, Globals]:
        """The same with bounds on the globals, between which 0 must be, and margins, linear functions of them that must
        not be negative; it has no derivatives."""
        return self.factor.minimizer_within(lower, upper, margins)

    def solve(self, b_steps: Steps, b_globals: Globals) -> tuple[Steps, Globals]:
        """x with A x = b; linear in b."""
        return _solve(self.problem, self.factor, (b_steps, b_globals))

    def marginals(self) -> Marginals:
        """The blocks of A⁻¹ within the pattern of A: covariances of steps, neighbouring steps and globals."""
        return _marginals(self.problem, self.factor)

    def log_determinant(self) -> Float[Array, ""]:
        """log det A."""
        return _log_determinant(self.problem, self.factor)


def _solve(problem, factor, b):
    # One vector: the transpose refuses a right-hand side of which only a part varies.
    shape, size, p = b[0].shape, b[0].size, b[1].shape[0]

    def joined(x):
        return jnp.concatenate([x[0].ravel(), x[1]]) if p else x[0].ravel()

    def split(x):
        return x[:size].reshape(shape), x[size:]

    x = jax.lax.custom_linear_solve(
        lambda x: joined(problem.matvec(*split(x))),
        joined(b),
        lambda _, b: joined(factor.solve(*split(b))),
        symmetric=True,
    )
    return split(x)


@jax.custom_jvp
def _minimizer(problem, factor):
    del problem
    return factor.minimizer()


@_minimizer.defjvp
def _minimizer_jvp(primals, tangents):
    problem, factor = primals
    delta = _minimizer(problem, factor)
    # The gradient at the minimizer stays zero: A t_delta + t_gradient = 0.
    _, t_gradient = jax.jvp(lambda problem: problem.gradient(*delta), (problem,), (tangents[0],))
    return delta, _solve(problem, factor, jax.tree.map(jnp.negative, t_gradient))


@jax.custom_jvp
def _marginals(problem, factor):
    del problem
    return factor.marginals()


@_marginals.defjvp
def _marginals_jvp(primals, tangents):
    problem, factor = primals
    # Through the Cholesky factor, which is a smooth function of A; a QR factor is not where rows are of deficient rank.
    _, t_cov = jax.jvp(lambda problem: cholesky_factor(problem.information()).marginals(), (problem,), (tangents[0],))
    return _marginals(problem, factor), t_cov


@jax.custom_jvp
def _log_determinant(problem, factor):
    del problem
    return 2 * jnp.sum(jnp.log(jnp.abs(factor.diagonal())))


@_log_determinant.defjvp
def _log_determinant_jvp(primals, tangents):
    problem, factor = primals
    # d log det A = tr(A⁻¹ dA), where dA meets A⁻¹ within the pattern only.
    _, t_A = jax.jvp(lambda problem: problem.information(), (problem,), (tangents[0],))
    cov = _marginals(problem, factor)
    trace = jnp.vdot(cov.steps, t_A.diagonal) + jnp.vdot(cov.globals, t_A.corner)
    trace += 2 * (jnp.vdot(cov.pairs, t_A.lower) + jnp.vdot(cov.cross, t_A.arrow))
    return _log_determinant(problem, factor), trace
