"""What is evaluated of a residual at one place, and functions over all places, some at a time.

Where not all places are evaluated together, derivatives backwards evaluate each part again.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from fgmbs.factors.base import value_and_jacobian

TOGETHER = 1024
"""Steps that are evaluated together."""


def over_time(function: Callable, *arguments: PyTree) -> PyTree:
    """`jax.vmap`; of many places a part at a time, so that what is needed on the way is held of one part only."""
    count = jax.tree.leaves(arguments)[0].shape[0]
    parts = -(-count // TOGETHER)
    if parts == 1:
        return jax.vmap(function)(*arguments)
    # The last part looks at some places of the one before once more.
    first = jnp.minimum(jnp.arange(parts) * TOGETHER, count - TOGETHER)
    last = count - (parts - 1) * TOGETHER

    def part(k):
        cut = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, k, TOGETHER), arguments)
        return jax.vmap(function)(*cut)

    def joined(leaf):
        return jnp.concatenate(
            [leaf[:-1].reshape((parts - 1) * TOGETHER, *leaf.shape[2:]), leaf[-1, TOGETHER - last :]]
        )

    return jax.tree.map(joined, jax.lax.map(jax.checkpoint(part, prevent_cse=False), first))


def over_recordings(function: Callable, *arguments: PyTree) -> PyTree:
    """`jax.vmap`; of many steps some recordings at a time, all parts of one size: what is needed on the way of 20
    recordings of 300 steps would not fit into the cache (look, four-bar: 67 ms, in parts 26)."""
    count, steps = arguments[-1][0].shape[:2]
    size = max(k for k in range(1, count + 1) if count % k == 0 and (k == 1 or k * steps <= TOGETHER))
    if size == count:
        return jax.vmap(function)(*arguments)
    parts = jax.tree.map(lambda leaf: leaf.reshape(count // size, size, *leaf.shape[1:]), arguments)
    found = jax.lax.map(jax.checkpoint(lambda part: jax.vmap(function)(*part), prevent_cse=False), parts)
    return jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), found)


def value(residual, factor, arguments):
    """(value,)."""
    return (residual(arguments),)


def linearization(residual, factor, arguments):
    """(value, its derivatives by all arguments)."""
    return value_and_jacobian(residual, arguments)


def by_variables(residual, factor, arguments):
    """(value, its derivatives by the variables, θ staying)."""
    variables, change = arguments
    return value_and_jacobian(lambda variables: residual((variables, change)), variables)


def cost_hessian(residual, factor, arguments):
    """(None, second derivatives of the cost)."""
    flat, unravel = ravel_pytree(arguments)
    return None, jax.hessian(lambda flat: factor.costs(residual(unravel(flat))))(flat)
