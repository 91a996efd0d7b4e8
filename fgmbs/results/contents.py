"""What datasets of all results have in common: units, statuses, versions, the drawing of a planar mechanism."""

import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from fgmbs.errors import Status
from fgmbs.io.load import to_yaml
from fgmbs.io.schema import CoordinateActuatorDescription, MotionDescription, PointsActuatorDescription
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.planar import PlanarMechanism

STATUSES = (
    *("running", "converged", "stalled", "iteration_limit", "non_finite", "not_assembled"),
    *("not_driven", "out_of_reach"),
)
"""Meaning of the numbers in `status` and `step_status`."""

FLAGS = {"flag_values": np.arange(len(STATUSES)), "flag_meanings": " ".join(STATUSES)}
FORCES = {"m": "N", "rad": "N m", "SI": "SI"}
"""Unit of the force on a coordinate, by unit of that."""


class Contents(NamedTuple):
    """What a dataset is made of: (dimensions, values, attributes) by name."""

    variables: dict[str, Any]
    coordinates: dict[str, Any]
    attrs: dict[str, Any]


def attributes(long_name: str, units: str) -> dict[str, str]:
    return {"long_name": long_name, "units": units}


def all_of(units: list[str], rate: str = "") -> str:
    """The different ones of some units, each per second or per second squared with rate "/s" or "/s²"."""
    return ", ".join(f"{unit}{rate}" for unit in dict.fromkeys(units))


def coordinate_units(mechanism: AbstractMechanism) -> list[str]:
    """Unit of each coordinate: angles come last; those of a mechanism of the user's own are not told."""
    if not isinstance(mechanism, PlanarMechanism):
        return ["SI"] * mechanism.n
    angles = len(mechanism.description.relative_coordinates)
    return ["m"] * (mechanism.n - angles) + ["rad"] * angles


def force_unit(mechanism: AbstractMechanism, on: str) -> str:
    """Unit of a force on an actuator or coordinate."""
    actuators = mechanism.actuator_names
    if on in mechanism.coordinate_names and on not in actuators:
        return FORCES[coordinate_units(mechanism)[mechanism.coordinate_names.index(on)]]
    if not isinstance(mechanism, PlanarMechanism):
        return "SI"
    actuator = mechanism.description.actuators[actuators.index(on)]
    if isinstance(actuator, CoordinateActuatorDescription):
        return FORCES[coordinate_units(mechanism)[mechanism.coordinate_names.index(actuator.coordinate)]]
    return "N" if isinstance(actuator, PointsActuatorDescription) else "N m"


def codes(status: Status) -> np.ndarray:
    """Places in `STATUSES`."""
    each = [np.asarray(status == getattr(Status, name)) for name in STATUSES]
    return np.asarray(np.argmax(np.stack(each), axis=0))


def worst_text(status: Status) -> str:
    """How the worst member ended, in words."""
    name = STATUSES[int(np.max(codes(status)))]
    text = Status[getattr(Status, name)].removeprefix(f"{name}: ")
    return name if text == name else f"{name}: {text}"


def versions() -> dict[str, str]:
    found = {"fgmbs": version("fgmbs"), "jax": jax.__version__, "python": platform.python_version()}
    return {f"{name}_version": number for name, number in found.items()}


def planar(mechanism: PlanarMechanism, q: jax.Array, step: tuple[str, ...]) -> Contents:
    """Parameters, points and bodies of a planar mechanism."""
    description = mechanism.description
    parameters = list(mechanism.parameters)
    values = np.stack([np.asarray(mechanism.parameters[name]) for name in parameters], axis=-1)
    bodies = dict(zip(mechanism.body_names, mechanism.body_points, strict=True))
    return Contents(
        {
            "parameters": ((*step[:-1], "parameter"), values, attributes("parameters of the mechanism", "SI")),
            "position": (
                (*step, "point", "axis"),
                _positions(mechanism, q),
                attributes("positions of the points", "m"),
            ),
        },
        {
            "parameter": parameters,
            "point": list(mechanism.point_names),
            "fixed": ("point", np.isin(np.arange(len(mechanism.point_names)), mechanism.fixed_points)),
            "axis": ["x", "y"],
        },
        {
            "mechanism": to_yaml(description),
            "name": description.name or "mechanism",
            "bodies": json.dumps(bodies),
            "driven": int(any(isinstance(c, MotionDescription) for c in description.constraints)),
        },
    )


def _positions(mechanism: PlanarMechanism, q: jax.Array) -> np.ndarray:
    """Positions of all points at every step of every member [m]."""
    function: Callable = lambda mechanism, q: jax.vmap(mechanism.point_positions)(q)  # noqa: E731
    for _ in range(q.ndim - 2):
        function = eqx.filter_vmap(function)
    return np.asarray(eqx.filter_jit(function)(mechanism, q))
