"""Joint estimation of states and parameters: one arrow-shaped problem, from loose forces to tight ones."""

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import Interrupted
from fgmbs.problems.estimation.noise_sizes import SizeSearch
from fgmbs.problems.estimation.posterior import Survey
from fgmbs.problems.identify.identifiability import covariance_of
from fgmbs.problems.smooth.beginning import SmoothingState, begun, begun_at
from fgmbs.problems.smooth.iteration import LOOSER, to_the_end
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import lowered_rounds, resumed, seen_by, surveyed, volume_slope
from fgmbs.status import Status
from fgmbs.unknowns import Free

ENOUGH = 1e-6
"""Decrease of the cost that ends a round: √2 thousandths of a standard deviation."""
HELD = 1e-6
"""Standard deviation of the priors by which parameters are held while the first motion is found."""
_WIDE = 1e6
"""Standard deviation of the prior of a parameter of which nothing is known, in units of what the data would tell of
it alone, were the motion known: it decides where the data say nothing, and nowhere else."""
_WIDEST_LOG = float(np.log(1e3))
"""The same of a logarithm, at most: a factor of a thousand."""
STILL = 1e8
"""Weight of what holds the motion while parameters are looked for along it, times the reach of the mechanism."""
ON_THE_WAY = 4
"""Rounds with looser forces, at most."""
CORRECTIONS = 20
"""Times that θ is corrected by what the most likely motion leaves out, at most …"""
CORRECTED = 0.01
"""… and the correction still to come, in standard deviations, that is not worth another."""
FARTHEST, NEARER = 4.0, 4.0
"""Standard deviations by which θ is corrected at once, at most, and how many times less than that, held by priors that
are as much narrower, after a correction that made it less likely."""
WORSE = 0.1
"""Decrease of the logarithm of its likelihood that rounding and weights may make."""
_ASIDE = 0.05
"""Change of the logarithm of a size by which variances are differenced."""
_UNTOLD = 10.0
"""Variance of the logarithm of a size that the data do not tell."""
TOGETHER = "parameters are those that are most likely together with the motion, not by themselves"
_LEAN = 30.0
"""Standard deviation of the priors that lean θ towards its correction, in units of its own: they hold it by as much as
the square of that is large."""

Progress: TypeAlias = Callable[[str, int, float], None]


class Found(eqx.Module):
    """Where the joint estimation ended."""

    problem: SmoothingProblem
    """With the wide priors that parameters without one were given."""
    at: SmoothingState
    survey: Survey
    leaned: SmoothingProblem
    """With priors that lean: the one of which the cost is least where it ended."""
    degrees_of_freedom: np.ndarray
    """Of each of θ."""
    unsettled: str = ""
    """Why θ is not the most likely by itself; empty if it is."""

    @classmethod
    def here(cls, problem: SmoothingProblem, at: SmoothingState) -> "Found":
        """What was found where a solution was left."""
        return cls(problem, at, surveyed(problem, at), problem, np.full(problem.free.size, np.inf))


def first_found(problem: SmoothingProblem, tell: Progress, *, ends: bool) -> tuple[SmoothingProblem, SmoothingState]:
    """(the problem with wide priors, a first motion and first parameters).

    The motion is that under forces that are large and parameters that are held: the sensors alone decide then, and a
    start however wrong does no harm. The parameters are those with which this motion needs the least forces, in which
    masses are linear.

    Args:
        problem: The problem.
        tell: See `identify`.
        ends: The smoother goes on from there: the programs that it needs then are compiled beside the others.

    Raises:
        Interrupted: Ctrl-C once the recordings were followed; `result` is what was reached.
    """
    held = eqx.tree_at(lambda p: p.free.sigma, problem, jnp.minimum(problem.free.sigma, HELD))
    loose = held.loosened(LOOSER[0])
    tell("following", 0, np.nan)
    options = dict(enough=ENOUGH, volume=ends and problem.free.size > 0, ends=ends)
    with compiled_ahead(lambda: lowered_rounds(loose, **options), loose):
        at = jax.block_until_ready(begun(loose))
    try:
        return _first_found(problem, loose, at, tell)
    except KeyboardInterrupt:
        raise Interrupted("interrupted", Found.here(problem, at)) from None


