"""Robust losses ρ(s) of the squared whitened residual s = ‖r‖², with ρ'(0) = 1; all are elementwise."""

import abc
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from scipy import special

from fgmbs.compiled.program import ONCE, program

Squares: TypeAlias = Float[Array, "*places"] | float
_QUANTILES = 10_000
"""Of normal residuals, over which is averaged what a robust loss leaves of them."""


class AbstractLoss(eqx.Module):
    """A loss that grows more slowly than s beyond `threshold` standard deviations."""

    threshold: eqx.AbstractVar[float]

    @property
    def is_convex(self) -> bool:
        """Whether ½ρ(‖r‖²) is convex in r: what is far off pulls at least as much as what is near."""
        return False

    @abc.abstractmethod
    def rho(self, s: Squares) -> Squares:
        """ρ(s); the cost of a factor is ½ρ(‖r‖²)."""

    @abc.abstractmethod
    def weight(self, s: Squares) -> Squares:
        """dρ/ds, the factor by which information shrinks."""


class Huber(AbstractLoss):
    """Quadratic up to the threshold, linear beyond."""

    threshold: float = 1.345

    @property
    def is_convex(self) -> bool:
        return True

    def rho(self, s: Squares) -> Squares:
        k = self.threshold
        inlier = s <= k**2
        root = jnp.sqrt(jnp.where(inlier, k**2, s))
        return jnp.where(inlier, s, 2 * k * root - k**2)

    def weight(self, s: Squares) -> Squares:
        return self.threshold / jnp.sqrt(jnp.maximum(s, self.threshold**2))


class Cauchy(AbstractLoss):
    """Grows with the logarithm; outliers lose weight as 1/s."""

    threshold: float = 2.385

    def rho(self, s: Squares) -> Squares:
        return self.threshold**2 * jnp.log1p(s / self.threshold**2)

    def weight(self, s: Squares) -> Squares:
        return 1 / (1 + s / self.threshold**2)


class Tukey(AbstractLoss):
    """Constant beyond the threshold: outliers are ignored altogether."""

    threshold: float = 4.685

    def rho(self, s: Squares) -> Squares:
        u = jnp.minimum(s / self.threshold**2, 1.0)
        return self.threshold**2 * u * (1 - u + u**2 / 3)

    def weight(self, s: Squares) -> Squares:
        return jnp.maximum(1 - s / self.threshold**2, 0.0) ** 2


def ignores_samples(loss: AbstractLoss | None) -> bool:
    """Whether samples hardly count that are far off, so that an estimate that is wrong may ignore what is right."""
    return loss is not None and not loss.is_convex


class Led(AbstractLoss):
    """Huber's loss as long as it is far from a solution, then another: what is ignored there might be right."""

    loss: AbstractLoss
    far: Bool[Array, ""]

    @property
    def threshold(self) -> float:
        return self.loss.threshold

    def rho(self, s: Squares) -> Squares:
        return jnp.where(self.far, Huber().rho(s), self.loss.rho(s))

    def weight(self, s: Squares) -> Squares:
        return jnp.where(self.far, Huber().weight(s), self.loss.weight(s))


@program(**ONCE)
def _weights(loss: AbstractLoss, s: Float[Array | np.ndarray, " places"]) -> Float[Array, " places"]:
    return loss.weight(s)


def left_of_normal(loss: AbstractLoss, width: int) -> tuple[float, float]:
    """(mean, variance) per row of the sum of squares that a loss leaves of normal residuals: Huber's proposal 2."""
    probabilities = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    s = special.chdtri(width, 1 - probabilities)  # of χ²
    left = np.asarray(_weights(loss, s)) ** 2 * s
    return float(np.mean(left)) / width, float(np.var(left)) / width
