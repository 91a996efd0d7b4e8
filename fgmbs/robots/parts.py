"""Functions that make the parts of robots, and the whole of parts; see `fgmbs.robots`."""

import dataclasses
from typing import Any, TypeAlias

import numpy as np

from fgmbs.arguments import finite, finite_number, of_type
from fgmbs.errors import ArgumentError, DescriptionError
from fgmbs.mechanisms.tree.checks import MAY_BE_INFINITE
from fgmbs.mechanisms.tree.description import (
    Closure,
    ClosureKind,
    Frame,
    Joint,
    JointKind,
    Link,
    Mimic,
    Pose,
    RobotDescription,
    Shape,
    Vector,
)
from fgmbs.mechanisms.tree.loops import close_loops
from fgmbs.mechanisms.tree.placed import GROUND, unit_axis
from fgmbs.mechanisms.tree.poses import from_rpy, vector_of
from fgmbs.mechanisms.tree.robot import Robot
from fgmbs.mechanisms.tree.robot import robot as of_description

Part: TypeAlias = Link | Joint | Closure | Frame
Numbers: TypeAlias = tuple | list | np.ndarray


def robot(*parts: Part, name: str = "robot", gravity: Numbers = (0.0, 0.0, -9.81), floating: bool = False) -> Robot:
    """The robot of some parts; its coordinates are those of its joints in the order given.

    A joint may hold on to the ground, "world", or the first link without a joint is the ground, or floats. A joint that
    closes a loop becomes a closure.

    Args:
        parts: Links, joints, closures, frames.
        name: What to call it.
        gravity: Acceleration of free fall [m/s²].
        floating: Whether its root floats.

    Raises:
        ArgumentError: Something that is no part, or another argument of the wrong type.
        DescriptionError: All faults, each with the part, what was found and what is accepted.
    """
    _texts("robot", name=name)
    of_type("floating", floating, bool, "True or False")
    for part in parts:
        of_type("parts", part, (Link, Joint, Closure, Frame), "links, joints … as fgmbs.robots makes them")
    links, joints, closures, frames = (
        tuple(part for part in parts if isinstance(part, kind)) for kind in (Link, Joint, Closure, Frame)
    )
    if any(joint.parent == GROUND for joint in joints) and GROUND not in {link.name for link in links}:
        links = (Link(GROUND), *links)
    return of_description(
        close_loops(
            RobotDescription(name, links, joints, closures, frames, _vector("gravity", gravity), floating=floating)
        )
    )


def link(
    name: str,
    mass: float = 0.0,
    center: Numbers = (0, 0, 0),
    inertia: Numbers = (0, 0, 0),
    shapes: tuple[Shape, ...] = (),
) -> Link:
    """A rigid body.

    Args:
        mass: [kg]
        center: Centre of mass, seen from the link [m].
        inertia: About the centre of mass along the axes of the link: xx, yy, zz, or these and xy, xz, yz, or a matrix
            [kg m²].
        shapes: What is drawn, as `box`, `cylinder` and `sphere` make it.

    Raises:
        ArgumentError: What is not what is said here, by name.
    """
    _texts("link", name=name)
    of_type(f"link '{name}': shapes", shapes, (tuple, list), _SHAPES)
    for shape in shapes:
        of_type(f"link '{name}': shapes", shape, Shape, _SHAPES)
    given = np.asarray(finite(f"link '{name}': inertia", inertia))
    if given.shape == (3, 3):
        if np.max(np.abs(given - given.T)) > _SKEWED * np.max(np.abs(given)):
            raise ArgumentError(f"link '{name}': inertia: expected a symmetric matrix; found {given.tolist()}")
        given = given[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    if given.shape not in ((3,), (6,)):
        raise ArgumentError(f"link '{name}': inertia: expected 3 or 6 numbers, or 3×3; found shape {given.shape}")
    xx, yy, zz, xy, xz, yz = (*given.tolist(), 0.0, 0.0, 0.0)[:6]
    at = _vector(f"link '{name}': center", center)
    mass = _number(f"link '{name}': mass", mass)
    return Link(name, mass, at, ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)), tuple(shapes))


