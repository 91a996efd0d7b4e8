"""The result of a simulation."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from fgmbs.dynamics import acceleration, energy, nonconservative_power, reactions
from fgmbs.dynamics.sensitivity import growth_of_changes
from fgmbs.dynamics.singular import SINGULAR, rank_margins
from fgmbs.errors import ArgumentError, SolveError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.motion import AbstractDynamicMotion, motion_contents
from fgmbs.results.contents import Contents, all_of, attributes, steps_of
from fgmbs.status import Status, is_one_of
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities


class Simulation(AbstractDynamicMotion):
    """A motion and what goes with it. Under `jax.vmap` every array has the batch axis in front."""

    mechanism: AbstractMechanism
    coordinates: str = eqx.field(static=True)
    """Form of the graph: "chart", "dependent" or "independent"."""
    integrator: str = eqx.field(static=True)
    """Integration rule."""
    t: Float[Array, "*batch steps"]
    """Time [s]."""
    q: Float[Array, "*batch steps n"]
    """Coordinates [m, rad]."""
    dq: Float[Array, "*batch steps nv"]
    """Velocities [m/s, rad/s]."""
    ddq: Float[Array, "*batch steps nv"]
    """Accelerations [m/s², rad/s²]."""
    multipliers: Float[Array, "*batch steps m"]
    """Multipliers λ of the constraints [N, N·m per unit of the constraint]."""
    reactions: Float[Array, "*batch steps nv"]
    """Generalized reaction forces −Φ_qᵀ λ of all constraints, along the velocities [N, N·m]."""
    kinetic: Float[Array, "*batch steps"]
    """Kinetic energy [J]."""
    potential: Float[Array, "*batch steps"]
    """Potential energy of gravity and springs [J]."""
    power: Float[Array, "*batch steps"]
    """Power of the forces that have no potential; dissipation is negative [W]."""
    constraint_norm: Float[Array, "*batch steps"]
    """‖Φ(q, t)‖₂."""
    velocity_constraint_norm: Float[Array, "*batch steps"]
    """‖Φ_q dq + Φ_t‖₂."""
    z: Float[Array, "*batch steps dof"] | None
    """Independent coordinates [m, rad], if the motion was integrated in them …"""
    independent: Int[Array, "*batch steps dof"] | None
    """… and which of q they are at each step."""
    covariance: Float[Array, "*batch steps 3*nv 3*nv"] | None
    """Marginal covariances of (v, dq, ddq), v local coordinates of q ⊞ v, for the noise of the graph, if asked for."""
    iterations: Int[Array, "*batch steps"]
    """Iterations of the window whose oldest step this was."""
    step_status: Status
    """How that window ended, one for each step."""
    status: Status
    """How the whole ended: the worst of all steps."""

    def check(self) -> None:
        """Raises an error if the solve failed.

        Raises:
            SolveError: Names the members of a batch, the step and time of the first failure, and what to try.
        """
        refuse_failed(self, self.step_status)

    def sensitivity(self) -> Float[Array, " steps"]:
        """By which factor a small displacement of the start has grown at every step, the worst one; coordinates count
        by their sizes. Of a single motion; one that grows by 1e6 and more is unstable or chaotic, and a start that is
        known to a millionth does not determine its end.

        Raises:
            ArgumentError: It is a batch, or has steps that were not found.
            AssemblyError: The mechanism cannot be assembled as drawn.
        """
        if self.t.ndim != 1 or not np.isfinite(self.q).all():
            found = "a batch" if self.t.ndim != 1 else "steps that were not found"
            raise ArgumentError(f"sensitivity: expected a single motion that was found as a whole; found {found}")
        return jax.device_put(growth_of_changes(self.mechanism, self.t, self.q, self.dq))

    def contents(self) -> Contents:
        step = steps_of(self.t)
        variables = {
            "iterations": (step, self.iterations, attributes("iterations of the solver", "1")),
        }
        coordinates: dict[str, Any] = {}
        if self.z is not None and self.independent is not None:
            kinds = all_of(self.mechanism.coordinate_units)
            variables["z"] = ((*step, "freedom"), self.z, attributes("independent coordinates", kinds))
            variables["independent"] = (
                (*step, "freedom"),
                self.independent,
                {"long_name": "which of the coordinates are independent"},
            )
        if self.covariance is not None:
            axis = [f"{dot}{name}" for dot in ("", "d ", "dd ") for name in self.mechanism.velocity_names]
            coordinates = {"state": axis, "state_": axis}
            variables["covariance"] = (
                (*step, "state", "state_"),
                self.covariance,
                attributes("covariance of (q, dq, ddq)", "products of the units of q, dq and ddq")
                | {"note": "that of q is of the local coordinates v of q ⊞ v, which go by the names of the velocities"},
            )
        attrs = {"form": self.coordinates, "integrator": self.integrator}
        return motion_contents(self, Contents(variables, coordinates, attrs))


def refuse_failed(result: Any, step_status: Status) -> None:
    """Refuses a simulated motion (with `status`, `t`, `constraint_norm`) some of whose steps were not found.

    Raises:
        SolveError: Names the members of a batch, the step and time of the first failure, and what to try.
    """

    def failure(status: Status, member: Member) -> str:
        if is_one_of(status, Status.not_assembled):
            return f"cannot be assembled: the constraints stay open by {member(result.constraint_norm)[0]:.3g} at t = 0"
        if is_one_of(status, Status.contradictory):
            return Status[status]
        bad = np.asarray(member(step_status) != Status.converged)
        step = int(np.argmax(bad))
        q, t = member(result.q)[max(step - 1, 0)], float(member(result.t)[max(step - 1, 0)])
        advice = "try a smaller dt"
        if (
            np.isfinite(q).all()
            and (margin := rank_margins(member(result.mechanism), q[None], np.array([t])).margins[0]) < SINGULAR
        ):
            advice = (
                f"just before, the pose was nearly singular (singular value {margin:.1e}), where "
                "motions meet and a smaller dt does not help: start beside it, or give start_velocities"
            )
        return (
            f"step {step}, t = {member(result.t)[step]:.6g} s: {Status[status]} "
            f"({int(bad.sum())} of {bad.size} steps); {advice}"
        )

    refuse_members(result, failure)


Member = Callable[[PyTree], PyTree]
"""What takes the part of one member out of arrays of a batch."""


def refuse_members(result: Any, failure: Callable[[Status, Member], str]) -> None:
    """Refuses a result whose `status` is not that of success.

    Args:
        result: Of one solve, or of a batch.
        failure: What is wrong with one member, in words.

    Raises:
        SolveError: Names the members of a batch and what is wrong with them.
    """
    members = np.argwhere(np.asarray(result.status != Status.converged))
    lines = []
    for place in members[:10].tolist():

        def member(tree, place=tuple(place)):
            return jax.tree.map(lambda leaf: jnp.asarray(leaf)[place], tree)

        name = f"member {', '.join(map(str, place))}: " if place else ""
        lines.append(name + failure(member(result.status), member))
    if len(members) > len(lines):
        lines.append(f"and {len(members) - len(lines)} more members")
    if lines:
        raise SolveError("; ".join(lines), result)


def observe(
    mechanism: AbstractMechanism,
    t: Float[Array, " steps"],
    q: Float[Array, "steps n"],
    dq: Float[Array, "steps nv"],
) -> dict[str, Array]:
    """What follows from a motion, by field name of `Simulation`."""

    def at(t: Scalar, q, dq):
        lambda_ = acceleration(mechanism, q, dq, t)[1]
        return {"multipliers": lambda_, **observe_instant(mechanism, t, q, dq, lambda_)}

    return jax.vmap(at)(t, q, dq)


def observe_instant(
    mechanism: AbstractMechanism, t: Scalar, q: Coordinates, dq: Velocities, lambda_: Constraints
) -> dict[str, Array]:
    """What follows from a motion and its multipliers at one instant, by field name of results."""
    kinetic, potential = energy(mechanism, q, dq)
    return {
        "reactions": reactions(mechanism, q, lambda_, t),
        "kinetic": kinetic,
        "potential": potential,
        "power": nonconservative_power(mechanism, q, dq, t),
        "constraint_norm": _norm(mechanism.constraints(q, t)),
        "velocity_constraint_norm": _norm(mechanism.constraint_rate(q, dq, t)),
    }


def worst(status: Status) -> Status:
    """The worst of statuses along the last axis; the order of `Status` is that of growing badness."""
    result = Status.converged
    for candidate in (Status.stalled, Status.iteration_limit, Status.non_finite, Status.not_assembled):
        result = Status.where(jnp.any(status == candidate, axis=-1), candidate, result)
    return result


def _norm(x):
    """Euclidean norm with derivative 0 at 0."""
    s = x @ x
    return jnp.where(s > 0, jnp.sqrt(jnp.where(s > 0, s, 1.0)), 0.0)
