"""Forces on a mechanism besides its own: where they act and what they make of the motion."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.dynamics.chart import MotionChart
from fgmbs.dynamics.equations import acceleration
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities

_INSTANT = 0.1
"""Of a time step, in which commands that jump change while their delay is looked for. Within it sensors that feel
forces tell on which side of a sample a jump is; the shorter it is, the fewer samples lie beside one."""


class Forcing(eqx.Module):
    """Where the forces u that are estimated and the commands c that are known act.

    Behind those that have a name u may hold dof numbers w of forces in all directions of motion, in the metric of the
    mass matrix: generalized forces G w, see `MotionChart.metric_forces`.
    """

    unknown: tuple[str, ...] = eqx.field(static=True)
    """Actuator or velocity of each force u."""
    known: tuple[str, ...] = eqx.field(static=True)
    """Actuator or velocity of each command c."""
    decay: Float[Array, " nu"]
    """What is left of each force after one step if nothing is added to it."""
    gains: Float[Array, " nc"] | None = None
    """Force per unit of each command; commands are forces without."""
    names: tuple[str, ...] = eqx.field(static=True, default=())
    """Of the commands, in what a graph shares."""
    chart: MotionChart | None = None
    """Of w; None where there is none."""

    @property
    def size(self) -> int:
        """Numbers of u."""
        return len(self.unknown) + (0 if self.chart is None else self.chart.dof)

    def sharing(self, shared: Mapping[str, Any]) -> "Forcing":
        """The same with the gains of the commands that are shared."""
        if not self.names:
            return self
        gains = jnp.stack([shared[name].gain for name in self.names])
        return eqx.tree_at(lambda forcing: forcing.gains, self, gains)

    def signals(
        self, shared: Mapping[str, Any], c: Float[Array, "2 nc"], t: Scalar, dt: Scalar
    ) -> Float[Array, "2 nc"]:
        """Ends of the line that commands follow over the interval that ends at t, see `Command.line`; c, but of those
        that are shared with their recordings, whose delay, lag or limit is to be found."""
        for k in self._recorded(shared):
            c = c.at[:, k].set(shared[self.names[k]].line(t - dt, t))
        return c

    def acting(self, shared: Mapping[str, Any], c: Float[Array, " nc"], t: Scalar, dt: Scalar) -> Float[Array, " nc"]:
        """Commands at a time, as `signals`."""
        for k in self._recorded(shared):
            c = c.at[k].set(shared[self.names[k]].acting(t, _INSTANT * dt))
        return c

    def _recorded(self, shared: Mapping[str, Any]) -> list[int]:
        return [k for k, name in enumerate(self.names) if shared[name].recorded is not None]

    def forces(self, u: Float[Array, " nu"], c: Float[Array, " nc"]) -> Float[Array, " named"]:
        """All that have a name, the unknown ones first [N, N·m]."""
        return jnp.concatenate([u[: len(self.unknown)], c if self.gains is None else self.gains * c])

    def applied(
        self,
        mechanism: AbstractMechanism,
        q: Coordinates,
        t: Scalar,
        u: Float[Array, " nu"],
        c: Float[Array, " nc"],
        everywhere: Velocities | None = None,
    ) -> Velocities:
        """Generalized forces of u and c [N, N·m].

        Args:
            mechanism: The mechanism.
            q: Coordinates.
            t: Time [s].
            u: Unknown forces.
            c: Commands.
            everywhere: Those of w; by default those that w has at q.
        """
        Q = force_directions(mechanism, q, t, self.unknown + self.known) @ self.forces(u, c)
        if self.chart is None:
            return Q
        if everywhere is None:
            everywhere = self.chart.metric_forces(mechanism, q, t)[0] @ u[len(self.unknown) :]
        return Q + everywhere

    def by_target(self, u: Float[Array, " nu"], c: Float[Array, " nc"]) -> dict[str, Scalar]:
        """Total force on each actuator or velocity [N, N·m]."""
        total = {}
        for name, force in zip(self.unknown + self.known, self.forces(u, c), strict=True):
            total[name] = total.get(name, 0.0) + force
        return total

    def motion(
        self,
        mechanism: AbstractMechanism,
        q: Coordinates,
        dq: Velocities,
        t: Scalar,
        u: Float[Array, " nu"],
        c: Float[Array, " nc"],
        everywhere: Velocities | None = None,
    ) -> tuple[Velocities, Constraints]:
        """(ddq, λ); see `applied`."""
        return acceleration(mechanism, q, dq, t, self.applied(mechanism, q, t, u, c, everywhere))

    def turned(self, u: Float[Array, " nu"], turn: Float[Array, "dof dof"] | None) -> Float[Array, " nu"]:
        """u with w as a neighbour sees it; see `MotionChart.turned_metric`."""
        if turn is None:
            return u
        named = len(self.unknown)
        return jnp.concatenate([u[:named], turn @ u[named:]])

    def everywhere(
        self, frames: "Frames | None", u0: Float[Array, " nu"], u1: Float[Array, " nu"], fraction: Scalar
    ) -> Velocities | None:
        """Generalized forces of w at a fraction of an interval, on the straight line between its ends."""
        if frames is None:
            return None
        named = len(self.unknown)
        first, last = frames.start @ u0[named:], frames.end @ u1[named:]
        return first + fraction * (last - first)


class Frames(NamedTuple):
    """Of forces w in all directions, near both ends of an interval: they are weighed there, and do not follow as the
    ends move."""

    start: Float[Array, "nv dof"]
    """Generalized forces of w at the start …"""
    end: Float[Array, "nv dof"]
    """… and at the end …"""
    turn: Float[Array, "dof dof"]
    """… and what w of the start is at the end."""


def force_directions(
    mechanism: AbstractMechanism, q: Coordinates, t: Scalar, names: Sequence[str]
) -> Float[Array, "nv names"]:
    """Generalized force per unit of a force on each of these actuators or velocities."""
    columns = [jnp.zeros((mechanism.nv, 0), q.dtype)]
    A = mechanism.actuation(q, t)
    for name in names:
        if name in mechanism.actuator_names:
            columns.append(A[:, mechanism.actuator_names.index(name), None])
        else:
            columns.append(jnp.eye(mechanism.nv, 1, -mechanism.velocity_names.index(name), dtype=q.dtype))
    return jnp.concatenate(columns, axis=1)
