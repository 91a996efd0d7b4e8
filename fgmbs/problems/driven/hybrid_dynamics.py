"""Hybrid dynamics: some coordinates follow a known motion, some motors have a known force, the rest is found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from fgmbs.arguments import by_name, of_type
from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import is_traced
from fgmbs.dynamics.drive import Drive
from fgmbs.dynamics.transitions import AbstractTransition
from fgmbs.errors import ArgumentError, Interrupted
from fgmbs.kinematics.base import prepared
from fgmbs.kinematics.closure import Closure
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.driven.desired import (
    Desired,
    DesiredMotion,
    checked_samples,
    checked_times,
    desired_motion,
    uniform_step,
)
from fgmbs.problems.driven.determined_motion import TrackingProblem
from fgmbs.problems.driven.driven_motion import MISSING, DrivenMotion, driven_motion
from fgmbs.problems.driven.first_pose import GivenStart, freedom_left, rough_start
from fgmbs.problems.driven.motors import Motor, chosen_motors, scales
from fgmbs.problems.simulation.arguments import Integrator, transition_of
from fgmbs.problems.simulation.marching import (
    InChunks,
    Marched,
    Outside,
    Run,
    at_once,
    lowered_march,
    march,
    unmarched,
)
from fgmbs.problems.simulation.result import refuse_failed, worst
from fgmbs.problems.solving import finish, solve
from fgmbs.signals.curves import force_curve, motion_curve
from fgmbs.signals.trajectories import PiecewisePolynomial
from fgmbs.status import Status, is_one_of
from fgmbs.typing import Coordinates, Scalar, Velocities

_SAME = 1e-6
"""Difference of a given start and a known motion that is rounding, relative to the coordinate."""


class HybridProblem(eqx.Module):
    """Partly the motion, partly the forces are known, with freedom left; as `hybrid_dynamics` solves it."""

    mechanism: AbstractMechanism
    motors: tuple[Motor, ...] = eqx.field(static=True)
    """All motors, in the order of the result."""
    outside: Outside
    """What is known."""
    wanted: DesiredMotion | None
    """The known motion, sample by sample."""
    rule: AbstractTransition
    t: Float[Array, " steps"]
    """Uniform times [s]."""
    start: GivenStart
    """Of free coordinates; where the others begin, their motion tells."""


@solve.register(HybridProblem)
def _solve(problem: HybridProblem) -> DrivenMotion:
    return _motion(problem, *_first_state(problem), at_once)[0]


@finish.register(HybridProblem)
def _finish(problem: HybridProblem, motion: DrivenMotion, *, throw: bool = True) -> DrivenMotion:
    if throw and not is_traced(motion):
        if motion.t.ndim == 1:
            _check_start(problem, motion.q[0], motion.status)
        if np.any(np.asarray(motion.status == Status.not_driven)):
            motion.check()
        refuse_failed(motion, motion.step_status)
    return motion


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
        ArgumentError: An argument is invalid.
        AssemblyError: The mechanism cannot be assembled with the first sample.
        SolveError: The motion is out of reach or impossible with these motors, or a solve failed; its `result` holds
            what was reached.
        Interrupted: Ctrl-C; its `result` holds the steps that were done.
    """
    of_type("throw", throw, bool, "True or False")
    how = dict(effort=effort, sigma=sigma, start=start, start_velocities=start_velocities, integrator=integrator)
    problem = prepare_hybrid_dynamics(mechanism, t, motion, forces, actuators, **how)
    if isinstance(problem, TrackingProblem):
        return finish(problem, solve(problem), throw=throw)
    q, dq, status = _first_state(problem)
    if is_traced(q):  # nobody can look in between
        return _motion(problem, q, dq, status, at_once)[0]
    if throw:
        _check_start(problem, q, status)
    with compiled_ahead(lambda: _lowered(problem, q, dq, status), problem):
        result, interrupted = _motion(problem, q, dq, status, InChunks(progress))
    if interrupted:
        raise Interrupted(f"interrupted after {result.t.shape[0]} of {len(problem.t)} steps", result)
    return finish(problem, result, throw=throw)


def prepare_hybrid_dynamics(
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
) -> HybridProblem | TrackingProblem:
    """The problem that `hybrid_dynamics` solves, as a pytree, for `solve` and `finish`; arguments as there.

    Raises:
        ArgumentError: An argument is invalid.
        AssemblyError: The mechanism cannot be assembled as drawn.
    """
    checked_mechanism(mechanism)
    for argument, given in (("motion", motion), ("forces", forces)):
        if given is not None:
            by_name(argument, given, "numbers over time by name, or functions of it")
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
            return TrackingProblem(mechanism, motors, outside, wanted, rough_start(mechanism, start))
    uniform_step(times, "because free coordinates are integrated over them")
    given = GivenStart.of(mechanism, start, start_velocities)
    problem = HybridProblem(mechanism, motors, outside, wanted, transition_of(integrator), jnp.asarray(times), given)
    _refuse_other_start(problem)
    return problem


