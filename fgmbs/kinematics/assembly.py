"""Assembly of a mechanism: the position problem as users call it."""

import math
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from fgmbs.algebra.pseudo_inverse import rank_limit
from fgmbs.arguments import finite_number
from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.kinematics.base import AbstractKinematics, prepared
from fgmbs.kinematics.names import Numbers, finite_vector, given_arrays, listed
from fgmbs.kinematics.position import PositionInfo, solve_position
from fgmbs.kinematics.search import aimed, distances, nearest_assembly, search, unit_rows
from fgmbs.typing import Coordinates

BRANCHES = ("nearest", "other")
_UNIT = 1e-9
"""How far the length of a quaternion may be from 1."""
_DISTINCT = 1e-4
"""Two assemblies are distinct from this distance on, relative to the largest coordinate."""


def assemble(
    mechanism: AbstractKinematics,
    given: Mapping[str, float] | None = None,
    *,
    start: Numbers | None = None,
    branch: str = "nearest",
    t: float = 0.0,
) -> Coordinates:
    """The assembled configuration with the given coordinates that is nearest to a rough start.

    Searches from the start directly and by leading the given coordinates to their values step by step; if neither
    assembles, from many systematic and random starts. An angle θ whose constraint holds at θ + π too is taken the way
    round it has in the reference.

    Args:
        given: Values by coordinate name [m, rad].
        start: Where to search; the reference of the mechanism by default [m, rad].
        branch: "nearest", or "other": the nearest assembly distinct from that one, e.g. the crossed four-bar. Where the
            given coordinates leave freedom, it is the nearest among the assemblies around it.
        t: Time [s].

    Returns:
        q with Φ(q, t) = 0 to rounding [m, rad].

    Raises:
        ArgumentError: An invalid argument.
        AssemblyError: It cannot be assembled: how far it got, which constraint stays open and what to try.
    """
    if branch not in BRANCHES:
        raise ArgumentError(f"branch: expected {listed(BRANCHES, 'or')}; found {branch!r}")
    mask, values = given_arrays(mechanism, given, "given")
    drawn = start is None
    start = finite_vector(mechanism, mechanism.reference if drawn else start, mechanism.coordinate_names, "start")
    time = jnp.asarray(finite_number(t, "t"), start.dtype)
    held = mask if given else None
    if branch == "nearest":
        q, assembled = nearest_assembly(mechanism, time, held, values, None if drawn else start)
        if assembled:
            return q
    start = aimed(mechanism, start, time, held, values)
    attempts = search(mechanism, start, time, held, values, jnp.asarray(branch == "other"))
    found = np.asarray(attempts.q)[np.asarray(attempts.good)]
    if not len(found):
        raise AssemblyError(_why_not(mechanism, start, time, given or {}, attempts.q[0], attempts.first))
    found = found[np.argsort(distances(mechanism, start, jnp.asarray(found)), kind="stable")]
    away = np.asarray(distances(mechanism, jnp.asarray(found[0]), jnp.asarray(found)))
    extent = max(float(mechanism.extent(q)) for q in (jnp.asarray(found[0]), start))
    others = found[away > _DISTINCT * extent]
    if not len(others):
        raise AssemblyError(
            f"no other assembly was found{_with(given or {})}: all {len(found)} searches that assembled the mechanism "
            "ended in the same configuration. Try other given values, or give a start near the one you mean"
        )
    return jnp.asarray(others[0])


_solve = program(solve_position)


@program(**ONCE)
def _openings(mechanism, q, t):
    return prepared(mechanism).openings(q, t)


def _with(given: Mapping[str, float]) -> str:
    return " with " + ", ".join(f"{name} = {value:g}" for name, value in given.items()) if given else ""


