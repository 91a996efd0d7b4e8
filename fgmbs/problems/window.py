"""A window that follows a recording: one new step at a time, as data come in."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.linear import METHODS, Marginals
from fgmbs.linear.triangle import Triangle
from fgmbs.problems.estimation_graph import EstimationModel, StepData
from fgmbs.solvers.fixed_lag import Estimate, FixedLagSmoother, WindowState
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.typing import Scalar


class FollowState(NamedTuple):
    """A window whose newest step is still to come."""

    steps: Float[Array, "window nx"]
    """The newest is a placeholder."""
    globals: Float[Array, " p"]
    prior: tuple[Float[Array, "wide x"], Float[Array, " wide"], Float[Array, " x"]]
    """What is known of the oldest step and the globals from everything older, see `WindowState`."""
    data: StepData
    """Those of the newest step are a placeholder."""
    past_cost: Scalar
    """Cost of the factors that have left the window, as far as the window cannot lower it any more."""


class Followed(NamedTuple):
    """What is known of steps when they come in."""

    newest: Float[Array, "*steps nx"]
    cost: Float[Array, "*steps"]
    """Of everything taken in so far; robust losses by their tangent quadratics."""


class Follower(eqx.Module):
    """A fixed-lag smoother over the steps of an estimation.

    Before the first step the window is filled with steps that are tied to nothing, so that every call, the first
    included, takes in one step and costs the same.

    Attributes:
        model: What graphs are made of.
        window: Steps in the window.
        maxiter: Iterations of a window at most.
        tol: Relative step that is taken without another look.
    """

    model: EstimationModel
    window: int = eqx.field(static=True)
    maxiter: int = eqx.field(static=True, default=30)
    tol: float = eqx.field(static=True, default=1e-4)

    def init(
        self,
        x: Float[Array, " nx"],
        sigma: Float[Array, " local"],
        data: StepData,
        globals: Float[Array, " p"] | None = None,
    ) -> FollowState:
        """The window before the first step, which is near x with a standard deviation of its local coordinates.

        Args:
            x: Start value and centre of the prior of the first step.
            sigma: Its standard deviations.
            data: Of any step; gives shapes.
            globals: Start values of the calibration numbers.
        """
        steps = jnp.broadcast_to(x, (self.window, x.shape[0]))
        blank = jax.tree.map(lambda leaf: jnp.zeros((self.window, *leaf.shape), leaf.dtype), data)
        times = data.times + self.model.dt * jnp.arange(-self.window, 0)
        weights = jnp.ones((self.window, sigma.shape[0]), x.dtype).at[-1].set(1 / sigma)
        blank = blank._replace(times=times, prior=steps, prior_weights=weights)
        smoother = self._smoother(steps, blank)
        calibration = self.model.calibration[0] if globals is None else globals
        rows = self.model.rows(steps, blank)
        state = smoother.init(steps, rows, calibration)
        return FollowState(steps, calibration, state.prior, blank, jnp.zeros((), x.dtype))

    def step(self, state: FollowState, data: StepData, first: Array | bool = False) -> tuple[FollowState, Estimate]:
        """Takes in a step.

        Args:
            state: The window.
            data: Of the new step; of its prior it keeps that of `init`.
            first: Whether it is the first one, which no motion leads to.
        """
        held = jax.tree.map(lambda leaf: leaf[-1], state.data)
        data = data._replace(
            linked=jnp.where(first, 0.0, data.linked),
            prior=held.prior,
            prior_weights=jnp.where(first, held.prior_weights, 0.0),
        )
        return self.resolve(state._replace(data=self._with_newest(state.data, data)), first)

    def resolve(self, state: FollowState, first: Array | bool = False) -> tuple[FollowState, Estimate]:
        """The same once `state.data` hold the newest step."""
        steps, data = state.steps, state.data
        predicted = self.model.next_step(steps[-2], data.times[-2], data.commands[-1])
        predicted = jnp.where(first | ~jnp.all(jnp.isfinite(predicted)), steps[-2], predicted)
        steps = steps.at[-1].set(predicted)
        rows = self.model.rows(steps, data)
        window = WindowState(steps, state.globals, rows, state.prior)
        window, estimate = self._smoother(steps, data).step(window, jax.tree.map(lambda leaf: leaf[-1], rows))
        moved = jax.tree.map(lambda leaf: jnp.concatenate([leaf[1:], leaf[-1:]]), data)
        past_cost = state.past_cost + estimate.lost
        return FollowState(window.steps, window.globals, window.prior, moved, past_cost), estimate

    def marginals(self, estimate: Estimate) -> Marginals:
        """Covariances of the local coordinates of the window."""
        return METHODS["sqrt"](estimate.system, *self._no_damping(estimate)).marginals()

    def newest_covariance(self, estimate: Estimate) -> Float[Array, "local local"]:
        """Covariance of the local coordinates of the newest step alone, a third of the work of all."""
        factor = METHODS["sqrt"](estimate.system, *self._no_damping(estimate)).factor
        assert isinstance(factor, Triangle)
        size = self.model.local_size
        return factor.last_covariance()[:size, :size]

    def _no_damping(self, estimate: Estimate):
        system = estimate.system
        dtype = estimate.steps.dtype
        return jnp.zeros((system.num_steps, system.step_size), dtype), jnp.zeros(system.num_globals, dtype)

    def _smoother(self, steps, data) -> FixedLagSmoother:
        solver = LevenbergMarquardt(linear="sqrt", maxiter=self.maxiter, tol=self.tol)
        return FixedLagSmoother(self.model.graph(steps, data), solver, "marginal", _stay)

    @staticmethod
    def _with_newest(data: StepData, newest: StepData) -> StepData:
        return jax.tree.map(lambda old, new: old.at[-1].set(new), data, newest)


def _stay(steps, dt):
    return steps[-1]


def follow(follower: Follower, state: FollowState, data: StepData, count: Array | int) -> tuple[FollowState, Followed]:
    """The first `count` steps of a recording, one after the other, and what was known of each when it came in.

    The number of steps is no part of the program: a part of a recording costs no compilation.
    """
    T = data.times.shape[0]
    seen = Followed(jnp.zeros((T, follower.model.step_size), data.times.dtype), jnp.zeros(T, data.times.dtype))

    def advance(k, carry):
        state, seen = carry
        state, estimate = follower.step(state, jax.tree.map(lambda leaf: leaf[k], data), k == 0)
        new = Followed(estimate.steps[-1], state.past_cost + estimate.cost)
        return state, jax.tree.map(lambda all, one: all.at[k].set(one), seen, new)

    return jax.lax.fori_loop(0, count, advance, (state, seen))
