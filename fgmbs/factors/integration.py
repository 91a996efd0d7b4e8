"""Numerical integration between two steps. x is any variable, dx its rate."""

import functools
from collections.abc import Callable

from jaxtyping import Array, Float

from fgmbs.dynamics import acceleration
from fgmbs.factors.base import Instant
from fgmbs.typing import Coordinates, Velocities


def euler(
    at: Instant, x0: Float[Array, " d"], dx0: Float[Array, " d"], x1: Float[Array, " d"], dx1: Float[Array, " d"]
) -> Float[Array, " d"]:
    """x(t+1) − x(t) − Δt ẋ(t), first order. [Blanco21] eq. (22)"""
    return x1 - x0 - at.dt * dx0


def trapezoidal(
    at: Instant, x0: Float[Array, " d"], dx0: Float[Array, " d"], x1: Float[Array, " d"], dx1: Float[Array, " d"]
) -> Float[Array, " d"]:
    """x(t+1) − x(t) − Δt/2 (ẋ(t) + ẋ(t+1)), second order. [Blanco21] eq. (23)"""
    return x1 - x0 - at.dt / 2 * (dx0 + dx1)


def hermite_simpson_position(
    at: Instant,
    q0: Coordinates,
    dq0: Velocities,
    ddq0: Velocities,
    q1: Coordinates,
    dq1: Velocities,
    ddq1: Velocities,
) -> Velocities:
    """q(t+1) − q(t) − Δt/6 (q̇(t) + 4 q̇(t+½) + q̇(t+1)), fourth order; q̇(t+½) of the Hermite interpolant."""
    _, dq_mid = _midpoint(at, q0, dq0, ddq0, q1, dq1, ddq1)
    return q1 - q0 - at.dt / 6 * (dq0 + 4 * dq_mid + dq1)


def hermite_simpson_velocity(
    at: Instant,
    q0: Coordinates,
    dq0: Velocities,
    ddq0: Velocities,
    q1: Coordinates,
    dq1: Velocities,
    ddq1: Velocities,
) -> Velocities:
    """q̇(t+1) − q̇(t) − Δt/6 (q̈(t) + 4 q̈(t+½) + q̈(t+1)), fourth order; q̈(t+½) of the mechanism's dynamics there."""
    q_mid, dq_mid = _midpoint(at, q0, dq0, ddq0, q1, dq1, ddq1)
    ddq_mid, _ = acceleration(at.mechanism, q_mid, dq_mid, at.t - at.dt / 2)
    return dq1 - dq0 - at.dt / 6 * (ddq0 + 4 * ddq_mid + ddq1)


def _midpoint(at, q0, dq0, ddq0, q1, dq1, ddq1):
    return (q0 + q1) / 2 + at.dt / 8 * (dq0 - dq1), (dq0 + dq1) / 2 + at.dt / 8 * (ddq0 - ddq1)


def _independent(rule: Callable[..., Velocities], integrated: int) -> Callable[..., Float[Array, " dof"]]:
    """The rows B of a rule, with z(t+1) in the place of B x(t+1), x the integrated one of its variables.

    Its variables are those of the rule and z behind them. A step starts from B x(t) instead of z(t), which is the same
    number: so the selection B (dof, n), read from `at.series`, may change from one step to the next.
    """

    @functools.wraps(rule)
    def residual(at: Instant, *variables: Array) -> Float[Array, " dof"]:
        count = len(variables) // 2
        start, (*end, z1) = variables[: count - 1], variables[count:]
        return z1 + at.series @ (rule(at, *start, *end) - end[integrated])

    residual.__name__ = f"{rule.__name__}_independent"
    return residual


euler_independent = _independent(euler, 0)
trapezoidal_independent = _independent(trapezoidal, 0)
hermite_simpson_position_independent = _independent(hermite_simpson_position, 0)
hermite_simpson_velocity_independent = _independent(hermite_simpson_velocity, 1)
