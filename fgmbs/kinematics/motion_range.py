"""The range of motion: configurations along the values of one coordinate."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import finite_number
from fgmbs.compiled.program import program
from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.kinematics.assembly import assemble
from fgmbs.kinematics.base import AbstractKinematics
from fgmbs.kinematics.mobility import mobility
from fgmbs.kinematics.names import Numbers, coordinate_index
from fgmbs.kinematics.tracking import PATH_STEPS, track

_STEP = 0.02
"""Longest step between two position problems, relative to the reach of the coordinate."""
_REFINEMENTS = 3
"""Divisions, into 64 parts or more, of the step in which a dead point lies."""

_track = program(track)


class DeadPointError(AssemblyError):
    """A sweep came to a value that the coordinate cannot take.

    Attributes:
        q: Configurations up to there (reached, n) [m, rad].
        values: The values they belong to (reached,).
        limit: The last value that can be reached [m, rad].
    """

    def __init__(self, message: str, q: np.ndarray, values: np.ndarray, limit: float):
        self.q, self.values, self.limit = q, values, limit
        super().__init__(message)


def sweep(
    mechanism: AbstractKinematics,
    name: str,
    values: Numbers,
    start: Numbers | None = None,
    *,
    t: float = 0.0,
) -> Float[Array, "steps n"]:
    """The configurations along values of one coordinate, on the branch of the first.

    Position problems with continuation: each starts from the one before, moved along the tangent; long intervals are
    divided. Any coordinate can be swept; where it turns round, at a dead point, the sweep ends.

    Args:
        name: The coordinate to move.
        values: Its values, in order [m, rad].
        start: Configuration from which to assemble the first one; the reference by default [m, rad].
        t: Time [s].

    Raises:
        ArgumentError: An invalid argument, or a mechanism without degree of freedom.
        AssemblyError: No configuration has the first value.
        DeadPointError: A later value cannot be reached: says where it ended, and has what was reached.
    """
    i = coordinate_index(mechanism, name, "name")
    targets = np.asarray(
        [finite_number(value, f"values[{k}]") for k, value in enumerate(np.asarray(values).ravel().tolist())]
    )
    if targets.size == 0:
        raise ArgumentError("values: expected at least one value; found none")
    q = assemble(mechanism, {name: targets[0]}, start=start, t=t)
    longest = _STEP * float(mechanism.reach[i] if mechanism.nv == mechanism.n else jnp.max(mechanism.reach))
    pieces = max(1, int(np.ceil(np.max(np.abs(np.diff(targets)), initial=0.0) / longest)))
    fine = np.interp(np.arange(1, (len(targets) - 1) * pieces + 1) / pieces, np.arange(len(targets)), targets)
    path, reached = _follow_one(mechanism, q, t, i, np.concatenate([targets[:1], fine]))
    if reached == len(fine) + 1:
        return jnp.asarray(path[::pieces])
    if mobility(mechanism, q, t).dof == 0:
        raise ArgumentError(
            f"the mechanism has no degree of freedom, so that {name!r} cannot be swept; remove a constraint or a "
            "prescribed motion"
        )
    kept = (reached - 1) // pieces + 1
    limit = _dead_point(mechanism, path[reached - 1], t, i, fine[reached - 1])
    raise DeadPointError(
        f"{name!r} cannot go beyond {limit:.6g} towards {targets[kept]:.6g} on this branch: a dead point; {kept} of "
        f"{len(targets)} values were reached. Choose values on this side of it, or sweep another coordinate through it",
        path[::pieces][:kept],
        targets[:kept],
        limit,
    )


def _follow_one(mechanism, q, t, i, values) -> tuple[np.ndarray, int]:
    """`track` for coordinate i along `values`: (configurations reached, their number)."""
    # Filled up by standing still, so that paths of similar length share one compilation.
    filled = np.pad(values, (0, -len(values) % PATH_STEPS), mode="edge")
    dtype = mechanism.reference.dtype
    path = jnp.asarray(filled[:, None], dtype)
    tracked = _track(mechanism, jnp.asarray(q), jnp.full(len(filled), t, dtype), (i,), path)
    reached = int(np.sum(np.asarray(tracked.reached)[: len(values)]))
    return np.asarray(tracked.q)[:reached], reached


def _dead_point(mechanism, q, t, i, beyond: float) -> float:
    """The last value of coordinate i that can be reached between its value in q and `beyond`, which cannot."""
    for _ in range(_REFINEMENTS):
        values = np.linspace(q[i], beyond, PATH_STEPS)
        path, reached = _follow_one(mechanism, q, t, i, values)
        if reached == 0 or reached == PATH_STEPS:  # within rounding
            break
        q, beyond = path[-1], values[reached]
    return float(q[i])
