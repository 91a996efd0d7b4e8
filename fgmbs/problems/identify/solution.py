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
from fgmbs.problems.estimation.likelihood import volume_of_motions, ways
from fgmbs.problems.estimation.posterior import survey
from fgmbs.problems.identify.smoother import (
    CORRECTED,
    CORRECTIONS,
    ENOUGH,
    FARTHEST,
    HELD,
    NEARER,
    ON_THE_WAY,
    STILL,
    TOGETHER,
    WORSE,
    Found,
    correction,
    degrees_of_freedom,
    leaning_of,
    leaning_problem,
    still_moved,
    with_wide_priors,
)
from fgmbs.problems.smooth.beginning import SmoothingState, begun, begun_at, model_and_data
from fgmbs.problems.smooth.iteration import LOOSER
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import improved, resized, resumed, surveyed
from fgmbs.problems.solving import solve
from fgmbs.status import Status
from fgmbs.typing import Scalar

_ENDLESS = 2**31 - 1


class IdentificationProblem(eqx.Module):
    """What `identify` solves by the method "smoother": a pytree of everything that parameters depend on, made by
    `prepare_identify`.

    Other numbers in its place, of the same shapes, are another problem of the same compiled program.
    """

    smoothing: SmoothingProblem
    """Whose θ is looked for."""


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
    """How far θ still is from the most likely one by itself, in standard deviations; nan if it is not that one."""
    at: SmoothingState
    """The motion, and where the iteration ended."""

    @property
    def status(self) -> Status:
        return self.at.status


class _Correcting(NamedTuple):
    """How far θ is corrected; see `corrected`."""

    count: Int[Array, ""]
    at: SmoothingState
    since: Int[Array, ""]
    """As of `seen_by`."""
    leaning: Float[Array, " p"]
    """The slope by which priors lean at θ …"""
    moved: Float[Array, " p"]
    """… and how θ moved by that."""
    std: Float[Array, " p"]
    left: Scalar
    reach: Scalar
    least: Scalar
    """Minus the logarithm of the largest likelihood so far."""
    kept: Any
    """(at, slope, information, leaning, moved) that a correction which makes θ less likely is taken back to."""
    done: Bool[Array, ""]


@solve.register(IdentificationProblem)
@eqx.filter_custom_jvp
def _solve(problem: IdentificationProblem) -> Identified:
    """`found_by_smoother` as a pure function; its steps are the same, as one loop of stages and one of corrections."""
    smoothing = problem.smoothing
    problem, at = _led(smoothing)
    free = problem.free
    zero, nan, inf = jnp.zeros(free.size), jnp.asarray(jnp.nan), jnp.asarray(jnp.inf)
    nothing = at, zero, jnp.zeros((free.size, free.size)), zero, zero
    begin = _Correcting(
        count=jnp.asarray(0),
        at=at,
        since=at.iterations,
        leaning=zero,
        moved=zero,
        std=zero,
        left=nan,
        reach=jnp.asarray(FARTHEST),
        least=inf,
        kept=nothing,
        done=at.status != Status.converged,
    )

    def correct(now: _Correcting) -> _Correcting:
        at, slope, unlikely, information = _seen(problem, now.at, now.since)
        worse = (now.count > 0) & ~(unlikely <= now.least + WORSE)
        kept = _where(worse, now.kept, (at, slope, information, now.leaning, now.moved))
        before, slope, information, leaning, moved = kept
        reach = jnp.where(worse, now.reach / NEARER, now.reach)
        std, towards, left = correction(free, before, information, slope, leaning, moved, now.count, reach, jnp)
        done = ~(left >= CORRECTED) | (now.count == CORRECTIONS)
        other = leaning_problem(problem, before, std * reach / FARTHEST, towards, jnp)
        after = _rounds(other, resumed(before), jnp.where(done, 0, _ENDLESS))
        failed = ~done & (after.status != Status.converged)
        at, leaning = _where(done | failed, (before, leaning), (after, leaning_of(other.free, free, after, jnp)))
        return _Correcting(
            count=now.count + 1,
            at=at,
            since=before.iterations,
            leaning=leaning,
            moved=after.x.globals - before.x.globals,
            std=std,
            left=jnp.where(failed & (now.count == 0), jnp.nan, left),
            reach=reach,
            least=jnp.fmin(now.least, unlikely),
            kept=kept,
            done=done | failed,
        )

    end = while_loop(lambda now: ~now.done, correct, begin) if free.size else begin
    at, _, _, information = _seen(problem, end.at, end.since)
    leaned = leaning_problem(problem, at, end.std, end.leaning, jnp).free
    leaned = _where(jnp.any(end.leaning != 0), (leaned.value, leaned.sigma), (free.value, free.sigma))
    return Identified(at.x.globals, information, free.sigma, leaned, end.left, at)


