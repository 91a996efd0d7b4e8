"""Hybrid dynamics: some coordinates follow a known motion, some motors have a known force, the rest is found."""

from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from fgmbs.dynamics import acceleration
from fgmbs.errors import ArgumentError, SolveError, Status
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism
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
from fgmbs.problems.driven import Actuated, Driven
from fgmbs.problems.driven_motion import MISSING, DrivenMotion, driven_motion
from fgmbs.problems.first_pose import freedom_left, is_traced
from fgmbs.problems.forward_graph import Integrator
from fgmbs.problems.motors import Motor, chosen_motors, scales
from fgmbs.problems.simulate import simulate
from fgmbs.problems.simulation import Simulation
from fgmbs.trajectories import PiecewisePolynomial


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
    are integrated by the graph of forward dynamics with the known motion as a constraint (see `simulate`); at every
    instant the motors produce the accelerations of the known motion, with the least Σ (u/effort)².

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
        Interrupted: Ctrl-C; its `result` is the `Simulation` of the steps that were done.
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
    actuated = Actuated(mechanism, unknown, powered, commands)
    wanted = None
    if motion:
        wanted = desired_motion(mechanism, times, motion, sigma, argument="motion")
        if freedom_left(mechanism, wanted.followed, wanted.start) == 0:
            return determined_motion(actuated, motors, wanted, scale, start, throw=throw)

    dt = uniform_step(times, "because free coordinates are integrated over them")
    actuated = eqx.tree_at(lambda a: a.epoch, actuated, jnp.asarray(times[0]))
    moved = actuated
    if wanted is not None:
        curve = motion_curve(wanted.t, wanted.y, wanted.dy, wanted.ddy)
        moved = Driven(actuated, wanted.followed, curve, scale)
    simulation = simulate(
        moved,
        float(times[-1] - times[0]),
        dt,
        integrator=integrator,
        start=start,
        start_velocities=start_velocities,
        throw=False,
        progress=progress,
    )
    result = _driven(moved, motors, wanted, simulation)
    if throw and not is_traced(result):
        if bool(result.status == Status.not_driven):
            result.check()
        try:
            simulation.check()
        except SolveError as error:
            raise SolveError(str(error), result) from None
    return result


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
def _driven(moved: Actuated | Driven, motors: tuple[Motor, ...], wanted: DesiredMotion | None, simulation: Simulation):
    """A simulation as a driven motion."""
    actuated = (moved.actuated if isinstance(moved, Driven) else moved).evaluated()
    mechanism, q, dq, ddq = actuated.mechanism, simulation.q, simulation.dq, simulation.ddq
    t = simulation.t + actuated.epoch
    found = jnp.zeros((t.shape[0], 0), q.dtype)
    missing = found
    status = simulation.status
    if isinstance(moved, Driven):
        driven = moved.evaluated()
        _, _, found = jax.vmap(driven.drive)(q, dq, simulation.t)
        missing, lacking = jax.vmap(driven.missing)(q, ddq, simulation.t)
        possible = jnp.max(jnp.abs(lacking)) <= MISSING * (jnp.max(jnp.abs(ddq)) + jnp.finfo(q.dtype).tiny)
        status = Status.where(possible | (status == Status.non_finite), status, Status.not_driven)
    u = actuated.all_forces(motors, simulation.t, found)

    def multipliers(q, dq, t, u):
        return acceleration(actuated, q, dq, t, actuated.actuation(q, t) @ u)[1]

    lambda_ = jax.vmap(multipliers)(q, dq, simulation.t, found)
    return driven_motion(
        mechanism,
        motors,
        t,
        (q, dq, ddq),
        u,
        lambda_,
        wanted,
        missing=missing,
        iterations={"motion": jnp.sum(simulation.iterations)},
        status=status,
    )
