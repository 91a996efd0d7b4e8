"""Vectors and rotations of many bodies at once: components first, bodies along the last axis."""

import jax.numpy as jnp
from jaxtyping import Array, Float

Vectors = Float[Array, "3 bodies"]
Matrices = Float[Array, "3 3 bodies"]


def cross(a: Vectors, b: Vectors) -> Vectors:
    """a × b."""
    return jnp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def dot(a: Vectors, b: Vectors) -> Float[Array, " bodies"]:
    """a · b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def times(A: Matrices, x: Vectors) -> Vectors:
    """A x."""
    return A[:, 0] * x[0] + A[:, 1] * x[1] + A[:, 2] * x[2]


def transposed_times(A: Matrices, x: Vectors) -> Vectors:
    """Aᵀ x."""
    return A[0] * x[0] + A[1] * x[1] + A[2] * x[2]


def product(A: Matrices, B: Matrices) -> Matrices:
    """A B."""
    return A[:, 0, None] * B[0] + A[:, 1, None] * B[1] + A[:, 2, None] * B[2]


def skew(a: Vectors) -> Matrices:
    """The matrix of a ×."""
    zero = jnp.zeros_like(a[0])
    rows = [zero, -a[2], a[1]], [a[2], zero, -a[0]], [-a[1], a[0], zero]
    return jnp.stack([jnp.stack(row) for row in rows])


def outer(a: Vectors, b: Vectors) -> Matrices:
    """a bᵀ."""
    return a[:, None] * b[None]


def identity(like: Float[Array, " bodies"]) -> Matrices:
    """Matrices of one."""
    return jnp.broadcast_to(jnp.eye(3, dtype=like.dtype)[..., None], (3, 3, *like.shape))


def rotation(r: Vectors) -> Matrices:
    """The rotations by |r| about r: exp of r ×."""
    square = dot(r, r)
    small = square < 1e-8
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    a = jnp.where(small, 1 - square / 6, jnp.sin(angle) / angle)
    b = jnp.where(small, 0.5 - square / 24, (1 - jnp.cos(angle)) / angle**2)
    one = identity(square)
    return one + a * skew(r) + b * (outer(r, r) - square * one)


def of_quaternion(q: Float[Array, "4 bodies"]) -> Matrices:
    """Rotations of quaternions (w, x, y, z) of any length but zero."""
    w, x, y, z = q * jnp.sqrt(2 / jnp.sum(q * q, axis=0))
    rows = (
        [1 - y * y - z * z, x * y - w * z, x * z + w * y],
        [x * y + w * z, 1 - x * x - z * z, y * z - w * x],
        [x * z - w * y, y * z + w * x, 1 - x * x - y * y],
    )
    return jnp.stack([jnp.stack(row) for row in rows])


def moved_quaternion(q: Float[Array, "4"], r: Float[Array, "3"]) -> Float[Array, "4"]:
    """q ⊞ r: turned on by |r| about r, seen from the body."""
    square = jnp.sum(r * r) / 4
    small = square < 1e-8
    half = jnp.sqrt(jnp.where(small, 1.0, square))
    c = jnp.where(small, 1 - square / 2 + square**2 / 24, jnp.cos(half))
    s = jnp.where(small, 0.5 - square / 12, jnp.sin(half) / (2 * half))
    v, x = s * r, q[1:]
    turned = jnp.concatenate([(q[0] * c - x @ v)[None], q[0] * v + c * x + jnp.cross(x, v)])
    return turned * _one_over(turned)


def _one_over(q: Float[Array, "4"]) -> Float[Array, ""]:
    """1 / |q|."""
    return 1 / jnp.sqrt(jnp.sum(q * q))


def turn_between(q0: Float[Array, "4"], q1: Float[Array, "4"]) -> Float[Array, "3"]:
    """The r with q0 ⊞ r = ± q1, of half a turn at most."""
    w = q0 @ q1
    v = q0[0] * q1[1:] - q1[0] * q0[1:] - jnp.cross(q0[1:], q1[1:])
    sign = jnp.where(w < 0, -1.0, 1.0)
    w, v = sign * w, sign * v
    square = v @ v
    small = square < 1e-12
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    return v * jnp.where(small, 2 / w - 2 * square / (3 * w**3), 2 * jnp.arctan2(sine, w) / sine)
