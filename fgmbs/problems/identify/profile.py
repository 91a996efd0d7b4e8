"""Profile likelihood: what one parameter may be, all others answering to it."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from fgmbs.arguments import finite, nearest
from fgmbs.compiled.program import program
from fgmbs.errors import ArgumentError
from fgmbs.graph.time_graph import Unknowns
from fgmbs.problems.identify.free_runs.segments import PredictionProblem
from fgmbs.problems.identify.identifiability import quantile
from fgmbs.problems.identify.likeliest import held_problem, with_globals
from fgmbs.problems.identify.smoother import ENOUGH, corrected
from fgmbs.problems.smooth.beginning import SmoothingState, begun_at
from fgmbs.problems.smooth.iteration import to_the_end
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.solvers.limits import possible
from fgmbs.status import Status, is_one_of
from fgmbs.unknowns import Free

if TYPE_CHECKING:
    from fgmbs.problems.identify.result import Identification

_HELD = 1e-5
"""Standard deviation of the prior that holds the parameter, in its own: what it gives way changes nothing."""
_SMALL = 1e-6
"""The same relative to the size of a parameter of which nothing is told."""
_SIDE = 6
"""Values on each side of the best one …"""
_FARTHEST = 3.0
"""… up to so many standard deviations."""
_ITERATIONS = 30
_ENOUGH = 1e-9
"""Decrease of the cost that is not worth another look."""


@dataclasses.dataclass(frozen=True, eq=False)
class Profile:
    """How likely the values of one parameter are, the other parameters and the motion being the best with each."""

    name: str
    values: Float[np.ndarray, " values"]
    """Of the parameter, ascending; that which was found is among them [SI]."""
    deviance: Float[np.ndarray, " values"]
    """Twice by how much the logarithm of the likelihood (and of priors) is below its largest value; inf where the fit
    failed. It is 0 at another value than the one that was found where that one is likelier."""
    others: dict[str, Float[np.ndarray, " values"]]
    """The other parameters."""
    best: float
    """The value that was found."""
    bounds: tuple[float, float]
    """Between which the parameter may be."""

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Values whose deviance is below that quantile of χ² with one degree of freedom: the interval of the likelihood
        ratio. A side that the curve does not reach is that of the bound, or infinite if there is none.

        Raises:
            ArgumentError: The level is not between 0 and 1.
        """
        z = quantile(level)
        root, likeliest = np.sqrt(self.deviance), self.values[np.argmin(self.deviance)]
        return self._side(self.values <= likeliest, root, z, 0), self._side(self.values >= likeliest, root, z, 1)

    def _side(self, there, root, z: float, side: int) -> float:
        x, y = self.values[there], root[there]
        x, y = (x[::-1], y[::-1]) if side == 0 else (x, y)  # away from the likeliest value
        beyond = np.flatnonzero(y > z)
        if not beyond.size:
            return self.bounds[side]
        k = int(beyond[0])
        if not np.isfinite(y[k]):
            return float(x[k])
        # The root of the deviance is straight where the likelihood is normal.
        return float(x[k - 1] + (z - y[k - 1]) / (y[k] - y[k - 1]) * (x[k] - x[k - 1]))


def profile(fit: "Identification", name: str, values: Sequence[float] | None = None) -> Profile:
    """See `Identification.profile`."""
    if name not in fit.names:
        raise ArgumentError(f"name: there is no free number {name!r}{nearest(name, fit.names, 'free numbers')}")
    index = fit.names.index(name)
    low, high = (float(np.asarray(fit.free.values(bound))[index]) for bound in (fit.free.lower, fit.free.upper))
    best = float(fit.theta[index])
    thetas = _grid(fit, index) if values is None else _given(fit, index, values, (low, high))
    found: dict[float, tuple[float, np.ndarray]] = {}
    # Where θ was led far sizes of noise follow it.
    sized = fit.method == "smoother" and bool(np.any(fit.bend))
    problem, refit = (fit.problem, _led) if sized else (fit.solved[0], refitted)
    own_prior = problem.free
    center, sigma = float(own_prior.value[index]), float(own_prior.sigma[index])
    for side in (thetas[thetas <= best][::-1], thetas[thetas > best], np.array([best])):
        at = fit.solved[1]
        for theta in side:
            cost, at, status = refit(fit, index, theta, at)
            # The prior that holds it stands in the place of its own.
            own = (theta - center) / sigma
            found[float(theta)] = cost + 0.5 * own**2 if _fine(status, cost) else np.inf, _theta(at)
            if not _fine(status, cost):
                at = fit.solved[1]
    order = sorted(found)
    all_values = np.array([np.asarray(fit.free.values(jnp.asarray(found[theta][1]))) for theta in order])
    all_values[:, index] = [_value(fit.free, index, theta) for theta in order]
    cost = np.array([found[theta][0] for theta in order])
    return Profile(
        name,
        all_values[:, index],
        2 * (cost - np.min(cost, where=np.isfinite(cost), initial=np.finfo(float).max)),
        {other: all_values[:, k] for k, other in enumerate(fit.names) if k != index},
        _value(fit.free, index, best),
        (low, high),
    )


