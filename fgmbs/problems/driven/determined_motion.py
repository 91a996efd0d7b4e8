"""Motions that desired coordinates determine: stage by stage, each solved once.

Positions of all coordinates are followed along the branch of the first sample; velocities, accelerations and forces are
linear at each sample.
"""

import dataclasses
from operator import itemgetter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from fgmbs.algebra.pseudo_inverse import row_norms
from fgmbs.compiled.buckets import by_step
from fgmbs.compiled.program import FULLY, ONCE, program
from fgmbs.compiled.tracing import is_traced, repeat, where_needed
from fgmbs.dynamics.drive import least_effort
from fgmbs.dynamics.forcing import force_directions
from fgmbs.errors import ArgumentError, SolveError
from fgmbs.kinematics.base import prepared
from fgmbs.kinematics.closure import Closure, Instant
from fgmbs.kinematics.names import listed
from fgmbs.kinematics.search import aimed, unit_rows
from fgmbs.kinematics.tracking import Tracked, implicit_pose, implicit_poses, walk
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.driven.desired import DesiredMotion
from fgmbs.problems.driven.driven_motion import MISSING, DrivenMotion, driven_motion
from fgmbs.problems.driven.first_pose import check_first_pose, first_pose, out_of_reach
from fgmbs.problems.driven.motors import Motor
from fgmbs.problems.simulation.marching import Outside
from fgmbs.problems.solving import finish, solve
from fgmbs.status import Status
from fgmbs.typing import Coordinates, Scalar

_MET = 1e-6
"""Part of a rate that may be missing, next to a dead point."""
_IDLE = 1e-9
"""Share of an actuator's force that does work, below which it counts as none."""


class TrackingProblem(eqx.Module):
    """A desired motion that leaves no freedom, and the motors that are to make it; as `inverse_dynamics` solves it."""

    mechanism: AbstractMechanism
    motors: tuple[Motor, ...] = eqx.field(static=True)
    """All motors, in the order of the result."""
    outside: Outside
    """Those of known force, and the drive of those of unknown force."""
    wanted: DesiredMotion
    guess: Coordinates | None
    """Near which the first sample is assembled; on the branch as drawn where it is None [m, rad]."""
    covariance: bool = eqx.field(static=True, default=False)
    """Also compute the covariance of the forces."""


@solve.register(TrackingProblem)
def tracked_motion(problem: TrackingProblem) -> DrivenMotion:
    """The motion and the forces of the motors.

    Where the desired coordinates leave freedom, it moves as little as it can: a start for weighted tracking.
    """
    mechanism = problem.mechanism

    def found(rows):
        wanted = dataclasses.replace(problem.wanted, **rows)
        tracked = _followed(mechanism, wanted, problem.guess)
        motion = _forces(mechanism, problem.motors, problem.outside, wanted, tracked, problem.covariance)
        return motion.by_step, motion

    rows, motion = by_step(found, problem.wanted.by_step)
    return dataclasses.replace(motion, **rows)


@finish.register(TrackingProblem)
def _finish(problem: TrackingProblem, motion: DrivenMotion, *, throw: bool = True) -> DrivenMotion:
    if is_traced(motion):
        return motion
    wanted, reached = problem.wanted, np.asarray(motion.step_status == Status.converged)
    if throw and motion.t.ndim == 1 and not reached[0]:
        check_first_pose(problem.mechanism, wanted.followed, wanted.y[0], wanted.start, problem.guess)
    _refuse_idle(problem.outside.drive.motors, motion.influence)
    if throw and motion.t.ndim == 1 and not reached.all():
        raise SolveError(_beyond(problem.mechanism, wanted, motion, int(np.argmin(reached))), motion)
    if throw:
        motion.check()
    return motion


