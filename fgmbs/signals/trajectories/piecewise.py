"""Piecewise polynomials of time, and the Hermite basis that they are built from."""

from functools import cache
from math import comb, factorial

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import Polynomial

from fgmbs.typing import Scalar


class PiecewisePolynomial(eqx.Module):
    """A polynomial from knot to knot, which rests at its first value before, and at its last value after them.

    At a knot, value and derivatives are those of the piece that begins there; at the last knot, of the last piece.
    The coefficients of neighbours depend on each other: to vary the motion, differentiate through the function that
    builds it, with respect to points and times.
    """

    knots: Float[Array, " knots"]
    """Times at which the pieces begin and end, one more than pieces [s]."""
    coefficients: Float[Array, "*d pieces terms"]
    """Of ascending powers of u, which runs from 0 to 1 on each piece."""

    def __call__(self, t: Scalar) -> Float[Array, "*d"]:
        """The value at time t [s]."""
        t = jnp.asarray(t, dtype=self.knots.dtype)
        # `clip` would halve the derivatives at both ends.
        t = jnp.where(t < self.knots[0], self.knots[0], jnp.where(t > self.knots[-1], self.knots[-1], t))
        last = self.knots.shape[0] - 2
        i = jnp.clip(jnp.searchsorted(self.knots, t, side="right") - 1, 0, last)
        u = (t - self.knots[i]) / (self.knots[i + 1] - self.knots[i])
        a = self.coefficients[..., i, :]
        y = a[..., -1]
        for k in reversed(range(a.shape[-1] - 1)):
            y = y * u + a[..., k]
        return y


@cache
def hermite_basis(m: int) -> tuple[np.ndarray, np.ndarray]:
    """(start, end), each (m + 1, 2m + 2): coefficients of ascending powers of u, from 0 to 1.

    Row k is the polynomial of degree 2m + 1 whose k-th derivative is 1 at u = 0 (`start`) or u = 1 (`end`); all other
    derivatives from the zeroth to the m-th are zero at both ends:
    start_k = u^k / k! (1 − u)^(m+1) Σ_(j ≤ m−k) C(m + j, j) u^j, end_k(u) = (−1)^k start_k(1 − u).
    """
    u = Polynomial([0, 1])
    rows = [u**k * (1 - u) ** (m + 1) * Polynomial([comb(m + j, j) for j in range(m - k + 1)]) for k in range(m + 1)]
    factor = np.array([[1 / factorial(k)] for k in range(m + 1)])
    start = factor * np.array([row.coef for row in rows])
    end = factor * np.array([(-1) ** k * row(1 - u).coef for k, row in enumerate(rows)])
    return start, end
