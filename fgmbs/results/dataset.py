"""Datasets of results: names, units, settings, versions and the mechanism."""

import json
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fgmbs.errors import Status
from fgmbs.io.load import parse_mechanism, to_yaml
from fgmbs.io.schema import CoordinateActuatorDescription, MotionDescription, PointsActuatorDescription
from fgmbs.mechanisms.planar import PlanarMechanism
from fgmbs.problems.driven_motion import DrivenMotion
from fgmbs.problems.simulation import Simulation

if TYPE_CHECKING:
    import xarray as xr

STATUSES = (
    *("running", "converged", "stalled", "iteration_limit", "non_finite", "not_assembled"),
    *("not_driven", "out_of_reach"),
)
"""Meaning of the numbers in `status` and `step_status`."""

_FLAGS = {"flag_values": np.arange(len(STATUSES)), "flag_meanings": " ".join(STATUSES)}
_FORCES = {"m": "N", "rad": "N m"}


class _Contents(NamedTuple):
    """What a dataset is made of: (dimensions, values, attributes) by name."""

    variables: dict[str, Any]
    coordinates: dict[str, Any]
    attrs: dict[str, Any]


def to_dataset(result: Simulation | DrivenMotion, config: Mapping[str, Any] | None = None) -> "xr.Dataset":
    """A result as a dataset; batch axes become the dimensions `member`, `member_1`, …

    Args:
        config: Settings of the run, kept as JSON in the attribute `config`.
    """
    import xarray as xr

    step = (*("member" + f"_{i}" * (i > 0) for i in range(result.t.ndim - 1)), "step")
    parts = [_motion(result, step)]
    parts.append(_simulation(result, step) if isinstance(result, Simulation) else _driven_motion(result, step))
    if isinstance(result.mechanism, PlanarMechanism):
        parts.append(_planar(result.mechanism, result.q, step))
    variables, coordinates, attrs = ({k: v for part in parts for k, v in part[i].items()} for i in range(3))
    attrs = {"config": json.dumps(dict(config or {}))} | _versions() | attrs
    return xr.Dataset(
        {name: (dims, np.asarray(values), attributes) for name, (dims, values, attributes) in variables.items()},
        coords={
            name: (entry[0], np.asarray(entry[1]), *entry[2:]) if isinstance(entry, tuple) else entry
            for name, entry in coordinates.items()
        },
        attrs=attrs,
    )


def _motion(result: Simulation | DrivenMotion, step: tuple[str, ...]) -> _Contents:
    """What every motion has."""
    mechanism = result.mechanism
    units = _units(mechanism)
    kinds = ", ".join(dict.fromkeys(units))
    rates = {order: ", ".join(f"{unit}/s{order}" for unit in dict.fromkeys(units)) for order in ("", "²")}
    force = ", ".join(_FORCES[unit] for unit in dict.fromkeys(units))
    note = {"note": "the unit of each coordinate stands in the variable `unit`"}
    variables = {
        "q": ((*step, "coordinate"), result.q, _attrs("coordinates", kinds) | note),
        "dq": ((*step, "coordinate"), result.dq, _attrs("velocities", rates[""])),
        "ddq": ((*step, "coordinate"), result.ddq, _attrs("accelerations", rates["²"])),
        "multipliers": ((*step, "constraint"), result.multipliers, _attrs("multipliers", "N, N m per constraint")),
        "reactions": ((*step, "coordinate"), result.reactions, _attrs("generalized reaction forces", force)),
        "kinetic": (step, result.kinetic, _attrs("kinetic energy", "J")),
        "potential": (step, result.potential, _attrs("potential energy", "J")),
        "power": (step, result.power, _attrs("power of forces without potential, but for actuators", "W")),
        "constraint_norm": (step, result.constraint_norm, _attrs("norm of the constraints", "m², m, rad")),
        "velocity_constraint_norm": (
            step,
            result.velocity_constraint_norm,
            _attrs("norm of the constraint rates", "m²/s, m/s, rad/s"),
        ),
        "status": (step[:-1], _codes(result.status), _FLAGS),
    }
    coordinates = {
        "t": (step, result.t, _attrs("time", "s")),
        "coordinate": list(mechanism.coordinate_names),
        "unit": ("coordinate", units),
        "constraint": list(mechanism.constraint_names),
    }
    return _Contents(variables, coordinates, {"status": _worst_text(result.status)})


def _simulation(result: Simulation, step: tuple[str, ...]) -> _Contents:
    variables = {
        "iterations": (step, result.iterations, _attrs("iterations of the solver", "1")),
        "step_status": (step, _codes(result.step_status), _FLAGS),
    }
    coordinates: dict[str, Any] = {}
    if result.z is not None and result.independent is not None:
        kinds = ", ".join(dict.fromkeys(_units(result.mechanism)))
        variables["z"] = ((*step, "freedom"), result.z, _attrs("independent coordinates", kinds))
        variables["independent"] = (
            (*step, "freedom"),
            result.independent,
            {"long_name": "which of the coordinates are independent"},
        )
    if result.covariance is not None:
        axis = [f"{dot}{name}" for dot in ("", "d ", "dd ") for name in result.coordinate_names]
        coordinates = {"state": axis, "state_": axis}
        variables["covariance"] = (
            (*step, "state", "state_"),
            result.covariance,
            _attrs("covariance of (q, dq, ddq)", "products of the units of q, dq and ddq"),
        )
    return _Contents(variables, coordinates, {})


