"""Robots drawn in one frame: links and joints where they are in the zero position, as SDF and MJCF give them.

A description has the frame of a link on the joint that moves it. Where a file has it elsewhere, the frame is moved to
the joint, its axes staying parallel, and the file's is kept as a frame.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fgmbs.errors import DescriptionError
from fgmbs.mechanisms.tree.checks import GROUND, SCALAR
from fgmbs.mechanisms.tree.description import Frame, Joint, Link, Pose, RobotDescription, Vector
from fgmbs.mechanisms.tree.loops import closure, split
from fgmbs.mechanisms.tree.poses import compose, inverse, moved, turned, vector_of

_NEAR = 1e-12
"""Distance of an origin from an axis that is none [m]."""


class PlacedJoint(NamedTuple):
    """A joint with its own frame in the zero position of the robot."""

    joint: Joint
    """Its pose is not looked at; its axis is in its own frame."""
    pose: Pose


def describe(
    description: RobotDescription, poses: Mapping[str, Pose], joints: Sequence[PlacedJoint]
) -> RobotDescription:
    """The description of a robot drawn in one frame, whose joints may form loops.

    A root that is held to the ground away from the origin gets the ground as its parent.

    Args:
        description: All but joints; shapes, centres, closures and frames as seen from the links of the file.
        poses: Frames of the links in the zero position, with `GROUND` at the origin.
        joints: In file order.

    Raises:
        DescriptionError: A joint that closes a loop is of a kind that cannot.
    """
    tree, closing = split([placed.joint for placed in joints])
    at = {placed.joint.name: placed.pose for placed in joints}
    frames = dict(poses)
    taken = {one.name for one in (*description.links, *description.frames)}
    kept: dict[str, str] = {}
    shifts: dict[str, Pose] = {}
    notes: list[str] = []
    for joint in tree:
        shift = _shift(joint, poses[joint.child], at[joint.name])
        if shift is not None:
            frames[joint.child] = compose(poses[joint.child], Pose(shift))
            shifts[joint.child] = inverse(Pose(shift))
            kept[joint.child] = _free_name(f"{joint.child}_frame", taken)
            x, y, z = shift
            notes.append(
                f"link '{joint.child}': its frame was moved by ({x:g}, {y:g}, {z:g}) m to joint '{joint.name}'; "
                f"the file's is the frame '{kept[joint.child]}'"
            )
    closures = [
        dataclasses.replace(
            one,
            pose_a=compose(shifts.get(one.link_a, Pose()), one.pose_a),
            pose_b=compose(shifts.get(one.link_b, Pose()), one.pose_b),
        )
        for one in description.closures
    ]
    for joint in closing:
        seen_from = [compose(inverse(frames[link]), at[joint.name]) for link in (joint.parent, joint.child)]
        made, more = closure(joint, *seen_from)
        closures.append(made)
        notes += more
    placed = [
        dataclasses.replace(
            joint,
            pose=compose(inverse(frames[joint.parent]), frames[joint.child]),
            axis=turned(compose(inverse(frames[joint.child]), at[joint.name]), joint.axis)
            if joint.kind in SCALAR
            else joint.axis,
        )
        for joint in tree
    ]
    links = [_moved_link(link, shifts.get(link.name)) for link in description.links]
    roots = [link.name for link in links if link.name not in {joint.child for joint in tree}]
    if len(roots) == 1 and roots[0] != GROUND and frames[roots[0]] != Pose():
        root, at_start = roots[0], frames[roots[0]]
        if description.floating:
            x, y, z = at_start.xyz
            notes.append(
                f"link '{root}': its pose in the file, at ({x:g}, {y:g}, {z:g}) m, is left out, because it floats; "
                "give its coordinates where the motion starts"
            )
        else:
            links.insert(0, Link(GROUND))
            placed.insert(0, Joint(f"{GROUND}_{root}", "fixed", GROUND, root, at_start))
    named = [Frame(kept[link], link, shift) for link, shift in shifts.items()]
    for frame in description.frames:
        shift = shifts.get(frame.link)
        named.append(frame if shift is None else dataclasses.replace(frame, pose=compose(shift, frame.pose)))
    return dataclasses.replace(
        description,
        links=tuple(links),
        joints=tuple(placed),
        closures=tuple(closures),
        frames=tuple(named),
        notes=(*description.notes, *notes),
    )


def unit_axis(axis: Vector, where: str) -> tuple[Vector, list[str]]:
    """A direction of unit length, and the note that it was not.

    Raises:
        DescriptionError: It is no direction.
    """
    length = float(np.linalg.norm(axis))
    if length < _NEAR:
        raise DescriptionError([f"{where}: expected a direction as axis; found {axis}"])
    note = [] if abs(length - 1) < 1e-6 else [f"{where}: its axis of length {length:g} was normalized"]
    return vector_of(np.asarray(axis) / length), note


def _free_name(name: str, taken: set[str]) -> str:
    """The name, or with underscores behind it one that no other has."""
    while name in taken:
        name += "_"
    return name


def _shift(joint: Joint, link: Pose, at: Pose) -> Vector | None:
    """From the origin of a link to the joint that turns it, seen from the link; None where it is on the axis."""
    seen = compose(inverse(link), at)
    offset = np.asarray(seen.xyz)
    if joint.kind in ("revolute", "continuous", "screw"):
        away = np.linalg.norm(np.cross(turned(seen, joint.axis), offset))
    else:
        away = np.linalg.norm(offset) if joint.kind == "spherical" else 0.0
    return seen.xyz if away > _NEAR else None


def _moved_link(link: Link, shift: Pose | None) -> Link:
    if shift is None:
        return link
    shapes = tuple(dataclasses.replace(shape, pose=compose(shift, shape.pose)) for shape in link.shapes)
    return dataclasses.replace(link, center=moved(shift, link.center), shapes=shapes)
