"""Periodic signals that begin at rest."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.typing import Scalar


class FourierSeries(eqx.Module):
    """y(t) = r(t) Σ_k (cosines_k cos kωt + sines_k sin kωt), ω = 2π / period; 0 before t = 0.

    r rises from 0 at rest to 1, at which it stays from t = ramp on, with two continuous derivatives.
    """

    cosines: Float[Array, " harmonics"]
    sines: Float[Array, " harmonics"]
    period: Float[Array, ""]
    """[s]"""
    ramp: Float[Array, ""]
    """[s]"""
    harmonics: tuple[int, ...] = eqx.field(static=True)
    """k, each once."""

    def __call__(self, t: Scalar) -> Float[Array, ""]:
        """The value at time t [s]."""
        return series(t, self.harmonics, self.period, self.ramp) @ jnp.concatenate([self.cosines, self.sines])


def series(
    t: Float[Array, "*times"] | Scalar, harmonics: tuple[int, ...], period: Scalar, ramp: Scalar
) -> Float[Array, "*times terms"]:
    """All r(t) cos kωt, and behind them all r(t) sin kωt."""
    s = jnp.clip(jnp.asarray(t, dtype=float) / ramp, 0.0, 1.0)
    rise = s**3 * (10 - 15 * s + 6 * s**2)
    angle = 2 * jnp.pi / period * jnp.asarray(np.asarray(harmonics, float)) * jnp.asarray(t, dtype=float)[..., None]
    return rise[..., None] * jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=-1)
