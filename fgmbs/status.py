"""How an iteration ended."""

import equinox as eqx
import numpy as np


class Status(eqx.Enumeration):
    """How an iteration ended."""

    running = "has not ended yet"
    converged = "converged"
    stalled = "stalled: no damping gives a step that lowers the cost"
    iteration_limit = "reached the iteration limit before the tolerance"
    non_finite = "the residual is not finite at the starting point"
    not_assembled = "the starting point does not satisfy the constraints"
    not_driven = "the actuators cannot make the desired motion"
    out_of_reach = "the desired motion leaves what the mechanism can reach"
    contradictory = "the velocities of the start contradict the constraints or each other"


def is_one_of(status: Status, *those: Status) -> bool:
    """Whether a status that is known is one of those; compiles nothing."""
    return int(np.asarray(status._value)) in [int(one._value) for one in those]
