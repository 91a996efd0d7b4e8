"""Lengths rounded up, so that motions of other lengths reuse compiled programs."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from fgmbs.compiled.tracing import is_traced

_GRAIN = 8
"""Lengths are rounded up to the next of so many per doubling."""


def padded(size: int) -> int:
    """The number of steps, or samples, to compute with."""
    grain = 2 ** max(0, math.floor(math.log2(max(1, size))) - int(math.log2(_GRAIN)))
    return -(-size // grain) * grain


def by_step(program: Callable[..., tuple[PyTree, PyTree]], *rows: PyTree, axis: int = 0) -> tuple[PyTree, PyTree]:
    """program(*rows) = (outputs of every step, of the whole); lengths of one bucket are one shape to it.

    Args:
        program: A compiled function that treats every step alone, and to the whole of which repeated steps add nothing.
        rows: Arrays with a row for every step; the last ones are repeated to fill the bucket …
        axis: … along this axis, which is that of the outputs, too.
    """
    if is_traced(rows, jnp.zeros(())):  # part of another program, of its length
        return program(*rows)
    rows = jax.tree.map(np.asarray, rows)
    size = jax.tree.leaves(rows)[0].shape[axis]
    place = np.minimum(np.arange(padded(size)), size - 1)
    filled = jax.device_put(jax.tree.map(lambda leaf: np.take(leaf, place, axis), rows))
    cut = (slice(None),) * axis + (slice(size),)
    steps, whole = program(*filled)
    return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[cut]), steps), whole