def _driven_motion(result: DrivenMotion, step: tuple[str, ...]) -> _Contents:
    """Forces and what was desired. The units of single actuators and desired coordinates stand in coordinates."""
    units = np.array(_units(result.mechanism))
    forces = [_force_unit(result, k) for k in range(len(result.motors))]
    force = ", ".join(dict.fromkeys(forces))
    variables = {
        "forces": ((*step, "actuator"), result.forces, _attrs("forces of the actuators", force)),
        "motor_power": ((*step, "actuator"), result.motor_power, _attrs("power of the actuators", "W")),
        "iterations": (
            (*step[:-1], "stage"),
            np.stack([np.asarray(count) for count in result.iterations.values()], axis=-1),
            _attrs("iterations of each stage", "1"),
        ),
    }
    coordinates: dict[str, Any] = {
        "actuator": list(result.actuator_names),
        "force_unit": ("actuator", forces),
        "stage": list(result.iterations),
    }
    if result.followed:
        kinds = ", ".join(dict.fromkeys(units[list(result.followed)]))
        reached = result.q[..., jnp.asarray(result.followed)]
        along = (*step, "desired")
        coordinates |= {
            "desired": list(result.desired_names),
            "desired_unit": ("desired", units[list(result.followed)]),
        }
        variables |= {
            "desired_q": (along, reached - result.tracking_error, _attrs("desired coordinates", kinds)),
            "tracking_error": (along, result.tracking_error, _attrs("coordinates less desired ones", kinds)),
            "missing": (along, result.missing, _attrs("force missing on desired coordinates", "N, N m")),
            "jumps": (along, result.jumps, {"long_name": "whether the desired acceleration jumps after the sample"}),
            "sigma": (
                (*step[:-1], "desired"),
                result.sigma,
                _attrs("standard deviation of desired coordinates", kinds),
            ),
        }
    if result.joint_forces is not None:
        coordinates["pin"] = list(result.joint_names)
        variables["joint_forces"] = (
            (*step, "pin", "axis"),
            result.joint_forces,
            _attrs("force on each body at each of its points", "N"),
        )
    if result.covariance is not None:
        coordinates["actuator_"] = list(result.actuator_names)
        variables["force_covariance"] = (
            (*step, "actuator", "actuator_"),
            result.covariance,
            _attrs("covariance of the forces", "products of the units of forces"),
        )
    return _Contents(variables, coordinates, {})


def _planar(mechanism: PlanarMechanism, q: jax.Array, step: tuple[str, ...]) -> _Contents:
    """Parameters, points and bodies of a planar mechanism."""
    description = mechanism.description
    parameters = list(mechanism.parameters)
    values = np.stack([np.asarray(mechanism.parameters[name]) for name in parameters], axis=-1)
    bodies = dict(zip(mechanism.body_names, mechanism.body_points, strict=True))
    return _Contents(
        {
            "parameters": ((*step[:-1], "parameter"), values, _attrs("parameters of the mechanism", "SI")),
            "position": ((*step, "point", "axis"), _positions(mechanism, q), _attrs("positions of the points", "m")),
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


def mechanism_of(dataset: "xr.Dataset") -> PlanarMechanism:
    """The mechanism of a dataset without batch dimensions, with the parameters it was simulated with."""
    mechanism = PlanarMechanism.from_description(parse_mechanism(dataset.attrs["mechanism"], source="results"))
    values = dataset["parameters"]
    pairs = zip(values.parameter.values, values.values, strict=True)
    return mechanism.with_parameters({str(name): float(value) for name, value in pairs})


def _attrs(long_name: str, units: str) -> dict[str, str]:
    return {"long_name": long_name, "units": units}


def _units(mechanism) -> list[str]:
    """Unit of each coordinate: angles come last."""
    angles = len(mechanism.description.relative_coordinates) if isinstance(mechanism, PlanarMechanism) else 0
    return ["m"] * (mechanism.n - angles) + ["rad"] * angles


def _force_unit(result: DrivenMotion, k: int) -> str:
    """Unit of the force of a motor."""
    motor, mechanism = result.motors[k], result.mechanism
    if motor.coordinate is not None:
        return _FORCES[_units(mechanism)[motor.coordinate]]
    assert isinstance(mechanism, PlanarMechanism) and motor.actuator is not None
    actuator = mechanism.description.actuators[motor.actuator]
    if isinstance(actuator, CoordinateActuatorDescription):
        return _FORCES[_units(mechanism)[mechanism.coordinate_names.index(actuator.coordinate)]]
    return "N" if isinstance(actuator, PointsActuatorDescription) else "N m"


def _codes(status: Status) -> np.ndarray:
    """Places in `STATUSES`."""
    each = [np.asarray(status == getattr(Status, name)) for name in STATUSES]
    return np.asarray(np.argmax(np.stack(each), axis=0))


def _worst_text(status: Status) -> str:
    """How the worst member ended, in words."""
    name = STATUSES[int(np.max(_codes(status)))]
    text = Status[getattr(Status, name)].removeprefix(f"{name}: ")
    return name if text == name else f"{name}: {text}"


def _versions() -> dict[str, str]:
    versions = {"fgmbs": version("fgmbs"), "jax": jax.__version__, "python": platform.python_version()}
    return {f"{name}_version": number for name, number in versions.items()}


def _positions(mechanism: PlanarMechanism, q: jax.Array) -> np.ndarray:
    """Positions of all points at every step of every member [m]."""
    function: Callable = lambda mechanism, q: jax.vmap(mechanism.point_positions)(q)  # noqa: E731
    for _ in range(q.ndim - 2):
        function = eqx.filter_vmap(function)
    return np.asarray(eqx.filter_jit(function)(mechanism, q))
