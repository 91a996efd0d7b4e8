"""Planar mechanisms in Python: a function for every part, and `mechanism` for the whole.

    from fgmbs import planar

    pendulum = planar.mechanism(
        planar.point("pivot", 0, 0, fixed=True),
        planar.point("tip", "L", 0),
        planar.body("rod", "pivot", "tip", mass=2.0, I0="mass*length^2/3", cog=("length/2", 0)),
        planar.absolute_angle("theta", "pivot", "tip"),
        parameters={"L": 1.0},
    )

It is the mechanism that a file of the same parts describes (docs/mechanism_files.md). Every number may be an expression
of parameters and points, or `Unknown`; points and bodies are referred to by name. SI units, angles in radians.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Array

from fgmbs.arguments import by_name, of_type
from fgmbs.errors import ArgumentError, DescriptionError
from fgmbs.io.faults import Fault, dotted
from fgmbs.io.planar.load import describe
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.unknowns import Unknown

Value: TypeAlias = float | int | str | np.ndarray | Array | Unknown
"""A number, an expression, or a number that is to be found."""


class Part(NamedTuple):
    """A part of a mechanism, as one of the functions here makes it."""

    section: str
    """Key of a mechanism file under which such parts stand."""
    entry: Mapping[str, Any]


def mechanism(
    *parts: Part,
    name: str | None = None,
    gravity: tuple[Value, Value] = (0.0, -9.81),
    parameters: Mapping[str, Value] | None = None,
    velocities: Mapping[str, Value] | None = None,
) -> PlanarMechanism:
    """The mechanism of some parts; its coordinates are x, y of the free points in the order given, then the angles.

    Args:
        parts: Points, bodies, angles, constraints, forces, actuators.
        name: What to call it.
        gravity: Acceleration of gravity [m/s²].
        parameters: Names that expressions may use, with their values.
        velocities: Velocities of the start by coordinate name [m/s, rad/s]; the rest follows.

    Raises:
        ArgumentError: Something that is no part.
        DescriptionError: All faults, each with the part, what was found and what is accepted.
    """
    for argument, given in (("parameters", parameters), ("velocities", velocities)):
        if given is not None:
            by_name(argument, given)
    data: dict[str, Any] = {} if name is None else {"name": name}
    data |= {"parameters": dict(parameters or {}), "gravity": _pair("gravity", gravity)}
    for part in parts:
        of_type("parts", part, Part, "points, bodies … as the functions of fgmbs.planar make them")
        entries = data.setdefault(part.section, [])
        entries.append({key: value for key, value in part.entry.items() if value is not None})
    data["initial_velocities"] = dict(velocities or {})
    unknowns: dict[tuple, Unknown] = {}
    description, faults = describe(_plain(data, (), unknowns))
    if description is None or faults:
        raise DescriptionError([_line(fault, data) for fault in faults])
    names = {quantity.path: quantity.name for quantity in scopes.quantities(description)}
    return PlanarMechanism.from_description(description).with_parameters(
        {names[path]: unknown for path, unknown in unknowns.items()}
    )


def point(name: str, x: Value, y: Value, *, fixed: bool = False) -> Part:
    """A point as drawn [m]; one that is fixed belongs to the ground."""
    return Part("points", dict(name=name, x=x, y=y, fixed=fixed))


def body(
    name: str,
    *points: str,
    mass: Value,
    I0: Value,
    cog: tuple[Value, Value],
    length: Value = "auto",
    visual: Mapping[str, Any] | None = None,
) -> Part:
    """A rigid body.

    Args:
        points: Two points or more.
        mass: [kg]
        I0: Moment of inertia about the first point [kg·m²].
        cog: Centre of mass, from the first point on towards the second and to the left of that [m].
        length: Distance of its two points [m]; "auto" is that of the drawing.
        visual: How it is drawn: `color`, `width`, `outline`, `radius`, as in a file.
    """
    entry = dict(name=name, points=list(points), length=length, mass=mass, I0=I0, cog=_pair("cog", cog))
    return Part("planar_bodies", entry | {"visual": None if visual is None else _visual(visual)})


def absolute_angle(name: str, start: str, end: str) -> Part:
    """A coordinate: the angle of start → end from +X, counter-clockwise."""
    return _angle("RelativeAngleAbsoluteDOF", name, [start, end])


def relative_angle(name: str, first: tuple[str, str], second: tuple[str, str]) -> Part:
    """A coordinate: the angle of the second link less that of the first."""
    return _angle("RelativeAngleDOF", name, [list(first), list(second)])


def distance(name: str, first: str, second: str, length: Value = "auto") -> Part:
    """A constant distance of two points [m]."""
    return _constraint("distance", name, points=[first, second], length=length)


def fixed_slider(name: str, point: str, start: tuple[Value, Value], end: tuple[Value, Value]) -> Part:
    """A point on the fixed line through two positions [m]."""
    return _constraint("fixed_slider", name, point=point, line=[list(start), list(end)])


def mobile_slider(name: str, point: str, start: str, end: str) -> Part:
    """A point on the line through two other points."""
    return _constraint("mobile_slider", name, point=point, line=[start, end])


def rigid(name: str, start: str, end: str, point: str, offset: tuple[Value, Value] | None = None) -> Part:
    """A point rigidly attached to start → end, at an offset along it and to its left [m]; by default as drawn."""
    return _constraint("rigid", name, points=[start, end], point=point, offset=None if offset is None else list(offset))


def gear(name: str, first: str, second: str, ratio: Value, offset: Value = "auto") -> Part:
    """Two angles of which first − ratio · second is constant [rad]."""
    return _constraint("gear", name, angles=[first, second], ratio=ratio, offset=offset)


def motion(name: str, coordinate: str, value: Value) -> Part:
    """A coordinate that is a function of the time `t` [m, rad]."""
    return _constraint("motion", name, coordinate=coordinate, value=value)


def spring(name: str, first: str, second: str, stiffness: Value, free_length: Value = "auto") -> Part:
    """A linear spring between two points [N/m, m]."""
    return Part("springs", dict(name=name, points=[first, second], stiffness=stiffness, free_length=free_length))


def angular_spring(name: str, angle: str, stiffness: Value, free_angle: Value = "auto") -> Part:
    """A linear spring on an angle [N·m/rad, rad]."""
    return Part("springs", dict(name=name, angle=angle, stiffness=stiffness, free_angle=free_angle))


def damper(
    name: str,
    first: str,
    second: str,
    damping: Value,
    *,
    coulomb: Value | None = None,
    stribeck: Value | None = None,
    stribeck_speed: Value | None = None,
    quadratic: Value | None = None,
    asymmetry: Value | None = None,
    offset: Value | None = None,
    width: Value | None = None,
    shape: str = "tanh",
) -> Part:
    """A viscous damper between two points, along their line [N·s/m], with the friction of `fgmbs.Friction`."""
    friction = dict(coulomb=coulomb, stribeck=stribeck, stribeck_speed=stribeck_speed, quadratic=quadratic)
    friction |= dict(asymmetry=asymmetry, offset=offset, width=width, shape=shape)
    return Part("dampers", dict(name=name, points=[first, second], damping=damping) | friction)


def angular_damper(
    name: str,
    angle: str,
    damping: Value,
    *,
    coulomb: Value | None = None,
    stribeck: Value | None = None,
    stribeck_speed: Value | None = None,
    quadratic: Value | None = None,
    cosines: Sequence[Value] | None = None,
    sines: Sequence[Value] | None = None,
    asymmetry: Value | None = None,
    offset: Value | None = None,
    width: Value | None = None,
    shape: str = "tanh",
) -> Part:
    """Viscous friction on an angle [N·m·s/rad], with the friction of `fgmbs.Friction`."""
    friction = dict(coulomb=coulomb, stribeck=stribeck, stribeck_speed=stribeck_speed, quadratic=quadratic)
    friction |= dict(asymmetry=asymmetry, offset=offset, width=width, shape=shape)
    friction |= dict(cosines=_several(cosines), sines=_several(sines))
    return Part("dampers", dict(name=name, angle=angle, damping=damping) | friction)


def force(name: str, point: str, force: tuple[Value, Value]) -> Part:
    """A force on a point in the fixed frame [N]; may depend on the time `t`."""
    return Part("forces", dict(name=name, point=point, force=list(force)))


def torque(name: str, torque: Value, *, angle: str | None = None, body: str | None = None) -> Part:
    """A torque on an angle, or on a body [N·m]; may depend on the time `t`."""
    return Part("forces", dict(name=name, angle=angle, body=body, torque=torque))


def actuator(
    name: str,
    *,
    angle: str | None = None,
    body: str | None = None,
    points: tuple[str, str] | None = None,
    coordinate: str | None = None,
    gain: Value | None = None,
    gear: Value | None = None,
    rotor_inertia: Value | None = None,
    back_emf: Value | None = None,
    cosines: Sequence[Value] | None = None,
    sines: Sequence[Value] | None = None,
    periods: int | None = None,
) -> Part:
    """What a command acts on: a torque on an angle or a body, a force between two points or on a coordinate.

    On an angle or a coordinate it may be a motor, with the numbers of `fgmbs.Motor`.
    """
    pair = None if points is None else list(points)
    motor = dict(gain=gain, gear=gear, rotor_inertia=rotor_inertia, back_emf=back_emf)
    motor |= dict(cosines=_several(cosines), sines=_several(sines), periods=periods)
    on = dict(name=name, angle=angle, body=body, points=pair, coordinate=coordinate)
    return Part("actuators", on | motor)


def _several(values: Sequence[Value] | None) -> list | None:
    return list(values) if isinstance(values, (list, tuple)) else values  # pyright: ignore[reportReturnType]


def _angle(kind: str, name: str, points: Sequence) -> Part:
    return Part("relative_coordinates", dict(name=name, type=kind, points=points))


def _constraint(kind: str, name: str, **entry: Any) -> Part:
    return Part("constraints", dict(name=name, type=kind, **entry))


def _plain(data: Any, path: tuple, unknowns: dict[tuple, Unknown]) -> Any:
    """Data as of a file: the values of unknown numbers, which are collected, and of arrays of one number."""
    if isinstance(data, Mapping):
        return {key: _plain(value, (*path, key), unknowns) for key, value in data.items()}
    if isinstance(data, list):
        return [_plain(value, (*path, k), unknowns) for k, value in enumerate(data)]
    if isinstance(data, Unknown):
        unknowns[path] = data
        data = data.value
    if hasattr(data, "shape") and np.shape(data) == ():
        return np.asarray(data).item()
    if data is not None:
        of_type(f"mechanism: {dotted(path)}", data, (str, bool, int, float), "a number or a text")
    return data


def _pair(argument: str, given: tuple[Value, Value]) -> list:
    """Two numbers, as they are checked with all others."""
    if not isinstance(given, (tuple, list)) and np.ndim(given) != 1:
        raise ArgumentError(f"{argument}: expected two numbers; found {given!r}")
    return list(given)


def _visual(given: Mapping[str, Any]) -> dict[str, Any]:
    """How a body is drawn, as of a file.

    Raises:
        ArgumentError: It is no mapping, or a number of it is to be found.
    """
    by_name("visual", given, "keys with values, as in {'color': 'orange', 'radius': 0.1}")
    return {key: _listed(value) for key, value in given.items() if value is not None}


def _listed(value: Any) -> Any:
    """Lists in place of tuples and arrays."""
    if hasattr(value, "shape") and np.ndim(value) > 0:
        value = np.asarray(value).tolist()
    if isinstance(value, (list, tuple)):
        return [_listed(part) for part in value]
    if isinstance(value, Unknown):
        expected = "a number, or an expression of a parameter that is `Unknown`"
        raise ArgumentError(f"visual: expected {expected}; found an `Unknown` itself")
    return value


def _line(fault: Fault, data: Mapping[str, Any]) -> str:
    """A fault, with the part by kind and name."""
    section, *rest = fault.path or ("mechanism",)
    kind = scopes.OWNERS.get(str(section), "angle" if section == "relative_coordinates" else None)
    if kind and rest and isinstance(rest[0], int) and rest[0] < len(data[section]):
        owner = f"{kind} {data[section][rest[0]].get('name')!r}"
        return ": ".join(filter(None, ["mechanism", owner, dotted(tuple(rest[1:])), fault.text]))
    names = {"planar_bodies": "bodies", "relative_coordinates": "angles", "initial_velocities": "velocities"}
    where = dotted((names.get(str(section), section), *rest)) if fault.path else ""
    return ": ".join(filter(None, ["mechanism", where, fault.text]))
