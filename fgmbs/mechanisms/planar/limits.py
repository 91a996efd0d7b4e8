"""Numbers that no mechanism can have."""

import math
from collections.abc import Iterator, Mapping

from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import MechanismDescription
from fgmbs.mechanisms.planar.expressions import Number

POSITIVE = frozenset({"mass", "length", "I0", "width", "stribeck_speed"})
NOT_NEGATIVE = frozenset({"stiffness", "free_length", "damping", "coulomb", "stribeck", "quadratic", "rotor_inertia"})
ACCEPTED = (
    dict.fromkeys(POSITIVE, "a positive number")
    | dict.fromkeys(NOT_NEGATIVE, "zero or a positive number")
    | dict.fromkeys(("ratio", "gear"), "a ratio other than zero")
    | {"asymmetry": "a number from -1 to 1"}
)
"""What a number may be, by its key."""
ROUNDING = 1e-9
"""Relative slack of a limit, for numbers that were rounded when they were written down."""


def beyond_limits(description: MechanismDescription, numbers: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """(name, what is accepted) of each number that is impossible, as `crank.mass`."""
    for name, value in numbers.items():
        owner, _, key = name.rpartition(".")
        if owner and key in ACCEPTED and (math.isnan(value) or not within(key, value)):
            yield name, ACCEPTED[key]
    for i in range(len(description.planar_bodies)):
        name = scopes.owner(description, "planar_bodies", i)
        if least := inertia_missed(numbers, name):
            yield f"{name}.I0", f"at least mass*|cog|^2 = {least:.6g} kg·m² about the first point (parallel axes)"


def within(key: str, value: float) -> bool:
    """Whether a number of this key may have this value, or none."""
    if math.isnan(value):
        return True
    if key in POSITIVE:
        return value > 0
    if key in NOT_NEGATIVE:
        return value >= 0
    return value != 0 if key in ("ratio", "gear") else abs(value) <= 1


def inertia_about_centre(numbers: Mapping[str, Number], body: str) -> Number:
    """Moment of inertia of a body about its centre of mass; negative where its numbers are impossible [kg·m²]."""
    mass, I0, a, b = (numbers[f"{body}.{key}"] for key in ("mass", "I0", "cog.x", "cog.y"))
    return I0 - mass * (a * a + b * b)


def inertia_missed(numbers: Mapping[str, float], body: str) -> float | None:
    """What the moment of inertia of a body about its first point is below: that with all of its mass in its centre.

    None of one that is not, or that is wrong in other ways [kg·m²].
    """
    mass, I0, a, b = (numbers[f"{body}.{key}"] for key in ("mass", "I0", "cog.x", "cog.y"))
    least = mass * (a * a + b * b)
    return least if mass > 0 and 0 < I0 < least * (1 - ROUNDING) else None
