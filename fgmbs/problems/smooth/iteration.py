"""The solution of an estimate round by round, between which it can be told of and interrupted."""

import math
from collections.abc import Iterator

from fgmbs.losses import ignores_samples
from fgmbs.problems.smooth.beginning import SmoothingState
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import improved, resized, surveyed
from fgmbs.status import Status, is_one_of

LOOSER = 1e6, 1e4, 1e2
"""Spectral densities of unknown forces, relative to theirs, that lead to where a solution is looked for."""
POOR = 2.5
"""Cost by reading of a solution beside which there may be a better one; noise leaves a half."""
_PATIENCE = 8
"""Rounds of which each gains as much as the last one, within which a solution has to become worth it."""


def on_the_way(problem: SmoothingProblem) -> tuple[float, ...]:
    """Factors of unknown forces on the way to a problem; last 1 where a loss may ignore samples, of which none is
    ignored before that problem is solved, see `Led`."""
    ignoring = any(ignores_samples(sensor.loss) for sensor in problem.sensors)
    return (*LOOSER, 1.0) if ignoring else LOOSER


def to_the_end(
    problem: SmoothingProblem, at: SmoothingState, *, worth: float = math.inf, enough: float = 0.0
) -> Iterator[SmoothingState]:
    """What is reached after every round.

    Args:
        problem: The problem.
        at: The first guess.
        worth: Cost above which a solution is not worth more rounds.
        enough: See `improved`.
    """
    cost = math.inf
    while is_one_of(at.status, Status.running):
        at = improved(problem, at, enough=enough)
        before, cost = cost, float(at.look.cost)
        if bool(at.resize):
            at = resized(problem, at, surveyed(problem, at))
        yield at
        if before - cost < (cost - worth) / _PATIENCE:
            return


def is_poor(problem: SmoothingProblem, at: SmoothingState) -> bool:
    """Whether there may be a better solution."""
    return not (is_one_of(at.status, Status.converged) and float(at.look.cost) < POOR * problem.readings())
