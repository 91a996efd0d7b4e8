"""How far a frame or a direction is turned from where it should be, as angles: zero nowhere else."""

import jax.numpy as jnp
from jaxtyping import Array, Float

_SERIES = (1.0, 1 / 6, 3 / 40, 5 / 112)
"""θ / sin θ by powers of sin² θ."""
_SMALL, _HALF_TURN = 1e-4, 1e-12
"""sin² θ up to which these are exact, and up to which it is half a turn beyond a right angle."""


def of_turn(turn: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """The rotation vector, at most π long; it jumps at half a turn alone."""
    sines = jnp.stack([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]) / 2
    cosine = (turn[0, 0] + turn[1, 1] + turn[2, 2] - 1) / 2
    x, y, z = turn + jnp.eye(3, dtype=turn.dtype)  # of half a turn all along the axis; the longest one tells it best
    row = jnp.where((x[0] >= y[1]) & (x[0] >= z[2]), x, jnp.where(y[1] >= z[2], y, z))
    return _angles(sines, cosine, row / jnp.sqrt(row @ row))


def of_direction(across: Float[Array, "2"], along: Float[Array, ""]) -> Float[Array, "2"]:
    """The angle between a unit vector and an axis, across the axis; it jumps at the opposite direction alone.

    Args:
        across: The unit vector, across the axis …
        along: … and along it.
    """
    return _angles(across, along, jnp.array([1.0, 0.0], across.dtype))


def _angles(sines: Float[Array, " k"], cosine: Float[Array, ""], way: Float[Array, " k"]) -> Float[Array, " k"]:
    """θ in the direction of sin θ; of half a turn, as far as that can be told, in the direction of a unit vector."""
    square = sines @ sines
    half = (square < _HALF_TURN) & (cosine < 0)
    small = (square < _SMALL) & (cosine > 0)
    sine = jnp.sqrt(jnp.where(half | small, 1.0, square))
    a, b, c, d = _SERIES
    ratio = jnp.where(small, a + square * (b + square * (c + square * d)), jnp.arctan2(sine, cosine) / sine)
    return jnp.where(half, (jnp.pi - sines @ way) * way, ratio * sines)
