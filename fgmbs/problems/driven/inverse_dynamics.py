"""Inverse dynamics: which forces make a mechanism move so."""

from collections.abc import Mapping, Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from fgmbs.arguments import of_type
from fgmbs.compiled.program import program
from fgmbs.compiled.tracing import is_traced
from fgmbs.dynamics.drive import Drive
from fgmbs.dynamics.forcing import Forcing
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.base import prepared
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.driven.desired import Desired, DesiredMotion, desired_motion
from fgmbs.problems.driven.determined_motion import TrackingProblem, tracked_motion
from fgmbs.problems.driven.driven_motion import DrivenMotion, driven_motion
from fgmbs.problems.driven.first_pose import check_first_pose, refuse_freedom, rough_start
from fgmbs.problems.driven.motors import Motor, chosen_motors, scales
from fgmbs.problems.driven.weighted_tracking import WeightedTracking, weighted_tracking
from fgmbs.problems.simulation.marching import Outside
from fgmbs.problems.solving import finish, solve
from fgmbs.status import Status, is_one_of


class WeightedProblem(eqx.Module):
    """A desired motion that is to be followed as well as the weights tell; as `inverse_dynamics` solves it."""

    exact: TrackingProblem
    """The same with exact tracking, as far as there is any: where the search begins."""
    changes: Float[Array, " nu"] | None
    """Standard deviation of the change of each force in one second [N/√s, N·m/√s]."""
    covariance: bool = eqx.field(static=True)
    """Also compute the covariance of the forces."""


def inverse_dynamics(
    mechanism: AbstractMechanism,
    t: ArrayLike,
    desired: Mapping[str, Desired],
    actuators: Sequence[str] | None = None,
    *,
    tracking: Literal["exact", "weighted"] = "exact",
    effort: Mapping[str, float] | None = None,
    smoothness: Mapping[str, float] | None = None,
    sigma: Mapping[str, float | tuple[float, float, float]] | None = None,
    start: Mapping[str, float] | None = None,
    covariance: bool = False,
    throw: bool = True,
) -> DrivenMotion:
    """The forces with which the motors make a mechanism follow a desired motion. [Blanco21] sections 5.3, 7.2

    The graph of Fig. 4 with exact tracking falls apart into stages, each of which is solved once:

    1. where the desired motion is given by samples, velocities and accelerations of a smooth signal through them, a
       linear time graph (`problems.sampled_motion`);
    2. positions of all coordinates, followed along the branch of the first sample (`kinematics.tracking`);
    3. velocities and accelerations, 4. forces: linear at each sample.

    With more motors than the motion needs, the forces of least Σ (u/effort)² are taken at each sample. Derivatives,
    forward or reverse, and `jax.vmap` pass through it; there nothing is raised, see `DrivenMotion.status`.

    With weighted tracking the graph is solved as a whole (`problems.weighted_tracking`), starting from there, for the
    motion and the forces of least Σ (error/sigma)² + Σ (u/effort)². The desired motion may then be impossible, or
    leave freedom, of which the mechanism makes the best.

    Args:
        mechanism: The mechanism.
        t: Times of the samples, increasing; uniform where samples come without derivatives [s].
        desired: By coordinate name, or "point:NAME" for x and y of a point: samples (steps,) or (steps, 2), a tuple
            (values, velocities, accelerations), or a function of time. Together with the constraints they determine the
            motion; where they leave freedom, see `hybrid_dynamics` [m, rad].
        actuators: Names of the motors: actuators of the mechanism or coordinates that a force acts on; all actuators of
            the mechanism by default.
        tracking: "exact", or "weighted", for which `sigma` and `effort` of everything are given.
        effort: Scale of the force of each motor, its standard deviation around zero; 1 by default [N, N·m].
        smoothness: Standard deviation of the change of each force in one second, for weighted tracking [N/√s, N·m/√s].
        sigma: Standard deviations of the desired motion; those of samples are found from them by default.
        start: Coordinates near which the first sample is assembled, by name; as drawn by default [m, rad].
        covariance: Also compute the covariance of the forces for the noise of the desired motion.
        throw: Raise an error if the motion cannot be made; otherwise leave it to `status`.

    Raises:
        ArgumentError: An argument is invalid.
        AssemblyError: The mechanism cannot be assembled with the first sample.
        SolveError: The motion is out of reach, or impossible with these motors; its `result` holds what was reached.
    """
    how = dict(tracking=tracking, effort=effort, smoothness=smoothness, sigma=sigma, start=start, covariance=covariance)
    of_type("throw", throw, bool, "True or False")
    problem = prepare_inverse_dynamics(mechanism, t, desired, actuators, **how)
    return finish(problem, solve(problem), throw=throw)


