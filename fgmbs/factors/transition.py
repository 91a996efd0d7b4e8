"""Factors between two steps: an integration rule, and what unknown forces add.

The rule is an `AbstractTransition`; it is written once and read here by all graphs.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.dynamics.forcing import Forcing, Frames
from fgmbs.dynamics.transitions import AbstractTransition, State
from fgmbs.factors.base import Instant
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities


def transition(
    at: Instant,
    q0: Coordinates,
    dq0: Velocities,
    u0: Float[Array, " nu"],
    q1: Coordinates,
    dq1: Velocities,
    u1: Float[Array, " nu"],
) -> Float[Array, " rows"]:
    """[T r_q; T r_dq; u(t+1) − decay · u(t)]: what unknown forces have added between two steps.

    `at.data` = (rule, `Forcing`), `at.series` = (T (dof, nv), commands (2, nc) at both ends, `Frames` or None),
    `at.shared` has the commands. T takes independent coordinates of a residual, what points off the constraints being
    left out.
    """
    rule, forcing = at.data
    forcing = forcing.sharing(at.shared)
    T, commands, frames = at.series
    commands = forcing.signals(at.shared, commands, at.t, at.dt)
    start, end = State(q0, dq0), State(q1, dq1)
    ddq = accelerations(at.mechanism, rule, forcing, start, end, (u0, u1), commands, at.t, at.dt, frames)
    r_q, r_dq = rule.residual(at.mechanism, start, end, ddq, at.dt)
    carried = forcing.turned(u0, None if frames is None else frames.turn)
    return jnp.concatenate([T @ r_q, T @ r_dq, u1 - forcing.decay * carried])


def accelerations(
    mechanism: AbstractMechanism,
    rule: AbstractTransition,
    forcing: Forcing,
    start: State,
    end: State,
    u: tuple[Float[Array, " nu"], Float[Array, " nu"]],
    commands: Float[Array, "2 nc"],
    t: Scalar,
    dt: Scalar,
    frames: Frames | None,
) -> Float[Array, "points nv"]:
    """Accelerations at the start, the inner points of a rule and the end; forces lie on straight lines between."""
    states = (start, *rule.inner(mechanism, start, end, dt), end)
    fractions = (0.0, *rule.inner_points, 1.0)
    (u0, u1), (c0, c1) = u, commands
    # One trace of the mechanism for all points.
    return jax.vmap(lambda *row: forcing.motion(mechanism, *row)[0])(
        jnp.stack([state.q for state in states]),
        jnp.stack([state.dq for state in states]),
        t + dt * (jnp.asarray(fractions, start.q.dtype) - 1),
        jnp.stack([u0 + s * (u1 - u0) for s in fractions]),
        jnp.stack([c0 + s * (c1 - c0) for s in fractions]),
        None if frames is None else jnp.stack([forcing.everywhere(frames, u0, u1, s) for s in fractions]),
    )


def integrated_positions(at: Instant, *variables: Array) -> Velocities:
    """r_q of a rule between the variables (q, dq, ddq, u) of two steps. [Blanco21] eqs. (22), (23)

    `at.data` = (rule, `Forcing`), `at.series` = commands (2, nc) at both ends.
    """
    return _residual(at, at.series, *variables)[0]


def integrated_velocities(at: Instant, *variables: Array) -> Velocities:
    """r_dq of a rule; see `integrated_positions`."""
    return _residual(at, at.series, *variables)[1]


def integrated_positions_independent(at: Instant, *variables: Array) -> Float[Array, " dof"]:
    """B r_q, with z(t+1) in the place of B q(t+1); the variables are (q, dq, ddq, u, z) of two steps.

    A step starts from B q(t) instead of z(t), which is the same number: so the selection B (dof, n) may change from one
    step to the next. `at.series` = (B, commands (2, nc)).
    """
    *start, _, q1, dq1, ddq1, u1, z1 = variables
    B, commands = at.series
    return z1 + B @ (_residual(at, commands, *start, q1, dq1, ddq1, u1)[0] - q1)


def integrated_velocities_independent(at: Instant, *variables: Array) -> Float[Array, " dof"]:
    """B r_dq, with ż(t+1) in the place of B q̇(t+1); see `integrated_positions_independent`."""
    *start, _, q1, dq1, ddq1, u1, dz1 = variables
    B, commands = at.series
    return dz1 + B @ (_residual(at, commands, *start, q1, dq1, ddq1, u1)[1] - dq1)


def _residual(at, commands, q0, dq0, ddq0, u0, q1, dq1, ddq1, u1):
    rule, forcing = at.data
    start, end, (c0, c1) = State(q0, dq0), State(q1, dq1), commands
    inner = [
        forcing.motion(at.mechanism, *state, at.t + at.dt * (s - 1), u0 + s * (u1 - u0), c0 + s * (c1 - c0))[0]
        for state, s in zip(rule.inner(at.mechanism, start, end, at.dt), rule.inner_points, strict=True)
    ]
    return rule.residual(at.mechanism, start, end, jnp.stack([ddq0, *inner, ddq1]), at.dt)
