"""`solve` and `finish` for every question there is: each says in its own module what they do with its problem."""

from fgmbs.problems.driven import determined_motion, hybrid_dynamics, inverse_dynamics
from fgmbs.problems.identify import identify
from fgmbs.problems.simulation import simulate
from fgmbs.problems.smooth import result, rounds
from fgmbs.problems.solving import finish, solve

QUESTIONS = (simulate, determined_motion, inverse_dynamics, hybrid_dynamics, rounds, result, identify)
"""Modules that say it."""
__all__ = ["QUESTIONS", "finish", "solve"]
