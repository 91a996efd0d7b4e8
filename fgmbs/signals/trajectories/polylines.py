"""Straight lines from point to point: with a rest at each, or with rounded corners."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import Known, Numbers, choice, finite, points_and_times, refuse
from fgmbs.errors import ArgumentError
from fgmbs.signals.trajectories.piecewise import PiecewisePolynomial, hermite_basis

LAWS = {"cubic": 1, "quintic": 2, "septic": 3}
"""Highest derivative that a law keeps continuous."""


def polyline(points: Numbers, times: Numbers, law: str = "cubic") -> PiecewisePolynomial:
    """Straight lines from point to point, at rest at each.

    On each line, y = p_i + s(u) (p_(i+1) − p_i) with u from 0 to 1. The law s is 3u² − 2u³ ("cubic": no velocity at the
    points), 10u³ − 15u⁴ + 6u⁵ ("quintic": no acceleration either) or 35u⁴ − 84u⁵ + 70u⁶ − 20u⁷ ("septic": no jerk).

    Args:
        points: (N, d), or (N,) for one signal.
        times: When each is reached, (N,) [s].
        law: "cubic", "quintic" or "septic".

    Raises:
        ArgumentError: An invalid argument.
    """
    choice("law", law, LAWS)
    points, times = points_and_times(points, times)
    p = jnp.asarray(points, dtype=float).T  # With time as the last axis, one signal and many are written alike.
    m = LAWS[law]
    one, s = np.eye(2 * m + 2)[0], hermite_basis(m)[1][0]
    coefficients = p[..., :-1, None] * one + jnp.diff(p)[..., None] * s
    return PiecewisePolynomial(jnp.asarray(times, dtype=float), coefficients)


def blended_polyline(points: Numbers, times: Numbers, blend: Numbers, law: str = "quintic") -> PiecewisePolynomial:
    """Straight lines of constant velocity whose corners are rounded by blends, from rest to rest.

    The blend of an inner point is centred at its time: the motion cuts the corner, and only the lines, if prolonged,
    meet at the point. The first blend begins at the first time and the last one ends at the last, where the motion
    rests at the point itself; the prolonged lines meet these points half a blend inside. So with corner times c_i,
    which are times_i but for c_0 = times_0 + blend_0 / 2 and c_(N−1) = times_(N−1) − blend_(N−1) / 2, the velocity of
    a line is v_i = (p_(i+1) − p_i) / (c_(i+1) − c_i).

    In a blend the velocity goes from v_(i−1) to v_i with u ("cubic": the parabolic blend, jumps in acceleration),
    3u² − 2u³ ("quintic": continuous acceleration) or 10u³ − 15u⁴ + 6u⁵ ("septic": continuous jerk).

    Args:
        points: (N, d), or (N,) for one signal.
        times: (N,) [s].
        blend: Duration of the blends, one number or (N,) [s]. The blends may meet on a line but not overlap.
        law: "cubic", "quintic" or "septic": what a blend of this degree can keep continuous.

    Raises:
        ArgumentError: An invalid argument; for a blend that is too long, with how long it may be.
    """
    choice("law", law, LAWS)
    points, times = points_and_times(points, times)
    blends = finite("blend", blend)
    _check_blend(blends, times)
    p, t, b = (jnp.asarray(array, dtype=float) for array in (points, times, blends))
    return _blended_polyline(p.T, t, jnp.broadcast_to(b, t.shape), LAWS[law])


@partial(jax.jit, static_argnums=3)
def _blended_polyline(
    p: Float[Array, "*d N"], t: Float[Array, " N"], b: Float[Array, " N"], m: int
) -> PiecewisePolynomial:
    corners = t.at[0].add(b[0] / 2).at[-1].add(-b[-1] / 2)
    v = jnp.diff(p) / jnp.diff(corners)
    rest = jnp.zeros_like(v[..., :1])
    before, after = jnp.concatenate([rest, v], axis=-1), jnp.concatenate([v, rest], axis=-1)
    one, u = np.eye(2 * m + 2)[:2]
    _, end = hermite_basis(m)
    rounding = end[0] / 2 + end[1]  # From rest at u = 0 to u − 1/2 at u = 1: lines that meet at u = 1/2.
    corner_terms = (
        (p - before * b / 2)[..., None] * one
        + (before * b)[..., None] * u
        + ((after - before) * b)[..., None] * rounding
    )
    begin, finish = corners - b / 2, corners + b / 2
    line_terms = (p + after * b / 2)[..., :-1, None] * one + (v * (begin[1:] - finish[:-1]))[..., None] * u
    # In turn: blend, line, blend, …, line; and the last blend.
    pairs = jnp.stack([corner_terms[..., :-1, :], line_terms], axis=-2).reshape(*p.shape[:-1], -1, one.size)
    # Rounding errors must not move the ends.
    knots = jnp.stack([begin, finish], axis=1).ravel().at[0].set(t[0]).at[-1].set(t[-1])
    return PiecewisePolynomial(knots, jnp.concatenate([pairs, corner_terms[..., -1:, :]], axis=-2))


def _check_blend(blend: Known, times: Known) -> None:
    if blend.shape not in ((), times.shape):
        raise ArgumentError(
            f"blend: expected one duration or shape {times.shape}, one for each point; found shape {blend.shape}"
        )
    if isinstance(blend, np.ndarray):
        refuse("blend", blend, blend <= 0, "a positive duration [s]")
    if not isinstance(blend, np.ndarray) or not isinstance(times, np.ndarray):
        return
    share = np.where(np.isin(np.arange(times.size), (0, times.size - 1)), 1.0, 0.5) * blend
    needed, leg = share[:-1] + share[1:], np.diff(times)
    i = int(np.argmin(leg / needed))
    if needed[i] <= leg[i] * (1 + 1e-12):
        return
    where = f"between times[{i}] and times[{i + 1}]"
    if blend.ndim == 0:
        raise ArgumentError(
            f"blend: expected at most {blend * leg[i] / needed[i]:.13g} s, for which there is room {where}; "
            f"found {blend:g} s"
        )
    raise ArgumentError(
        f"blend: expected blends that take at most the {leg[i]:.13g} s {where}; found {needed[i]:g} s, with the first "
        f"and the last blend in full and half of the others; blends {leg[i] / needed[i]:.13g} times as long fit"
    )
