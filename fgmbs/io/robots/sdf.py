"""SDF files: one model, alone or in a world, with models in it, frames and loops (SDFormat 1.5 to 1.12)."""

import math
import os
from pathlib import Path

from fgmbs.errors import DescriptionError
from fgmbs.io.located_yaml import read_text
from fgmbs.io.robots.located_xml import Element, Faults, parse
from fgmbs.io.robots.sdf_frames import Frames
from fgmbs.io.robots.sdf_includes import Includes, Version
from fgmbs.io.robots.sdf_links import read_link
from fgmbs.mechanisms.tree.description import Frame, Joint, JointKind, Link, Mimic, RobotDescription, Vector
from fgmbs.mechanisms.tree.placed import GROUND, PlacedJoint, describe, unit_axis
from fgmbs.mechanisms.tree.poses import compose, inverse, turned

_KINDS: dict[str, JointKind] = {
    "revolute": "revolute",
    "continuous": "continuous",
    "prismatic": "prismatic",
    "screw": "screw",
    "ball": "spherical",
    "fixed": "fixed",
}
_TWO_AXES = ("revolute2", "universal")
_GRAVITY: Vector = (0.0, 0.0, -9.81)
_WORLD_GRAVITY: Vector = (0.0, 0.0, -9.8)
"""Of a world that says none, by the format [m/s²]."""
_UNLIMITED = 1e16


def read_sdf(path: str | os.PathLike[str], *, model: str | None = None, floating: bool = False) -> RobotDescription:
    """The robot of an SDF file; see `parse_sdf`."""
    text = read_text(path, "an SDF file")
    return parse_sdf(text, str(path), model=model, floating=floating, folder=Path(path).parent)


def parse_sdf(
    text: str, source: str, *, model: str | None = None, floating: bool = False, folder: Path | None = None
) -> RobotDescription:
    """The robot of an SDF text.

    What it includes is looked for in places relative to its folder, as `model://…` beside it, beside its folder, and in
    the folders that the environment variables SDF_PATH and GZ_SIM_RESOURCE_PATH name.

    Args:
        source: What to call the text in messages.
        model: Which model, where there are several.
        floating: Whether its root floats; a model that is tied to no world is held to the ground otherwise.
        folder: Of the text; without one nothing can be included.

    Raises:
        DescriptionError: All faults, each with file, line and element.
    """
    root = parse(text, source)
    faults = Faults(source)
    includes = Includes(faults)
    if includes.version(root) is None:
        faults.refuse()
    includes.resolve(root, folder)
    faults.refuse()
    world = root.first("world")
    element = _model(root, world, model, faults)
    return _Reader(faults, includes.versions).read(element, world, floating)


def _model(root: Element, world: Element | None, wanted: str | None, faults: Faults) -> Element:
    """The model that is meant."""
    models = [*root.all("model"), *(world.all("model") if world else [])]
    names = [model.attributes.get("name", "") for model in models]
    chosen = [model for model, name in zip(models, names, strict=True) if wanted in (None, name)]
    if len(chosen) != 1:
        expected = "one model" if wanted is None else f"a model '{wanted}'"
        advice = "; say which one by model='…'" if len(models) > 1 and wanted is None else ""
        faults.add(world or root, f"expected {expected}; found {', '.join(names) or 'none'}{advice}")
        faults.refuse()
    return chosen[0]


