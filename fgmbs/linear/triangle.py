"""The triangular factor of a time graph and its substitutions."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear.blocks import BlockTridiagonal, Globals, Steps
from fgmbs.linear.bounds import Margins, bounded_least_squares
from fgmbs.linear.covariance import Marginals, marginals
from fgmbs.linear.kernels import cholesky, gram, scan, solve_triangular


class AbstractFactor(eqx.Module):
    """Some triangular factor L of A = L Lᵀ, with what the method needs to find the minimizer."""

    @abc.abstractmethod
    def minimizer(self) -> tuple[Steps, Globals]:
        """argmin ½‖J δ + r‖² + ½ δᵀ D δ."""

    @abc.abstractmethod
    def minimizer_within(self, lower: Globals, upper: Globals, margins: Margins | None = None) -> tuple[Steps, Globals]:
        """The same with bounds on the globals, between which 0 must be, and margins that must not be negative."""

    @abc.abstractmethod
    def solve(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        """A⁻¹ (steps, globals)."""

    @abc.abstractmethod
    def marginals(self) -> Marginals:
        """The blocks of A⁻¹ within the pattern of A."""

    @abc.abstractmethod
    def diagonal(self) -> Float[Array, " size"]:
        """The diagonal of L, of any sign."""


class Triangle(AbstractFactor):
    """The factor L of A = L Lᵀ by block rows of Lᵀ; the last step and the globals share the last row.

    pivots[k]ᵀ x_k + couplings[k] (x_{k+1}, globals) = right[k],    last_pivotᵀ (x_{T-1}, globals) = last_right.
    """

    pivots: Float[Array, "rows nx nx"]
    """Lower triangular, for the T−1 steps before the last."""
    couplings: Float[Array, "rows nx wide"]
    right: Float[Array, "rows nx"]
    last_pivot: Float[Array, "wide wide"]
    """Lower triangular, of size wide = nx + p."""
    last_right: Float[Array, " wide"]

    @classmethod
    def of(cls, matrix: BlockTridiagonal) -> "Triangle":
        """The Cholesky factor of a matrix; of right-hand sides it has none."""
        pivots, couplings, schur = eliminate_steps(matrix)
        zeros = jnp.zeros((pivots.shape[0] + 1, schur.shape[0]), pivots.dtype)
        return cls(pivots, couplings, zeros[1:, : pivots.shape[-1]], cholesky(schur), zeros[0])

    def minimizer(self) -> tuple[Steps, Globals]:
        return self.solve_upper(self.right, self.last_right)

    def minimizer_within(self, lower: Globals, upper: Globals, margins: Margins | None = None) -> tuple[Steps, Globals]:
        globals = bounded_least_squares(*self.of_globals(), lower, upper, margins)
        return self.minimizer_at(globals), globals

    def minimizer_at(self, globals: Globals) -> Steps:
        """The steps that are best with these globals."""
        last = beside(self.last_pivot, self.last_right, globals)
        return self._substitute(self.right, jnp.concatenate([last, globals]))[0]

    def of_globals(self) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
        """(U, u): the last rows, U globals = u, are those of the globals alone, a factor of their Schur complement."""
        nx = self.right.shape[-1]
        return self.last_pivot[nx:, nx:].T, self.last_right[nx:]

    def solve(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        return self.solve_upper(*self.solve_lower(steps, globals))

    def marginals(self) -> Marginals:
        return marginals(self.pivots, self.couplings, self.last_pivot)

    def last_covariance(self) -> Float[Array, "wide wide"]:
        """Covariance of the last step and the globals."""
        identity = jnp.eye(self.last_pivot.shape[0], dtype=self.last_pivot.dtype)
        return gram(solve_triangular(self.last_pivot, identity))

    def diagonal(self) -> Float[Array, " size"]:
        inner = jnp.diagonal(self.pivots, axis1=1, axis2=2)
        return jnp.concatenate([inner.ravel(), jnp.diagonal(self.last_pivot)])

    def solve_lower(self, steps: Steps, globals: Globals) -> tuple[Float[Array, "rows nx"], Float[Array, " wide"]]:
        """(right, last_right) with which the minimizer is A⁻¹ (steps, globals)."""
        nx = steps.shape[1]

        def substitute(b, row):
            pivot, coupling, b_next = row
            y = solve_triangular(pivot, b[:nx])
            return jnp.concatenate([b_next, b[nx:]]) - y @ coupling, y

        b = jnp.concatenate([steps[0], globals])
        b, right = scan(substitute, b, (self.pivots, self.couplings, steps[1:]))
        return right, solve_triangular(self.last_pivot, b)

    def solve_upper(self, right: Float[Array, "rows nx"], last_right: Float[Array, " wide"]) -> tuple[Steps, Globals]:
        """The minimizer with these right-hand sides."""
        return self._substitute(right, solve_triangular(self.last_pivot, last_right, transpose=True))

    def _substitute(self, right: Float[Array, "rows nx"], x: Float[Array, " wide"]) -> tuple[Steps, Globals]:
        """All steps from the last one and the globals."""
        nx = right.shape[1]

        def substitute(x, row):
            pivot, coupling, y = row
            x_k = solve_triangular(pivot, y - coupling @ x, transpose=True)
            return jnp.concatenate([x_k, x[nx:]]), x_k

        _, steps = scan(substitute, x, (self.pivots, self.couplings, right), reverse=True)
        return jnp.concatenate([steps, x[None, :nx]]), x[nx:]


def eliminate_steps(
    matrix: BlockTridiagonal,
) -> tuple[Float[Array, "rows nx nx"], Float[Array, "rows nx wide"], Float[Array, "wide wide"]]:
    """(pivots, couplings, what is left for the last step and the globals) of a matrix."""
    nx = matrix.diagonal.shape[-1]

    def eliminate(schur, blocks):
        lower, diagonal, arrow = blocks
        L = cholesky(schur[:nx, :nx])
        X = solve_triangular(L, jnp.concatenate([lower.T, schur[:nx, nx:]], axis=1))
        schur = jnp.block([[diagonal, arrow.T], [arrow, schur[nx:, nx:]]]) - gram(X)
        return schur, (L, X)

    arrow = matrix.arrow[0]
    schur = jnp.block([[matrix.diagonal[0], arrow.T], [arrow, matrix.corner]])
    schur, (pivots, couplings) = scan(eliminate, schur, (matrix.lower, matrix.diagonal[1:], matrix.arrow[1:]))
    return pivots, couplings, schur


def beside(
    lower: Float[Array, "size size"], right: Float[Array, " size"], globals: Globals
) -> Float[Array, " size_minus_p"]:
    """What comes before the globals in the solution of lowerᵀ x = right, in place of whose last numbers they stand."""
    rest = right.shape[0] - globals.shape[0]
    return solve_triangular(lower[:rest, :rest], right[:rest] - globals @ lower[rest:, :rest], transpose=True)
