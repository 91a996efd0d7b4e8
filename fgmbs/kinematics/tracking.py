"""Inverse kinematics along a desired motion: positions, velocities and accelerations of all coordinates."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fgmbs.kkt import kkt_inverse
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar

_NEWTON_LIMIT = 8
"""Newton steps from one part of the way to the next; a shorter part is tried after that."""
_SHORTEST_PART = 1 / 1024
"""Shortest part of the way between two samples, relative to it."""
_LONGEST_MOVE = 0.2
"""Longest move of a coordinate over one part, relative to the mechanism as drawn: a longer one may end on another
branch."""
_DAMPING = 1e-14
"""What keeps the normal equations solvable, relative to their trace: redundant rows and freedom that is left."""


class Tracked(NamedTuple):
    """Where a mechanism is when some of its coordinates are where they should be."""

    q: Float[Array, "steps n"]
    reached: Bool[Array, " steps"]
    """Whether constraints and desired coordinates agree there; after the first sample that is out of reach, q stays."""
    newton_steps: Int[Array, " steps"]


def track(
    mechanism: AbstractMechanism,
    q0: Coordinates,
    t: Float[Array, " steps"],
    followed: tuple[int, ...],
    y: Float[Array, "steps k"],
) -> Tracked:
    """Coordinates q with Φ(q, t) = 0 and q[followed] = y at every sample, on the branch of q0.

    Goes from sample to sample by Newton steps on normal equations, of least norm where freedom is left. Where they do
    not converge or move far, the way between the samples is divided: a branch is left nowhere but in a singular pose.
    Differentiable of any order with respect to the mechanism, t and y, by the implicit function theorem at each sample;
    q0 only chooses the branch.

    Args:
        mechanism: The mechanism.
        q0: Coordinates near the first sample [m, rad].
        t: Times [s].
        followed: Indices of the coordinates that follow y; together with the constraints they determine the others.
        y: Their values [m, rad].
    """
    mechanism = mechanism.evaluated()
    q, reached, count = jax.lax.stop_gradient(_walk(*jax.lax.stop_gradient((mechanism, q0, t)), followed, y))
    q = jax.vmap(lambda q, t, y: implicit_pose(mechanism, q, t, y, followed))(q, t, y)
    return Tracked(q, reached, count)


def motion_rows(mechanism: AbstractMechanism, q: Coordinates, t: Scalar, followed: tuple[int, ...]) -> Array:
    """[Φ_q; B], B q = q[followed]: what ties the velocities."""
    B = jnp.eye(mechanism.nv, dtype=q.dtype)[jnp.asarray(followed, int)]
    return jnp.concatenate([mechanism.constraint_jacobian(q, t), B])


class _Way(NamedTuple):
    q: Array
    done: Array
    """How much of the way to the sample is done, from 0 to 1."""
    part: Array
    count: Array


def _walk(mechanism, q0, t, followed, y):
    """(q, reached, Newton steps) at every sample."""
    places = jnp.asarray(followed, int)
    drawn = jnp.max(jnp.abs(mechanism.reference))
    longest = _LONGEST_MOVE * jnp.where(drawn > 0, drawn, 1.0)

    def newton(q, t, y):
        """(q, converged, steps) of Newton's method."""

        def body(state):
            q, _, count = state
            rows = jnp.concatenate([mechanism.constraints(q, t), q[places] - y])
            J = motion_rows(mechanism, q, t, followed)
            normal = J.T @ J
            normal = normal + _DAMPING * jnp.trace(normal) * jnp.eye(q.shape[0], dtype=q.dtype)
            step = jax.scipy.linalg.solve(normal, -(J.T @ rows), assume_a="pos")
            return q + step, jnp.max(jnp.abs(step)), count + 1

        # Convergence is quadratic: after a step below 1e-8 the error is rounding.
        size = jnp.max(jnp.abs(q)) + jnp.max(jnp.abs(y), initial=0.0)
        small = 1e-8 * size
        start = (q, jnp.asarray(jnp.inf, q.dtype), jnp.asarray(0))
        q1, step, count = jax.lax.while_loop(lambda s: ~(s[1] <= small) & (s[2] < _NEWTON_LIMIT), body, start)
        gap = jnp.max(jnp.abs(jnp.concatenate([mechanism.constraints(q1, t), q1[places] - y])))
        near = jnp.max(jnp.abs(q1 - q)) <= longest
        return q1, (step <= small) & (gap <= 1e-9 * jnp.maximum(size, size**2)) & near, count

    def sample(state, row):
        q, t0, y0, alive = state
        t1, y1 = row

        def body(way):
            done = jnp.minimum(way.done + way.part, 1.0)
            q, good, count = newton(way.q, t0 + done * (t1 - t0), y0 + done * (y1 - y0))
            return _Way(
                jnp.where(good, q, way.q),
                jnp.where(good, done, way.done),
                jnp.where(good, 2 * way.part, way.part / 4),
                way.count + count,
            )

        start = _Way(q, jnp.zeros((), q.dtype), jnp.ones((), q.dtype), jnp.asarray(0))
        way = jax.lax.while_loop(lambda way: alive & (way.done < 1) & (way.part >= _SHORTEST_PART), body, start)
        alive = alive & (way.done >= 1)
        q = jnp.where(alive, way.q, q)
        return (q, t1, y1, alive), (q, alive, way.count)

    start = (q0, t[0], q0[places], jnp.asarray(True))
    return jax.lax.scan(sample, start, (t, y))[1]


def velocity_solution(
    mechanism: AbstractMechanism, q: Coordinates, t: Scalar, followed: tuple[int, ...]
) -> Float[Array, "nv rows"]:
    """S with dq = S [−Φ_t; dy] and ddq = S [c; ddy]: the right inverse of [Φ_q; B], of least norm.

    Redundant rows are met in the least-squares sense. Its last columns are R, which spans the motions that the
    constraints allow. Differentiable of any order.
    """
    J = motion_rows(mechanism, q, t, followed)
    S = kkt_inverse(jnp.eye(mechanism.nv, dtype=q.dtype), J).S
    return 2 * S - S @ (J @ S)  # the series is good to ten digits; once more squares the error


@eqx.filter_custom_jvp
def implicit_pose(
    mechanism: AbstractMechanism, q: Coordinates, t: Scalar, y: Float[Array, " k"], followed: tuple[int, ...]
) -> Coordinates:
    """q, which solves Φ(q, t) = 0 and q[followed] = y, as a function of all that these depend on."""
    return q


@implicit_pose.def_jvp
def _implicit_pose_jvp(primals, tangents):
    mechanism, q, t, y, followed = primals
    t_mechanism, _, t_t, t_y, _ = tangents
    q = implicit_pose(mechanism, q, t, y, followed)  # so that this rule has derivatives again

    def rows(mechanism, t, y):
        return jnp.concatenate([mechanism.constraints(q, t), q[jnp.asarray(followed, int)] - y])

    values, t_rows = eqx.filter_jvp(rows, (mechanism, t, y), (t_mechanism, t_t, t_y))
    if t_rows is None:
        return q, jnp.zeros_like(q)
    return q, -velocity_solution(mechanism, q, t, followed) @ t_rows