def _first_found(
    problem: SmoothingProblem, loose: SmoothingProblem, at: SmoothingState, tell: Progress
) -> tuple[SmoothingProblem, SmoothingState]:
    """The same from where the recordings were followed to, by a problem with large forces and parameters held."""
    *_, at = itertools.islice(to_the_end(loose, begun_at(loose, at, sizes=False), enough=ENOUGH), ON_THE_WAY)
    problem = with_wide_priors(problem, surveyed(loose, at))
    weight = jax.device_put(np.asarray(STILL / np.max(problem.mechanism.reach)))
    first = along = begun_at(problem, at, sizes=False, held=weight)
    for round, along in enumerate(itertools.islice(to_the_end(problem, first, enough=ENOUGH), ON_THE_WAY)):
        tell("solving along the first motion", round, float(along.look.cost))
    if np.all(np.isfinite(along.x.globals)):
        at = eqx.tree_at(lambda at: at.x.globals, at, along.x.globals)
    return problem, at


def found_by_smoother(problem: SmoothingProblem, tell: Progress) -> Found:
    """The most likely parameters, and the motion that is most likely with them.

    From a first motion and first parameters, while the forces become smaller step by step to their own size, which is
    found from the data where it is not given, to those that are most likely together; from there to the parameters that
    are most likely by themselves, over all motions.

    Raises:
        Interrupted: Ctrl-C; `result` is what was reached.
    """
    problem, at = first_found(problem, tell, ends=True)
    try:
        count = 0
        for factor in (*LOOSER, 1.0):
            looser = problem.loosened(factor) if factor != 1.0 else problem
            last = factor == 1.0
            rounds = to_the_end(looser, begun_at(looser, at, sizes=last), enough=ENOUGH)
            for at in rounds if last else itertools.islice(rounds, ON_THE_WAY):
                tell("solving" if last else "solving with larger forces", count, float(at.look.cost))
                count += 1
        return corrected(problem, at, tell)
    except KeyboardInterrupt:
        raise Interrupted("interrupted", Found.here(problem, at)) from None


def corrected(problem: SmoothingProblem, at: SmoothingState, tell: Progress) -> Found:
    """From the parameters that are most likely together with the motion to those that are most likely by themselves.

    The cost gets the slope of what it lacks, see `volume_slope`, as priors that lean, and is minimized again, until
    that slope is the one with which it was minimized. Where the data say nothing, nothing is corrected. What makes θ
    less likely is taken back, and θ led less far.
    """
    p = problem.free.size
    if p == 0 or at.status != Status.converged:
        return Found.here(problem, at)
    unsettled, leaning, moved, since = "", np.zeros(p), np.zeros(p), int(at.iterations)
    reach, least, kept = FARTHEST, np.inf, None
    for count in range(CORRECTIONS + 1):
        at, slope, unlikely = volume_slope(problem, at, since, enough=ENOUGH)
        if kept is not None and not unlikely <= least + WORSE:
            reach, (at, seen, slope, leaning, moved) = reach / NEARER, kept
        else:
            least, seen = min(least, unlikely), surveyed(problem, at)
            kept = at, seen, slope, leaning, moved
        std, towards, left = correction(problem.free, at, seen.information, slope, leaning, moved, count, reach)
        left = float(left)
        if not np.isfinite(left):
            unsettled = TOGETHER
            break
        if left < CORRECTED:
            break
        if count == CORRECTIONS:
            unsettled = still_moved(left)
            break
        before, since = at, int(at.iterations)
        leaned = leaning_problem(problem, at, std * reach / FARTHEST, towards)
        for after in to_the_end(leaned, resumed(before), enough=ENOUGH):
            tell("allowing for all motions", count, float(before.look.cost))
            at = after
        if at.status != Status.converged:
            at, unsettled = before, still_moved(left) if count else TOGETHER
            break
        moved, leaning = np.asarray(at.x.globals - before.x.globals), leaning_of(leaned.free, problem.free, at)
    leaned = leaning_problem(problem, at, std, leaning) if np.any(leaning) else problem
    return Found(problem, at, seen, leaned, degrees_of_freedom(problem, at), unsettled)


