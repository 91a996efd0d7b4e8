"""The search for an assembled configuration: one compiled program, for one mechanism and for batches of them."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fgmbs.algebra.pseudo_inverse import rank_factors, row_norms
from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import where_needed
from fgmbs.kinematics.base import AbstractKinematics, prepared
from fgmbs.kinematics.position import PositionInfo, PositionProblem, implicit_nearest, nearest_closed
from fgmbs.kinematics.tracking import lead
from fgmbs.status import Status
from fgmbs.typing import Coordinates, Scalar

_THROWS = (-1.5, -0.75, 0.75, 1.5)
"""How far a search throws a coordinate, relative to its reach."""
_GUESSES = 64, 32
"""Thrown guesses of a search, at most, and random ones."""
_LINEAR = 1e-9
"""Change of a row's gradient, relative to it, that is rounding."""


def nearest_assembly(
    mechanism: AbstractKinematics,
    t: Scalar,
    given: Bool[Array, " n"] | None,
    values: Coordinates,
    start: Coordinates | None = None,
) -> tuple[Coordinates, Bool[Array, ""]]:
    """(q, whether it is assembled): the assembled configuration with given coordinates that is nearest to a start.

    The drawing itself where it is assembled so, else the nearest that `search` finds. Differentiable of any order, as
    `solve_position` is. Where none is found, q is the best one of the search from the start.

    Args:
        mechanism: The mechanism.
        t: Time [s].
        given: Which coordinates are given; None for none …
        values: … and their values [m, rad].
        start: Where to search; the mechanism as drawn by default [m, rad].
    """
    mechanism = prepared(mechanism)  # so that one program does whether it was or not
    q_start = aimed(mechanism, mechanism.reference if start is None else start, t, given, values)
    arguments = mechanism, q_start, jnp.asarray(t, q_start.dtype), given, values

    def nearest():
        fixed = jax.lax.stop_gradient(arguments)
        attempts = search(*fixed, jnp.asarray(False))
        return _nearest(attempts, distances(mechanism, fixed[1], attempts.q))

    if start is None:
        closed, rows = unit_rows(*arguments[:3])
        as_drawn, needed = _is_drawn(closed, q_start, given, values)
        no_multipliers = np.zeros(rows.shape[0] + mechanism.n, q_start.dtype)
        drawn = _Found(jax.lax.stop_gradient(q_start), no_multipliers, as_drawn)
        found = where_needed(needed, nearest, drawn)
    else:
        found = nearest()
    return _implicit(*arguments, found.q, found.lambda_), found.assembled


def aimed(
    mechanism: AbstractKinematics,
    start: Coordinates,
    t: Scalar,
    given: Bool[Array, " n"] | None,
    values: Coordinates,
) -> Coordinates:
    """A start that has the given values and meets the rows that are linear, gears and the like, where a given angle is
    more than half a turn away.

    The same assemblies are nearest to it, because such rows are met at right angles. From many turns away no search
    would find them, and distances would have no digits left to tell them from others.
    """
    if given is None or not mechanism.is_vector_space:
        return start
    fixed = jax.lax.stop_gradient((mechanism, start, jnp.asarray(t, start.dtype), given, values))
    angles = np.array([unit == "rad" for unit in mechanism.coordinate_units])
    far = _is_turned(fixed[1], given, angles, values)
    return start + where_needed(far, lambda: _aim(*fixed), np.zeros(start.shape, start.dtype))


@program(**ONCE)
def _is_drawn(closed, q: Coordinates, given, values: Coordinates) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """(whether a pose is assembled with the values that are given, whether it is not)."""
    drawn = closed if given is None else closed & jnp.all(jnp.where(given, q == values, True))
    return drawn, ~drawn


@program(**ONCE)
def _is_turned(start: Coordinates, given, angles, values: Coordinates) -> Bool[Array, ""]:
    """Whether a given angle is more than half a turn away."""
    return jnp.max(jnp.where(given & angles, jnp.abs(values - start), 0.0)) > jnp.pi


@program
def _aim(mechanism, start, t, given, values) -> Coordinates:
    mechanism = prepared(mechanism)
    anywhere = start + mechanism.reach * jax.random.normal(jax.random.key(2), (2, start.size), start.dtype)
    slopes = [mechanism.sized(mechanism.constraint_jacobian(q, t)) for q in (start, *anywhere)]
    norms = row_norms(slopes[0], mechanism.constraint_sizes)
    bent = jnp.max(jnp.abs(jnp.stack(slopes[1:]) - slopes[0]), axis=(0, 2)) > _LINEAR * norms
    held = jnp.where(given, 1 / mechanism.coordinate_sizes, 0.0)
    rows = jnp.concatenate([jnp.where(bent[:, None], 0.0, slopes[0] / norms[:, None]), mechanism.sized(jnp.diag(held))])
    gaps = jnp.concatenate([jnp.where(bent, 0.0, mechanism.constraints(start, t) / norms), held * (start - values)])
    return -mechanism.sized(rank_factors(rows).pseudo_inverse() @ gaps)


class _Found(NamedTuple):
    q: Coordinates
    lambda_: Float[Array, " rows"]
    """Multipliers of the position problem."""
    assembled: Bool[Array, ""]


@program
def _nearest(attempts, distances) -> _Found:
    k = jnp.argmin(jnp.where(attempts.good, distances, jnp.inf))  # the first where none is good
    return _Found(attempts.q[k], attempts.lambda_[k], attempts.good[k])


