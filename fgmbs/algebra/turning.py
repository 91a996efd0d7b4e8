"""A number that turns its sign and keeps its size: dry friction, saturation."""

import jax.numpy as jnp
from jaxtyping import Array, Float

TURNS = ("tanh", "clip")
"""How: smooth, or in three straight pieces."""


def turned(x: Float[Array, "*shape"], turn: str) -> Float[Array, "*shape"]:
    """A number from −1 to 1, x itself near 0: tanh x, or x cut off."""
    return jnp.tanh(x) if turn == "tanh" else jnp.clip(x, -1.0, 1.0)
