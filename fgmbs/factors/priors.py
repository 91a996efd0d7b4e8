"""Priors and soft equalities."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.factors.base import Instant
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Velocities


def prior(at: Instant, x: Float[Array, " d"]) -> Float[Array, " d"]:
    """x − x₀ with x₀ = `at.data`. [Blanco21] eq. (21)"""
    return x - at.data


def configuration_prior(at: Instant, q: Coordinates) -> Velocities:
    """The v with q = q₀ ⊞ v and q₀ = `at.data`. [Blanco21] eq. (21)"""
    return at.mechanism.local(at.data, q)


def tracking(at: Instant, x: Float[Array, " d"]) -> Float[Array, " d"]:
    """x − x₀(t) with x₀(t) = `at.series`."""
    return x - at.series


def tracking_selected(at: Instant, x: Float[Array, " d"]) -> Float[Array, " k"]:
    """B x − y(t) with B = `at.data` (k, d) and y(t) = `at.series`."""
    return at.data @ x - at.series


def soft_equality(at: Instant, x0: Float[Array, " d"], x1: Float[Array, " d"]) -> Float[Array, " d"]:
    """x(t+1) − x(t): variables do not jump between steps. [Blanco21] section 5.2, f_eq"""
    return x1 - x0


def linear_prior(at: Instant, *variables: Float[Array, " _"]) -> Float[Array, " rows"]:
    """R (x ⊟ x₀) + d, the square-root marginal of steps that are gone; `at.data` = (R, d, x₀).

    x are all variables of a step, and behind them θ.
    """
    sqrt_info, residual, point = at.data
    return sqrt_info @ difference(at.mechanism, point, jnp.concatenate([*variables, at.theta])) + residual


def prior_of_unknowns(at: Instant) -> Float[Array, " p"]:
    """θ − θ₀ with θ₀ = `at.data`."""
    return at.theta - at.data


def chart_prior(at: Instant, *variables: Float[Array, " _"]) -> Float[Array, " local"]:
    """C (x ⊟ x₀) with (C, x₀) = `at.series`: a prior on the local coordinates of a step."""
    C, point = at.series
    return C @ difference(at.mechanism, point, jnp.concatenate(variables))


def difference(
    mechanism: AbstractMechanism, x0: Float[Array, " nx"], x: Float[Array, " nx"]
) -> Float[Array, " tangent"]:
    """x ⊟ x₀: on a manifold, where q comes first in x, the v with q = q₀ ⊞ v and the differences of all the rest."""
    if mechanism.is_vector_space:
        return x - x0
    n = mechanism.n
    return jnp.concatenate([mechanism.local(x0[:n], x[:n]), x[n:] - x0[n:]])
