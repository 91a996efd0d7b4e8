"""Fixed-lag smoothing: a window over the last steps, and a square-root prior in the place of everything older."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import linear_prior
from fgmbs.graph.time_graph import Rows, TimeGraph, Unknowns
from fgmbs.linear import Factorization, Marginals, marginalize_first
from fgmbs.linear.triangle import Triangle
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt, LMState
from fgmbs.status import Status
from fgmbs.typing import Scalar


class WindowState(NamedTuple):
    """The last steps, and a square-root prior in the place of everything older."""

    steps: Float[Array, "window nx"]
    """The last window; its oldest step has left it."""
    globals: Float[Array, " p"]
    rows: Rows
    """Data of all of these steps but the oldest."""
    prior: tuple[Float[Array, "wide tangent"], Float[Array, " wide"], Float[Array, " x"]]
    """(R, d, x₀): rows R (x ⊟ x₀) + d on x = (oldest step that is left, globals)."""
    past_cost: Scalar
    """Cost of the factors that have left the window, as far as the window cannot lower it any more."""
    taken: Int[Array, ""]
    """Steps that have been taken in."""


class Estimate(NamedTuple):
    """What the smoother knows after a step."""

    steps: Float[Array, "window nx"]
    """All steps of the window, the oldest first; the oldest leaves the window now."""
    globals: Float[Array, " p"]
    rows: Rows
    """Data of these steps."""
    factorization: Factorization
    """Of the window linearized at the best point, for covariances."""
    status: Status
    iterations: Int[Array, ""]
    cost: Scalar
    """Of everything taken in so far; robust losses that have left the window by their tangent quadratics."""

    def newest_covariance(self) -> Float[Array, "wide wide"]:
        """Covariance of the local coordinates of the newest step and θ."""
        factor = self.factorization.factor
        assert isinstance(factor, Triangle)
        return factor.last_covariance()

    def marginals(self) -> Marginals:
        """Covariances of the local coordinates of the window."""
        return self.factorization.marginals()


class FixedLagSmoother(eqx.Module):
    """A smoother over the last `window` steps of a graph.

    `step` is a pure function (state, data) → (state, estimate), for the body of a `lax.scan` over a recording or for a
    real-time loop.

    Attributes:
        graph: Mechanism, factors and variables; its times, series and weights only give the structure. Its factors of
            scope "initial" and "global" enter once, linearized, through `init`.
        solver: Solves each window.
        past: "marginal": everything older stays as its marginal distribution, as an estimator needs it. "known": the
            step before the window is held at its estimate with the information that the initial factors give to step
            0. Without measurements nothing more is ever learned about the past, while its distribution widens, in
            unstable motion exponentially, until the window is held by nothing but rounding.
        advance: (the last two steps (2, nx), θ, data) → (start value (nx,) of the next step, its `Rows`); what data are
            is up to it.
    """

    graph: TimeGraph
    solver: LevenbergMarquardt = eqx.field(static=True)
    past: Literal["marginal", "known"] = eqx.field(static=True)
    advance: Callable[[Float[Array, "2 nx"], Float[Array, " p"], PyTree], tuple[Float[Array, " nx"], Rows]]

    def init(
        self, steps: Float[Array, "window nx"], rows: Rows, globals: Float[Array, " p"] | None = None
    ) -> WindowState:
        """The window before its newest step: `rows` are the data of all of its steps but the oldest, from which the
        first is predicted only."""
        first = self.graph.with_rows(jax.tree.map(lambda leaf: leaf[:1], rows))
        globals = jnp.zeros(0, steps.dtype) if globals is None else globals
        once = tuple(factor for factor in self.graph.factors if factor.scope in ("initial", "global"))
        first = eqx.tree_at(lambda graph: graph.factors, first, once)
        point = Unknowns(steps[1:2], globals)
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
        prior = self._prior(R, d, point, first.times[0], 0)
        return WindowState(steps, globals, rows, prior, jnp.zeros((), steps.dtype), jnp.asarray(0))

    def step(self, state: WindowState, data: PyTree) -> tuple[WindowState, Estimate]:
        """Takes in a step: moves the window on to it and solves it."""
        x, rows = self.moved(state, data)
        return self.concluded(state, rows, *self.solver.run(x, self.over(state, rows)))

    def moved(self, state: WindowState, data: PyTree) -> tuple[Unknowns, Rows]:
        """(where the search for the window with a new step begins, the data of its steps)."""
        start, newest = self.advance(state.steps[-2:], state.globals, data)
        rows = jax.tree.map(lambda held, new: jnp.concatenate([held, new[None]]), state.rows, newest)
        return Unknowns(jnp.concatenate([state.steps[1:], start[None]]), state.globals), rows

    def over(self, state: WindowState, rows: Rows) -> TimeGraph:
        """The graph of a window with these data of its steps, which is behind `state`."""
        graph = self.graph.with_rows(rows)
        names = tuple(dict(graph.sizes))
        marginal = Factor(linear_prior, names, Noise.sigma(1.0), "initial", data=state.prior, theta=True)
        factors = tuple(factor for factor in graph.factors if factor.scope not in ("initial", "global"))
        return eqx.tree_at(lambda graph: graph.factors, graph, (*factors, marginal))

    def concluded(self, state: WindowState, rows: Rows, x: Unknowns, lm: LMState) -> tuple[WindowState, Estimate]:
        """What follows from the solution of the window with these data."""
        factorization = self.solver.factorization(lm)
        if self.past == "marginal":
            R, d, rho = marginalize_first(factorization)
            prior = self._prior(R, d, lm.point, rows.times[1], 1)
        else:
            rho = jnp.zeros((), x.steps.dtype)
            prior = (
                state.prior[0],
                jnp.zeros_like(state.prior[1]),
                state.prior[2].at[: x.steps.shape[1]].set(x.steps[1]),
            )
        held = jax.tree.map(lambda leaf: leaf[1:], rows)
        moved = WindowState(x.steps, x.globals, held, prior, state.past_cost + 0.5 * rho**2, state.taken + 1)
        # The last step of the iteration is taken without a look at what it brings.
        cost = state.past_cost + lm.look.cost - jnp.where(lm.status == Status.converged, lm.predicted, 0.0)
        return moved, Estimate(x.steps, x.globals, rows, factorization, lm.status, lm.iter_num, cost)

    def _prior(self, R, d, point: Unknowns, t, k: int):
        """Rows R δ + d in the local coordinates of step k and the globals, as rows in their x ⊟ x₀."""
        graph, x = self.graph, point.steps[k]
        steps, globals = R[:, : graph.local_size], R[:, graph.local_size :]
        if graph.chart is not None:
            steps = steps @ graph.chart.coordinates(graph.model(point.globals)[0], x, t)
        return jnp.concatenate([steps, globals], axis=1), d, jnp.concatenate([x, point.globals])
