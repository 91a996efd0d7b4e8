"""Joint estimation of states and parameters: one arrow-shaped problem, from loose forces to tight ones."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import Interrupted
from fgmbs.problems.estimation.noise_sizes import SizeSearch
from fgmbs.problems.estimation.posterior import Survey
from fgmbs.problems.identify.identifiability import covariance_of, traded
from fgmbs.problems.identify.likeliest import (
    CORRECTIONS,
    FARTHEST,
    TOGETHER,
    WORSE,
    End,
    Probes,
    bent,
    beside,
    correction,
    held_problem,
    judged,
    leading_problem,
    leaning_of,
    leaning_problem,
    likelier,
    likelihood_of,
    met,
    reach_after,
    still_moved,
    with_globals,
)
from fgmbs.problems.smooth.beginning import SmoothingState, begun_at, begun_once
from fgmbs.problems.smooth.iteration import LOOSER, on_the_way, to_the_end
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import looked, lowered_rounds, resizing, resumed, seen_by, surveyed, volume_slope
from fgmbs.problems.smooth.slopes import size_slopes
from fgmbs.status import Status, is_one_of
from fgmbs.unknowns import Free

ENOUGH = 1e-6
"""Decrease of the cost that ends a round: √2 thousandths of a standard deviation."""
_WIDE = 1e6
"""Standard deviation of the prior of a parameter of which nothing is known, in units of what the data would tell of
it alone, were the motion known: it decides where the data say nothing, and nowhere else."""
_WIDEST_LOG = float(np.log(1e3))
"""The same of a logarithm, at most: a factor of a thousand."""
STILL = 1e8
"""Weight of what holds the motion while parameters are looked for along it, times the reach of the mechanism."""
ON_THE_WAY = 4
"""Rounds with looser forces, at most."""
_ASIDE = 0.05
"""Change of the logarithm of a size by which variances are differenced."""
_UNTOLD = 10.0
"""Variance of the logarithm of a size that the data do not tell."""

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
    bend: np.ndarray
    """How much more than by its information the likelihood of θ is bent where it was led far, sizes of noise following
    it; NaN where that was not found, see `Probes.bend`."""
    unsettled: str = ""
    """Why θ is not the most likely by itself; empty if it is."""
    ends: tuple[End, ...] = ()
    """Where each start led, this one too."""

    @classmethod
    def here(cls, problem: SmoothingProblem, at: SmoothingState) -> "Found":
        """What was found where a solution was left."""
        p = problem.free.size
        return cls(problem, at, surveyed(problem, at), problem, np.full(p, np.inf), np.zeros((p, p)))


def first_programs(problem: SmoothingProblem, *, ends: bool) -> Iterator[Callable[[], Any]]:
    """The programs of `first_found`, but for its first one, in the order in which they will be needed.

    Args:
        problem: The problem.
        ends: And those with which the smoother goes on from there.
    """
    loose, volume = _loosest(problem), ends and problem.free.size > 0
    return lowered_rounds(loose, begun_once.like(loose), enough=ENOUGH, volume=volume, ends=ends)


def _loosest(problem: SmoothingProblem) -> SmoothingProblem:
    """The problem with parameters that are held and large forces."""
    return held_problem(problem, problem.free.value).loosened(LOOSER[0])


def first_found(problem: SmoothingProblem, tell: Progress) -> tuple[SmoothingProblem, SmoothingState]:
    """(the problem with wide priors, a first motion and first parameters).

    The motion is that under forces that are large and parameters that are held: the sensors alone decide then, and a
    start however wrong does no harm. The parameters are those with which this motion needs the least forces, in which
    masses are linear.

    Args:
        problem: The problem.
        tell: See `identify`.

    Raises:
        Interrupted: Ctrl-C once the recordings were followed; `result` is what was reached.
    """
    loose = _loosest(problem)
    tell("following", 0, np.nan)
    at = jax.block_until_ready(begun_once(loose))
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
    weight = jax.device_put(np.asarray(STILL / np.max(np.asarray(problem.mechanism.reach))))
    first = along = begun_at(problem, at, sizes=False, held=weight)
    for round, along in enumerate(itertools.islice(to_the_end(problem, first, enough=ENOUGH), ON_THE_WAY)):
        tell("solving along the first motion", round, float(along.look.cost))
    if np.all(np.isfinite(along.x.globals)):
        at = eqx.tree_at(lambda at: at.x.globals, at, along.x.globals)
    return problem, at


def found_by_smoother(problem: SmoothingProblem, starts: Float[Array, "starts p"], tell: Progress) -> Found:
    """The most likely parameters, and the motion that is most likely with them.

    From a first motion and first parameters, while the forces become smaller step by step to their own size, which is
    found from the data where it is not given, to those that are most likely together; from there to the parameters that
    are most likely by themselves, over all motions. Where that does not lead to them, as forces that are larger than
    what the parameters do tell little of these, or where sizes of noise may explain the same, they are looked for from
    the given ones on, too. The likeliest are kept.

    Args:
        problem: The problem.
        starts: The given parameters, and rough ones, from which they are looked for whatever was found.
        tell: See `identify`.

    Raises:
        Interrupted: Ctrl-C; `result` is what was reached.
    """
    with compiled_ahead(lambda: first_programs(problem, ends=True), problem):
        problem, first = first_found(problem, tell)
        at, climbs = first, []
        try:
            count = 0
            for factor in (*on_the_way(problem), None):
                looser, last = problem if factor is None else problem.loosened(factor), factor is None
                rounds = to_the_end(looser, begun_at(looser, at, sizes=last), enough=ENOUGH)
                for at in itertools.islice(rounds, None if factor in (None, 1.0) else ON_THE_WAY):
                    tell("solving" if last else "solving with larger forces", count, float(at.look.cost))
                    count += 1
            climbs.append(corrected(problem, at, tell))
            climbs[0] = _bent_at(problem, climbs[0], tell)
            if problem.free.size and (len(starts) > 1 or not climbs[0].settled or climbs[0].traded(problem)):
                for theta in starts:
                    climbs.append(_from(theta, problem, first, tell, _best(climbs)))
            return likeliest(problem, climbs, tell)
        except KeyboardInterrupt:
            at = _best(climbs).at if climbs else at
            raise Interrupted("interrupted", Found.here(problem, at)) from None


class Climbed(NamedTuple):
    """Where corrections of θ led."""

    at: SmoothingState
    seen: Survey
    std: np.ndarray
    """Standard deviations of θ …"""
    leaning: np.ndarray
    """… and the slope by which priors lean there."""
    sized: bool
    """Whether sizes of noise were found with it."""
    unsettled: str
    """See `Found`."""
    bend: np.ndarray | None
    """See `Found`; None where it was not looked for yet."""

    @property
    def settled(self) -> bool:
        return is_one_of(self.at.status, Status.converged) and not self.unsettled

    def traded(self, problem: SmoothingProblem) -> bool:
        """See `fgmbs.problems.identify.identifiability.traded`."""
        theta, information = np.asarray(self.at.x.globals), np.asarray(self.seen.information)
        return self.sized and traded(problem.free, theta, information, self.bend)

    @property
    def likelihood(self) -> float:
        """Logarithm of the density of θ given the readings but for a constant; −∞ where nothing was found, or the
        slope of that is not known: a start is still where it was then."""
        led = is_one_of(self.at.status, Status.converged) and self.unsettled != TOGETHER
        return float(likelihood_of(self.seen)) if led else -np.inf

    def meets(self, at: SmoothingState, seen: Survey) -> bool:
        """Whether another search has come here."""
        here = self.at.x.globals, self.seen.information, self.likelihood
        return self.settled and bool(met(at.x.globals, likelihood_of(seen), *here))


def _best(climbs: Sequence[Climbed]) -> Climbed:
    """The likeliest, see `likelier`."""
    taken = lambda best, other: likelier(other.likelihood, other.settled, best.likelihood, best.settled)
    return functools.reduce(lambda best, other: other if taken(best, other) else best, climbs)


def _from(theta: Array, problem: SmoothingProblem, first: SmoothingState, tell: Progress, best: "Climbed") -> "Climbed":
    """The most likely parameters that are led to from these, along the likelihood of all motions."""
    held = held_problem(problem, theta)
    for at in to_the_end(held, begun_at(held, with_globals(first, theta)), enough=ENOUGH):
        tell("solving with first parameters", int(at.rounds), float(at.look.cost))
    return corrected(problem, at, tell, held, best)


def corrected(
    problem: SmoothingProblem,
    at: SmoothingState,
    tell: Progress,
    leaned: SmoothingProblem | None = None,
    best: Climbed | None = None,
) -> Climbed:
    """From the parameters that are most likely together with the motion to those that are most likely by themselves.

    The cost gets the slope of what it lacks, see `volume_slope`, as priors that lean, and is minimized again, until
    that slope is the one with which it was minimized. Where the data say nothing, nothing is corrected. What makes θ
    less likely is taken back, and θ led less far. Where it is led far sizes of noise are found again with it.

    Args:
        problem: The problem.
        at: Its solution, or …
        tell: See `identify`.
        leaned: … that of this, with other priors.
        best: The likeliest that was found before, if any: where it is met nothing else would be found.
    """
    p = problem.free.size
    if p == 0 or not is_one_of(at.status, Status.converged):
        return Climbed(at, surveyed(problem, at), np.ones(p), np.zeros(p), False, "", np.zeros((p, p)))
    leaned = problem if leaned is None else leaned
    leaning, bend = leaning_of(leaned.free, problem.free, at), np.zeros((p, p))
    unsettled, since, reach, sized, kept = "", int(at.iterations), FARTHEST, False, None
    rise = highest = gained = 0.0
    for count in range(CORRECTIONS + 1):
        better = is_one_of(at.status, Status.converged)
        if better:
            at, slope = volume_slope(problem, at, since, enough=ENOUGH)
            here = surveyed(problem, at)
            if kept is not None:
                was, seen, *by = kept
                moved, changed = np.asarray(at.x.globals) - was.x.globals, (slope - by[0], leaning - by[1])
                bend = bent(problem.free, bend, at.x.globals, seen.information, moved, *changed)
                gained = _gained(problem, (was, seen), (at, here))
                better = rise + gained >= highest - WORSE
        if better:
            rise, seen = rise + gained, here
            highest, kept = max(highest, rise), (at, seen, slope, leaning)
        else:
            gained, (at, seen, slope, leaning) = np.inf, kept
        reach = reach_after(better, reach)
        std, target, towards, left = correction(
            problem.free, at.x.globals, seen.information, slope, leaning, bend, reach
        )
        left = float(left)
        if not np.isfinite(left):
            unsettled = TOGETHER
            break
        sized, rough, arrived, stuck = judged(left, reach, gained, sized, bool(at.search.rough))
        if arrived or (best is not None and best.meets(at, seen)):
            break
        if count == CORRECTIONS or stuck:
            unsettled = still_moved(left)
            break
        before, since = at, int(at.iterations)
        leaned = leading_problem(problem, target, std, reach, towards)
        going = resizing(problem, at, rough) if sized else resumed(at)
        for after in to_the_end(leaned, going, enough=ENOUGH):
            tell("allowing for all motions", count, float(before.look.cost))
            at = after
        leaning = leaning_of(leaned.free, problem.free, at)
    return Climbed(at, seen, std, leaning, sized, unsettled, None if sized else np.zeros((p, p)))


def likeliest(problem: SmoothingProblem, climbs: Sequence[Climbed], tell: Progress) -> Found:
    """The likeliest of what was found, how sure it is, and what priors lean by there."""
    best, p = _bent_at(problem, _best(climbs), tell), problem.free.size
    at = best.at
    if p == 0 or not is_one_of(at.status, Status.converged):
        return Found.here(problem, at)
    leaned = leaning_problem(problem, at.x.globals, best.std, best.leaning) if np.any(best.leaning) else problem
    ends = tuple(End(np.asarray(one.at.x.globals), one.likelihood, one.settled) for one in climbs)
    return Found(problem, at, best.seen, leaned, degrees_of_freedom(problem, at), best.bend, best.unsettled, ends)


def _bent_at(problem: SmoothingProblem, end: Climbed, tell: Progress) -> Climbed:
    """With how the likelihood is bent there; the motion is found anew a little beside, and its weights."""
    if end.bend is not None:
        return end
    at, std, leaning = end.at, end.std, end.leaning
    probes = Probes.of(problem.free, at.x.globals, end.seen.information, _held(problem.sizes, at.search))
    differences = np.zeros((len(probes.moves), 2, len(probes.moves)))
    for count in np.flatnonzero(probes.kept):
        tell("seeing how sure they are", int(count), float(at.look.cost))
        ends = (_beside(problem, at, std, leaning, way * probes.moves[count]) for way in (1, -1))
        differences[count] = np.subtract(*ends)
    return end._replace(bend=probes.bend(differences[:, 0], differences[:, 1]))


def _beside(
    problem: SmoothingProblem, at: SmoothingState, std: np.ndarray, leaning: np.ndarray, move: np.ndarray
) -> np.ndarray:
    """[(θ, logarithms of sizes) a little beside an estimate, the slopes by them, or NaN]."""
    free = problem.free
    leaned, going = beside(problem, at, std, leaning, move)
    *_, there = to_the_end(leaned, going, enough=ENOUGH)
    leaning = leaning_of(leaned.free, free, there)
    converged = is_one_of(there.status, Status.converged)
    there, slope = volume_slope(problem, there, int(at.iterations), enough=ENOUGH)
    slopes = np.concatenate([slope - leaning, size_slopes(problem, there, surveyed(problem, there))])
    return np.stack([np.concatenate([there.x.globals, there.search.logs]), slopes if converged else np.nan * slopes])


def _gained(problem: SmoothingProblem, *ends: tuple[SmoothingState, Survey]) -> float:
    """How much likelier θ is at the second of two estimates, by the mean of the weights that belong to either: slopes
    are those with weights that stay."""
    (before, at_first), (after, at_last) = ends

    def crossed(weighed, other):
        weighed = eqx.tree_at(lambda at: at.search, weighed, other.search)
        look = looked(problem, weighed, other.x, enough=ENOUGH)
        return likelihood_of(surveyed(problem, eqx.tree_at(lambda at: at.look, weighed, look)))

    change = crossed(before, after) - likelihood_of(at_first) + likelihood_of(at_last) - crossed(after, before)
    return float(change) / 2


def degrees_of_freedom(problem: SmoothingProblem, at: SmoothingState) -> np.ndarray:
    """Of the variance v of each of θ: 2 v²/var(v) by Satterthwaite, v varying with the sizes of noise that were found.

    Infinite where none was found; at least 1.
    """
    k = at.search.logs.size
    if k == 0:
        return np.full(problem.free.size, np.inf)
    sizes = np.nan_to_num(np.asarray(_size_covariance(at.search)), nan=np.inf, posinf=_UNTOLD)

    def logs(change):
        aside = eqx.tree_at(lambda at: at.search.logs, at, jax.device_put(np.asarray(at.search.logs) + change))
        aside = seen_by(problem, aside, int(at.iterations), enough=ENOUGH)
        return np.log(np.maximum(np.diag(covariance_of(np.asarray(surveyed(problem, aside).information))), 1e-300))

    slopes = [(logs(step) - logs(-step)) / (2 * _ASIDE) for step in _ASIDE * np.eye(k)]
    variance = np.einsum("ip,ij,jp->p", slopes, sizes, slopes)
    return np.maximum(2 / np.maximum(variance, 1e-12), 1.0)


@program(**ONCE)
def _size_covariance(search: SizeSearch) -> Float[Array, "k k"]:
    return search.covariance()


@program(**ONCE)
def _held(sizes: Free, search: SizeSearch) -> Bool[Array, " k"]:
    return search.held(sizes)


def with_wide_priors(problem: SmoothingProblem, seen: Survey, xp: Any = np) -> SmoothingProblem:
    """The problem with priors for those parameters that have none, which count where the data say nothing."""
    free, influence = problem.free, xp.asarray(seen.influence)
    alone = xp.where(influence > 0, 1 / xp.maximum(influence, 1e-300), np.inf)
    own = xp.maximum(xp.abs(xp.asarray(free.value)), 1.0)
    wide = xp.minimum(_WIDE * alone, _WIDE * own)
    wide = xp.where(free.logs, xp.minimum(wide, _WIDEST_LOG), wide)
    sigma = xp.asarray(free.sigma)
    return eqx.tree_at(lambda p: p.free.sigma, problem, jax.device_put(xp.where(xp.isfinite(sigma), sigma, wide)))
