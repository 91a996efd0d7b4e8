"""Where a recorded motion began: the start that its first samples agree with best."""

import enum
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import while_loop
from fgmbs.errors import AssemblyError
from fgmbs.kinematics import assemble
from fgmbs.kinematics.base import prepared
from fgmbs.kinematics.closure import Closure
from fgmbs.kinematics.search import is_proper
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar

_GUESSES = 64
CANDIDATES = 8
"""Starts that are compared."""
_CORRECTIONS, _DAMPING = 60, 1e-3
"""Newton steps that lead a guess onto the constraints, at most, and the first damping of them."""
FIRST_STEPS, _LONGER = 50, 4
"""Steps that are to decide where the motion began, and how many times more where they do not."""
DECIDED = 20.0
"""Difference of costs that decides: the likelihoods differ by its exponential."""
_POSINGS = 25
"""Times that a candidate is led nearer to its first sample; each begins in coordinates of its own."""
SAME = 1e-2
"""Distance, relative to the coordinates, below which two starts have led to the same motion …"""
_ALIKE = 1e-6
"""Difference of costs, and distance of poses, relative to them, that is none."""
_TURNED = 1.0
"""Difference of the costs of motions that differ by whole turns that is none: a filter is not more exact."""


def candidates_at_rest(
    mechanism: AbstractMechanism,
    resting: int,
    first: Float[Array | np.ndarray, " nx"] | None = None,
    *,
    seed: int = 0,
) -> tuple[Float[Array, "candidates nx"], Bool[Array, " candidates"]]:
    """Assembled configurations far from each other, and which of them there are: the rest only fills up.

    Args:
        mechanism: The mechanism.
        resting: How many velocities and forces follow the coordinates; they are zero but for the first one.
        first: The first of them (q, dq, u), which need not rest; at rest as drawn by default.
        seed: Others for every seed.

    Raises:
        AssemblyError: There is none.
    """
    if first is None:
        try:
            first = np.pad(np.asarray(assemble(mechanism)), (0, resting))
        except AssemblyError:
            pass
    throws = np.random.default_rng(seed).uniform(-1.0, 1.0, (_GUESSES, mechanism.nv))
    known = first is not None
    begin = first if known else np.pad(np.asarray(mechanism.reference), (0, resting))
    starts, there = _spread(mechanism, *jax.device_put((np.asarray(begin), np.asarray(known), throws)))
    if not np.asarray(there)[0]:
        raise AssemblyError("no configuration was found that satisfies the constraints; give a start")
    return starts, there