def _grid(fit: "Identification", index: int) -> Float[np.ndarray, " values"]:
    """Values of θ around the best one, within bounds."""
    std, best = float(fit.deviation_unbounded[index]), float(fit.theta[index])
    grid = best + std * np.linspace(-_FARTHEST, _FARTHEST, 2 * _SIDE + 1)
    low, high = float(fit.free.lower[index]), float(fit.free.upper[index])
    return np.unique(np.clip(grid, low, high))


def _given(fit: "Identification", index: int, values: Sequence[float], bounds: tuple[float, float]) -> np.ndarray:
    given = finite("values", values).ravel()
    if not given.size:
        raise ArgumentError("values: expected one number or more at which the parameter is held; found none")
    outside = given[(given < bounds[0]) | (given > bounds[1])]
    if outside.size:
        raise ArgumentError(
            f"values: expected numbers from {bounds[0]:g} to {bounds[1]:g}, its bounds; found {outside[0]:g}"
        )
    return np.unique(np.log(given) if fit.free.logs[index] else given)


def _value(free: Free, index: int, theta: float) -> float:
    return float(np.exp(theta)) if free.logs[index] else float(theta)


def _theta(at) -> np.ndarray:
    return np.asarray(at.x.globals if isinstance(at, SmoothingState) else at.globals)


def _fine(status: Status, cost: float) -> bool:
    return is_one_of(status, Status.converged) and bool(np.isfinite(cost))


def refitted(fit: "Identification", index: int, theta: float, at):
    """(cost, where it ended, status) with one of θ held at a value, from where another value ended.

    The programs are the same for all values. Of "smoother" forces are weighed, and sizes of noise are, as they were in
    the end of the fit; see also `_led`.
    """
    problem = fit.solved[0]
    held = _held(fit, problem.free, index, theta)
    if isinstance(problem, PredictionProblem):
        x = at._replace(globals=at.globals.at[index].set(theta))
        prediction = eqx.tree_at(lambda prediction: prediction.model.free, problem, held)
        x, cost, status = _predicted(prediction, x)
        return float(cost), x, status
    smoothing = eqx.tree_at(lambda problem: problem.free, problem, held)
    x = at.x._replace(globals=at.x.globals.at[index].set(theta))
    x, cost, status = _smoothed(smoothing, fit.solved[1], x)
    return float(cost), eqx.tree_at(lambda at: at.x, at, x), status


def _held(fit: "Identification", free: Free, index: int, theta: float) -> Free:
    """θ, one of which is held."""
    std = float(fit.deviation_unbounded[index])
    sigma = _HELD * std if np.isfinite(std) and std > 0 else _SMALL * max(abs(theta), 1.0)
    return eqx.tree_at(
        lambda free: (free.value, free.sigma, free.lower, free.upper),
        free,
        (
            free.value.at[index].set(theta),
            free.sigma.at[index].set(sigma),
            free.lower.at[index].set(theta),
            free.upper.at[index].set(theta),
        ),
    )


def _led(fit: "Identification", index: int, theta: float, at: SmoothingState):
    """(minus the logarithm of the likelihood, where it ended, status) with one of θ held at a value, the others and
    sizes of noise being led from where another value ended to where it is largest."""
    problem = eqx.tree_at(lambda problem: problem.free, fit.problem, _held(fit, fit.problem.free, index, theta))
    near = with_globals(at, at.x.globals.at[index].set(theta))
    first = held_problem(problem, near.x.globals)
    begun = eqx.tree_at(lambda at: at.search.logs, begun_at(first, near), at.search.logs)
    *_, begun = to_the_end(first, begun, enough=ENOUGH)
    end = corrected(problem, begun, lambda *_: None, first)
    return -end.likelihood, end.at, Status.iteration_limit if end.unsettled else end.at.status


@program
def _predicted(prediction: PredictionProblem, x: Unknowns):
    return _minimum(prediction, x)


@program
def _smoothed(problem: SmoothingProblem, at: SmoothingState, x: Unknowns):
    model = problem.model(at.search.logs, at.delays)
    data = problem.data(at.delays, at.first, at.behind, at.x.globals)
    return _minimum(model.graph(at.x, data), x)


def _minimum(graph, x: Unknowns):
    solver = LevenbergMarquardt(linear="sqrt", maxiter=_ITERATIONS, enough=_ENOUGH, damps_steps=False)
    if graph.free.limited:
        x = x._replace(globals=possible(graph, x.globals))
    x, state = solver.run(x, graph)
    return x, state.look.cost - state.predicted, state.status
