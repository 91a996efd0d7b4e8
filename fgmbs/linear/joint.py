"""The triangular factor of several recordings that share the globals."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear.blocks import BlockTridiagonal, Globals, Steps
from fgmbs.linear.bounds import Margins, bounded_least_squares
from fgmbs.linear.covariance import Marginals
from fgmbs.linear.kernels import cholesky, gram, solve_triangular
from fgmbs.linear.triangle import AbstractFactor, Triangle, eliminate_steps


class JointTriangle(AbstractFactor):
    """The factor L of A = L Lᵀ: all steps of all recordings first, the globals, which they share, last.

    What each recording leaves for the globals adds up. Its own share may be of deficient rank, and nothing is divided
    by it.
    """

    each: Triangle
    """Of the recordings, along a first axis; the rows of the globals alone are in every one those of all together."""

    @classmethod
    def completed(cls, each: Triangle, lower: Float[Array, "p p"], right: Globals) -> "JointTriangle":
        """Triangles of the recordings with lowerᵀ globals = right in place of the rows on the globals alone."""
        nx = each.right.shape[-1]
        last_pivot = each.last_pivot.at[:, nx:, nx:].set(lower)
        where = lambda each: (each.last_pivot, each.last_right)
        return cls(eqx.tree_at(where, each, (last_pivot, each.last_right.at[:, nx:].set(right))))

    @classmethod
    def of_normal(
        cls,
        pivots: Float[Array, "recordings rows nx nx"],
        couplings: Float[Array, "recordings rows nx wide"],
        right: Float[Array, "recordings rows nx"],
        normal: Float[Array, "recordings wide_1 wide_1"],
        alone: Float[Array, "p_1 p_1"],
    ) -> "JointTriangle":
        """From the normal equations of (last step, globals, 1) that are left of each recording, and those of the
        globals alone."""
        nx = right.shape[-1]

        def eliminate(normal):
            L = cholesky(normal[:nx, :nx])
            X = solve_triangular(L, normal[:nx, nx:])
            return L, X, normal[nx:, nx:] - gram(X)

        last, X, left = jax.vmap(eliminate)(normal)
        alone = alone + jnp.sum(left, axis=0)
        lower = cholesky(alone[:-1, :-1])
        below = jnp.zeros((*normal.shape[:1], *lower.shape), lower.dtype)
        last_pivot = jnp.block([[last, jnp.zeros_like(X[..., :-1])], [X[..., :-1].mT, below]])
        last_right = jnp.concatenate([-X[..., -1], jnp.zeros_like(X[:, 0, :-1])], axis=-1)
        each = eqx.filter_vmap(Triangle)(pivots, couplings, right, last_pivot, last_right)
        return cls.completed(each, lower, solve_triangular(lower, -alone[:-1, -1]))

    def minimizer(self) -> tuple[Steps, Globals]:
        return self._shared(jax.vmap(Triangle.minimizer)(self.each))

    def minimizer_within(self, lower: Globals, upper: Globals, margins: Margins | None = None) -> tuple[Steps, Globals]:
        globals = bounded_least_squares(*self.of_globals(), lower, upper, margins)
        return jax.vmap(Triangle.minimizer_at, (0, None))(self.each, globals), globals

    def solve(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        right, last_right = jax.vmap(Triangle.solve_lower, (0, 0, None))(self.each, steps, jnp.zeros_like(globals))
        # Forward substitution is linear: what the recordings hand over to the globals adds up.
        U, _ = self.of_globals()
        nx = steps.shape[-1]
        handed_over = solve_triangular(U.T, globals) + jnp.sum(last_right[:, nx:], axis=0)
        last_right = last_right.at[:, nx:].set(handed_over)
        return self._shared(jax.vmap(Triangle.solve_upper)(self.each, right, last_right))

    def marginals(self) -> Marginals:
        each = jax.vmap(Triangle.marginals)(self.each)
        return Marginals(each.steps, each.pairs, each.globals[0], each.cross)

    def of_globals(self) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
        """As those of a `Triangle`."""
        return self._first.of_globals()

    def diagonal(self) -> Float[Array, " size"]:
        p = self.of_globals()[1].shape[0]
        diagonal = jax.vmap(Triangle.diagonal)(self.each)
        count = diagonal.shape[-1] - p
        return jnp.concatenate([diagonal[:, :count].ravel(), diagonal[0, count:]])

    @property
    def _first(self) -> Triangle:
        return jax.tree.map(lambda leaf: leaf[0], self.each)

    @staticmethod
    def _shared(found: tuple[Array, Array]) -> tuple[Steps, Globals]:
        """Steps of all recordings, globals of the first; those of the others are the same."""
        return found[0], found[1][0]


def cholesky_factor(matrix: BlockTridiagonal) -> AbstractFactor:
    """The Cholesky factor of a matrix; of right-hand sides it has none."""
    if not matrix.joint:
        return Triangle.of(matrix)
    corner = jnp.broadcast_to(jnp.zeros_like(matrix.corner), (matrix.diagonal.shape[0], *matrix.corner.shape))
    each = eqx.tree_at(lambda matrix: matrix.corner, matrix, corner)  # which counts once
    pivots, couplings, schur = jax.vmap(eliminate_steps)(each)
    right = jnp.zeros(pivots.shape[:-1], pivots.dtype)
    normal = jnp.pad(schur, ((0, 0), (0, 1), (0, 1)))
    return JointTriangle.of_normal(pivots, couplings, right, normal, jnp.pad(matrix.corner, ((0, 1), (0, 1))))
