"""How bad input is reported and how a solve ended."""

import equinox as eqx


class FgmbsError(Exception):
    """Base of every error that fgmbs raises on purpose."""


class DescriptionError(FgmbsError, ValueError):
    """A mechanism or experiment file is invalid.

    Attributes:
        faults: One line per fault, each `file:line:column: key.path: expected …; found …`.
    """

    def __init__(self, faults: list[str]):
        self.faults = list(faults)
        super().__init__("\n".join(self.faults))


class ArgumentError(FgmbsError, ValueError):
    """An argument of a public call is invalid; names the argument, the value found and what is accepted."""


class AssemblyError(FgmbsError, ValueError):
    """A mechanism cannot be put together; says how far it got and which constraint stays open."""


class SolveError(FgmbsError, RuntimeError):
    """A solve did not converge; says which step or member, how it ended and what to try.

    Attributes:
        result: What was reached.
    """

    def __init__(self, message: str, result: object):
        super().__init__(message)
        self.result = result


class Interrupted(FgmbsError, KeyboardInterrupt):
    """Ctrl-C during a long run.

    Attributes:
        result: What was done until then.
    """

    def __init__(self, message: str, result: object):
        super().__init__(message)
        self.result = result


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
