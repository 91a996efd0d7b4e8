"""What is asked of numbers that may be traced: whether an error can be raised, and whether a program can be spared."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool

State = TypeVar("State")
_ENDLESS = 2**31 - 1


def is_traced(*trees: Any) -> bool:
    """Whether any number in these is traced, so that nothing that depends on it can be raised now.

    It never decides how a number is calculated: the same call gives the same answer under `jax.vmap` and without.
    """
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


@contextmanager
def computed_now() -> Iterator[None]:
    """What is computed within is a number, also while a function is traced.

    Otherwise nothing changes: in `jax.ensure_compile_time_eval` compiled functions are traced operation by operation,
    and compiled again.
    """
    with jax.ensure_compile_time_eval() if is_traced(jnp.zeros(())) else nullcontext():
        yield


def repeat(more: Callable[[State], Bool[Array, ""]], step: Callable[[State], State], state: State) -> State:
    """`jax.lax.while_loop`, except that nothing is compiled for steps that are known not to be taken.

    In a batch it takes as many steps as one member needs; `jax.lax.cond` would take all of them. Without derivatives.
    """
    while not is_traced(again := more(state)):
        if not again:
            return state
        state = step(state)
    return while_loop(more, step, state)


def while_loop(more: Callable[[State], Bool[Array, ""]], step: Callable[[State], State], state: State) -> State:
    """`jax.lax.while_loop`, for long steps; its condition also reads a counter.

    Where a condition reads a single part of the state, XLA finds out whether that counts the iterations, and clones
    the whole loop for it, many times over: up to a twentieth of the time in which such programs are compiled.
    """

    def goes_on(at):
        return more(at[1]) & (at[0] < _ENDLESS)

    return jax.lax.while_loop(goes_on, lambda at: (at[0] + 1, step(at[1])), (jnp.zeros((), jnp.int32), state))[1]


def where_needed(needed: Bool[Array, ""], function: Callable[[], State], otherwise: State) -> State:
    """What the function returns where it is needed, else what is there already; see `repeat`."""

    def step(_):
        return np.asarray(False), function()

    return repeat(lambda state: state[0], step, (jnp.asarray(needed), otherwise))[1]
