"""Where a recorded motion began: the start that its first samples agree with best."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from fgmbs.errors import AssemblyError
from fgmbs.kinematics import assemble
from fgmbs.kinematics.closure import Closure
from fgmbs.kinematics.search import is_proper
from fgmbs.mechanisms.base import AbstractMechanism, prepared
from fgmbs.typing import Coordinates, Scalar

_GUESSES = 64
_CANDIDATES = 8
_CORRECTIONS, _DAMPING = 60, 1e-3
"""Newton steps that lead a guess onto the constraints, at most, and the first damping of them."""
_FIRST_STEPS, _LONGER = 50, 4
"""Steps that are to decide where the motion began, and how many times more where they do not."""
_DECIDED = 20.0
"""Difference of costs that decides: the likelihoods differ by its exponential."""
_SAME = 1e-2
"""Distance, relative to the coordinates, below which two starts have led to the same motion."""


def candidate_poses(mechanism: AbstractMechanism) -> list[Coordinates]:
    """Assembled configurations far from each other, the one as drawn first."""
    try:
        first = assemble(mechanism)
    except AssemblyError:
        first = None
    reach = np.asarray(mechanism.reach)
    throws = np.random.default_rng(0).uniform(-1.0, 1.0, (_GUESSES, mechanism.nv)) * reach
    poses, closed = _close(mechanism, jnp.asarray(throws, mechanism.reference.dtype))
    poses = poses[np.asarray(closed)]
    if first is None and len(poses) == 0:
        raise AssemblyError("no configuration was found that satisfies the constraints; give a start")
    chosen = [poses[0] if first is None else first]
    while len(chosen) < _CANDIDATES and len(poses) > 0:
        distance = np.min([_distances(mechanism, other, poses) for other in chosen], axis=0)
        if distance.max() < _SAME:
            break
        chosen.append(poses[int(np.argmax(distance))])
    return chosen


def _distances(mechanism: AbstractMechanism, q: Coordinates, others: Float[Array, "others n"]) -> Array:
    """How far others are from q in local coordinates, relative to their reach: a quaternion and its negative are one
    attitude."""
    reach = mechanism.reach
    return jnp.linalg.norm(jax.vmap(lambda other: mechanism.local(q, other) / reach)(others), axis=1)


@eqx.filter_jit
def _close(mechanism: AbstractMechanism, throws: Float[Array, "guesses nv"]):
    """The drawing, thrown and led onto the constraints, and which of these guesses got there."""
    mechanism = prepared(mechanism)
    zero = jnp.zeros((), throws.dtype)

    def one(throw):
        guess = mechanism.retract(mechanism.reference, throw)
        size = mechanism.extent(mechanism.reference) + jnp.max(jnp.abs(mechanism.relative(throw)))
        found = Closure().close(mechanism, guess, zero, size=size, limit=_CORRECTIONS, damping=_DAMPING)
        return found.q, found.closed & is_proper(mechanism, found.q)

    return jax.vmap(one)(throws)


class Attempts(NamedTuple):
    """Candidates for the start, and how far each was followed."""

    behind: Float[Array, " candidates"]
    """How much more the first samples cost from there than from the best start; infinite for one that was lost, or led
    to the same motion as another."""
    best: Int[Array, ""]
    followed: PyTree
    """What following the best one through all steps gave."""


class _Search(NamedTuple):
    next: Int[Array, ""]
    """Candidate to be followed; behind the last one the best is followed through all steps."""
    count: Int[Array, ""]
    running: Bool[Array, " candidates"]
    costs: Float[Array, " candidates"]
    ends: Float[Array, "candidates n"]
    attempts: Attempts
    done: Bool[Array, ""]


def best_start(
    mechanism: AbstractMechanism,
    follow: Callable[[Int[Array, ""], Int[Array, ""], Bool[Array, ""]], tuple[Scalar, Coordinates, PyTree]],
    blank: PyTree,
    candidates: int,
    steps: Int[Array, ""],
) -> Attempts:
    """The candidate from which the first samples cost least, followed through all steps.

    Candidates between which the first samples do not decide are followed longer; of those that led to the same motion
    the cheapest is kept. One candidate is not looked at before it is followed.

    Args:
        mechanism: What moves.
        follow: (number of a candidate, steps to follow, whether it is the chosen one) → (cost of their samples,
            coordinates at their end, whatever else following gives); the only place in the program where it is called.
        blank: Zeros in the place of that.
        candidates: How many there are.
        steps: Steps there are.
    """
    several = candidates > 1
    begun = _Search(
        next=jnp.asarray(0 if several else candidates, int),
        count=jnp.minimum(_FIRST_STEPS, steps),
        running=jnp.full(candidates, several),
        costs=jnp.full(candidates, jnp.inf, float),
        ends=jnp.zeros((candidates, mechanism.n)),
        attempts=Attempts(jnp.full(candidates, jnp.inf, float), jnp.asarray(0, int), blank),
        done=jnp.asarray(False),
    )

    def advance(search: _Search) -> _Search:
        last = search.next >= candidates
        tried = jnp.where(last, search.attempts.best, search.next)
        cost, end, followed = follow(tried, jnp.where(last, steps, search.count), last)
        cost = jnp.where(jnp.all(jnp.isfinite(end)), cost, jnp.inf)
        search = search._replace(
            costs=jnp.where(last, search.costs, search.costs.at[tried].set(cost)),
            ends=jnp.where(last, search.ends, search.ends.at[tried].set(end)),
            attempts=search.attempts._replace(followed=followed),
            done=last,
        )
        behind = search.running & (jnp.arange(candidates) > tried)
        decide = ~last & ~jnp.any(behind)
        search = search._replace(next=jnp.where(last, candidates, jnp.argmax(behind)))
        decided = _decided(mechanism, search, candidates, steps)
        return jax.tree.map(lambda new, old: jnp.where(decide, new, old), decided, search)

    return jax.lax.while_loop(lambda search: ~search.done, advance, begun).attempts


def _decided(mechanism: AbstractMechanism, search: _Search, candidates: int, steps: Int[Array, ""]) -> _Search:
    """After all of the running candidates were followed: which of them go on, or that one is the best."""
    tried = jnp.where(search.running, search.costs, jnp.inf)
    order = jnp.argsort(tried)

    def keep(place, kept):
        one = order[place]
        near = _distances(mechanism, search.ends[one], search.ends) <= _SAME
        return kept.at[one].set(jnp.isfinite(tried[one]) & ~jnp.any(near & kept))

    kept = jax.lax.fori_loop(0, candidates, keep, jnp.zeros(candidates, bool))
    best = order[0]
    close = kept & (tried < tried[best] + _DECIDED)
    behind = jnp.where(kept, tried - tried[best], jnp.inf)
    behind = jnp.where(search.running, behind, search.attempts.behind)
    over = (jnp.sum(close) < 2) | (search.count >= steps)
    return search._replace(
        next=jnp.where(over, candidates, jnp.argmax(close)),
        count=jnp.minimum(_LONGER * search.count, steps),
        running=close,
        attempts=Attempts(behind, best, search.attempts.followed),
    )
