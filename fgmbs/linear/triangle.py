"""The triangular factor of a time graph and its substitutions."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear import covariance
from fgmbs.linear.blocks import Globals, Steps
from fgmbs.linear.factorization import AbstractFactor
from fgmbs.linear.kernels import scan, solve_triangular


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

    def minimizer(self) -> tuple[Steps, Globals]:
        return self._solve_upper(self.right, self.last_right)

    def solve(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        return self._solve_upper(*self._solve_lower(steps, globals))

    def marginals(self) -> covariance.Marginals:
        return covariance.marginals(self.pivots, self.couplings, self.last_pivot)

    def diagonal(self) -> Float[Array, " size"]:
        inner = jnp.diagonal(self.pivots, axis1=1, axis2=2)
        return jnp.concatenate([inner.ravel(), jnp.diagonal(self.last_pivot)])

    def _solve_lower(self, steps: Steps, globals: Globals) -> tuple[Float[Array, "rows nx"], Float[Array, " wide"]]:
        nx = steps.shape[1]

        def substitute(b, row):
            pivot, coupling, b_next = row
            y = solve_triangular(pivot, b[:nx])
            return jnp.concatenate([b_next, b[nx:]]) - y @ coupling, y

        b = jnp.concatenate([steps[0], globals])
        b, right = scan(substitute, b, (self.pivots, self.couplings, steps[1:]))
        return right, solve_triangular(self.last_pivot, b)

    def _solve_upper(self, right: Float[Array, "rows nx"], last_right: Float[Array, " wide"]) -> tuple[Steps, Globals]:
        nx = right.shape[1]

        def substitute(x, row):
            pivot, coupling, y = row
            x_k = solve_triangular(pivot, y - coupling @ x, transpose=True)
            return jnp.concatenate([x_k, x[nx:]]), x_k

        x = solve_triangular(self.last_pivot, last_right, transpose=True)
        _, steps = scan(substitute, x, (self.pivots, self.couplings, right), reverse=True)
        return jnp.concatenate([steps, x[None, :nx]]), x[nx:]
