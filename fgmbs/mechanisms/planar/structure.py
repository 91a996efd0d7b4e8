"""What a planar mechanism is without its numbers."""

import functools
from collections.abc import Mapping

from fgmbs.errors import FgmbsError
from fgmbs.kinematics.mobility import degrees_of_freedom
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import MechanismDescription, VisualDescription
from fgmbs.mechanisms.planar.topology import planar_topology


class PlanarStructure:
    """Points, bodies, names, and expressions that tie numbers together; equal, whatever the numbers are.

    Two files that differ in numbers only, or in how bodies are drawn, are the same program. The degrees of freedom take
    part in the comparison: they decide the size of what is computed, and special lengths may leave a mechanism more of
    them than others do.

    Attributes:
        blank: The description with 0 for every independent number, and without how bodies are drawn.
        visuals: How each body is drawn.
        numbers: Independent numbers as described, by name …
        dof: … and the degrees of freedom with them, in a generic pose; None where it cannot be assembled.
        compared: What it is compared by, in this process and in others.
    """

    def __init__(
        self,
        blank: MechanismDescription,
        visuals: tuple[VisualDescription | None, ...],
        numbers: Mapping[str, float],
        dof: int | None,
    ):
        self.blank, self.visuals, self.numbers, self.dof = blank, visuals, dict(numbers), dof
        self.compared = blank, dof
        self._hash = hash(self.compared)

    @staticmethod
    def guessed(description: MechanismDescription) -> "PlanarStructure":
        """With as many degrees of freedom as independent constraints leave."""
        numbers = scopes.independent_numbers(description)
        blank = _blank(description)
        topology = planar_topology(blank)
        rows = sum(len(constraint.row_names) for group in topology.groups for constraint in group.members)
        visuals = tuple(body.visual for body in description.planar_bodies)
        return PlanarStructure(blank, visuals, numbers, topology.n - rows)

    @property
    def description(self) -> MechanismDescription:
        """The whole description, with the numbers as described."""
        return self.with_numbers(self.numbers)

    def with_numbers(self, numbers: Mapping[str, float]) -> MechanismDescription:
        """The description with other independent numbers."""
        return _drawn(scopes.with_numbers(self.blank, numbers), self.visuals)

    def with_dof(self, dof: int | None) -> "PlanarStructure":
        return self if dof == self.dof else PlanarStructure(self.blank, self.visuals, self.numbers, dof)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, PlanarStructure) and self.compared == other.compared

    def __repr__(self) -> str:
        return f"PlanarStructure({self.blank.name or 'mechanism'}, dof={self.dof})"


@functools.lru_cache(maxsize=256)
def _blank(description: MechanismDescription) -> MechanismDescription:
    zero = scopes.with_numbers(description, dict.fromkeys(scopes.independent_numbers(description), 0.0))
    return _drawn(zero, (None,) * len(zero.planar_bodies))


def _drawn(description: MechanismDescription, visuals: tuple[VisualDescription | None, ...]) -> MechanismDescription:
    """The description with other ways to draw its bodies."""
    bodies = [body.model_copy(update={"visual": v}) for body, v in zip(description.planar_bodies, visuals, strict=True)]
    return description.model_copy(update={"planar_bodies": tuple(bodies)})


def counted(mechanism) -> int | None:
    """Degrees of freedom of a mechanism in a generic pose, or None if it cannot be assembled."""
    try:
        return degrees_of_freedom(mechanism)
    except FgmbsError:
        return None
