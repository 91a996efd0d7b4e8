"""URDF files.

A joint whose child another one carries already closes a loop. Meshes need not be there; what is not of links and joints
(transmissions, sensors, plugins) is left out.
"""

import math
import os

from fgmbs.arguments import nearest
from fgmbs.io.located_yaml import read_text
from fgmbs.io.robots.located_xml import Element, Faults, parse
from fgmbs.mechanisms.tree.description import Joint, Link, Mimic, Pose, RobotDescription, Shape, Vector
from fgmbs.mechanisms.tree.loops import close_loops
from fgmbs.mechanisms.tree.poses import from_rpy, turned_inertia

_KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "spherical")
_SIZES = {"box": ("size",), "cylinder": ("radius", "length"), "capsule": ("radius", "length"), "sphere": ("radius",)}
_MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")


def read_urdf(path: str | os.PathLike[str], *, floating: bool = False) -> RobotDescription:
    """The robot of a URDF file; see `parse_urdf`."""
    return parse_urdf(read_text(path, "a URDF file"), str(path), floating=floating)


def parse_urdf(text: str, source: str, *, floating: bool = False) -> RobotDescription:
    """The robot of a URDF text.

    Args:
        source: What to call the text in messages.
        floating: Whether its root floats; it is held to the ground otherwise.

    Raises:
        DescriptionError: All faults that show in single elements, each with its line. What only the whole can show is
            checked where a robot is made of it.
    """
    root, faults = parse(text, source), Faults(source)
    if root.tag != "robot":
        faults.add(root, "expected <robot>")
        faults.refuse()
    links = tuple(_link(element, faults) for element in root.all("link"))
    joints = tuple(_joint(element, faults) for element in root.all("joint"))
    faults.refuse()
    name = root.attributes.get("name", "robot")
    _refuse_rings(joints, root, faults)
    return close_loops(RobotDescription(name, links, joints, floating=floating, source=source))


def _refuse_rings(joints: tuple[Joint, ...], root: Element, faults: Faults) -> None:
    """A joint whose child carries its parent; one whose child has two parents is a loop that is meant."""
    parents: dict[str, str] = {}
    for joint, element in zip(joints, root.all("joint"), strict=True):
        ring = [joint.child, joint.parent]
        while ring[-1] in parents and ring[-1] != joint.child:
            ring.append(parents[ring[-1]])
        if ring[-1] == joint.child and joint.child not in parents:
            faults.add(element, f"expected a tree; found the cycle {' → '.join(reversed(ring))}")
        parents.setdefault(joint.child, joint.parent)
    faults.refuse()


