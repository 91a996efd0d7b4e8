"""How a step follows from the one before: integration rules, each written once, with their noise.

A rule compares two steps (q, dq) in the tangent space of the second one, where the motion is w(t) with
q(t) = q1 ⊞ w(t), for a vector space q(t) − q1: so a rule keeps its order on any manifold. The velocities dq
are numbers of a vector space everywhere.
"""

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.algebra.kkt import whitener
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities


class State(NamedTuple):
    """Where a mechanism is and how it moves."""

    q: Coordinates
    """[m, rad]"""
    dq: Velocities
    """[m/s, rad/s]"""


class Noise(NamedTuple):
    """What unknown forces add between two steps: square-root information of its parts, and log |W|."""

    position: Float[Array, "dof dof"]
    velocity: Float[Array, "dof dof"]
    log_determinant: Scalar


class AbstractTransition(eqx.Module):
    """An integration rule. A rule of one's own defines `residual`, and `inner` if it looks between the steps.

    Simulation solves residual = 0 for the second step, along the constraints; estimation weighs the residual with
    `noise`.
    """

    inner_points: ClassVar[tuple[float, ...]] = ()
    """Fractions of the interval at which the rule needs accelerations, besides its ends."""
    velocity_share: ClassVar[float] = 0.0
    """−∂r_q/∂dq1 in units of dt: how the second velocity enters the rule of positions, which lets a simulation correct
    both at once. Costs iterations if it is wrong, no accuracy."""

    def inner(self, mechanism: AbstractMechanism, start: State, end: State, dt: Scalar) -> tuple[State, ...]:
        """States at the inner points."""
        return ()

    @abc.abstractmethod
    def residual(
        self, mechanism: AbstractMechanism, start: State, end: State, ddq: Float[Array, "points nv"], dt: Scalar
    ) -> tuple[Velocities, Velocities]:
        """(r_q, r_dq): by how much q and dq of the end miss the rule; their derivatives by the end are 1 + O(dt).

        Args:
            mechanism: For `retract` and `local`.
            start: The first step.
            end: The second one.
            ddq: Accelerations at the start, at the inner points, and at the end [m/s², rad/s²].
            dt: Time between them [s].
        """

    def noise(self, white: Float[Array, "dof dof"], wander: Float[Array, "dof dof"], dt: Scalar) -> Noise:
        """The noise of (B r_q, B r_dq), where unknown forces make accelerations z̈ = B q̈.

        White forces, of spectral density D in z̈, leave uncorrelated parts of covariance Δt³/12 D and Δt D. Of a force
        that wanders between its values at both ends, the straight line between them left out, the parts are Δt⁵/720 C
        and Δt³/12 C, C being the spectral density of the rate of z̈. Exact for rules of fourth order, in which such a
        line leaves nothing; those of lower order add their truncation error. So results do not depend on the time step.

        Args:
            white: D.
            wander: C.
            dt: Time step [s].
        """
        position = whitener(dt**3 / 12 * white + dt**5 / 720 * wander)
        velocity = whitener(dt * white + dt**3 / 12 * wander)
        log_determinant = jnp.sum(jnp.log(jnp.diagonal(position))) + jnp.sum(jnp.log(jnp.diagonal(velocity)))
        return Noise(position, velocity, log_determinant)


class Euler(AbstractTransition):
    """First order. [Blanco21] eq. (22)"""

    def residual(self, mechanism, start, end, ddq, dt):
        w0, dw0 = _seen_from(mechanism, end.q, start)
        return -w0 - dt * dw0, end.dq - start.dq - dt * ddq[0]


class Trapezoidal(AbstractTransition):
    """Second order. [Blanco21] eq. (23)"""

    velocity_share: ClassVar[float] = 0.5

    def residual(self, mechanism, start, end, ddq, dt):
        w0, dw0 = _seen_from(mechanism, end.q, start)
        return -w0 - dt / 2 * (dw0 + end.dq), end.dq - start.dq - dt / 2 * (ddq[0] + ddq[-1])


