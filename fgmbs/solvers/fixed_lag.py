"""Fixed-lag smoothing: a window over the last steps, and a square-root prior in the place of everything older."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from fgmbs.errors import Status
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import linear_prior
from fgmbs.graph import Rows, TimeGraph, Unknowns
from fgmbs.linear.sqrt import marginalize_first
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.typing import Scalar


class WindowState(eqx.Module):
    """A window whose newest step is predicted, but has not got its data yet."""

    steps: Float[Array, "window nx"]
    rows: Rows
    """Data of all steps of the window; those of the newest are a placeholder."""
    prior: tuple[Float[Array, "nx nx"], Float[Array, " nx"], Float[Array, " nx"]]
    """(R, d, x₀): rows R (x − x₀) + d on the oldest step, in the place of everything older."""


class Estimate(eqx.Module):
    """What the smoother knows after a step."""

    steps: Float[Array, "window nx"]
    """All steps of the window, the oldest first; the oldest leaves the window now."""
    status: Status
    iterations: Int[Array, ""]
    cost: Scalar


class FixedLagSmoother(eqx.Module):
    """A smoother over the last `window` steps of a graph.

    `step` is a pure function (state, rows) → (state, estimate), for the body of a `lax.scan` over a recording or for a
    real-time loop.

    Attributes:
        graph: Mechanism, factors and variables; its times, series and weights only give the structure. Its factors of
            scope "initial" enter once, linearized, through `init`. No global parameters.
        solver: Solves each window.
        past: "marginal": everything older stays as its marginal distribution, as an estimator needs it. "known": the
            step before the window is held at its estimate with the information that the initial factors give to step
            0. Without measurements nothing more is ever learned about the past, while its distribution widens, in
            unstable motion exponentially, until the window is held by nothing but rounding.
        predict: (the last two steps (2, nx), dt) → start value (nx,) of the next.
    """

    graph: TimeGraph
    solver: LevenbergMarquardt = eqx.field(static=True)
    past: Literal["marginal", "known"] = eqx.field(static=True)
    predict: Callable[[Float[Array, "2 nx"], Scalar], Float[Array, " nx"]]

    def init(self, steps: Float[Array, "window nx"], rows: Rows) -> WindowState:
        """The window over the first steps, from their start values and data; the newest get theirs in `step`."""
        first = self.graph.with_rows(jax.tree.map(lambda leaf: leaf[:1], rows))
        initial = tuple(factor for factor in first.factors if factor.scope == "initial")
        system, _ = eqx.tree_at(lambda graph: graph.factors, first, initial).linearize(_unknowns(steps[:1]))
        R, d = system.initial_jacobian, system.initial_residual
        missing = steps.shape[1] - R.shape[0]
        if missing < 0:
            R, d = jnp.split(jnp.linalg.qr(jnp.column_stack([R, d]), mode="r")[: steps.shape[1]], [steps.shape[1]], 1)
            d, missing = d[:, 0], 0
        return WindowState(steps, rows, (jnp.pad(R, ((0, missing), (0, 0))), jnp.pad(d, (0, missing)), steps[0]))

    def step(self, state: WindowState, rows: Rows) -> tuple[WindowState, Estimate]:
        """Gives the newest step its data, solves the window, and moves it on by one step."""
        rows = jax.tree.map(lambda old, new: old.at[-1].set(new), state.rows, rows)
        graph = self.graph.with_rows(rows)
        names = tuple(name for name, _ in graph.sizes)
        marginal = Factor(linear_prior, names, Noise.sigma(1.0), "initial", data=state.prior)
        factors = tuple(factor for factor in graph.factors if factor.scope != "initial")
        graph = eqx.tree_at(lambda graph: graph.factors, graph, (*factors, marginal))
        (steps, _), lm = self.solver.run(_unknowns(state.steps), graph)
        if self.past == "marginal":
            prior = (*marginalize_first(lm.system), lm.point.steps[1])
        else:
            prior = (state.prior[0], jnp.zeros_like(state.prior[1]), steps[1])
        moved = WindowState(
            steps=jnp.concatenate([steps[1:], self.predict(steps[-2:], graph.dt)[None]]),
            rows=jax.tree.map(lambda leaf: jnp.concatenate([leaf[1:], leaf[-1:]]), rows),
            prior=prior,
        )
        return moved, Estimate(steps, lm.status, lm.iter_num, lm.cost)


def _unknowns(steps):
    return Unknowns(steps, jnp.zeros(0, steps.dtype))
