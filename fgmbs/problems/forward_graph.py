"""The graphs of forward dynamics: Fig. 2 (dependent coordinates) and Fig. 3 (independent coordinates) of [Blanco21]."""

from typing import Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.dynamics import acceleration
from fgmbs.factors import constraints, dynamics, integration
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import prior
from fgmbs.graph import Rows, TimeGraph
from fgmbs.kinematics.chart import best_selection
from fgmbs.kkt import kkt_inverse
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities

Integrator = Literal["euler", "trapezoidal", "hermite_simpson"]

# Standard deviations. Only their ratios matter to the motion.
_PRIOR = 1e-6
_SIGMA = 1e-3
_LEAST_ERROR = 0.05
"""What is added to the truncation error of every coordinate, relative to the largest one: estimates go through zero."""

_RULES = {
    "euler": ((integration.euler, ("q", "dq")), (integration.euler, ("dq", "ddq"))),
    "trapezoidal": ((integration.trapezoidal, ("q", "dq")), (integration.trapezoidal, ("dq", "ddq"))),
    "hermite_simpson": (
        (integration.hermite_simpson_position, ("q", "dq", "ddq")),
        (integration.hermite_simpson_velocity, ("q", "dq", "ddq")),
    ),
}
_INDEPENDENT_RULES = {
    "euler": ((integration.euler_independent, ("q", "dq", "z")), (integration.euler_independent, ("dq", "ddq", "dz"))),
    "trapezoidal": (
        (integration.trapezoidal_independent, ("q", "dq", "z")),
        (integration.trapezoidal_independent, ("dq", "ddq", "dz")),
    ),
    "hermite_simpson": (
        (integration.hermite_simpson_position_independent, ("q", "dq", "ddq", "z")),
        (integration.hermite_simpson_velocity_independent, ("q", "dq", "ddq", "dz")),
    ),
}


class ForwardModel(eqx.Module):
    """Forward dynamics as a time graph, and what the graph needs to know at each step."""

    graph: TimeGraph
    """The graph over one step; `rows` makes the data of others."""
    integrator: Integrator = eqx.field(static=True)
    dof: int = eqx.field(static=True)
    """Number of independent coordinates; 0 in dependent coordinates."""
    chosen: tuple[int, ...] | None = eqx.field(static=True)
    """Independent coordinates of the user's choice; None selects the best at every step."""

    def rows(self, before: Float[Array, " nx"], now: Float[Array, " nx"], t: Scalar) -> Rows:
        """Times, series and weights of a step that will end near `now` and comes from `before`."""
        start, end = self.graph.unpack(before), self.graph.unpack(now)
        if self.dof:
            B = self.selection(end["q"], t)
            varying = {"step": (B, None), "interval": (B, None)}
        else:
            # Only the error of the trapezoidal rule is that well known; 0 weighs all coordinates alike.
            change = end["ddq"] - start["ddq"] if self.integrator == "trapezoidal" else jnp.zeros_like(end["ddq"])
            weights = tangent_weights(self.graph.mechanism, end["q"], change, t)
            varying = {"interval": (None, weights)}
        return Rows(jnp.asarray(t), tuple(varying.get(factor.scope, (None, None)) for factor in self.graph.factors))

    def selection(self, q: Coordinates, t: Scalar) -> Float[Array, "dof n"]:
        """B, the selection of independent coordinates z = B q."""
        if self.chosen is not None:
            return jnp.eye(q.shape[0], dtype=q.dtype)[jnp.asarray(self.chosen)]
        P = kkt_inverse(jnp.eye(q.shape[0], dtype=q.dtype), self.graph.mechanism.constraint_jacobian(q, t)).P
        return best_selection(self.graph.mechanism, q, P, self.dof)

    def state(self, q: Coordinates, dq: Velocities, t: Scalar) -> Float[Array, " nx"]:
        """The variables of one step, stacked."""
        ddq, _ = acceleration(self.graph.mechanism, q, dq, t)
        if not self.dof:
            return jnp.concatenate([q, dq, ddq])
        B = self.selection(q, t)
        return jnp.concatenate([q, dq, ddq, B @ q, B @ dq, B @ ddq])

    def predict(self, steps: Float[Array, "2 nx"], dt: Scalar) -> Float[Array, " nx"]:
        """The next step if the accelerations go on along a straight line."""
        before, now = (self.graph.unpack(x) for x in steps)
        parts = []
        for q, dq, ddq in [("q", "dq", "ddq")] + ([("z", "dz", "ddz")] if self.dof else []):
            slope = now[ddq] - before[ddq]
            parts += [
                now[q] + dt * now[dq] + dt**2 * (now[ddq] / 2 + slope / 6),
                now[dq] + dt * (now[ddq] + slope / 2),
                now[ddq] + slope,
            ]
        return jnp.concatenate(parts)


def forward_model(
    mechanism: AbstractMechanism,
    q0: Coordinates,
    dq0: Velocities,
    dt: Scalar,
    integrator: Integrator,
    dof: int = 0,
    chosen: tuple[int, ...] | None = None,
) -> ForwardModel:
    """The graph of forward dynamics from (q0, dq0).

    In dependent coordinates (dof = 0): priors (21) on q and dq of step 0, position (24) and velocity (25) constraints
    and forward dynamics (26) at every step, an integration rule for q and one for dq between steps. In independent
    coordinates z = B q: the factors (27), (30)–(32), and the rules for z. The soft equality of Fig. 3 is left out:
    windows start from an extrapolation, which keeps the branch.
    """
    n = q0.shape[0]
    sigma = Noise.sigma(_SIGMA)
    # Accelerations can always fit the dynamics; counted in velocity over one step, their rows do not drown the others.
    sigma_ddq = Noise.sigma(_SIGMA / dt)
    factors = [
        Factor(prior, ("q",), Noise.sigma(_PRIOR), "initial", data=q0, name="prior_q"),
        Factor(prior, ("dq",), Noise.sigma(_PRIOR), "initial", data=dq0, name="prior_dq"),
    ]
    sizes = (("q", n), ("dq", n), ("ddq", n))
    if dof:
        sizes += (("z", dof), ("dz", dof), ("ddz", dof))
        factors += [
            Factor(constraints.position_constraint_independent, ("q", "z"), sigma),
            Factor(constraints.velocity_constraint_independent, ("q", "dq", "dz"), sigma),
            Factor(constraints.acceleration_constraint_independent, ("q", "dq", "ddq", "ddz"), sigma_ddq),
            Factor(dynamics.forward_dynamics_independent, ("q", "dq", "ddz"), sigma_ddq),
        ]
    else:
        factors += [
            Factor(constraints.position_constraint, ("q",), sigma),
            Factor(constraints.velocity_constraint, ("q", "dq"), sigma),
            Factor(dynamics.forward_dynamics, ("q", "dq", "ddq"), sigma_ddq),
        ]
    rules = (_INDEPENDENT_RULES if dof else _RULES)[integrator]
    for (rule, variables), name in zip(rules, ("integrate_q", "integrate_dq"), strict=True):
        factors.append(Factor(rule, variables, sigma, "interval", name=name))
    graph = TimeGraph(mechanism, tuple(factors), sizes, jnp.zeros(1, q0.dtype), jnp.asarray(dt, q0.dtype))
    return ForwardModel(graph, integrator, dof, chosen)


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
