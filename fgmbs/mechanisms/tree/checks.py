"""What is wrong with the description of a robot as a whole, and what is possible but may not be meant."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import get_args

import numpy as np

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.mechanisms.tree.description import ClosureKind, Joint, JointKind, Pose, RobotDescription

GROUND = "world"
"""What a description calls the ground where no link is it."""
KINDS = get_args(JointKind)
SCALAR = ("revolute", "continuous", "prismatic", "screw")
CLOSURES = get_args(ClosureKind)
_ROUNDING = 1e-6
"""Relative slack of inertias, which files round."""


def checked(description: RobotDescription) -> RobotDescription:
    """The description itself.

    Raises:
        DescriptionError: All that is wrong with it.
    """
    found = faults(description)
    if found:
        raise DescriptionError([f"{description.source or description.name}: {text}" for text in found])
    return description


def faults(description: RobotDescription) -> list[str]:
    """What is wrong, each as 'thing: expected …; found …'."""
    found = [*_names(description), *_joints(description), *_numbers(description)]
    if not found:
        found += [*_tree(description), *_mimics(description), *_places(description)]
    return found or list(_masses(description))


def remarks(description: RobotDescription) -> list[str]:
    """What is possible in a file, but in no body that can be made: inertias, by the name of the link."""
    found = []
    for link in description.links:
        inertia = np.asarray(link.inertia, float)
        moments = np.linalg.eigvalsh((inertia + inertia.T) / 2)
        slack = _ROUNDING * max(np.max(np.abs(moments)), 1e-300)
        if moments[0] < -slack:
            found.append(f"link '{link.name}': a principal moment of inertia is negative, {moments[0]:.4g} kg m²")
        elif moments[0] + moments[1] < moments[2] - slack:
            small, middle, large = (f"{moment:.4g}" for moment in moments)
            found.append(
                f"link '{link.name}': its principal moments of inertia are those of no body, {small} + {middle} < "
                f"{large} kg m²"
            )
        if link.mass == 0 and moments[2] > slack:
            found.append(f"link '{link.name}': it has a moment of inertia, but no mass")
    return found


def _names(description: RobotDescription) -> Iterator[str]:
    sections = {
        "link": [link.name for link in description.links],
        "joint": [joint.name for joint in description.joints],
        "closure": [closure.name for closure in description.closures],
        "frame": [frame.name for frame in description.frames],
    }
    for kind, names in sections.items():
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{kind} '{name}': expected a name of its own; found {count} of this name"
    for name in sections["frame"]:
        if name in (*sections["link"], GROUND):
            yield f"frame '{name}': expected a name of its own; found that of a link or of the ground"
    if not description.links:
        yield "robot: expected at least one link; found none"


def _joints(description: RobotDescription) -> Iterator[str]:
    links = [link.name for link in description.links]
    for joint in description.joints:
        where = f"joint '{joint.name}'"
        if joint.kind not in KINDS:
            yield f"{where}: expected a type of ({', '.join(KINDS)}); found '{joint.kind}'"
        if joint.parent not in (*links, GROUND):
            yield f"{where}.parent: {_no_link(joint.parent, links)}"
        if joint.child not in links:
            yield f"{where}.child: {_no_link(joint.child, links)}"
        if joint.separate and joint.kind != "fixed":
            yield f"{where}.separate: expected of fixed joints only; found one that is {joint.kind}"
        if joint.lower > joint.upper:
            yield f"{where}.limit: expected lower ≤ upper; found lower {joint.lower:g} and upper {joint.upper:g}"
        elif joint.lower == math.inf or joint.upper == -math.inf:
            yield f"{where}.limit: expected numbers between the limits; found from {joint.lower:g} to {joint.upper:g}"
        length = math.sqrt(sum(x * x for x in joint.axis))
        if joint.kind in SCALAR and not 1e-9 < length < math.inf:
            yield f"{where}.axis: expected a direction; found {joint.axis}"
        for key in ("damping", "friction", "stiffness", "rotor_inertia"):
            if not 0 <= getattr(joint, key) < math.inf:
                yield f"{where}.{key}: expected zero or a positive number; found {getattr(joint, key):g}"
        if joint.gear_ratio == 0:
            yield f"{where}.gear_ratio: expected a number other than 0; found 0"


MAY_BE_INFINITE = ("lower", "upper", "max_velocity", "max_effort")
"""Numbers of a joint."""
_TOLD_ELSEWHERE = ("axis", "damping", "friction", "stiffness", "rotor_inertia")
"""By `_joints` and below."""
_SKEWED = 1e-6
"""How far a rotation may be from one, as files round it."""


def _numbers(description: RobotDescription) -> Iterator[str]:
    """Finite numbers, frames that are turned and not skewed, directions that are some."""
    owners = [(f"link '{link.name}'", link) for link in description.links]
    owners += [(f"joint '{joint.name}'", joint) for joint in description.joints]
    owners += [(f"closure '{closure.name}'", closure) for closure in description.closures]
    owners += [(f"frame '{frame.name}'", frame) for frame in description.frames]
    owners += [(f"joint '{joint.name}'.mimic", joint.mimic) for joint in description.joints if joint.mimic is not None]
    for where, owner in [*owners, ("robot", description)]:
        for key, value in vars(owner).items():
            if isinstance(value, Pose):
                yield from _pose(f"{where}.{key}", value)
            elif key in MAY_BE_INFINITE and math.isnan(value):
                yield f"{where}.{key}: expected a number; found nan"
            elif _is_numbers(value) and key not in (*MAY_BE_INFINITE, *_TOLD_ELSEWHERE):
                yield from _finite(f"{where}.{key}", value)
    for closure in description.closures:
        if not 0 < float(np.linalg.norm(closure.axis)) < math.inf:
            yield f"closure '{closure.name}'.axis: expected a direction; found {closure.axis}"
    if not description.friction_width > 0:
        yield f"robot.friction_width: expected a positive number; found {description.friction_width:g}"


def _is_numbers(value: object) -> bool:
    if isinstance(value, tuple):
        return len(value) > 0 and all(map(_is_numbers, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _finite(where: str, value: object) -> Iterator[str]:
    bad = [number for number in np.ravel(np.asarray(value, float)) if not math.isfinite(number)]
    if bad:
        yield f"{where}: expected finite numbers; found {bad[0]}"


def _pose(where: str, pose: Pose) -> Iterator[str]:
    found = [*_finite(f"{where}.xyz", pose.xyz), *_finite(f"{where}.rotation", pose.rotation)]
    R = np.asarray(pose.rotation, float)
    if not found and not (np.abs(R @ R.T - np.eye(3)).max() < _SKEWED and np.linalg.det(R) > 0):
        found.append(f"{where}.rotation: expected three perpendicular axes of unit length; found {pose.rotation}")
    yield from found


def _no_link(name: str, links: list[str]) -> str:
    return f"expected the name of a link; found '{name}'{nearest(name, links, 'links')}"


def _tree(description: RobotDescription) -> Iterator[str]:
    """One root, no link with two parents, no cycle."""
    parent: dict[str, Joint] = {}
    for joint in description.joints:
        if joint.child in parent:
            yield (
                f"link '{joint.child}': expected one joint that carries it; found '{parent[joint.child].name}' and "
                f"'{joint.name}'. A loop is closed by a closure, not by a second parent"
            )
        parent[joint.child] = joint
    roots = [link.name for link in description.links if link.name not in parent]
    on_ground = [joint.child for joint in description.joints if joint.parent == GROUND]
    has_ground = GROUND in (link.name for link in description.links)
    roots += [] if has_ground or not on_ground or description.floating else [GROUND]
    if description.floating and (has_ground or on_ground):
        carried = ", ".join(f"'{joint.name}'" for joint in description.joints if joint.parent == GROUND) or "the link"
        yield f"robot: expected no joint to '{GROUND}', the ground, of a robot that floats; found {carried}"
    if len(roots) > 1:
        listed = ", ".join(f"'{name}'" for name in roots)
        yield f"robot: expected one root, a link that no joint carries; found {len(roots)}: {listed}"
    for link in description.links:
        seen, name = [], link.name
        while name in parent and name not in seen:
            seen.append(name)
            name = parent[name].parent
        if name in seen:
            ring = [*seen[seen.index(name) :], name]
            if ring[0] == min(ring):
                yield f"robot: expected a tree; found the cycle {' → '.join(reversed(ring))} without a closure"


def _mimics(description: RobotDescription) -> Iterator[str]:
    joints = {joint.name: joint for joint in description.joints}
    closing = [closure.name for closure in description.closures]
    for joint in description.joints:
        if joint.mimic is None:
            continue
        where, other = f"joint '{joint.name}'.mimic", joint.mimic.joint
        if other in closing:
            yield (
                f"{where}: expected the name of a joint with a coordinate; found '{other}', which closes a loop and "
                "has none. Of a loop that is the last joint: put another one there, or follow another one"
            )
            continue
        if other not in joints:
            yield f"{where}: expected the name of a joint; found '{other}'{nearest(other, joints, 'joints')}"
            continue
        for name in (joint.name, other):
            if joints[name].kind not in SCALAR:
                yield f"{where}: expected joints of one coordinate; found '{name}', which is {joints[name].kind}"
        seen, name = [], joint.name
        while name in joints and name not in seen and joints[name].mimic is not None:
            seen.append(name)
            name = joints[name].mimic.joint
        if name in seen:
            yield f"{where}: expected a joint that moves by itself at the end; found {' → '.join([*seen, name])}"


def _places(description: RobotDescription) -> Iterator[str]:
    links = [link.name for link in description.links]
    for closure in description.closures:
        where = f"closure '{closure.name}'"
        if closure.kind not in CLOSURES:
            yield f"{where}: expected a type of ({', '.join(CLOSURES)}); found '{closure.kind}'"
        for key in ("link_a", "link_b"):
            if (name := getattr(closure, key)) not in (*links, GROUND):
                yield f"{where}.{key}: {_no_link(name, links)}"
    for frame in description.frames:
        if frame.link not in (*links, GROUND):
            yield f"frame '{frame.name}'.link: {_no_link(frame.link, links)}"


def _masses(description: RobotDescription) -> Iterator[str]:
    """Masses and inertias that are none; links that move and carry nothing have no equation of motion."""
    links = {link.name: link for link in description.links}
    children: dict[str, list[Joint]] = {}
    for joint in description.joints:
        children.setdefault(joint.parent, []).append(joint)

    def inertial(name: str) -> bool:
        link = links[name]
        if link.mass > 0 or np.any(np.asarray(link.inertia)):
            return True
        return any(inertial(joint.child) for joint in children.get(name, ()))

    for link in description.links:
        if not 0 <= link.mass < math.inf:
            yield f"link '{link.name}'.mass: expected zero or a positive number; found {link.mass:g}"
        inertia = np.asarray(link.inertia, float)
        i, j = np.unravel_index(np.argmax(np.abs(inertia - inertia.T)), inertia.shape)
        if abs(inertia[i, j] - inertia[j, i]) > _ROUNDING * np.max(np.abs(inertia)):
            pair = f"{inertia[i, j]:g} in row {i + 1}, column {j + 1} and {inertia[j, i]:g} opposite to it"
            yield f"link '{link.name}'.inertia: expected a symmetric matrix; found {pair}"
    for joint in description.joints:
        if joint.kind != "fixed" and not joint.rotor_inertia and not inertial(joint.child):
            yield (
                f"link '{joint.child}': expected an inertia, because the {joint.kind} joint '{joint.name}' moves it; "
                "found none in it and in what it carries"
            )
