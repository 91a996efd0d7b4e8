"""How the slopes of the likelihood by sizes of noise change with parameters."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.graph.time_graph import Unknowns
from fgmbs.problems.estimation.noise_sizes import SizeSearch
from fgmbs.problems.estimation.posterior import Survey
from fgmbs.problems.smooth.beginning import SmoothingState
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import looked, moved_along, resized, surveyed


def size_slopes(problem: SmoothingProblem, at: SmoothingState, *, enough: float = 0.0) -> Float[np.ndarray, "p k"]:
    """Derivatives by θ of the slopes, by the logarithms of sizes of noise, of minus the logarithm of the likelihood.

    The motion moves along with θ, weights stay.

    Args:
        problem: The problem, with priors that hold θ.
        at: Its estimate.
        enough: As of `improved`.
    """
    ends, h = moved_along(problem, at)

    def slopes(x):
        there = eqx.tree_at(lambda at: at.look, at, looked(problem, at, x, enough=enough))
        return sloped(problem, there, x, surveyed(problem, there))

    slopes = np.array([slopes(x) for x in ends])
    return (slopes[0::2] - slopes[1::2]) / (2 * np.asarray(h)[:, None])


def sloped(problem: SmoothingProblem, at: SmoothingState, x: Unknowns, seen: Survey) -> Float[Array, " k"]:
    """These slopes by what is seen at x with the weights of an estimate: the search for sizes would difference them
    next."""
    search = SizeSearch.of(problem.sizes)._replace(logs=at.search.logs, probe=jnp.zeros_like(at.search.probe))
    return resized(problem, eqx.tree_at(lambda at: (at.x, at.search), at, (x, search)), seen).search.slopes[0]
