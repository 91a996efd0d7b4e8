"""Frames of an SDF model: every name has a pose relative to another name, and is carried by a link."""

import math

from fgmbs.io.robots.located_xml import Element, Faults
from fgmbs.mechanisms.tree.description import Pose
from fgmbs.mechanisms.tree.placed import GROUND
from fgmbs.mechanisms.tree.poses import compose, from_quaternion, from_rpy


class Frames:
    """Where everything is that has a name; names of nested models stand before those in them."""

    def __init__(self, faults: Faults):
        self.faults = faults
        self.links: set[str] = {GROUND}
        self.carried_by: dict[str, str] = {}
        """Of joints and frames: the name they are attached to."""
        self._placed: dict[str, tuple[str, Pose, Element | None]] = {GROUND: (GROUND, Pose(), None)}
        self._known: dict[str, Pose] = {GROUND: Pose()}

    def scoped(self, name: str, prefix: str) -> str:
        """The whole name of what is called so in a model."""
        return name if name == GROUND else prefix + name

    def place(self, name: str, element: Element, default: str, prefix: str) -> None:
        """Notes where an element is.

        Args:
            default: What its pose is relative to, if it does not say so.
            prefix: Of names in its model.
        """
        if name in self._placed:
            what = "'world' is the ground" if name == GROUND else "there are two"
            self.faults.add(element, f"expected a name of its own; {what}")
            return
        pose = element.first("pose")
        if pose is None:
            self._placed[name] = default, Pose(), element
            return
        relative = pose.attributes.get("relative_to", "") or pose.attributes.get("frame", "")
        self._placed[name] = self.scoped(relative, prefix) if relative else default, read_pose(pose, self.faults), pose

    def alias(self, name: str, other: str) -> None:
        """A nested model is where its own frame is."""
        self._placed[name] = other, Pose(), None
        self.carried_by[name] = other

    def pose(self, name: str, element: Element | None = None) -> Pose:
        """A frame seen from the world."""
        chain: list[str] = []
        while name not in self._known:
            if name in chain or name not in self._placed:
                text = f"a cycle: {' → '.join([*chain, name])}" if name in chain else f"'{name}'"
                at = self._placed[chain[-1]][2] if chain else element
                self.faults.add(at, f"expected the name of a link, joint, frame or model; found {text}")
                self._known |= dict.fromkeys([*chain, name], Pose())
                return Pose()
            chain.append(name)
            name = self._placed[name][0]
        for below in reversed(chain):
            other, pose, _ = self._placed[below]
            self._known[below] = compose(self._known[other], pose)
        return self._known[chain[0] if chain else name]

    def link_of(self, name: str, element: Element, canonical: str) -> str:
        """The link that carries a frame.

        Args:
            element: Where the name stands.
            canonical: The link that carries the frame of a model.
        """
        seen: list[str] = []
        while name not in self.links:
            if name.endswith("__model__"):
                return next((link for link in sorted(self.links) if _inside(link, name)), canonical)
            if name in seen or name not in self.carried_by:
                self.faults.add(element, f"expected the name of a link or frame; found '{name}'")
                return GROUND
            seen.append(name)
            name = self.carried_by[name]
        return name


def _inside(link: str, model_frame: str) -> bool:
    prefix = model_frame.removesuffix("__model__")
    return bool(prefix) and link.startswith(prefix)


def read_pose(element: Element, faults: Faults) -> Pose:
    """The pose in a <pose>: x y z and roll pitch yaw, or a quaternion x y z w."""
    if not element.text.strip():
        return Pose()
    if element.attributes.get("rotation_format", "euler_rpy") == "quat_xyzw":
        x, y, z, i, j, k, w = faults.numbers(element, element.text, 7)
        if not any((i, j, k, w)):
            faults.add(element, "expected a quaternion x y z w that is not zero; found zeros")
            return Pose()
        return from_quaternion((x, y, z), (w, i, j, k))
    x, y, z, roll, pitch, yaw = faults.numbers(element, element.text, 6)
    if element.attributes.get("degrees", "false") in ("true", "1"):
        roll, pitch, yaw = map(math.radians, (roll, pitch, yaw))
    return from_rpy((x, y, z), (roll, pitch, yaw))
