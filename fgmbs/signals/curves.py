"""Curves through samples: what a motion and a force do between them."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from fgmbs.compiled.program import ONCE, program
from fgmbs.signals.trajectories.piecewise import PiecewisePolynomial, hermite_basis


@program(**ONCE)
def motion_curve(
    t: Float[Array, " steps"], y: Float[Array, "steps k"], dy: Float[Array, "steps k"], ddy: Float[Array, "steps k"]
) -> PiecewisePolynomial:
    """The curve of degree 5 through values, velocities and accelerations; at constant acceleration one step beyond."""
    first, last = t[1] - t[0], t[-1] - t[-2]

    def beyond(h, i):
        return y[i] + h * dy[i] + h**2 / 2 * ddy[i], dy[i] + h * ddy[i], ddy[i]

    before, after = beyond(-first, 0), beyond(last, -1)
    knots = jnp.concatenate([t[:1] - first, t, t[-1:] + last])
    rates = [jnp.concatenate([b[None], x, a[None]]) for b, x, a in zip(before, (y, dy, ddy), after, strict=True)]
    return _hermite(knots, [x[:-1] for x in rates], [x[1:] for x in rates])


@program(**ONCE)
def force_curve(
    t: Float[Array, " steps"], f: Float[Array, "steps k"], jumps: Bool[Array, " steps"] | None = None
) -> PiecewisePolynomial:
    """The cubic curve through samples, with slopes of parabolas through three of them.

    After a sample at which it jumps, a new curve begins with the parabola through the next three samples.

    Args:
        t: Times, three or more [s].
        f: Samples [N, N·m].
        jumps: Samples after which the curve jumps, none of them among the last three.
    """
    steps = t.shape[0]
    jumps = jnp.zeros(steps, bool) if jumps is None else jumps

    def parabola(offset):
        """Value and slope at sample k of the parabola through samples k + offset, …, k + offset + 2."""
        i = jnp.clip(jnp.arange(steps) + offset, 0, steps - 3)  # at the ends the three are moved into the record
        (t0, t1, t2), (f0, f1, f2) = ((x[i], x[i + 1], x[i + 2]) for x in (t, f))
        first = (f1 - f0) / (t1 - t0)[:, None]
        second = ((f2 - f1) / (t2 - t1)[:, None] - first) / (t2 - t0)[:, None]
        value = f0 + first * (t - t0)[:, None] + second * ((t - t0) * (t - t1))[:, None]
        return value, first + second * (2 * t - t0 - t1)[:, None]

    after = jnp.concatenate([jnp.zeros(1, bool), jumps[:-1]])  # the sample before jumps
    here, begins = jumps[:, None], after[:, None]
    fresh, fresh_slope = parabola(1)
    slope = parabola(-1)[1]
    slope = jnp.where(begins, parabola(0)[1], slope)
    start = jnp.where(here, fresh, f), jnp.where(here, fresh_slope, slope)
    end = f, jnp.where(here, parabola(-2)[1], slope)
    return _hermite(t, [x[:-1] for x in start], [x[1:] for x in end])


def _hermite(knots, start, end) -> PiecewisePolynomial:
    """The piecewise polynomial with these derivatives, of order 0, 1, …, at the start and at the end of each piece."""
    h = jnp.diff(knots)[:, None]
    basis = hermite_basis(len(start) - 1)
    coefficients = sum(
        (x * h**k)[..., None] * jnp.asarray(row, x.dtype)
        for side, rows in zip((start, end), basis, strict=True)
        for k, (x, row) in enumerate(zip(side, rows, strict=True))
    )
    return PiecewisePolynomial(knots, jnp.moveaxis(coefficients, 1, 0))
