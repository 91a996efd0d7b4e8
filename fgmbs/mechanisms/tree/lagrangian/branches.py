"""How the joints of a tree hang together: by the parent of every joint, or by branches ([RID23] section 2).

A branch is a run of joints without branching. Joints and branches are counted from 0 here, and −1 is no parent; the
paper counts from 1. A parent stands before its children (eqs (1), (2)).
"""

from collections.abc import Sequence
from typing import NamedTuple

from fgmbs.errors import DescriptionError


class Branches(NamedTuple):
    """The branch parent and joint-branch connectivity tables Φ and Ψ of [RID23]."""

    parents: tuple[int, ...]
    """Parent of every branch."""
    ends: tuple[tuple[int, int], ...]
    """First and last joint of every branch."""


def branches_of(joint_parents: Sequence[int]) -> Branches:
    """Branches of a tree, in the order of their first joints.

    Raises:
        DescriptionError: A parent does not stand before its child, or the joints of a branch are not in a row.
    """
    check_parents("joint", joint_parents)
    children = [joint_parents.count(joint) for joint in range(len(joint_parents))]
    branch_of: list[int] = []
    parents: list[int] = []
    ends: list[tuple[int, int]] = []
    for joint, parent in enumerate(joint_parents):
        if parent < 0 or children[parent] > 1:
            branch_of.append(len(ends))
            parents.append(-1 if parent < 0 else branch_of[parent])
            ends.append((joint, joint))
        elif parent != joint - 1:
            raise DescriptionError(
                [f"joints: expected joint {joint} right behind its parent {parent}, as there is no branching between"]
            )
        else:
            branch_of.append(branch_of[parent])
            ends[-1] = (ends[-1][0], joint)
    return Branches(tuple(parents), tuple(ends))


def joint_parents_of(branches: Branches) -> tuple[int, ...]:
    """Parent of every joint: the joint before it, or the last one of the parent of its branch.

    Raises:
        DescriptionError: The branches do not cover all joints one after the other, or a parent does not stand before
            its child.
    """
    parents, ends = branches
    check_parents("branch", parents)
    if len(parents) != len(ends):
        raise DescriptionError([f"branches: expected first and last joint of {len(parents)}; found {len(ends)}"])
    joints: list[int] = []
    for branch, (parent, (first, last)) in enumerate(zip(parents, ends, strict=True)):
        if first != len(joints) or last < first:
            raise DescriptionError([f"branch {branch}: expected joints from {len(joints)} on; found {first} to {last}"])
        joints += [-1 if parent < 0 else ends[parent][1], *range(first, last)]
    return tuple(joints)


def check_parents(what: str, parents: Sequence[int]) -> None:
    """Refuses a parent that does not stand before its child.

    Raises:
        DescriptionError: All of them.
    """
    faults = [
        f"{what} {child}: expected a parent from -1 (none) to {child - 1}; found {parent}"
        for child, parent in enumerate(parents)
        if not -1 <= parent < child
    ]
    if faults:
        raise DescriptionError(faults)