class _Reader:
    """What is gathered on a walk through a model and the models in it."""

    def __init__(self, faults: Faults, versions: dict[str, Version]):
        self.faults = faults
        self.versions = versions
        self.frames = Frames(faults)
        self.links: list[Link] = []
        self.joints: list[tuple[str, Element, str]] = []
        self.named: list[tuple[str, Element]] = []
        self.notes: list[str] = []

    def read(self, model: Element, world: Element | None, floating: bool) -> RobotDescription:
        name = self.faults.name(model)
        self.frames.place("__model__", model, GROUND, "")
        self.walk(model, "")
        if not self.links:
            self.faults.add(model, "expected a <link>; found none")
        self.faults.refuse()
        joints = [self.joint(name, element, prefix) for name, element, prefix in self.joints]
        frames = tuple(self.frame(name, element) for name, element in self.named)
        self.faults.refuse()
        tied = any(joint.parent == GROUND for joint in (placed.joint for placed in joints))
        static = (model.first("static") or Element("", {}, 0)).text.strip() in ("true", "1")
        if static and floating:
            self.faults.add(model, "expected no <static>true</static> of a robot that floats; found it")
            self.faults.refuse()
        if tied:
            self.links.insert(0, Link(GROUND))
            if floating:
                self.faults.add(model, "expected no joint to 'world' of a robot that floats; found one")
                self.faults.refuse()
        elif not floating and not static:
            self.notes.append(f"model '{name}' is tied to no world; its root is held to the ground (floating=False)")
        description = RobotDescription(
            name,
            tuple(self.links),
            (),
            frames=frames,
            gravity=self.gravity(world),
            floating=floating,
            source=self.faults.source,
            notes=tuple(self.notes),
        )
        poses = {link.name: self.frames.pose(link.name) for link in self.links}
        try:
            return describe(description, poses, joints)
        except DescriptionError as error:
            raise DescriptionError([f"{self.faults.source}: {fault}" for fault in error.faults]) from None

    def gravity(self, world: Element | None) -> Vector:
        if world is None:
            return _GRAVITY
        found = world.first("gravity")
        if found is None:
            self.notes.append("the world says no gravity; that of the format, 9.8 m/s² downwards, is taken")
            return _WORLD_GRAVITY
        x, y, z = self.faults.numbers(found, found.text, 3)
        return x, y, z

    def walk(self, model: Element, prefix: str) -> None:
        """Notes everything that has a name; names of nested models stand before those in them, as in a::b."""
        if "placement_frame" in model.attributes:
            self.faults.add(model, "expected no placement_frame; it is not supported")
        for element in model.children:
            if element.tag in ("link", "joint", "frame", "model"):
                name = self.faults.name(element)
                getattr(self, f"note_{element.tag}")(prefix + name, element, prefix)

    def note_link(self, name: str, element: Element, prefix: str) -> None:
        self.frames.place(name, element, f"{prefix}__model__", prefix)
        self.frames.links.add(name)
        link, notes = read_link(name, element, self.faults)
        self.links.append(link)
        self.notes += notes

    def note_joint(self, name: str, element: Element, prefix: str) -> None:
        child = (element.first("child") or Element("", {}, 0)).text.strip()
        self.frames.place(name, element, prefix + child, prefix)
        self.frames.carried_by[name] = prefix + child
        self.joints.append((name, element, prefix))

    def note_frame(self, name: str, element: Element, prefix: str) -> None:
        attached = element.attributes.get("attached_to", "")
        carrier = self.frames.scoped(attached, prefix) if attached else f"{prefix}__model__"
        self.frames.place(name, element, carrier, prefix)
        self.frames.carried_by[name] = carrier
        self.named.append((name, element))

    def note_model(self, name: str, element: Element, prefix: str) -> None:
        self.frames.place(f"{name}::__model__", element, f"{prefix}__model__", prefix)
        self.frames.alias(name, f"{name}::__model__")
        self.walk(element, f"{name}::")

    def frame(self, name: str, element: Element) -> Frame:
        link = self.frames.link_of(name, element, self.links[0].name)
        return Frame(name, link, compose(inverse(self.frames.pose(link)), self.frames.pose(name)))

    def joint(self, name: str, element: Element, prefix: str) -> PlacedJoint:
        faults, given = self.faults, element.attributes.get("type", "")
        kind = _KINDS.get(given, "fixed")
        if given in _TWO_AXES:
            faults.add(element, f"expected joints of one axis; write {given} as two revolute ones with a massless link")
        elif given not in _KINDS:
            faults.add(element, f"expected a type of ({', '.join(_KINDS)}); found '{given}'")
        ends = [self.end(element, tag, prefix) for tag in ("parent", "child")]
        pose = self.frames.pose(name)
        own = Joint(name, kind, *ends)
        axis = element.first("axis")
        if kind in ("fixed", "spherical"):
            lost = [tag for tag in ("dynamics", "limit") if axis is not None and axis.first(tag) is not None]
            if kind == "spherical" and lost:
                told = " and ".join(f"<{tag}>" for tag in lost)
                self.notes.append(f"joint '{name}': a ball joint has no axis, and the {told} there is left out")
            return PlacedJoint(own, pose)
        if axis is None:
            faults.add(element, "expected an <axis>; found none")
            return PlacedJoint(own, pose)
        return PlacedJoint(self.with_axis(own, element, axis, prefix), pose)

    def end(self, element: Element, tag: str, prefix: str) -> str:
        """The link that a joint holds on to."""
        found = element.first(tag)
        if found is None or not found.text.strip():
            self.faults.add(element, f"expected <{tag}> with the name of a link; found none")
            return GROUND
        name = self.frames.scoped(found.text.strip(), prefix)
        if name == GROUND and tag == "child":
            self.faults.add(found, "expected a link; found 'world', which can be the parent only")
            return GROUND
        return self.frames.link_of(name, found, self.links[0].name)

    def with_axis(self, joint: Joint, element: Element, axis: Element, prefix: str) -> Joint:
        """A joint with what its axis says."""
        faults = self.faults
        xyz = axis.first("xyz")
        x, y, z = (0.0, 0.0, 1.0) if xyz is None else faults.numbers(xyz, xyz.text, 3)
        direction: Vector = (x, y, z)
        seen_from = "" if xyz is None else xyz.attributes.get("expressed_in", "")
        if (axis.first("use_parent_model_frame") or Element("", {}, 0)).text.strip() in ("1", "true"):
            seen_from = "__model__"
        if seen_from:
            outer = self.frames.pose(self.frames.scoped(seen_from, prefix), xyz)
            direction = turned(compose(inverse(self.frames.pose(joint.name)), outer), direction)
        try:
            direction, notes = unit_axis(direction, f"joint '{joint.name}'")
            self.notes += notes
        except DescriptionError:
            faults.add(xyz, f"expected a direction; found '{xyz.text if xyz else ''}'")
        if axis.first("initial_position") is not None:
            self.notes.append(f"joint '{joint.name}': its initial position is not looked at")
        limit = {tag: faults.number(axis, math.inf, "limit", tag) for tag in ("upper", "effort", "velocity")}
        lower = faults.number(axis, -math.inf, "limit", "lower")
        return Joint(
            joint.name,
            joint.kind,
            joint.parent,
            joint.child,
            axis=direction,
            pitch=self.pitch(element) if joint.kind == "screw" else 0.0,
            lower=-math.inf if lower <= -_UNLIMITED else lower,
            upper=math.inf if limit["upper"] >= _UNLIMITED else limit["upper"],
            max_velocity=_limit(limit["velocity"]),
            max_effort=_limit(limit["effort"]),
            damping=faults.number(axis, 0.0, "dynamics", "damping"),
            friction=faults.number(axis, 0.0, "dynamics", "friction"),
            stiffness=faults.number(axis, 0.0, "dynamics", "spring_stiffness"),
            spring_reference=faults.number(axis, 0.0, "dynamics", "spring_reference"),
            mimic=self.mimic(axis, prefix),
        )

    def mimic(self, axis: Element, prefix: str) -> Mimic | None:
        """q = multiplier (q_other − reference) + offset."""
        found = axis.first("mimic")
        if found is None:
            return None
        multiplier, offset, reference = (
            self.faults.number(found, default, tag)
            for tag, default in (("multiplier", 1.0), ("offset", 0.0), ("reference", 0.0))
        )
        return Mimic(prefix + found.attributes.get("joint", ""), multiplier, offset - multiplier * reference)

    def pitch(self, element: Element) -> float:
        """Advance of a screw [m/rad].

        `screw_thread_pitch` is metres per turn. `thread_pitch` is radians per metre of a left-handed screw since
        SDFormat 1.10; earlier versions did not say, and GTDynamics, whose files have it, reads metres per turn.
        """
        name = element.attributes.get("name", "")
        if element.first("screw_thread_pitch") is not None:
            return self.faults.number(element, 1.0, "screw_thread_pitch") / (2 * math.pi)
        found = element.first("thread_pitch")
        given = 1.0 if found is None else self.faults.number(element, 1.0, "thread_pitch")
        if found is not None and self.versions[element.source] >= (1, 10):
            if given == 0.0:
                self.faults.add(found, "expected a number other than 0 [rad/m]; found 0")
                return 0.0
            return -1 / given
        self.notes.append(
            f"joint '{name}': its thread pitch is read as {given:g} m per turn; write <screw_thread_pitch> to be clear"
        )
        return given / (2 * math.pi)


def _limit(value: float) -> float:
    """A limit that is none where it is negative or as good as infinite."""
    return math.inf if value < 0 or value >= _UNLIMITED else value
