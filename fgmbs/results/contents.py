"""What datasets of all results have in common: names and units, statuses, versions, the mechanism."""

import json
import platform
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fgmbs.compiled.buckets import by_step
from fgmbs.compiled.program import program
from fgmbs.io.texts import texts_of
from fgmbs.kinematics.base import prepared
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.results.robots import quaternions
from fgmbs.status import Status

STATUSES = (
    *("running", "converged", "stalled", "iteration_limit", "non_finite", "not_assembled"),
    *("not_driven", "out_of_reach", "contradictory"),
)
"""Meaning of the numbers in `status` and `step_status`."""

FLAGS = {"flag_values": np.arange(len(STATUSES)), "flag_meanings": " ".join(STATUSES)}
_FORCES = {"m/s": "N", "rad/s": "N m"}
"""Unit of the force along a velocity, by unit of that."""


class Contents(NamedTuple):
    """What a dataset is made of: (dimensions, values, attributes) by name."""

    variables: dict[str, Any]
    coordinates: dict[str, Any]
    attrs: dict[str, Any]


def together(*parts: Contents) -> Contents:
    """All of some parts; the last one has the word where several have the same name."""
    return Contents(*({name: told for part in parts for name, told in part[k].items()} for k in range(3)))


def steps_of(t: jax.Array) -> tuple[str, ...]:
    """Dimensions of what has a row for every step: `member`, `member_1`, … for the axes of a batch, then `step`."""
    return (*("member" + f"_{i}" * (i > 0) for i in range(t.ndim - 1)), "step")


def attributes(long_name: str, units: str) -> dict[str, str]:
    return {"long_name": long_name, "units": units}


def all_of(units: Sequence[str]) -> str:
    """The different ones of some units."""
    return ", ".join(dict.fromkeys(units))


def per_second(unit: str) -> str:
    """Unit of an acceleration, by that of the velocity."""
    return unit.replace("/s", "/s²")


def force_units(mechanism: AbstractMechanism) -> list[str]:
    """Unit of the force along each velocity."""
    return [_FORCES.get(unit, "SI") for unit in mechanism.velocity_units]


def force_unit(mechanism: AbstractMechanism, on: str) -> str:
    """Unit of a force on an actuator or along a velocity."""
    if on in mechanism.actuator_names:
        return mechanism.actuator_units[mechanism.actuator_names.index(on)]
    return force_units(mechanism)[mechanism.velocity_names.index(on)]


def names_of_q_and_dq(mechanism: AbstractMechanism) -> dict[str, Any]:
    """Coordinates of a dataset: what q, and what dq and all that goes with it are of, with their units."""
    return {
        "coordinate": list(mechanism.coordinate_names),
        "unit": ("coordinate", list(mechanism.coordinate_units)),
        "velocity": list(mechanism.velocity_names),
        "velocity_unit": ("velocity", list(mechanism.velocity_units)),
    }


def codes(status: Status) -> np.ndarray:
    """Places in `STATUSES`."""
    (numbers,) = jax.tree.leaves(status)
    return np.asarray(numbers)


def worst_text(status: Status) -> str:
    """How the worst member ended, in words."""
    name = STATUSES[int(np.max(codes(status)))]
    text = Status[getattr(Status, name)].removeprefix(f"{name}: ")
    return name if text == name else f"{name}: {text}"


def versions() -> dict[str, str]:
    found = {"fgmbs": version("fgmbs"), "jax": jax.__version__, "python": platform.python_version()}
    return {f"{name}_version": number for name, number in found.items()}


def of_mechanism(mechanism: AbstractMechanism, q: jax.Array, t: jax.Array, step: tuple[str, ...]) -> Contents:
    """Parameters, points and bodies of a mechanism, as far as its family tells."""
    batch = t.shape[:-1]
    names, columns = [], [np.zeros((*batch, 0))]
    for name, value in mechanism.physical_parameters().items():
        value = np.asarray(value)
        names += [name + "".join(f"[{i}]" for i in place) for place in np.ndindex(value.shape[len(batch) :])]
        columns.append(value.reshape(*batch, -1))
    variables: dict[str, Any] = {
        "parameters": (
            (*step[:-1], "parameter"),
            np.concatenate(columns, axis=-1),
            attributes("parameters of the mechanism", "SI"),
        )
    }
    coordinates: dict[str, Any] = {"parameter": names}
    if mechanism.point_names:
        position, axes = _along(_places, mechanism, q, t)
        if axes is not None and axes.shape[-1] == 3:
            told = attributes("orientations of links and frames, as unit quaternions", "1")
            variables["orientation"] = ((*step, "point", "part"), quaternions(axes), told)
            coordinates["part"] = list("wxyz")
        variables["position"] = ((*step, "point", "axis"), position, attributes("positions of the points", "m"))
        coordinates |= {
            "point": list(mechanism.point_names),
            "fixed": ("point", np.isin(np.arange(len(mechanism.point_names)), mechanism.fixed_points)),
            "axis": list("xyz"[: position.shape[-1]]),
        }
    bodies = json.dumps(mechanism.drawn_bodies)
    attrs = {"name": mechanism.title, "driven": int(_driven(mechanism, q, t)), "bodies": bodies}
    return Contents(variables, coordinates, attrs | texts_of(mechanism))


def _driven(mechanism: AbstractMechanism, q: jax.Array, t: jax.Array) -> bool:
    """Whether constraints prescribe a motion: Φ_t is not 0 everywhere."""
    return bool(np.any(np.abs(_along(_prescribed_rates, mechanism, q, t)) > 0))


def _places(mechanism: AbstractMechanism, q: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    return mechanism.point_positions(q), mechanism.point_axes(q, t)


def _prescribed_rates(mechanism: AbstractMechanism, q: jax.Array, t: jax.Array) -> jax.Array:
    return mechanism.constraint_rate(q, jnp.zeros(mechanism.nv, q.dtype), t)


def _along(function: Callable, mechanism: AbstractMechanism, q: jax.Array, t: jax.Array) -> Any:
    """function(mechanism, q, t) at every step of every member."""
    batch = t.ndim - 1
    return jax.tree.map(np.asarray, by_step(partial(_every, function, batch, mechanism), q, t, axis=batch)[0])


@program
def _every(function: Callable, batch: int, mechanism: AbstractMechanism, q: jax.Array, t: jax.Array):
    every: Callable = lambda mechanism, q, t: jax.vmap(partial(function, prepared(mechanism)))(q, t)
    for _ in range(batch):
        every = eqx.filter_vmap(every)
    return every(mechanism, q, t), None
