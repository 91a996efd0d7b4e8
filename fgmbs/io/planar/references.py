"""Names and indices of a description that lead nowhere or are there twice, and parts that hang on nothing."""

from collections.abc import Iterator, Set

from fgmbs.arguments import nearest
from fgmbs.io.faults import Fault
from fgmbs.mechanisms.planar import description as schema
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import MechanismDescription, Path


def names(description: MechanismDescription) -> Iterator[Fault]:
    for section in scopes.OWNERS:
        owners = [scopes.owner(description, section, i) for i in range(len(getattr(description, section)))]
        for i, name in enumerate(owners):
            if name in owners[:i]:
                first = owners.index(name)
                yield Fault((section, i, "name"), f"expected a name of its own; found '{name}', as {section}[{first}]")
    coordinates = description.coordinate_names
    first_angle = len(coordinates) - len(description.relative_coordinates)
    for k, name in enumerate(coordinates[first_angle:]):
        if name in coordinates[: first_angle + k]:
            text = f"expected a name of its own; found '{name}', which is another coordinate"
            yield Fault(("relative_coordinates", k, "name"), text)
    taken = {*scopes.point_definitions(description, {}), *scopes.BODY_KEYS, "auto"}
    for name, _ in description.parameters:
        if name in taken or (name.startswith("length1") and name[7:].isdigit()):
            kind = "a coordinate of a point" if name[0] in "xy" else "a word of body expressions"
            yield Fault(("parameters", name), f"expected another name; found '{name}', which is {kind}", of_key=True)


def references(description: MechanismDescription, *, coordinates: bool) -> Iterator[Fault]:
    """Indices and coordinate names that lead nowhere; the same point where different ones are needed."""
    counts = {"point": len(description.points), "body": len(description.planar_bodies)}
    for section in (*scopes.OWNERS, "relative_coordinates"):
        for i, entry in enumerate(getattr(description, section)):
            for path, kind, index in _indices(entry):
                if index >= counts[kind]:
                    text = f"there is no {kind} {index}; the file defines {_range(counts[kind])}"
                    yield Fault((section, i, *path), text)
            yield from (Fault((section, i, *path), text) for path, text in _repetitions(entry))
            if coordinates:
                yield from _coordinates(description, section, i, entry)
    for name, _ in description.initial_velocities if coordinates else ():
        if name not in description.coordinate_names:
            text = f"there is no coordinate '{name}'{nearest(name, description.coordinate_names, 'coordinates')}"
            yield Fault(("initial_velocities", name), text, of_key=True)


def actuators(description: MechanismDescription, unusable: Set[Path]) -> Iterator[Fault]:
    """Actuators that can move nothing, and those that are called like a coordinate which is not theirs.

    Args:
        unusable: Entries whose references lead nowhere.
    """
    fixed = {i for i, point in enumerate(description.points) if point.fixed}
    for i, (name, entry) in enumerate(zip(description.actuator_names, description.actuators, strict=True)):
        path = ("actuators", i)
        if path in unusable:
            continue
        match entry:
            case schema.PointsActuatorDescription(points=points) if fixed.issuperset(points):
                text = f"expected a free point; found that points {points[0]} and {points[1]} are both fixed"
                yield Fault((*path, "points"), text)
            case schema.BodyActuatorDescription(body=body):
                if fixed.issuperset(description.planar_bodies[body].points[:2]):
                    called = scopes.owner(description, "planar_bodies", body)
                    text = f"expected a body that can turn; found '{called}', whose first two points are both fixed"
                    yield Fault((*path, "body"), text)
        own = getattr(entry, "angle", None) or getattr(entry, "coordinate", None)
        if name in description.coordinate_names and name != own:
            text = f"expected a name of its own; found '{name}', a coordinate that the actuator does not act on"
            yield Fault((*path, "name"), text)


def _indices(entry: object) -> Iterator[tuple[Path, str, int]]:
    for key in ("points", "point", "line", "body"):
        value = getattr(entry, key, None)
        if isinstance(entry, schema.FixedSliderDescription) and key == "line":
            continue
        for path, index in _leaves(value):
            yield (key, *path), "body" if key == "body" else "point", index


def _leaves(value: object) -> Iterator[tuple[Path, int]]:
    if isinstance(value, tuple):
        for k, part in enumerate(value):
            yield from (((k, *path), index) for path, index in _leaves(part))
    elif isinstance(value, int):
        yield (), value


def _repetitions(entry: object) -> Iterator[tuple[Path, str]]:
    lists: list[tuple[Path, tuple]] = []
    match entry:
        case schema.RelativeAngleDescription(points=(first, second)):
            lists = [(("points", 0), first), (("points", 1), second)]
            if set(first) == set(second):
                yield ("points", 1), f"expected another link than the first; found points {list(second)} again"
        case schema.MobileSliderDescription(line=line, point=point):
            lists = [(("line",), line)]
            if point in line:
                yield ("point",), f"expected a point other than those of its line; found point {point} in both"
        case schema.RigidDescription(points=points, point=point):
            lists = [(("points",), points)]
            if point in points:
                yield ("point",), f"expected a point other than those of its frame; found point {point} in both"
        case schema.GearDescription(angles=angles):
            lists = [(("angles",), angles)]
        case _:
            lists = [(("points",), getattr(entry, "points", ()))]
    for path, items in lists:
        for k, item in enumerate(items):
            if item in items[:k]:
                yield (*path, k), f"expected different {path[0]}; found {item!r} twice"