@_solve.def_jvp
def _solve_jvp(primals, tangents):
    del primals, tangents
    raise ArgumentError(
        "problem: expected one of which derivatives are known; found an IdentificationProblem; those of the numbers "
        "that are most likely together with the motion are of fgmbs.solve(problem.smoothing)"
    )


def _led(problem: SmoothingProblem) -> tuple[SmoothingProblem, SmoothingState]:
    """(the problem with wide priors, its solution), led by large forces."""
    factors = LOOSER[0], 1.0, *LOOSER, 1.0
    numbers = lambda problem: (problem.inputs, problem.sizes.value)
    sizes = [numbers(problem.loosened(factor) if factor != 1.0 else problem) for factor in factors]
    last = len(factors) - 1
    weight = STILL / jnp.max(problem.mechanism.reach)
    held = eqx.tree_at(lambda p: p.free.sigma, problem, jnp.minimum(problem.free.sigma, HELD))
    loose = eqx.tree_at(numbers, held, sizes[0])
    first = begun(loose)
    at = eqx.tree_at(lambda at: at.look, first, like(improved, loose, first).look, is_leaf=_is_none)

    def stage(reached, of):
        at, sigma = reached
        k, own = of
        here = eqx.tree_at(lambda p: (*numbers(p), p.free.sigma), problem, (*own, sigma))
        first = begun_at(here, at, sizes=False, held=jnp.where(k == 1, weight, 0.0))
        search = _where(k == last, begun_at(here, at).search, first.search)
        first = eqx.tree_at(lambda at: (at.search, at.look), first, (search, at.look), is_leaf=_is_none)
        after = _rounds(here, first, jnp.where(k == last, _ENDLESS, ON_THE_WAY))
        finite = jnp.all(jnp.isfinite(after.x.globals))
        along = eqx.tree_at(lambda at: at.x.globals, at, jnp.where(finite, after.x.globals, at.x.globals))

        def widened():
            return with_wide_priors(problem, surveyed(here, after), jnp).free.sigma

        return (_where(k == 1, along, after), jax.lax.cond(k == 0, widened, lambda: sigma)), None

    stages = jnp.arange(len(factors)), jax.tree.map(lambda *leaves: jnp.stack(leaves), *sizes)
    (at, sigma), _ = jax.lax.scan(stage, (at, held.free.sigma), stages)
    return eqx.tree_at(lambda p: p.free.sigma, problem, sigma), at


def _rounds(problem: SmoothingProblem, at: SmoothingState, most: Int[ArrayLike, ""]) -> SmoothingState:
    """At most so many rounds of a solution: the end of `to_the_end`."""

    def more(going):
        return (going[0] < most) & ~going[1].done

    def advance(going):
        count, at = going
        at = improved(problem, at, enough=ENOUGH)
        if problem.sizes.size:
            at = jax.lax.cond(at.resize, lambda at: resized(problem, at, surveyed(problem, at)), lambda at: at, at)
        return count + 1, at

    return while_loop(more, advance, (jnp.asarray(0), at))[1]


def _seen(
    problem: SmoothingProblem, at: SmoothingState, since: Int[Array, ""]
) -> tuple[SmoothingState, Float[Array, " p"], Scalar, Float[Array, "p p"]]:
    """What `volume_slope` sees, and the information of θ."""
    model, data = model_and_data(problem, at)
    graph = model.graph(at.x, data)
    look = graph.look(at.x)
    k = jnp.arange(at.history.size)
    history = jnp.where((k >= since) & (k < at.iterations), look.cost, at.history)
    at = eqx.tree_at(lambda at: (at.look, at.history), at, (look, history))
    information = survey(graph, at.x, look).information
    if not problem.free.size:
        return at, jnp.zeros(0), look.cost, information
    ends, h = ways(graph, at.x, look.system)
    ends = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ends)
    volumes = jax.lax.map(lambda x: volume_of_motions(graph.look(x).system), ends)
    unlikely = look.cost + volume_of_motions(look.system)
    return at, (volumes[0::2] - volumes[1::2]) / (2 * h), unlikely, information


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
    unsettled = still_moved(float(solution.left)) if solution.left >= CORRECTED else ""
    unsettled = unsettled if np.isfinite(solution.left) else TOGETHER
    return Found(wide, at, surveyed(wide, at), leaned, degrees_of_freedom(wide, at), unsettled)
