"""What is left of a pytree without its arrays."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import PyTree


class Structure(NamedTuple):
    """A pytree without its arrays; compares by value."""

    tree: Any
    others: tuple[Any, ...]
    """Its leaves that are no arrays, and None for each array."""

    def filled(self, arrays: list[Any]) -> PyTree:
        """The pytree with these arrays."""
        rest = iter(arrays)
        return jax.tree.unflatten(self.tree, [next(rest) if leaf is None else leaf for leaf in self.others])


class Blank:
    """Stands where an array was."""


def split(tree: PyTree) -> tuple[list[Any], Structure]:
    """(arrays of a pytree, or what stands in their places; what is left of it)."""
    leaves, structure = jax.tree.flatten(tree)
    numbers = [eqx.is_array(leaf) or isinstance(leaf, Blank) for leaf in leaves]
    arrays = [leaf for leaf, number in zip(leaves, numbers, strict=True) if number]
    return arrays, Structure(
        structure, tuple(None if number else leaf for leaf, number in zip(leaves, numbers, strict=True))
    )


@jax.tree_util.register_pytree_node_class
class Returned:
    """What a function returned, as a pytree of nothing but its arrays."""

    def __init__(self, arrays: list[Any], structure: Structure):
        self.arrays, self.structure = arrays, structure

    @classmethod
    def of(cls, tree: PyTree) -> "Returned":
        return cls(*split(tree))

    def tree_flatten(self):
        return self.arrays, self.structure

    @classmethod
    def tree_unflatten(cls, structure, arrays):
        return cls(list(arrays), structure)

    @property
    def tree(self) -> PyTree:
        return self.structure.filled(self.arrays)
