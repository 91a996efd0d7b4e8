"""Every number of a description by name, and the names its expression may use: the one place that knows.

A number is named `OWNER.KEY`: `crank.mass`, `body0.cog.x`, `A.x`, `point1.y`, `gravity.y`, `spring0.stiffness`; a
parameter by its own name. Owners are named as in the file, else by kind and index: `point{i}`, `body{i}`,
`constraint{i}`, `spring{i}`, `damper{i}`, `force{i}`.

| an expression of | may use |
| --- | --- |
| parameters, gravity | parameters |
| points, slider lines, stiffness, ratio, initial velocities … | those; x0, y0, x1, … or x_A, y_A of (named) points |
| bodies | those; `auto` and `length12`, `length13`, …: distances as drawn; `length`, `mass`, `I0` |
| lengths, angles and offsets that may be `auto` | parameters, points; `auto`, the value as drawn |
| forces, torques, prescribed motion | parameters, points; the time `t` |

Every function works on floats (checks of a file, on the host) and on JAX arrays (a mechanism rebuilt from other values)
alike. `values` are the independent numbers by name; those left out have the value of the file.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp

from fgmbs.mechanisms.planar import description as schema
from fgmbs.mechanisms.planar.description import Path
from fgmbs.mechanisms.planar.expressions import Expr, Number, evaluate, names_in, resolve

Values: TypeAlias = Mapping[str, Number]

OWNERS = {
    "points": "point",
    "planar_bodies": "body",
    "constraints": "constraint",
    "springs": "spring",
    "dampers": "damper",
    "forces": "force",
    "actuators": "actuator",
}
"""Lists whose entries own numbers or commands, with the name of an unnamed entry."""

BODY_KEYS = ("length", "mass", "I0")
_NUMBER_KEYS = (
    *("x", "y", *BODY_KEYS, "cog", "line", "offset", "ratio", "value"),
    *("stiffness", "free_length", "free_angle", "damping", "force", "torque"),
    *("coulomb", "stribeck", "stribeck_speed", "quadratic", "asymmetry", "width"),
    *("gain", "gear", "rotor_inertia", "back_emf", "cosines", "sines"),
)
_AUTO_KEYS = ("length", "free_length", "free_angle", "offset")
_TIME_KEYS = ("force", "torque", "value")


class Quantity(NamedTuple):
    """A number of a description: its name, its place in the file and what is written there."""

    name: str
    path: Path
    expr: Expr

    @property
    def varies(self) -> bool:
        """Whether it is a function of the time."""
        return "t" in names_in(self.expr)


def owner(description: schema.MechanismDescription, section: str, index: int) -> str:
    """Name of the entry of a list, as its numbers are called."""
    return getattr(description, section)[index].name or f"{OWNERS[section]}{index}"


def quantities(description: schema.MechanismDescription) -> tuple[Quantity, ...]:
    """All numbers of a description in file order."""
    found = [Quantity(name, ("parameters", name), expr) for name, expr in description.parameters]
    found += [Quantity(f"gravity.{c}", ("gravity", k), description.gravity[k]) for k, c in enumerate("xy")]
    for section in OWNERS:
        for i, entry in enumerate(getattr(description, section)):
            for key, path, expr in _numbers_of(entry):
                found.append(Quantity(f"{owner(description, section, i)}.{key}", (section, i, *path), expr))
    for name, expr in description.initial_velocities:
        found.append(Quantity(f"initial_velocities.{name}", ("initial_velocities", name), expr))
    return tuple(found)


def drawn_quantities(description: schema.MechanismDescription) -> tuple[Quantity, ...]:
    """The numbers of a description that only say how bodies are drawn, as `crank.visual.radius`; no parameters."""
    found = []
    for i, body in enumerate(description.planar_bodies):
        name, path = owner(description, "planar_bodies", i), ("planar_bodies", i, "visual")
        for key in ("width", "radius") if body.visual else ():
            if (expr := getattr(body.visual, key)) is not None:
                found.append(Quantity(f"{name}.visual.{key}", (*path, key), expr))
        for k, corner in enumerate(body.visual.outline or () if body.visual else ()):
            for axis, expr in enumerate(corner):
                found.append(Quantity(f"{name}.visual.outline[{k}].{'xy'[axis]}", (*path, "outline", k, axis), expr))
    return tuple(found)


def _numbers_of(entry: object) -> Iterator[tuple[str, Path, Expr]]:
    for key in _NUMBER_KEYS:
        value = getattr(entry, key, None)
        if isinstance(entry, schema.BodyDescription) and key == "length" and len(entry.points) > 2:
            continue  # ignored: with three and more points the drawing says it
        if isinstance(entry, schema.RigidDescription) and value == "auto":
            continue  # two numbers that the drawing says
        if isinstance(value, (float, str)):
            yield key, (key,), value
        elif isinstance(entry, schema.FixedSliderDescription) and key == "line":
            for end, point in zip("ab", entry.line, strict=True):
                for k, axis in enumerate("xy"):
                    yield f"line.{axis}{end}", ("line", "ab".index(end), k), point[k]
        elif isinstance(value, tuple) and key in ("cosines", "sines"):
            yield from ((f"{key}.{k + 1}", (key, k), amplitude) for k, amplitude in enumerate(value))
        elif isinstance(value, tuple) and not isinstance(entry, schema.MobileSliderDescription):
            for k, axis in enumerate("xy"):
                yield f"{key}.{axis}", (key, k), value[k]


def independent_numbers(description: schema.MechanismDescription) -> dict[str, float]:
    """Numbers that are written as numbers; all others follow from them."""
    return {q.name: q.expr for q in quantities(description) if isinstance(q.expr, float)}


def with_numbers(description: schema.MechanismDescription, values: Mapping[str, float]) -> schema.MechanismDescription:
    """The description with other independent numbers, by name."""
    data = description.model_dump()
    data |= {section: dict(data[section]) for section in ("parameters", "initial_velocities")}
    for quantity in quantities(description):
        if quantity.name in values:
            _put(data, quantity.path, float(values[quantity.name]))
    return schema.MechanismDescription.model_validate(data)


def _put(data: Any, path: Path, value: float) -> Any:
    """Data with another value at a place; mappings are changed, sequences are copied."""
    if not path:
        return value
    key, *rest = path
    part = _put(data[key], tuple(rest), value)
    if isinstance(data, dict):
        data[key] = part
        return data
    return [*data[:key], part, *data[key + 1 :]]


def scope_names(description: schema.MechanismDescription, path: Path) -> tuple[str, ...]:
    """Names that the expression at this place may use."""
    parameters = tuple(name for name, _ in description.parameters)
    if path[0] in ("parameters", "gravity"):
        return parameters
    return *parameters, *point_definitions(description, {}), *local_names(description, path)


def local_names(description: schema.MechanismDescription, path: Path) -> tuple[str, ...]:
    """Names that the expression at this place may use besides parameters and points."""
    if path[0] == "planar_bodies":
        count = len(description.planar_bodies[int(path[1])].points)
        return "auto", *BODY_KEYS, *(f"length1{k}" for k in range(2, count + 1))
    if path[0] in ("constraints", "springs") and path[-1] in _AUTO_KEYS:
        return ("auto",)
    return ("t",) if path[0] in ("constraints", "forces") and path[2] in _TIME_KEYS else ()


def parameter_definitions(description: schema.MechanismDescription, values: Values) -> dict[str, Expr | Number]:
    """Parameters by name."""
    return {name: values.get(name, expr) for name, expr in description.parameters}


def point_definitions(description: schema.MechanismDescription, values: Values) -> dict[str, Expr | Number]:
    """x0, y0, x1, … of all points, and x_A, y_A of those with a name."""
    definitions: dict[str, Expr | Number] = {}
    for i, point in enumerate(description.points):
        for axis in "xy":
            definitions[f"{axis}{i}"] = values.get(f"{owner(description, 'points', i)}.{axis}", getattr(point, axis))
            if point.name:
                definitions[f"{axis}_{point.name}"] = f"{axis}{i}"
    return definitions


def body_definitions(description: schema.MechanismDescription, index: int, values: Values) -> dict[str, Expr | Number]:
    """length, mass and I0 of a body."""
    body, name = description.planar_bodies[index], owner(description, "planar_bodies", index)
    definitions = {key: values.get(f"{name}.{key}", getattr(body, key)) for key in BODY_KEYS}
    return definitions | ({"length": "auto"} if len(body.points) > 2 else {})


def point_scope(description: schema.MechanismDescription, values: Values) -> dict[str, Number]:
    """Values of the parameters and of the coordinates of all points as drawn.

    Raises:
        ExpressionError: An invalid expression, or a cycle.
    """
    names = resolve(parameter_definitions(description, values), {})
    return names | resolve(point_definitions(description, values), names)


def body_scope(
    description: schema.MechanismDescription, index: int, names: Values, values: Values
) -> dict[str, Number]:
    """Names of `point_scope` and of one body: auto, length12, length13, …, length, mass, I0."""
    known = {**names, **drawn_lengths(description, index, names)}
    return known | resolve(body_definitions(description, index, values), known)


def drawn_lengths(description: schema.MechanismDescription, index: int, names: Values) -> dict[str, Number]:
    """auto, length12, length13, … of a body: distances as drawn of its first and k-th point [m]."""
    first, *others = description.planar_bodies[index].points
    lengths = {f"length1{k}": distance(names, first, other) for k, other in enumerate(others, 2)}
    return lengths | {"auto": lengths["length12"]}


def distance(names: Values, i: int, j: int) -> Number:
    """Distance of two points as drawn [m]; differentiable, with derivative zero, also where they coincide."""
    dx, dy = names[f"x{j}"] - names[f"x{i}"], names[f"y{j}"] - names[f"y{i}"]
    square = dx * dx + dy * dy
    if isinstance(square, float):
        return math.sqrt(square)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def link_angle(names: Values, i: int, j: int) -> Number:
    """Angle of the link i → j from +X as drawn [rad], in (−π, π]."""
    return evaluate(f"atan2(y{j} - y{i}, x{j} - x{i})", names)


def angle_between(names: Values, i: int, j: int, k: int, m: int) -> Number:
    """Angle from the link i → j to the link k → m as drawn [rad], in (−π, π]."""
    a, b, c, d = (f"({axis}{end} - {axis}{start})" for start, end in ((i, j), (k, m)) for axis in "xy")
    return evaluate(f"atan2({a}*{d} - {b}*{c}, {a}*{c} + {b}*{d})", names)


def angles(description: schema.MechanismDescription, names: Values) -> dict[str, Number]:
    """Relative coordinates as drawn, by coordinate name [rad]."""
    count = len(description.relative_coordinates)
    drawn: dict[str, Number] = {}
    for name, angle in zip(
        description.coordinate_names[-count:] if count else (), description.relative_coordinates, strict=True
    ):
        if isinstance(angle, schema.AbsoluteAngleDescription):
            drawn[name] = link_angle(names, *angle.points)
        else:
            drawn[name] = angle_between(names, *angle.points[0], *angle.points[1])
    return drawn


def numbers(description: schema.MechanismDescription, values: Values) -> dict[str, Number]:
    """All numbers of a description by name, except functions of the time.

    Raises:
        ExpressionError: An invalid expression, or a cycle.
    """
    names = point_scope(description, values)
    bodies = functools.cache(lambda index: body_scope(description, index, names, values))
    return {q.name: number(description, q, names, values, bodies) for q in quantities(description) if not q.varies}


def number(
    description: schema.MechanismDescription,
    quantity: Quantity,
    names: Values,
    values: Values,
    bodies: Callable[[int], Values],
) -> Number:
    """One number of a description.

    Args:
        names: Those of `point_scope`.
        bodies: `body_scope` by index of the body.
    """
    expr, (section, *rest) = values.get(quantity.name, quantity.expr), quantity.path
    if not isinstance(expr, str):
        return expr
    if section == "parameters":
        return names[quantity.name]
    if section == "planar_bodies":
        return evaluate(expr, bodies(int(rest[0])))
    if "auto" in names_in(expr):
        return evaluate(expr, {**names, "auto": _auto(description, quantity.path, names, values)})
    return evaluate(expr, names)


def _auto(description: schema.MechanismDescription, path: Path, names: Values, values: Values) -> Number:
    """What `auto` means at this place: the length, angle or gear offset as drawn."""
    section, index = str(path[0]), int(path[1])
    match getattr(description, section)[index]:
        case schema.DistanceDescription(points=(i, j)) | schema.SpringDescription(points=(i, j)):
            return distance(names, i, j)
        case schema.AngularSpringDescription(angle=angle):
            return angles(description, names)[angle]
        case schema.GearDescription(angles=(a, b), ratio=ratio):
            drawn = angles(description, names)
            ratio = evaluate(values.get(f"{owner(description, section, index)}.ratio", ratio), names)
            return drawn[a] - ratio * drawn[b]
    raise AssertionError(f"no automatic value at {path}")
