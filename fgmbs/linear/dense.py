"""Dense Cholesky: the reference for tests, and for tiny problems."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear.blocks import Damped, Globals, LeastSquares, Steps
from fgmbs.linear.bounds import Margins, bounded_least_squares
from fgmbs.linear.covariance import Marginals
from fgmbs.linear.factorization import Factorization
from fgmbs.linear.kernels import cholesky, gram, solve_triangular
from fgmbs.linear.triangle import AbstractFactor, beside


class DenseFactor(AbstractFactor):
    """The factor L of A = L Lᵀ and the gradient Jᵀr."""

    lower: Float[Array, "size size"]
    gradient_steps: Steps
    gradient_globals: Globals

    def minimizer(self) -> tuple[Steps, Globals]:
        return self.solve(-self.gradient_steps, -self.gradient_globals)

    def minimizer_within(self, lower: Globals, upper: Globals, margins: Margins | None = None) -> tuple[Steps, Globals]:
        first = self.gradient_steps.size
        right = -jnp.concatenate([self.gradient_steps.ravel(), self.gradient_globals])
        right = solve_triangular(self.lower, right)
        globals = bounded_least_squares(self.lower[first:, first:].T, right[first:], lower, upper, margins)
        return beside(self.lower, right, globals).reshape(self.gradient_steps.shape), globals

    def solve(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        y = solve_triangular(self.lower, jnp.concatenate([steps.ravel(), globals]))
        x = solve_triangular(self.lower, y, transpose=True)
        return x[: steps.size].reshape(steps.shape), x[steps.size :]

    def marginals(self) -> Marginals:
        *lead, nx = self.gradient_steps.shape
        count = math.prod(lead)
        cov = gram(solve_triangular(self.lower, jnp.eye(self.lower.shape[0], dtype=self.lower.dtype)))
        blocks = cov[: count * nx, : count * nx].reshape(count, nx, count, nx)
        cross = cov[count * nx :, : count * nx].reshape(-1, *lead, nx)
        k = jnp.arange(count).reshape(lead)
        pairs = blocks[k[..., 1:], :, k[..., :-1]]
        return Marginals(blocks[k, :, k], pairs, cov[count * nx :, count * nx :], jnp.moveaxis(cross, 0, -2))

    def diagonal(self) -> Float[Array, " size"]:
        return jnp.diagonal(self.lower)


def factorize(system: LeastSquares, damping_steps: Steps, damping_globals: Globals) -> Factorization:
    """Cholesky factorization of the full JᵀJ + D."""
    problem = Damped(system, damping_steps, damping_globals)
    lower = cholesky(jax.lax.stop_gradient(problem).information().to_dense())
    return Factorization(problem, DenseFactor(lower, *system.gradient()))
