"""The factor graph of a mechanism over time. Every question is this graph; what differs is what is known.

Forces known: forward dynamics. Motion known: inverse dynamics. Samples of sensors known: state estimation. What is
known joins it as factors: priors, tracking, measurements. How steps hold the constraints is the graph's form:

"chart": x = (q, q̇, u) moves along the constraints, which hold to rounding; one factor, the transition.
"dependent": x = (q, q̇, q̈, u), soft constraints. Fig. 2 of [Blanco21], with u unknown Fig. 4.
"independent": x = (q, q̇, q̈, z, ż, z̈, u), soft constraints and independent coordinates z = B q. Fig. 3.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fgmbs.algebra.kkt import kkt_inverse
from fgmbs.dynamics.chart import MotionChart
from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.transitions import AbstractTransition, Trapezoidal
from fgmbs.factors import constraints
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.dynamics import dynamics, dynamics_independent
from fgmbs.factors.transition import (
    integrated_positions,
    integrated_positions_independent,
    integrated_velocities,
    integrated_velocities_independent,
    transition,
)
from fgmbs.graph.time_graph import TimeGraph
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities
from fgmbs.unknowns import Free

Form = Literal["chart", "dependent", "independent"]

_LEAST_ERROR = 0.05
"""What is added to the truncation error of every coordinate, relative to the largest one: estimates go through zero."""


class Tightness(NamedTuple):
    """Standard deviations of what must hold: of rows in coordinates, in velocities, in accelerations."""

    position: Scalar
    velocity: Scalar
    acceleration: Scalar


class Trajectory(eqx.Module):
    """A mechanism over time, of which graphs over any steps are made."""

    mechanism: AbstractMechanism
    rule: AbstractTransition
    forcing: Forcing
    """Forces besides the mechanism's own; the unknown ones are variables u."""
    dt: Scalar
    chart: MotionChart
    """Local coordinates of steps in the form "chart"; else it selects the independent ones."""
    form: Form = eqx.field(static=True)

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """Variables of a step."""
        n, nv, dof = self.mechanism.n, self.mechanism.nv, self.chart.dof
        sizes = (("q", n), ("dq", nv))
        if self.form != "chart":
            sizes += (("ddq", nv),)
        if self.form == "independent":
            sizes += (("z", dof), ("dz", dof), ("ddz", dof))
        return (*sizes, ("u", self.forcing.size))

    def graph(
        self,
        known: tuple[Factor, ...],
        tight: Tightness | None,
        times: Float[Array, " steps"],
        shared: Mapping[str, PyTree] | None = None,
        free: Free | None = None,
    ) -> TimeGraph:
        """The graph with factors of what is known behind its own, which still lack their series; see `rows`.

        Args:
            known: Factors of what is known.
            tight: Standard deviations of soft constraints, dynamics and rules; noise of a transition: its rows.
            times: Of all steps [s].
            shared: What factors of what is known read besides the mechanism.
            free: Unknown leaves of (mechanism, shared).
        """
        chart = self.chart if self.form == "chart" else None
        factors = (*self._own(tight), *known)
        free = Free() if free is None else free
        return TimeGraph(self.mechanism, factors, self.sizes, times, self.dt, dict(shared or {}), free, chart)

    def _own(self, tight: Tightness | None) -> tuple[Factor, ...]:
        """Constraints, dynamics, integration."""
        if self.form == "chart":
            data, shared = (self.rule, self.forcing), self.forcing.names
            return (Factor(transition, ("q", "dq", "u"), Noise.sigma(1.0), "interval", data=data, shared=shared),)
        position, velocity, acceleration = map(Noise.sigma, tight)
        data = (self.rule, self.forcing)
        step = ("q", "dq", "ddq", "u")
        if self.form == "dependent":
            return (
                Factor(constraints.position_constraint, ("q",), position),
                Factor(constraints.velocity_constraint, ("q", "dq"), velocity),
                Factor(dynamics, step, acceleration, data=self.forcing),
                Factor(integrated_positions, step, position, "interval", data=data, name="integrate_q"),
                Factor(integrated_velocities, step, velocity, "interval", data=data, name="integrate_dq"),
            )
        return (
            Factor(constraints.position_constraint_independent, ("q", "z"), position),
            Factor(constraints.velocity_constraint_independent, ("q", "dq", "dz"), velocity),
            Factor(constraints.acceleration_constraint_independent, ("q", "dq", "ddq", "ddz"), acceleration),
            Factor(dynamics_independent, ("q", "dq", "ddz", "u"), acceleration, data=self.forcing),
            Factor(integrated_positions_independent, (*step, "z"), position, "interval", data=data, name="integrate_q"),
            Factor(
                integrated_velocities_independent, (*step, "dz"), velocity, "interval", data=data, name="integrate_dq"
            ),
        )

    def rows(
        self, q: Coordinates, t: Scalar, commands: Float[Array, "2 nc"], change: Velocities | None = None
    ) -> tuple[tuple[object, Array | None], ...]:
        """(series, weights) of each of the graph's own factors at a step that ends near q.

        Args:
            q: Coordinates near the end of the step [m, rad].
            t: Its time [s].
            commands: Known forces at both ends of the interval before it [N, N·m].
            change: Change of the accelerations over the step, where it is known [m/s², rad/s²].
        """
        if self.form == "chart":
            return (((self.along(q, t)[0], commands, None), None),)
        if self.form == "dependent":
            # Only the error of the trapezoidal rule is that well known; 0 weighs all coordinates alike.
            known = change is not None and isinstance(self.rule, Trapezoidal)
            weights = tangent_weights(self.mechanism, q, change if known else jnp.zeros(q.shape, q.dtype), t)
            return (None, None), (None, None), (commands, None), (commands, weights), (commands, weights)
        B = self.selection(q, t)
        return ((B, None),) * 3 + (((B, commands), None),) * 3

    def selection(self, q: Coordinates, t: Scalar) -> Float[Array, "dof nv"]:
        """B, the selection of independent coordinates z = B q."""
        return self.chart.selection(self.mechanism, q, t)

    def along(
        self, q: Coordinates, t: Scalar
    ) -> tuple[Float[Array, "dof nv"], Float[Array, "nv nv"], Float[Array, "dof nv"]]:
        """(T, P, B): T takes independent coordinates of a vector and leaves out what points off the constraints.

        T = B P M: first the projection onto the directions in which the mechanism can move, in the metric of its mass
        matrix, in which a step of a simulation is projected too.
        """
        P, B = self.chart.mobility(self.mechanism, q, t)
        return B @ (P @ self.mechanism.mass_matrix(q)), P, B

    def state(
        self, q: Coordinates, dq: Velocities, t: Scalar, u: Float[Array, " nu"], c: Float[Array, " nc"]
    ) -> Float[Array, " nx"]:
        """The variables of one step, stacked, with the accelerations that forces u and c make; soft constraints."""
        ddq, _ = self.forcing.motion(self.mechanism, q, dq, t, u, c)
        if self.form == "dependent":
            return jnp.concatenate([q, dq, ddq, u])
        B = self.selection(q, t)
        return jnp.concatenate([q, dq, ddq, B @ q, B @ dq, B @ ddq, u])

    def unpack(self, x: Float[Array, "*batch nx"]) -> dict[str, Float[Array, "*batch _"]]:
        """Named variables of stacked ones."""
        names, sizes = zip(*self.sizes, strict=True)
        return dict(zip(names, jnp.split(x, np.cumsum(sizes)[:-1], axis=-1), strict=True))

    def predict(self, steps: Float[Array, "2 nx"]) -> Float[Array, " nx"]:
        """The step after two others if the accelerations go on along a straight line; forms with soft constraints."""
        before, now, dt = *map(self.unpack, steps), self.dt
        parts = []
        for q, dq, ddq in [("q", "dq", "ddq")] + ([("z", "dz", "ddz")] if self.form == "independent" else []):
            slope = now[ddq] - before[ddq]
            parts += [
                now[q] + dt * now[dq] + dt**2 * (now[ddq] / 2 + slope / 6),
                now[dq] + dt * (now[ddq] + slope / 2),
                now[ddq] + slope,
            ]
        return jnp.concatenate([*parts, now["u"]])


