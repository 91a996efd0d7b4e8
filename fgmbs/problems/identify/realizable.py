"""Numbers of bodies that can be made: what θ must leave of a mechanism's margins, as of inertias about centres of mass.

The solver holds margins as it holds bounds, exactly and at every trial (`fgmbs.linear.bounds`), so that θ is the
numbers that were named, with their own bounds and priors; nothing is looked for in other numbers in their place.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import ArgumentError
from fgmbs.graph.model import margins, of_mechanism
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.unknowns import Free

_LEAST = 1e-4
"""Least part of the first margin that θ leaves: of a body of no inertia at all a free motion has no mass matrix."""
_ELSEWHERE = 0.1
"""Change of θ, relative to its size or 1, at which is seen which margins depend on it: at 0 one may be even in it …"""
_FURTHER = 1e2, 1e5
"""… and of numbers that are not logarithms: a product of inertia turns the largest moment only where it is large."""
ROUNDING = 1e-9
"""Part of what a margin is a difference of, below which it is zero."""


def limited(problem: SmoothingProblem) -> SmoothingProblem:
    """The problem whose θ stays such that its mechanism can be made.

    Numbers that each recording has of its own are left alone, and what those leave that are given of recordings.

    Raises:
        ArgumentError: First values are impossible already.
    """
    free, mechanism = problem.free, problem.mechanism
    if not any(of_mechanism(place) and place.copies == 1 for place in free.places):
        return problem
    names = tuple(eqx.filter_eval_shape(mechanism.margins))
    if not names:
        return problem
    free = dataclasses.replace(free, limited=names, least=jax.device_put(np.zeros(len(names))))
    seen = _seen(free, mechanism)
    own = np.concatenate([np.zeros(0, bool), *(np.full(place.size, place.copies > 1) for place in free.places)])
    depends = np.any(seen[:, ~own], axis=1) & ~np.any(seen[:, own], axis=1)
    first, size = margins_of(free, mechanism, np.asarray(free.value))
    for k in range(problem.recording.count.size if problem.given.names else 0):
        others = margins_of(free, problem.given.of(k).put(mechanism), np.asarray(free.value))[0]
        depends &= np.abs(others - first) <= ROUNDING * size
    for name, margin, scale, moves, stands_on in zip(free.limited, first, size, depends, seen, strict=True):
        if moves and margin < -ROUNDING * scale:
            given = ", ".join(np.asarray(free.number_names)[stands_on])
            raise ArgumentError(
                f"free: expected first values of {given} that a body can have; {name}: "
                f"{mechanism.margin_in_words(float(margin))}"
            )
    names = tuple(name for name, moves in zip(free.limited, depends, strict=True) if moves)
    least = jnp.asarray(_LEAST * np.where(first > ROUNDING * size, first, 0.0)[depends])
    free = dataclasses.replace(free, limited=names, least=least)
    return eqx.tree_at(lambda problem: problem.free, problem, free, is_leaf=lambda leaf: isinstance(leaf, Free))


def _seen(free: Free, mechanism: AbstractMechanism) -> Bool[np.ndarray, "k p"]:
    """Which of `free.limited` depend on which of θ."""
    value, logs = np.asarray(free.value), np.asarray(free.logs)
    size = np.maximum(np.abs(value), 1.0)
    seen = margin_slopes(free, mechanism, value + _ELSEWHERE * size) != 0
    for far in _FURTHER:
        slopes = margin_slopes(free, mechanism, value + np.where(logs, _ELSEWHERE, far) * size)
        seen |= np.isfinite(slopes) & (slopes != 0)
    return seen


def margins_of(
    free: Free, mechanism: AbstractMechanism, theta: Float[np.ndarray, " p"]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """(what θ leaves of `free.limited`, above the least; the size of what these are differences of)."""
    if not free.limited:
        return np.zeros(0), np.zeros(0)
    values, slopes = map(np.asarray, _margins(free, mechanism, jax.device_put(theta)))
    return values, np.abs(slopes) @ np.where(free.logs, 1.0, np.abs(theta))


def margin_slopes(free: Free, mechanism: AbstractMechanism, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, "k p"]:
    """Derivatives of what θ leaves of `free.limited`."""
    if not free.limited:
        return np.zeros((0, free.size))
    return np.asarray(_margins(free, mechanism, jax.device_put(theta))[1])


@program(**ONCE)
def _margins(
    free: Free, mechanism: AbstractMechanism, theta: Float[Array, " p"]
) -> tuple[Float[Array, " k"], Float[Array, "k p"]]:
    """(what θ leaves of `free.limited`, its derivatives)."""

    def twice(theta):
        values = margins(free.of(0), mechanism, theta)
        return values, values

    return jax.jacfwd(twice, has_aux=True)(theta)[::-1]
