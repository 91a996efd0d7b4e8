"""Assembly of a mechanism: the position problem as users call it."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.kinematics.names import Numbers, finite_number, finite_vector, given_arrays, listed
from fgmbs.kinematics.position import PositionInfo, solve_position
from fgmbs.kinematics.pseudo_inverse import rank_limit, row_norms
from fgmbs.kinematics.tracking import compiled_track
from fgmbs.mechanisms.base import AbstractMechanism, prepared
from fgmbs.typing import Coordinates

BRANCHES = ("nearest", "other")
PATH_STEPS = 64
"""Steps in which given coordinates are led to their values."""
_THROWS = (-2.0, -1.0, 1.0, 2.0)
"""How far a search throws a coordinate, relative to the extent of the mechanism."""
_GUESSES = 64, 32
"""Thrown guesses of a search, at most, and random ones."""
_DISTINCT = 1e-4
"""Two assemblies are distinct from this distance on, relative to the largest coordinate."""


def assemble(
    mechanism: AbstractMechanism,
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
        ArgumentError: An argument that cannot be meant.
        AssemblyError: It cannot be assembled: how far it got, which constraint stays open and what to try.
    """
    if branch not in BRANCHES:
        raise ArgumentError(f"branch: expected {listed(BRANCHES, 'or')}; found {branch!r}")
    mask, values = given_arrays(mechanism, given, "given")
    drawn = start is None
    start = finite_vector(mechanism, mechanism.reference if drawn else start, mechanism.coordinate_names, "start")
    time = jnp.asarray(finite_number(t, "t"), start.dtype)
    if drawn and branch == "nearest" and np.all(np.where(mask, start == values, True)):
        if closed(*unit_rows(mechanism, start, time)):
            return start

    q, info = _solve(mechanism, start, time, mask, values, start)
    found = [np.asarray(q)] if info.assembled and is_proper(mechanism, q) else []
    if given:
        q_free, info_free = _solve(mechanism, start, time, jnp.zeros_like(mask), values, start)
        if info_free.assembled:
            fractions = jnp.linspace(0.0, 1.0, PATH_STEPS + 1, dtype=q.dtype)[1:, None]
            places = tuple(int(i) for i in np.flatnonzero(mask))
            y0, y1 = q_free[jnp.asarray(places)], values[jnp.asarray(places)]
            path = compiled_track(mechanism, q_free, jnp.full(PATH_STEPS, time), places, y0 + fractions * (y1 - y0))
            if path.reached[-1]:
                q_led, info_led = _solve(mechanism, start, time, mask, values, path.q[-1])
                found += [np.asarray(q_led)] if info_led.assembled and is_proper(mechanism, q_led) else []
    if not found or branch == "other":
        found += _search(mechanism, start, found[0] if found else np.asarray(start), time, mask, values)
    if not found:
        raise AssemblyError(_why_not(mechanism, start, time, given or {}, q, info))
    found.sort(key=lambda q: float(np.linalg.norm(q - start)))
    nearest = found[0]
    if branch == "nearest":
        return jnp.asarray(nearest)
    limit = _DISTINCT * max(np.max(np.abs(nearest)), np.max(np.abs(start)))
    others = [q for q in found if np.max(np.abs(mechanism.local(jnp.asarray(nearest), jnp.asarray(q)))) > limit]
    if not others:
        raise AssemblyError(
            f"no other assembly was found{_with(given or {})}: all {len(found)} searches that assembled the mechanism "
            "ended in the same configuration. Try other given values, or give a start near the one you mean"
        )
    return jnp.asarray(others[0])


@eqx.filter_jit
def unit_rows(mechanism, q, t):
    """(Φ / |Φ_q|, Φ_q / |Φ_q|) row by row, and the size of q: how far each constraint is open, and where it pulls."""
    mechanism = prepared(mechanism)
    Phi_q = mechanism.constraint_jacobian(q, t)
    norms = row_norms(Phi_q)
    return mechanism.constraints(q, t) / norms, Phi_q / norms[:, None], jnp.max(jnp.abs(q), initial=0.0)


def closed(gaps, unit_jacobian, size) -> bool:
    """Whether all constraints hold to rounding; arguments as `unit_rows` returns them."""
    eps = np.finfo(np.asarray(gaps).dtype).eps
    return bool(np.max(np.abs(gaps), initial=0.0) <= 1e3 * eps * max(float(size), np.finfo(float).tiny))


