"""Joint estimation of states and parameters: one arrow-shaped problem, from loose forces to tight ones."""

import itertools
from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.errors import Interrupted
from fgmbs.problems.estimation.posterior import Survey
from fgmbs.problems.smooth.iteration import LOOSER, to_the_end
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import SmoothingState, begun, begun_at, lowered_rounds, surveyed

_ENOUGH = 1e-6
"""Decrease of the cost that ends a round: √2 thousandths of a standard deviation."""
_HELD = 1e-6
"""Standard deviation of the priors by which parameters are held while the first motion is found."""
_WIDE = 1e6
"""Standard deviation of the prior of a parameter of which nothing is known, in units of what the data would tell of
it alone, were the motion known: it decides where the data say nothing, and nowhere else."""
_WIDEST_LOG = float(np.log(1e3))
"""The same of a logarithm, at most: a factor of a thousand."""
_STILL = 1e8
"""Weight of what holds the motion while parameters are looked for along it, times the reach of the mechanism."""
_ON_THE_WAY = 4
"""Rounds with looser forces, at most."""

Progress: TypeAlias = Callable[[str, int, float], None]


class Found(eqx.Module):
    """Where the joint estimation ended."""

    problem: SmoothingProblem
    """With the wide priors that parameters without one were given."""
    at: SmoothingState
    survey: Survey


def first_found(problem: SmoothingProblem, tell: Progress) -> tuple[SmoothingProblem, SmoothingState]:
    """(the problem with wide priors, a first motion and first parameters).

    The motion is that under forces that are large and parameters that are held: the sensors alone decide then, and a
    start however wrong does no harm. The parameters are those with which this motion needs the least forces, in which
    masses are linear.

    Raises:
        Interrupted: Ctrl-C once the recordings were followed; `result` is what was reached.
    """
    held = eqx.tree_at(lambda p: p.free.sigma, problem, jnp.minimum(problem.free.sigma, _HELD))
    loose = held.loosened(LOOSER[0])
    tell("following", 0, np.nan)
    with compiled_ahead(lambda: lowered_rounds(loose, enough=_ENOUGH), loose):
        at = jax.block_until_ready(begun(loose))
    try:
        return _first_found(problem, loose, at, tell)
    except KeyboardInterrupt:
        raise Interrupted("interrupted", Found(problem, at, surveyed(problem, at))) from None


def _first_found(
    problem: SmoothingProblem, loose: SmoothingProblem, at: SmoothingState, tell: Progress
) -> tuple[SmoothingProblem, SmoothingState]:
    """The same from where the recordings were followed to, by a problem with large forces and parameters held."""
    *_, at = itertools.islice(to_the_end(loose, begun_at(loose, at, sizes=False), enough=_ENOUGH), _ON_THE_WAY)
    problem = with_wide_priors(problem, surveyed(loose, at))
    weight = jnp.asarray(_STILL / float(jnp.max(problem.mechanism.reach)))
    first = along = begun_at(problem, at, sizes=False, held=weight)
    for round, along in enumerate(itertools.islice(to_the_end(problem, first, enough=_ENOUGH), _ON_THE_WAY)):
        tell("solving along the first motion", round, float(along.look.cost))
    if bool(jnp.all(jnp.isfinite(along.x.globals))):
        at = eqx.tree_at(lambda at: at.x.globals, at, along.x.globals)
    return problem, at


def found_by_smoother(problem: SmoothingProblem, tell: Progress) -> Found:
    """The parameters and the motion that are most likely together.

    From a first motion and first parameters, while the forces become smaller step by step to their own size, which is
    found from the data where it is not given.

    Raises:
        Interrupted: Ctrl-C; `result` is what was reached.
    """
    problem, at = first_found(problem, tell)
    try:
        count = 0
        for factor in (*LOOSER, 1.0):
            looser = problem.loosened(factor) if factor != 1.0 else problem
            last = factor == 1.0
            rounds = to_the_end(looser, begun_at(looser, at, sizes=last), enough=_ENOUGH)
            for at in rounds if last else itertools.islice(rounds, _ON_THE_WAY):
                tell("solving" if last else "solving with larger forces", count, float(at.look.cost))
                count += 1
        return Found(problem, at, surveyed(problem, at))
    except KeyboardInterrupt:
        raise Interrupted("interrupted", Found(problem, at, surveyed(problem, at))) from None


def with_wide_priors(problem: SmoothingProblem, seen: Survey) -> SmoothingProblem:
    """The problem with priors for those parameters that have none, which count where the data say nothing."""
    free = problem.free
    alone = np.where(np.asarray(seen.influence) > 0, 1 / np.maximum(np.asarray(seen.influence), 1e-300), np.inf)
    own = np.maximum(np.abs(np.asarray(free.value)), 1.0)
    wide = np.minimum(_WIDE * alone, _WIDE * own)
    wide = np.where(free.logs, np.minimum(wide, _WIDEST_LOG), wide)
    sigma = jnp.where(jnp.isfinite(free.sigma), free.sigma, jnp.asarray(wide))
    return eqx.tree_at(lambda p: p.free.sigma, problem, sigma)
