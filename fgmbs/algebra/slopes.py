"""How the numbers of a tree follow a vector that they are made of: derivatives of those that do, and of no others."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float, PyTree


def slopes_of(function: Callable[[Array], PyTree], x: Float[Array, " p"]) -> PyTree:
    """∂function/∂x: of every leaf an axis of p behind its own; None of a leaf that has no derivative.

    That is one that is no array of floats, or to which nothing leads from x. What is made of such leaves alone is then
    not differentiated either, as it would be of derivatives that happen to be zero: most of a mechanism, as a rule.
    """
    numbers = lambda x: eqx.filter(function(x), eqx.is_inexact_array)
    followed = _followed(numbers, x)
    return jax.jacfwd(lambda x: eqx.filter(numbers(x), followed))(x)


def changed(tree: PyTree, slopes: PyTree, change: Float[Array, " p"]) -> PyTree:
    """The tree at a change of x, to first order."""
    move = lambda slope, leaf: leaf if slope is None else leaf + slope @ change
    return jax.tree.map(move, slopes, tree, is_leaf=lambda slope: slope is None)


def _followed(function: Callable[[Array], PyTree], x: Array) -> PyTree:
    """Whether a derivative of x reaches each leaf of function(x), found without calculating anything."""
    found = []

    @jax.custom_jvp
    def seen(leaves):
        return leaves

    @partial(seen.defjvp, symbolic_zeros=True)
    def _(primals, tangents):
        found.extend(not isinstance(tangent, SymbolicZero) for tangent in tangents[0])
        return primals[0], [jnp.zeros_like(leaf) for leaf in primals[0]]

    def looked(x):
        leaves, structure = jax.tree.flatten(function(x))
        found.append(structure)
        return seen(leaves)

    jax.eval_shape(lambda x: jax.jvp(looked, (x,), (x,)), x)
    structure, *reached = found
    # Where no derivative reaches any of them JAX does not ask.
    return structure.unflatten(reached or [False] * structure.num_leaves)