def distances(
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


@program(**ONCE)
def _spread(
    mechanism: AbstractMechanism, begin: Float[Array, " nx"], known: Bool[Array, ""], throws: Float[Array, "guesses nv"]
) -> tuple[Float[Array, "candidates nx"], Bool[Array, " candidates"]]:
    """The first candidate, then of thrown drawings led onto the constraints always the one farthest from all before.

    Args:
        mechanism: The mechanism.
        begin: The first candidate, (q, dq, u) …
        known: … if it is assembled; else any.
        throws: How far coordinates are thrown, relative to their reach.
    """
    mechanism = prepared(mechanism)
    zero = jnp.zeros((), throws.dtype)

    def close(throw):
        guess = mechanism.retract(mechanism.reference, throw * mechanism.reach)
        size = mechanism.extent(mechanism.reference) + jnp.max(jnp.abs(mechanism.relative(throw * mechanism.reach)))
        found = Closure().close(mechanism, guess, zero, size=size, limit=_CORRECTIONS, damping=_DAMPING)
        return found.q, found.closed & is_proper(mechanism, found.q)

    poses, closed = jax.vmap(close)(throws)
    first = jnp.where(known, begin[: mechanism.n], poses[jnp.argmax(closed)])

    def choose(k, state):
        chosen, there, nearest = state
        farthest = jnp.argmax(nearest)
        found = nearest[farthest] >= SAME
        nearest = jnp.minimum(nearest, distances(mechanism, poses[farthest], poses))
        return chosen.at[k].set(jnp.where(found, poses[farthest], first)), there.at[k].set(found), nearest

    nearest = jnp.where(closed, distances(mechanism, first, poses), 0.0)
    chosen = jnp.broadcast_to(first, (CANDIDATES, first.size))
    there = jnp.zeros(CANDIDATES, bool).at[0].set(known | jnp.any(closed))
    chosen, there, _ = jax.lax.fori_loop(1, CANDIDATES, choose, (chosen, there, nearest))
    starts = jnp.pad(chosen, ((0, 0), (0, begin.size - mechanism.n)))
    return jnp.where(known & (jnp.arange(CANDIDATES) == 0)[:, None], begin, starts), there


class Starts(NamedTuple):
    """Candidates for the start, compared by the first samples."""

    best: Int[Array, "*recordings"]
    behind: Float[Array, "*recordings candidates"]
    """How much more the first samples cost from there than from the best start; infinite for one that was lost, was not
    tried, or led to the same motion as another."""
    posed: Float[Array, "*recordings candidates nx"]
    """The candidates as their first sample says."""


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
    best: Int[Array, ""]
    behind: Float[Array, " candidates"]
    followed: PyTree
    done: Bool[Array, ""]


def best_start(
    mechanism: AbstractMechanism,
    follow: Callable[[Float[Array, " nx"], Int[Array, ""], Int[Array, ""]], tuple[Scalar, Array, Coordinates, PyTree]],
    blank: PyTree,
    starts: Float[Array, "candidates nx"],
    tried: Bool[Array, " candidates"],
    given: Bool[Array, ""],
    through: Bool[Array, ""],
    steps: Int[Array, ""],
) -> tuple[Starts, PyTree]:
    """The candidate from which the first samples cost least, and what following it through all steps gave.

    Every candidate is posed as its first sample says before they are compared: far from there a step may well be
    explained by a calibration that is out of all proportion. Candidates between which the first samples do not decide
    are followed longer; of those that led to the same motion the cheapest is kept, or the one that was given. A single
    candidate is not looked at before it is followed.

    Args:
        mechanism: What moves.
        follow: (first step, steps to follow, stage) → (cost of their samples, the first step as it is found,
            coordinates at their end, whatever else following gives); the only place in the program where it is called.
        blank: Zeros in the place of that.
        starts: The candidates.
        tried: Which of them are compared.
        given: The first of them was given.
        through: The best one is followed; otherwise what following gave stays blank.
        steps: Steps there are.
    """
    candidates = starts.shape[0]
    several, first = jnp.sum(tried) > 1, jnp.argmax(tried)
    begun = _Search(
        next=jnp.where(several, first, candidates),
        posings=jnp.where(several, _POSINGS, 0),
        moved=jnp.asarray(False),
        starts=starts,
        count=jnp.minimum(FIRST_STEPS, steps),
        running=tried,
        costs=jnp.full(candidates, jnp.inf, float),
        ends=jnp.zeros((candidates, mechanism.n)),
        best=first,
        behind=jnp.full(candidates, jnp.inf, float),
        followed=blank,
        done=jnp.asarray(False),
    )

    def advance(search: _Search) -> _Search:
        last = search.next >= candidates
        one = jnp.where(last, search.best, search.next)
        posed = search.posings == 0
        stage = jnp.where(last, Stage.chosen, jnp.where(posed, Stage.searching, Stage.posing))
        count = jnp.where(last, jnp.where(through, steps, 0), jnp.where(posed, search.count, 1))
        cost, first, end, followed = follow(search.starts[one], count, stage)
        cost = jnp.where(jnp.all(jnp.isfinite(end)), cost, jnp.inf)
        before = search.starts[one]
        first = jnp.where(posed | ~jnp.all(jnp.isfinite(first)), before, first)
        n = mechanism.n
        search = search._replace(
            starts=search.starts.at[one].set(first),
            moved=search.moved | (distances(mechanism, before[:n], first[None, :n])[0] > _ALIKE),
            costs=jnp.where(last, search.costs, search.costs.at[one].set(cost)),
            ends=jnp.where(last, search.ends, search.ends.at[one].set(end)),
            followed=followed,
            done=last,
        )
        behind = search.running & (jnp.arange(candidates) > one)
        round_over = ~last & ~jnp.any(behind)
        search = search._replace(
            next=jnp.where(last, candidates, jnp.argmax(behind)),
            posings=jnp.where(round_over & ~posed, jnp.where(search.moved, search.posings - 1, 0), search.posings),
            moved=search.moved & ~round_over,
        )
        decided = _decided(mechanism, search, given, steps, posed)
        decide = round_over & (search.posings == 0)
        return jax.tree.map(lambda new, old: jnp.where(decide, new, old), decided, search)

    found = while_loop(lambda search: ~search.done, advance, begun)
    return Starts(found.best, found.behind, found.starts), found.followed


def _decided(
    mechanism: AbstractMechanism,
    search: _Search,
    given: Bool[Array, ""],
    steps: Int[Array, ""],
    followed: Bool[Array, ""],
) -> _Search:
    """After all of the running candidates were posed or followed: which of them go on, or that one is the best."""
    tried = jnp.where(search.running, search.costs, jnp.inf)
    alike = _ALIKE * (1 + jnp.min(tried))
    # Of those that are alike the one that was given, or the one that is nearest to the drawing.
    poses, candidates = search.starts[:, : mechanism.n], tried.size
    far = alike * distances(mechanism, mechanism.reference, poses)
    order = jnp.argsort(jnp.where(given & (jnp.arange(candidates) == 0), -jnp.inf, tried + far))

    def keep(place, found):
        kept, tried = found
        one, ends = order[place], search.ends
        turned = distances(mechanism, ends[one], ends, turns=False) <= SAME
        turned &= followed & (jnp.abs(tried - tried[one]) <= _TURNED)
        near = (distances(mechanism, ends[one], ends) <= SAME) | turned
        own = jnp.isfinite(tried[one]) & ~jnp.any(near & kept)
        least = jnp.min(jnp.where(near, tried, jnp.inf))
        return kept.at[one].set(own), jnp.where(own, tried.at[one].set(least), tried)

    kept, tried = jax.lax.fori_loop(0, candidates, keep, (jnp.zeros(candidates, bool), tried))
    best = jnp.argmin(jnp.where(kept, tried + far, jnp.inf))
    close = kept & (~followed | (tried < tried[best] + DECIDED))
    behind = jnp.where(kept, tried - tried[best], jnp.inf)
    behind = jnp.where(search.running, behind, search.behind)
    over = (jnp.sum(close) < 2) | (followed & (search.count >= steps))
    return search._replace(
        next=jnp.where(over, candidates, jnp.argmax(close)),
        count=jnp.where(followed, jnp.minimum(_LONGER * search.count, steps), search.count),
        running=close,
        best=best,
        behind=behind,
    )
