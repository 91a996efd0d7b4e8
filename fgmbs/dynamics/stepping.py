"""One step of a simulation: an integration rule solved along the constraints, which hold to rounding.

The unknowns are the independent coordinates of the second step and their rates, 2·dof; what they are is left open: a
residual counts along the constraints only, projected in the metric of the mass matrix, and every iteration closes the
constraints in the same metric. One factorization of the KKT matrix gives the accelerations, the projector and the way
back to the constraints.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fgmbs.algebra.kkt import applied, kkt_inverse, refined
from fgmbs.dynamics.drive import Drive
from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.transitions import AbstractTransition, State
from fgmbs.kinematics.closure import Closure, row_sizes
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.status import Status
from fgmbs.typing import Coordinates, Scalar, Velocities

_TOLERANCE = 1e-11
"""Error that an iteration may leave, relative to the displacement in one step."""
_FIXED_POINT_LIMIT = 30
_NEWTON_LIMIT = 20
_SLOW = 0.3
"""Contraction of the fixed-point iteration from which on Newton's method is cheaper."""
_ROUNDING = 4.0
"""Rounding of positions in one correction, in units in the last place of the largest coordinate."""


class Step(NamedTuple):
    """A step, with its accelerations."""

    q: Coordinates
    dq: Velocities
    ddq: Velocities


class Known(NamedTuple):
    """What is known from outside at the points of an interval: its start, the inner points of the rule, its end."""

    commands: Float[Array, "points nc"]
    """[N, N·m]"""
    ddy: Float[Array, "points k"]
    """Accelerations of the followed coordinates [m/s², rad/s²]."""

    def at(self, point: int) -> "Known":
        """What is known at one point."""
        return Known(self.commands[point], self.ddy[point])


class Ended(NamedTuple):
    """How a step was found."""

    iterations: Int[Array, ""]
    status: Status


class Stepper(eqx.Module):
    """Takes a mechanism from step to step under known forces, and along a motion that is known in part."""

    mechanism: AbstractMechanism
    rule: AbstractTransition
    forcing: Forcing
    """Where the commands act."""
    drive: Drive | None
    closure: Closure
    """What holds at every step: the constraints, and the motion that is known."""

    @property
    def outside(self) -> bool:
        """Whether anything is known from outside."""
        return bool(self.forcing.known) or self.drive is not None

    def motion(
        self, q: Coordinates, dq: Velocities, t: Scalar, known: Known
    ) -> tuple[Velocities, Float[Array, " m"], Float[Array, " nu"]]:
        """(ddq, λ, u) at one point, u the forces of the drive's motors.

        Args:
            q: Coordinates [m, rad].
            dq: Velocities [m/s, rad/s].
            t: Time [s].
            known: At this point.
        """
        Q = self.forcing.applied(self.mechanism, q, t, jnp.zeros(0, q.dtype), known.commands)
        if self.drive is None:
            return *self.mechanism.accelerations(q, dq, t, Q), jnp.zeros(0, q.dtype)
        return self.drive.motion(self.mechanism, q, dq, t, known.ddy, Q)

    def start(self, q: Coordinates, dq: Velocities, t: Scalar, known: Known) -> Step:
        """The first step, from an assembled position with velocities that the constraints allow."""
        return Step(q, dq, self.motion(q, dq, t, known)[0])

    def predict(self, start: Step, slope: Velocities, dt: Scalar) -> State:
        """The next step if the accelerations go on along a straight line.

        Args:
            start: The step before.
            slope: Change of the accelerations over one step.
            dt: Time step [s].
        """
        v = dt * start.dq + dt**2 * (start.ddq / 2 + slope / 6)
        return State(self.mechanism.retract(start.q, v), start.dq + dt * (start.ddq + slope / 2))

    def step(self, start: Step, guess: State, t: Scalar, dt: Scalar, known: Known) -> tuple[Step, Ended]:
        """The step after `start`; differentiable with respect to everything but the guess.

        Fixed-point iterations, and Newton's method where those are slow, as in stiff springs.

        Args:
            start: The step before.
            guess: Where the search begins.
            t: Time of the new step [s].
            dt: Time since the step before [s].
            known: At all points of the interval.
        """
        return _solved(self, start, guess, t, dt, known)

    def missed(self, start: State, end: State, t: Scalar, dt: Scalar, known: Known) -> Float[Array, " twice_nv"]:
        """What an interval misses: the rule along the constraints, and the constraints at its end.

        Of a step that `step` found it is zero, and the derivatives of that are those of its derivatives, of any order,
        without the search.

        Args:
            start: State at the start of the interval …
            end: … and at its end.
            t: Time of the end [s].
            dt: Length [s].
            known: At all points of the interval.
        """
        return _missed(self, start, end, t, dt, known, _accelerations(self, start, end, t, dt, known))


