"""How bad input, and a solve that fails, are reported."""


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

    def __reduce__(self):
        return type(self), (self.faults,)


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

    def __reduce__(self):
        return type(self), (str(self), self.result)


class Interrupted(FgmbsError, KeyboardInterrupt):
    """Ctrl-C during a long run.

    Attributes:
        result: What was done until then.
    """

    def __init__(self, message: str, result: object):
        super().__init__(message)
        self.result = result

    def __reduce__(self):
        return type(self), (str(self), self.result)