def _beyond(mechanism, wanted: DesiredMotion, motion: DrivenMotion, k: int) -> str:
    """How far the desired sample k is out of reach, the first that is."""
    distance = out_of_reach(mechanism, motion.q[k], wanted.t[k], wanted.followed, wanted.y[k])
    names = ", ".join(f"{name} = {float(y):.6g}" for name, y in zip(motion.desired_names, wanted.y[k], strict=True))
    if distance > 1e-6:
        return (
            f"the desired motion leaves what the mechanism can reach at sample {k}, t = {float(wanted.t[k]):.6g} s, by "
            f"{distance:.4g} (m for lengths, rad for angles): {names}; the samples before are in the result"
        )
    return (
        f"the desired motion cannot be followed to sample {k}, t = {float(wanted.t[k]):.6g} s, {names}, on the branch "
        "of the first sample: a singular pose (dead point) lies there, or samples are far apart; those before are in "
        "the result"
    )


def _followed(mechanism: AbstractMechanism, wanted: DesiredMotion, guess: Coordinates | None) -> Tracked:
    """The way from the drawing, turned as often as the first sample is, if it is assembled so and there is one; else
    from the pose of the first sample."""
    held, drawn, y0 = jax.lax.stop_gradient((mechanism, mechanism.reference, wanted.y[0]))
    t0 = jnp.asarray(wanted.start, drawn.dtype)
    drawn = _turned(held, drawn, t0, wanted.followed, y0)
    closed = unit_rows(mechanism, drawn, t0)[0]

    def attempt(state):
        _, searched, _ = state
        q0 = where_needed(searched, lambda: first_pose(mechanism, wanted.followed, y0, wanted.start, guess)[0], drawn)
        return _walk(mechanism, q0, wanted, searched, closed)

    T = wanted.t.shape[0]
    nothing = Tracked(np.zeros((T, mechanism.n), drawn.dtype), np.zeros(T, bool), np.zeros(T, int))
    return repeat(itemgetter(0), attempt, (np.asarray(True), np.asarray(guess is not None), nothing))[2]


def _turned(mechanism: AbstractMechanism, drawn: Coordinates, t: Scalar, followed: tuple[int, ...], y) -> Coordinates:
    """The drawing with whole turns of the followed angles, by which these are nearest to y."""
    angles = np.array([mechanism.coordinate_units[k] == "rad" for k in followed])
    return aimed(mechanism, drawn, t, *_nearest_turns(drawn, np.array(followed, int), angles, y))


@program(**ONCE)
def _nearest_turns(drawn: Coordinates, places, angles, y) -> tuple[Bool[Array, " n"], Coordinates]:
    """(which coordinates are turned, all of them)."""
    turns = jnp.where(angles, jnp.round((y - drawn[places]) / (2 * jnp.pi)), 0.0)
    return jnp.zeros(drawn.size, bool).at[places].set(turns != 0), drawn.at[places].add(2 * jnp.pi * turns)


@program(**FULLY)
def _walk(mechanism, q0, wanted: DesiredMotion, searched, closed) -> tuple[Array, Array, Tracked]:
    """(whether another attempt may lead farther, which has searched for its start; how far this one led)."""
    tracked = walk(prepared(mechanism), q0, wanted.t, wanted.followed, wanted.y, needed=searched | closed)
    return ~(searched | tracked.reached[0]), jnp.asarray(True), tracked


@program(**FULLY)
def _forces(mechanism, motors: tuple[Motor, ...], outside: Outside, wanted: DesiredMotion, tracked: Tracked, cov: bool):
    """The motion of these poses, and its forces."""
    mechanism, t, followed = prepared(mechanism), wanted.t, wanted.followed
    q, commands = implicit_poses(mechanism, tracked, t, followed, wanted.y).q, outside.known(t).commands
    dq, ddq, found, lambda_, load, missing, influence, met = jax.vmap(
        lambda q, t, c, *y: sample_forces(mechanism, outside, q, t, c, Closure(followed, Instant(t, *y)))
    )(q, t, commands, wanted.y, wanted.dy, wanted.ddy)
    driven = jnp.max(jnp.abs(missing)) <= MISSING * (jnp.max(load) + jnp.finfo(q.dtype).tiny)
    status = Status.where(driven, Status.converged, Status.not_driven)
    reached = tracked.reached & met
    status = Status.where(jnp.all(reached), status, Status.out_of_reach)
    return driven_motion(
        mechanism,
        motors,
        t,
        (q, dq, ddq),
        outside.forces(motors, found, commands),
        lambda_,
        wanted,
        missing=missing,
        influence=jnp.max(influence, axis=0),
        covariance=_force_covariance(mechanism, outside, q, commands, wanted) if cov else None,
        iterations={"positions": jnp.max(tracked.newton_steps)},
        step_status=jax.vmap(lambda there: Status.where(there, Status.converged, Status.out_of_reach))(reached),
        status=status,
    )


