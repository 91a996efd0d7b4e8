"""Robots in Python: a function for every part, and `robot` for the whole.

    from fgmbs import robots

    arm = robots.robot(
        robots.link("upper", mass=2.0, center=(0, 0, 0.2), inertia=(0.03, 0.03, 0.002)),
        robots.link("fore", mass=1.0, center=(0, 0, 0.15), inertia=(0.01, 0.01, 0.001)),
        robots.revolute("shoulder", "world", "upper", axis=(0, 1, 0), xyz=(0, 0, 0.5)),
        robots.revolute("elbow", "upper", "fore", axis=(0, 1, 0), xyz=(0, 0, 0.4), damping=0.1),
    )

It is the robot that a file of the same parts describes (docs/robots.md). In its zero position the frame of a link is at
xyz and turned by rpy, seen from the link before; the axis of a joint is seen from the frame of its child. SI units.
"""

from fgmbs.robots.parts import (
    box,
    closure,
    cylinder,
    fixed,
    floating,
    frame,
    joint,
    link,
    prismatic,
    revolute,
    robot,
    screw,
    sphere,
    spherical,
)

__all__ = [
    "box",
    "closure",
    "cylinder",
    "fixed",
    "floating",
    "frame",
    "joint",
    "link",
    "prismatic",
    "revolute",
    "robot",
    "screw",
    "sphere",
    "spherical",
]
