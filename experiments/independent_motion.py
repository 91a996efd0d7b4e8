"""What the reference estimators and true motions share: motion of a mechanism in independent coordinates."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

import fgmbs
from fgmbs.kinematics.tracking import implicit_pose, velocity_solution

_NEWTON_LIMIT = 10


def on_constraints(mechanism, places: tuple[int, ...], z, dz, q_near, t):
    """(q, dq) that satisfy the constraints and have the independent coordinates z = q[places] and velocities dz."""
    rows = jnp.asarray(places)
    fixed, z_fixed, q_near = jax.lax.stop_gradient((mechanism, z, q_near))

    def newton(state):
        q, _, count = state
        gap = jnp.concatenate([fixed.constraints(q, t), q[rows] - z_fixed])
        step = velocity_solution(fixed, q, t, places) @ gap
        return q - step, jnp.max(jnp.abs(step)), count + 1

    def unfinished(state):
        return (state[1] > 1e-8) & (state[2] < _NEWTON_LIMIT)  # convergence is quadratic: rounding is left after it

    q = jax.lax.while_loop(unfinished, newton, (q_near, jnp.asarray(jnp.inf), 0))[0]
    q = implicit_pose(mechanism, q, t, z, places)  # which knows how q depends on z
    drift = mechanism.constraint_rate(q, jnp.zeros(mechanism.nv), t)
    return q, velocity_solution(mechanism, q, t, places) @ jnp.concatenate([-drift, dz])


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
