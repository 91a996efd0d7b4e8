"""What a dataset gives back, and what is added to one: its mechanism, how bodies are drawn, sensitivity."""

from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from fgmbs.dynamics.sensitivity import growth_of_changes
from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.io.planar.load import of_yaml, parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.mechanisms.planar.visuals import Visual, visuals
from fgmbs.mechanisms.tree.robot import Robot
from fgmbs.results.contents import attributes
from fgmbs.results.motion import AbstractMotion
from fgmbs.results.robots import robot_of

if TYPE_CHECKING:
    import xarray as xr

_LONG = 20_000
"""Steps up to which the growth of small changes is followed without being asked for."""


def with_sensitivity(dataset: "xr.Dataset", simulation: AbstractMotion) -> "xr.Dataset":
    """The dataset of a simulation with `sensitivity`, how small changes of its start grow; as it is where that is a
    batch, was not found as a whole, or is long."""
    t, q, dq = simulation.t, simulation.q, simulation.dq
    if t.ndim != 1 or t.shape[0] > _LONG or not np.isfinite(q).all():
        return dataset
    try:
        growth = growth_of_changes(simulation.mechanism, t, q, dq)
    except AssemblyError:  # it cannot be assembled as drawn, only from where this motion started
        return dataset
    about = attributes("how much a small displacement of the start has grown, coordinates by their sizes", "1")
    return dataset.assign(sensitivity=("step", growth, about))


def visuals_of(dataset: "xr.Dataset") -> dict[str, Visual]:
    """How bodies are drawn with the parameters of a dataset, by name, of those of which a mechanism file says it."""
    if "mechanism" not in dataset.attrs:
        return {}
    values = dataset["parameters"]
    return visuals(
        of_yaml(dataset.attrs["mechanism"]),
        dict(zip(values.parameter.values.tolist(), values.values.tolist(), strict=True)),
    )


def mechanism_of(dataset: "xr.Dataset") -> PlanarMechanism | Robot:
    """The mechanism of a dataset without batch dimensions, with the parameters it was simulated with.

    Raises:
        ArgumentError: It was none that a file describes.
    """
    values = dataset["parameters"]
    if "robot" in dataset.attrs:
        return robot_of(dataset.attrs["robot"], values.values)
    if "mechanism" not in dataset.attrs:
        name = dataset.attrs["name"]
        raise ArgumentError(f"dataset: expected a mechanism that a file describes; found {name}, which none does")
    mechanism = PlanarMechanism.from_description(parse_mechanism(dataset.attrs["mechanism"], source="results"))
    pairs = zip(values.parameter.values, values.values, strict=True)
    # Not by with_parameters, which refuses what an estimate may have ended with.
    found = {str(name): jnp.asarray(float(value)) for name, value in pairs}
    return PlanarMechanism(mechanism.structure, {**mechanism.parameters, **found})