_solve = eqx.filter_jit(solve_position)


@eqx.filter_jit
def _solve_each(mechanism, start, t, mask, values, centre, moves):
    return jax.vmap(lambda move: solve_position(mechanism, start, t, mask, values, mechanism.retract(centre, move)))(
        moves
    )


def _search(mechanism, start, centre, t, mask, values) -> list[np.ndarray]:
    """Assemblies found with one coordinate of the centre thrown across the mechanism, and from guesses at random."""
    rng = np.random.default_rng(0)
    extent = max(float(np.ptp(centre)), float(np.max(np.abs(centre))), np.finfo(float).tiny)
    thrown = np.concatenate([distance * np.eye(mechanism.nv) for distance in _THROWS])
    at_random = rng.choice([0.3, 1.0], (_GUESSES[1], 1)) * rng.standard_normal((_GUESSES[1], mechanism.nv))
    moves = jnp.asarray(extent * np.concatenate([rng.permutation(thrown)[: _GUESSES[0]], at_random]), start.dtype)
    q, info = _solve_each(mechanism, start, t, mask, values, jnp.asarray(centre, start.dtype), moves)
    proper = np.asarray(info.assembled) & np.asarray(_are_proper(mechanism, q))
    return list(np.asarray(q)[proper])


@eqx.filter_jit
def is_proper(mechanism: AbstractMechanism, q: Coordinates) -> Bool[Array, ""]:
    """Whether no angle of an assembled configuration is half a turn from what the reference takes it for.

    A row that changes its sign when q_i grows by π, wherever q is, has the form a sin q_i + b cos q_i: it ties an angle
    to a direction, and to the opposite one. Its derivative by the angle has opposite signs there.
    """
    mechanism = prepared(mechanism)
    reference = mechanism.reference
    anywhere = reference + jax.random.normal(jax.random.key(1), reference.shape, reference.dtype)
    zero = jnp.zeros((), reference.dtype)
    Phi = mechanism.constraints(anywhere, zero)
    half_turned = jax.vmap(lambda e: mechanism.constraints(anywhere + jnp.pi * e, zero), out_axes=1)(
        jnp.eye(mechanism.n, dtype=reference.dtype)
    )
    flips = jnp.abs(half_turned + Phi[:, None]) <= 1e-9 * jnp.abs(Phi[:, None])
    slopes = jax.jacfwd(mechanism.constraints)
    signs = jnp.sign(slopes(reference, zero) * slopes(q, zero))
    return ~jnp.any(flips & (signs < 0))


_are_proper = eqx.filter_jit(jax.vmap(is_proper, in_axes=(None, 0)))


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
    where = f"at t = {float(t):g} s" + _with(given)
    if given:
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
                f"the mechanism cannot be assembled {where}: the nearest pose leaves {_open_rows(mechanism, info)}. "
                f"Without given values it can, with {nearest}; sweep from there shows how far the coordinate reaches"
            )
    nv, m = mechanism.nv, mechanism.m
    rows = _open_rows(mechanism, info)
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


def _rank(mechanism, q, t, rtol: float | None = None) -> int:
    Phi_q = np.asarray(_unit_rows(mechanism, q, t))
    return int(np.linalg.matrix_rank(Phi_q, rtol=rank_limit(Phi_q.dtype) if rtol is None else rtol))


@eqx.filter_jit
def _unit_rows(mechanism, q, t):
    Phi_q = prepared(mechanism).constraint_jacobian(q, t)
    return Phi_q / row_norms(Phi_q)[:, None]


def _bad_rows(mechanism, gaps) -> str:
    return listed(name for name, gap in zip(mechanism.constraint_names, gaps, strict=True) if not np.isfinite(gap))


def _open_rows(mechanism, info: PositionInfo, at_most: int = 6) -> str:
    """'rocker' open by 0.12 and 'crank' by 0.08 (m for lengths, rad for angles), the widest first."""
    names = (*mechanism.constraint_names, *(f"given {name}" for name in mechanism.coordinate_names))
    gaps = np.concatenate([info.gaps, info.given_gaps])
    order = [i for i in np.argsort(-gaps, kind="stable") if gaps[i] > 1e-3 * np.max(gaps)]
    text = ", ".join(f"{names[i]!r} by {gaps[i]:.3g}" for i in order[:at_most])
    more = f" and {len(order) - at_most} more" if len(order) > at_most else ""
    return f"open {text}{more} (m for lengths, rad for angles)"
