"""Hybrid dynamics: some coordinates follow a known motion, some motors have a known force, the rest is found."""

from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from fgmbs.dynamics.drive import Drive
from fgmbs.errors import ArgumentError, Interrupted, Status
from fgmbs.kinematics.closure import Closure
from fgmbs.kinematics.names import given_arrays, listed
from fgmbs.mechanisms.base import AbstractMechanism, prepared
from fgmbs.problems.curves import force_curve, motion_curve
from fgmbs.problems.desired import (
    Desired,
    DesiredMotion,
    checked_samples,
    checked_times,
    desired_motion,
    uniform_step,
)
from fgmbs.problems.determined_motion import determined_motion
from fgmbs.problems.driven_motion import MISSING, DrivenMotion, driven_motion
from fgmbs.problems.first_pose import assembled_start, freedom_left
from fgmbs.problems.marching import Marched, Outside, march
from fgmbs.problems.motors import chosen_motors, scales
from fgmbs.problems.simulation import refuse_failed, worst
from fgmbs.problems.simulation_arguments import Integrator, transition_of, velocities_given
from fgmbs.tracing import is_traced
from fgmbs.trajectories import PiecewisePolynomial

_SAME = 1e-6
"""Difference of a given start and a known motion that is rounding, relative to the coordinate."""


