"""What a graph stands on: a mechanism and what else its factors read, both made from θ."""

from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fgmbs.algebra.slopes import slopes_of
from fgmbs.inputs import AbstractInput
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.unknowns import Free, Place

Model: TypeAlias = tuple[AbstractMechanism, dict[str, PyTree]]
"""A mechanism, and by name what else the factors read."""


def of_mechanism(place: Place) -> bool:
    """Whether a number of θ is one of the mechanism; else it is of what is shared."""
    return place.path[0].idx == 0


def has_mechanism(free: Free) -> bool:
    """Whether θ has numbers of the mechanism, with which the constraints may move."""
    return any(map(of_mechanism, free.places))


def rebuilt(free: Free, model: Model, theta: Float[Array, " p"]) -> Model:
    """The model of θ."""
    mechanism, shared = free.put(model, theta)
    shared = {name: part.evaluated() if isinstance(part, AbstractInput) else part for name, part in shared.items()}
    return (mechanism.evaluated() if has_mechanism(free) else mechanism), shared


def margins(free: Free, mechanism: AbstractMechanism, theta: Float[Array, " p"]) -> Float[Array, " k"]:
    """What θ leaves of `free.limited`, above the least of each."""
    found = rebuilt(free, (mechanism, {}), theta)[0].margins()
    return jnp.stack([found[name] for name in free.limited]) - free.least


def mechanism_slopes(free: Free, mechanism: AbstractMechanism, theta: Float[Array, " p"]) -> AbstractMechanism | None:
    """∂mechanism/∂θ, see `fgmbs.algebra.slopes`; None where θ has nothing of the mechanism."""
    if not has_mechanism(free):
        return None
    return slopes_of(lambda theta: rebuilt(free, (mechanism, {}), theta)[0], theta)
