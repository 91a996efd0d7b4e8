"""Linear least squares over time: rows on one step, on two neighbouring steps, and on the global parameters."""

from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Steps: TypeAlias = Float[Array, "steps nx"]
Globals: TypeAlias = Float[Array, " p"]


class BlockTridiagonal(eqx.Module):
    """A symmetric matrix, block-tridiagonal over the steps, with an arrow of rows for the global parameters."""

    diagonal: Float[Array, "steps nx nx"]
    lower: Float[Array, "steps-1 nx nx"]
    """Blocks (k+1, k)."""
    arrow: Float[Array, "steps p nx"]
    """Blocks (globals, k)."""
    corner: Float[Array, "p p"]

    def matvec(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        """The matrix times (steps, globals)."""
        product = jnp.einsum("kij,kj->ki", self.diagonal, steps) + jnp.einsum("kpi,p->ki", self.arrow, globals)
        product = product.at[1:].add(jnp.einsum("kij,kj->ki", self.lower, steps[:-1]))
        product = product.at[:-1].add(jnp.einsum("kij,ki->kj", self.lower, steps[1:]))
        return product, jnp.einsum("kpi,ki->p", self.arrow, steps) + self.corner @ globals

    def gradient(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        """The gradient of ½ δᵀ A δ at δ = (steps, globals)."""
        return self.matvec(steps, globals)

    def information(self) -> "BlockTridiagonal":
        """The matrix itself."""
        return self

    def add_diagonal(self, steps: Steps, globals: Globals) -> "BlockTridiagonal":
        """The matrix plus diag(steps, globals)."""
        size, count = jnp.arange(steps.shape[1]), jnp.arange(globals.shape[0])
        return eqx.tree_at(
            lambda matrix: (matrix.diagonal, matrix.corner),
            self,
            (self.diagonal.at[:, size, size].add(steps), self.corner.at[count, count].add(globals)),
        )

    def without(self, held: Bool[Array, " p"]) -> "BlockTridiagonal":
        """The matrix with rows and columns of the identity for these globals."""
        corner = jnp.where(held[:, None] | held, jnp.diag(jnp.where(held, 1.0, 0.0)), self.corner)
        return BlockTridiagonal(self.diagonal, self.lower, jnp.where(held[:, None], 0.0, self.arrow), corner)

    def to_dense(self) -> Float[Array, "size size"]:
        """The full matrix, variables ordered step 0, step 1, …, globals; for tests and tiny problems."""
        steps, nx, _ = self.diagonal.shape
        k = jnp.arange(steps)
        blocks = jnp.zeros((steps, steps, nx, nx), self.diagonal.dtype).at[k, k].set(self.diagonal)
        blocks = blocks.at[k[1:], k[:-1]].set(self.lower).at[k[:-1], k[1:]].set(jnp.swapaxes(self.lower, 1, 2))
        arrow = jnp.swapaxes(self.arrow, 0, 1).reshape(-1, steps * nx)
        return jnp.block([[jnp.swapaxes(blocks, 1, 2).reshape(steps * nx, steps * nx), arrow.T], [arrow, self.corner]])


class LeastSquares(eqx.Module):
    """A linearized, whitened time graph: ½‖J δ + r‖² over the increments δ of all steps and of the globals."""

    initial_residual: Float[Array, " ri"]
    initial_jacobian: Float[Array, "ri nx"]
    """Rows on step 0 only: priors and marginals."""
    initial_arrow: Float[Array, "ri p"]
    step_residual: Float[Array, "steps rs"]
    step_jacobian: Float[Array, "steps rs nx"]
    step_arrow: Float[Array, "steps rs p"]
    pair_residual: Float[Array, "steps-1 rp"]
    pair_start: Float[Array, "steps-1 rp nx"]
    """Rows between steps k and k+1, their derivatives with respect to step k."""
    pair_end: Float[Array, "steps-1 rp nx"]
    """… and with respect to step k+1."""
    pair_arrow: Float[Array, "steps-1 rp p"]
    global_residual: Float[Array, " rg"]
    global_jacobian: Float[Array, "rg p"]

    @property
    def num_steps(self) -> int:
        """Number of time steps."""
        return self.step_jacobian.shape[0]

    @property
    def step_size(self) -> int:
        """Number of unknowns of one step, nx."""
        return self.step_jacobian.shape[2]

    @property
    def num_globals(self) -> int:
        """Number of global parameters, p."""
        return self.global_jacobian.shape[1]

    def first_rows(self) -> tuple[tuple[Array, Array, Array], ...]:
        """(derivatives by step 0, by the globals, residuals) of all rows on step 0 or on the globals alone."""
        zeros = jnp.zeros((self.global_jacobian.shape[0], self.step_size), self.global_jacobian.dtype)
        return (
            (self.initial_jacobian, self.initial_arrow, self.initial_residual),
            (self.step_jacobian[0], self.step_arrow[0], self.step_residual[0]),
            (zeros, self.global_jacobian, self.global_residual),
        )

    def cost(self) -> Float[Array, ""]:
        """½‖r‖²."""
        initial, step, pair, alone = self._residuals()
        return 0.5 * (jnp.vdot(initial, initial) + jnp.vdot(step, step) + jnp.vdot(pair, pair) + jnp.vdot(alone, alone))

    def product(self, steps: Steps, globals: Globals) -> "LeastSquares":
        """The same system with J (steps, globals) in place of its residuals."""
        initial = self.initial_jacobian @ steps[0] + self.initial_arrow @ globals
        step = jnp.einsum("krx,kx->kr", self.step_jacobian, steps) + self.step_arrow @ globals
        pair = (
            jnp.einsum("krx,kx->kr", self.pair_start, steps[:-1])
            + jnp.einsum("krx,kx->kr", self.pair_end, steps[1:])
            + self.pair_arrow @ globals
        )
        return self._with_residuals((initial, step, pair, self.global_jacobian @ globals))

    def moved(self, steps: Steps, globals: Globals) -> "LeastSquares":
        """The same system seen from the increment δ = (steps, globals): its residuals are J δ + r."""
        rows = self.product(steps, globals)
        return self._with_residuals(tuple(a + b for a, b in zip(self._residuals(), rows._residuals(), strict=True)))

    def gradient(self) -> tuple[Steps, Globals]:
        """Jᵀr."""
        steps = jnp.einsum("krx,kr->kx", self.step_jacobian, self.step_residual)
        steps = steps.at[0].add(self.initial_residual @ self.initial_jacobian)
        steps = steps.at[:-1].add(jnp.einsum("krx,kr->kx", self.pair_start, self.pair_residual))
        steps = steps.at[1:].add(jnp.einsum("krx,kr->kx", self.pair_end, self.pair_residual))
        globals = (
            self.initial_residual @ self.initial_arrow
            + jnp.einsum("krp,kr->p", self.step_arrow, self.step_residual)
            + jnp.einsum("krp,kr->p", self.pair_arrow, self.pair_residual)
            + self.global_residual @ self.global_jacobian
        )
        return steps, globals

    def information(self) -> BlockTridiagonal:
        """JᵀJ."""
        diagonal = _gram(self.step_jacobian, self.step_jacobian)
        diagonal = diagonal.at[0].add(self.initial_jacobian.T @ self.initial_jacobian)
        diagonal = diagonal.at[:-1].add(_gram(self.pair_start, self.pair_start))
        diagonal = diagonal.at[1:].add(_gram(self.pair_end, self.pair_end))
        arrow = _gram(self.step_arrow, self.step_jacobian)
        arrow = arrow.at[0].add(self.initial_arrow.T @ self.initial_jacobian)
        arrow = arrow.at[:-1].add(_gram(self.pair_arrow, self.pair_start))
        arrow = arrow.at[1:].add(_gram(self.pair_arrow, self.pair_end))
        corner = (
            self.initial_arrow.T @ self.initial_arrow
            + jnp.einsum("krp,krq->pq", self.step_arrow, self.step_arrow)
            + jnp.einsum("krp,krq->pq", self.pair_arrow, self.pair_arrow)
            + self.global_jacobian.T @ self.global_jacobian
        )
        return BlockTridiagonal(diagonal, _gram(self.pair_end, self.pair_start), arrow, corner)

    def _residuals(self):
        return self.initial_residual, self.step_residual, self.pair_residual, self.global_residual

    def _with_residuals(self, residuals):
        return eqx.tree_at(LeastSquares._residuals, self, residuals)


class Damped(eqx.Module):
    """The damped problem ½‖J δ + r‖² + ½ δᵀ D δ with diagonal D."""

    system: LeastSquares
    steps: Steps
    """Diagonal of D on the steps."""
    globals: Globals
    """Diagonal of D on the global parameters."""

    def matvec(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        """(JᵀJ + D) times (steps, globals)."""
        product_steps, product_globals = self.system.product(steps, globals).gradient()
        return product_steps + self.steps * steps, product_globals + self.globals * globals

    def gradient(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        """Jᵀ(J δ + r) + D δ at δ = (steps, globals)."""
        gradient_steps, gradient_globals = self.system.moved(steps, globals).gradient()
        return gradient_steps + self.steps * steps, gradient_globals + self.globals * globals

    def information(self) -> BlockTridiagonal:
        """A = JᵀJ + D."""
        return self.system.information().add_diagonal(self.steps, self.globals)


def _gram(a: Float[Array, "blocks r i"], b: Float[Array, "blocks r j"]) -> Float[Array, "blocks i j"]:
    return jnp.einsum("kri,krj->kij", a, b)
