"""Programs that are compiled beside each other."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

_COMPILERS = 2
"""Programs that are compiled at once."""
_SEEN: set[int] = set()
"""Structures and shapes of arguments for which it was done."""


def like(function: Callable[..., PyTree], *args: PyTree) -> PyTree:
    """Zeros in the shape of function(*args), which is traced, not computed."""
    shapes = eqx.filter_eval_shape(function, *args)
    return jax.tree.map(
        lambda leaf: jax.device_put(np.zeros(leaf.shape, leaf.dtype)) if hasattr(leaf, "dtype") else leaf, shapes
    )


@contextmanager
def compiled_ahead(programs: Callable[[], Iterable[Callable[[], Any]]], *args: PyTree) -> Iterator[None]:
    """Compiles in other threads what will be needed later, while what stands within compiles and computes.

    What fails there is left to the call that needs it. Ends when all is done, or at once if what stands within is
    interrupted: then nothing new is begun, and what is being compiled ends by itself.

    Args:
        programs: Lowers programs (`ahead(…)`), in the order in which they are needed; later calls find them.
        args: What it compiles for: once for every structure and shape. What is no array in them can be hashed.
    """
    leaves, structure = jax.tree.flatten(args)
    key = hash((structure, *((leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else leaf for leaf in leaves)))
    if key in _SEEN:
        yield
        return
    _SEEN.add(key)
    compilers, tracer = ThreadPoolExecutor(_COMPILERS), ThreadPoolExecutor(1)
    try:
        tracer.submit(lambda: [compilers.submit(finish) for finish in programs()])
        yield
        tracer.shutdown()  # the first to end: it hands its programs to the others
        compilers.shutdown()
    except BaseException:
        _SEEN.discard(key)
        for pool in (tracer, compilers):
            pool.shutdown(wait=False, cancel_futures=True)
        raise