def revolute(name: str, parent: str, child: str, axis: Numbers, **details: Any) -> Joint:
    """A joint that turns about an axis; for `details` see `joint`."""
    return joint("revolute", name, parent, child, axis=axis, **details)


def prismatic(name: str, parent: str, child: str, axis: Numbers, **details: Any) -> Joint:
    """A joint that slides along an axis; for `details` see `joint`."""
    return joint("prismatic", name, parent, child, axis=axis, **details)


def screw(name: str, parent: str, child: str, axis: Numbers, pitch: float, **details: Any) -> Joint:
    """A joint that turns about an axis and advances along it by `pitch` per radian [m/rad]; see `joint`."""
    return joint("screw", name, parent, child, axis=axis, pitch=pitch, **details)


def spherical(name: str, parent: str, child: str, **details: Any) -> Joint:
    """A ball joint; its coordinates are a unit quaternion (w, x, y, z)."""
    return joint("spherical", name, parent, child, **details)


def floating(name: str, parent: str, child: str, **details: Any) -> Joint:
    """Six degrees of freedom: position and unit quaternion (w, x, y, z)."""
    return joint("floating", name, parent, child, **details)


def fixed(
    name: str,
    parent: str,
    child: str,
    xyz: Numbers = (0, 0, 0),
    rpy: Numbers = (0, 0, 0),
    *,
    separate: bool = False,
) -> Joint:
    """Two links that are one body; the frame of the second is kept, or if it is `separate` all of it: what the joint
    transmits can be read, and its numbers have names."""
    of_type(f"joint '{name}': separate", separate, bool, "True or False")
    return dataclasses.replace(joint("fixed", name, parent, child, xyz=xyz, rpy=rpy), separate=separate)


def joint(
    kind: JointKind,
    name: str,
    parent: str,
    child: str,
    *,
    xyz: Numbers = (0, 0, 0),
    rpy: Numbers = (0, 0, 0),
    axis: Numbers = (1, 0, 0),
    mimic: tuple | None = None,
    **details: Any,
) -> Joint:
    """A joint of any kind.

    Args:
        kind: revolute, continuous, prismatic, screw, spherical, floating or fixed.
        xyz: Where the frame of the child is in the zero position, seen from the parent [m].
        rpy: How it is turned there: roll, pitch, yaw [rad].
        axis: Of any length but zero, seen from the child.
        mimic: (other joint, multiplier, offset): q = multiplier q_other + offset.
        details: `lower`, `upper`, `max_velocity`, `max_effort`, `damping`, `friction`, `stiffness`, `spring_reference`,
            `rotor_inertia`, `gear_ratio`, `pitch`, `actuated`, as `fgmbs.mechanisms.tree.description.Joint` has them.

    Raises:
        ArgumentError: What is not what is said here, by name.
    """
    _texts("joint", kind=kind, name=name, parent=parent, child=child)
    unknown = sorted(set(details) - set(_DETAILS))
    if unknown:
        raise ArgumentError(f"joint '{name}': expected details of ({', '.join(_DETAILS)}); found {', '.join(unknown)}")
    details = {key: _detail(f"joint '{name}': {key}", key, value) for key, value in details.items()}
    along = _axis(f"joint '{name}': axis", axis)
    follows = None if mimic is None else _mimic(f"joint '{name}': mimic", mimic)
    return Joint(name, kind, parent, child, _pose(f"joint '{name}'", xyz, rpy), along, mimic=follows, **details)


def closure(
    kind: ClosureKind,
    name: str,
    link_a: str,
    link_b: str,
    *,
    xyz_a: Numbers = (0, 0, 0),
    rpy_a: Numbers = (0, 0, 0),
    xyz_b: Numbers = (0, 0, 0),
    rpy_b: Numbers = (0, 0, 0),
    axis: Numbers = (0, 0, 1),
) -> Closure:
    """What closes a loop: a joint between a frame on one link and a frame on another.

    Args:
        kind: revolute, prismatic, spherical, fixed or connect.
        axis: In both frames, of any length but zero.

    Raises:
        ArgumentError: What is not what is said here, by name.
    """
    _texts("closure", kind=kind, name=name, link_a=link_a, link_b=link_b)
    what = f"closure '{name}'"
    along = _axis(f"{what}: axis", axis)
    return Closure(name, kind, link_a, _pose(what, xyz_a, rpy_a), link_b, _pose(what, xyz_b, rpy_b), along)


