"""Files of sensors and inputs."""

import os
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from fgmbs import inputs
from fgmbs.errors import ArgumentError
from fgmbs.inputs import AbstractInput
from fgmbs.io.faults import Fault
from fgmbs.io.sensors import LossDescription, SensorsFile, UnknownDescription, read_sensors_file
from fgmbs.losses import Cauchy, Huber, Tukey
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.planar.description import Path
from fgmbs.sensors.base import AbstractSensor
from fgmbs.sensors.kinds.accelerometer import Accelerometer
from fgmbs.sensors.kinds.camera import Camera
from fgmbs.sensors.kinds.distance import Distance
from fgmbs.sensors.kinds.encoder import Encoder
from fgmbs.sensors.kinds.force_torque import ForceTorque
from fgmbs.sensors.kinds.gyroscope import Gyroscope
from fgmbs.sensors.kinds.load_cell import LoadCell
from fgmbs.sensors.kinds.position import Position
from fgmbs.sensors.kinds.torque import Torque
from fgmbs.sensors.kinds.velocity import Velocity
from fgmbs.unknowns import Unknown

_SENSORS: dict[str, Callable[..., AbstractSensor]] = {
    "encoder": Encoder,
    "gyroscope": Gyroscope,
    "accelerometer": Accelerometer,
    "position": Position,
    "distance": Distance,
    "velocity": Velocity,
    "torque": Torque,
    "load_cell": LoadCell,
    "camera": Camera,
    "force_torque": ForceTorque,
}
_INPUTS: dict[str, Callable[..., AbstractInput]] = {
    "disturbance": inputs.Disturbance,
    "white_noise": inputs.WhiteNoise,
    "random_walk": inputs.RandomWalk,
    "gauss_markov": inputs.GaussMarkov,
    "command": inputs.Command,
}
_LOSSES = {"huber": Huber, "cauchy": Cauchy, "tukey": Tukey}


def read_sensors(path: str | os.PathLike[str]) -> tuple[tuple[AbstractSensor, ...], tuple[AbstractInput, ...]]:
    """(sensors, inputs) of a YAML file.

    The lists `sensors` and `inputs` have entries of a `type` — encoder, gyroscope, accelerometer, position, distance,
    velocity, torque, load_cell, camera, force_torque; disturbance, white_noise, random_walk, gauss_markov, command —
    and the arguments of the class of this name. A calibration number `{value: 0, sigma: 0.1}` is `Unknown`; a loss is
    `{type: huber}`.

    Raises:
        DescriptionError: The file cannot be read, or all its faults, each with its line.
    """
    return build_sensors(read_sensors_file(path))


def build_sensors(
    file: SensorsFile, mechanism: AbstractMechanism | None = None
) -> tuple[tuple[AbstractSensor, ...], tuple[AbstractInput, ...]]:
    """(sensors, inputs) that a file describes; see `read_sensors`.

    Args:
        file: What it says.
        mechanism: What they are to fit, if that is known yet.

    Raises:
        DescriptionError: All faults, each with its line.
    """
    faults: list[Fault] = []
    sensors, forces = (
        tuple(
            thing
            for i, entry in enumerate(entries)
            if (thing := _built(kinds[entry.type], entry, (section, i), faults, mechanism)) is not None
        )
        for section, entries, kinds in (
            ("sensors", file.description.sensors, _SENSORS),
            ("inputs", file.description.inputs, _INPUTS),
        )
    )
    if not faults:
        faults = _repeated(sensors)
    if faults:
        raise file.error(faults)
    return sensors, forces


def _built(
    build: Callable[..., Any], entry: BaseModel, path: Path, faults: list[Fault], mechanism: AbstractMechanism | None
) -> Any:
    """What an entry describes, or None and its fault."""
    given = {key: value for key in type(entry).model_fields if (value := getattr(entry, key)) is not None}
    del given["type"]
    here = path
    try:
        for key, value in given.items():
            here = (*path, key)
            given[key] = _argument(value)
        here = path
        made = build(**given)
        if mechanism is not None:
            made.check(mechanism)
        return made
    except ArgumentError as error:
        # "sensor 'imu': gain: expected …": the file has a place for the name and the argument.
        text = str(error).removeprefix(f"sensor {given.get('name')!r}: ")
        text = text.removeprefix(f"input {given.get('name') or given.get('on')!r}: ")
        argument, _, rest = text.partition(": ")
        faults.append(Fault((*here, argument), rest))
        return None


def _argument(value: Any) -> Any:
    match value:
        case UnknownDescription():
            return unknown_of(value)
        case LossDescription(type=kind, threshold=None):
            return _LOSSES[kind]()
        case LossDescription(type=kind, threshold=threshold):
            return _LOSSES[kind](threshold)
    return value


def unknown_of(description: UnknownDescription, value: Any = 0.0) -> Unknown:
    """The unknown number that is described, `value` being its default.

    Raises:
        ArgumentError: Invalid numbers.
    """
    given = {key: part for key in type(description).model_fields if (part := getattr(description, key)) is not None}
    return Unknown(**{"value": value, **given})


def _repeated(sensors: tuple[AbstractSensor, ...]) -> list[Fault]:
    """Names and columns that are there twice."""
    faults, names, columns = [], set(), {}
    for i, sensor in enumerate(sensors):
        if sensor.name in names:
            faults.append(Fault(("sensors", i, "name"), f"expected different names; found {sensor.name!r} again"))
        names.add(sensor.name)
        for column in sensor.columns:
            if column in columns:
                found = f"found {column!r}, which {columns[column]!r} reads"
                text = f"expected columns that no other sensor reads; {found}"
                faults.append(Fault(("sensors", i, "columns"), text))
            columns.setdefault(column, sensor.name)
    return faults
