"""Files of sensors and inputs: what they may say, each of one type; `fgmbs.io.sensor_files` builds what they describe.

Names of arguments are those of the classes of `fgmbs.sensors` and `fgmbs.inputs`. Whether numbers and combinations of
arguments can be meant is checked there.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import PydanticCustomError

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.io.faults import Fault, dotted
from fgmbs.io.located_yaml import Located, locate, read_text
from fgmbs.mechanisms.planar.description import Path, plain
from fgmbs.mechanisms.planar.expressions import ExpressionError, evaluate


def _number(value: Any) -> float:
    """A number, also written as arithmetic: 2*pi/4096."""
    if isinstance(value, str):
        try:
            return float(evaluate(value, {}))
        except ExpressionError as error:
            raise _refused(str(error)) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(plain(value))
    return float(value)


def _refused(found: str) -> PydanticCustomError:
    return PydanticCustomError("number", "{found}", {"found": found})  # pyright: ignore[reportArgumentType]


def _is_list(value: Any) -> str:
    return "list" if isinstance(value, list | tuple) else "one"


def _kind(value: Any) -> str:
    return "unknown" if isinstance(value, Mapping | UnknownDescription) else _is_list(value)


Number = Annotated[float, BeforeValidator(_number)]
Numbers = Annotated[Annotated[Number, Tag("one")] | Annotated[tuple[Number, ...], Tag("list")], Discriminator(_is_list)]
Names = Annotated[Annotated[str, Tag("one")] | Annotated[tuple[str, ...], Tag("list")], Discriminator(_is_list)]
Place = Annotated[tuple[Number, ...], Field(min_length=2, max_length=3)]
Flag = Annotated[bool, Field(strict=True)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class UnknownDescription(_Entry):
    """An unknown number, as `fgmbs.Unknown`."""

    value: Numbers | None = None
    """By default that of the mechanism file, or 0 for one of a sensor."""
    sigma: Numbers | None = None
    lower: Numbers | None = None
    upper: Numbers | None = None
    log: Flag = False
    own: Flag = False


UnknownPlace = Annotated[
    Annotated[Place, Tag("list")] | Annotated[UnknownDescription, Tag("unknown")],
    Discriminator(lambda value: "unknown" if _kind(value) == "unknown" else "list"),
]


def _places(value: Any) -> str:
    several = isinstance(value, list | tuple) and any(isinstance(entry, list | tuple) for entry in value)
    return "places" if several else "unknown" if _kind(value) == "unknown" else "list"


UnknownPlaces = Annotated[
    Annotated[Place, Tag("list")]
    | Annotated[Annotated[tuple[Place, ...], Field(min_length=1)], Tag("places")]
    | Annotated[UnknownDescription, Tag("unknown")],
    Discriminator(_places),
]


class LossDescription(_Entry):
    """A robust loss."""

    type: Literal["huber", "cauchy", "tukey"]
    threshold: Number | None = None


Calibration = Annotated[
    Annotated[Number, Tag("one")]
    | Annotated[tuple[Number, ...], Tag("list")]
    | Annotated[UnknownDescription, Tag("unknown")],
    Discriminator(_kind),
]


Size = Annotated[
    Annotated[Number, Tag("one")] | Annotated[UnknownDescription, Tag("unknown")],
    Discriminator(lambda value: "unknown" if _kind(value) == "unknown" else "one"),
]


class _Sensor(_Entry):
    name: str
    sigma: Calibration
    columns: Names | None = None
    bias: Calibration | None = None
    gain: Calibration | None = None
    delay: Calibration | None = None
    misalignment: Calibration | None = None
    resolution: Number | None = None
    time_sigma: Size | None = None
    loss: LossDescription | None = None


class EncoderDescription(_Sensor):
    type: Literal["encoder"]
    of: str | None = None
    body: str | None = None
    relative_to: str | None = None
    axis: str | None = None
    incremental: Flag | None = None
    unit: str | None = None


class GyroscopeDescription(_Sensor):
    type: Literal["gyroscope"]
    body: str
    axes: tuple[str, ...] | None = None


class AccelerometerDescription(_Sensor):
    type: Literal["accelerometer"]
    body: str
    at: UnknownPlace | None = None
    axes: tuple[str, ...] | None = None


class PositionDescription(_Sensor):
    type: Literal["position"]
    point: str | None = None
    body: str | None = None
    at: UnknownPlace | None = None
    axes: tuple[str, ...] | None = None
    unit: str | None = None


class DistanceDescription(_Sensor):
    type: Literal["distance"]
    between: tuple[str, str]


class VelocityDescription(_Sensor):
    type: Literal["velocity"]
    of: str | None = None
    point: str | None = None
    body: str | None = None
    at: UnknownPlace | None = None
    axes: tuple[str, ...] | None = None
    unit: str | None = None


class TorqueDescription(_Sensor):
    type: Literal["torque"]
    of: str
    unit: str | None = None


class LoadCellDescription(_Sensor):
    type: Literal["load_cell"]
    pin: str
    frame: str | None = None
    axes: tuple[str, ...] | None = None


class CameraDescription(_Sensor):
    type: Literal["camera"]
    position: UnknownPlace
    rotation: UnknownPlace
    point: Names | None = None
    body: str | None = None
    at: UnknownPlaces | None = None
    on: str | None = None
    distortion: Calibration | None = None


class ForceTorqueDescription(_Sensor):
    type: Literal["force_torque"]
    joint: str
    frame: str | None = None
    force: tuple[str, ...] | None = None
    torque: tuple[str, ...] | None = None


class _Input(_Entry):
    name: str | None = None


class DisturbanceDescription(_Input):
    type: Literal["disturbance"]
    power: Size | None = None
    time_constant: Number | None = None


class WhiteNoiseDescription(_Input):
    type: Literal["white_noise"]
    on: str
    density: Size | None = None


class RandomWalkDescription(_Input):
    type: Literal["random_walk"]
    on: str
    rate: Size | None = None
    sigma0: Number | None = None


class GaussMarkovDescription(_Input):
    type: Literal["gauss_markov"]
    on: str
    sigma: Size | None = None
    time_constant: Number


class CommandDescription(_Input):
    type: Literal["command"]
    on: str
    column: str
    gain: Size | None = None
    delay: Size | None = None
    lag: Size | None = None
    limit: Size | None = None
    hold: str | None = None
    saturation: str | None = None


SensorDescription = (
    EncoderDescription
    | GyroscopeDescription
    | AccelerometerDescription
    | PositionDescription
    | DistanceDescription
    | VelocityDescription
    | TorqueDescription
    | LoadCellDescription
    | CameraDescription
    | ForceTorqueDescription
)
InputDescription = (
    DisturbanceDescription | WhiteNoiseDescription | RandomWalkDescription | GaussMarkovDescription | CommandDescription
)


class SensorsDescription(_Entry):
    """The sensors of a mechanism, and the forces from outside."""

    sensors: Annotated[tuple[Annotated[SensorDescription, Field(discriminator="type")], ...], Field(min_length=1)]
    inputs: tuple[Annotated[InputDescription, Field(discriminator="type")], ...] = ()


class SensorsFile(NamedTuple):
    """A description and where in a file it stands."""

    description: SensorsDescription
    located: Located
    source: str

    def error(self, faults: list[Fault]) -> DescriptionError:
        """The error that tells these faults."""
        return _error(faults, self.located, self.source)


def read_sensors_file(path: str | os.PathLike[str]) -> SensorsFile:
    """The description that a file of sensors gives.

    Raises:
        DescriptionError: The file cannot be read, or all its faults.
    """
    text = read_text(path, "a file of sensors")
    located = locate(text)
    found = list(located.faults)
    if isinstance(located.data, Mapping):
        try:
            description = SensorsDescription.model_validate(located.data)
        except ValidationError as failure:
            found += [fault for error in failure.errors() if (fault := fault_of(error, located.data))]
        else:
            if not found:
                return SensorsFile(description, located, str(path))
    elif not found:
        found.append(Fault((), f"expected a mapping of (sensors, inputs); found {plain(located.data)}"))
    raise _error(found, located, str(path))


def _error(faults: list[Fault], located: Located, source: str) -> DescriptionError:
    placed = [(fault.place or located.place(fault.path, of_key=fault.of_key), fault) for fault in faults]
    placed.sort(key=lambda item: item[0])
    return DescriptionError(
        [
            f"{source}:{line}:{column}: {dotted(fault.path)}{': ' if fault.path else ''}{fault.text}"
            for (line, column), fault in placed
        ]
    )


_TYPES = {
    str(get_args(model.model_fields["type"].annotation)[0]): model
    for model in (*get_args(SensorDescription), *get_args(InputDescription))
}
_EXPECTED = {
    "string_type": "a text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "literal_error": "'huber', 'cauchy' or 'tukey'",
    "union_tag_not_found": "a mapping with a type",
}


def fault_of(error: Any, data: Mapping[str, Any]) -> Fault | None:
    """What pydantic found in the lists `sensors` and `inputs` of data, in our words."""
    path, model = _path(error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    found = context.get("found") or plain(error["input"])
    match kind:
        case "number":
            several = error["loc"][-1] == "one" and path[-1] in ("sigma", "value", "bias", "lower", "upper")
            return Fault(path, f"expected a number{' or a list of them' * several}; found {found}")
        case "extra_forbidden":
            key = str(path[-1])
            return Fault(path, f"expected no key '{key}' here{nearest(key, model.model_fields, 'keys')}", of_key=True)
        case "missing" if isinstance(path[-1], int):
            return Fault(path[:-1], f"expected a list of 2; found a list of {path[-1]}")
        case "missing":
            return Fault(path, f"expected a value; found no key '{path[-1]}'")
        case "too_long":
            return Fault(path, f"expected a list of {context['max_length']}; found {found}")
        case "too_short" if path == ("sensors",) and data["sensors"]:
            return None  # its entries have faults of their own
        case "too_short":
            return Fault(path, f"expected a list of {context['min_length']} or more; found {found}")
        case "union_tag_invalid":
            union = SensorDescription if path[0] == "sensors" else InputDescription
            types = [name for name, described in _TYPES.items() if described in get_args(union)]
            given = context["tag"]
            return Fault((*path, "type"), f"expected a type; found '{given}'{nearest(given, types, 'types')}")
    return Fault(path, f"expected {_EXPECTED.get(kind, error['msg'])}; found {found}")


def _path(loc: tuple[str | int, ...]) -> tuple[Path, type[BaseModel]]:
    """Where the reader of a file finds a place of pydantic's, which names alternatives too; and what is described."""
    section, *rest = loc
    model: type[BaseModel] = SensorsDescription
    if len(rest) > 1:  # the type comes after the index
        model = _TYPES[str(rest.pop(1))]
    if "unknown" in rest:
        model = UnknownDescription
    elif rest[1:2] == ["loss"] and len(rest) > 2:
        model = LossDescription
    return (section, *(step for step in rest if step not in ("one", "list", "unknown", "places"))), model