def frame(name: str, link: str, xyz: Numbers = (0, 0, 0), rpy: Numbers = (0, 0, 0)) -> Frame:
    """A named place on a link."""
    _texts("frame", name=name, link=link)
    return Frame(name, link, _pose(f"frame '{name}'", xyz, rpy))


def box(edges: Numbers, xyz: Numbers = (0, 0, 0), rpy: Numbers = (0, 0, 0), color: str = "") -> Shape:
    """A box to draw [m]."""
    _texts("box", color=color)
    return Shape("box", _pose("box", xyz, rpy), _vector("box: edges", edges), color=color)


def cylinder(
    radius: float, length: float, xyz: Numbers = (0, 0, 0), rpy: Numbers = (0, 0, 0), color: str = ""
) -> Shape:
    """A cylinder along z to draw [m]."""
    _texts("cylinder", color=color)
    size = _number("cylinder: radius", radius), _number("cylinder: length", length)
    return Shape("cylinder", _pose("cylinder", xyz, rpy), size, color=color)


def sphere(radius: float, xyz: Numbers = (0, 0, 0), color: str = "") -> Shape:
    """A sphere to draw [m]."""
    _texts("sphere", color=color)
    return Shape("sphere", _pose("sphere", xyz, (0, 0, 0)), (_number("sphere: radius", radius),), color=color)


_DETAILS = (
    *("lower", "upper", "max_velocity", "max_effort", "damping", "friction", "stiffness", "spring_reference"),
    *("rotor_inertia", "gear_ratio", "pitch", "actuated"),
)
_SHAPES = "boxes, cylinders and spheres in a list"
_MIMIC = "(other joint, multiplier, offset), the last two at wish"


def _texts(what: str, **given: object) -> None:
    """Refuses names that are no texts."""
    for argument, value in given.items():
        of_type(f"{what}: {argument}", value, str, "a text")


_SKEWED = 1e-9
"""How far an inertia may be from a symmetric matrix, relative to its largest number."""


def _pose(what: str, xyz: Numbers, rpy: Numbers) -> Pose:
    return from_rpy(_vector(f"{what}: xyz", xyz), _vector(f"{what}: rpy", rpy))


def _detail(argument: str, key: str, value: Any) -> float | bool:
    """A number, which may be infinite; of `actuated` a boolean."""
    if key == "actuated":
        of_type(argument, value, bool, "True or False")
        return value
    if key in MAY_BE_INFINITE and isinstance(value, float | np.floating):
        return float(value)
    return _number(argument, value)


def _number(argument: str, value: object) -> float:
    """A finite number; a boolean is none."""
    if isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{argument}: expected a finite number; found {value}")
    return finite_number(value, argument)


def _mimic(argument: str, given: Any) -> Mimic:
    of_type(argument, given, (tuple, list), _MIMIC)
    if not 1 <= len(given) <= 3:
        raise ArgumentError(f"{argument}: expected {_MIMIC}; found {len(given)} entries")
    leader, *numbers = given
    of_type(argument, leader, str, "the name of the other joint first")
    return Mimic(leader, *(_number(f"{argument}[{i}]", number) for i, number in enumerate(numbers, 1)))


def _axis(argument: str, given: Numbers) -> Vector:
    """A direction of unit length."""
    try:
        return unit_axis(_vector(argument, given), argument)[0]
    except DescriptionError as error:
        raise ArgumentError(str(error)) from None


def _vector(argument: str, given: Numbers) -> Vector:
    numbers = np.asarray(finite(argument, given))
    if numbers.shape != (3,):
        raise ArgumentError(f"{argument}: expected 3 numbers; found shape {numbers.shape}")
    return vector_of(numbers)