class HermiteSimpson(AbstractTransition):
    """Fourth order: between the steps q is the cubic polynomial through both ends; Simpson's rule for dq."""

    inner_points: ClassVar[tuple[float, ...]] = (0.5,)
    velocity_share: ClassVar[float] = 0.5

    def inner(self, mechanism, start, end, dt):
        w0, dw0 = _seen_from(mechanism, end.q, start)
        w = w0 / 2 + dt / 8 * (dw0 - end.dq)
        dw = -3 / 2 / dt * w0 - (dw0 + end.dq) / 4
        return (_state(mechanism, end.q, w, dw),)

    def residual(self, mechanism, start, end, ddq, dt):
        w0, dw0, ddw0, ddw1 = _accelerated(mechanism, start, end, ddq[0], ddq[-1])
        r_q = -w0 - dt / 2 * (dw0 + end.dq) - dt**2 / 12 * (ddw0 - ddw1)
        return r_q, end.dq - start.dq - dt / 6 * (ddq[0] + 4 * ddq[1] + ddq[2])


TRANSITIONS = {"euler": Euler(), "trapezoidal": Trapezoidal(), "hermite_simpson": HermiteSimpson()}
"""Rules by name."""


def between(
    mechanism: AbstractMechanism, fraction: Scalar, dt: Scalar, start: State, end: State
) -> tuple[Coordinates, Velocities]:
    """(q, dq) at a fraction of the way from one step to the next, on the cubic polynomial through both.

    It misses q by O(Δt⁴) and dq by O(Δt³). A little outside of [0, 1] it goes on.
    """
    s = fraction
    w0, dw0 = _seen_from(mechanism, end.q, start)
    # What is left of the position and velocity at the end once the start has been followed in a straight line.
    a, b = -w0 - dt * dw0, dt * (end.dq - dw0)
    w = w0 + dt * s * dw0 + s**2 * (3 * a - b) + s**3 * (b - 2 * a)
    dw = dw0 + (2 * s * (3 * a - b) + 3 * s**2 * (b - 2 * a)) / dt
    return _state(mechanism, end.q, w, dw)


def _seen_from(mechanism: AbstractMechanism, q: Coordinates, state: State) -> tuple[Velocities, Velocities]:
    """(w, dw/dt) with q ⊞ w the configuration of a state."""
    if mechanism.is_vector_space:
        return state.q - q, state.dq
    return mechanism.rate(lambda other, _: mechanism.local(q, other), *state, 0.0)


def _accelerated(mechanism: AbstractMechanism, start: State, end: State, ddq0: Velocities, ddq1: Velocities):
    """(w, dw/dt, d²w/dt²) of the start, seen from the end, and d²w/dt² of the end itself."""
    if mechanism.is_vector_space:
        return start.q - end.q, start.dq, ddq0, ddq1

    def along(state: State, ddq):
        def later(s):
            moved = State(mechanism.retract(state.q, s * state.dq), state.dq + s * ddq)
            return _seen_from(mechanism, end.q, moved)

        zero = jnp.zeros((), end.q.dtype)
        (w, dw), (_, ddw) = jax.jvp(later, (zero,), (jnp.ones_like(zero),))
        return w, dw, ddw

    # One trace for both.
    both = State(jnp.stack([start.q, end.q]), jnp.stack([start.dq, end.dq]))
    w, dw, ddw = jax.vmap(along)(both, jnp.stack([ddq0, ddq1]))
    return w[0], dw[0], ddw[0], ddw[1]


def _state(mechanism: AbstractMechanism, q: Coordinates, w: Velocities, dw: Velocities) -> State:
    """The state at q ⊞ w that moves so that w grows by dw per second."""
    there = mechanism.retract(q, w)
    if mechanism.is_vector_space:
        return State(there, dw)
    zero, one = jnp.zeros((), q.dtype), jnp.ones((), q.dtype)
    dq = jax.jvp(lambda s: mechanism.local(there, mechanism.retract(q, w + s * dw)), (zero,), (one,))[1]
    return State(there, dq)