def _why_not(mechanism, start, t, given, q, info) -> str:
    """Why no search assembled the mechanism; q and info are of the search from the start."""
    gaps = np.asarray(info.gaps)
    if not np.all(np.isfinite(gaps)):
        return (
            f"the constraints are not finite numbers at the start: {_bad_rows(mechanism, gaps)}; look for "
            "zero lengths and for parameters that are not finite"
        )
    where, rows = f"at t = {float(t):g} s" + _with(given), _open_rows(mechanism, q, t, info)
    if given:
        if text := _no_quaternion(mechanism, given):
            return f"the mechanism cannot be assembled {where}: {text}"
        mask, _ = given_arrays(mechanism, None, "given")
        free, info_free = _solve(mechanism, start, t, mask, start, start)
        if info_free.assembled:
            if _rank(mechanism, free, t) == mechanism.nv:
                return (
                    f"the mechanism cannot be assembled {where}: it has no degree of freedom, so that no coordinate "
                    "can be given. Remove a constraint or a prescribed motion"
                )
            nearest = ", ".join(f"{name} = {free[mechanism.coordinate_names.index(name)]:.6g}" for name in given)
            return (
                f"the mechanism cannot be assembled {where}: the nearest pose leaves {rows}. "
                f"Without given values it can, with {nearest}; sweep from there shows how far the coordinate reaches"
            )
    nv, m = mechanism.nv, mechanism.m
    rank = _rank(mechanism, q, t, rtol=1e-6)  # q is no more than near the best pose
    if rank < m and m >= nv:
        return (
            f"the mechanism is over-constrained and inconsistent {where}: of its {m} constraints on {nv} velocities "
            f"{rank} are independent in the nearest pose, and those that contradict each other leave {rows}. Change "
            "their lengths so that they agree, or remove one of them"
        )
    return (
        f"the mechanism cannot be assembled {where}: the nearest pose of many searches leaves {rows}. "
        "Check the lengths of the bodies there (each side of a loop must be shorter than all others together), or give "
        "a start nearer to an assembled pose"
    )


def _no_quaternion(mechanism, given: Mapping[str, float]) -> str:
    """What is wrong with given numbers of a unit quaternion; nothing where they can be of one."""
    units = dict(zip(mechanism.coordinate_names, mechanism.coordinate_units, strict=True))
    of: dict[str, list[str]] = {}
    for name, unit in units.items():
        if unit == "1":
            of.setdefault(name.rpartition(".")[0], []).append(name)
    for names in of.values():
        there = [given[name] for name in names if name in given]
        length = math.hypot(*there)
        if length > 1 + _UNIT or (len(there) == len(names) and length < 1 - _UNIT):
            return (
                f"{listed(names)} are a unit quaternion, whose length is 1; the length of those given is {length:.9g}"
            )
    return ""


def _rank(mechanism, q, t, rtol: float | None = None) -> int:
    Phi_q = np.asarray(unit_rows(mechanism, q, t)[1])
    return int(np.linalg.matrix_rank(Phi_q, rtol=rank_limit(Phi_q.dtype) if rtol is None else rtol))


def _bad_rows(mechanism, gaps) -> str:
    return listed(name for name, gap in zip(mechanism.constraint_names, gaps, strict=True) if not np.isfinite(gap))


def _open_rows(mechanism, q, t, info: PositionInfo, at_most: int = 6) -> str:
    """'rocker' open by 0.12 and 'crank' by 0.08 (m for lengths, rad for angles), the widest first."""
    names = (*mechanism.constraint_names, *(f"given {name}" for name in mechanism.coordinate_names))
    gaps = np.concatenate([_openings(mechanism, q, t), info.given_gaps])
    order = [i for i in np.argsort(-gaps, kind="stable") if gaps[i] > 1e-3 * np.max(gaps)]
    text = ", ".join(f"{names[i]!r} by {gaps[i]:.3g}" for i in order[:at_most])
    more = f" and {len(order) - at_most} more" if len(order) > at_most else ""
    return f"open {text}{more} (m for lengths, rad for angles)"
