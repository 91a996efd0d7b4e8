"""What only the whole of a description shows: references, expressions, values and geometry, connections."""

import math
from collections.abc import Iterable, Iterator

from fgmbs.io.faults import Fault
from fgmbs.io.planar import references
from fgmbs.io.planar.evaluation import POSITIVE_DRAWN, Evaluation, wanted
from fgmbs.mechanisms.planar import description as schema
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import MechanismDescription, Path
from fgmbs.mechanisms.planar.limits import ACCEPTED, ROUNDING, inertia_missed, within


def faults(description: MechanismDescription, incomplete: Iterable[str] = ()) -> list[Fault]:
    """All faults of a description whose parts are each well formed.

    Args:
        incomplete: Sections that lost entries, so that nothing can be said about what is missing there.
    """
    gaps = set(incomplete)
    coordinates_known = not gaps & {"points", "relative_coordinates"}
    found = [*references.names(description), *references.references(description, coordinates=coordinates_known)]
    unusable = {fault.path[:2] for fault in found if fault.path[-1] != "name"}
    values = Evaluation(description, unusable, angles=coordinates_known)
    found += values.faults
    for check in (_bodies, _drawn, _constraints, _links, _springs_and_dampers, _motors):
        found += (fault for fault in check(description, values) if fault.path[:2] not in unusable)
    if all(point.fixed for point in description.points):
        found.append(Fault(("points",), "expected at least one free point; found that all are fixed"))
    if not gaps & {"points", "planar_bodies", "relative_coordinates"}:
        found += references.actuators(description, unusable)
    if not unusable and not gaps:
        found += references.connections(description)
    return found


def _bodies(description: MechanismDescription, values: Evaluation) -> Iterator[Fault]:
    for i, body in enumerate(description.planar_bodies):
        name, path = scopes.owner(description, "planar_bodies", i), ("planar_bodies", i)
        drawn = body.length == "auto" or len(body.points) > 2
        wrong = list(_apart(values, body.points, (*path, "points"), f"body '{name}'")) if drawn else []
        for key in ("mass",) if drawn else ("length", "mass"):
            wrong += _not_positive(description, values, (*path, key), f"{name}.{key}")
        yield from wrong
        if wrong and isinstance(body.I0, str):
            continue  # an inertia that follows from them is wrong for the same reason
        yield from _not_positive(description, values, (*path, "I0"), f"{name}.I0")
        if least := inertia_missed(values.numbers, name):
            mass, a, b = (values.numbers[f"{name}.{key}"] for key in ("mass", "cog.x", "cog.y"))
            text = (
                f"expected at least mass*|cog|^2 = {least:.6g} kg·m² about the first point of body '{name}' (parallel "
                f"axes: {mass:g} kg, centre of mass at {math.hypot(a, b):.6g} m); found {values.found(f'{name}.I0')}"
            )
            yield Fault((*path, "I0"), text)


def _not_positive(description: MechanismDescription, values: Evaluation, path: Path, name: str) -> Iterator[Fault]:
    if values.numbers[name] <= 0:
        yield Fault(path, f"expected {wanted(description, path)}; found {values.found(name)}")


def _drawn(description: MechanismDescription, values: Evaluation) -> Iterator[Fault]:
    for quantity in scopes.drawn_quantities(description):
        if quantity.path[2:] in POSITIVE_DRAWN:
            yield from _not_positive(description, values, quantity.path, quantity.name)


def _constraints(description: MechanismDescription, values: Evaluation) -> Iterator[Fault]:
    for i, entry in enumerate(description.constraints):
        name, path = scopes.owner(description, "constraints", i), ("constraints", i)
        match entry:
            case schema.DistanceDescription(points=points, length=length):
                if length == "auto":
                    yield from _apart(values, points, (*path, "points"), f"'{name}'")
                elif values.numbers[f"{name}.length"] <= 0:
                    yield Fault(
                        (*path, "length"), f"expected a positive length; found {values.found(f'{name}.length')}"
                    )
            case schema.FixedSliderDescription():
                xa, ya, xb, yb = (values.numbers[f"{name}.line.{key}"] for key in ("xa", "ya", "xb", "yb"))
                if xa == xb and ya == yb:
                    yield Fault((*path, "line"), f"expected two different positions; found ({xa:g}, {ya:g}) twice")
            case schema.MobileSliderDescription(line=points):
                yield from _apart(values, points, (*path, "line"), f"the line of '{name}'")
            case schema.RigidDescription(points=points):
                yield from _apart(values, points, (*path, "points"), f"the frame of '{name}'")
            case schema.GearDescription():
                if values.numbers[f"{name}.ratio"] == 0:
                    text = f"expected a ratio other than zero; found {values.found(f'{name}.ratio')}"
                    yield Fault((*path, "ratio"), text)


def _links(description: MechanismDescription, values: Evaluation) -> Iterator[Fault]:
    for i, angle in enumerate(description.relative_coordinates):
        path = ("relative_coordinates", i, "points")
        if isinstance(angle, schema.AbsoluteAngleDescription):
            yield from _apart(values, angle.points, path, "the link of an angle")
        else:
            for k, link in enumerate(angle.points):
                yield from _apart(values, link, (*path, k), "the link of an angle")


def _springs_and_dampers(description: MechanismDescription, values: Evaluation) -> Iterator[Fault]:
    for section in ("springs", "dampers"):
        for i in range(len(getattr(description, section))):
            name = scopes.owner(description, section, i)
            yield from _beyond(values, name, (section, i))
    for i, entry in enumerate(description.dampers):
        there = [key for key in schema.FRICTION if getattr(entry, key, None) is not None]
        for key, needs in _NEEDS.items():
            because = [one for one in there if one in needs]
            if because and key not in there:
                yield Fault(("dampers", i), f"expected {key}, because there is {because[0]}; found none")


_NEEDS = {
    "width": ("coulomb", "stribeck", "asymmetry", "cosines", "sines"),
    "stribeck": ("stribeck_speed",),
    "stribeck_speed": ("stribeck",),
}
"""Numbers of friction that others make no sense without."""


def _motors(description: MechanismDescription, values: Evaluation) -> Iterator[Fault]:
    for i in range(len(description.actuators)):
        yield from _beyond(values, scopes.owner(description, "actuators", i), ("actuators", i))


def _beyond(values: Evaluation, name: str, path: Path) -> Iterator[Fault]:
    """Numbers of an entry that it cannot have."""
    for key in sorted(ACCEPTED):
        if not within(key, values.numbers.get(f"{name}.{key}", math.nan)):
            yield Fault((*path, key), f"expected {ACCEPTED[key]}; found {values.found(f'{name}.{key}')}")


def _apart(values: Evaluation, points: tuple[int, ...], path: Path, what: str) -> Iterator[Fault]:
    """The first two of these points must not be drawn at the same place."""
    i, j = points[:2]
    x, y = values.at(i)
    if i != j and math.dist((x, y), values.at(j)) <= ROUNDING * max(abs(x), abs(y)):
        text = f"expected two points drawn apart; found {i} and {j} of {what} both at ({x:g}, {y:g}), a zero length"
        yield Fault(path, text)
