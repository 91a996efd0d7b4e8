"""Linear least squares over time: rows on one step, on two neighbouring steps, and on the global parameters.

Of several recordings that share the global parameters, everything but these has a first axis of recordings.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

Steps: TypeAlias = Float[Array, "*recordings steps nx"]
Globals: TypeAlias = Float[Array, " p"]


class BlockTridiagonal(eqx.Module):
    """A symmetric matrix, block-tridiagonal over the steps, with an arrow of rows for the global parameters."""

    diagonal: Float[Array, "*recordings steps nx nx"]
    lower: Float[Array, "*recordings steps-1 nx nx"]
    """Blocks (k+1, k)."""
    arrow: Float[Array, "*recordings steps p nx"]
    """Blocks (globals, k)."""
    corner: Float[Array, "p p"]

    @property
    def joint(self) -> bool:
        """Whether this is the matrix of several recordings, along a first axis."""
        return self.diagonal.ndim > 3

    def matvec(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        """The matrix times (steps, globals)."""
        product = jnp.einsum("...ij,...j->...i", self.diagonal, steps) + jnp.einsum(
            "...pi,p->...i", self.arrow, globals
        )
        product = product.at[..., 1:, :].add(jnp.einsum("...ij,...j->...i", self.lower, steps[..., :-1, :]))
        product = product.at[..., :-1, :].add(jnp.einsum("...ij,...i->...j", self.lower, steps[..., 1:, :]))
        return product, jnp.einsum("...pi,...i->p", self.arrow, steps) + self.corner @ globals

    def gradient(self, steps: Steps, globals: Globals) -> tuple[Steps, Globals]:
        """The gradient of ½ δᵀ A δ at δ = (steps, globals)."""
        return self.matvec(steps, globals)

    def information(self) -> "BlockTridiagonal":
        """The matrix itself."""
        return self

    def add_diagonal(self, steps: Steps, globals: Globals) -> "BlockTridiagonal":
        """The matrix plus diag(steps, globals)."""
        size, count = jnp.arange(steps.shape[-1]), jnp.arange(globals.shape[0])
        return eqx.tree_at(
            lambda matrix: (matrix.diagonal, matrix.corner),
            self,
            (self.diagonal.at[..., size, size].add(steps), self.corner.at[count, count].add(globals)),
        )

    def without(self, held: Bool[Array, " p"]) -> "BlockTridiagonal":
        """The matrix with rows and columns of the identity for these globals."""
        corner = jnp.where(held[:, None] | held, jnp.diag(jnp.where(held, 1.0, 0.0)), self.corner)
        return BlockTridiagonal(self.diagonal, self.lower, jnp.where(held[:, None], 0.0, self.arrow), corner)

    def to_dense(self) -> Float[Array, "size size"]:
        """The full matrix, variables ordered step 0, step 1, …, globals; for tests and tiny problems."""
        *lead, nx, _ = self.diagonal.shape
        count = math.prod(lead)
        k = jnp.arange(count).reshape(lead)
        before, after = k[..., :-1], k[..., 1:]
        blocks = jnp.zeros((count, count, nx, nx), self.diagonal.dtype).at[k, k].set(self.diagonal)
        blocks = blocks.at[after, before].set(self.lower).at[before, after].set(self.lower.mT)
        arrow = jnp.moveaxis(self.arrow, -2, 0).reshape(-1, count * nx)
        return jnp.block([[jnp.swapaxes(blocks, 1, 2).reshape(count * nx, count * nx), arrow.T], [arrow, self.corner]])


class LeastSquares(eqx.Module):
    """A linearized, whitened graph: ½‖J δ + r‖² over the increments δ of all steps and of the globals."""

    initial_residual: Float[Array, "*recordings ri"]
    initial_jacobian: Float[Array, "*recordings ri nx"]
    """Rows on step 0 only: priors and marginals."""
    initial_arrow: Float[Array, "*recordings ri p"]
    step_residual: Float[Array, "*recordings steps rs"]
    step_jacobian: Float[Array, "*recordings steps rs nx"]
    step_arrow: Float[Array, "*recordings steps rs p"]
    pair_residual: Float[Array, "*recordings steps-1 rp"]
    pair_start: Float[Array, "*recordings steps-1 rp nx"]
    """Rows between steps k and k+1, their derivatives with respect to step k."""
    pair_end: Float[Array, "*recordings steps-1 rp nx"]
    """… and with respect to step k+1."""
    pair_arrow: Float[Array, "*recordings steps-1 rp p"]
    global_residual: Float[Array, " rg"]
    global_jacobian: Float[Array, "rg p"]

    @property
    def num_steps(self) -> int:
        """Number of time steps."""
        return self.step_jacobian.shape[-3]

    @property
    def step_size(self) -> int:
        """Number of unknowns of one step, nx."""
        return self.step_jacobian.shape[-1]

    @property
    def num_globals(self) -> int:
        """Number of global parameters, p."""
        return self.global_jacobian.shape[1]

    @property
    def num_residuals(self) -> int:
        """Number of rows."""
        return sum(r.size for r in self._residuals())

    @property
    def joint(self) -> bool:
        """Whether this is the system of several recordings, along a first axis."""
        return self.step_jacobian.ndim > 3

    def each(self) -> "LeastSquares":
        """The systems of the single recordings to be mapped over, without the rows on the globals alone."""
        count, p = self.step_jacobian.shape[0], self.num_globals
        none = jnp.zeros((count, 0), self.global_residual.dtype), jnp.zeros((count, 0, p), self.global_jacobian.dtype)
        return eqx.tree_at(lambda system: (system.global_residual, system.global_jacobian), self, none)

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
        initial = jnp.einsum("...rx,...x->...r", self.initial_jacobian, steps[..., 0, :]) + self.initial_arrow @ globals
        step = jnp.einsum("...rx,...x->...r", self.step_jacobian, steps) + self.step_arrow @ globals
        pair = (
            jnp.einsum("...rx,...x->...r", self.pair_start, steps[..., :-1, :])
            + jnp.einsum("...rx,...x->...r", self.pair_end, steps[..., 1:, :])
            + self.pair_arrow @ globals
        )
        return self._with_residuals((initial, step, pair, self.global_jacobian @ globals))

    def moved(self, steps: Steps, globals: Globals) -> "LeastSquares":
        """The same system seen from the increment δ = (steps, globals): its residuals are J δ + r."""
        rows = self.product(steps, globals)
        return self._with_residuals(tuple(a + b for a, b in zip(self._residuals(), rows._residuals(), strict=True)))

    def gradient(self) -> tuple[Steps, Globals]:
        """Jᵀr."""
        steps = jnp.einsum("...rx,...r->...x", self.step_jacobian, self.step_residual)
        steps = steps.at[..., 0, :].add(jnp.einsum("...rx,...r->...x", self.initial_jacobian, self.initial_residual))
        steps = steps.at[..., :-1, :].add(jnp.einsum("...rx,...r->...x", self.pair_start, self.pair_residual))
        steps = steps.at[..., 1:, :].add(jnp.einsum("...rx,...r->...x", self.pair_end, self.pair_residual))
        globals = (
            jnp.einsum("...rp,...r->p", self.initial_arrow, self.initial_residual)
            + jnp.einsum("...rp,...r->p", self.step_arrow, self.step_residual)
            + jnp.einsum("...rp,...r->p", self.pair_arrow, self.pair_residual)
            + self.global_residual @ self.global_jacobian
        )
        return steps, globals

    def diagonal(self) -> tuple[Steps, Globals]:
        """The diagonal of JᵀJ."""
        steps = jnp.sum(self.step_jacobian**2, axis=-2)
        steps = steps.at[..., 0, :].add(jnp.sum(self.initial_jacobian**2, axis=-2))
        steps = steps.at[..., :-1, :].add(jnp.sum(self.pair_start**2, axis=-2))
        steps = steps.at[..., 1:, :].add(jnp.sum(self.pair_end**2, axis=-2))
        globals = sum(
            jnp.sum(block**2, axis=tuple(range(block.ndim - 1)))
            for block in (self.initial_arrow, self.step_arrow, self.pair_arrow, self.global_jacobian)
        )
        return steps, globals

    def zeros(self) -> tuple[Steps, Globals]:
        """δ = 0."""
        *lead, _, nx = self.step_jacobian.shape
        return jnp.zeros((*lead, nx), self.step_jacobian.dtype), jnp.zeros(self.num_globals, self.step_jacobian.dtype)

    def information(self) -> BlockTridiagonal:
        """JᵀJ."""
        diagonal = _gram(self.step_jacobian, self.step_jacobian)
        diagonal = diagonal.at[..., 0, :, :].add(_gram(self.initial_jacobian, self.initial_jacobian))
        diagonal = diagonal.at[..., :-1, :, :].add(_gram(self.pair_start, self.pair_start))
        diagonal = diagonal.at[..., 1:, :, :].add(_gram(self.pair_end, self.pair_end))
        arrow = _gram(self.step_arrow, self.step_jacobian)
        arrow = arrow.at[..., 0, :, :].add(_gram(self.initial_arrow, self.initial_jacobian))
        arrow = arrow.at[..., :-1, :, :].add(_gram(self.pair_arrow, self.pair_start))
        arrow = arrow.at[..., 1:, :, :].add(_gram(self.pair_arrow, self.pair_end))
        corner = sum(
            jnp.einsum("...rp,...rq->pq", block, block)
            for block in (self.initial_arrow, self.step_arrow, self.pair_arrow, self.global_jacobian)
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

    def each(self, function: Callable[["Damped"], PyTree]) -> PyTree:
        """The function of the problems of the single recordings, without rows and damping of the globals alone."""
        undamped = jnp.zeros_like(self.globals)
        return jax.vmap(lambda system, steps: function(Damped(system, steps, undamped)))(self.system.each(), self.steps)

    def information(self) -> BlockTridiagonal:
        """A = JᵀJ + D."""
        return self.system.information().add_diagonal(self.steps, self.globals)


def _gram(a: Float[Array, "*blocks r i"], b: Float[Array, "*blocks r j"]) -> Float[Array, "*blocks i j"]:
    return jnp.einsum("...ri,...rj->...ij", a, b)
