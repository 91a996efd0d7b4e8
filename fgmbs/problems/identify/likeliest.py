"""Steps to the parameters that are most likely by themselves, over all motions."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fgmbs.compiled.program import ONCE, program
from fgmbs.linear.bounds import bounded_least_squares
from fgmbs.problems.estimation.posterior import Survey
from fgmbs.problems.identify.identifiability import covariance_of
from fgmbs.problems.smooth.beginning import SmoothingState
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import resumed
from fgmbs.unknowns import Free

CORRECTIONS = 30
"""Times that θ is corrected by what the most likely motion leaves out, at most."""
FARTHEST = 4.0
"""Standard deviations by which θ is corrected at once, at most."""
WORSE = 0.1
"""Decrease of the logarithm of the likelihood of θ that rounding may make."""
TOGETHER = "parameters are those that are most likely together with the motion, not by themselves"
_HELD = 1e-6
"""Standard deviation of the priors by which parameters are held."""
_CORRECTED = 0.01
"""Standard deviations by which θ is not worth another correction."""
_SIZED = 1.0
"""Standard deviations by which θ is corrected, beyond which the sizes of noise are found again with it."""
_ROUGH = 0.1
"""The same beyond which these sizes are found roughly: by a hundredth, which moves θ by less."""
_GAINED = 5e-3
"""Increase of the logarithm of its likelihood by a correction, after which there is no other then: a tenth of a
standard deviation."""
_NEARER, _FARTHER = 4.0, 2.0
"""How many times less far θ is led, held by priors that are as much narrower, after a correction that made it less
likely, and how many times farther after another."""
_LED, _LEANT = 0.3, 30.0
"""Standard deviations, in units of those of θ, of priors that lead it, and of those that lean at what was found: these
hold it by the square of that less than the data do."""
_FLATTEST = -0.95
"""Curvature of what the cost lacks, relative to that of the cost, below which it is not believed."""
_BY_PRIORS = 0.9
"""Share of the information of a way of θ that is of priors, beyond which it is not looked how the data bend it."""
_PROBED = 0.1
"""Standard deviations of θ by which it is moved to difference the slopes of its likelihood."""
_ASIDE = 0.02
"""Change of the logarithm of a size by which they are."""
_UNTOLD = 1e-6
"""Information of sizes of noise, relative to the largest, that is as good as none."""
_ONE = 0.5
"""Standard deviations within which two ends of searches are one maximum, and difference of the logarithms of their
likelihoods."""
_PARALLEL = 1e-6
"""Cosine of the angle between a step and what is not known of its curvature, below which this is not told by it."""


class End(NamedTuple):
    """Where a start led."""

    theta: np.ndarray
    likelihood: float
    """Logarithm of the density of θ given the readings but for a constant; −∞ where it led to nothing."""
    settled: bool
    """Whether it arrived there."""


@dataclasses.dataclass(frozen=True)
class Maximum:
    """Parameters to which starts led."""

    parameters: dict[str, float]
    """By name [SI]."""
    log_likelihood: float
    """Logarithm of the density of the readings, as `Identification.profiled_log_likelihood`."""
    starts: int
    """How many led there."""
    settled: bool
    """Whether one arrived there; else it was left on the way."""


def maxima(
    ends: Iterable[End], theta: np.ndarray, deviations: np.ndarray, named: Callable[[np.ndarray], dict[str, float]]
) -> list[Maximum]:
    """Where starts led, those within half a standard deviation of one another being one, the likeliest first.

    Args:
        ends: Where each led.
        theta: What was taken of them: the first one.
        deviations: Standard deviations of θ there.
        named: Parameters by name, of θ.
    """
    found: list[list[End]] = []
    taken = lambda end: np.array_equal(end.theta, theta)
    for end in sorted(ends, key=lambda end: (not taken(end), -end.likelihood)):
        near = (one for one in found if np.all(np.abs(end.theta - one[0].theta) <= _ONE * deviations))
        one = next(near, None)
        found.append([end]) if one is None else one.append(end)
    return [Maximum(named(one[0].theta), one[0].likelihood, len(one), any(end.settled for end in one)) for one in found]


def likelihood_of(seen: Survey, xp: Any = np) -> Any:
    """Logarithm of the density of θ given the readings but for a constant."""
    return xp.asarray(seen.log_likelihood) + 0.5 * xp.linalg.slogdet(xp.asarray(seen.information))[1]


def held_problem(problem: SmoothingProblem, theta: Array) -> SmoothingProblem:
    """The problem with priors that hold θ there."""
    tight = jnp.minimum(problem.free.sigma, _HELD)
    return eqx.tree_at(lambda p: (p.free.value, p.free.sigma), problem, (theta, tight))


def with_globals(at: SmoothingState, theta: Array) -> SmoothingState:
    return eqx.tree_at(lambda at: at.x.globals, at, theta)


def correction(free: Free, theta, information, slope, leaning, bend, reach, xp: Any = np):
    """(standard deviations of θ, where to lead it, the slope to lean by there, how far it is in these).

    A step of Newton's method towards where the slope that the cost lacks is the one with which it was minimized, within
    the bounds of θ.

    Args:
        free: The numbers that are looked for.
        theta: θ, where the cost is least with priors that lean …
        information: … and the information of θ there, without these.
        slope: What the cost lacks …
        bend: … and its derivative, as far as it is known.
        leaning: The slope by which its priors lean.
        reach: How far θ may be led at once.
        xp: NumPy; in compiled functions jax.numpy.
    """
    theta, lower, upper = (xp.asarray(of) for of in (theta, free.lower, free.upper))
    low, high = theta <= lower, theta >= upper
    held = low | high
    lacking = _told_by_data(free, information, slope, xp)
    rest = lacking - leaning
    ways, bends, std = _ways_and_bends(held, information, bend, xp)
    ways = ways / xp.sqrt(1 + xp.maximum(bends, _FLATTEST))
    pull = -(ways.T @ xp.where(held, 0.0, rest))
    left = _least(ways, pull, lower - theta, upper - theta, xp)
    leaves = xp.where(low, -rest, xp.where(high, rest, 0.0))
    left = xp.max(xp.maximum(xp.abs(left) / std, xp.maximum(leaves, 0.0) * std))
    left = xp.where(xp.all(xp.isfinite(lacking)), left, np.nan)
    near, far = xp.maximum(lower - theta, -reach * std), xp.minimum(upper - theta, reach * std)
    step = _least(ways, pull, near, far, xp)
    target = xp.clip(theta + step, lower, upper)
    bound = held | (target <= lower) | (target >= upper)
    return std, target, xp.where(bound, lacking, leaning - xp.asarray(information) @ step), left


class Probes(NamedTuple):
    """Beside an estimate, to difference the slopes of the likelihood by θ and by sizes of noise."""

    ways: Array | np.ndarray
    """Columns along which θ moves by one standard deviation, independently of one another."""
    kept: Array | np.ndarray
    """Which of these, and of the sizes, are looked at: not what is at a bound, nor what the data do not tell."""
    moves: Array | np.ndarray
    """By how much (θ, logarithms of sizes) are moved to either side, one row after another; not at all along what is
    not looked at."""

    @classmethod
    def of(cls, free: Free, theta, information, held, xp: Any = np) -> "Probes":
        """Those about θ.

        Args:
            free: The numbers that are looked for.
            theta: θ, as it was found.
            information: Of it there.
            held: Which sizes of noise are at a bound.
            xp: See `correction`.
        """
        theta, lower, upper = (xp.asarray(of) for of in (theta, free.lower, free.upper))
        at_bound, held = (theta <= lower) | (theta >= upper), xp.asarray(held)
        ways, _, std = _ways_and_bends(at_bound, information, xp.zeros((free.size, free.size)), xp)
        by_priors = xp.sum((ways / xp.asarray(free.sigma)[:, None]) ** 2, axis=0)
        stays = xp.sum(xp.where(at_bound, 1.0, 0.0)[:, None] * (ways / std[:, None]) ** 2, axis=0)
        told = (by_priors < _BY_PRIORS) & (stays < np.finfo(float).eps)
        moves = xp.where(told[:, None] & ~at_bound, _PROBED * ways.T, 0.0)
        aside, beside = xp.where(held[:, None], 0.0, _ASIDE * xp.eye(held.size)), xp.zeros((free.size, held.size))
        moves = xp.concatenate([xp.concatenate([moves, beside], 1), xp.concatenate([beside.T, aside], 1)])
        return cls(ways, xp.concatenate([told, ~held]), moves)

    def bend(self, moved, changed, xp: Any = np):
        """How much more than by its information the likelihood of θ is bent, sizes of noise following it, as far as
        that is believed. It may be less, as large masses do what small ones do under forces that are as much smaller.

        Args:
            moved: How (θ, logarithms of sizes) differ from one side of the estimate to the other, row by row …
            changed: … and how the slopes by them do.
            xp: See `correction`.

        Returns:
            NaN where a slope is not finite.
        """
        p, kept = len(self.ways), self.kept[:, None] & self.kept
        back, own = xp.linalg.inv(self.ways), xp.eye(self.kept.size)
        moved = xp.concatenate([moved[:, :p] @ back.T, moved[:, p:]], 1)
        changed = xp.concatenate([changed[:, :p] @ self.ways, changed[:, p:]], 1)
        moved, changed = xp.where(kept, moved, own), xp.where(kept, changed, own)
        known = xp.all(xp.isfinite(moved) & xp.isfinite(changed))
        J = (xp.linalg.pinv(xp.where(known, moved, own)) @ xp.where(known, changed, own)).T
        # Weights that change with θ are not in the slopes, which need not be those of one function: only their zeros
        # count.
        if len(J) > p:
            J = J[:p, :p] - J[:p, p:] @ xp.linalg.pinv(J[p:, p:], _UNTOLD) @ J[p:, :p]
        bends, turned = xp.linalg.eigh((J + J.T) / 2 - xp.eye(p))
        back = turned.T @ back
        return xp.where(known, back.T @ (xp.maximum(bends, _FLATTEST)[:, None] * back), np.nan)


def _least(ways, pull, lower, upper, xp: Any):
    """The step x within bounds for which ‖ways⁻¹ x − pull‖ is least."""
    if xp is np:
        step = ways @ pull
        if not np.all(np.isfinite(step)) or np.all((step >= lower) & (step <= upper)):
            return step
        return np.asarray(_bounded(np.linalg.inv(ways), pull, lower, upper))
    return bounded_least_squares(jnp.linalg.inv(ways), pull, lower, upper)


_bounded = program(**ONCE)(bounded_least_squares)


def bent(free: Free, bend, theta, information, moved, changed, leant, xp: Any = np):
    """The derivative of the slope that the cost lacks, by what is known of it and of its change (symmetric rank one).

    What the slope of the cost itself changes besides its information, as by other sizes of noise, is counted there.

    Args:
        free: The numbers that are looked for.
        bend: What was known.
        theta: θ, where the slope was looked at.
        information: Of θ, where it was looked at before.
        moved: How θ moved since …
        changed: … and that slope …
        leant: … and the one by which priors lean, minus that of the cost.
        xp: See `correction`.
    """
    theta, moved, information = (xp.asarray(of) for of in (theta, moved, information))
    held = (theta <= xp.asarray(free.lower)) | (theta >= xp.asarray(free.upper))
    changed = _told_by_data(free, information, changed, xp) - xp.where(held, 0.0, leant + information @ moved)
    rest = changed - bend @ moved
    by, (ways, _) = rest @ moved, _ways_of_one(information, xp)
    sizes = xp.sqrt(moved @ information @ moved) * xp.sqrt(xp.sum((ways.T @ rest) ** 2))
    known = xp.abs(by) > _PARALLEL * sizes
    return bend + xp.where(known, 1.0, 0.0) * xp.outer(rest, rest) / xp.where(known, by, 1.0)


def _told_by_data(free: Free, information, slope, xp: Any):
    """Of a slope by θ what data tell: nothing where only priors do."""
    return slope - covariance_of(xp.asarray(information), xp) @ slope / xp.asarray(free.sigma) ** 2


def _ways_and_bends(held, information, bend, xp: Any):
    """(columns along which θ moves by one standard deviation, how much more each of them is bent, standard deviations),
    of numbers that are held each for itself."""
    # A number on a bound stays for now: how far the cost falls away from it is not known.
    information = xp.asarray(information)
    apart = lambda matrix: xp.where(held[:, None] | held, 0.0, matrix)
    own = xp.diag(xp.where(held, xp.diag(information), 0.0))
    ways, std = _ways_of_one(apart(information) + own, xp)
    bends, turned = xp.linalg.eigh(ways.T @ apart(bend) @ ways)
    return ways @ turned, bends, std


def _ways_of_one(information, xp: Any):
    """(columns along which θ moves by one standard deviation, independently of one another, standard deviations)."""
    covariance = covariance_of(information, xp)
    std = xp.sqrt(xp.maximum(xp.diag(covariance), np.finfo(float).tiny))
    variances, turned = xp.linalg.eigh(covariance / xp.outer(std, std))
    return std[:, None] * turned * xp.sqrt(xp.maximum(variances, np.finfo(float).eps)), std


def reach_after(better, reach, xp: Any = np):
    """How far θ may be led after a correction that made it likelier or not."""
    return xp.where(better, xp.minimum(FARTHEST, reach * _FARTHER), reach / _NEARER)


def judged(left, reach, gained, sized, rough, xp: Any = np):
    """(whether sizes of noise are found with θ from here on, whether roughly, whether θ has arrived, whether it gets no
    nearer).

    Args:
        left: How far it is, in standard deviations.
        reach: How far it may be led.
        gained: What the last correction made the logarithm of its likelihood larger by; infinite if it was taken back.
        sized: Whether sizes of noise were found with it before …
        rough: … and roughly: θ has not arrived then.
        xp: See `correction`.
    """
    sized = sized | (left > _SIZED)
    enough = sized & (left < xp.minimum(_SIZED, reach)) & (gained < _GAINED)
    arrived = ((left < _CORRECTED) | enough) & xp.logical_not(rough)
    return sized, left > _ROUGH, arrived, reach < _CORRECTED


def leading_problem(
    problem: SmoothingProblem, theta: Any, std: Any, reach: Any, slope: Any, xp: Any = np
) -> SmoothingProblem:
    """The problem with priors that lead θ there and have this slope more than its own then.

    Args:
        problem: The problem.
        theta: Where to.
        std: Standard deviations of θ.
        reach: How far it may be led: the less, the narrower these priors.
        slope: The slope.
        xp: See `correction`.
    """
    return _with_slope(problem, theta, _LED * std * reach / FARTHEST, slope, xp)


def leaning_problem(problem: SmoothingProblem, theta: Any, std: Any, slope: Any, xp: Any = np) -> SmoothingProblem:
    """The problem with priors that have this slope more than its own at θ, and hardly more curvature."""
    return _with_slope(problem, theta, _LEANT * std, slope, xp)


def _with_slope(problem: SmoothingProblem, theta: Any, sigma: Any, slope: Any, xp: Any) -> SmoothingProblem:
    free, theta = problem.free, xp.asarray(theta)
    own = xp.asarray(free.sigma)
    sigma = xp.minimum(own, sigma)
    value = theta - sigma**2 * ((theta - xp.asarray(free.value)) / own**2 + slope)
    return eqx.tree_at(lambda p: (p.free.value, p.free.sigma), problem, (jnp.asarray(value), jnp.asarray(sigma)))


def leaning_of(leaned: Free, own: Free, at: SmoothingState, xp: Any = np) -> Any:
    """The slope that priors that lean have more than one's own at θ."""
    slope = lambda free: (xp.asarray(at.x.globals) - xp.asarray(free.value)) / xp.asarray(free.sigma) ** 2
    return slope(leaned) - slope(own)


