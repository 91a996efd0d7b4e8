"""Datasets of results: names, units, settings, versions and the mechanism."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from fgmbs.dynamics.singular import rank_margins
from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.io.planar.load import of_yaml, parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.mechanisms.planar.visuals import Visual, visuals
from fgmbs.mechanisms.tree.robot import Robot
from fgmbs.problems.driven.driven_motion import DrivenMotion
from fgmbs.problems.simulation.result import Simulation
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion
from fgmbs.results.contents import (
    FLAGS,
    Contents,
    all_of,
    attributes,
    codes,
    force_unit,
    force_units,
    names_of_q_and_dq,
    of_mechanism,
    per_second,
    versions,
    worst_text,
)
from fgmbs.results.estimate_contents import estimate
from fgmbs.results.robots import robot_of

if TYPE_CHECKING:
    import xarray as xr

_LONG = 20_000
"""Steps up to which the growth of small changes is followed without being asked for."""


def to_dataset(
    result: Simulation | DrivenMotion | SmoothedMotion, config: Mapping[str, Any] | None = None
) -> "xr.Dataset":
    """A result as a dataset; batch axes become the dimensions `member`, `member_1`, …

    Args:
        config: Settings of the run, kept as JSON in the attribute `config`.
    """
    import xarray as xr

    step = (*("member" + f"_{i}" * (i > 0) for i in range(result.t.ndim - 1)), "step")
    if isinstance(result, SmoothedMotion):
        parts = [estimate(result)]
    else:
        parts = [_motion(result, step)]
        parts.append(_simulation(result, step) if isinstance(result, Simulation) else _driven_motion(result, step))
    parts.append(_of_mechanism(result, step))
    variables, coordinates, attrs = ({k: v for part in parts for k, v in part[i].items()} for i in range(3))
    attrs = {"config": json.dumps(dict(config or {}))} | versions() | attrs
    return xr.Dataset(
        {name: (dims, np.asarray(values), told) for name, (dims, values, told) in variables.items()},
        coords={
            name: (entry[0], np.asarray(entry[1]), *entry[2:]) if isinstance(entry, tuple) else entry
            for name, entry in coordinates.items()
        },
        attrs=attrs,
    )


def _of_mechanism(result: Simulation | DrivenMotion | SmoothedMotion, step: tuple[str, ...]) -> Contents:
    """What the mechanism tells; where recordings have numbers of their own, points lie where those put them."""
    if not isinstance(result, SmoothedMotion) or result.free.index is None:
        return of_mechanism(result.mechanism, result.q, result.t, step)
    every = [result.of_recording(k) for k in range(int(np.max(result.recording)) + 1)]
    first, *others = (of_mechanism(one.mechanism, one.q, one.t, step) for one in every)
    placed = dict(first.variables)
    for name in ("position", "orientation"):
        if name in placed:
            dims, _, told = placed[name]
            placed[name] = (dims, np.concatenate([part.variables[name][1] for part in (first, *others)]), told)
    return first._replace(variables=placed)


def with_sensitivity(dataset: "xr.Dataset", simulation: Simulation) -> "xr.Dataset":
    """The dataset of a simulation with `sensitivity`, how small changes of its start grow; as it is where that is a
    batch, was not found as a whole, or is long."""
    if simulation.t.shape[-1] > _LONG:
        return dataset
    try:
        growth = np.asarray(simulation.sensitivity())
    except (ArgumentError, AssemblyError):  # or it cannot be assembled as drawn, only from where this motion started
        return dataset
    about = attributes("how much a small displacement of the start has grown, coordinates by their sizes", "1")
    return dataset.assign(sensitivity=("step", growth, about))


def _motion(result: Simulation | DrivenMotion, step: tuple[str, ...]) -> Contents:
    """What every motion has."""
    mechanism = result.mechanism
    units, rates, forces = mechanism.coordinate_units, mechanism.velocity_units, force_units(mechanism)
    note, rate_note = (
        {"note": f"the unit of each {kind} stands in the variable `{variable}`"}
        for kind, variable in (("coordinate", "unit"), ("velocity", "velocity_unit"))
    )
    variables = {
        "q": ((*step, "coordinate"), result.q, attributes("coordinates", all_of(units)) | note),
        "dq": ((*step, "velocity"), result.dq, attributes("velocities", all_of(rates)) | rate_note),
        "ddq": ((*step, "velocity"), result.ddq, attributes("accelerations", per_second(all_of(rates)))),
        "multipliers": ((*step, "constraint"), result.multipliers, attributes("multipliers", "N, N m per constraint")),
        "reactions": (
            (*step, "velocity"),
            result.reactions,
            attributes("generalized reaction forces", all_of(forces)),
        ),
        "kinetic": (step, result.kinetic, attributes("kinetic energy", "J")),
        "potential": (step, result.potential, attributes("potential energy", "J")),
        "power": (step, result.power, attributes("power of forces without potential, but for actuators", "W")),
        "constraint_norm": (step, result.constraint_norm, attributes("norm of the constraints", "m², m, rad")),
        "velocity_constraint_norm": (
            step,
            result.velocity_constraint_norm,
            attributes("norm of the constraint rates", "m²/s, m/s, rad/s"),
        ),
        **_rank_margin(result, step),
        "step_status": (step, codes(result.step_status), FLAGS),
        "status": (step[:-1], codes(result.status), FLAGS),
    }
    coordinates = {
        "t": (step, result.t, attributes("time", "s")),
        **names_of_q_and_dq(mechanism),
        "constraint": list(mechanism.constraint_names),
    }
    return Contents(variables, coordinates, {"status": worst_text(result.status)})


def _rank_margin(result: Simulation | DrivenMotion, step: tuple[str, ...]) -> dict[str, Any]:
    """How far a single motion is from singular poses."""
    if len(step) > 1 or not np.isfinite(result.q).all():
        return {}
    try:
        margins, dependent = rank_margins(result.mechanism, result.q, result.t)
    except AssemblyError:  # it cannot be assembled as drawn, only from where this motion started
        return {}
    about = attributes("least singular value of the constraints, relative to the largest; 0 in a singular pose", "1")
    return {"rank_margin": (step, margins, about | {"dependent": ", ".join(dependent)})}


def _simulation(result: Simulation, step: tuple[str, ...]) -> Contents:
    variables = {
        "iterations": (step, result.iterations, attributes("iterations of the solver", "1")),
    }
    coordinates: dict[str, Any] = {}
    if result.z is not None and result.independent is not None:
        kinds = all_of(result.mechanism.coordinate_units)
        variables["z"] = ((*step, "freedom"), result.z, attributes("independent coordinates", kinds))
        variables["independent"] = (
            (*step, "freedom"),
            result.independent,
            {"long_name": "which of the coordinates are independent"},
        )
    if result.covariance is not None:
        axis = [f"{dot}{name}" for dot in ("", "d ", "dd ") for name in result.mechanism.velocity_names]
        coordinates = {"state": axis, "state_": axis}
        variables["covariance"] = (
            (*step, "state", "state_"),
            result.covariance,
            attributes("covariance of (q, dq, ddq)", "products of the units of q, dq and ddq")
            | {"note": "that of q is of the local coordinates v of q ⊞ v, which go by the names of the velocities"},
        )
    return Contents(variables, coordinates, {"form": result.coordinates, "integrator": result.integrator})


def _driven_motion(result: DrivenMotion, step: tuple[str, ...]) -> Contents:
    """Forces and what was desired. The units of single actuators and desired coordinates stand in coordinates."""
    units = np.array(result.mechanism.coordinate_units)
    forces = [force_unit(result.mechanism, motor.name) for motor in result.motors]
    force = all_of(forces)
    variables = {
        "forces": ((*step, "actuator"), result.forces, attributes("forces of the actuators", force)),
        "motor_power": ((*step, "actuator"), result.motor_power, attributes("power of the actuators", "W")),
        "iterations": (
            (*step[:-1], "stage"),
            np.stack([np.asarray(count) for count in result.iterations.values()], axis=-1),
            attributes("iterations of each stage", "1"),
        ),
    }
    coordinates: dict[str, Any] = {
        "actuator": list(result.actuator_names),
        "force_unit": ("actuator", forces),
        "stage": list(result.iterations),
    }
    if result.followed:
        kinds = all_of(list(units[list(result.followed)]))
        reached = result.q[..., jnp.asarray(result.followed)]
        along = (*step, "desired")
        coordinates |= {
            "desired": list(result.desired_names),
            "desired_unit": ("desired", units[list(result.followed)]),
        }
        variables |= {
            "desired_q": (along, reached - result.tracking_error, attributes("desired coordinates", kinds)),
            "tracking_error": (along, result.tracking_error, attributes("coordinates less desired ones", kinds)),
            "missing": (along, result.missing, attributes("force missing on desired coordinates", "N, N m")),
            "jumps": (along, result.jumps, {"long_name": "whether the desired acceleration jumps after the sample"}),
            "sigma": (
                (*step[:-1], "desired"),
                result.sigma,
                attributes("standard deviation of desired coordinates", kinds),
            ),
        }
    if result.joint_forces is not None:
        coordinates |= {"pin": list(result.joint_names), "axis": list("xyz"[: result.joint_forces.shape[-1]])}
        variables["joint_forces"] = (
            (*step, "pin", "axis"),
            result.joint_forces,
            attributes("force on each body at each of its points", "N"),
        )
    if result.covariance is not None:
        coordinates["actuator_"] = list(result.actuator_names)
        variables["force_covariance"] = (
            (*step, "actuator", "actuator_"),
            result.covariance,
            attributes("covariance of the forces", "products of the units of forces"),
        )
    return Contents(variables, coordinates, {})


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
