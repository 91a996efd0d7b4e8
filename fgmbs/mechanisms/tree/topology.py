"""What is static of a robot: which joint carries which, kinds and names.

What fixed joints hold is merged into their parents, unless it stays separate: such a joint has no velocity.
"""

import dataclasses
import functools

import numpy as np

from fgmbs.mechanisms.tree.checks import GROUND, SCALAR
from fgmbs.mechanisms.tree.description import Joint, JointKind, Link, Pose, RobotDescription

SIZES = {"spherical": (4, 3), "floating": (7, 6), "fixed": (0, 0)}
"""Numbers of coordinates and of velocities of joints that have not one."""
TURNING = ("spherical", "floating")
"""Joints with a quaternion among their coordinates."""
_COORDINATES = {
    "fixed": (),
    "spherical": ("qw", "qx", "qy", "qz"),
    "floating": ("x", "y", "z", "qw", "qx", "qy", "qz"),
}
_VELOCITIES = {"fixed": (), "spherical": ("wx", "wy", "wz"), "floating": ("wx", "wy", "wz", "vx", "vy", "vz")}


@dataclasses.dataclass(frozen=True)
class TreeTopology:
    """Joints that move, and fixed ones that are separate, in file order, each with the body that it carries; the ground
    is body −1."""

    name: str
    joints: tuple[str, ...]
    kinds: tuple[JointKind, ...]
    parents: tuple[int, ...]
    links: tuple[str, ...]
    """What each joint carries."""
    root: str
    """What the ground is called."""
    leaders: tuple[int, ...]
    """The joint that each one follows; itself, if it follows none."""
    actuated: tuple[bool, ...]
    frames: tuple[str, ...] = ()
    frame_bodies: tuple[int, ...] = ()
    closures: tuple[str, ...] = ()
    closure_kinds: tuple[str, ...] = ()
    closure_bodies: tuple[tuple[int, int], ...] = ()
    has_friction: bool = False
    has_springs: bool = False

    @property
    def count(self) -> int:
        """Number of joints, and of bodies."""
        return len(self.joints)

    @functools.cached_property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """Bodies by their distance from the ground."""
        depth: dict[int, int] = {-1: -1}
        while len(depth) <= self.count:
            found = {k: depth[p] + 1 for k, p in enumerate(self.parents) if p in depth and k not in depth}
            assert found, "a body is carried by itself"
            depth |= found
        ranks = [[k for k in range(self.count) if depth[k] == d] for d in range(max(depth.values()) + 1)]
        return tuple(map(tuple, ranks))

    @functools.cached_property
    def ancestry(self) -> np.ndarray:
        """[i, j]: whether body i is body j or carries it."""
        mask = np.eye(self.count)
        for level in self.levels:
            for k in level:
                if self.parents[k] >= 0:
                    mask[:, k] += mask[:, self.parents[k]]
        return mask

    @functools.cached_property
    def moving(self) -> np.ndarray:
        """Whether each body moves: one that is separate may be fixed to the ground."""
        return np.array(self.ancestry.T @ [kind != "fixed" for kind in self.kinds], bool)

    @functools.cached_property
    def columns(self) -> np.ndarray:
        """The joint of each of the velocities of all joints, of followers too."""
        return np.repeat(np.arange(self.count), [SIZES.get(kind, (1, 1))[1] for kind in self.kinds])

    @functools.cached_property
    def supports(self) -> np.ndarray:
        """[column, body]: whether the velocity moves the body."""
        return self.ancestry[self.columns]

    @functools.cached_property
    def starts(self) -> tuple[np.ndarray, np.ndarray]:
        """First coordinate and first velocity of each joint; those of the leader of a follower. Those of a fixed joint
        do not move it."""
        sizes = [
            SIZES.get(k, (1, 1)) if j == lead else (0, 0)
            for j, (k, lead) in enumerate(zip(self.kinds, self.leaders, strict=True))
        ]
        ends = np.cumsum(np.array(sizes, int).reshape(-1, 2), axis=0)
        starts = np.minimum(ends - np.array(sizes, int).reshape(-1, 2), np.maximum(ends[-1:] - 1, 0))
        return starts[list(self.leaders), 0], starts[list(self.leaders), 1]

    @functools.cached_property
    def velocity_of_column(self) -> np.ndarray:
        """Which velocity each column moves with."""
        first = np.concatenate([np.arange(SIZES.get(kind, (1, 1))[1]) for kind in self.kinds] or [[]])
        return self.starts[1][self.columns] + first.astype(int)

    @property
    def has_followers(self) -> bool:
        """Whether any joint follows another."""
        return any(j != lead for j, lead in enumerate(self.leaders))

    @functools.cached_property
    def floats(self) -> bool:
        """Whether all hangs on one floating joint, with respect to which the forces are taken then."""
        return [k for k, p in enumerate(self.parents) if p < 0] == [0] and self.kinds[0] == "floating"

    def names(self, velocities: bool) -> tuple[str, ...]:
        """Names of coordinates, or of velocities."""
        ends = _VELOCITIES if velocities else _COORDINATES
        return tuple(
            name
            for j, (joint, kind) in enumerate(zip(self.joints, self.kinds, strict=True))
            if self.leaders[j] == j
            for name in ([f"{joint}.{end}" for end in ends[kind]] if kind in ends else [joint])
        )

    def units(self, velocities: bool) -> tuple[str, ...]:
        """Units of coordinates, or of velocities times seconds."""
        found: list[str] = []
        for j, kind in enumerate(self.kinds):
            if self.leaders[j] != j:
                continue
            match kind:
                case "floating":
                    found += ["rad"] * 3 + ["m"] * 3 if velocities else ["m"] * 3 + ["1"] * 4
                case "spherical":
                    found += ["rad"] * 3 if velocities else ["1"] * 4
                case "fixed":
                    pass
                case _:
                    found.append("m" if kind == "prismatic" else "rad")
        return tuple(found)

    @property
    def motors(self) -> tuple[int, ...]:
        """Joints with a motor."""
        return tuple(
            j for j in range(self.count) if self.actuated[j] and self.leaders[j] == j and self.kinds[j] in SCALAR
        )


