"""Robust losses ρ(s) of the squared whitened residual s = ‖r‖², with ρ'(0) = 1."""

import abc

import equinox as eqx
import jax.numpy as jnp

from fgmbs.typing import Scalar


class AbstractLoss(eqx.Module):
    """A loss that grows more slowly than s beyond `threshold` standard deviations."""

    threshold: eqx.AbstractVar[float]

    @abc.abstractmethod
    def rho(self, s: Scalar) -> Scalar:
        """ρ(s); the cost of a factor is ½ρ(‖r‖²)."""

    @abc.abstractmethod
    def weight(self, s: Scalar) -> Scalar:
        """dρ/ds, the factor by which information shrinks."""


class Huber(AbstractLoss):
    """Quadratic up to the threshold, linear beyond."""

    threshold: float = 1.345

    def rho(self, s: Scalar) -> Scalar:
        k = self.threshold
        inlier = s <= k**2
        root = jnp.sqrt(jnp.where(inlier, k**2, s))
        return jnp.where(inlier, s, 2 * k * root - k**2)

    def weight(self, s: Scalar) -> Scalar:
        return self.threshold / jnp.sqrt(jnp.maximum(s, self.threshold**2))


class Cauchy(AbstractLoss):
    """Grows with the logarithm; outliers lose weight as 1/s."""

    threshold: float = 2.385

    def rho(self, s: Scalar) -> Scalar:
        return self.threshold**2 * jnp.log1p(s / self.threshold**2)

    def weight(self, s: Scalar) -> Scalar:
        return 1 / (1 + s / self.threshold**2)


class Tukey(AbstractLoss):
    """Constant beyond the threshold: outliers are ignored altogether."""

    threshold: float = 4.685

    def rho(self, s: Scalar) -> Scalar:
        c = self.threshold**2
        return c / 3 * (1 - jnp.maximum(1 - s / c, 0.0) ** 3)

    def weight(self, s: Scalar) -> Scalar:
        return jnp.maximum(1 - s / self.threshold**2, 0.0) ** 2
