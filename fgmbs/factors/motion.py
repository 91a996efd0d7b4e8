"""Smooth motions as random processes: integrated white noise, observed now and then."""

import math

import numpy as np
from jaxtyping import Array, Float

from fgmbs.factors.base import Instant


def integrated_white_noise(
    at: Instant, x0: Float[Array, " order"], x1: Float[Array, " order"]
) -> Float[Array, " order"]:
    """x(t+1) − F x(t), F = `at.series`: how far a signal and its derivatives leave their Taylor polynomial."""
    return x1 - at.series @ x0


def sample(at: Instant, x: Float[Array, " order"]) -> Float[Array, "1"]:
    """x_0 − y, y = `at.series`: the signal itself against its sample."""
    return x[:1] - at.series


def taylor(order: int) -> Float[np.ndarray, "order order"]:
    """F of one step, for the scaled derivatives x_i = Δtⁱ dⁱy/dtⁱ."""
    return np.array([[1 / math.factorial(j - i) if j >= i else 0.0 for j in range(order)] for i in range(order)])


def taylor_noise(order: int) -> Float[np.ndarray, "order order"]:
    """Covariance of what a step adds where this derivative is white noise of density 1/Δt^(2·order − 1)."""
    left = [order - 1 - i for i in range(order)]
    return np.array([[1 / ((a + b + 1) * math.factorial(a) * math.factorial(b)) for b in left] for a in left])
