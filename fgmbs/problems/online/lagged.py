"""Fixed-lag smoothing of a whole recording: what an estimator in a real-time loop would do with it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fgmbs.compiled.one_kernel import one_kernel
from fgmbs.compiled.program import program
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.problems.estimation.window import begin, take_in
from fgmbs.solvers.fixed_lag import WindowState
from fgmbs.status import Status


class Lagged(NamedTuple):
    """Every step as it left the window, and the window as it is now."""

    state: WindowState
    steps: Float[Array, "steps nx"]
    covariance: Float[Array, "steps columns columns"]
    status: Status
    window_steps: Float[Array, "window nx"]
    window_covariance: Float[Array, "window columns columns"]
    taken: Int[Array, ""]

    def together(self) -> tuple[Float[np.ndarray, "steps nx"], Float[np.ndarray, "steps columns columns"]]:
        """The steps that were taken in and their covariances, the last ones as they are in the window."""
        T, window = int(self.taken), self.window_steps.shape[0]
        left = slice(window - 1, T)
        return (
            np.concatenate([np.asarray(self.steps)[left], np.asarray(self.window_steps)[1:]]),
            np.concatenate([np.asarray(self.covariance)[left], np.asarray(self.window_covariance)[1:]]),
        )


@program
def lagged(model: EstimationModel, window: int, x: Float[Array, " nx"], data: StepData) -> Lagged:
    """Before the first step, which is near x."""
    T, columns = data.times.shape[0], model.columns
    state = begin(model, window, x, jax.tree.map(lambda leaf: leaf[0], data))
    return Lagged(
        state,
        jnp.zeros((T, x.shape[0])),
        jnp.zeros((T, columns, columns)),
        jax.tree.map(lambda leaf: jnp.full(T, leaf), Status.running),
        jnp.zeros((window, x.shape[0])),
        jnp.zeros((window, columns, columns)),
        jnp.asarray(0),
    )


@program
@one_kernel
def advanced(model: EstimationModel, at: Lagged, data: StepData, count: Int[Array, ""]) -> Lagged:
    """After the next `count` steps."""

    def advance(_, at):
        k = at.taken
        state, estimate = take_in(model, at.state, jax.tree.map(lambda leaf: leaf[k], data))
        covariance = model.covariances(estimate.marginals())
        left = estimate.steps[0], covariance[0], estimate.status
        seen = jax.tree.map(lambda all, one: all.at[k].set(one), at[1:4], left)
        return Lagged(state, *seen, estimate.steps, covariance, k + 1)

    return jax.lax.fori_loop(0, count, advance, at)