@program(**ONCE)
def _implicit(mechanism, start, t, given, values, q, lambda_):
    return implicit_nearest(_problem(mechanism, start, t, given, values), q, lambda_)[0]


def _problem(mechanism, start, t, given, values) -> PositionProblem:
    held = jnp.zeros_like(start) if given is None else given.astype(start.dtype)
    return PositionProblem(prepared(mechanism), start, t, held, values)


@program
def distances(mechanism: AbstractKinematics, start: Coordinates, q: Float[Array, "poses n"]) -> Float[Array, " poses"]:
    """How far poses are from a start, coordinates by their sizes."""
    mechanism = prepared(mechanism)
    return jax.vmap(lambda q: jnp.linalg.norm(mechanism.relative(mechanism.local(start, q))))(q)


class Attempts(NamedTuple):
    """What a search found, one attempt after the other."""

    q: Float[Array, "attempts n"]
    lambda_: Float[Array, "attempts rows"]
    """Multipliers of the position problem."""
    good: Bool[Array, " attempts"]
    """Whether it is assembled, and no angle half a turn off."""
    first: PositionInfo
    """How the first one ended, from the start itself."""


@program
def search(
    mechanism: AbstractKinematics,
    start: Coordinates,
    t: Scalar,
    given: Bool[Array, " n"] | None,
    values: Coordinates,
    everywhere: Bool[Array, ""],
) -> Attempts:
    """Assembled configurations near a start.

    From the start directly, and by leading the given coordinates to their values step by step from where it is
    assembled without them. If neither assembles, with one coordinate at a time thrown across the mechanism, and from
    guesses at random; each of them is the nearest to the start around there.

    Args:
        mechanism: The mechanism.
        start: The start [m, rad].
        t: Time [s].
        given: Which coordinates are given; None for none …
        values: … and their values [m, rad].
        everywhere: Also throw where one is found: around that.
    """
    problem = _problem(mechanism, start, t, given, values)
    mechanism, t = problem.mechanism, problem.t
    moves = jnp.asarray(_moves(mechanism.nv), start.dtype)
    direct = 1 if given is None else 3
    count = direct + len(moves)
    m, n = mechanism.m, mechanism.n

    def attempt(state):
        # From the start; without the given values; from where the way to them ends; then thrown.
        k, (guess, reached), attempts = state
        good = attempts.good[:direct]
        centre = jnp.where(jnp.any(good), attempts.q[jnp.argmax(good)], start)
        move = mechanism.reach * moves[jnp.maximum(k - direct, 0)]
        guess = jnp.where(k < direct, guess, mechanism.retract(centre, move))
        free = (k == 1) & (k < direct)
        held = jnp.where(free, 0.0, problem.given)
        q, lambda_, info = nearest_closed(eqx.tree_at(lambda problem: problem.given, problem, held), guess)
        attempts = Attempts(
            attempts.q.at[k].set(q),
            attempts.lambda_.at[k].set(lambda_),
            attempts.good.at[k].set(info.assembled & reached & ~free & is_proper(mechanism, q)),
            jax.tree.map(lambda old, new: jnp.where(k == 0, new, old), attempts.first, info),
        )
        led = start, jnp.asarray(True)
        if given is not None:
            there, reached = lead(mechanism, q, t, given, values, free & info.assembled)
            led = jnp.where(free, there, start), reached | ~free
        return k + 1, led, attempts

    def more(state):
        k, _, attempts = state
        return (k < direct) | ((k < count) & (everywhere | ~jnp.any(attempts.good[:direct])))

    zero = jnp.asarray(0)
    begin = Attempts(
        jnp.zeros((count, n), start.dtype),
        jnp.zeros((count, m + n), start.dtype),
        jnp.zeros(count, bool),
        PositionInfo(jnp.zeros(m, start.dtype), jnp.zeros(n, start.dtype), zero, Status.running),
    )
    return jax.lax.while_loop(more, attempt, (zero, (start, jnp.asarray(True)), begin))[2]


def _moves(nv: int) -> np.ndarray:
    """One velocity at a time, and at random, for a reach of 1."""
    rng = np.random.default_rng(0)
    thrown = np.concatenate([distance * np.eye(nv) for distance in _THROWS])
    at_random = rng.choice([0.3, 1.0], (_GUESSES[1], 1)) * rng.standard_normal((_GUESSES[1], nv))
    return np.concatenate([rng.permutation(thrown)[: _GUESSES[0]], at_random])


@program(**ONCE)
def unit_rows(mechanism: AbstractKinematics, q: Coordinates, t: Scalar) -> tuple[Bool[Array, ""], Float[Array, "m nv"]]:
    """(whether all constraints hold to rounding, Φ_q by changes by their sizes with rows of unit length)."""
    mechanism = prepared(mechanism)
    Phi_q = mechanism.sized(mechanism.constraint_jacobian(q, t))
    norms = row_norms(Phi_q, mechanism.constraint_sizes)
    gap = jnp.max(jnp.abs(mechanism.constraints(q, t) / norms), initial=0.0)
    return gap <= 1e3 * jnp.finfo(q.dtype).eps * mechanism.extent(q), Phi_q / norms[:, None]


@program
def is_proper(mechanism: AbstractKinematics, q: Coordinates) -> Bool[Array, ""]:
    """Whether no angle of an assembled configuration is half a turn from what the reference takes it for.

    A row that changes its sign when q_i grows by π, wherever q is, has the form a sin q_i + b cos q_i: it ties an angle
    to a direction, and to the opposite one. Its derivative by the angle has opposite signs there.
    """
    if mechanism.rows_are_gaps:
        return jnp.asarray(True)
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
