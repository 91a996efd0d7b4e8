"""Priors and soft equalities."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.factors.base import Instant


def prior(at: Instant, x: Float[Array, " d"]) -> Float[Array, " d"]:
    """x − x₀ with x₀ = `at.data`. [Blanco21] eq. (21)"""
    return x - at.data


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
    """R (x − x₀) + d, the square-root marginal of steps that are gone; `at.data` = (R, d, x₀).

    x are the variables, and behind them the global parameters in the order of their names.
    """
    sqrt_info, residual, point = at.data
    theta = [jnp.ravel(at.theta[name]) for name in sorted(at.theta)]
    return sqrt_info @ (jnp.concatenate([*variables, *theta]) - point) + residual


def chart_prior(at: Instant, *variables: Float[Array, " _"]) -> Float[Array, " local"]:
    """C (x − x₀) with (C, x₀) = `at.series`: a prior on the local coordinates of a step."""
    C, point = at.series
    return C @ (jnp.concatenate(variables) - point)
