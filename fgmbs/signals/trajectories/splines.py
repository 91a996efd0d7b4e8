"""Interpolating splines of degree 3, 5 and 7."""

from functools import cache, partial
from math import factorial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, choice, points_and_times
from fgmbs.errors import ArgumentError
from fgmbs.signals.trajectories.piecewise import PiecewisePolynomial, hermite_basis


def spline(points: Numbers, times: Numbers, degree: int = 3, ends: str = "rest") -> PiecewisePolynomial:
    """The spline through the points: with all derivatives below `degree` continuous.

    Among the curves through the points, the spline of degree 2m + 1 is the one of least ∫ (d^(m+1) y / dt^(m+1))² dt.
    On Hermite pieces this integral is quadratic in the derivatives 1 … m at the knots, which follow from a positive
    definite system that couples neighbours only. It is solved to 1e-11 of the largest value for steps that differ by a
    factor of 10; degree 7 loses two digits when they differ by 100.

    Args:
        points: (N, d), or (N,) for one signal.
        times: When each is reached, (N,) [s].
        degree: 3 (continuous acceleration), 5 (and snap) or 7 (and the sixth derivative).
        ends: "rest": derivatives 1 … m are zero at both ends. "natural": derivatives m + 1 … 2m are; needs at least
            m + 1 points.

    Raises:
        ArgumentError: An invalid argument.
    """
    choice("degree", degree, (3, 5, 7))
    choice("ends", ends, ("rest", "natural"))
    m = int(degree) // 2
    points, times = points_and_times(points, times)
    if ends == "natural" and points.shape[0] < m + 1:
        raise ArgumentError(
            f"points: expected at least {m + 1} for a natural spline of degree {degree}; found {points.shape[0]}"
        )
    return _spline(jnp.asarray(points, dtype=float), jnp.asarray(times, dtype=float), m, ends)


@partial(jax.jit, static_argnums=(2, 3))
def _spline(x: Float[Array, " N *d"], times: Float[Array, " N"], m: int, ends: str) -> PiecewisePolynomial:
    free = jnp.ones(x.shape[0], dtype=float)
    if ends == "rest":
        free = free.at[jnp.array([0, -1])].set(0.0)

    h = jnp.diff(times)
    r = (h / jnp.mean(h))[:, None] ** np.arange(1.0, m + 1)  # From the mean step as unit of time to u from 0 to 1.
    rise = jnp.diff(x.reshape(x.shape[0], -1), axis=0)
    D = _knot_derivatives(r, rise, free)
    # Relative to the chord x + rise·u, whose only derivative is the first: straight lines come out straight.
    chord = np.eye(m)[0][:, None] * rise[:, None, :]
    start, end = hermite_basis(m)
    a = jnp.einsum("ikd,kj->dij", r[..., None] * D[:-1] - chord, start[1:])
    a = a + jnp.einsum("ikd,kj->dij", r[..., None] * D[1:] - chord, end[1:])
    a = a.at[..., 1].add(rise.T).reshape(*x.shape[1:], h.size, 2 * m + 2)
    return PiecewisePolynomial(times, a.at[..., 0].add(x[:-1].T))


class _Energy(NamedTuple):
    """∫ (d^(m+1) y / du^(m+1))² du over a piece, quadratic in what its ends are given.

    E = D_0ᵀ K_00 D_0 + 2 D_0ᵀ K_01 D_1 + D_1ᵀ K_11 D_1 − 2 (g_0ᵀ D_0 + g_1ᵀ D_1) rise + …, with the derivatives D_0 and
    D_1 at both ends and the rise of the value.
    """

    K_00: np.ndarray
    K_01: np.ndarray
    K_11: np.ndarray
    g_0: np.ndarray
    g_1: np.ndarray


@cache
def _energy(m: int) -> _Energy:
    # By parts, ∫ start_k^(m+1) y^(m+1) du = (−1)^(m+1−k) y^(2m+1−k)(0) for a polynomial y of degree 2m + 1, without the
    # cancellation of the integral; the end mirrors the start.
    start, end = hermite_basis(m)
    k = np.arange(1, m + 1)
    sign = (-1.0) ** k
    factor = np.array([(-1.0) ** (m + 1 - j) * factorial(2 * m + 1 - j) for j in k])
    at_start, at_end = (factor * basis[:, 2 * m + 1 - k] for basis in (start, end))
    K_00, g_0 = at_start[1:].T, at_start[0]
    return _Energy(K_00, at_end[1:].T, np.outer(sign, sign) * K_00, g_0, -sign * g_0)


def _knot_derivatives(
    r: Float[Array, "pieces m"], rise: Float[Array, "pieces d"], free: Float[Array, " pieces+1"]
) -> Float[Array, "pieces+1 m d"]:
    """Derivatives 1 … m at the knots of the spline of least energy, zero at knots that are not free."""
    m = r.shape[1]
    K_00, K_01, K_11, g_0, g_1 = _energy(m)
    weight = r[:, :1] ** -(2 * m + 1)
    scale = weight[..., None] * r[:, :, None] * r[:, None, :]
    first, second = ((0, 1), (0, 0), (0, 0)), ((1, 0), (0, 0), (0, 0))
    A = jnp.pad(scale * K_00, first) + jnp.pad(scale * K_11, second)
    force = (weight * r)[..., None] * rise[:, None, :]
    b = jnp.pad(g_0[:, None] * force, first) + jnp.pad(g_1[:, None] * force, second)
    U = scale * K_01 * (free[:-1] * free[1:])[:, None, None]
    free = free[:, None, None]
    return _solve_block_tridiagonal(free * A + (1 - free) * np.eye(m), U, free * b)


def _solve_block_tridiagonal(
    A: Float[Array, "N m m"], U: Float[Array, "N-1 m m"], b: Float[Array, "N m d"]
) -> Float[Array, "N m d"]:
    """x of U_(i−1)ᵀ x_(i−1) + A_i x_i + U_i x_(i+1) = b_i, positive definite, by block elimination."""
    m = A.shape[1]

    def eliminate(before, row):
        U_before, Z_before, y_before = before
        A, U, b = row
        Z_y = _solve(A - U_before.T @ Z_before, jnp.concatenate([U, b - U_before.T @ y_before], axis=1))
        Z, y = Z_y[:, :m], Z_y[:, m:]
        return (U, Z, y), (Z, y)

    def substitute(after, row):
        Z, y = row
        x = y - Z @ after
        return x, x

    none = (jnp.zeros_like(A[0]), jnp.zeros_like(A[0]), jnp.zeros_like(b[0]))
    _, Z_y = jax.lax.scan(eliminate, none, (A, jnp.pad(U, ((0, 1), (0, 0), (0, 0))), b))
    return jax.lax.scan(substitute, none[2], Z_y, reverse=True)[1]


def _solve(A: Float[Array, "m m"], B: Float[Array, "m k"]) -> Float[Array, "m k"]:
    """A⁻¹ B of a small positive definite matrix by Gauss–Jordan steps: plain arithmetic, which batches as it is."""
    AB = jnp.concatenate([A, B], axis=1)
    for k in range(A.shape[0]):
        row = AB[k] / AB[k, k]
        AB = (AB - jnp.outer(AB[:, k], row)).at[k].set(row)
    return AB[:, A.shape[0] :]
