"""What joints transmit: wrenches on the links after them by the links before them."""

import jax.numpy as jnp
import numpy as np

from fgmbs.mechanisms.base import Wrench
from fgmbs.mechanisms.tree.kernels import closures
from fgmbs.mechanisms.tree.kernels.inverse import net_wrenches
from fgmbs.mechanisms.tree.kernels.motion import Columns, placed
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.kernels.vectors import skew
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.typing import Constraints, Coordinates, Velocities


def transmitted(
    topology: TreeTopology,
    numbers: TreeNumbers,
    joint: int,
    q: Coordinates,
    dq: Velocities,
    ddq: Velocities,
    lambda_: Constraints,
) -> Wrench:
    """The wrench through a joint: what moves all links after it against their weight, less what closures give them.

    The force of a closure on them is −λ times the rate of Φ as they move on as one body.
    """
    after = topology.ancestry[joint]
    at, n, f = net_wrenches(topology, numbers, q, dq, ddq)
    here = at.p[:, joint]
    force = f @ after
    moment = n @ after - jnp.cross(here, force)
    there = placed(topology, numbers, q) if topology.floats else at
    if topology.closures:
        seen = at if closures.are_relative(topology) else there
        axes, none = jnp.eye(3, dtype=q.dtype), jnp.zeros((3, 3), q.dtype)
        about = skew(seen.p[:, joint, None])[..., 0]
        as_one = Columns(jnp.hstack([axes, none]), jnp.hstack([about, axes]))
        rates = closures.rates(topology, numbers, seen, as_one, np.tile(after, (6, 1)))
        moment, force = moment + lambda_ @ rates[:, :3], force + lambda_ @ rates[:, 3:]
    return Wrench(force, moment, there.p[:, joint], at.R[..., joint])
