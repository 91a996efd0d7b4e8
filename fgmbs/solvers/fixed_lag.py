"""Fixed-lag smoothing: a window over the last steps, and a square-root prior in the place of everything older."""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fgmbs.errors import Status
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import linear_prior
from fgmbs.graph import Rows, TimeGraph, Unknowns
from fgmbs.linear.blocks import LeastSquares
from fgmbs.linear.sqrt import marginalize_first
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.typing import Scalar


class WindowState(eqx.Module):
    """A window whose newest step is predicted, but has not got its data yet."""

    steps: Float[Array, "window nx"]
    globals: Float[Array, " p"]
    rows: Rows
    """Data of all steps of the window; those of the newest are a placeholder."""
    prior: tuple[Float[Array, "wide x"], Float[Array, " wide"], Float[Array, " x"]]
    """(R, d, x₀): rows R (x − x₀) + d on x = (oldest step, globals), in the place of everything older."""


class Estimate(eqx.Module):
    """What the smoother knows after a step."""

    steps: Float[Array, "window nx"]
    """All steps of the window, the oldest first; the oldest leaves the window now."""
    globals: Float[Array, " p"]
    system: LeastSquares
    """The window linearized at the best point, for covariances."""
    status: Status
    iterations: Int[Array, ""]
    cost: Float[Array, ""]
    """Cost of the window."""
    lost: Float[Array, ""]
    """Cost that goes with the oldest step: of its rows less that of the prior which stands for them."""


class FixedLagSmoother(eqx.Module):
    """A smoother over the last `window` steps of a graph.

    `step` is a pure function (state, rows) → (state, estimate), for the body of a `lax.scan` over a recording or for a
    real-time loop.

    Attributes:
        graph: Mechanism, factors and variables; its times, series and weights only give the structure. Its factors of
            scope "initial" and "global" enter once, linearized, through `init`.
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

    def init(
        self, steps: Float[Array, "window nx"], rows: Rows, globals: Float[Array, " p"] | None = None
    ) -> WindowState:
        """The window over the first steps, from their start values and data; the newest get theirs in `step`."""
        first = self.graph.with_rows(jax.tree.map(lambda leaf: leaf[:1], rows))
        globals = jnp.zeros(0, steps.dtype) if globals is None else globals
        first = eqx.tree_at(lambda graph: graph.factors, first, self._once)
        point = Unknowns(steps[:1], globals)
        system, _ = first.linearize(point)
        R = jnp.block(
            [
                [system.initial_jacobian, system.initial_arrow],
                [jnp.zeros((system.global_residual.shape[0], system.step_size)), system.global_jacobian],
            ]
        )
        d = jnp.concatenate([system.initial_residual, system.global_residual])
        wide = R.shape[1]
        missing = wide - R.shape[0]
        if missing < 0:
            R, d = jnp.split(jnp.linalg.qr(jnp.column_stack([R, d]), mode="r")[:wide], [wide], 1)
            d, missing = d[:, 0], 0
        R, d = jnp.pad(R, ((0, missing), (0, 0))), jnp.pad(d, (0, missing))
        return WindowState(steps, globals, rows, self._prior(R, d, point, first.times[0], 0))

    def step(self, state: WindowState, rows: Rows) -> tuple[WindowState, Estimate]:
        """Gives the newest step its data, solves the window, and moves it on by one step."""
        rows = jax.tree.map(lambda old, new: old.at[-1].set(new), state.rows, rows)
        graph = self.graph.with_rows(rows)
        names, globals = (tuple(dict(sizes)) for sizes in (graph.sizes, graph.global_sizes))
        marginal = Factor(linear_prior, names, Noise.sigma(1.0), "initial", data=state.prior, globals=globals)
        factors = tuple(factor for factor in graph.factors if factor.scope not in ("initial", "global"))
        graph = eqx.tree_at(lambda graph: graph.factors, graph, (*factors, marginal))
        x, lm = self.solver.run(Unknowns(state.steps, state.globals), graph)
        if self.past == "marginal":
            R, d, rho = marginalize_first(lm.system)
            prior = self._prior(R, d, lm.point, graph.times[1], 1)
        else:
            rho = jnp.zeros((), x.steps.dtype)
            prior = (
                state.prior[0],
                jnp.zeros_like(state.prior[1]),
                state.prior[2].at[: x.steps.shape[1]].set(x.steps[1]),
            )
        moved = WindowState(
            steps=jnp.concatenate([x.steps[1:], self.predict(x.steps[-2:], graph.dt)[None]]),
            globals=x.globals,
            rows=jax.tree.map(lambda leaf: jnp.concatenate([leaf[1:], leaf[-1:]]), rows),
            prior=prior,
        )
        # The last step of the iteration is taken without a look at what it brings.
        cost = lm.cost - jnp.where(lm.status == Status.converged, lm.predicted, 0.0)
        return moved, Estimate(x.steps, x.globals, lm.system, lm.status, lm.iter_num, cost, 0.5 * rho**2)

    @property
    def _once(self) -> tuple[Factor, ...]:
        return tuple(factor for factor in self.graph.factors if factor.scope in ("initial", "global"))

    def _prior(self, R, d, point: Unknowns, t, k: int):
        """Rows R δ + d in the local coordinates of step k and the globals, as rows in its variables and the globals."""
        graph, x = self.graph, point.steps[k]
        steps, globals = R[:, : graph.local_size], R[:, graph.local_size :]
        if graph.chart is not None:
            steps = steps @ graph.chart.coordinates(graph.mechanism, x, t)
        places, start = {}, 0
        for name, size in graph.global_sizes:
            places[name] = range(start, start + size)
            start += size
        order = np.array([i for name in sorted(places) for i in places[name]], int)
        return jnp.concatenate([steps, globals[:, order]], axis=1), d, jnp.concatenate([x, point.globals[order]])
