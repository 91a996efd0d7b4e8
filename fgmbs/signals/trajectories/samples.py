"""Values, velocities and accelerations of functions of time."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, finite
from fgmbs.compiled.program import program
from fgmbs.errors import ArgumentError


class Samples(NamedTuple):
    """A function of time and its first two derivatives, one row for each time."""

    y: Float[Array, " steps *d"]
    dy: Float[Array, " steps *d"]
    ddy: Float[Array, " steps *d"]


def sample(trajectory: Callable, t: Numbers) -> Samples:
    """Values and first two time derivatives, by automatic differentiation.

    Args:
        trajectory: A trajectory, or any function of time made of JAX operations, with values () or (d,).
        t: Times, (steps,) [s].

    Raises:
        ArgumentError: Times of another shape or not finite, or values of another shape.
    """
    t = finite("t", t)
    if t.ndim != 1:
        raise ArgumentError(f"t: expected times of shape (steps,); found shape {t.shape}")
    samples = _sample(trajectory, jnp.asarray(t, dtype=float))
    if samples.y.ndim > 2:
        raise ArgumentError(
            f"trajectory: expected a function of time with values of shape () or (d,); "
            f"found shape {samples.y.shape[1:]}"
        )
    return samples


@program
def _sample(trajectory: Callable, t: Float[Array, " steps"]) -> Samples:
    def value(t):
        return jnp.asarray(trajectory(t), dtype=t.dtype)

    def value_and_velocity(t):
        return jax.jvp(value, (t,), (jnp.ones_like(t),))

    def derivatives(t):
        (y, dy), (_, ddy) = jax.jvp(value_and_velocity, (t,), (jnp.ones_like(t),))
        return Samples(y, dy, ddy)

    return jax.vmap(derivatives)(t)
