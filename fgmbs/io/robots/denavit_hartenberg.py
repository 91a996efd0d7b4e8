"""Chains from Denavit–Hartenberg tables, distal (standard) or modified, in YAML.

    name: scara
    convention: distal
    joints:
      - {name: shoulder, type: revolute, a: 0.3, mass: 2, center: [-0.15, 0, 0], inertia: [0.01, 0.02, 0.02]}
      - {name: quill, type: prismatic, alpha: pi, mass: 1, rotor_inertia: 1e-5, gear_ratio: 200}

In the distal convention frame i stands at the far end of link i, A_i = Rz(θ_i) Tz(d_i) Tx(a_i) Rx(α_i), and joint i
acts along z of frame i − 1 ([RID23] eq. (4)). In the modified one frame i stands on joint i,
A_i = Rx(α_{i−1}) Tx(a_{i−1}) Rz(θ_i) Tz(d_i), and the entry of joint i has α_{i−1} and a_{i−1}.
"""

import os
from typing import Annotated, Literal

from pydantic import Field

from fgmbs.io.located_yaml import read_text
from fgmbs.io.robots.located_entries import Entries, Entry, FiniteNumber, Origin, Triple
from fgmbs.mechanisms.tree.description import Frame, Joint, Link, Matrix, Pose, RobotDescription
from fgmbs.mechanisms.tree.placed import GROUND, PlacedJoint, describe
from fgmbs.mechanisms.tree.poses import compose, from_rpy

Positive = Annotated[FiniteNumber, Field(ge=0.0)]


class JointEntry(Entry):
    """A row of the table with the link it moves."""

    name: Annotated[str, Field(min_length=1)]
    type: Literal["revolute", "prismatic"] = "revolute"
    link: str | None = None
    """Name of the link; by default that of the joint with `_link` behind."""
    theta: FiniteNumber = 0.0
    """Added to q of a revolute joint [rad]."""
    d: FiniteNumber = 0.0
    """Added to q of a prismatic joint [m]."""
    a: FiniteNumber = 0.0
    """[m]"""
    alpha: FiniteNumber = 0.0
    """[rad]"""
    mass: Positive = 0.0
    """[kg]"""
    center: Triple = (0.0, 0.0, 0.0)
    """Centre of mass, seen from the frame of the link [m]."""
    inertia: Annotated[tuple[FiniteNumber, ...], Field(min_length=3, max_length=6)] = (0.0, 0.0, 0.0)
    """About the centre of mass along the axes of the frame: xx, yy, zz and, if they are there, xy, xz, yz [kg m²]."""
    rotor_inertia: Positive = 0.0
    """On the side of the motor [kg m²]."""
    gear_ratio: FiniteNumber = 1.0
    damping: Positive = 0.0
    """At the joint [N m s/rad, N s/m]."""
    friction: Positive = 0.0
    """Coulomb, at the joint [N m, N]."""
    stiffness: Positive = 0.0
    """[N m/rad, N/m]"""
    spring_reference: FiniteNumber = 0.0
    lower: FiniteNumber | None = None
    """Limits of q [rad, m]."""
    upper: FiniteNumber | None = None
    max_velocity: Positive | None = None
    max_effort: Positive | None = None


class TableFile(Entry):
    """A chain."""

    name: str = "robot"
    convention: Literal["distal", "modified"]
    gravity: Triple = (0.0, 0.0, -9.81)
    """Acceleration of free fall [m/s²]."""
    base: Origin = Origin()
    """Frame 0, seen from the ground."""
    joints: Annotated[tuple[JointEntry, ...], Field(min_length=1)]
    tool: Origin | None = None
    """A frame on the last link, called `tool`."""


def is_table(data: object) -> bool:
    """Whether data of a YAML file are such a table."""
    return isinstance(data, dict) and "convention" in data and "joints" in data


def read_table(path: str | os.PathLike[str]) -> RobotDescription:
    """The robot of a Denavit–Hartenberg table; see `parse_table`."""
    return parse_table(read_text(path, "a Denavit–Hartenberg table"), str(path))


def parse_table(text: str, source: str) -> RobotDescription:
    """The robot of the text of a table.

    The frame of a link is moved to its joint where the table has it elsewhere; that of the table is kept as
    `<link>_frame`.

    Args:
        source: What to call the text in messages.

    Raises:
        DescriptionError: All faults, each with its place.
    """
    entries = Entries(text, source)
    table = entries.read(TableFile)
    _check(table, entries)
    at = from_rpy(table.base.xyz, table.base.rpy)
    links, joints, poses = [Link(GROUND)], [], {GROUND: Pose()}
    parent = GROUND
    for row in table.joints:
        name = row.link or f"{row.name}_link"
        turn, shift = (
            from_rpy((0.0, 0.0, row.d), (0.0, 0.0, row.theta)),
            from_rpy((row.a, 0.0, 0.0), (row.alpha, 0.0, 0.0)),
        )
        joint_at = compose(at, shift) if table.convention == "modified" else at
        at = compose(joint_at, turn)
        if table.convention == "distal":
            at = compose(at, shift)
        joints.append(PlacedJoint(_joint(row, parent, name), joint_at))
        links.append(Link(name, row.mass, row.center, _inertia(row.inertia)))
        poses[name] = at
        parent = name
    tool = () if table.tool is None else (Frame("tool", parent, from_rpy(table.tool.xyz, table.tool.rpy)),)
    description = RobotDescription(table.name, tuple(links), (), frames=tool, gravity=table.gravity, source=source)
    return describe(description, poses, joints)


def _joint(row: JointEntry, parent: str, link: str) -> Joint:
    infinite = float("inf")
    return Joint(
        row.name,
        row.type,
        parent,
        link,
        axis=(0.0, 0.0, 1.0),
        lower=-infinite if row.lower is None else row.lower,
        upper=infinite if row.upper is None else row.upper,
        max_velocity=infinite if row.max_velocity is None else row.max_velocity,
        max_effort=infinite if row.max_effort is None else row.max_effort,
        damping=row.damping,
        friction=row.friction,
        stiffness=row.stiffness,
        spring_reference=row.spring_reference,
        rotor_inertia=row.rotor_inertia,
        gear_ratio=row.gear_ratio,
    )


def _inertia(numbers: tuple[float, ...]) -> Matrix:
    xx, yy, zz, xy, xz, yz = (*numbers, 0.0, 0.0, 0.0)[:6]
    return (xx, xy, xz), (xy, yy, yz), (xz, yz, zz)


def _check(table: TableFile, entries: Entries) -> None:
    seen: set[str] = {GROUND, "tool"}
    for k, row in enumerate(table.joints):
        path = ("joints", k)
        if len(row.inertia) not in (3, 6):
            entries.add((*path, "inertia"), f"expected a list of 3 or 6; found a list of {len(row.inertia)}")
        if row.gear_ratio == 0:
            entries.add((*path, "gear_ratio"), "expected a number other than 0; found 0")
        for key, name in (("name", row.name), ("link", row.link or f"{row.name}_link")):
            if name in seen:
                entries.add((*path, key), f"expected a name of its own; there is another '{name}'")
            seen.add(name)
        if row.lower is not None and row.upper is not None and row.lower > row.upper:
            entries.add((*path, "lower"), f"expected at most the upper limit, {row.upper:g}; found {row.lower:g}")
    entries.refuse()