def tangent_weights(mechanism: AbstractMechanism, q: Coordinates, change: Velocities, t: Scalar) -> Float[Array, "n n"]:
    """Weights of an integration rule in dependent coordinates: a projector on the null space of Φ_q.

    The rules miss the constraints by O(Δt³) a step. Where all directions count, the smoother explains these misses by
    small disturbances along the motion, which pile up: at large Δt or after long the motion drifts. So the rules count
    along the constraints only, and position and velocity constraints determine the rest. Which step along them best
    agrees with the rules of all coordinates is decided by weighted least squares, each point and each angle weighed by
    its own truncation error, in proportion to the change of its acceleration (four-bar, trapezoidal rule at 1 ms:
    0.024 mm; with equal weights 0.038 mm).

    Args:
        q: Coordinates near the end of the step [m, rad].
        change: Change of the accelerations over the step [m/s², rad/s²].
    """
    # Equal for all components of a vector, so that the frame does not matter; relative to others of the same unit.
    same = jnp.asarray(np.equal.outer(mechanism.vectors, mechanism.vectors), q.dtype)
    error = jnp.sqrt(same @ change**2 + 1e-24)
    massless = jnp.diag(mechanism.mass_matrix(q)) == 0
    lengths, angles = jnp.where(massless, 0.0, error), jnp.where(massless, error, 0.0)
    error = error + _LEAST_ERROR * jnp.where(massless, jnp.max(angles), jnp.max(lengths))
    W = jnp.diag((jnp.min(error) / error) ** 2)
    return kkt_inverse(W, mechanism.constraint_jacobian(q, t)).P @ W