def correction(free: Free, at: SmoothingState, information, slope, leaning, moved, count, reach, xp: Any = np):
    """(standard deviations of θ, the slope to lean by now, how far θ is from where it leads in these).

    Args:
        free: θ.
        at: Where the cost is least with priors that lean …
        information: … and the information of θ there, without these.
        slope: What the cost lacks.
        leaning: The slope by which its priors lean.
        moved: How θ moved by that.
        count: Corrections that were made before.
        reach: How far θ may be led at once.
        xp: NumPy; in compiled functions jax.numpy.
    """
    theta, sigma = xp.asarray(at.x.globals), xp.asarray(free.sigma)
    covariance = covariance_of(xp.asarray(information), xp)
    std = xp.sqrt(xp.maximum(xp.diag(covariance), np.finfo(float).tiny))
    lacking = slope - covariance @ slope / sigma**2
    held = (theta <= xp.asarray(free.lower)) | (theta >= xp.asarray(free.upper))
    left = xp.max(xp.abs(xp.where(held, 0.0, covariance @ xp.where(held, 0.0, lacking - leaning))) / std)
    # Corrections that go to and fro meet halfway.
    fro = (count > 1) & ((covariance @ (lacking - leaning)) @ (moved / std**2) > 0)
    left = xp.where(xp.all(xp.isfinite(lacking)), left, np.nan)
    part = xp.minimum(xp.where(fro, 0.5, 1.0), reach / xp.where(left > 0, left, 1.0))
    return std, leaning + part * (lacking - leaning), left


def degrees_of_freedom(problem: SmoothingProblem, at: SmoothingState) -> np.ndarray:
    """Of the variance v of each of θ: 2 v²/var(v) by Satterthwaite, v varying with the sizes of noise that were found.

    Infinite where none was found; at least 1.
    """
    k = at.search.logs.size
    if k == 0:
        return np.full(problem.free.size, np.inf)
    sizes = np.nan_to_num(np.asarray(_size_covariance(at.search)), nan=np.inf, posinf=_UNTOLD)

    def logs(change):
        aside = eqx.tree_at(lambda at: at.search.logs, at, at.search.logs + change)
        aside = seen_by(problem, aside, int(at.iterations), enough=ENOUGH)
        return np.log(np.maximum(np.diag(covariance_of(np.asarray(surveyed(problem, aside).information))), 1e-300))

    slopes = [(logs(step) - logs(-step)) / (2 * _ASIDE) for step in _ASIDE * np.eye(k)]
    variance = np.einsum("ip,ij,jp->p", slopes, sizes, slopes)
    return np.maximum(2 / np.maximum(variance, 1e-12), 1.0)


@program(**ONCE)
def _size_covariance(search: SizeSearch) -> Float[Array, "k k"]:
    return search.covariance()


def leaning_problem(
    problem: SmoothingProblem, at: SmoothingState, std: Any, slope: Any, xp: Any = np
) -> SmoothingProblem:
    """The problem with priors that have this slope more than its own at θ, and hardly more curvature."""
    free, theta = problem.free, xp.asarray(at.x.globals)
    own = xp.asarray(free.sigma)
    sigma = xp.minimum(own, _LEAN * std)
    value = theta - sigma**2 * ((theta - xp.asarray(free.value)) / own**2 + slope)
    return eqx.tree_at(lambda p: (p.free.value, p.free.sigma), problem, (jnp.asarray(value), jnp.asarray(sigma)))


def leaning_of(leaned: Free, own: Free, at: SmoothingState, xp: Any = np) -> Any:
    """The slope that priors that lean have more than one's own at θ."""
    slope = lambda free: (xp.asarray(at.x.globals) - xp.asarray(free.value)) / xp.asarray(free.sigma) ** 2
    return slope(leaned) - slope(own)


def with_wide_priors(problem: SmoothingProblem, seen: Survey, xp: Any = np) -> SmoothingProblem:
    """The problem with priors for those parameters that have none, which count where the data say nothing."""
    free, influence = problem.free, xp.asarray(seen.influence)
    alone = xp.where(influence > 0, 1 / xp.maximum(influence, 1e-300), np.inf)
    own = xp.maximum(xp.abs(xp.asarray(free.value)), 1.0)
    wide = xp.minimum(_WIDE * alone, _WIDE * own)
    wide = xp.where(free.logs, xp.minimum(wide, _WIDEST_LOG), wide)
    sigma = xp.asarray(free.sigma)
    return eqx.tree_at(lambda p: p.free.sigma, problem, jax.device_put(xp.where(xp.isfinite(sigma), sigma, wide)))


def still_moved(left: float) -> str:
    return f"θ still moved by {left:.2g} standard deviations when its likelihood was allowed for"
