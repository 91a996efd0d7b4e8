"""Robots some of whose joints are held where they are, or keep what they hold as a body of its own."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from fgmbs.arguments import by_name, finite_number, nearest, of_type
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.tree.checks import SCALAR
from fgmbs.mechanisms.tree.description import Joint, RobotDescription
from fgmbs.mechanisms.tree.poses import compose, pose_of


def with_locked(description: RobotDescription, locked: Mapping[str, Any]) -> RobotDescription:
    """The description with joints fixed where their coordinates are these [rad, m], and those that follow them.

    Raises:
        ArgumentError: There is no such joint, it follows another or has no single coordinate, or the number is not
            finite or beyond the limits of the joint.
    """
    by_name("locked", locked)
    joints = {joint.name: joint for joint in description.joints}
    held = {name: _checked(name, value, joints) for name, value in locked.items()}
    while following := [j for j in description.joints if _follows(j, held)]:
        held |= {j.name: j.mimic.multiplier * held[j.mimic.joint] + j.mimic.offset for j in following}
    fixed = tuple(_fixed(j, held[j.name]) if j.name in held else j for j in description.joints)
    return dataclasses.replace(description, joints=fixed)


def _follows(joint: Joint, held: Mapping[str, float]) -> bool:
    """Whether a joint follows one that is held, and is not held yet."""
    return joint.mimic is not None and joint.mimic.joint in held and joint.name not in held


def with_separate(description: RobotDescription, separate: Sequence[str]) -> RobotDescription:
    """The description with the links of these fixed joints as bodies of their own.

    Raises:
        ArgumentError: There is no such joint, or it moves.
    """
    of_type("separate", separate, (list, tuple), "names of fixed joints in a list")
    kinds = {joint.name: joint.kind for joint in description.joints}
    for name in separate:
        of_type("separate", name, str, "names of fixed joints in a list")
        if name not in kinds:
            raise ArgumentError(f"separate: there is no joint {name!r}{nearest(name, kinds, 'joints')}")
        if kinds[name] != "fixed":
            raise ArgumentError(f"separate: expected names of fixed joints; found {name!r}, which is {kinds[name]}")
    joints = (dataclasses.replace(j, separate=True) if j.name in separate else j for j in description.joints)
    return dataclasses.replace(description, joints=tuple(joints))


def _checked(name: str, value: object, joints: Mapping[str, Joint]) -> float:
    argument = f"locked[{name!r}]"
    if name not in joints:
        raise ArgumentError(f"locked: there is no joint {name!r}{nearest(name, joints, 'joints')}")
    joint, number = joints[name], finite_number(value, argument)
    if joint.mimic is not None:
        raise ArgumentError(f"{argument}: expected a joint of its own; found one that follows {joint.mimic.joint!r}")
    if joint.kind not in SCALAR:
        raise ArgumentError(f"{argument}: expected a joint of one coordinate; found one of kind {joint.kind!r}")
    if not joint.lower <= number <= joint.upper:
        raise ArgumentError(f"{argument}: expected a number from {joint.lower:g} to {joint.upper:g}; found {number:g}")
    return number


def _fixed(joint: Joint, q: float) -> Joint:
    axis = np.asarray(joint.axis, float) / np.linalg.norm(joint.axis)
    turn, advance = {"prismatic": (0.0, q), "screw": (q, joint.pitch * q)}.get(joint.kind, (q, 0.0))
    moved = pose_of(Rotation.from_rotvec(turn * axis).as_matrix(), advance * axis)
    return Joint(joint.name, "fixed", joint.parent, joint.child, compose(joint.pose, moved))
