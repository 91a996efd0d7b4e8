"""First guesses that other problems lead to: with larger forces, or without the samples of some sensors."""

import itertools
from collections.abc import Sequence

import jax.numpy as jnp

from fgmbs.problems.smooth.beginning import SmoothingState, begun, begun_at
from fgmbs.problems.smooth.iteration import LOOSER, on_the_way, to_the_end
from fgmbs.problems.smooth.problem import SmoothingProblem

_ON_THE_WAY = 5
"""Rounds with larger forces, at most."""


def led_by_larger_forces(problem: SmoothingProblem) -> SmoothingState:
    """Where unknown forces lead that are far larger, and become smaller step by step."""
    near = begun(problem.loosened(LOOSER[0]))
    for factor in on_the_way(problem):
        looser = problem.loosened(factor)
        *_, near = itertools.islice(to_the_end(looser, begun_at(looser, near, sizes=False)), _ON_THE_WAY)
    return near


def without_accelerations(problem: SmoothingProblem) -> SmoothingState:
    """Centripetal accelerations have no slope at rest: a filter that begins there explains them by another pose."""
    return _blind(problem, [sensor.order > 1 for sensor in problem.sensors])


def by_itself(problem: SmoothingProblem) -> SmoothingState:
    """The motion that the mechanism makes without any reading."""
    return _blind(problem, [True] * len(problem.sensors))


def _blind(problem: SmoothingProblem, unread: Sequence[bool]) -> SmoothingState:
    """The first guess without the samples of some sensors."""
    parts = zip(problem.recording.channels, unread, strict=True)
    channels = tuple(
        part._replace(values=jnp.full_like(part.values, jnp.nan)) if dropped else part for part, dropped in parts
    )
    return begun(problem.of(problem.recording._replace(channels=channels)))
