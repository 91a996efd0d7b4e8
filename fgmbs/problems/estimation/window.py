"""The fixed-lag smoother of an estimation: one new step at a time, as data come in."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.graph.time_graph import Rows
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.solvers.fixed_lag import Estimate, FixedLagSmoother, WindowState
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt

_TOLERANCE = 1e-4
"""Relative change of a window that is taken without another look: what is left after it is its square, far below the
noise."""
_LOOKS = 60
"""At a window, at most: the first ones, which know little of a delay or a lag, take many."""


def begin(model: EstimationModel, window: int, x: Float[Array, " nx"], data: StepData) -> WindowState:
    """The window before the first step, which is near x, at the time of `data`, whose other entries give shapes.

    It is filled with steps that are tied to nothing, so that every call, the first included, takes in one step and
    costs the same. The size of the noise of a step is that at its start value, once and for all.
    """
    steps = jnp.broadcast_to(x, (window, x.shape[0]))
    blank = jax.tree.map(lambda leaf: jnp.zeros((window - 1, *leaf.shape), leaf.dtype), data)
    times = data.times - model.dt * jnp.arange(window - 1, 0, -1)
    blank = blank._replace(times=times, prior=steps[1:], prior_weights=jnp.ones_like(blank.prior_weights))
    rows = jax.vmap(model.blank_rows)(steps[1:], blank)
    return smoother(model, rows).init(steps, rows, model.free.value)


def take_in(
    model: EstimationModel, state: WindowState, data: StepData, tol: float = _TOLERANCE
) -> tuple[WindowState, Estimate]:
    """Takes in a step."""
    return smoother(model, state.rows, tol).step(state, data)


def smoother(model: EstimationModel, rows: Rows, tol: float = _TOLERANCE) -> FixedLagSmoother:
    """That of a model; `rows` give shapes."""
    solver = LevenbergMarquardt(linear="sqrt", maxiter=_LOOKS, tol=tol, holds_factor=True)

    def advance(steps, theta, data):
        return model.at(theta).advance(steps, data)

    return FixedLagSmoother(model.over(rows), solver, "marginal", advance)
