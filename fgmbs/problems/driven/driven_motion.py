"""The result of inverse and hybrid dynamics: a motion and the forces of the motors that drive it."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fgmbs.dynamics.forcing import force_directions
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.driven.desired import DesiredMotion
from fgmbs.problems.driven.motors import Motor
from fgmbs.problems.motion import AbstractDynamicMotion, motion_contents
from fgmbs.problems.simulation.result import Member, observe_instant, refuse_members
from fgmbs.results.contents import Contents, all_of, attributes, force_unit, steps_of
from fgmbs.signals.curves import force_curve
from fgmbs.signals.trajectories import PiecewisePolynomial
from fgmbs.status import Status, is_one_of
from fgmbs.typing import Scalar

MISSING = 1e-6
"""Force that may be missing on a desired coordinate, relative to the largest force there is."""

_OF_THE_WHOLE = {"mechanism", "motors", "followed", "influence", "sigma", "iterations", "status"}
"""Fields without an axis of steps."""


class DrivenMotion(AbstractDynamicMotion):
    """A motion, the forces of motors and joints. Under `jax.vmap` every array has the batch axis in front."""

    mechanism: AbstractMechanism
    motors: tuple[Motor, ...] = eqx.field(static=True)
    followed: tuple[int, ...] = eqx.field(static=True)
    """Indices of the desired coordinates."""
    t: Float[Array, "*batch steps"]
    """Time [s]."""
    q: Float[Array, "*batch steps n"]
    """Coordinates [m, rad]."""
    dq: Float[Array, "*batch steps nv"]
    """Velocities [m/s, rad/s]."""
    ddq: Float[Array, "*batch steps nv"]
    """Accelerations [m/s², rad/s²]."""
    forces: Float[Array, "*batch steps nu"]
    """Force of every motor, known ones included [N, N·m]."""
    multipliers: Float[Array, "*batch steps m"]
    """Multipliers λ of the constraints [N, N·m per unit of the constraint]."""
    reactions: Float[Array, "*batch steps nv"]
    """Generalized reaction forces −Φ_qᵀ λ of all constraints, along the velocities [N, N·m]."""
    joint_forces: Float[Array, "*batch steps pins d"] | None
    """Force on each body at each of its points, see `joint_names`; None of a mechanism without pins [N]."""
    kinetic: Float[Array, "*batch steps"]
    """Kinetic energy [J]."""
    potential: Float[Array, "*batch steps"]
    """Potential energy of gravity and springs [J]."""
    power: Float[Array, "*batch steps"]
    """Power of the forces that have no potential, without the motors; dissipation is negative [W]."""
    motor_power: Float[Array, "*batch steps nu"]
    """Power of every motor [W]."""
    tracking_error: Float[Array, "*batch steps k"]
    """Desired coordinates less what was desired [m, rad]."""
    missing: Float[Array, "*batch steps k"]
    """Generalized force on each desired coordinate that the motion needs besides the motors [N, N·m]."""
    influence: Float[Array, "*batch motors"] | None
    """How much of the force of each motor of unknown force does work, at most; where the motion leaves no freedom."""
    jumps: Bool[Array, "*batch steps k"]
    """Samples after which the desired acceleration jumps; there it is the one from the left."""
    sigma: Float[Array, "*batch k"]
    """Standard deviations of the desired motion, as given or found; 0 where it is given with its derivatives."""
    covariance: Float[Array, "*batch steps nu nu"] | None
    """Covariance of the forces for the noise of the desired motion, if asked for."""
    constraint_norm: Float[Array, "*batch steps"]
    """‖Φ(q, t)‖₂."""
    velocity_constraint_norm: Float[Array, "*batch steps"]
    """‖Φ_q dq + Φ_t‖₂."""
    iterations: dict[str, Int[Array, "*batch"]]
    """Iterations of every stage."""
    step_status: Status
    """How each step ended."""
    status: Status
    """How the whole ended."""

    @property
    def by_step(self) -> dict[str, Any]:
        """Fields with a row for every step."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _OF_THE_WHOLE}

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the motors."""
        return tuple(motor.name for motor in self.motors)

    @property
    def desired_names(self) -> tuple[str, ...]:
        """Names of the desired coordinates."""
        return tuple(self.coordinate_names[i] for i in self.followed)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joint forces, "BODY@POINT"."""
        return self.mechanism.pin_names

    @property
    def commands(self) -> dict[str, PiecewisePolynomial]:
        """Force of each motor as a function of time: cubic between samples, with the jumps of the acceleration."""
        curve = force_curve(self.t, self.forces, jnp.any(self.jumps, axis=-1))
        names = enumerate(self.actuator_names)
        return {name: PiecewisePolynomial(curve.knots, curve.coefficients[k]) for k, name in names}

    @property
    def effort(self) -> Float[Array, "*batch"]:
        """∫ Σ u² dt by the trapezoidal rule."""
        square = jnp.sum(self.forces**2, axis=-1)
        return jnp.sum((square[..., 1:] + square[..., :-1]) / 2 * jnp.diff(self.t, axis=-1), axis=-1)

    def check(self) -> None:
        """Raises an error if the motion cannot be made.

        Raises:
            SolveError: Says where and by how much it fails, and what to try.
        """
        refuse_members(self, self._failure)

    def _failure(self, status: Status, member: Member) -> str:
        if not is_one_of(status, Status.not_driven):
            return Status[status]
        t, missing = member((self.t, self.missing))
        step, k = np.unravel_index(np.argmax(np.abs(missing)), missing.shape)
        motors = ", ".join(self.actuator_names) or "no actuator"
        return (
            f"the desired motion is impossible with {motors} alone: at t = {t[step]:.6g} s a force of "
            f"{abs(missing[step, k]):.4g} on {self.desired_names[k]!r} is missing (N or N m). Add an actuator "
            "or follow the motion only as well as the motors can, with tracking='weighted'"
        )

    def contents(self) -> Contents:
        """What its dataset is made of. The units of single actuators and desired coordinates stand in coordinates."""
        step = steps_of(self.t)
        units = np.array(self.mechanism.coordinate_units)
        forces = [force_unit(self.mechanism, motor.name) for motor in self.motors]
        force = all_of(forces)
        variables = {
            "forces": ((*step, "actuator"), self.forces, attributes("forces of the actuators", force)),
            "motor_power": ((*step, "actuator"), self.motor_power, attributes("power of the actuators", "W")),
            "iterations": (
                (*step[:-1], "stage"),
                np.stack([np.asarray(count) for count in self.iterations.values()], axis=-1),
                attributes("iterations of each stage", "1"),
            ),
        }
        coordinates: dict[str, Any] = {
            "actuator": list(self.actuator_names),
            "force_unit": ("actuator", forces),
            "stage": list(self.iterations),
        }
        if self.followed:
            kinds = all_of(list(units[list(self.followed)]))
            reached = self.q[..., jnp.asarray(self.followed)]
            along = (*step, "desired")
            coordinates |= {
                "desired": list(self.desired_names),
                "desired_unit": ("desired", units[list(self.followed)]),
            }
            variables |= {
                "desired_q": (along, reached - self.tracking_error, attributes("desired coordinates", kinds)),
                "tracking_error": (along, self.tracking_error, attributes("coordinates less desired ones", kinds)),
                "missing": (along, self.missing, attributes("force missing on desired coordinates", "N, N m")),
                "jumps": (along, self.jumps, {"long_name": "whether the desired acceleration jumps after the sample"}),
                "sigma": (
                    (*step[:-1], "desired"),
                    self.sigma,
                    attributes("standard deviation of desired coordinates", kinds),
                ),
            }
        if self.joint_forces is not None:
            coordinates |= {"pin": list(self.joint_names), "axis": list("xyz"[: self.joint_forces.shape[-1]])}
            variables["joint_forces"] = (
                (*step, "pin", "axis"),
                self.joint_forces,
                attributes("force on each body at each of its points", "N"),
            )
        if self.covariance is not None:
            coordinates["actuator_"] = list(self.actuator_names)
            variables["force_covariance"] = (
                (*step, "actuator", "actuator_"),
                self.covariance,
                attributes("covariance of the forces", "products of the units of forces"),
            )
        return motion_contents(self, Contents(variables, coordinates, {}))


