"""Mechanisms with motors: some driven by known forces, others by whatever force makes coordinates move as desired."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.kkt import kkt_inverse, refined
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.motors import Motor, actuation_matrix, least_effort
from fgmbs.trajectories import PiecewisePolynomial
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities

_MOMENT = 1e-9
"""How long before and after a jump its sides are looked at [s]."""


class Actuated(AbstractMechanism):
    """A mechanism with a choice of motors: `actuation` has those of unknown force, `forces` those of known force."""

    mechanism: AbstractMechanism
    motors: tuple[Motor, ...] = eqx.field(static=True)
    """Motors whose force is not known."""
    powered: tuple[Motor, ...] = eqx.field(static=True)
    """Motors whose force is known, …"""
    commands: tuple[Callable, ...]
    """… and their forces, functions of the mechanism's time."""
    epoch: Scalar | float
    """Time of the mechanism at t = 0 [s]."""

    def __init__(
        self,
        mechanism: AbstractMechanism,
        motors: tuple[Motor, ...],
        powered: tuple[Motor, ...] = (),
        commands: tuple[Callable, ...] = (),
        epoch: Scalar | float = 0.0,
    ):
        self.mechanism = mechanism
        self.motors = motors
        self.powered = powered
        self.commands = commands
        self.epoch = epoch

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.mechanism.coordinate_names

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return self.mechanism.constraint_names

    @property
    def actuator_names(self) -> tuple[str, ...]:
        return tuple(motor.name for motor in self.motors)

    @property
    def reference(self) -> Coordinates:
        return self.mechanism.reference

    @property
    def vectors(self) -> tuple[int, ...]:
        return self.mechanism.vectors

    @property
    def initial_velocities(self):
        return self.mechanism.initial_velocities

    def evaluated(self) -> "Actuated":
        return Actuated(self.mechanism.evaluated(), self.motors, self.powered, self.commands, self.epoch)

    def constraints(self, q: Coordinates, t: Scalar) -> Constraints:
        return self.mechanism.constraints(q, t + self.epoch)

    def constraint_jacobian(self, q: Coordinates, t: Scalar) -> Float[Array, "m nv"]:
        return self.mechanism.constraint_jacobian(q, t + self.epoch)

    def constraint_rate(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        return self.mechanism.constraint_rate(q, dq, t + self.epoch)

    def constraint_bias(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        return self.mechanism.constraint_bias(q, dq, t + self.epoch)

    def mass_matrix(self, q: Coordinates) -> Float[Array, "nv nv"]:
        return self.mechanism.mass_matrix(q)

    def actuation(self, q: Coordinates, t: Scalar) -> Float[Array, "nv nu"]:
        return actuation_matrix(self.mechanism, self.motors, q, t + self.epoch)

    def forces(self, q: Coordinates, dq: Velocities, t: Scalar) -> Velocities:
        Q = self.mechanism.forces(q, dq, t + self.epoch)
        if not self.powered:
            return Q
        return Q + actuation_matrix(self.mechanism, self.powered, q, t + self.epoch) @ self.known_forces(t)

    def known_forces(self, t: Scalar) -> Float[Array, " powered"]:
        """Forces of the motors of known force [N, N·m]."""
        return _around(lambda t: jnp.stack([jnp.asarray(command(t)) for command in self.commands]), t + self.epoch)

    def all_forces(
        self, motors: tuple[Motor, ...], t: Float[Array, " steps"], found: Float[Array, "steps nu"]
    ) -> Float[Array, "steps motors"]:
        """Forces of all motors in another order, those that were found and the known ones [N, N·m]."""
        known = jax.vmap(self.known_forces)(t) if self.powered else found[:, :0]
        every = (*self.motors, *self.powered)
        return jnp.concatenate([found, known], axis=1)[:, jnp.asarray([every.index(m) for m in motors], int)]

    def potential(self, q: Coordinates) -> Scalar:
        return self.mechanism.potential(q)

    def retract(self, q: Coordinates, v: Velocities) -> Coordinates:
        return self.mechanism.retract(q, v)

    def local(self, q0: Coordinates, q1: Coordinates) -> Velocities:
        return self.mechanism.local(q0, q1)


class Driven(AbstractMechanism):
    """A mechanism whose motors make some coordinates follow a motion; the others move as dynamics says.

    The motion is a constraint of positions and velocities. It carries no load: `accelerations` are those that the
    motors produce.
    """

    actuated: Actuated
    followed: tuple[int, ...] = eqx.field(static=True)
    """Coordinates that follow …"""
    motion: PiecewisePolynomial
    """… this motion, a function of the mechanism's time."""
    effort: Float[Array, " nu"]
    """Scale of each motor's force; of all that produce the motion, those with the least Σ (u/effort)² are taken."""

    def __init__(
        self, actuated: Actuated, followed: tuple[int, ...], motion: PiecewisePolynomial, effort: Float[Array, " nu"]
    ):
        self.actuated = actuated
        self.followed = followed
        self.motion = motion
        self.effort = effort

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return self.actuated.coordinate_names

    @property
    def constraint_names(self) -> tuple[str, ...]:
        names = self.coordinate_names
        return (*self.actuated.constraint_names, *(f"desired {names[i]}" for i in self.followed))

    @property
    def reference(self) -> Coordinates:
        return self.actuated.reference

    @property
    def vectors(self) -> tuple[int, ...]:
        return self.actuated.vectors

    @property
    def initial_velocities(self):
        values, given = self.actuated.initial_velocities
        return values, given.at[jnp.asarray(self.followed, int)].set(False)

    def evaluated(self) -> "Driven":
        return Driven(self.actuated.evaluated(), self.followed, self.motion, self.effort)

    def constraints(self, q: Coordinates, t: Scalar) -> Constraints:
        gap = q[jnp.asarray(self.followed, int)] - self.motion(t + self.actuated.epoch)
        return jnp.concatenate([self.actuated.constraints(q, t), gap])

    def constraint_jacobian(self, q: Coordinates, t: Scalar) -> Float[Array, "m nv"]:
        B = jnp.eye(self.nv, dtype=q.dtype)[jnp.asarray(self.followed, int)]
        return jnp.concatenate([self.actuated.constraint_jacobian(q, t), B])

    def constraint_rate(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        gap = dq[jnp.asarray(self.followed, int)] - self._rates(t)[0]
        return jnp.concatenate([self.actuated.constraint_rate(q, dq, t), gap])

    def constraint_bias(self, q: Coordinates, dq: Velocities, t: Scalar) -> Constraints:
        return jnp.concatenate([self.actuated.constraint_bias(q, dq, t), self._rates(t)[1]])

    def mass_matrix(self, q: Coordinates) -> Float[Array, "nv nv"]:
        return self.actuated.mass_matrix(q)

    def forces(self, q: Coordinates, dq: Velocities, t: Scalar) -> Velocities:
        return self.actuated.forces(q, dq, t)

    def accelerations(
        self, q: Coordinates, dq: Velocities, t: Scalar, applied: Velocities | float = 0.0
    ) -> tuple[Velocities, Constraints]:
        ddq, lambda_, _ = self.drive(q, dq, t, applied)
        return ddq, jnp.concatenate([lambda_, jnp.zeros(len(self.followed), q.dtype)])

    def drive(
        self, q: Coordinates, dq: Velocities, t: Scalar, applied: Velocities | float = 0.0
    ) -> tuple[Velocities, Constraints, Float[Array, " nu"]]:
        """(ddq, λ, u): what the mechanism does, and the forces of the motors that make the motion [N, N·m]."""
        ddy = self._rates(t)[1]
        return driven_acceleration(self.actuated, q, dq, t, self.followed, ddy, self.effort, applied)

    def missing(self, q: Coordinates, ddq: Velocities, t: Scalar) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """Forces on the followed coordinates that would make their motion in full, and accelerations missing for it."""
        P = kkt_inverse(self.mass_matrix(q), self.actuated.constraint_jacobian(q, t)).P
        places = jnp.asarray(self.followed, int)
        P = P[places][:, places]
        lacking = self._rates(t)[1] - ddq[places]
        return least_effort(P, lacking, jnp.ones_like(lacking), jnp.max(jnp.abs(P))), lacking

    def potential(self, q: Coordinates) -> Scalar:
        return self.actuated.potential(q)

    def _rates(self, t: Scalar) -> tuple[Float[Array, " k"], Float[Array, " k"]]:
        """First and second derivative of the motion."""

        def rates(t):
            one = jnp.ones_like(t)
            return jnp.stack(jax.jvp(lambda t: jax.jvp(self.motion, (t,), (one,))[1], (t,), (one,)))

        return tuple(_around(rates, jnp.asarray(t + self.actuated.epoch, self.effort.dtype)))


def _around(function: Callable, t: Scalar) -> Array:
    """function(t), and the mean of both sides where it jumps: a step that ends in a jump and one that begins there then
    make opposite errors."""
    return (function(t - _MOMENT) + function(t + _MOMENT)) / 2


def driven_acceleration(
    mechanism: AbstractMechanism,
    q: Coordinates,
    dq: Velocities,
    t: Scalar,
    followed: tuple[int, ...],
    ddy: Float[Array, " k"],
    effort: Float[Array, " nu"],
    applied: Velocities | float = 0.0,
) -> tuple[Velocities, Constraints, Float[Array, " nu"]]:
    """(ddq, λ, u) where the actuators give some coordinates known accelerations, the others being free.

    Accelerations are affine in the forces, q̈ = q̈₀ + P A u with P of [Blanco21] eq. (47). Of all u with
    (P A u)[followed] = ddy − q̈₀[followed] those of least Σ (u/effort)² are taken; where there are none, least squares.

    Args:
        mechanism: Its `actuation` is A.
        q: Coordinates [m, rad].
        dq: Velocities [m/s, rad/s].
        t: Time [s].
        followed: Coordinates whose accelerations are given.
        ddy: These accelerations [m/s², rad/s²].
        effort: Scale of each force [N, N·m].
        applied: Generalized forces on top of the mechanism's own [N, N·m].
    """
    M, Phi_q = mechanism.mass_matrix(q), mechanism.constraint_jacobian(q, t)
    Q, c = mechanism.forces(q, dq, t) + applied, mechanism.constraint_bias(q, dq, t)
    A, places = mechanism.actuation(q, t), jnp.asarray(followed, int)
    inverse = kkt_inverse(M, Phi_q)
    free, _ = refined(inverse, M, Phi_q, Q, c)
    response = inverse.P[places]
    largest = jnp.max(jnp.abs(response[:, places])) * jnp.max(jnp.abs(A))
    u = least_effort(response @ A, ddy - free[places], effort, largest)
    ddq, lambda_ = refined(inverse, M, Phi_q, Q + A @ u, c)
    return ddq, lambda_, u