def beside(
    problem: SmoothingProblem, at: SmoothingState, std: Any, leaning: Any, move: Any, xp: Any = np
) -> tuple[SmoothingProblem, SmoothingState]:
    """(the problem with priors that lead θ a little beside an estimate, that with sizes of noise a little beside).

    Args:
        problem: The problem.
        at: The estimate.
        std: Standard deviations of θ …
        leaning: … and the slope by which its priors lean there.
        move: By how much (θ, logarithms of sizes) are moved.
        xp: See `correction`.
    """
    free = problem.free
    theta = xp.asarray(at.x.globals) + move[: free.size]
    target = xp.clip(theta, xp.asarray(free.lower), xp.asarray(free.upper))
    going = eqx.tree_at(lambda at: at.search.logs, resumed(at), at.search.logs + move[free.size :])
    return leading_problem(problem, target, std, 1.0, leaning, xp), going


def likelier(likelihood: Any, settled: Any, than: Any, than_settled: Any, xp: Any = np) -> Any:
    """Whether one end of a search is taken for another: of those that are as likely, to what rounding makes, the one
    that arrived, or else the other.

    Args:
        likelihood: Logarithm of the likelihood at the one …
        settled: … and whether it arrived.
        than: Of the other …
        than_settled: … and whether it did.
        xp: See `correction`.
    """
    return likelihood > than + WORSE * xp.where(than_settled, 1.0, xp.where(settled, -1.0, 0.0))


def met(theta: Any, likelihood: Any, end: Any, information: Any, likeliest: Any, xp: Any = np) -> Any:
    """Whether a search has come so near to where another ended that it would end there, too.

    Args:
        theta: Where it is …
        likelihood: … and the logarithm of the likelihood there.
        end: Where the other ended …
        information: … the information there …
        likeliest: … and the logarithm of the likelihood.
        xp: See `correction`.
    """
    away, gain = xp.asarray(theta) - xp.asarray(end), likelihood - likeliest
    return (away @ xp.asarray(information) @ away < _ONE**2) & (gain > -_ONE) & (gain < WORSE)


def still_moved(left: float) -> str:
    return f"θ still moved by {left:.2g} standard deviations when its likelihood was allowed for"