class _Point(NamedTuple):
    """A closed position with velocities that the constraints allow."""

    q: Array
    dq: Array
    ddq: Array
    M: Array
    force: Array
    """Generalized forces of the mechanism."""
    J: Array
    S: Array


class _Search(NamedTuple):
    state: State
    error: Array
    """Last correction relative to the displacement in a step, …"""
    last: Array
    """… and the one before."""
    rounding: Array
    """Whether the last correction is no more than rounding of positions."""
    k: Array
    """Corrections so far …"""
    most: Array
    """… and at most."""
    newton: Array
    """Whether they are those of Newton's method."""


@eqx.filter_custom_jvp
def _solved(stepper: Stepper, start: Step, guess: State, t, dt, known) -> tuple[Step, Ended]:
    if stepper.outside:  # the accelerations may jump at the start
        start = stepper.start(start.q, start.dq, t - dt, known.at(0))

    drifted = State(stepper.mechanism.retract(start.q, dt * start.dq), start.dq)

    def correct(search: _Search, p: _Point, r_q, r_dq) -> _Search:
        """The point moved back by residuals."""
        moved = State(stepper.mechanism.retract(p.q, -r_q), p.dq - r_dq)
        inertia = jnp.trace(p.M)

        def norm(x):
            return jnp.sqrt(jnp.maximum(jnp.sum(x * (p.M @ x)), 0.0))

        # Forces in balance are known to rounding only, and so are positions, which small steps hardly change.
        balance = dt**2 * jnp.sqrt(jnp.sum(p.force**2) * p.force.size / inertia)
        scale = dt * norm(p.dq) + dt**2 * norm(p.ddq) + balance
        moved_by = norm(r_q) + dt * norm(r_dq)
        error = moved_by / jnp.where(scale > 0, scale, 1.0)
        least = _ROUNDING * jnp.finfo(p.q.dtype).eps * jnp.sqrt(inertia) * jnp.max(jnp.abs(p.q))
        return search._replace(state=moved, error=error, last=search.error, rounding=moved_by <= least, k=search.k + 1)

    def iterate(search: _Search, p: _Point) -> _Search:
        r_q, r_dq = _along(p.J, p.S, _residual(stepper, start, State(p.q, p.dq), p.ddq, t, dt, known))
        return correct(search, p, r_q + stepper.rule.velocity_share * dt * r_dq, r_dq)

    def newton(search: _Search, p: _Point) -> _Search:
        def missed_twice(y):
            end = _beside(stepper, p, y)
            ddq = _accelerations(stepper, State(start.q, start.dq), end, t, dt, known, start.ddq)
            missed = _missed(stepper, State(start.q, start.dq), end, t, dt, known, ddq, p.J, p.S)
            return missed, missed

        jacobian, missed = jax.jacfwd(missed_twice, has_aux=True)(jnp.zeros(2 * p.dq.shape[0], p.q.dtype))
        return correct(search, p, *jnp.split(jnp.linalg.solve(jacobian, missed), 2))

    def slow(search: _Search):
        return (search.k >= 2) & ~(search.error <= _SLOW * search.last)

    def going(search: _Search):
        return ~((_left(search) <= _TOLERANCE) | (search.rounding & slow(search)))

    def look(at):
        search, *_ = at
        p = _evaluated(stepper, *search.state, t, known)
        more = going(search) & (search.k < search.most)
        after = _if(more & ~search.newton, iterate, search, p)
        after = _if(more & search.newton, newton, after, p)
        # Newton's method begins anew, without accelerations: slow iterations may have gone anywhere, and where forces
        # are stiff so does a guess.
        fails = ~search.newton & going(after) & (slow(after) | (after.k >= after.most))
        anew = after._replace(state=drifted, most=after.k + _NEWTON_LIMIT, newton=jnp.asarray(True))
        after = jax.tree.map(lambda new, old: jnp.where(fails, new, old), anew, after)
        return after, Step(p.q, p.dq, p.ddq), more

    # The only look of the program, of which compiling takes long; the last one finds nothing to correct.
    infinite, no = jnp.asarray(jnp.inf, start.q.dtype), jnp.asarray(False)
    first = _Search(guess, infinite, infinite, no, jnp.asarray(0), jnp.asarray(_FIXED_POINT_LIMIT), no)
    search, p, _ = jax.lax.while_loop(lambda at: at[-1], look, (first, start, ~no))
    status = Status.where(going(search), Status.iteration_limit, Status.converged)
    status = Status.where(jnp.all(jnp.isfinite(p.ddq)), status, Status.non_finite)
    return p, Ended(search.k, status)


