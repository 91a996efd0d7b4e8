"""What is wrong with a file: a fault at a path, worded as 'expected …; found …'."""

import copy
import difflib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from pydantic import BaseModel, ValidationError

from fgmbs.arguments import nearest
from fgmbs.mechanisms.planar import description as schema
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import Path

Place: TypeAlias = tuple[int, int]

UNREADABLE = "_"
"""Stands in a repaired description for a number whose fault is already reported; no parameter can have this name."""

_MAPPINGS = ("parameters", "initial_velocities")
_TAGGED = ("relative_coordinates", "constraints", "springs", "dampers", "forces", "actuators")
_NUMBERS = (
    *("x", "y", "length", "mass", "I0", "cog", "offset", "ratio", "value"),
    *("stiffness", "free_length", "free_angle", "damping", "force", "torque"),
)
_CHOICES = {
    "springs": ("points", "angle"),
    "dampers": ("points", "angle"),
    "forces": ("point", "angle", "body"),
    "actuators": ("angle", "points", "coordinate", "body"),
}
_EXPECTED = {
    "name": "a name",
    "color": "a color such as 'orange' or '#ff8800'",
    "mapping": "a mapping from names to numbers",
    "int_type": "an index (0, 1, …) or a name",
    "greater_than_equal": "an index from 0",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


class Fault(NamedTuple):
    """What is wrong with the value (or, with `of_key`, with the key) at a path."""

    path: Path
    text: str
    of_key: bool = False
    place: Place | None = None
    """Line and column, where the path does not say it."""


def dotted(path: Path) -> str:
    """`planar_bodies[1].points[0]`"""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def path_of(error: Mapping[str, Any], data: Mapping[str, Any]) -> Path:
    """Where the reader of a file finds what pydantic complains about."""
    loc = error["loc"]
    if loc[0] in _MAPPINGS and len(loc) > 1:
        return loc[0], list(data[loc[0]])[loc[1]]
    if loc[0] in _TAGGED:  # pydantic inserts the alternative it looked at
        loc = (*loc[:2], *loc[3:])
    return tuple(step for step in loc if step not in ("by value", "by drawing"))


def of_validation(failure: ValidationError, data: Mapping[str, Any], wanted: Callable[[Path], str]) -> list[Fault]:
    """The faults that pydantic found, in our words.

    Args:
        wanted: What a number at a path may be.
    """
    errors = [(error, path_of(error, data)) for error in failure.errors()]
    misspelt = {
        (*path[:-1], close[0])
        for error, path in errors
        if error["type"] == "extra_forbidden"
        and (close := difflib.get_close_matches(str(path[-1]), _keys_beside(error["loc"]), n=1))
    }
    left = [(error, path) for error, path in errors if error["type"] != "missing" or path not in misspelt]
    return [fault for error, path in left if (fault := _worded(error, path, data, wanted))]


def _worded(error: Any, path: Path, data: Mapping[str, Any], wanted: Callable[[Path], str]) -> Fault | None:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    found = context.get("found") or schema.plain(value)
    match kind:
        case "expression":
            return Fault(path, f"expected {wanted(path)}; found {found}")
        case "extra_forbidden":
            key, keys = str(path[-1]), _keys_beside(error["loc"])
            return Fault(path, f"expected no key '{key}' here{nearest(key, keys, 'keys')}", of_key=True)
        case "missing" if isinstance(path[-1], int):
            return Fault(path[:-1], f"expected a list of 2; found {schema.plain(_at(data, path[:-1]))}")
        case "missing":
            what = wanted(path) if _number_key(path) is not None else "a value"
            return Fault(path, f"expected {what}; found no key '{path[-1]}'")
        case "too_long":
            return Fault(path, f"expected a list of {context['max_length']}; found {found}")
        case "too_short":
            if isinstance(value := _at(data, path), list) and len(value) >= context["min_length"]:
                return None  # the faults of its entries are reported one by one
            return Fault(path, f"expected a list of {context['min_length']} or more; found {found}")
        case "union_tag_not_found" if path[0] in _CHOICES:
            return Fault(path, f"expected a mapping with one of ({', '.join(_CHOICES[path[0]])}); found {found}")
        case "union_tag_invalid" | "union_tag_not_found":
            types_ = _types_of(str(path[0]))
            given = value.get("type") if isinstance(value, Mapping) else None
            if not isinstance(given, str):
                return Fault(path, f"expected a mapping with a type ({', '.join(types_)}); found {found}")
            return Fault((*path, "type"), f"expected a type; found '{given}'{nearest(given, types_, 'types')}")
    return Fault(
        path,
        f"expected {_EXPECTED.get(kind, error['msg'])}; found {found}",
        of_key=kind == "name" and path[0] in _MAPPINGS,
    )


def repaired(data: Mapping[str, Any], failure: ValidationError) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Data without what pydantic complains about, so that the rest can be checked too.

    Returns:
        The data; numbers that cannot be read are `UNREADABLE`. And, for every list that lost an entry, the original
        indices of the entries that are left; none for a section that is gone.
    """
    found = [(error, path_of(error, data)) for error in failure.errors()]
    data = copy.deepcopy(dict(data))
    lost: dict[str, set[int]] = {}
    removed: set[Path] = set()
    for error, path in found:
        if path in removed:
            continue
        section, *rest = path
        if error["type"] == "too_short" and path == ("points",):
            continue
        if path[2:3] == ("visual",):  # nothing else needs it
            *above, key = path[:4]
            _at(data, tuple(above)).pop(key, None)
            continue
        bad_name = error["type"] == "name" and (path[-1] == "name" or section in _MAPPINGS)
        if error["type"] == "extra_forbidden" or bad_name:
            _at(data, path[:-1]).pop(path[-1], None)
            removed.add(path)
        elif (key := _number_key(path)) is not None:
            parent = _at(data, path[:key])
            pair = path[key] in ("cog", "force", "gravity") or (path[key] == "offset" and parent.get("type") == "rigid")
            parent[path[key]] = [UNREADABLE] * 2 if pair else UNREADABLE
        elif section == "points" and rest:
            data["points"][rest[0]] = {"x": UNREADABLE, "y": UNREADABLE}
        elif rest and isinstance(rest[0], int):
            lost.setdefault(str(section), set()).add(rest[0])
        else:
            data.pop(str(section), None)
            lost[str(section)] = set()
    kept: dict[str, list[int]] = {}
    for section, indices in lost.items():
        entries = data.get(section) or []
        if section in scopes.OWNERS:  # messages call an unnamed entry by its original index
            entries = [
                e if i in indices else {"name": f"{scopes.OWNERS[section]}{i}"} | e for i, e in enumerate(entries)
            ]
        kept[section] = [i for i in range(len(entries)) if i not in indices]
        data[section] = [entries[i] for i in kept[section]]
    return data, kept


def _number_key(path: Path) -> int | None:
    """Position in a path of the key that holds a number or a vector."""
    if path[0] in _MAPPINGS:
        return 1 if len(path) > 1 else None
    if path[0] == "gravity":
        return 0
    return 2 if len(path) > 2 and path[2] in _NUMBERS else None


def _at(data: Any, path: Path) -> Any:
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _models(annotation: Any) -> list[type[BaseModel]]:
    """All models inside a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if isinstance(annotation, types.GenericAlias) or typing.get_args(annotation):
        return [model for part in typing.get_args(annotation) for model in _models(part)]
    return []


def _keys_beside(loc: tuple[str | int, ...]) -> list[str]:
    """Keys accepted where pydantic found an unknown one."""
    if len(loc) == 1:
        return list(schema.MechanismDescription.model_fields)
    models = _models(schema.MechanismDescription.model_fields[str(loc[0])].annotation)
    tags = [step for step in loc[2:-1] if isinstance(step, str)]
    if tags == ["visual"]:
        return list(schema.VisualDescription.model_fields)
    for model in models:
        type_ = model.model_fields.get("type")
        if not tags or tags[0].removeprefix("by ") in model.model_fields:
            return list(model.model_fields)
        if type_ is not None and tags[0] in typing.get_args(type_.annotation):
            return list(model.model_fields)
    return []


def _types_of(section: str) -> list[str]:
    models = _models(schema.MechanismDescription.model_fields[section].annotation)
    return [name for model in models for name in typing.get_args(model.model_fields["type"].annotation)]
