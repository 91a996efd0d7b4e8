"""Slopes of the likelihood by sizes of noise."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.problems.estimation.noise_sizes import SizeSearch
from fgmbs.problems.estimation.posterior import Survey
from fgmbs.problems.smooth.beginning import SmoothingState
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import resized


def size_slopes(problem: SmoothingProblem, at: SmoothingState, seen: Survey) -> Float[Array, " k"]:
    """Slopes, by the logarithms of sizes of noise, of minus the logarithm of the likelihood: those that the search for
    sizes would difference next.

    Args:
        problem: The problem.
        at: Its estimate.
        seen: What is seen there.
    """
    if not problem.sizes.size:
        return jnp.zeros(0)
    search = SizeSearch.of(problem.sizes)._replace(logs=at.search.logs, probe=jnp.zeros_like(at.search.probe))
    return resized(problem, eqx.tree_at(lambda at: at.search, at, search), seen).search.slopes[0]