def driven_motion(
    mechanism: AbstractMechanism,
    motors: tuple[Motor, ...],
    t: Float[Array, " steps"],
    motion: tuple[Float[Array, "steps n"], Float[Array, "steps nv"], Float[Array, "steps nv"]],
    forces: Float[Array, "steps nu"],
    multipliers: Float[Array, "steps m"],
    wanted: DesiredMotion | None,
    *,
    missing: Float[Array, "steps k"] | None = None,
    covariance: Float[Array, "steps nu nu"] | None = None,
    influence: Float[Array, " motors"] | None = None,
    iterations: dict[str, Int[Array, ""]],
    step_status: Status,
    status: Status,
) -> DrivenMotion:
    """The result for a motion (q, dq, ddq), with what follows from it."""
    q, dq, ddq = motion
    none = jnp.zeros((t.shape[0], 0), q.dtype)
    followed = () if wanted is None else wanted.followed
    reached = q[:, jnp.asarray(followed, int)]

    def at(t: Scalar, q, dq, ddq, u, lambda_):
        A = force_directions(mechanism, q, t, [motor.name for motor in motors])
        joint_forces = None
        if mechanism.pin_names:
            commands = jnp.zeros(len(mechanism.actuator_names), q.dtype)
            for k, motor in enumerate(motors):
                if motor.actuator is not None:
                    commands = commands.at[motor.actuator].set(u[k])
            joint_forces = mechanism.joint_forces(q, dq, ddq, lambda_, t, commands)
        return {
            **observe_instant(mechanism, t, q, dq, lambda_),
            "joint_forces": joint_forces,
            "motor_power": u * (dq @ A),
        }

    follows: dict[str, Any] = jax.vmap(at)(t, q, dq, ddq, forces, multipliers)
    return DrivenMotion(
        mechanism=mechanism,
        motors=motors,
        followed=followed,
        t=t,
        q=q,
        dq=dq,
        ddq=ddq,
        forces=forces,
        multipliers=multipliers,
        **follows,
        tracking_error=none if wanted is None else reached - wanted.samples,
        missing=jnp.zeros_like(reached) if missing is None else missing,
        influence=influence,
        jumps=none.astype(bool) if wanted is None else wanted.jumps,
        sigma=none[0] if wanted is None else wanted.sigma,
        covariance=covariance,
        iterations=iterations,
        step_status=step_status,
        status=status,
    )