@dataclasses.dataclass(frozen=True)
class Merged:
    """A robot without fixed joints but those that are separate, in matrices."""

    topology: TreeTopology
    joints: tuple[Joint, ...]
    places: tuple[np.ndarray, ...]
    """Pose of each joint, seen from the body that carries it."""
    inertias: tuple[tuple[float, np.ndarray, np.ndarray], ...]
    """(mass, centre, inertia about the centre) of each body."""
    frames: tuple[np.ndarray, ...]
    closures: tuple[tuple[np.ndarray, np.ndarray], ...]
    follows: tuple[tuple[float, float], ...]
    """(multiplier, offset) of each joint."""


def matrix(pose: Pose) -> np.ndarray:
    """The 4 × 4 matrix of a pose."""
    found = np.eye(4)
    found[:3, :3], found[:3, 3] = pose.rotation, pose.xyz
    return found


def merged(description: RobotDescription) -> Merged:
    """The bodies that move, of a description that has been checked, and all frames on them."""
    names = [link.name for link in description.links]
    joints = list(description.joints)
    carried = {joint.child for joint in joints}
    root = next((name for name in names if name not in carried), GROUND)
    if description.floating:
        label = "base" if "base" not in [joint.name for joint in joints] else f"{root}_base"
        joints = [Joint(label, "floating", GROUND, root, actuated=False), *joints]
        root = GROUND
    by_child = {joint.child: joint for joint in joints}
    moving = [joint for joint in joints if _is_kept(joint)]
    index = {joint.name: k for k, joint in enumerate(moving)}

    @functools.cache
    def placed(link: str) -> tuple[int, bytes]:
        """(body, pose on it) of a link."""
        joint = by_child.get(link)
        if joint is None:
            return -1, np.eye(4).tobytes()
        if _is_kept(joint):
            return index[joint.name], np.eye(4).tobytes()
        body, pose = placed(joint.parent)
        return body, (_pose(pose) @ matrix(joint.pose)).tobytes()

    def on(link: str, pose: Pose) -> tuple[int, np.ndarray]:
        body, place = placed(link)
        return body, _pose(place) @ matrix(pose)

    bodies = [[] for _ in moving]
    for link in description.links:
        body, pose = on(link.name, Pose())
        if body >= 0:
            bodies[body].append((link, pose))
    seats = [on(joint.parent, joint.pose) for joint in moving]
    places = [(name, *on(name, Pose())) for name in names]
    places += [(f.name, *on(f.link, f.pose)) for f in description.frames if f.name not in names]
    if root not in names:
        places.insert(0, (root, -1, np.eye(4)))
    ends = [(on(c.link_a, c.pose_a), on(c.link_b, c.pose_b)) for c in description.closures]
    leads = [_leader(joint, moving, index) for joint in moving]
    topology = TreeTopology(
        name=description.name,
        joints=tuple(index),
        kinds=tuple(joint.kind for joint in moving),
        parents=tuple(body for body, _ in seats),
        links=tuple(joint.child for joint in moving),
        root=root,
        leaders=tuple(lead for lead, *_ in leads),
        actuated=tuple(joint.actuated for joint in moving),
        frames=tuple(name for name, *_ in places),
        frame_bodies=tuple(body for _, body, _ in places),
        closures=tuple(c.name for c in description.closures),
        closure_kinds=tuple("spherical" if c.kind == "connect" else c.kind for c in description.closures),
        closure_bodies=tuple((a[0], b[0]) for a, b in ends),
        has_friction=any(joint.friction > 0 for joint in moving),
        has_springs=any(joint.stiffness > 0 for joint in moving),
    )
    return Merged(
        topology,
        tuple(moving),
        tuple(pose for _, pose in seats),
        tuple(_together(links) for links in bodies),
        tuple(pose for *_, pose in places),
        tuple((a[1], b[1]) for a, b in ends),
        tuple((multiplier, offset) for _, multiplier, offset in leads),
    )


