"""The coordinate that a sensor reads."""

from fgmbs.errors import ArgumentError
from fgmbs.kinematics.names import coordinate_index
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.planar import PlanarMechanism


def place_of(mechanism: AbstractMechanism, name: str, unit: str, per: str = "") -> int:
    """Index in q of the coordinate `name`, which a sensor reads in `unit`.

    Args:
        mechanism: The mechanism.
        name: The coordinate.
        unit: Unit of the reading: that of the coordinate and `per`.
        per: "/s" for a velocity.

    Raises:
        ArgumentError: There is none, or its unit is another one.
    """
    place = coordinate_index(mechanism, name, "of")
    if isinstance(mechanism, PlanarMechanism):  # other families do not tell
        angles = len(mechanism.description.relative_coordinates)
        kind, own = ("an angle", "rad") if place >= mechanism.n - angles else ("a length", "m")
        if unit != own + per:
            raise ArgumentError(f"unit: expected '{own}{per}' for {name!r}, which is {kind}; found {unit!r}")
    return place
