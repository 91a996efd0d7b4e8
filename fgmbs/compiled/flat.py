"""A pytree as one array of its numbers, and what is left of it."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.compiled.tracing import is_traced


class Pattern(NamedTuple):
    """Everything in a pytree but the numbers of its arrays; compares by value."""

    tree: Any
    leaves: tuple[Any, ...]
    """Shape and type of what is a number, the rest itself."""

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(math.prod(kept[0]) for kept in self.leaves if isinstance(kept, tuple))


def pattern_of(tree: Any) -> Pattern:
    """What is left of a pytree without its numbers."""
    leaves, structure = jax.tree.flatten(tree)
    return Pattern(
        structure, tuple((np.shape(leaf), jnp.result_type(leaf)) if _is_number(leaf) else leaf for leaf in leaves)
    )


def flat(tree: Any) -> Float[Array | np.ndarray, " numbers"]:
    """All numbers of a pytree."""
    numbers = [leaf for leaf in jax.tree.leaves(tree) if _is_number(leaf)]
    if not is_traced(numbers):  # where NumPy compiles nothing
        return np.concatenate([np.ravel(np.asarray(leaf)).astype(float) for leaf in numbers])
    return jax.lax.concatenate([_row(jnp.asarray(leaf)) for leaf in numbers], 0)


def unflat(pattern: Pattern, numbers: Float[Array | np.ndarray, " numbers"]) -> Any:
    """The pytree with these numbers."""
    shapes = [kept[0] for kept in pattern.leaves if isinstance(kept, tuple)]
    sizes = [math.prod(shape) for shape in shapes]
    if isinstance(numbers, np.ndarray):
        parts = iter(np.split(numbers, np.cumsum(sizes)[:-1]))
    else:
        parts = iter(jax.lax.split(numbers, sizes))
    leaves = []
    for kept in pattern.leaves:
        if isinstance(kept, tuple):
            shape, dtype = kept
            kept = next(parts).reshape(shape)
            kept = kept if kept.dtype == dtype else kept.astype(dtype)
        leaves.append(kept)
    return jax.tree.unflatten(pattern.tree, leaves)


class Flat(eqx.Module):
    """A pytree as one array: between compiled functions every array costs its time."""

    numbers: Float[Array | np.ndarray, " numbers"]
    pattern: Pattern = eqx.field(static=True)

    @classmethod
    def of(cls, *tree: Any) -> "Flat":
        """That of several trees."""
        return cls(flat(tree), pattern_of(tree))

    @property
    def tree(self) -> Any:
        """The trees again."""
        return unflat(self.pattern, self.numbers)


def _row(leaf: Array) -> Float[Array, " size"]:
    """Its numbers; the functions of jax.numpy take several times as long to trace."""
    return jax.lax.convert_element_type(jax.lax.reshape(leaf, (leaf.size,)), float)


def _is_number(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | float)