def _if(holds, correct, search: _Search, p: _Point) -> _Search:
    """correct(search, p) where that holds; of many at once it is computed only if it holds of one."""

    def once(state):
        # XLA would compute what only depends on the point before the loop, whether there is a pass or not.
        search, point = jax.lax.optimization_barrier((state[1], p))
        return jnp.asarray(False), correct(search, point)

    return jax.lax.while_loop(lambda state: state[0], once, (holds, search))[1]


def _left(search: _Search):
    """Error after the last correction, from how fast the corrections become smaller."""
    return search.error * jnp.where(search.k > 1, jnp.minimum(1.0, search.error / search.last), 1.0)


def _evaluated(stepper: Stepper, q, dq, t, known: Known) -> _Point:
    """A point near q at the end of an interval, closed, with its accelerations.

    One correction: the search repeats it, so that what it leaves, of second order, goes to zero.
    """
    mechanism, closure = stepper.mechanism, stepper.closure
    at_end = known.at(-1)
    M, J = mechanism.mass_matrix(q), closure.jacobian(mechanism, q, t)
    if J.shape[0] == 0:
        return _Point(q, dq, stepper.motion(q, dq, t, at_end)[0], M, mechanism.forces(q, dq, t), J, J.T)
    inverse = kkt_inverse(M, J, mechanism.local_sizes, row_sizes(mechanism, closure.followed))
    S = inverse.S
    q = mechanism.retract(q, -S @ closure.rows(mechanism, q, t))
    dq = dq - S @ closure.rate(mechanism, q, dq, t)
    force = mechanism.forces(q, dq, t)
    if stepper.drive is not None or mechanism.has_own_accelerations:
        return _Point(q, dq, stepper.motion(q, dq, t, at_end)[0], M, force, J, S)
    # The same factorization again.
    Q = force + stepper.forcing.applied(mechanism, q, t, jnp.zeros(0, q.dtype), at_end.commands)
    ddq, _ = refined(inverse, M, J, Q, mechanism.constraint_bias(q, dq, t))
    return _Point(q, dq, ddq, M, force, J, S)


def _residual(stepper: Stepper, start: Step, end: State, ddq, t, dt, known: Known):
    """(r_q, r_dq) of the rule, with these accelerations at the end."""
    mechanism, rule = stepper.mechanism, stepper.rule
    begin, points = State(start.q, start.dq), [start.ddq]
    for k, (state, s) in enumerate(zip(rule.inner(mechanism, begin, end, dt), rule.inner_points, strict=True)):
        points.append(stepper.motion(*state, t + dt * (s - 1), known.at(k + 1))[0])
    return rule.residual(mechanism, begin, end, jnp.stack([*points, ddq]), dt)


