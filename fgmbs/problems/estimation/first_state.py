"""Where a recorded motion began: the start that its first samples agree with best."""

import enum
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
_POSINGS = 25
"""Times that a candidate is led nearer to its first sample; each begins in coordinates of its own."""
_SAME = 1e-2
"""Distance, relative to the coordinates, below which two starts have led to the same motion …"""
_ALIKE = 1e-6
"""… and difference of costs, relative to them, below which motions that differ by whole turns are the same."""


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


def _distances(
    mechanism: AbstractMechanism, q: Coordinates, others: Float[Array, "others n"], *, turns: bool = True
) -> Array:
    """How far others are from q in local coordinates, relative to their reach: a quaternion and its negative are one
    attitude. Whole turns of angles count or not."""
    angles = jnp.asarray([unit == "rad/s" and not turns for unit in mechanism.velocity_units])

    def distance(other):
        v = mechanism.local(q, other)
        v = jnp.where(angles, v - 2 * jnp.pi * jnp.round(v / (2 * jnp.pi)), v)
        return jnp.linalg.norm(v / mechanism.reach)

    return jax.vmap(distance)(others)


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


class Stage(enum.IntEnum):
    """What a candidate is followed for."""

    posing = 0
    """To pose it as its first sample says, before it is compared."""
    searching = 1
    chosen = 2


class _Search(NamedTuple):
    next: Int[Array, ""]
    """Candidate to be followed; behind the last one the best is followed through all steps."""
    posings: Int[Array, ""]
    """Times that the candidates are still to be led to what their first sample says, at most …"""
    moved: Bool[Array, ""]
    """… and whether one of them moved the last time."""
    starts: Float[Array, "candidates nx"]
    count: Int[Array, ""]
    running: Bool[Array, " candidates"]
    costs: Float[Array, " candidates"]
    ends: Float[Array, "candidates n"]
    attempts: Attempts
    done: Bool[Array, ""]


def best_start(
    mechanism: AbstractMechanism,
    follow: Callable[[Float[Array, " nx"], Int[Array, ""], Int[Array, ""]], tuple[Scalar, Array, Coordinates, PyTree]],
    blank: PyTree,
    starts: Float[Array, "candidates nx"],
    steps: Int[Array, ""],
) -> Attempts:
    """The candidate from which the first samples cost least, followed through all steps.

    Every candidate is posed as its first sample says before they are compared: far from there a step may well be
    explained by a calibration that is out of all proportion. Candidates between which the first samples do not decide
    are followed longer; of those that led to the same motion the cheapest is kept. One candidate is not looked at
    before it is followed.

    Args:
        mechanism: What moves.
        follow: (first step, steps to follow, stage) → (cost of their samples, the first step as it is found,
            coordinates at their end, whatever else following gives); the only place in the program where it is called.
        blank: Zeros in the place of that.
        starts: The candidates.
        steps: Steps there are.
    """
    candidates = starts.shape[0]
    several = candidates > 1
    begun = _Search(
        next=jnp.asarray(0 if several else candidates, int),
        posings=jnp.asarray(_POSINGS if several else 0, int),
        moved=jnp.asarray(False),
        starts=starts,
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
        posed = search.posings == 0
        stage = jnp.where(last, Stage.chosen, jnp.where(posed, Stage.searching, Stage.posing))
        count = jnp.where(last, steps, jnp.where(posed, search.count, 1))
        cost, first, end, followed = follow(search.starts[tried], count, stage)
        cost = jnp.where(jnp.all(jnp.isfinite(end)), cost, jnp.inf)
        before = search.starts[tried]
        first = jnp.where(posed | ~jnp.all(jnp.isfinite(first)), before, first)
        n = mechanism.n
        search = search._replace(
            starts=search.starts.at[tried].set(first),
            moved=search.moved | (_distances(mechanism, before[:n], first[None, :n])[0] > _ALIKE),
            costs=jnp.where(last, search.costs, search.costs.at[tried].set(cost)),
            ends=jnp.where(last, search.ends, search.ends.at[tried].set(end)),
            attempts=search.attempts._replace(followed=followed),
            done=last,
        )
        behind = search.running & (jnp.arange(candidates) > tried)
        through = ~last & ~jnp.any(behind)
        search = search._replace(
            next=jnp.where(last, candidates, jnp.argmax(behind)),
            posings=jnp.where(through & ~posed, jnp.where(search.moved, search.posings - 1, 0), search.posings),
            moved=search.moved & ~through,
        )
        decided = _decided(mechanism, search, candidates, steps, posed)
        decide = through & (search.posings == 0)
        return jax.tree.map(lambda new, old: jnp.where(decide, new, old), decided, search)

    return jax.lax.while_loop(lambda search: ~search.done, advance, begun).attempts


def _decided(
    mechanism: AbstractMechanism,
    search: _Search,
    candidates: int,
    steps: Int[Array, ""],
    followed: Bool[Array, ""],
) -> _Search:
    """After all of the running candidates were posed or followed: which of them go on, or that one is the best."""
    tried = jnp.where(search.running, search.costs, jnp.inf)
    alike = _ALIKE * (1 + jnp.min(tried))
    # Of those that are alike the one that is nearest to the drawing.
    poses = search.starts[:, : mechanism.n]
    order = jnp.argsort(tried + alike * _distances(mechanism, mechanism.reference, poses))

    def keep(place, kept):
        one, ends = order[place], search.ends
        turned = _distances(mechanism, ends[one], ends, turns=False) <= _SAME
        turned &= followed & (jnp.abs(tried - tried[one]) <= alike)
        near = (_distances(mechanism, ends[one], ends) <= _SAME) | turned
        return kept.at[one].set(jnp.isfinite(tried[one]) & ~jnp.any(near & kept))

    kept = jax.lax.fori_loop(0, candidates, keep, jnp.zeros(candidates, bool))
    best = order[0]
    close = kept & (~followed | (tried < tried[best] + _DECIDED))
    behind = jnp.where(kept, tried - tried[best], jnp.inf)
    behind = jnp.where(search.running, behind, search.attempts.behind)
    over = (jnp.sum(close) < 2) | (followed & (search.count >= steps))
    return search._replace(
        next=jnp.where(over, candidates, jnp.argmax(close)),
        count=jnp.where(followed, jnp.minimum(_LONGER * search.count, steps), search.count),
        running=close,
        attempts=Attempts(behind, best, search.attempts.followed),
    )
