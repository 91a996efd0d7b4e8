"""Where a recorded motion began: the start that its first samples agree with best."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.errors import AssemblyError
from fgmbs.kinematics import assemble
from fgmbs.kinematics.closure import Closure
from fgmbs.kinematics.search import is_proper
from fgmbs.mechanisms.base import AbstractMechanism, prepared
from fgmbs.problems.smoothed_motion import Branch
from fgmbs.typing import Coordinates

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
    extent = max(float(np.max(np.abs(np.asarray(mechanism.reference)))), np.pi)
    throws = np.random.default_rng(0).uniform(-extent, extent, (_GUESSES, mechanism.nv))
    poses, closed = _close(mechanism, jnp.asarray(throws, mechanism.reference.dtype))
    poses = poses[np.asarray(closed)]
    if first is None and len(poses) == 0:
        raise AssemblyError("no configuration was found that satisfies the constraints; give a start")
    chosen = [poses[0] if first is None else first]
    while len(chosen) < _CANDIDATES and len(poses) > 0:
        distance = np.min([_distances(mechanism, other, poses) for other in chosen], axis=0)
        if distance.max() < _SAME * extent:
            break
        chosen.append(poses[int(np.argmax(distance))])
    return chosen


def _distances(mechanism: AbstractMechanism, q: Coordinates, others: Float[Array, "others n"]) -> np.ndarray:
    """How far others are from q in local coordinates: a quaternion and its negative are one attitude."""
    return np.linalg.norm(jax.vmap(lambda other: mechanism.local(q, other))(others), axis=1)


@eqx.filter_jit
def _close(mechanism: AbstractMechanism, throws: Float[Array, "guesses nv"]):
    """The drawing, thrown and led onto the constraints, and which of these guesses got there."""
    mechanism = prepared(mechanism)
    zero = jnp.zeros((), throws.dtype)

    def one(throw):
        guess = mechanism.retract(mechanism.reference, throw)
        size = jnp.max(jnp.abs(mechanism.reference)) + jnp.max(jnp.abs(throw))
        found = Closure().close(mechanism, guess, zero, size=size, limit=_CORRECTIONS, damping=_DAMPING)
        return found.q, found.closed & is_proper(mechanism, found.q)

    return jax.vmap(one)(throws)


def best_start(
    mechanism: AbstractMechanism,
    poses: Sequence[Coordinates],
    attempt: Callable[[Coordinates, int], tuple[float, np.ndarray]],
    steps: int,
) -> tuple[Coordinates, tuple[Branch, ...]]:
    """The pose from which the first samples cost least, and all motions that were found, the best first.

    Poses between which the first samples do not decide are followed longer.

    Args:
        mechanism: What moves.
        poses: Where to begin.
        attempt: (pose, steps to follow) → (cost of their samples, coordinates at their end).
        steps: Steps there are.
    """
    count, given_up, running = min(_FIRST_STEPS, steps), [], [np.asarray(pose) for pose in poses]
    while True:
        tried = []
        for pose in running:
            cost, end = attempt(jnp.asarray(pose), count)
            tried.append(_Attempt(cost if np.all(np.isfinite(end)) else np.inf, pose, end))
        tried = _different(mechanism, sorted(tried, key=lambda one: one.cost))
        close = [one for one in tried if one.cost < tried[0].cost + _DECIDED]
        given_up = [one for one in tried if not one.cost < tried[0].cost + _DECIDED] + given_up
        if len(close) < 2 or count == steps:
            break
        running, count = [one.pose for one in close], min(_LONGER * count, steps)
    branches = [Branch(float(one.cost), tuple(float(x) for x in one.pose)) for one in [*close, *given_up]]
    return jnp.asarray(tried[0].pose), tuple(branch for branch in branches if np.isfinite(branch.cost))


class _Attempt(NamedTuple):
    cost: float
    pose: np.ndarray
    end: np.ndarray


def _different(mechanism: AbstractMechanism, tried: list[_Attempt]) -> list[_Attempt]:
    """The attempts that led to different motions; of those that led to the same one the best, which comes first."""
    kept: list[_Attempt] = []
    for one in tried:
        end = jnp.asarray(one.end)[None]
        near = (
            _distances(mechanism, jnp.asarray(other.end), end)[0] <= _SAME * (1 + np.linalg.norm(other.end))
            for other in kept
        )
        if not any(near):
            kept.append(one)
    return kept
