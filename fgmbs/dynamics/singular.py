"""Singular poses, in which several motions meet: how far a motion is from them, and starts in them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.algebra.pseudo_inverse import rank_limit, row_norms
from fgmbs.compiled.program import program
from fgmbs.errors import AssemblyError
from fgmbs.kinematics.base import prepared
from fgmbs.kinematics.search import unit_rows
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities

SINGULAR = 1e-2
"""Margin of rank below which a motion is near a singular pose."""
_MOST, _AT_ONCE = 20_000, 512
"""Poses that are looked at along a motion, at most and in one program."""
_BETWEEN = 32
"""Poses that are looked at between two steps next to a singular pose."""
_BESIDE = 4
"""Times the least margin of a motion up to which its steps are beside the pose in which that is."""
_TAKES_PART = 0.2
"""Part in a dependence from which on a constraint is named …"""
_NAMED = 4
"""… and how many are."""
_SHOWN = 6
"""Velocities of a motion that are named."""
_ON_MOTION = 1e-6
"""Part of the curvature of the constraints that no acceleration meets, up to which velocities lie on a motion."""


class RankMargins(NamedTuple):
    """How far Φ_q is from losing rank along a motion."""

    margins: Float[np.ndarray, " steps"]
    """Its least singular value that counts, relative to the largest: 0 in a singular pose. Rows are of unit length,
    redundant ones do not count."""
    dependent: tuple[str, ...]
    """Constraints that depend on each other where it is least: those that take part most."""


def rank_margins(
    mechanism: AbstractMechanism, q: Float[Array | np.ndarray, "steps n"], t: Float[Array | np.ndarray, " steps"]
) -> RankMargins:
    """How far a motion is from singular poses, at every step; of long ones interpolated between every few steps."""
    steps, rank = len(t), mechanism.nv - mechanism.dof
    if rank == 0:
        return RankMargins(np.ones(steps), ())
    every = np.arange(0, steps, -(-steps // _MOST))
    padded = np.append(every, np.repeat(every[-1:], -len(every) % _AT_ONCE))
    chunks = (np.split(np.asarray(x)[padded], len(padded) // _AT_ONCE) for x in (q, t))
    rows = [np.asarray(_rows_along(mechanism, *chunk)) for chunk in zip(*chunks, strict=True)]
    rows = np.concatenate(rows)[: len(every)]
    s = np.linalg.svd(rows, compute_uv=False)
    margins = s[:, rank - 1] / s[:, 0]
    part = np.abs(np.linalg.svd(rows[np.argmin(margins)])[0][:, rank - 1])
    most = [row for row in np.argsort(-part, stable=True)[:_NAMED] if part[row] > _TAKES_PART]
    dependent = tuple(mechanism.constraint_names[row] for row in sorted(most))
    return RankMargins(np.interp(np.arange(steps), every, margins), dependent)


class Nearest(NamedTuple):
    """Where a motion is nearest to a singular pose, which may be between two of its steps."""

    margin: float
    """Of rank."""
    t: float
    """[s]"""
    steps: float
    """In how many of its steps the margin there grows by itself: in less than one the motion has turned sharply between
    two steps."""


def nearest_to_singular(
    mechanism: AbstractMechanism,
    q: Float[np.ndarray, "steps n"],
    t: Float[np.ndarray, " steps"],
    margins: Float[np.ndarray, " steps"],
) -> Nearest:
    """Where a motion with these margins of rank is nearest to a singular pose."""
    least = int(np.argmin(margins))
    steps = np.arange(max(least - 1, 0), min(least + 2, len(t)))
    places = np.linspace(steps[0], steps[-1], _BETWEEN * (len(steps) - 1) + 1)
    poses = np.stack([np.interp(places, steps, column) for column in q[steps].T], axis=1)
    times = np.interp(places, steps, t[steps])
    between = rank_margins(mechanism, poses, times).margins
    here = int(np.argmin(between))
    margin, far = float(between[here]), np.flatnonzero(margins > _BESIDE * between[here])
    first, last = int(far[far < least].max(initial=0)), int(far[far > least].min(initial=len(t) - 1))
    fastest = np.abs(np.diff(margins[first : last + 1])).max(initial=0.0)
    return Nearest(margin, float(times[here]), float(margin / fastest) if fastest > 0 else np.inf)


def refuse_no_motion(mechanism: AbstractMechanism, q: Coordinates, dq: Velocities, t: float) -> None:
    """Refuses a start in a singular pose with velocities that lie on none of the motions that lead through it.

    There Φ_q has rows too few: velocities are possible that no motion has. Those of a motion leave accelerations that
    meet the constraints: ψᵀ c(q, dq) = 0 for all ψ with ψᵀ Φ_q = 0, a cone of second order. At rest the same holds for
    the first accelerations.

    Args:
        mechanism: The mechanism.
        q: Where it starts.
        dq: Velocities there.
        t: Time [s].

    Raises:
        AssemblyError: Says how many degrees of freedom there are; of two, which motions.
    """
    _, A = (np.asarray(part) for part in unit_rows(mechanism, q, jnp.asarray(t, q.dtype)))
    U, s, Vt = np.linalg.svd(A)
    rank = int(np.sum(s > rank_limit(A.dtype) * np.max(s, initial=0.0)))
    here = mechanism.nv - rank
    if here == mechanism.dof:
        return
    psi, null = U[:, rank:], Vt[rank:].T

    def curvature(w):
        return psi.T @ np.asarray(_unit_bias(mechanism, q, mechanism.sized(jnp.asarray(w)), jnp.asarray(t, q.dtype))[0])

    bias, rate = (np.asarray(part) for part in _unit_bias(mechanism, q, jnp.zeros_like(dq), jnp.asarray(t, q.dtype)))
    if np.any(rate != 0) or np.any(bias != 0):
        return  # the clock moves it
    rests = not np.any(dq)
    pushed = _free_acceleration(mechanism, q, dq, jnp.asarray(t, q.dtype)) if rests else dq
    w = np.asarray(mechanism.relative(pushed))
    if not np.any(w):
        return
    w = w / np.linalg.norm(w)
    if np.linalg.norm(curvature(w)) <= _ON_MOTION:
        return
    motions = [mechanism.sized(jnp.asarray(null @ direction)) for direction in _on_cone(curvature, null)]
    found = [_named(mechanism, np.asarray(motion)) for motion in motions]
    choice = f"the motions through it have {' or '.join(found)}; " if found else ""
    state = "the forces push it" if rests else "its velocities lie"
    raise AssemblyError(
        f"the start is a singular pose with {here} degrees of freedom, of which the mechanism has {mechanism.dof} "
        f"elsewhere, and {state} between the motions that lead through it; {choice}"
        "give start_velocities of one motion, or start beside the pose"
    )


@program
def _rows_along(mechanism: AbstractMechanism, q, t) -> Float[Array, "steps m nv"]:
    mechanism = prepared(mechanism)
    return jax.vmap(lambda q, t: unit_rows(mechanism, q, t)[1])(q, t)


@program
def _unit_bias(
    mechanism: AbstractMechanism, q: Coordinates, dq: Velocities, t: Scalar
) -> tuple[Float[Array, " m"], Float[Array, " m"]]:
    """(c, dΦ/dt) of rows of unit length."""
    mechanism = prepared(mechanism)
    norms = row_norms(mechanism.sized(mechanism.constraint_jacobian(q, t)), mechanism.constraint_sizes)
    return mechanism.constraint_bias(q, dq, t) / norms, mechanism.constraint_rate(q, dq, t) / norms


@program
def _free_acceleration(mechanism: AbstractMechanism, q: Coordinates, dq: Velocities, t: Scalar) -> Velocities:
    return prepared(mechanism).accelerations(q, dq, t, 0.0)[0]


def _named(mechanism: AbstractMechanism, dq: np.ndarray) -> str:
    """Velocities by name, relative to the largest: of angles if there are any."""
    names = mechanism.velocity_names
    relative = np.abs(np.asarray(mechanism.relative(jnp.asarray(dq))))
    moving = np.flatnonzero(relative > _ON_MOTION * relative.max())
    angles = [k for k in moving if mechanism.velocity_units[k] == "rad/s"]
    shown = (angles or list(moving))[:_SHOWN]
    largest = shown[int(np.argmax(np.abs(dq[shown])))]
    return "(" + ", ".join(f"{names[k]} {dq[k] / dq[largest]:.4g}" for k in shown) + ")"


def _on_cone(curvature, null) -> list[np.ndarray]:
    """Directions in a plane of velocities that lie on the cone; none where it is no plane."""
    if null.shape[1] != 2:
        return []
    a, b, both = (curvature(null @ np.array(part)) for part in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)))
    forms = np.stack([a, both - a - b, b], axis=1)  # a x² + (…) x y + b y²
    alpha, beta, gamma = forms[np.argmax(np.linalg.norm(forms, axis=1))]
    candidates = [np.array([x.real, 1.0]) for x in np.roots([alpha, beta, gamma]) if abs(x.imag) < _ON_MOTION]
    if abs(alpha) <= _ON_MOTION * max(abs(beta), abs(gamma)):
        candidates = [np.array([1.0, 0.0]), *candidates]
    unit = [direction / np.linalg.norm(direction) for direction in candidates]
    return [direction for direction in unit if np.linalg.norm(curvature(null @ direction)) <= _ON_MOTION]
