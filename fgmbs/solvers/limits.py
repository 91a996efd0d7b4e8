"""How far θ may go: its bounds, and what it must leave."""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.factors.base import value_and_jacobian
from fgmbs.linear import Margins
from fgmbs.unknowns import Free

_CORRECTIONS = 6
"""Newton steps that bring θ back to where its margins are not negative …"""
_SLACK = 1e-12
"""… to this part of what they are differences of."""


@runtime_checkable
class Limited(Protocol):
    """What has unknown numbers θ that may not go anywhere."""

    @property
    def free(self) -> Free:
        """θ."""
        ...

    def margins(self, theta: Float[Array, " p"]) -> Float[Array, " k"]:
        """Asked for if there are `free.limited`: what θ leaves of these, which must not be negative."""
        ...


def bounds_of(
    graph: Limited, theta: Float[Array, " p"]
) -> tuple[Float[Array, " p"], Float[Array, " p"], Margins | None] | None:
    """How far θ may go down and up, and the linearization of what it must leave; None without bounds."""
    if not graph.free.bounded and not graph.free.limited:
        return None
    margins = None
    if graph.free.limited:
        margins = Margins(*value_and_jacobian(graph.margins, theta))
    return jnp.minimum(graph.free.lower - theta, 0.0), jnp.maximum(graph.free.upper - theta, 0.0), margins


def possible(graph: Limited, theta: Float[Array, " p"]) -> Float[Array, " p"]:
    """θ within its bounds, moved as little as needed, relative to its size, for its margins not to be negative; NaN
    where that fails: the trial will be rejected."""
    free = graph.free
    scale = jnp.where(free.logs, 1.0, jnp.abs(theta))

    def corrected(k, at):
        theta, _ = at
        values, slopes = value_and_jacobian(graph.margins, theta)
        fine = jnp.all(values >= -_SLACK * (jnp.abs(slopes) @ scale))
        # What is on a bound stays there, unless nothing else helps.
        stays = ((theta <= free.lower) | (theta >= free.upper)) & (k < _CORRECTIONS // 2)
        moves = jnp.where(stays, 0.0, scale)
        short = values < 0
        # The least change of θ/scale that mends the margins that are short, linearized.
        rows = jnp.where(short[:, None], slopes * moves, 0.0)
        moved = theta - moves * (jnp.linalg.pinv(rows) @ jnp.where(short, values, 0.0))
        return jnp.where(k < _CORRECTIONS, jnp.clip(moved, free.lower, free.upper), theta), fine

    # After the last one there is a look at what it has reached, by the same part of the program.
    at = jnp.clip(theta, free.lower, free.upper), jnp.asarray(False)
    theta, fine = jax.lax.fori_loop(0, _CORRECTIONS + 1, corrected, at)
    return jnp.where(fine, theta, jnp.nan)
