"""Motors: which forces may be found or given, by name."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from fgmbs.errors import ArgumentError
from fgmbs.inputs import check_target
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism


class Motor(NamedTuple):
    """A column of generalized forces per unit of command."""

    name: str
    actuator: int | None
    """Index among the actuators of the mechanism; None for a plain force along a velocity …"""
    velocity: int | None
    """… and which one that is."""


def chosen_motors(mechanism: AbstractMechanism, names: Sequence[str] | None) -> tuple[Motor, ...]:
    """Motors by name.

    Raises:
        ArgumentError: None at all, an unknown name, or one twice.
    """
    checked_mechanism(mechanism)
    own = mechanism.actuator_names
    if names is None:
        if not own:
            raise ArgumentError(
                "actuators: the mechanism has none; name them, or coordinates that a force acts on: "
                f"{listed(mechanism.velocity_names, 'or')}"
            )
        names = own
    if isinstance(names, str) or not names:
        raise ArgumentError(f"actuators: expected a list of names; found {names!r}")
    if len(set(names)) < len(names):
        raise ArgumentError(f"actuators: expected different names; found {listed(names)}")
    for name in names:
        check_target(mechanism, name, "actuators")
    return tuple(
        Motor(name, own.index(name), None) if name in own else Motor(name, None, mechanism.velocity_names.index(name))
        for name in names
    )


def scales(motors: tuple[Motor, ...], given: Mapping[str, float] | None, argument: str) -> Float[Array, " nu"]:
    """One number for each motor, 1 where none is given.

    Raises:
        ArgumentError: An unknown name, or a number that is not positive.
    """
    names = [motor.name for motor in motors]
    for name, value in (given or {}).items():
        if name not in names:
            raise ArgumentError(f"{argument}: expected names of the actuators, {listed(names)}; found {name!r}")
        if not isinstance(value, Tracer) and not (np.isfinite(value) and value > 0):
            raise ArgumentError(f"{argument}[{name!r}]: expected a positive number; found {value!r}")
    numbers = [jnp.asarray((given or {}).get(name, 1.0), dtype=float) for name in names]
    return jnp.stack(numbers) if numbers else jnp.zeros(0)