def _refuse_other_start(problem: HybridProblem) -> None:
    """Refuses a given coordinate that is not where its known motion begins.

    Raises:
        ArgumentError: Names it.
    """
    given, known = problem.start, _known_start(problem)
    if given.given is None or is_traced(known.values):
        return
    names, sizes = problem.mechanism.coordinate_names, problem.mechanism.coordinate_sizes
    columns = (np.asarray(column) for column in (given.given, given.values, known.values, sizes))
    for name, there, value, begin, size in zip(names, *columns, strict=True):
        if there and abs(value - begin) > _SAME * (size + abs(begin)):
            raise ArgumentError(
                f"start[{name!r}]: expected {begin:.9g}, where its known motion begins; found {value:.9g}"
            )


@program(**ONCE)
def _known_start(problem: HybridProblem) -> GivenStart:
    """What is given of the start, with where the known motion begins."""
    mechanism, outside, start = problem.mechanism, problem.outside, problem.start
    if outside.drive is None:
        return start
    t0, places = problem.t[0], jnp.asarray(outside.drive.followed, int)
    y, dy = jax.jvp(outside.motion, (t0,), (jnp.ones_like(t0),))
    mask = jnp.zeros(mechanism.n, bool) if start.given is None else start.given
    rates_mask, rates = start.of_velocities(mechanism)
    if mechanism.is_vector_space:  # its velocities are those of the coordinates
        rates_mask, rates = rates_mask.at[places].set(True), rates.at[places].set(dy)
    return GivenStart(mask.at[places].set(True), start.values.at[places].set(y), rates_mask, rates)


def _check_start(problem: HybridProblem, q: Coordinates, status: Status) -> None:
    """Refuses a start that is none, see `GivenStart.check`."""
    if is_one_of(status, Status.not_assembled, Status.contradictory):
        _known_start(problem).check(problem.mechanism, q, float(problem.t[0]), status)


def _first_state(problem: HybridProblem) -> tuple[Coordinates, Velocities, Status]:
    """(q, dq, status) of the start: free coordinates as given, the others where their motion begins."""
    mechanism, outside, (t0, _) = problem.mechanism, problem.outside, _clock(problem.t)
    q, dq, status = _known_start(problem).at(mechanism, t0)
    if not mechanism.is_vector_space and outside.drive is not None:
        closure = Closure(outside.drive.followed, outside.motion)
        dq = dq - closure.inverse(mechanism, q, t0) @ closure.rate(mechanism, q, dq, t0)
    return q, dq, status


def _motion(problem: HybridProblem, q, dq, status: Status, run: Run) -> tuple[DrivenMotion, bool]:
    """(The motion from a start on, whether it was interrupted)."""
    mechanism, outside, rule, t = problem.mechanism, problem.outside, problem.rule, problem.t
    marched, interrupted = march(mechanism, rule, outside, q, dq, *_clock(t), t.shape[0] - 1, run)
    return _driven(problem, marched, status), interrupted


@program(**ONCE)
def _clock(t: Float[Array, " steps"]) -> tuple[Scalar, Scalar]:
    """(the first time, the time step)."""
    return t[0], (t[-1] - t[0]) / (t.shape[0] - 1)


def _lowered(problem: HybridProblem, q, dq, status: Status) -> Iterator[Callable[[], Any]]:
    """The programs of the steps and of what is told of them, before there are any."""
    mechanism, t = problem.mechanism, problem.t
    yield lowered_march(mechanism, problem.rule, problem.outside, q, dq, *_clock(t))
    yield _driven.ahead(problem, unmarched(q, dq, status, t.shape[0]), status)


def _command(where: str, value: ArrayLike | Callable, times: np.ndarray) -> Callable:
    """A known force as a function of time.

    Raises:
        ArgumentError: Samples of another shape or that are not finite.
    """
    if callable(value):
        return OfTime(value) if jax.tree_util.all_leaves([value]) else value
    return _through(times, checked_samples(where, value, times, 1))


@program(**ONCE)
def _through(times: Float[Array | np.ndarray, " steps"], force: Float[Array, "steps 1"]) -> PiecewisePolynomial:
    curve = force_curve(times, force)
    return PiecewisePolynomial(curve.knots, curve.coefficients[0])


class OfTime(eqx.Module):
    """A plain function of time as a part of a pytree."""

    function: Callable = eqx.field(static=True)

    def __call__(self, t: Scalar) -> Scalar:
        return self.function(t)


@program
def _driven(problem: HybridProblem, marched: Marched, status: Status) -> DrivenMotion:
    """The steps of a simulation as a driven motion."""
    mechanism, motors, outside, wanted = prepared(problem.mechanism), problem.motors, problem.outside, problem.wanted
    (q, dq, _), iterations, step_status = marched
    t = problem.t[: q.shape[0]]
    if wanted is not None:
        wanted = wanted.first(q.shape[0])
    status = Status.where(status == Status.converged, worst(step_status), status)
    stepper, known = outside.stepper(mechanism, problem.rule), outside.known(t)
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
        step_status=step_status,
        status=status,
    )