def prepare_inverse_dynamics(
    mechanism: AbstractMechanism,
    t: ArrayLike,
    desired: Mapping[str, Desired],
    actuators: Sequence[str] | None = None,
    *,
    tracking: Literal["exact", "weighted"] = "exact",
    effort: Mapping[str, float] | None = None,
    smoothness: Mapping[str, float] | None = None,
    sigma: Mapping[str, float | tuple[float, float, float]] | None = None,
    start: Mapping[str, float] | None = None,
    covariance: bool = False,
) -> TrackingProblem | WeightedProblem:
    """The problem that `inverse_dynamics` solves, as a pytree, for `solve` and `finish`; arguments as there.

    Raises:
        ArgumentError: An argument is invalid.
        AssemblyError: The mechanism cannot be assembled.
    """
    if tracking not in ("exact", "weighted"):
        raise ArgumentError(f"tracking: expected 'exact' or 'weighted'; found {tracking!r}")
    motors = chosen_motors(mechanism, actuators)
    scale = scales(motors, effort, "effort")
    if smoothness is not None and tracking == "exact":
        raise ArgumentError("smoothness: only with tracking='weighted'; found tracking='exact'")
    if tracking == "weighted":
        for name, given, wanted in (("effort", effort, [m.name for m in motors]), ("sigma", sigma, list(desired))):
            if missing := [key for key in wanted if key not in (given or {})]:
                raise ArgumentError(
                    f"{name}: expected one for each of {listed(wanted)}; found none for {listed(missing)}"
                )
    wanted = desired_motion(mechanism, t, desired, sigma, covariance)
    exact = TrackingProblem(
        mechanism,
        motors,
        Outside(drive=Drive(tuple(motor.name for motor in motors), wanted.followed, scale)),
        wanted,
        rough_start(mechanism, start),
        covariance and tracking == "exact",
    )
    if tracking == "weighted":
        changes = scales(motors, smoothness, "smoothness") if smoothness is not None else None
        return WeightedProblem(exact, changes, covariance)
    refuse_freedom(mechanism, wanted.followed, wanted.start)
    return exact


@solve.register(WeightedProblem)
def _solve(problem: WeightedProblem) -> DrivenMotion:
    wanted, outside, exact = problem.exact.wanted, problem.exact.outside, tracked_motion(problem.exact)
    found = weighted_tracking(
        problem.exact.mechanism,
        wanted.t,
        wanted.followed,
        wanted.samples,
        wanted.sigma,
        (exact.q, exact.dq, exact.ddq, exact.forces),
        outside.drive.effort,
        problem.changes,
        motors=outside.drive.motors,
        covariance=problem.covariance,
    )
    return _weighted(problem.exact.mechanism, problem.exact.motors, exact, wanted, found)


@finish.register(WeightedProblem)
def _finish(problem: WeightedProblem, motion: DrivenMotion, *, throw: bool = True) -> DrivenMotion:
    if throw and not is_traced(motion):
        exact = problem.exact
        if motion.t.ndim == 1 and is_one_of(motion.status, Status.out_of_reach):
            check_first_pose(exact.mechanism, exact.wanted.followed, exact.wanted.y[0], exact.wanted.start, exact.guess)
        motion.check()
    return motion


@program
def _weighted(
    mechanism: AbstractMechanism,
    motors: tuple[Motor, ...],
    exact: DrivenMotion,
    wanted: DesiredMotion,
    found: WeightedTracking,
) -> DrivenMotion:
    """The result of weighted tracking as a driven motion."""
    mechanism, t = prepared(mechanism), wanted.t
    assembled = (exact.step_status == Status.converged)[0]
    status = Status.where(assembled, found.status, Status.out_of_reach)
    forcing = Forcing(tuple(motor.name for motor in motors), (), jnp.ones(len(motors)))
    lambda_ = jax.vmap(lambda *row: forcing.motion(mechanism, *row, jnp.zeros(0))[1])(found.q, found.dq, t, found.u)
    return driven_motion(
        mechanism,
        motors,
        t,
        (found.q, found.dq, found.ddq),
        found.u,
        lambda_,
        wanted,
        covariance=found.covariance_u,
        iterations={**exact.iterations, "weighted": found.iterations},
        step_status=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, t.shape), status),
        status=status,
    )
