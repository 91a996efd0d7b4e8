"""The graphs of forward dynamics: Fig. 2 (dependent coordinates) and Fig. 3 (independent coordinates) of [Blanco21]."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.dynamics import acceleration, kkt_inverse
from fgmbs.factors import constraints, dynamics, integration
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import prior
from fgmbs.graph import Rows, TimeGraph
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities

Integrator = Literal["euler", "trapezoidal", "hermite_simpson"]

# Standard deviations. Only their ratios matter to the motion: all residuals can vanish but one, see `tangent_weights`.
_PRIOR = 1e-6
_SIGMA = 1e-3
_NORMAL = 1e2
"""How much less an integration rule counts across the constraints than along them."""
_VELOCITY_TIME = 0.017
"""Scale of the steps Δt [s] below which velocity constraints are relaxed, see `velocity_sigma`."""
_RELATIVE_FIRST = 10.0
"""How many times better a coordinate with mass must be to become independent before one without (an angle)."""

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
    dof: int = eqx.field(static=True)
    """0 in dependent coordinates."""
    chosen: tuple[int, ...] | None = eqx.field(static=True)
    """Independent coordinates of the user's choice; None selects the best at every step."""

    def rows(self, q: Coordinates, t: Scalar) -> Rows:
        """Times, series and weights of a step that will end near the coordinates q."""
        mechanism = self.graph.mechanism
        q = jax.lax.stop_gradient(q)
        varying = {}
        if self.dof:
            B = self.selection(q, t)
            varying = {"step": (B, None), "interval": (B, None)}
        else:
            varying = {"step": (None, None), "interval": (None, tangent_weights(mechanism, q, t))}
        none = (None, None)
        return Rows(jnp.asarray(t), tuple(varying.get(factor.scope, none) for factor in self.graph.factors))

    def selection(self, q: Coordinates, t: Scalar) -> Float[Array, "dof n"]:
        """B, the selection of independent coordinates z = B q."""
        if self.chosen is not None:
            return jnp.eye(q.shape[0], dtype=q.dtype)[jnp.asarray(self.chosen)]
        return _select(self.graph.mechanism, q, t, self.dof)

    def state(self, q: Coordinates, dq: Velocities, ddq: Velocities, rows: Rows) -> Float[Array, " nx"]:
        """The variables of one step, stacked."""
        if not self.dof:
            return jnp.concatenate([q, dq, ddq])
        B = next(
            series
            for factor, (series, _) in zip(self.graph.factors, rows.factors, strict=True)
            if factor.scope == "step"
        )
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
            Factor(constraints.acceleration_constraint_independent, ("q", "dq", "ddq", "ddz"), sigma),
            Factor(dynamics.forward_dynamics_independent, ("q", "dq", "ddz"), sigma),
        ]
    else:
        factors += [
            Factor(constraints.position_constraint, ("q",), sigma),
            Factor(constraints.velocity_constraint, ("q", "dq"), Noise.sigma(velocity_sigma(dt))),
            Factor(dynamics.forward_dynamics, ("q", "dq", "ddq"), sigma),
        ]
    rules = (_INDEPENDENT_RULES if dof else _RULES)[integrator]
    for (rule, variables), name in zip(rules, ("integrate_q", "integrate_dq"), strict=True):
        factors.append(Factor(rule, variables, sigma, "interval", name=name))
    graph = TimeGraph(mechanism, tuple(factors), sizes, jnp.zeros(1, q0.dtype), jnp.asarray(dt, q0.dtype))
    return ForwardModel(graph, dof, chosen)


def initial_state(model: ForwardModel, q0: Coordinates, dq0: Velocities, t: Scalar) -> tuple[Float[Array, " nx"], Rows]:
    """Start values and data of step 0."""
    rows = model.rows(q0, t)
    return model.state(q0, dq0, acceleration(model.graph.mechanism, q0, dq0, t)[0], rows), rows


def tangent_weights(mechanism: AbstractMechanism, q: Coordinates, t: Scalar) -> Float[Array, "n n"]:
    """Weights that let an integration rule bind along the constraints and hardly across them.

    The rules step along straight lines and miss the constraints by O(Δt³). Where all directions weigh the same, the
    smoother explains these misses by small disturbances along the motion, which pile up: at large Δt or over a long
    time the motion drifts. With weight 1 on the tangent space and 1/_NORMAL across it, the misses are closed where they
    arise.
    """
    P = _tangent_projector(mechanism, q, t)
    return P + (jnp.eye(P.shape[0], dtype=P.dtype) - P) / _NORMAL


def velocity_sigma(dt: Scalar) -> Scalar:
    """Standard deviation of the velocity constraint in dependent coordinates.

    A rule of order p leaves an error across the constraints as it does along them. Taking it out of the velocities at
    once costs accuracy along the motion (four-bar, trapezoidal rule at 1 ms: 0.038 mm instead of 0.030 mm), leaving it
    in costs stability at large steps. The correction therefore acts over (_VELOCITY_TIME / Δt)² steps.
    """
    return _SIGMA * jnp.maximum(_NORMAL * (_VELOCITY_TIME / jnp.asarray(dt)) ** 2, 1.0)


def _tangent_projector(mechanism, q, t):
    """Projector on the null space of Φ_q."""
    return kkt_inverse(jnp.eye(q.shape[0], dtype=q.dtype), mechanism.constraint_jacobian(q, t)).P


def _select(mechanism, q, t, dof):
    """Rows of the identity for the coordinates that the motion moves most, one after the other."""
    P = _tangent_projector(mechanism, q, t)
    massless = jnp.diag(mechanism.mass_matrix(q)) == 0
    preference = jnp.where(massless, _RELATIVE_FIRST**2, 1.0)
    selected = []
    for _ in range(dof):
        share = jnp.diag(P)
        row = jax.nn.one_hot(jnp.argmax(preference * share), q.shape[0], dtype=q.dtype)
        column = P @ row
        P = P - jnp.outer(column, column) / (row @ column)
        selected.append(row)
    return jnp.stack(selected)
