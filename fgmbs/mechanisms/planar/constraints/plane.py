"""Products of vectors in the plane."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def dot(u: Float[Array, "2"], v: Float[Array, "2"]) -> Float[Array, ""]:
    """u · v. Written out, because XLA fuses two products with their neighbours but calls a routine for a `dot`."""
    return u[0] * v[0] + u[1] * v[1]


def cross(u: Float[Array, "2"], v: Float[Array, "2"]) -> Float[Array, ""]:
    """u × v: |u| |v| times the sine of the angle from u to v."""
    return u[0] * v[1] - u[1] * v[0]


def perpendicular(v: Float[Array, "2"]) -> Float[Array, "2"]:
    """v turned by +90°."""
    return jnp.stack([-v[1], v[0]])
