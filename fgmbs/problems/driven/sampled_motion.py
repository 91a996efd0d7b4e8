"""Velocities and accelerations of a motion that is given by samples only."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.motion import integrated_white_noise, sample, taylor, taylor_noise
from fgmbs.graph.time_graph import TimeGraph
from fgmbs.linear import METHODS
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Scalar

_ORDER = 4
"""The derivative that is white noise: snap, so that samples of a cubic polynomial are met exactly."""
_STRIDES = (1, 2, 4, 8, 16, 32, 64)
_LEAST_RESOLUTION = 1e-13
"""Least standard deviation of samples, relative to their size: rounding."""
_BANDWIDTH = 0.75
"""What the bandwidth is of the one at which noise and bias are alike: bias is worse at the ends."""
_WIDEST, _NARROWEST = 30.0, 0.05
"""Limits of the bandwidth, in steps; a wider one costs more digits than it smooths."""
_JUMP = 15.0
"""How many times its four-fifths quantile the score of a jump of the acceleration must be."""
_MISFIT = 8.0
"""Largest distance of the smooth signal from a sample, in standard deviations, for a wider bandwidth to be right."""
_PASSES = 20
"""Most passes in search of bandwidth and jumps."""
_EDGE = 8
"""Steps at both ends, and at either side of a jump, in which no other is looked for."""
_REACHES = (1, 1, 2, 4, 8, 16, 32, 64, 128)
_JUMP_SIZE = 1e12
"""Variance of a jump of the acceleration against that of the white noise: anything goes."""


class SampledMotion(NamedTuple):
    """Signals and their derivatives at the times of their samples."""

    y: Float[Array, "steps k"]
    dy: Float[Array, "steps k"]
    ddy: Float[Array, "steps k"]
    cov: Float[Array, "steps k 3 3"] | None
    """Covariance of (y, dy, ddy) of each signal, if asked for."""
    jumps: Bool[Array, "steps k"]
    """Samples after which the acceleration jumps; there it is the one from the left."""
    sigma: Float[Array, " k"]
    """Standard deviations of the samples, as given or found."""


def sampled_motion(
    mechanism: AbstractMechanism,
    y: Float[Array, "steps k"],
    dt: Scalar,
    sigma: Float[Array, " k"] | None = None,
    covariance: bool = False,
) -> SampledMotion:
    """Smooth signals through samples, with velocities, accelerations and their covariances.

    Each signal is a time graph of its own: (y, dy, ddy, dddy) at every step, driven by white noise in the fourth
    derivative, observed with the noise of the samples: the smoothing spline of degree 7. The noise is seen in the
    eighth differences of the samples, the roughness of the signal in its fourth differences, at the shortest stride at
    which they stand out of the noise. Corners of a path are found by the score of a jump of the acceleration at each
    step, which a jump multiplies by hundreds; the two sides then share position and velocity only.

    Args:
        y: Uniform samples, three or more [m, rad].
        dt: Time step [s].
        sigma: Standard deviations of the samples; found from them if None [m, rad].
        covariance: Also compute covariances.
    """

    def signal(arguments):
        y, given = arguments
        sigma, widest = _scales(jax.lax.stop_gradient(y), given)
        bandwidth, jumps = _settled(*jax.lax.stop_gradient((mechanism, y, dt, sigma, widest)))
        x, factorization = _smooth(mechanism, y, dt, sigma, bandwidth, jumps)
        rates = jnp.asarray([1.0, 1 / dt, 1 / dt**2], y.dtype)
        cov = factorization.marginals().steps[:, :3, :3] * jnp.outer(rates, rates) if covariance else None
        return x[:, :3] * rates, cov, jumps, sigma

    unknown = jnp.full(y.shape[1], jnp.nan, y.dtype) if sigma is None else jnp.broadcast_to(sigma, y.shape[1:])
    x, cov, jumps, found = jax.lax.map(signal, (y.T, unknown))
    cov = None if cov is None else jnp.moveaxis(cov, 0, 1)
    return SampledMotion(x[..., 0].T, x[..., 1].T, x[..., 2].T, cov, jumps.T, found)


def _smooth(mechanism, y, dt, sigma, bandwidth, jumps):
    """(scaled derivatives x_i = Δtⁱ dⁱy/dtⁱ, factorization) of one signal."""
    T = y.shape[0]
    order = min(_ORDER, T)  # three samples determine a parabola
    F = jnp.asarray(taylor(order), y.dtype)
    density = sigma / bandwidth**_ORDER
    smooth, jump = (
        jnp.asarray(np.linalg.inv(np.linalg.cholesky(_noise(order, size))), y.dtype) for size in (0.0, _JUMP_SIZE)
    )
    # The weights of an interval are those of its second step, a jump is told by its first.
    after = jnp.concatenate([jumps[:1], jumps[:-1]])
    weights = jnp.where(after[:, None, None], jump, smooth) / density
    factors = (
        Factor(sample, ("x",), Noise.sigma(1.0), series=y[:, None], weights=jnp.full((T, 1), 1 / sigma)),
        Factor(
            integrated_white_noise,
            ("x",),
            Noise.sigma(1.0),
            "interval",
            series=jnp.broadcast_to(F, (T, order, order)),
            weights=weights,
        ),
    )
    graph = TimeGraph(mechanism, factors, (("x", order),), jnp.arange(T) * dt, jnp.asarray(dt, y.dtype))
    zero = graph.pack({"x": jnp.zeros((T, order), y.dtype)})
    system, _ = graph.linearize(zero)
    factorization = METHODS["sqrt"](system, zero.steps, zero.globals)
    return factorization.minimizer()[0], factorization


def _settled(mechanism, y, dt, sigma, widest):
    """(bandwidth, jumps): from narrow to wide, as long as the smooth signal stays at the samples.

    A narrow bandwidth shows jumps that a wide one would smear, a wide one those that noise hides from a narrow one.
    """

    def body(state):
        k, bandwidth, accepted, jumps, _ = state
        near = jumps.astype(y.dtype)
        for reach in _REACHES[:5]:  # 9 steps to either side
            near = _widened(near, reach)
        x, _ = _smooth(mechanism, y, dt, sigma, bandwidth, jumps)
        found = jumps | (_jumps(x, bandwidth) & (near == 0))
        more = jnp.any(found & ~jumps)
        good = (jnp.max(jnp.abs(y - x[:, 0])) <= _MISFIT * sigma) | (k == 0)
        accepted = jnp.where(good, bandwidth, accepted)
        end = ~more & (~good | (bandwidth >= widest))
        return k + 1, jnp.where(good, jnp.minimum(2 * bandwidth, widest), bandwidth), accepted, found, end

    narrow = jnp.minimum(widest, 2.0)
    start = (0, narrow, narrow, jnp.zeros(y.shape[0], bool), jnp.asarray(False))
    state = jax.lax.while_loop(lambda state: ~state[-1] & (state[0] < _PASSES), body, start)
    return state[2], state[3]


def _noise(order: int, jump: float = 0.0) -> np.ndarray:
    """Covariance of what a step adds, after a jump of the second and third derivatives at its start."""
    F = taylor(order)[:, 2:]
    return taylor_noise(order) + jump * F @ F.T


def _scales(y, sigma):
    """(standard deviation of the samples, bandwidth in steps) of one signal."""
    T, size = y.shape[0], jnp.max(jnp.abs(y))
    size = jnp.where(size > 0, size, 1.0)
    found = _spread(y, 1, 8) / math.sqrt(math.comb(16, 8)) if T >= 12 else 0.0
    sigma = jnp.maximum(jnp.where(jnp.isnan(sigma), found, sigma), _LEAST_RESOLUTION * size)
    noise = math.sqrt(math.comb(8, 4)) * sigma
    *shorter, longest = [stride for stride in _STRIDES if 8 * stride < T] or [1]

    def seen(stride):
        """(whether a signal stands out of the noise, how rough it is then) at a stride."""
        spread = _spread(y, stride, 4) if T > 4 * stride else jnp.zeros((), y.dtype)
        # It may be as rough as can hide in the noise.
        return spread > 2 * noise, jnp.sqrt(jnp.maximum(spread**2 - noise**2, noise**2 / 4)) / stride**4

    roughness = seen(longest)[1]
    for stride in reversed(shorter):
        visible, here = seen(stride)
        roughness = jnp.where(visible, here, roughness)
    bandwidth = _BANDWIDTH * (sigma / jnp.maximum(roughness, 1e-30 * size)) ** (1 / _ORDER)
    return sigma, jnp.clip(bandwidth, _NARROWEST, _WIDEST)


def _spread(y, stride, order):
    """Standard deviation of differences over samples this many steps apart; the largest fifth may be anything."""
    for _ in range(order):
        y = y[stride:] - y[:-stride]
    return jnp.quantile(jnp.abs(y), 0.8) / 1.2816


def _jumps(x, bandwidth):
    """Steps after which the acceleration jumps: local maxima of the score that stand far above the rest."""
    F = taylor(x.shape[1])
    information = jnp.asarray(np.linalg.inv(_noise(x.shape[1])) @ F[:, 2], x.dtype)
    score = jnp.abs((x[1:] - x[:-1] @ jnp.asarray(F.T, x.dtype)) @ information)
    rounding = jnp.finfo(x.dtype).eps * jnp.max(jnp.abs(x)) * jnp.sum(jnp.abs(information))
    highest, k = score, jnp.arange(score.shape[0])
    for reach in _REACHES:  # the highest score within at least four bandwidths
        highest = jnp.where(reach <= jnp.maximum(4 * bandwidth, _EDGE), _widened(highest, reach), highest)
    inner = (k >= _EDGE) & (k < score.shape[0] - _EDGE)
    jumps = inner & (score > _JUMP * (jnp.quantile(score, 0.8) + rounding)) & (score == highest)
    return jnp.append(jumps, False)


def _widened(values, reach):
    """The largest of each value and those this many steps before and behind it."""
    padded = jnp.pad(values, reach)
    return jnp.maximum(jnp.maximum(values, padded[2 * reach :]), padded[: -2 * reach])
