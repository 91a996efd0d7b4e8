"""Coordinates by name: what the public calls accept."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fgmbs.arguments import finite_number, nearest, of_type
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.base import AbstractKinematics

Numbers: TypeAlias = Array | np.ndarray | Sequence[float | int]
"""A vector as users write it."""


def coordinate_index(mechanism: AbstractKinematics, name: str, argument: str) -> int:
    """Index in q of the coordinate with this name.

    Raises:
        ArgumentError: There is none; the names nearest to it are offered.
    """
    return _index(name, mechanism.coordinate_names, "coordinate", argument)


def velocity_index(mechanism: AbstractKinematics, name: str, argument: str) -> int:
    """Index in dq of the velocity with this name; forces and accelerations go by the same names.

    Raises:
        ArgumentError: There is none; the names nearest to it are offered.
    """
    return _index(name, mechanism.velocity_names, _kind(mechanism), argument)


def given_arrays(
    mechanism: AbstractKinematics, given: Mapping[str, float] | None, argument: str, *, velocities: bool = False
) -> tuple[Bool[Array, " names"], Float[Array, " names"]]:
    """(mask, values) of coordinates, or of velocities, given by name.

    Raises:
        ArgumentError: No mapping, an unknown name or a value that is not a finite number.
    """
    of_type("mechanism", mechanism, AbstractKinematics, "a mechanism, as fgmbs.load makes one of a file")
    of_type(argument, {} if given is None else given, Mapping, "numbers by name, as in {'x': 1.0}")
    names = mechanism.velocity_names if velocities else mechanism.coordinate_names
    kind = _kind(mechanism) if velocities else "coordinate"
    mask, values = np.zeros(len(names), bool), np.zeros(len(names))
    for name, value in (given or {}).items():
        i = _index(name, names, kind, argument)
        mask[i], values[i] = True, finite_number(value, f"{argument}[{name!r}]")
    return jnp.asarray(mask), jnp.asarray(values, mechanism.reference.dtype)


def _kind(mechanism: AbstractKinematics) -> str:
    """What velocities are called by: the coordinates, where they have their names."""
    return "coordinate" if mechanism.velocity_names == mechanism.coordinate_names else "velocity"


def _index(name: str, names: tuple[str, ...], kind: str, argument: str) -> int:
    if name in names:
        return names.index(name)
    plural = "velocities" if kind == "velocity" else "coordinates"
    raise ArgumentError(f"{argument}: there is no {kind} {name!r}{nearest(name, names, plural)}")


def finite_vector(mechanism: AbstractKinematics, value: Numbers, names: tuple[str, ...], argument: str) -> Array:
    """`value` as an array with one finite number for each name.

    Raises:
        ArgumentError: Another shape, or entries that are not finite, which are named.
    """
    expected = f"{argument}: expected {len(names)} numbers, one for each of {', '.join(names)}"
    try:
        vector = np.asarray(value, float)
    except (TypeError, ValueError):
        raise ArgumentError(f"{expected}; found {value!r}") from None
    if vector.shape != (len(names),):
        raise ArgumentError(f"{expected}; found an array of shape {vector.shape}")
    if not np.all(np.isfinite(vector)):
        bad = [f"{name} = {x}" for name, x in zip(names, vector, strict=True) if not np.isfinite(x)]
        raise ArgumentError(f"{argument}: expected finite numbers; found {', '.join(bad)}")
    return jnp.asarray(vector, mechanism.reference.dtype)


def listed(words: Iterable[str], conjunction: str = "and") -> str:
    """'a', 'b' and 'c'."""
    quoted = [repr(word) for word in words]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {conjunction} {quoted[-1]}"
