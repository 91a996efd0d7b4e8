"""The description of a robot: links, joints, loops and frames as a file says them, before anything is computed.

Every reader (URDF, SDF, Denavit–Hartenberg tables, MJCF) makes one, and a user may write one in Python. It holds plain
numbers in SI units and is checked as a whole by `fgmbs.mechanisms.tree.checks`. Frames are poses (xyz, rotation) of a
child seen from its parent; the rotation is a matrix, row by row.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

Vector = tuple[float, float, float]
Matrix = tuple[Vector, Vector, Vector]
JointKind = Literal["revolute", "continuous", "prismatic", "screw", "spherical", "floating", "fixed"]
ClosureKind = Literal["revolute", "prismatic", "spherical", "fixed", "connect"]

NO_ROTATION: Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


@dataclasses.dataclass(frozen=True)
class Pose:
    """Where a frame is, seen from another: x_other = rotation x + xyz."""

    xyz: Vector = (0.0, 0.0, 0.0)
    """Its origin [m]."""
    rotation: Matrix = NO_ROTATION
    """Its axes, as columns."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """Something to draw on a link."""

    kind: Literal["box", "cylinder", "sphere", "capsule", "mesh"]
    pose: Pose = Pose()
    """Where it is, seen from the link."""
    size: tuple[float, ...] = ()
    """Edges of a box; radius and length of a cylinder or capsule; radius of a sphere; scale of a mesh [m]."""
    file: str = ""
    """Of a mesh; need not exist."""
    color: str = ""


@dataclasses.dataclass(frozen=True)
class Link:
    """A rigid body."""

    name: str
    mass: float = 0.0
    """[kg]"""
    center: Vector = (0.0, 0.0, 0.0)
    """Centre of mass, seen from the link [m]."""
    inertia: Matrix = ((0.0, 0.0, 0.0),) * 3
    """About the centre of mass, along the axes of the link [kg m²]."""
    shapes: tuple[Shape, ...] = ()


@dataclasses.dataclass(frozen=True)
class Mimic:
    """A joint that follows another: q = multiplier q_other + offset."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0
    """[rad, m]"""


@dataclasses.dataclass(frozen=True)
class Joint:
    """How a link moves on its parent. In the zero position the child's frame is at `pose`, seen from the parent."""

    name: str
    kind: JointKind
    parent: str
    child: str
    pose: Pose = Pose()
    axis: Vector = (1.0, 0.0, 0.0)
    """Unit vector in the frame of the joint, which is the child's; of those with one coordinate."""
    pitch: float = 0.0
    """Of a screw: advance along the axis per radian [m/rad]."""
    lower: float = -float("inf")
    """Limit of q [rad, m]."""
    upper: float = float("inf")
    max_velocity: float = float("inf")
    """[rad/s, m/s]"""
    max_effort: float = float("inf")
    """[N m, N]"""
    damping: float = 0.0
    """Viscous [N m s/rad, N s/m]."""
    friction: float = 0.0
    """Coulomb [N m, N]."""
    stiffness: float = 0.0
    """Of a spring at the joint [N m/rad, N/m]."""
    spring_reference: float = 0.0
    """q at which the spring rests [rad, m]."""
    rotor_inertia: float = 0.0
    """Of the motor, on its own side of the gear [kg m²]; gear_ratio² times as large at the joint."""
    gear_ratio: float = 1.0
    mimic: Mimic | None = None
    actuated: bool = True
    """Whether a motor acts on it."""
    separate: bool = False
    """Of a fixed joint: its link stays a body of its own, whose inertial numbers have names; what the joint transmits
    can be read."""


@dataclasses.dataclass(frozen=True)
class Closure:
    """A joint that closes a loop: a frame on one link and a frame on another that a joint of this kind connects.

    revolute: the frames share origin and axis. prismatic: they share the axis line and all of the orientation.
    spherical and connect: the origin. fixed: everything.
    """

    name: str
    kind: ClosureKind
    link_a: str
    pose_a: Pose
    link_b: str
    pose_b: Pose
    axis: Vector = (0.0, 0.0, 1.0)
    """In both frames."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A named place on a link: of a tool, a sensor, or a link that was merged into this one."""

    name: str
    link: str
    pose: Pose = Pose()


@dataclasses.dataclass(frozen=True)
class RobotDescription:
    """A robot."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    """In file order, which is the order of q."""
    closures: tuple[Closure, ...] = ()
    frames: tuple[Frame, ...] = ()
    gravity: Vector = (0.0, 0.0, -9.81)
    """Acceleration of free fall, seen from the ground [m/s²]."""
    floating: bool = False
    """Whether the root link floats; else it is the ground."""
    friction_width: float = 0.01
    """Speed within which dry friction turns its sign [rad/s, m/s]."""
    source: str = ""
    """The file, for messages."""
    notes: tuple[str, ...] = ()
    """What a reader dropped, assumed or repaired, in words."""

    def drawn_links(self, points: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Places among `points` of the origin of each link and of the links that it carries; of one that carries none,
        of its frames."""
        found = {link.name: [points.index(link.name)] for link in self.links}
        for joint in self.joints:
            if joint.kind != "floating":
                found.setdefault(joint.parent, [points.index(joint.parent)]).append(points.index(joint.child))
        at_the_end = {link for link, drawn in found.items() if len(drawn) == 1}
        for frame in self.frames:
            if frame.link in at_the_end and frame.name in points:
                found[frame.link].append(points.index(frame.name))
        return {link: tuple(drawn) for link, drawn in found.items()}