def sample_forces(mechanism: AbstractMechanism, outside: Outside, q, t, commands, closure: Closure):
    """(dq, ddq, u, λ, load, missing, influence, met) at one sample, whose motion the followed coordinates determine.

    With [S_Φ R] the right inverse of [Φ_q; B]: dq = S_Φ b + R dy, ddq = S_Φ c + R ddy; the forces of the motors
    balance Rᵀ(M ddq − Q) = RᵀA u ([Blanco21] eq. (49)), and λ = S_Φᵀ(Q + A u − M ddq). `met` is false where no
    velocity and acceleration has the rates that are asked for: at a dead point.
    """
    S, J = closure.inverse(mechanism, q, t), closure.jacobian(mechanism, q, t)
    m = J.shape[0] - len(closure.followed)

    def rates(right):
        x = S @ right
        x = x + S @ (right - J @ x)
        missing = jnp.abs(right - J @ x) / row_norms(mechanism.sized(J))
        return x, jnp.max(missing) <= _MET * jnp.max(jnp.abs(mechanism.relative(x)))

    dq, moves = rates(-closure.rate(mechanism, q, jnp.zeros(mechanism.nv, q.dtype), t))
    ddq, turns = rates(closure.bias(mechanism, q, dq, t))
    Q = mechanism.forces(q, dq, t) + outside.forcing.applied(mechanism, q, t, jnp.zeros(0, q.dtype), commands)
    inertia = mechanism.mass_matrix(q) @ ddq
    needed = inertia - Q
    A, R = force_directions(mechanism, q, t, outside.drive.motors), S[:, m:]
    u = least_effort(R.T @ A, R.T @ needed, outside.drive.effort, jnp.max(jnp.abs(R)) * jnp.max(jnp.abs(A)))
    left = needed - A @ u
    influence = jnp.max(jnp.abs(R.T @ A), axis=0, initial=0.0) / (
        jnp.max(jnp.abs(R)) * jnp.max(jnp.abs(A), axis=0) + 1e-300
    )
    load = jnp.abs(R.T @ inertia) + jnp.abs(R.T @ Q)  # what is in balance where no force is needed
    return dq, ddq, u, -S[:, :m].T @ left, load, R.T @ left, influence, moves & turns


def _force_covariance(mechanism, outside: Outside, q, commands, wanted: DesiredMotion):
    """Covariance of the forces, to first order in the noise of (y, dy, ddy) at each sample."""

    def at(q, t, c, y, dy, ddy, cov):
        def u(rates):
            closure = Closure(wanted.followed, Instant(t, *rates.T))
            moved = implicit_pose(mechanism, closure, q, t)
            return sample_forces(mechanism, outside, moved, t, c, closure)[2]

        J = jax.jacfwd(u)(jnp.stack([y, dy, ddy], axis=1))  # (nu, k, 3)
        return jnp.einsum("aki,kij,bkj->ab", J, cov, J)

    return jax.vmap(at)(q, wanted.t, commands, wanted.y, wanted.dy, wanted.ddy, wanted.cov)


def _refuse_idle(motors: tuple[str, ...], influence) -> None:
    """Refuses motors that cannot act on the motion.

    Raises:
        ArgumentError: Names them.
    """
    shares = np.max(np.asarray(influence).reshape(-1, len(motors)), axis=0)  # of all members of a batch
    idle = [motor for motor, share in zip(motors, shares, strict=True) if share <= _IDLE]
    if idle:
        raise ArgumentError(
            f"actuators: {listed(idle)} cannot influence the desired motion: "
            f"{'it does' if len(idle) == 1 else 'they do'} no work in any motion of the mechanism; leave "
            f"{'it' if len(idle) == 1 else 'them'} out"
        )