def _along(J, S, residuals):
    """The parts of residuals along the constraints."""
    return tuple(r - S @ (J @ r) for r in residuals)


def _beside(stepper: Stepper, point, y) -> State:
    """The state at a distance y = (v, w) of its position and velocities."""
    v, w = jnp.split(y, 2)
    return State(stepper.mechanism.retract(point.q, v), point.dq + w)


def _accelerations(stepper: Stepper, start: State, end: State, t, dt, known: Known, first=None):
    """Accelerations at all points of an interval, by one trace of the mechanism; those at the start may be given."""
    rule = stepper.rule
    states = [start, *rule.inner(stepper.mechanism, start, end, dt), end]
    fractions = np.asarray([0.0, *rule.inner_points, 1.0])
    given = 0 if first is None else 1
    q, dq = (jnp.stack(leaves[given:]) for leaves in zip(*states, strict=True))
    rest = q, dq, t + dt * (fractions[given:] - 1).astype(q.dtype), Known(known.commands[given:], known.ddy[given:])
    ddq = jax.vmap(lambda *point: stepper.motion(*point)[0])(*rest)
    return ddq if first is None else jnp.concatenate([first[None], ddq])


def _missed(stepper: Stepper, start: State, end: State, t, dt, known: Known, ddq, J=None, S=None):
    """What a step misses with these accelerations: the rule along the constraints, and the constraints at its end."""
    mechanism, closure = stepper.mechanism, stepper.closure
    if S is None:
        J = closure.jacobian(mechanism, end.q, t)
        sizes = mechanism.local_sizes, row_sizes(mechanism, closure.followed)
        S = kkt_inverse(mechanism.mass_matrix(end.q), J, *sizes).S if J.shape[0] else J.T
    r_q, r_dq = _along(J, S, stepper.rule.residual(mechanism, start, end, ddq, dt))
    open_q, open_dq = closure.rows(mechanism, end.q, t), closure.rate(mechanism, *end, t)
    return jnp.concatenate([r_q + applied(S, open_q), r_dq + applied(S, open_dq)])


@_solved.def_jvp
def _solved_jvp(primals, tangents):
    # missed(y; everything) = 0: ∂missed/∂y t_y = −∂missed/∂(everything) t. One linearization serves all.
    stepper, start, guess, t, dt, known = primals
    step, ended = _solved(stepper, start, guess, t, dt, known)
    given, t_given = (stepper, start, t, dt, known), (*tangents[:2], *tangents[3:])
    moving, rest = eqx.partition(given, jax.tree.map(lambda leaf: leaf is not None, t_given, is_leaf=_is_none))
    zero = jnp.zeros(2 * step.dq.shape[0], step.q.dtype)

    def found(y, moving):
        stepper, (q, dq, ddq), t, dt, known = eqx.combine(moving, rest)
        start, end = State(q, dq), _beside(stepper, step, y)
        ddq = _accelerations(stepper, start, end, t, dt, known, None if stepper.outside else ddq)
        return _missed(stepper, start, end, t, dt, known, ddq), Step(*end, ddq[-1])

    _, push = jax.linearize(found, zero, moving)
    still = jax.tree.map(jnp.zeros_like, t_given)
    missed_by_y, step_by_y = jax.vmap(lambda y: push(y, still), out_axes=-1)(jnp.eye(zero.size, dtype=zero.dtype))
    t_missed, t_step = push(zero, t_given)
    t_y = -jnp.linalg.solve(missed_by_y, t_missed)
    t_step = jax.tree.map(lambda t, by_y: t + by_y @ t_y, t_step, step_by_y)
    return (step, ended), (t_step, jax.tree.map(lambda _: None, ended))


def _is_none(leaf) -> bool:
    return leaf is None
