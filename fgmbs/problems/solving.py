"""Every problem is prepared, solved and finished: `prepare_…` checks arguments, `solve` computes, `finish` tells."""

from functools import singledispatch
from typing import Any

from fgmbs.errors import ArgumentError

_MAKERS = "prepare_simulate, prepare_inverse_dynamics, prepare_hybrid_dynamics, prepare_smooth or prepare_identify"


@singledispatch
def solve(problem: Any) -> Any:
    """The solution of a problem, as a pure function of its arrays: for `jax.jit`, `jax.vmap`, derivatives and loops.

    It raises nothing that depends on a number; `status` of what it returns tells how it ended.

    Args:
        problem: Made by `prepare_simulate` (the solution is a `Simulation`), `prepare_inverse_dynamics` or
            `prepare_hybrid_dynamics` (a `DrivenMotion`), `prepare_smooth` (a `Solution` of arrays) or
            `prepare_identify` (an `Identified` of arrays, without derivatives). Other numbers of the same shapes in its
            place are another problem of the same compiled program.

    Raises:
        ArgumentError: It is no problem.
    """
    raise ArgumentError(f"problem: expected one made by {_MAKERS}; found {problem!r}")


@singledispatch
def finish(problem: Any, solution: Any, *, throw: bool = True, **options: Any) -> Any:
    """What the public call for this problem returns, if its solution is a good one.

    Args:
        problem: What was solved.
        solution: What `solve` returned; of an estimate, where it was found by `jax.vmap`, one member.
        throw: Raise if the solve failed; otherwise leave it to `status`.
        options: Of an estimate, `notes`: further remarks for the report; of an identification also `recordings`, which
            it is of.

    Raises:
        ArgumentError: It is no problem; or the solution shows that an argument is invalid.
        AssemblyError: The mechanism cannot be assembled.
        SolveError: The solve failed; its `result` holds what was reached.
    """
    raise ArgumentError(f"problem: expected one made by {_MAKERS}; found {problem!r}")
