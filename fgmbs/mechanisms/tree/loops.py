"""Loops of joints: which joint is cut out of a loop, so that a tree is left, and is kept as a closure.

Joints are looked at in file order. One whose child already has a parent joint, or carries its parent, closes a
loop: of the joints of a loop it is the last one in the file.
"""

import dataclasses
from collections.abc import Sequence

from fgmbs.errors import DescriptionError
from fgmbs.mechanisms.tree.checks import SCALAR
from fgmbs.mechanisms.tree.description import Closure, Joint, Pose, RobotDescription
from fgmbs.mechanisms.tree.poses import compose, inverse

_KINDS = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "spherical": "spherical",
    "fixed": "fixed",
}


def split(joints: Sequence[Joint]) -> tuple[tuple[Joint, ...], tuple[Joint, ...]]:
    """The joints of the tree and those that close loops, each in file order."""
    parent_of: dict[str, str] = {}
    tree: list[Joint] = []
    closing: list[Joint] = []
    for joint in joints:
        above: str | None = joint.parent
        while above is not None and above != joint.child:
            above = parent_of.get(above)
        if joint.child in parent_of or above is not None:
            closing.append(joint)
        else:
            parent_of[joint.child] = joint.parent
            tree.append(joint)
    return tuple(tree), tuple(closing)


def closure(joint: Joint, pose_a: Pose, pose_b: Pose) -> tuple[Closure, list[str]]:
    """The closure that a joint is, and what of the joint is lost.

    Args:
        pose_a: Frame of the joint, seen from its parent.
        pose_b: The same frame, seen from its child in the zero position; the axis is along it.

    Raises:
        DescriptionError: Joints of this kind close no loop.
    """
    kind = _KINDS.get(joint.kind)
    if kind is None:
        raise DescriptionError(
            [f"joint '{joint.name}': expected one of ({', '.join(_KINDS)}) to close a loop; found {joint.kind}"]
        )
    still = Joint(joint.name, joint.kind, joint.parent, joint.child)
    lost = [
        f"its {field.replace('_', ' ')} of {getattr(joint, field):g}"
        for field in ("damping", "friction", "stiffness", "rotor_inertia", "max_velocity", "max_effort")
        if getattr(joint, field) != getattr(still, field)
    ]
    if (joint.lower, joint.upper) != (still.lower, still.upper):
        lost.append("its limits")
    if joint.mimic is not None:
        lost.append(f"that it follows '{joint.mimic.joint}'")
    text = f"joint '{joint.name}' closes a loop and has no coordinate"
    if joint.actuated and joint.kind in SCALAR:
        text += " and no motor"
    one = len(lost) == 1 and lost != ["its limits"]
    notes = [text + (f"; {', '.join(lost)} {'is' if one else 'are'} left out" if lost else "")]
    return Closure(joint.name, kind, joint.parent, pose_a, joint.child, pose_b, joint.axis), notes


def close_loops(description: RobotDescription) -> RobotDescription:
    """A description in which joints may form loops, as a tree with closures.

    A joint that closes a loop stands where its pose on the parent is; on the child that is where it finds the place in
    the zero position, which the loop has to fit.

    Raises:
        DescriptionError: A joint that closes a loop is of a kind that cannot.
    """
    tree, closing = split(description.joints)
    poses = _in_zero_position(tree)
    made = []
    for joint in closing:
        at = compose(poses.get(joint.parent, Pose()), joint.pose)
        made.append(closure(joint, joint.pose, compose(inverse(poses.get(joint.child, Pose())), at)))
    return dataclasses.replace(
        description,
        joints=tree,
        closures=description.closures + tuple(one for one, _ in made),
        notes=description.notes + tuple(note for _, notes in made for note in notes),
    )


def _in_zero_position(tree: Sequence[Joint]) -> dict[str, Pose]:
    """Links that joints move, seen from their root."""
    above = {joint.child: joint for joint in tree}
    poses: dict[str, Pose] = {}
    for link in above:
        way, at = [], link
        while at in above and at not in poses:
            way.append(above[at])
            at = above[at].parent
        for joint in reversed(way):
            poses[joint.child] = compose(poses.get(joint.parent, Pose()), joint.pose)
    return poses
