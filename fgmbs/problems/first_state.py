"""Where a recorded motion began: the start that its first samples agree with best."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.errors import AssemblyError
from fgmbs.kinematics import assemble
from fgmbs.kinematics.assembly import is_proper
from fgmbs.kkt import kkt_inverse
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.smoothed_motion import Branch
from fgmbs.typing import Coordinates

_GUESSES = 64
_CANDIDATES = 8
_CORRECTIONS = 40
_CLOSED = 1e-9
"""Error of the constraints, relative to the coordinates, of a guess that could be assembled."""
_SAME = 1e-2
"""Distance, relative to the coordinates, below which two starts have led to the same motion."""


def candidate_poses(mechanism: AbstractMechanism) -> list[Coordinates]:
    """Assembled configurations far from each other, the one as drawn first."""
    try:
        first = assemble(mechanism)
    except AssemblyError:
        first = None
    extent = max(float(np.max(np.abs(np.asarray(mechanism.reference)))), np.pi)
    throws = np.random.default_rng(0).uniform(-extent, extent, (_GUESSES, mechanism.n))
    poses, closed = _close(mechanism, mechanism.reference + jnp.asarray(throws, mechanism.reference.dtype))
    poses = list(np.asarray(poses)[np.asarray(closed)])
    chosen = [np.asarray(first)] if first is not None else poses[:1]
    if not chosen:
        raise AssemblyError("no configuration was found that satisfies the constraints; give a start")
    while len(chosen) < _CANDIDATES and poses:
        distance = np.min([[np.linalg.norm(pose - other) for other in chosen] for pose in poses], axis=1)
        if distance.max() < _SAME * extent:
            break
        chosen.append(poses[int(np.argmax(distance))])
    return [jnp.asarray(pose) for pose in chosen]


@eqx.filter_jit
def _close(mechanism: AbstractMechanism, guesses: Float[Array, "guesses n"]):
    """The guesses led onto the constraints, and which of them got there."""
    mechanism = mechanism.evaluated()
    zero = jnp.zeros((), guesses.dtype)
    identity = jnp.eye(mechanism.nv, dtype=guesses.dtype)

    def close(q):
        def correct(_, q):
            S = kkt_inverse(identity, mechanism.constraint_jacobian(q, zero)).S
            return mechanism.retract(q, -S @ mechanism.constraints(q, zero))

        q = jax.lax.fori_loop(0, _CORRECTIONS, correct, q)
        missed = jnp.linalg.norm(mechanism.constraints(q, zero))
        return q, (missed <= _CLOSED * (1 + jnp.sum(q**2))) & is_proper(mechanism, q)

    return jax.vmap(close)(guesses)


def best_start(
    poses: Sequence[Coordinates], attempt: Callable[[Coordinates], tuple[float, np.ndarray]]
) -> tuple[Coordinates, tuple[Branch, ...]]:
    """The pose from which the first samples cost least, and all motions that were found, the best first.

    Args:
        poses: Where to begin.
        attempt: pose → (cost of the first samples, coordinates at their end).
    """
    tried = []
    for pose in poses:
        cost, end = attempt(pose)
        if np.isfinite(cost) and np.all(np.isfinite(end)):
            tried.append((cost, np.asarray(pose), end))
    if not tried:
        return poses[0], ()
    tried.sort(key=lambda item: item[0])
    branches, ends = [], []
    for cost, pose, end in tried:
        if all(np.linalg.norm(end - other) > _SAME * (1 + np.linalg.norm(other)) for other in ends):
            branches.append(Branch(float(cost), tuple(float(x) for x in pose)))
            ends.append(end)
    return jnp.asarray(tried[0][1]), tuple(branches)