def _link(element: Element, faults: Faults) -> Link:
    name = faults.name(element)
    shapes = tuple(shape for visual in element.all("visual") if (shape := _shape(visual, faults)))
    inertial = element.first("inertial")
    if inertial is None:
        return Link(name, shapes=shapes)
    pose = _origin(inertial, faults)
    mass = _number(inertial.first("mass"), inertial, "value", faults)
    tensor = inertial.first("inertia")
    xx, yy, zz, xy, xz, yz = (_number(tensor, inertial, key, faults) for key in _MOMENTS)
    inertia = turned_inertia(pose, ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
    return Link(name, mass, pose.xyz, inertia, shapes)


def _joint(element: Element, faults: Faults) -> Joint:
    name, kind = faults.name(element), element.attributes.get("type", "")
    if kind not in _KINDS:
        faults.add(element, f"expected a type of ({', '.join(_KINDS)}); found '{kind}'{nearest(kind, _KINDS, 'types')}")
        kind = "fixed"
    limit, dynamics, mimic = element.first("limit"), element.first("dynamics"), element.first("mimic")
    bounded = limit is not None and kind in ("revolute", "prismatic")
    return Joint(
        name,
        kind,
        _link_of(element, "parent", faults),
        _link_of(element, "child", faults),
        _origin(element, faults),
        _axis(element, faults) if kind in ("revolute", "continuous", "prismatic") else (1.0, 0.0, 0.0),
        lower=_given(limit, "lower", 0.0, faults) if bounded else -math.inf,
        upper=_given(limit, "upper", 0.0, faults) if bounded else math.inf,
        max_velocity=_given(limit, "velocity", math.inf, faults),
        max_effort=_given(limit, "effort", math.inf, faults),
        damping=_given(dynamics, "damping", 0.0, faults),
        friction=_given(dynamics, "friction", 0.0, faults),
        mimic=None if mimic is None else _mimic(mimic, faults),
    )


def _mimic(element: Element, faults: Faults) -> Mimic:
    if "joint" not in element.attributes:
        faults.add(element, "expected an attribute joint; found none")
    multiplier, offset = _given(element, "multiplier", 1.0, faults), _given(element, "offset", 0.0, faults)
    return Mimic(element.attributes.get("joint", ""), multiplier, offset)


def _link_of(element: Element, tag: str, faults: Faults) -> str:
    found = element.first(tag)
    if found is None or not found.attributes.get("link"):
        faults.add(element, f"expected <{tag} link='…'/>; found none")
        return ""
    return found.attributes["link"]


def _axis(element: Element, faults: Faults) -> Vector:
    found = element.first("axis")
    if found is None:
        return (1.0, 0.0, 0.0)
    x, y, z = faults.numbers(found, found.attributes.get("xyz", "1 0 0"), 3, "xyz")
    length = math.sqrt(x * x + y * y + z * z)
    if length == 0:
        faults.add(found, "xyz: expected a direction; found zeros")
        return (1.0, 0.0, 0.0)
    return (x / length, y / length, z / length)


def _origin(element: Element, faults: Faults) -> Pose:
    found = element.first("origin")
    if found is None:
        return Pose()
    x, y, z = faults.numbers(found, found.attributes.get("xyz", "0 0 0"), 3, "xyz")
    return from_rpy((x, y, z), faults.numbers(found, found.attributes.get("rpy", "0 0 0"), 3, "rpy"))


def _number(element: Element | None, owner: Element, key: str, faults: Faults) -> float:
    """A number that must be there."""
    if element is None or key not in element.attributes:
        faults.add(element or owner, f"expected an attribute {key}; found none")
        return 0.0
    return faults.numbers(element, element.attributes[key], 1, key)[0]


def _given(element: Element | None, key: str, default: float, faults: Faults) -> float:
    """A number, or a default where it is not there."""
    if element is None or key not in element.attributes:
        return default
    return faults.numbers(element, element.attributes[key], 1, key)[0]


def _shape(visual: Element, faults: Faults) -> Shape | None:
    """What a <visual> draws; None where it is empty or of no known kind."""
    geometry = visual.first("geometry")
    if geometry is None or not geometry.children:
        return None
    pose, one = _origin(visual, faults), geometry.children[0]
    color = visual.first("material", "color")
    rgb = "" if color is None else _color(color, faults)
    if one.tag == "mesh":
        scale = faults.numbers(one, one.attributes.get("scale", "1 1 1"), 3, "scale")
        return Shape("mesh", pose, scale, one.attributes.get("filename", ""), rgb)
    if one.tag not in _SIZES:
        return None
    size: tuple[float, ...] = ()
    for key in _SIZES[one.tag]:
        size += faults.numbers(one, one.attributes.get(key, ""), 3 if key == "size" else 1, key)
    return Shape(one.tag, pose, size, color=rgb)  # pyright: ignore[reportArgumentType]


def _color(element: Element, faults: Faults) -> str:
    levels = faults.numbers(element, element.attributes.get("rgba", "0.5 0.5 0.5 1"), 4, "rgba")[:3]
    return "#" + "".join(f"{round(255 * min(max(level, 0.0), 1.0)):02x}" for level in levels)
