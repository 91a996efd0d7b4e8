"""Following an assembled configuration while given coordinates move."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.kinematics.position import solve_position
from fgmbs.kinematics.velocity import solve_velocity
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar


def follow(
    mechanism: AbstractMechanism,
    q: Coordinates,
    t: Scalar,
    given_mask: Bool[Array, " n"],
    path: Float[Array, "steps n"],
) -> tuple[Float[Array, "steps n"], Bool[Array, " steps"]]:
    """(q along the path, how far it could be followed): the branch of q is kept while the given coordinates move.

    Each step predicts along the tangent (dq = R dz) and solves the position problem from there. Where the tangent is
    not unique (change points, where branches cross; freedom that is left), the one nearest to the step before is taken.
    Once a step fails, q stays where it was.

    Args:
        q: Assembled coordinates [m, rad].
        t: Time, the same for the whole path [s].
        given_mask: Which coordinates are given.
        path: Their values, step by step; columns of other coordinates are not read.
    """
    mechanism = mechanism.evaluated()
    t = jnp.asarray(t, q.dtype)

    def step(state, values):
        q, tangent, alive = state  # tangent: dq by the length of path
        move = jnp.where(given_mask, values - q, 0.0)
        length = jnp.linalg.norm(move)
        safe = jnp.where(length > 0, length, 1.0)
        rate = solve_velocity(mechanism, q, t, given_mask, move / safe, jnp.where(alive, tangent, 0.0))
        q_next, info = solve_position(mechanism, mechanism.retract(q, length * rate), t, given_mask, values)
        alive = alive & info.assembled
        tangent = jnp.where(alive & (length > 0), rate, tangent)
        return (jnp.where(alive, q_next, q), tangent, alive), (jnp.where(alive, q_next, q), alive)

    start = (q, jnp.zeros(mechanism.nv, q.dtype), jnp.asarray(True))
    return jax.lax.scan(step, start, path)[1]


compiled_follow = eqx.filter_jit(follow)
"""`follow` for calls from the host, compiled once for each length of path."""
