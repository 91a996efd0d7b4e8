"""Mass and weight of a planar body in natural coordinates, the positions of its first two points.

A particle of the body at (x, y) in the frame from the first point r_i to the second r_j, at distance L, is at
r = C r_i + D r_j with D = (x I + y P) / L, C = I − D and the quarter turn P. C and D are constant, the mass matrix too.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

_P = np.array([[0.0, -1.0], [1.0, 0.0]])


def mass_matrix(
    pairs: Int[np.ndarray, "bodies 2"],
    points: int,
    lengths: Float[Array, " bodies"],
    masses: Float[Array, " bodies"],
    inertias: Float[Array, " bodies"],
    centres: Float[Array, "bodies 2"],
) -> Float[Array, "n n"]:
    """∫ [C D]ᵀ [C D] dm of all bodies, for all points.

    Args:
        pairs: First two points of each body.
        points: Number of points.
        lengths: Distances of the first two points [m].
        masses: [kg].
        inertias: Moments of inertia about the first point [kg·m²].
        centres: Centres of mass in the frames of the bodies [m].
    """
    # ∫ DᵀD dm = (I0 / L²) I and ∫ D dm = m (x I + y P) / L; the rest follows from C = I − D.
    identity = jnp.eye(2, dtype=masses.dtype)
    DD = _times(inertias / lengths**2, identity)
    D = _first_moments(lengths, masses, centres)
    M_ij = D - DD
    M_ii = _times(masses, identity) - D - D.swapaxes(1, 2) + DD
    blocks = jnp.stack([M_ii, M_ij, M_ij.swapaxes(1, 2), DD], axis=1).reshape(-1, 2, 2, 2, 2)
    table = jnp.zeros((points, points, 2, 2), masses.dtype).at[pairs[:, :, None], pairs[:, None, :]].add(blocks)
    return table.swapaxes(1, 2).reshape(2 * points, 2 * points)


def weights(
    pairs: Int[np.ndarray, "bodies 2"],
    points: int,
    lengths: Float[Array, " bodies"],
    masses: Float[Array, " bodies"],
    centres: Float[Array, "bodies 2"],
    gravity: Float[Array, "2"],
) -> Float[Array, "points 2"]:
    """Forces ∫ [C D]ᵀ g dm of gravity g [m/s²] on the points [N]; constant, so V = −Σ weight · position."""
    at_second = jnp.einsum("bxy,x->by", _first_moments(lengths, masses, centres), gravity)
    at_first = masses[:, None] * gravity - at_second
    table = jnp.zeros((points, 2), masses.dtype)
    return table.at[pairs].add(jnp.stack([at_first, at_second], axis=1))


def _first_moments(lengths, masses, centres) -> Float[Array, "bodies 2 2"]:
    """∫ D dm."""
    x, y = (masses / lengths)[None] * centres.T
    return _times(x, jnp.eye(2, dtype=masses.dtype)) + _times(y, jnp.asarray(_P, masses.dtype))


def _times(factors, matrix):
    return factors[:, None, None] * matrix