def hybrid_dynamics(
    mechanism: AbstractMechanism,
    t: ArrayLike,
    motion: Mapping[str, Desired] | None = None,
    forces: Mapping[str, ArrayLike | Callable] | None = None,
    actuators: Sequence[str] | None = None,
    *,
    effort: Mapping[str, float] | None = None,
    sigma: Mapping[str, float | tuple[float, float, float]] | None = None,
    start: Mapping[str, float] | None = None,
    start_velocities: Mapping[str, float] | None = None,
    integrator: Integrator = "hermite_simpson",
    throw: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> DrivenMotion:
    """The motion and the forces of a mechanism of which partly the one, partly the other is known. [Xie19]

    Each coordinate either follows a known motion or moves as dynamics says; each motor either has a known force or the
    one that the known motion needs. All motion known is inverse, all forces known forward dynamics. Free coordinates
    are integrated along the constraints, to which the known motion belongs (see `simulate`); at every instant the
    motors produce the accelerations of the known motion, with the least Σ (u/effort)².

    Args:
        mechanism: The mechanism.
        t: Times of the samples, increasing; uniform where coordinates are free [s].
        motion: Known motion by coordinate name or "point:NAME", as in `inverse_dynamics`.
        forces: Known forces by motor: samples, joined by a cubic curve, or functions of time, as
            `DrivenMotion.commands` are.
        actuators: Names of all motors; by default those in `forces` and, if there is known motion, the actuators of the
            mechanism.
        effort: Scale of the force of each motor of unknown force; 1 by default [N, N·m].
        sigma: Standard deviations of the known motion, see `inverse_dynamics`.
        start: Free coordinates of the start by name; the rest is assembled, near the mechanism as drawn [m, rad].
        start_velocities: Velocities of the start of free coordinates by name; by default those of the mechanism's file,
            and as slow as they allow [m/s, rad/s].
        integrator: Integration rule, see `simulate`.
        throw: Raise an error if it fails; otherwise leave it to `status`.
        progress: Called with (steps done, steps in all) from time to time.

    Raises:
        ArgumentError: An argument cannot be meant.
        AssemblyError: The mechanism cannot be assembled with the first sample.
        SolveError: The motion is out of reach or impossible with these motors, or a solve failed; its `result` holds
            what was reached.
        Interrupted: Ctrl-C; its `result` holds the steps that were done.
    """
    if not motion and not forces:
        raise ArgumentError("motion, forces: expected a known motion or known forces; found neither (see simulate)")
    known = dict(forces or {})
    if actuators is None:
        actuators = [*known, *(name for name in mechanism.actuator_names if motion and name not in known)]
    motors = chosen_motors(mechanism, actuators) if actuators else ()
    names = [motor.name for motor in motors]
    if stray := [name for name in known if name not in names]:
        raise ArgumentError(f"forces: expected names of actuators, {listed(names)}; found {listed(stray)}")
    powered = tuple(motor for motor in motors if motor.name in known)
    unknown = tuple(motor for motor in motors if motor.name not in known)
    if unknown and not motion:
        raise ArgumentError(
            f"forces: expected the force of every actuator where no motion is known; none for "
            f"{listed(motor.name for motor in unknown)}"
        )
    if motion and not unknown:
        raise ArgumentError(
            "actuators: expected an actuator whose force is not known, to make the known motion; found none"
        )
    times = checked_times(t)
    scale = scales(unknown, effort, "effort")
    commands = tuple(_command(f"forces[{motor.name!r}]", known[motor.name], times) for motor in powered)
    outside, wanted = Outside(tuple(motor.name for motor in powered), commands), None
    if motion:
        wanted = desired_motion(mechanism, times, motion, sigma, argument="motion")
        drive = Drive(tuple(motor.name for motor in unknown), wanted.followed, scale)
        outside = Outside(outside.commanded, commands, drive, motion_curve(wanted.t, wanted.y, wanted.dy, wanted.ddy))
        if freedom_left(mechanism, wanted.followed, wanted.start) == 0:
            return determined_motion(mechanism, motors, outside, wanted, start, throw=throw)

    dt = jnp.asarray(uniform_step(times, "because free coordinates are integrated over them"))
    rule, t0 = transition_of(integrator), jnp.asarray(times[0])
    q, dq, status = _first_state(mechanism, outside, t0, start, start_velocities)
    marched, interrupted = march(mechanism, rule, outside, q, dq, t0, dt, len(times) - 1, progress)
    result = _driven(mechanism, motors, wanted, outside, rule, jnp.asarray(times), marched, status)
    if interrupted:
        raise Interrupted(f"interrupted after {result.t.shape[0]} of {len(times)} steps", result)
    if throw and not is_traced(result):
        if bool(result.status == Status.not_driven):
            result.check()
        refuse_failed(result, marched.status)
    return result


def _first_state(mechanism, outside: Outside, t0, start, start_velocities):
    """(q, dq, status) of the start: free coordinates as given, the others where their motion begins."""
    followed = () if outside.drive is None else outside.drive.followed
    y, dy = jax.jvp(outside.motion, (t0,), (jnp.ones_like(t0),)) if followed else (jnp.zeros(0), jnp.zeros(0))
    places, names = jnp.asarray(followed, int), mechanism.coordinate_names
    mask, values = given_arrays(mechanism, start, "start")
    for k, i in enumerate(followed):
        if not is_traced(y) and mask[i] and abs(values[i] - y[k]) > _SAME * (1 + abs(y[k])):
            raise ArgumentError(
                f"start[{names[i]!r}]: expected {float(y[k]):.9g}, where its known motion begins; found {values[i]:.9g}"
            )
    mask, values = mask.at[places].set(True), values.at[places].set(y)
    dq_mask, dq_values = velocities_given(mechanism, start_velocities)
    if mechanism.is_vector_space:  # its velocities are those of the coordinates
        dq_mask, dq_values = dq_mask.at[places].set(True), dq_values.at[places].set(dy)
    given = mask if start or followed else None
    q, dq, status = assembled_start(mechanism, t0, (given, values), (dq_mask, dq_values))
    if not mechanism.is_vector_space and followed:
        closure = Closure(followed, outside.motion)
        dq = dq - closure.inverse(mechanism, q, t0) @ closure.rate(mechanism, q, dq, t0)
    return q, dq, status


def _command(where: str, value: ArrayLike | Callable, times: np.ndarray) -> Callable:
    """A known force as a function of time.

    Raises:
        ArgumentError: Samples of another shape or that are not finite.
    """
    if callable(value):
        return value
    curve = force_curve(jnp.asarray(times), checked_samples(where, value, times, 1))
    return PiecewisePolynomial(curve.knots, curve.coefficients[0])


@eqx.filter_jit
def _driven(
    mechanism, motors, wanted: DesiredMotion | None, outside: Outside, rule, t, marched: Marched, status
) -> DrivenMotion:
    """The steps of a simulation as a driven motion."""
    mechanism = prepared(mechanism)
    (q, dq, _), iterations, step_status = marched
    t = t[: q.shape[0]]
    if wanted is not None:
        wanted = wanted.first(q.shape[0])
    status = Status.where(status == Status.converged, worst(step_status), status)
    stepper, known = outside.stepper(mechanism, rule), outside.known(t)
    ddq, lambda_, found = jax.vmap(stepper.motion)(q, dq, t, known)
    missing = None
    if outside.drive is not None:
        drive = outside.drive
        missing, lacking = jax.vmap(lambda *row: drive.missing(mechanism, *row))(q, dq, ddq, t, known.ddy)
        possible = jnp.max(jnp.abs(lacking)) <= MISSING * (jnp.max(jnp.abs(ddq)) + jnp.finfo(q.dtype).tiny)
        status = Status.where(possible | (status == Status.non_finite), status, Status.not_driven)
    return driven_motion(
        mechanism,
        motors,
        t,
        (q, dq, ddq),
        outside.forces(motors, found, known.commands),
        lambda_,
        wanted,
        missing=missing,
        iterations={"motion": jnp.sum(iterations)},
        status=status,
    )
