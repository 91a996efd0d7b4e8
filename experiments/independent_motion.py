"""What the reference estimators and true motions share: motion of a mechanism in independent coordinates."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

import fgmbs
from fgmbs.kinematics.closure import Closure, Instant
from fgmbs.kinematics.tracking import implicit_pose

_NEWTON_LIMIT = 10


def on_constraints(mechanism, places: tuple[int, ...], z, dz, q_near, t):
    """(q, dq) that satisfy the constraints and have the independent coordinates z = q[places] and velocities dz."""
    closure = Closure(places, Instant(t, z, dz))
    fixed, held, q_near = jax.lax.stop_gradient((mechanism, closure, q_near))
    q = held.close(fixed, q_near, t, size=jnp.max(jnp.abs(q_near)), limit=_NEWTON_LIMIT).q
    q = implicit_pose(mechanism, closure, q, t)  # which knows how q depends on z
    drift = closure.rate(mechanism, q, jnp.zeros(mechanism.nv), t)
    return q, -closure.inverse(mechanism, q, t) @ drift


def nearest_on_constraints(mechanism, q, dq, t):
    """(q, dq) that satisfy the constraints, nearest to given ones."""
    closure = Closure()
    q = closure.close(mechanism, q, t, size=jnp.max(jnp.abs(q)), limit=_NEWTON_LIMIT).q
    return q, dq - closure.inverse(mechanism, q, t) @ closure.rate(mechanism, q, dq, t)


def runge_kutta(mechanism, q, dq, t, dt, applied: Callable):
    """(q, dq) one classical Runge–Kutta step later, off the constraints by its error; `applied` forces of (q, t)."""

    def stage(carry, coefficients):
        (k_q, k_dq), (sum_q, sum_dq) = carry
        shift, weight = coefficients
        q_k, dq_k, t_k = q + shift * k_q, dq + shift * k_dq, t + shift
        ddq_k, _ = fgmbs.acceleration(mechanism, q_k, dq_k, t_k, applied(q_k, t_k))
        return ((dq_k, ddq_k), (sum_q + weight * dq_k, sum_dq + weight * ddq_k)), None

    start = (jnp.zeros_like(q), jnp.zeros_like(dq))
    tableau = dt * jnp.array([0, 1 / 2, 1 / 2, 1]), dt / 6 * jnp.array([1, 2, 2, 1])
    _, (move_q, move_dq) = jax.lax.scan(stage, (start, start), tableau)[0]
    return q + move_q, dq + move_dq
