"""YAML and JSON files of robots, checked by pydantic, with the place of every fault."""

import math
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.io.faults import Fault, dotted
from fgmbs.io.located_yaml import Located, locate
from fgmbs.io.sensors import Number
from fgmbs.mechanisms.planar.description import plain


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise PydanticCustomError("number", "{found}", {"found": str(value)})
    return value


FiniteNumber = Annotated[Number, AfterValidator(_finite)]
"""Also written as arithmetic, as in pi/2."""
Triple = tuple[FiniteNumber, FiniteNumber, FiniteNumber]


class Entry(BaseModel):
    """A mapping of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Origin(Entry):
    """A pose, as in URDF."""

    xyz: Triple = (0.0, 0.0, 0.0)
    """[m]"""
    rpy: Triple = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw [rad]."""


Model = TypeVar("Model", bound=BaseModel)


class Entries:
    """A file, the place of what stands in it, and its faults."""

    def __init__(self, text: str, source: str):
        self.located: Located = locate(text)
        self.source = source
        self.faults = list(self.located.faults)
        self.refuse()

    def read(self, model: type[Model]) -> Model:
        """What the file says.

        Raises:
            DescriptionError: All its faults.
        """
        if not isinstance(self.located.data, dict):
            keys = ", ".join(model.model_fields)
            self.add((), f"expected a mapping of ({keys}); found {plain(self.located.data)}")
            self.refuse()
        try:
            return model.model_validate(self.located.data)
        except ValidationError as failure:
            for error in failure.errors():
                if error["type"] == "extra_forbidden":
                    self.faults.append(unknown_key(error["loc"], _keys(model, error["loc"])))
                elif not _follows(error):
                    self.faults.append(worded(error))
            self.refuse()
            raise

    def add(self, path: tuple[str | int, ...], text: str) -> None:
        """Notes a fault at a path."""
        self.faults.append(Fault(path, text))

    def refuse(self) -> None:
        """Raises:
        DescriptionError: Something was noted.
        """
        if not self.faults:
            return
        lines = []
        for fault in self.faults:
            line, column = fault.place or self.located.place(fault.path, of_key=fault.of_key)
            path = dotted(fault.path)
            lines.append(f"{self.source}:{line}:{column}: {path}{': ' if path else ''}{fault.text}")
        raise DescriptionError(lines)


def _follows(error: Any) -> bool:
    """Whether a list is only too short because of faults in its entries, which are reported one by one."""
    return error["type"] == "too_short" and len(error["input"]) >= error["ctx"]["min_length"]


def unknown_key(path: tuple[str | int, ...], keys: Iterable[str]) -> Fault:
    """A key at a path that means nothing, and the nearest of those that do."""
    return Fault(path, f"expected no key '{path[-1]}' here{nearest(str(path[-1]), keys, 'keys')}", of_key=True)


def worded(error: Any) -> Fault:
    """What pydantic found of a value, as a fault."""
    path, found = tuple(error["loc"]), plain(error["input"])
    context = error.get("ctx", {})
    match error["type"]:
        case "number":
            return Fault(path, f"expected a finite number; found {context['found']}")
        case "missing":
            if isinstance(path[-1], int):
                return Fault(path[:-1], f"expected one entry more; found {path[-1]}")
            return Fault(path[:-1], f"expected a key '{path[-1]}'; found none")
        case "literal_error":
            return Fault(path, f"expected {context['expected']}; found {found}")
        case "too_long":
            return Fault(path, f"expected a list of {context['max_length']}; found {found}")
        case "too_short":
            return Fault(path, f"expected a list of {context['min_length']} or more; found {found}")
    return Fault(path, f"expected {_EXPECTED.get(error['type'], error['msg'])}; found {found}")


_EXPECTED = {
    "string_type": "a text",
    "string_too_short": "a text",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "dataclass_type": "a mapping",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "greater_than_equal": "a number that is not negative",
}


def _keys(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """Keys accepted where an unknown one is."""
    for step in path[:-1]:
        field = model.model_fields.get(str(step))
        inner = [] if field is None else _models(field.annotation)
        model = inner[0] if inner else model
    return list(model.model_fields)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models(part)]
