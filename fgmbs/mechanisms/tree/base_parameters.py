"""Base parameters: what torques tell of the inertial numbers of a robot."""

from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Float

from fgmbs.mechanisms.tree.kernels import compiled
from fgmbs.mechanisms.tree.robot import Robot

_MOMENTS = ("xx", "yy", "zz", "xy", "xz", "yz")
PARTS = ("mass", "moment.x", "moment.y", "moment.z", *(f"inertia.{part}" for part in _MOMENTS))
"""Inertial numbers of a body, as `fgmbs.tree.regressor` has them: mass [kg], first moments [kg m], and inertia about
the origin of the body [kg m²]."""
_NONE = 1e-9
"""Relative size of a singular value that is none."""
_SEEN = 1e-8
"""Least factor that is told."""


class BaseParameters(NamedTuple):
    """β = matrix π: as many combinations of standard numbers π as torques tell, each led by one of them."""

    names: tuple[str, ...]
    """Of π, by body."""
    leaders: tuple[int, ...]
    """Places in π of those that stand for β, the others being 0."""
    matrix: Float[np.ndarray, "base standard"]

    def texts(self) -> tuple[str, ...]:
        """Every combination in words."""
        found = []
        for row, leader in zip(self.matrix, self.leaders, strict=True):
            rest = [k for k in np.flatnonzero(np.abs(row) > _SEEN) if k != leader]
            found.append(self.names[leader] + "".join(f" {row[k]:+.6g} {self.names[k]}" for k in rest))
        return tuple(found)


def base_parameters_of(robot: Robot) -> BaseParameters:
    """See `fgmbs.tree.base_parameters`; the regressor is looked at in random motions."""
    topology, numbers = robot.of
    names = tuple(f"{link}.{part}" for link in topology.links for part in PARTS)
    samples = 4 * len(names) // max(robot.nv, 1) + 10
    rng = np.random.default_rng(0)
    shift, *rates = rng.normal(size=(3, samples, robot.nv))
    q = jax.vmap(lambda v: robot.retract(robot.reference, v))(np.pi * shift)
    rows = jax.vmap(lambda *state: compiled.regressor(topology, numbers, *state))(q, *rates)
    Y = np.asarray(rows).reshape(samples * robot.nv, len(names))
    size = np.linalg.norm(Y, axis=0)
    seen = size > _NONE * np.max(size, initial=0.0)
    size = np.where(seen, size, 1.0)
    R, order = scipy.linalg.qr(seen * Y / size, mode="r", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(R)) > _NONE))
    # The columns of the others are made of those of the leaders.
    others = scipy.linalg.solve_triangular(R[:rank, :rank], R[:rank, rank:])
    others = others / size[order[:rank], None] * size[order[rank:]]
    matrix = np.zeros((rank, len(names)))
    matrix[np.arange(rank), order[:rank]] = 1.0
    matrix[:, order[rank:]] = others
    inward = np.argsort(order[:rank])
    return BaseParameters(names, tuple(int(k) for k in order[:rank][inward]), matrix[inward])
