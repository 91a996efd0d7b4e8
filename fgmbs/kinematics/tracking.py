"""Continuation: where a mechanism is while some of its coordinates move, on the branch where it began."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fgmbs.algebra.kkt import product, spd_solve
from fgmbs.algebra.pseudo_inverse import row_norms
from fgmbs.kinematics.base import AbstractKinematics, prepared
from fgmbs.kinematics.closure import Closure, Instant, row_sizes
from fgmbs.typing import Coordinates, Scalar, Velocities

_NEWTON_LIMIT = 24
"""Newton steps at the end of a part; a shorter part is tried after that. In a singular pose each halves the error."""
_SHORTEST_PART = 1 / 1024
"""Shortest part of the way between two samples, relative to it."""
_LONGEST_MOVE = 0.2
"""Longest move of a coordinate over one part, relative to the mechanism as drawn: a longer one may end on another
branch."""
PATH_STEPS = 64
"""Steps in which given coordinates are led to their values."""
_DAMPING = 1e-12
"""What keeps the normal equations of the tangent solvable, relative to their trace: redundant rows and freedom left."""


class Tracked(NamedTuple):
    """Where a mechanism is when some of its coordinates are where they should be."""

    q: Float[Array, "steps n"]
    reached: Bool[Array, " steps"]
    """Whether constraints and desired coordinates agree there; after the first sample that is out of reach, q stays."""
    newton_steps: Int[Array, " steps"]


def track(
    mechanism: AbstractKinematics,
    q0: Coordinates,
    t: Float[Array, " steps"],
    followed: tuple[int, ...],
    y: Float[Array, "steps k"],
) -> Tracked:
    """Coordinates q with Φ(q, t) = 0 and q[followed] = y at every sample, on the branch of q0.

    Goes from sample to sample along the tangent and closes the position there. Where that does not converge or moves
    far, the way between the samples is divided. Where the tangent is not unique (change points, where branches cross;
    freedom that is left), it is the one nearest to the tangent before. Differentiable of any order with respect to the
    mechanism, t and y, by the implicit function theorem at each sample; q0 only chooses the branch.

    Args:
        mechanism: The mechanism.
        q0: Coordinates near the first sample [m, rad].
        t: Times [s].
        followed: Indices of the coordinates that follow y; together with the constraints they determine the others.
        y: Their values [m, rad].
    """
    mechanism = prepared(mechanism)
    return implicit_poses(mechanism, walk(mechanism, q0, t, followed, y), t, followed, y)


def lead(
    mechanism: AbstractKinematics,
    q0: Coordinates,
    t: Scalar,
    given: Bool[Array, " n"],
    values: Coordinates,
    needed: Bool[Array, ""],
) -> tuple[Coordinates, Bool[Array, ""]]:
    """(q, whether it got there) with given coordinates led to their values, on the branch of q0. Without derivatives.

    Args:
        mechanism: The mechanism, prepared.
        q0: An assembled configuration [m, rad].
        t: Time [s].
        given: Which coordinates are given …
        values: … and their values [m, rad].
        needed: Otherwise nothing is done.
    """
    fractions = jnp.linspace(0.0, 1.0, PATH_STEPS + 1, dtype=q0.dtype)[1:, None]
    y = q0 + fractions * jnp.where(given, values - q0, 0.0)
    everything = tuple(range(mechanism.n))
    led = walk(mechanism, q0, jnp.full(PATH_STEPS, t), everything, y, given, needed)
    return led.q[-1], led.reached[-1]


class _Way(NamedTuple):
    q: Coordinates
    direction: Velocities
    """Tangent of the part before, by time, or by the number of samples if time stands still."""
    done: Scalar
    """How much of the way to the sample is done, from 0 to 1."""
    part: Scalar
    count: Int[Array, ""]


def walk(
    mechanism: AbstractKinematics,
    q0: Coordinates,
    t: Float[Array, " steps"],
    followed: tuple[int, ...],
    y: Float[Array, "steps k"],
    held: Bool[Array, " k"] | None = None,
    needed: Bool[Array, ""] | bool = True,
) -> Tracked:
    """`track` of a prepared mechanism without derivatives, of those coordinates that are held, if it is needed."""
    mechanism, q0, t, y = jax.lax.stop_gradient((mechanism, q0, t, y))
    longest = _LONGEST_MOVE * mechanism.extent(mechanism.reference)

    def advance(way, row0, row1):
        """The next part of the way between two samples (t, y)."""
        done = jnp.minimum(way.done + way.part, 1.0)
        (t0, y0), (t1, y1) = (jax.tree.map(lambda a, b, s=s: a + s * (b - a), row0, row1) for s in (way.done, done))
        closure = Closure(followed, Instant(t1, y1), held)
        # Tangent: the rows at (t1, y1) vanish to first order. Near to the one before, where it is not unique.
        J = mechanism.sized(closure.jacobian(mechanism, way.q, t0))
        norms = row_norms(J, row_sizes(mechanism, followed))
        J = J / norms[:, None]
        length = jnp.where(t[-1] > t[0], t1 - t0, done - way.done)
        before = length * way.direction
        normal = product(J.T, J)
        normal = normal + _DAMPING * jnp.trace(normal) * jnp.eye(mechanism.nv, dtype=J.dtype)
        move = before - spd_solve(normal, J.T @ (closure.rows(mechanism, way.q, t1) / norms + J @ before))
        size = mechanism.extent(way.q)
        q, closed, count, *_ = closure.close(
            mechanism, mechanism.moved(way.q, move), t1, size=size, limit=_NEWTON_LIMIT
        )
        good = closed & (jnp.max(jnp.abs(mechanism.relative(mechanism.local(way.q, q)))) <= longest)
        return _Way(
            jnp.where(good, q, way.q),
            jnp.where(good & (length > 0), move / jnp.where(length > 0, length, 1.0), way.direction),
            jnp.where(good, done, way.done),
            jnp.where(good, 2 * way.part, way.part / 4),
            way.count + count,
        )

    def sample(state, row):
        q, direction, before, alive = state
        start = _Way(q, direction, jnp.zeros_like(t[0]), jnp.ones_like(t[0]), jnp.asarray(0))
        way = jax.lax.while_loop(
            lambda way: alive & (way.done < 1) & (way.part >= _SHORTEST_PART),
            lambda way: advance(way, before, row),
            start,
        )
        alive = alive & (way.done >= 1)
        q = jnp.where(alive, way.q, q)
        return (q, way.direction, row, alive), (q, alive, way.count)

    start = (q0, jnp.zeros(mechanism.nv, q0.dtype), (t[0], q0[jnp.asarray(followed, int)]), jnp.asarray(needed))
    return Tracked(*jax.lax.scan(sample, start, (t, y))[1])


def implicit_poses(
    mechanism: AbstractKinematics,
    tracked: Tracked,
    t: Float[Array, " steps"],
    followed: tuple[int, ...],
    y: Float[Array, "steps k"],
) -> Tracked:
    """Tracked coordinates as functions of the mechanism, t and y."""
    q = jax.vmap(lambda q, t, y: implicit_pose(mechanism, Closure(followed, Instant(t, y)), q, t))(tracked.q, t, y)
    return tracked._replace(q=q)


@eqx.filter_custom_jvp
def implicit_pose(mechanism: AbstractKinematics, closure: Closure, q: Coordinates, t: Scalar) -> Coordinates:
    """q, which is closed at t, as a function of all that the closure depends on."""
    return q


@implicit_pose.def_jvp
def _implicit_pose_jvp(primals, tangents):
    mechanism, closure, q, t = primals
    t_mechanism, t_closure, _, t_t = tangents
    q = implicit_pose(mechanism, closure, q, t)  # so that this rule has derivatives again
    _, t_rows = eqx.filter_jvp(
        lambda mechanism, closure, t: closure.rows(mechanism, q, t),
        (mechanism, closure, t),
        (t_mechanism, t_closure, t_t),
    )
    if t_rows is None:
        return q, jnp.zeros_like(q)
    t_v = -closure.inverse(mechanism, q, t) @ t_rows
    return q, t_v if mechanism.is_vector_space else mechanism.coordinate_rates(q) @ t_v
