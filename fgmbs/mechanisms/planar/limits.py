"""Numbers that no mechanism can have."""

from collections.abc import Iterator, Mapping

from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import MechanismDescription

POSITIVE = frozenset({"mass", "length", "I0"})
NOT_NEGATIVE = frozenset({"stiffness", "free_length", "damping"})
ROUNDING = 1e-9
"""Relative slack of a limit, for numbers that were rounded when they were written down."""


def beyond_limits(description: MechanismDescription, numbers: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """(name, what is accepted) of each number that is impossible, as `crank.mass`."""
    for name, value in numbers.items():
        owner, _, key = name.rpartition(".")
        if owner and key in POSITIVE and not value > 0:
            yield name, "a positive number"
        elif owner and key in NOT_NEGATIVE and not value >= 0:
            yield name, "zero or a positive number"
        elif owner and key == "ratio" and value == 0:
            yield name, "a ratio other than zero"
    for i in range(len(description.planar_bodies)):
        name = scopes.owner(description, "planar_bodies", i)
        if least := inertia_missed(numbers, name):
            yield f"{name}.I0", f"at least mass*|cog|^2 = {least:.6g} kg·m² about the first point (parallel axes)"


def inertia_missed(numbers: Mapping[str, float], body: str) -> float | None:
    """What the moment of inertia of a body about its first point is below: that with all of its mass in its centre.

    None of one that is not, or that is wrong in other ways [kg·m²].
    """
    mass, I0, a, b = (numbers[f"{body}.{key}"] for key in ("mass", "I0", "cog.x", "cog.y"))
    least = mass * (a * a + b * b)
    return least if mass > 0 and 0 < I0 < least * (1 - ROUNDING) else None
