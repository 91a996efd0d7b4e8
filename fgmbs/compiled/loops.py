"""Operations of a matrix library as plain loops, for small matrices inside one compiled function."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

LARGEST_SUM = 2048
"""Numbers to add above which XLA calls a library; that number is 4096 (2026)."""


def product(a: Array, b: Array, contracted, batch=((), ())) -> Array:
    """The product over axes `contracted` of a and b, for all of axes `batch` of both, as `jax.lax.dot_general`."""
    a, b = laid_out(a, b, contracted, batch)
    shape = np.broadcast_shapes(a.shape, b.shape)
    if math.prod(shape) > LARGEST_SUM:
        return added_up(a, b)
    # The functions of jax.numpy take several times as long to trace, and there are many products.
    dtype = jnp.promote_types(jnp.result_type(a, b), jnp.int32)
    a, b = (jax.lax.convert_element_type(jax.lax.broadcast_in_dim(x, shape, range(x.ndim)), dtype) for x in (a, b))
    return jax.lax.reduce_sum(jax.lax.mul(a, b), (0,))


def laid_out(a: Array, b: Array, contracted, batch) -> tuple[Array, Array]:
    """a and b with axes: contracted as one, batch, free ones of a, free ones of b."""

    def one(x, contracted, batch, free_of_other):
        free = [i for i in range(x.ndim) if i not in (*contracted, *batch)]
        x = jax.lax.transpose(x, (*contracted, *batch, *free))
        shape = [math.prod(x.shape[: len(contracted)]), *x.shape[len(contracted) :]]
        for axis in free_of_other:
            shape.insert(axis, 1)
        return jax.lax.reshape(x, shape)

    first, count = 1 + len(batch[0]), [x.ndim - len(c) - len(batch[0]) for x, c in zip((a, b), contracted, strict=True)]
    middle, last = first + count[0], first + sum(count)
    return one(a, contracted[0], batch[0], range(middle, last)), one(b, contracted[1], batch[1], range(first, middle))


def added_up(a: Array, b: Array) -> Array:
    """The sum of a·b over their first axes, by a loop."""
    zero = jnp.zeros(jnp.broadcast_shapes(a.shape[1:], b.shape[1:]), jnp.result_type(a, b))
    if a.shape[0] == 0:
        return zero
    return jax.lax.fori_loop(0, a.shape[0], lambda k, total: total + a[k] * b[k], zero)


def cholesky(a: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The lower factor, from the lower half of a; NaN where a is not positive definite."""
    places = jnp.arange(a.shape[0])

    def eliminate(k, a):
        column = jnp.where(places >= k, a[:, k] / jnp.sqrt(a[k, k]), 0.0)
        return jnp.where(places == k, column[:, None], a - column[:, None] * jnp.where(places > k, column, 0.0))

    lower = jax.lax.fori_loop(0, a.shape[0], eliminate, a)
    return jnp.where(jnp.isfinite(lower[-1, -1]), lower, jnp.nan)


def solve_triangular(
    a: Float[Array, "n n"], b: Float[Array, "n m"], lower: bool, transpose: bool, unit_diagonal: bool = False
) -> Float[Array, "n m"]:
    """a⁻¹ b, or a⁻ᵀ b, of the lower or upper triangle of a."""
    n = a.shape[0]
    places, columns, first = jnp.arange(n), a.T if transpose else a, lower != transpose

    def substitute(i, b):
        k = i if first else n - 1 - i
        row = b[k] if unit_diagonal else b[k] / a[k, k]
        left = (places > k) if first else (places < k)
        b = b - jnp.where(left, columns[:, k], 0.0)[:, None] * row
        return jnp.where((places == k)[:, None], row, b)

    return jax.lax.fori_loop(0, n, substitute, b)


def triangularize(a: Float[Array, "m n"]) -> Float[Array, "k n"]:
    """R of the QR factorization, k = min(m, n), by Householder reflections."""
    m, n = a.shape
    places = jnp.arange(m)

    def reflect(k, columns):
        x = jnp.where(places >= k, columns[k], 0.0)
        norm = jnp.sqrt(jnp.vdot(x, x))
        pivot = jnp.where(x[k] > 0, -norm, norm)
        # Half the square of the length of the reflection's normal, zero only for a column of zeros.
        half = pivot * (pivot - x[k])
        normal = jnp.where(places == k, x[k] - pivot, x)
        return columns - (columns @ normal / jnp.where(half > 0, half, 1.0))[:, None] * normal

    columns = jax.lax.fori_loop(0, min(m, n), reflect, a.T)
    return jnp.triu(columns[:, :m].T[: min(m, n)])


def lu(a: Float[Array, "n n"]) -> tuple[Float[Array, "n n"], Int[Array, " n"], Int[Array, " n"]]:
    """(L and U in one, the row that each one was exchanged with, where the rows come from)."""
    places = jnp.arange(a.shape[0], dtype=jnp.int32)

    def eliminate(k, state):
        a, pivots, permutation = state
        largest = jnp.argmax(jnp.where(places >= k, jnp.abs(a[:, k]), -1.0)).astype(jnp.int32)

        def exchanged(rows):
            at = (slice(None),) + (None,) * (rows.ndim - 1)
            return jnp.where((places == k)[at], rows[largest], jnp.where((places == largest)[at], rows[k], rows))

        a, permutation = exchanged(a), exchanged(permutation)
        below = jnp.where(places > k, a[:, k] / jnp.where(a[k, k] == 0, 1.0, a[k, k]), 0.0)
        rest = a - below[:, None] * jnp.where(places > k, a[k], 0.0)
        a = jnp.where((places[:, None] > k) & (places == k), below[:, None], rest)
        return a, jnp.where(places == k, largest, pivots), permutation

    return jax.lax.fori_loop(0, a.shape[0], eliminate, (a, places, places))


def order(x: Array) -> Int[Array, " n"]:
    """Places of the entries from the smallest to the largest, of equal ones in turn; NaN last."""
    places = jnp.arange(x.shape[0])
    nan = x != x
    before = jnp.where(nan, False, (x < x[:, None]) | nan[:, None])
    before |= (jnp.where(nan, nan[:, None], x == x[:, None])) & (places < places[:, None])
    rank = jnp.sum(before, axis=1)
    return jnp.sum(jnp.where(rank == places[:, None], places, 0), axis=1)


def batched(function, *arrays: Array, dims: int = 2):
    """The function of the last `dims` axes of arrays, for all of the other ones."""
    for _ in range(arrays[0].ndim - dims):
        function = jax.vmap(function)
    return function(*arrays)
