"""Forces on a mechanism besides its own: where they act and what they make of the motion."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.dynamics.equations import acceleration
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities


class Forcing(eqx.Module):
    """Where the forces u that are estimated and the commands c that are known act."""

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

    def sharing(self, shared: Mapping[str, Any]) -> "Forcing":
        """The same with the gains of the commands that are shared."""
        if not self.names:
            return self
        gains = jnp.stack([shared[name].gain for name in self.names])
        return eqx.tree_at(lambda forcing: forcing.gains, self, gains)

    def signals(
        self, shared: Mapping[str, Any], c: Float[Array, "2 nc"], t: Scalar, dt: Scalar
    ) -> Float[Array, "2 nc"]:
        """Commands at both ends of the interval that ends at t; c, but of those that are shared with their recordings,
        whose delay, lag or limit is to be found."""
        recorded = [k for k, name in enumerate(self.names) if shared[name].recorded is not None]
        for k in recorded:
            c = c.at[:, k].set(shared[self.names[k]].line(t - dt, t))
        return c

    def forces(self, u: Float[Array, " nu"], c: Float[Array, " nc"]) -> Float[Array, " nu+nc"]:
        """All of them, the unknown ones first [N, N·m]."""
        return jnp.concatenate([u, c if self.gains is None else self.gains * c])

    def applied(
        self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar, u: Float[Array, " nu"], c: Float[Array, " nc"]
    ) -> Velocities:
        """Generalized forces of u and c [N, N·m]."""
        directions = force_directions(mechanism, q, t, self.unknown + self.known)
        return directions @ self.forces(u, c)

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
    ) -> tuple[Velocities, Constraints]:
        """(ddq, λ)."""
        return acceleration(mechanism, q, dq, t, self.applied(mechanism, q, t, u, c))


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