def _is_kept(joint: Joint) -> bool:
    """Whether its link is a body of its own."""
    return joint.kind != "fixed" or joint.separate


def _pose(data: bytes) -> np.ndarray:
    return np.frombuffer(data).reshape(4, 4)


def _leader(joint: Joint, joints: list[Joint], index: dict[str, int]) -> tuple[int, float, float]:
    """(the joint at the end of what it follows, multiplier, offset)."""
    multiplier, offset = 1.0, 0.0
    while joint.mimic is not None:
        offset += multiplier * joint.mimic.offset
        multiplier *= joint.mimic.multiplier
        joint = joints[index[joint.mimic.joint]]
    return index[joint.name], multiplier, offset


def _together(links: list[tuple[Link, np.ndarray]]) -> tuple[float, np.ndarray, np.ndarray]:
    """(mass, centre, inertia about the centre) of links on one body."""
    mass = sum(link.mass for link, _ in links)
    centres = [pose[:3, :3] @ np.array(link.center) + pose[:3, 3] for link, pose in links]
    centre = sum((link.mass * c for (link, _), c in zip(links, centres, strict=True)), np.zeros(3))
    centre = centre / mass if mass > 0 else centre
    inertia = np.zeros((3, 3))
    for (link, pose), c in zip(links, centres, strict=True):
        d = c - centre
        inertia += pose[:3, :3] @ np.array(link.inertia) @ pose[:3, :3].T
        inertia += link.mass * (d @ d * np.eye(3) - np.outer(d, d))
    return mass, centre, inertia
