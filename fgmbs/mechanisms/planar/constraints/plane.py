"""Products of vectors in the plane."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def dot(u: Float[Array, "2"], v: Float[Array, "2"]) -> Float[Array, ""]:
    """u · v. Written out, because XLA fuses two products with their neighbours but calls a routine for a `dot`."""
    return jax.lax.add(*_components(u * v))


def cross(u: Float[Array, "2"], v: Float[Array, "2"]) -> Float[Array, ""]:
    """u × v: |u| |v| times the sine of the angle from u to v."""
    return jax.lax.sub(*_components(u * jax.lax.rev(v, (0,))))


def perpendicular(v: Float[Array, "2"]) -> Float[Array, "2"]:
    """v turned by +90°."""
    return jnp.array([-1.0, 1.0], v.dtype) * jax.lax.rev(v, (0,))


def _components(w: Float[Array, "2"]) -> list[Float[Array, ""]]:
    return [jax.lax.squeeze(part, (0,)) for part in jax.lax.split(w, (1, 1))]