def _coordinates(description: MechanismDescription, section: str, i: int, entry: object) -> Iterator[Fault]:
    angles = description.coordinate_names[2 * sum(not p.fixed for p in description.points) :]
    used: list[tuple[Path, str]] = []
    if isinstance(entry, schema.GearDescription):
        used = [(("angles", k), name) for k, name in enumerate(entry.angles)]
    elif isinstance(name := getattr(entry, "angle", None), str):
        used = [(("angle",), name)]
    for path, name in used:
        if name not in angles:
            yield Fault((section, i, *path), f"there is no angle '{name}'{nearest(name, angles, 'angles')}")
    name = getattr(entry, "coordinate", None)
    if isinstance(name, str) and name not in description.coordinate_names:
        advice = nearest(name, description.coordinate_names, "coordinates")
        yield Fault((section, i, "coordinate"), f"there is no coordinate '{name}'{advice}")


def _range(count: int) -> str:
    return "none" if count == 0 else "only 0" if count == 1 else f"0 to {count - 1}"


def connections(description: MechanismDescription) -> Iterator[Fault]:
    """Points and bodies that are connected to nothing."""
    groups, grounded = _groups(description)
    used = {
        p for section in ("planar_bodies", "constraints", "springs", "dampers") for p in _used(description, section)
    }
    for i, point in enumerate(description.points):
        if not point.fixed and i not in used:
            text = "expected a point of a body, spring, damper or constraint; found a free point that belongs to none"
            yield Fault(("points", i), text)
    for i, body in enumerate(description.planar_bodies):
        group = groups[body.points[0]]
        alone = not any(groups[other.points[0]] == group for other in description.planar_bodies if other is not body)
        if alone and group not in grounded and len(description.planar_bodies) > 1:
            name = scopes.owner(description, "planar_bodies", i)
            text = f"expected a connection of body '{name}'; found that it shares no point with the ground or a body"
            yield Fault(("planar_bodies", i), text)


def remarks(description: MechanismDescription) -> Iterator[Fault]:
    """What is possible but may not be meant."""
    groups, grounded = _groups(description)
    if not grounded:
        yield Fault(("points",), "no point is fixed and nothing else ties the mechanism to the ground: it flies freely")
    loose = {groups[body.points[0]] for body in description.planar_bodies} - grounded
    for group in sorted(loose) if grounded else ():
        points = [i for i, other in enumerate(groups) if other == group]
        yield Fault(("points", points[0]), f"the bodies of points {points} are not tied to the ground: they fly freely")
    of_bodies = _used(description, "planar_bodies") | _used(description, "constraints")
    anywhere = set().union(*(_used(description, section) for section in (*scopes.OWNERS, "relative_coordinates")))
    for i, point in enumerate(description.points):
        if not point.fixed and i not in of_bodies:
            yield Fault(("points", i), "the point belongs to no body, so it has no mass of its own")
        if point.fixed and i not in anywhere:
            yield Fault(("points", i), "the fixed point is used nowhere")


def _used(description: MechanismDescription, section: str) -> set[int]:
    return {index for entry in getattr(description, section) for _, kind, index in _indices(entry) if kind == "point"}


def _groups(description: MechanismDescription) -> tuple[list[int], set[int]]:
    """For every point the group of points it is connected with, and the groups tied to the ground."""
    ground = len(description.points)
    group = list(range(ground + 1))
    coordinates = description.coordinate_names
    count = len(description.relative_coordinates)
    angle_points = {
        name: [index for _, index in _leaves(angle.points)]
        + [ground] * isinstance(angle, schema.AbsoluteAngleDescription)
        for name, angle in zip(coordinates[len(coordinates) - count :], description.relative_coordinates, strict=True)
    }
    owners = [i for i, point in enumerate(description.points) if not point.fixed for _ in "xy"]
    coordinate_points = dict(zip(coordinates, ([i, ground] for i in owners), strict=False)) | angle_points
    ties: list[list[int]] = [[i, ground] for i, point in enumerate(description.points) if point.fixed]
    for section in ("planar_bodies", "constraints", "springs", "dampers", "actuators"):
        for entry in getattr(description, section):
            tie = [index for _, kind, index in _indices(entry) if kind == "point"]
            match entry:
                case schema.FixedSliderDescription():
                    tie.append(ground)
                case schema.GearDescription(angles=angles):
                    tie += [index for angle in angles for index in angle_points[angle]]
                case schema.MotionDescription(coordinate=coordinate):
                    tie += coordinate_points[coordinate]
                case (
                    schema.AngularSpringDescription(angle=angle)
                    | schema.AngularDamperDescription(angle=angle)
                    | schema.AngleActuatorDescription(angle=angle)
                ):
                    tie += angle_points[angle]
                case schema.CoordinateActuatorDescription(coordinate=coordinate):
                    # On a point it is a force from outside, which ties nothing, as `forces` do not.
                    tie += angle_points.get(coordinate, [])
            ties.append(tie)
    for tie in ties:
        joined = {group[i] for i in tie}
        group = [min(joined) if g in joined else g for g in group]
    return group[:ground], {group[ground]} & set(group[:ground])
