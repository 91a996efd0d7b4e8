"""Identification by the smoother as a pure function of arrays: what `found_by_smoother` does, in one program."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from fgmbs.compiled.ahead import like
from fgmbs.compiled.tracing import while_loop
from fgmbs.errors import ArgumentError
from fgmbs.graph.recordings import JointGraph
from fgmbs.graph.time_graph import TimeGraph
from fgmbs.problems.estimation.likelihood import slope_of_volume
from fgmbs.problems.estimation.posterior import Survey, survey
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
from fgmbs.problems.identify.smoother import (
    ENOUGH,
    ON_THE_WAY,
    STILL,
    Found,
    degrees_of_freedom,
    with_wide_priors,
)
from fgmbs.problems.smooth.beginning import SmoothingState, begun, begun_at, model_and_data
from fgmbs.problems.smooth.iteration import LOOSER, on_the_way
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import improved, resized, resizing, resumed, surveyed
from fgmbs.problems.smooth.slopes import size_slopes
from fgmbs.problems.solving import solve
from fgmbs.status import Status
from fgmbs.typing import Scalar

_ENDLESS = 2**31 - 1
_priors = lambda problem: (problem.free.value, problem.free.sigma)


class IdentificationProblem(eqx.Module):
    """What `identify` solves by the method "smoother": a pytree of everything that parameters depend on, made by
    `prepare_identify`.

    Other numbers in its place, of the same shapes, are another problem of the same compiled program.
    """

    smoothing: SmoothingProblem
    """Whose θ is looked for."""
    starts: Float[Array, "starts p"]
    """From where: as it is given, and what else is tried."""


class Identified(eqx.Module):
    """What `solve` finds of an `IdentificationProblem`, as arrays; `finish` puts it into words."""

    theta: Float[Array, " p"]
    """Of numbers that are positive by `log`, the logarithm."""
    information: Float[Array, "p p"]
    """Inverse of the covariance of θ, priors included."""
    wide: Float[Array, " p"]
    """Standard deviations of the priors of θ, of parameters without one, too …"""
    leaned: tuple[Float[Array, " p"], Float[Array, " p"]]
    """… and the priors that lean, of which the cost is least at θ: (centre, standard deviation)."""
    left: Scalar
    """How far θ still is from the most likely one by itself, in standard deviations: 0 where it arrived, nan if it was
    not led there."""
    bend: Float[Array, "p p"]
    """How much more than by its information the likelihood of θ is bent where it was led far, sizes of noise following
    it; NaN where that was not found."""
    ends: tuple[Float[Array, "ends p"], Float[Array, " ends"], Bool[Array, " ends"]]
    """Where each start led, see `End`; NaN where one was not begun at."""
    at: SmoothingState
    """The motion, and where the iteration ended."""

    @property
    def status(self) -> Status:
        return self.at.status


class _Climbed(NamedTuple):
    """Where corrections of θ led."""

    at: SmoothingState
    since: Int[Array, ""]
    """As of `seen_by`."""
    leaning: Float[Array, " p"]
    """The slope by which priors lean at θ."""
    std: Float[Array, " p"]
    left: Scalar
    """See `Identified`."""
    sized: Bool[Array, ""]
    """Whether sizes of noise were found with it."""
    likelihood: Scalar
    """Its logarithm, of what was kept."""


class _Correcting(NamedTuple):
    """How far θ is corrected; see `corrected`."""

    count: Int[Array, ""]
    start: Int[Array, ""]
    """Which of the starts it goes on from; 0: from where motion and parameters together are most likely."""
    climbed: _Climbed
    bend: Float[Array, "p p"]
    reach: Scalar
    kept: Any
    """(at, slope, information, leaning) that a correction which makes θ less likely is taken back to."""
    rise: Scalar
    """How much likelier that is than where it began …"""
    highest: Scalar
    """… and what was likeliest."""
    sized: Bool[Array, ""]
    best: _Climbed
    """What was found before from other starts …"""
    information: Float[Array, "p p"]
    """… that of θ there …"""
    ends: tuple[Float[Array, "ends p"], Float[Array, " ends"], Bool[Array, " ends"]]
    """… and where all of them led."""
    done: Bool[Array, ""]


@solve.register(IdentificationProblem)
@eqx.filter_custom_jvp
def _solve(problem: IdentificationProblem) -> Identified:
    """`found_by_smoother` as a pure function; its steps are the same, as one loop of stages and one of corrections."""
    starts = problem.starts
    problem, first, at = _led(problem.smoothing)
    free = problem.free
    p, least = free.size, jnp.asarray(-jnp.inf)
    most = len(starts)
    zero, square = jnp.zeros(p), jnp.zeros((p, p))
    nothing = _Climbed(at, at.iterations, zero, zero, jnp.asarray(jnp.nan), jnp.asarray(False), least)
    begin = _Correcting(
        count=jnp.asarray(0),
        start=jnp.asarray(0),
        climbed=nothing,
        bend=square,
        reach=jnp.asarray(FARTHEST),
        kept=(at, zero, square, zero),
        rise=jnp.asarray(0.0),
        highest=jnp.asarray(0.0),
        sized=jnp.asarray(False),
        best=nothing,
        information=square,
        ends=(jnp.zeros((most + 1, p)), jnp.full(most + 1, jnp.nan), jnp.zeros(most + 1, bool)),
        done=jnp.asarray(False),
    )

    def correct(now: _Correcting) -> _Correcting:
        climbed = now.climbed
        at, seen, graph = _seen(problem, climbed.at, climbed.since)
        slope = slope_of_volume(graph, at.x, at.look)
        likelihood, information = likelihood_of(seen, jnp), seen.information
        was, slope_was, information_was, leaning_was = now.kept
        solved, led = climbed.at.status == Status.converged, now.count > 0
        changed = at.x.globals - was.x.globals, slope - slope_was, climbed.leaning - leaning_was
        bend = jnp.where(solved & led, bent(free, now.bend, at.x.globals, information_was, *changed, jnp), now.bend)
        gained = jnp.where(led, _gained(problem, (was, climbed.likelihood), (at, likelihood)), 0.0)
        better = solved & (~led | (now.rise + gained >= now.highest - WORSE))
        kept = _where(better, (at, slope, information, climbed.leaning), now.kept)
        before, slope, information, leaning = kept
        rise = jnp.where(better, now.rise + gained, now.rise)
        gained = jnp.where(better, gained, jnp.inf)
        likelihood = jnp.where(better, likelihood, climbed.likelihood)
        reach = reach_after(better, now.reach, jnp)
        std, target, towards, left = correction(free, before.x.globals, information, slope, leaning, bend, reach, jnp)
        sized, rough, arrived, stuck = judged(left, reach, gained, now.sized, before.search.rough, jnp)
        other = now.best.at.x.globals, now.information, now.best.likelihood
        arrived |= (now.best.left == 0) & met(before.x.globals, likelihood, *other, jnp)
        failed = ~jnp.isfinite(left) | ~(solved | led)
        ends = arrived | failed | (now.count == CORRECTIONS) | stuck
        left = jnp.where(failed, jnp.nan, jnp.where(arrived, 0.0, left))
        own = jnp.where(failed, least, likelihood)
        here = _Climbed(before, before.iterations, leaning, std, left, sized, own)

        taken = ends & _better(here, now.best)
        best = _where(taken, here, now.best)
        told = kept[0].x.globals, jnp.where(jnp.isnan(own), least, own), arrived
        told = jax.tree.map(lambda all, one: jnp.where(ends, all.at[now.start].set(one), all), now.ends, told)
        again = ends & (now.start < most) & ((most > 1) | ((now.start == 0) & (~arrived | sized)))
        theta = starts[jnp.minimum(now.start, most - 1)]
        held = held_problem(problem, theta)
        there = begun_at(held, with_globals(first, theta))
        there = eqx.tree_at(lambda at: at.look, there, before.look, is_leaf=_is_none)
        other = leading_problem(problem, target, std, reach, towards, jnp)
        other = eqx.tree_at(_priors, other, _where(again, _priors(held), _priors(other)))
        going = _where(sized, resizing(problem, before, rough), resumed(before))
        after = _rounds(other, _where(again, there, going), jnp.where(ends & ~again, 0, _ENDLESS))
        leaning = leaning_of(other.free, free, after, jnp)
        after = _Climbed(after, before.iterations, leaning, std, left, sized, likelihood)
        fresh = after._replace(since=after.at.iterations, likelihood=least)
        return _Correcting(
            count=jnp.where(again, 0, now.count + 1),
            start=now.start + again,
            climbed=_where(again, fresh, _where(ends, here, after)),
            bend=jnp.where(again, 0.0, bend),
            reach=jnp.where(again, FARTHEST, reach),
            kept=kept,
            rise=jnp.where(again, 0.0, rise),
            highest=jnp.where(again, 0.0, jnp.maximum(now.highest, rise)),
            sized=sized & ~again,
            best=best,
            information=jnp.where(taken, information, now.information),
            ends=told,
            done=ends & ~again,
        )

    if p == 0:
        at, seen, _ = _seen(problem, at, at.iterations)
        return Identified(
            at.x.globals, seen.information, free.sigma, _priors(problem), nothing.left, square, begin.ends, at
        )
    last = while_loop(lambda now: ~now.done, correct, begin)
    end = last.best
    at, seen, _ = _seen(problem, end.at, end.since)
    leaned = leaning_problem(problem, at.x.globals, end.std, end.leaning, jnp)
    leaned = _where(jnp.any(end.leaning != 0), _priors(leaned), _priors(problem))
    bend = jax.lax.cond(end.sized, lambda: _bend(problem, end, at, seen), lambda: square)
    return Identified(at.x.globals, seen.information, free.sigma, leaned, end.left, bend, last.ends, at)


def _better(one: _Climbed, than: _Climbed) -> Bool[Array, ""]:
    """See `likelier`; what is first is better than nothing."""
    ends = (part for of in (one, than) for part in (of.likelihood, (of.left == 0) & (of.at.status == Status.converged)))
    return ~jnp.any(than.std) | likelier(*ends, jnp)


@_solve.def_jvp
def _solve_jvp(primals, tangents):
    del primals, tangents
    raise ArgumentError(
        "problem: expected one of which derivatives are known; found an IdentificationProblem; those of the numbers "
        "that are most likely together with the motion are of fgmbs.solve(problem.smoothing)"
    )


def _led(problem: SmoothingProblem) -> tuple[SmoothingProblem, SmoothingState, SmoothingState]:
    """(the problem with wide priors, a first motion, its solution), led by large forces."""
    factors = LOOSER[0], 1.0, *on_the_way(problem), 1.0
    numbers = lambda problem: (problem.inputs, problem.sizes.value)
    sizes = [numbers(problem.loosened(factor) if factor != 1.0 else problem) for factor in factors]
    last = len(factors) - 1
    weight = STILL / jnp.max(problem.mechanism.reach)
    held = held_problem(problem, problem.free.value)
    loose = eqx.tree_at(numbers, held, sizes[0])
    first = begun(loose)
    at = eqx.tree_at(lambda at: at.look, first, like(improved, loose, first).look, is_leaf=_is_none)

    def stage(reached, of):
        first, at, sigma = reached
        k, most, own = of
        here = eqx.tree_at(lambda p: (*numbers(p), p.free.sigma), problem, (*own, sigma))
        going = begun_at(here, at, sizes=False, held=jnp.where(k == 1, weight, 0.0))
        search = _where(k == last, begun_at(here, at).search, going.search)
        new = search, at.look, k != last
        going = eqx.tree_at(lambda at: (at.search, at.look, at.far), going, new, is_leaf=_is_none)
        after = _rounds(here, going, most)
        finite = jnp.all(jnp.isfinite(after.x.globals))
        along = with_globals(at, jnp.where(finite, after.x.globals, at.x.globals))

        def widened():
            return with_wide_priors(problem, surveyed(here, after), jnp).free.sigma

        sigma = jax.lax.cond(k == 0, widened, lambda: sigma)
        return (_where(k == 1, along, first), _where(k == 1, along, after), sigma), None

    most = [_ENDLESS if factor == 1.0 and k > 1 else ON_THE_WAY for k, factor in enumerate(factors)]
    stages = jnp.arange(len(factors)), jnp.asarray(most), jax.tree.map(lambda *leaves: jnp.stack(leaves), *sizes)
    (first, at, sigma), _ = jax.lax.scan(stage, (at, at, held.free.sigma), stages)
    return eqx.tree_at(lambda p: p.free.sigma, problem, sigma), first, at


def _rounds(
    problem: SmoothingProblem, at: SmoothingState, most: Int[ArrayLike, ""], *, sized: bool = True
) -> SmoothingState:
    """At most so many rounds of a solution: the end of `to_the_end`. `sized`: sizes of noise are found with it."""

    def more(going):
        return (going[0] < most) & ~going[1].done

    def advance(going):
        count, at = going
        at = improved(problem, at, enough=ENOUGH)
        if problem.sizes.size and sized:
            at = jax.lax.cond(at.resize, lambda at: resized(problem, at, surveyed(problem, at)), lambda at: at, at)
        return count + 1, at

    return while_loop(more, advance, (jnp.asarray(0), at))[1]


def _seen(
    problem: SmoothingProblem, at: SmoothingState, since: Int[Array, ""]
) -> tuple[SmoothingState, Survey, TimeGraph | JointGraph]:
    """(what `seen_by` sees, the survey, the graph)."""
    model, data = model_and_data(problem, at)
    graph = model.graph(at.x, data)
    look = graph.look(at.x)
    k = jnp.arange(at.history.size)
    history = jnp.where((k >= since) & (k < at.iterations), look.cost, at.history)
    at = eqx.tree_at(lambda at: (at.look, at.history), at, (look, history))
    return at, survey(graph, at.x, look), graph


def _bend(problem: SmoothingProblem, end: _Climbed, at: SmoothingState, seen: Survey) -> Float[Array, "p p"]:
    """See `fgmbs.problems.identify.smoother`."""
    free = problem.free
    probes = Probes.of(free, at.x.globals, seen.information, at.search.held(problem.sizes), jnp)

    def aside(move):
        leaned, going = beside(problem, at, end.std, end.leaning, move, jnp)
        there = _rounds(leaned, going, _ENDLESS, sized=False)
        leaning, converged = leaning_of(leaned.free, free, there, jnp), there.status == Status.converged
        there, seen, graph = _seen(problem, there, at.iterations)
        slope = slope_of_volume(graph, there.x, there.look)
        slopes = jnp.concatenate([slope - leaning, size_slopes(problem, there, seen)])
        where = jnp.concatenate([there.x.globals, there.search.logs])
        return jnp.stack([where, jnp.where(converged, slopes, jnp.nan)])

    one, other = jnp.split(jax.lax.map(aside, jnp.concatenate([probes.moves, -probes.moves])), 2)
    return probes.bend(*jnp.swapaxes(one - other, 0, 1), jnp)


def _gained(problem: SmoothingProblem, *ends: tuple[SmoothingState, Scalar]) -> Scalar:
    """How much likelier θ is at the second of two estimates; see `fgmbs.problems.identify.smoother`."""
    (before, at_first), (after, at_last) = ends
    known = lambda weighed, other: eqx.tree_at(
        lambda at: (at.search, at.look), weighed, (other.search, None), is_leaf=_is_none
    )
    pairs = (known(before, after), after.x), (known(after, before), before.x)

    def crossed(pair):
        weighed, x = pair
        model, data = model_and_data(problem, weighed)
        graph = model.graph(weighed.x, data)
        return likelihood_of(survey(graph, x, graph.look(x)), jnp)

    here, there = jax.lax.map(crossed, jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs))
    return (here - at_first + at_last - there) / 2


def _where(condition: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def found_of(problem: IdentificationProblem, solution: Identified) -> Found:
    """What `solve` found, as `found_by_smoother` finds it."""
    smoothing, at = problem.smoothing, solution.at
    wide = eqx.tree_at(lambda p: p.free.sigma, smoothing, solution.wide)
    leaned = eqx.tree_at(lambda p: (p.free.value, p.free.sigma), smoothing, solution.leaned)
    if not smoothing.free.size or at.status != Status.converged:
        return Found.here(wide, at)
    unsettled = TOGETHER if np.isnan(solution.left) else still_moved(float(solution.left)) if solution.left > 0 else ""
    settled = zip(*map(np.asarray, solution.ends), strict=True)
    ends = tuple(End(theta, float(likelihood), bool(there)) for theta, likelihood, there in settled)
    ends = tuple(end for end in ends if not np.isnan(end.likelihood))
    survey, bend = surveyed(wide, at), np.asarray(solution.bend)
    return Found(wide, at, survey, leaned, degrees_of_freedom(wide, at), bend, unsettled, ends)
