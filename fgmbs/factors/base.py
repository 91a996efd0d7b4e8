"""A factor: one residual function of named variables, with its noise."""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fgmbs.errors import ArgumentError
from fgmbs.losses import AbstractLoss
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Scalar

Scope = Literal["initial", "step", "interval", "global"]


class Instant(eqx.Module):
    """What a residual knows besides its variables: the mechanism, when it is, its own data."""

    mechanism: AbstractMechanism
    t: Scalar
    """Time [s]; for a factor between two steps the time of the second."""
    dt: Scalar
    """Time step [s]."""
    theta: Float[Array, " p"]
    """All numbers of the graph that do not vary with time and are unknown, as they are searched for."""
    shared: dict[str, PyTree]
    """What the factor reads besides the mechanism, by name."""
    series: PyTree
    """The factor's time-varying data at this instant."""
    data: PyTree
    """The factor's constant data."""


class Noise(eqx.Module):
    """Square-root information of a residual: the whitened residual is `sqrt_info · r`.

    A scalar, one number per row, or an upper triangular matrix. Zero means no information; build one with `sigma`
    or `covariance`.
    """

    sqrt_info: Float[Array, "*rows"]

    @staticmethod
    def sigma(sigma: Float[Array, "*rows"] | float | int) -> "Noise":
        """Independent rows of standard deviation `sigma` (scalar or one per row, > 0, in the residual's unit)."""
        return Noise(1.0 / jnp.asarray(sigma, dtype=float))

    @staticmethod
    def covariance(cov: Float[Array, "rows rows"]) -> "Noise":
        """Correlated rows of covariance `cov`, positive definite."""
        L = jnp.linalg.cholesky(jnp.asarray(cov, dtype=float))
        return Noise(jax.scipy.linalg.solve_triangular(L, jnp.eye(L.shape[0]), lower=True))

    def whiten(self, r: Float[Array, " rows"]) -> Float[Array, " rows"]:
        """sqrt_info · r."""
        return self.sqrt_info @ r if self.sqrt_info.ndim == 2 else self.sqrt_info * r


class Factor(eqx.Module):
    """A residual r(variables) ~ N(0, noise) at every place of its scope.

    Scopes and what `residual` receives after the `Instant`:
        "step": the named variables of one step, at every step.
        "initial": the same, at the first step only.
        "interval": the named variables of a step, then those of the next, between all neighbours.
        "global": nothing; it reads numbers that do not vary with time.

    Attributes:
        residual: A module-level function `residual(at, *variables) -> (rows,)`, in physical units.
        variables: Names of the variables it reads, in the order in which it takes them.
        noise: Standard deviation or covariance of the residual.
        scope: Where it sits.
        series: Pytree of arrays with a leading axis of all steps; `at.series` is its row at this step
            (for an interval, at the second step).
        data: Pytree of constant arrays, seen as `at.data`.
        weights: Time-varying square-root weights on top of the noise, (steps, rows), or (steps, rows, rows) for
            matrices; a zero removes a row, as a mask for missing measurements does.
        shared: Names of what it reads from `at.shared`.
        theta: Whether it reads `at.theta`; what depends on unknown numbers of the mechanism or of what is shared need
            not know of them.
        loss: Robust loss; None is least squares.
        group: Rows that share one robust loss, as those of one sample where a residual holds several; all by default.
        name: Shown in cost tables; the function's name by default.
    """

    residual: Callable[..., Float[Array, " rows"]] = eqx.field(static=True)
    variables: tuple[str, ...] = eqx.field(static=True, converter=tuple)
    noise: Noise
    scope: Scope = eqx.field(static=True, default="step")
    series: PyTree = None
    data: PyTree = None
    weights: Float[Array, "steps rows"] | Float[Array, "steps rows rows"] | None = None
    shared: tuple[str, ...] = eqx.field(static=True, default=(), converter=tuple)
    theta: bool = eqx.field(static=True, default=False)
    loss: AbstractLoss | None = None
    group: int | None = eqx.field(static=True, default=None)
    name: str = eqx.field(static=True, default="")

    def __post_init__(self):
        if self.scope not in ("initial", "step", "interval", "global"):
            raise ArgumentError(
                f"factor scope: expected 'initial', 'step', 'interval' or 'global'; found {self.scope!r}"
            )
        if not self.name:
            self.name = getattr(self.residual, "__name__", type(self.residual).__name__)

    def whitened(self, at: Instant, weights: Array | None, *variables: Array) -> Float[Array, " rows"]:
        """The whitened residual at one place, `weights` being the row of this place."""
        r = self.noise.whiten(self.residual(at, *variables))
        if weights is None:
            return r
        return weights @ r if weights.ndim == 2 else jnp.where(weights == 0, 0.0, weights * r)

    def squares(self, r: Float[Array, "*places rows"]) -> Float[Array, "*places groups"]:
        """Squared norm of each group of whitened rows that share a loss."""
        group = max(1, r.shape[-1]) if self.group is None else self.group
        return jnp.sum(r.reshape(*r.shape[:-1], r.shape[-1] // group, group) ** 2, axis=-1)

    def costs(self, r: Float[Array, "*places rows"]) -> Float[Array, "*places"]:
        """½ρ of whitened rows."""
        s = self.squares(r)
        return 0.5 * jnp.sum(s if self.loss is None else self.loss.rho(s), axis=-1)

    def reweighted(self, r: Float[Array, "*places rows"], *derivatives: Array) -> tuple[Array, ...]:
        """Whitened rows and their derivatives; those of a robust factor scaled by √ρ'."""
        if self.loss is None:
            return r, *derivatives
        weight = self.loss.weight(self.squares(r))
        # Of what is rejected the root has no derivative, that of the weight does not change.
        weight = jnp.where(weight > 0, jnp.sqrt(jnp.where(weight > 0, weight, 1.0)), 0.0)
        weight = jnp.repeat(weight, r.shape[-1] // weight.shape[-1], axis=-1)
        return r * weight, *(derivative * weight[..., None] for derivative in derivatives)


def value_and_jacobian(function: Callable, x: PyTree) -> tuple[Any, PyTree]:
    """function(x) and its Jacobian with respect to the pytree x, by one forward-mode sweep."""

    def twice(x):
        value = function(x)
        return value, value

    jacobian, value = jax.jacfwd(twice, has_aux=True)(x)
    return value, jacobian
