"""What all forces have that a mechanism's description does not tell, and the checks of their numbers."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, finite, nearest, of_type, refuse
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.unknowns import Unknown, is_unknown


class AbstractInput(eqx.Module):
    """A force on a mechanism."""

    name: eqx.AbstractVar[str]

    @property
    def size(self) -> Float[Array, ""] | Unknown:
        """The number that tells how large an unknown force is: power, density, rate or sigma.

        Raises:
            ArgumentError: It has none, because the force is known.
        """
        if self.size_key is None:
            raise ArgumentError(f"input {self.name!r}: expected an unknown force; found one that is known")
        return getattr(self, self.size_key)

    @property
    def size_key(self) -> str | None:
        """Which attribute is its size; None for a known force."""
        return None

    @property
    def sizes(self) -> dict[str, Float[Array, ""] | Unknown]:
        """The numbers that tell of an unknown force how large it is, and for how long, by the names of attributes."""
        return {} if self.size_key is None else {self.size_key: self.size}

    def with_size(self, size: "Numbers | Unknown", key: str | None = None) -> "AbstractInput":
        """The same force with another size, or another of its `sizes`."""
        key = self.size_key if key is None else key
        assert key is not None
        where = lambda force: getattr(force, key)
        new = size if is_unknown(size) else jnp.asarray(size, dtype=float)
        return eqx.tree_at(where, self, new, is_leaf=is_unknown)

    def evaluated(self) -> "AbstractInput":
        """The same with what follows from its numbers, computed once for all steps."""
        return self

    @abc.abstractmethod
    def check(self, mechanism: AbstractMechanism) -> None:
        """Refuses a mechanism on which it cannot act.

        Raises:
            ArgumentError: Names the input and offers the nearest names.
        """


def check_target(mechanism: AbstractMechanism, name: str, argument: str) -> None:
    """Refuses what is neither an actuator nor a velocity that a force acts along.

    Raises:
        ArgumentError: The names nearest to it are offered.
    """
    known = (*mechanism.actuator_names, *mechanism.velocity_names)
    if name not in known:
        same = mechanism.velocity_names == mechanism.coordinate_names
        kinds = ("coordinate", "coordinates") if same else ("velocity", "velocities")
        advice = nearest(name, known, f"actuators and {kinds[1]}")
        raise ArgumentError(f"{argument}: there is no actuator or {kinds[0]} {name!r}{advice}")


def named(on: str, name: str | None) -> tuple[str, str]:
    """(what a force acts on, what it is called)."""
    of_type("on", on, str, "the name of an actuator or a velocity")
    if name is not None:
        of_type("name", name, str, "a text")
    return on, name or on


def given_size(name: str, argument: str, value: Numbers | Unknown | None) -> Array | Unknown:
    """The size of an unknown force; `Unknown` where none is given.

    Raises:
        ArgumentError: It is no positive number.
    """
    if value is None:
        return Unknown()
    return single(name, argument, value) if isinstance(value, Unknown) else positive(name, argument, value)


def perhaps(name: str, argument: str, value: Numbers | None) -> Array | None:
    """A number that may be missing; see `number`."""
    return None if value is None else number(name, argument, value)


def single(name: str, argument: str, value: Unknown) -> Unknown:
    """An unknown that is one number.

    Raises:
        ArgumentError: It is several.
    """
    if value.value.shape:
        raise ArgumentError(f"input {name!r}: {argument}: expected one number; found shape {value.value.shape}")
    return value


def positive(name: str, argument: str, value: Numbers) -> Array:
    """A number above 0; see `number`."""
    return number(name, argument, value, positive=True)


def number(name: str, argument: str, value: Any, *, positive: bool = False) -> Array:
    """A number of an input.

    Raises:
        ArgumentError: It is none, is not finite, or not positive where it has to be; names the input.
    """
    try:
        if is_unknown(value):
            raise ArgumentError(
                f"{argument}: expected a number; found Unknown, which power, density, rate, sigma, gain, delay, lag "
                "and limit may be"
            )
        array = finite(argument, value)
        if array.ndim:
            raise ArgumentError(f"{argument}: expected one number; found shape {array.shape}")
        if positive and isinstance(array, np.ndarray):
            refuse(argument, array, array <= 0, "a positive number")
    except ArgumentError as error:
        raise ArgumentError(f"input {name!r}: {error}") from None
    return jnp.asarray(array, dtype=float)
