"""Loops beside a file that has none, as URDF: a YAML or JSON file of the joints that close them.

closures:
  - {name: j5, type: revolute, axis: [0, 1, 0], link_a: l2, xyz_a: [0.42, 0, 0], link_b: l3, xyz_b: [0.42, 0, 0]}
actuated: [j1, j2]        # the other joints move freely
gravity: [0, 0, -9.81]
"""

import dataclasses
import os
from typing import Annotated

from pydantic import Field

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.io.located_yaml import read_text
from fgmbs.io.robots.located_entries import Entries, Entry, Triple
from fgmbs.mechanisms.tree.description import Closure, ClosureKind, RobotDescription
from fgmbs.mechanisms.tree.placed import unit_axis
from fgmbs.mechanisms.tree.poses import from_rpy


class ClosureEntry(Entry):
    """A joint between a frame on one link and a frame on another."""

    name: Annotated[str, Field(min_length=1)]
    type: ClosureKind
    axis: Triple = (0.0, 0.0, 1.0)
    """In both frames; it is normalized."""
    link_a: str
    xyz_a: Triple = (0.0, 0.0, 0.0)
    """[m]"""
    rpy_a: Triple = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw [rad]."""
    link_b: str
    xyz_b: Triple = (0.0, 0.0, 0.0)
    rpy_b: Triple = (0.0, 0.0, 0.0)
    note: str = ""
    """For the reader of the file."""


class ClosuresFile(Entry):
    """What stands beside a robot file."""

    closures: tuple[ClosureEntry, ...]
    actuated: tuple[str, ...] | None = None
    """Joints on which motors act; by default all that the robot file says."""
    gravity: Triple | None = None
    """Acceleration of free fall [m/s²]; by default that of the robot file."""
    planar_axis: Triple | None = None
    """Of a planar loop: across its plane. For the reader of the file."""


def with_closures(description: RobotDescription, path: str | os.PathLike[str]) -> RobotDescription:
    """A robot with the loops of a file.

    Raises:
        DescriptionError: All faults of the file, each with its place.
    """
    return parse_closures(description, read_text(path, "a file of closures"), str(path))


def parse_closures(description: RobotDescription, text: str, source: str) -> RobotDescription:
    """A robot with the loops of a text; see `with_closures`.

    Args:
        source: What to call the text in messages.
    """
    entries = Entries(text, source)
    file = entries.read(ClosuresFile)
    links = [link.name for link in description.links]
    taken = {joint.name for joint in description.joints} | {one.name for one in description.closures}
    made: list[Closure] = []
    notes: list[str] = []
    for k, entry in enumerate(file.closures):
        path = ("closures", k)
        for key, name in (("link_a", entry.link_a), ("link_b", entry.link_b)):
            if name not in links:
                advice = nearest(name, links, "links")
                entries.add((*path, key), f"expected the name of a link; found '{name}'{advice}")
        if entry.name in taken:
            entries.add((*path, "name"), f"expected a name of its own; there is another '{entry.name}'")
        taken.add(entry.name)
        axis = entry.axis
        try:
            axis, more = unit_axis(entry.axis, f"closure '{entry.name}'")
            notes += more
        except DescriptionError:
            entries.add((*path, "axis"), f"expected a direction; found {list(entry.axis)}")
        poses = from_rpy(entry.xyz_a, entry.rpy_a), from_rpy(entry.xyz_b, entry.rpy_b)
        made.append(Closure(entry.name, entry.type, entry.link_a, poses[0], entry.link_b, poses[1], axis))
    names = [joint.name for joint in description.joints]
    for k, name in enumerate(file.actuated or ()):
        if name not in names:
            advice = nearest(name, names, "joints")
            entries.add(("actuated", k), f"expected the name of a joint; found '{name}'{advice}")
    entries.refuse()
    joints = description.joints
    if file.actuated is not None:
        joints = tuple(dataclasses.replace(joint, actuated=joint.name in file.actuated) for joint in joints)
    return dataclasses.replace(
        description,
        joints=joints,
        closures=(*description.closures, *made),
        gravity=description.gravity if file.gravity is None else file.gravity,
        notes=(*description.notes, *notes),
    )
