"""Links of SDF files: what they weigh and what is drawn."""

from fgmbs.io.robots.located_xml import Element, Faults
from fgmbs.io.robots.sdf_frames import read_pose
from fgmbs.mechanisms.tree.description import Link, Pose, Shape
from fgmbs.mechanisms.tree.poses import turned_inertia

_SIZES = {
    "box": (("size", 3),),
    "cylinder": (("radius", 1), ("length", 1)),
    "capsule": (("radius", 1), ("length", 1)),
    "sphere": (("radius", 1),),
}


def read_link(name: str, element: Element, faults: Faults) -> tuple[Link, list[str]]:
    """A link, and what was assumed.

    Args:
        name: As the description calls it.
    """
    notes: list[str] = []
    shapes = tuple(shape for visual in element.all("visual") if (shape := _shape(name, visual, faults, notes)))
    inertial = element.first("inertial")
    if inertial is None:
        notes.append(f"link '{name}' has no <inertial>: the format's 1 kg and 1 kg m² about every axis are taken")
        inertial = Element("inertial", {}, element.line, source=element.source)
    if inertial.attributes.get("auto", "false") in ("true", "1"):
        faults.add(inertial, "expected mass and inertia as numbers; found auto='true'")
    if (element.first("gravity") or Element("", {}, 0)).text.strip() in ("false", "0"):
        notes.append(f"link '{name}': gravity acts on it, although the file switches it off")
    given = inertial.first("pose")
    pose = Pose() if given is None else read_pose(given, faults)
    inertia = inertial.first("inertia") or Element("inertia", {}, element.line, source=element.source)
    xx, yy, zz = (faults.number(inertia, 1.0, tag) for tag in ("ixx", "iyy", "izz"))
    xy, xz, yz = (faults.number(inertia, 0.0, tag) for tag in ("ixy", "ixz", "iyz"))
    about_center = turned_inertia(pose, ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz)))
    return Link(name, faults.number(inertial, 1.0, "mass"), pose.xyz, about_center, shapes), notes


def _shape(link: str, visual: Element, faults: Faults, notes: list[str]) -> Shape | None:
    """What a <visual> draws; None where it cannot be drawn."""
    geometry = visual.first("geometry")
    if geometry is None or not geometry.children:
        return None
    given = visual.first("pose")
    pose = Pose() if given is None else read_pose(given, faults)
    one = geometry.children[0]
    color = _color(visual, faults)
    if one.tag == "mesh":
        scale = one.first("scale")
        size = (1.0, 1.0, 1.0) if scale is None else faults.numbers(scale, scale.text, 3)
        uri = one.first("uri")
        return Shape("mesh", pose, size, "" if uri is None else uri.text.strip(), color)
    if one.tag not in _SIZES:
        notes.append(f"link '{link}': a {one.tag} is not drawn")
        return None
    size: tuple[float, ...] = ()
    for tag, count in _SIZES[one.tag]:
        found = one.first(tag)
        size += (1.0,) * count if found is None else faults.numbers(found, found.text, count)
    return Shape(one.tag, pose, size, color=color)  # pyright: ignore[reportArgumentType]


def _color(visual: Element, faults: Faults) -> str:
    found = visual.first("material", "diffuse") or visual.first("material", "ambient")
    if found is None:
        return ""
    count = max(3, min(4, len(found.text.split())))
    levels = faults.numbers(found, found.text, count)[:3]
    return "#" + "".join(f"{round(255 * min(max(level, 0.0), 1.0)):02x}" for level in levels)
