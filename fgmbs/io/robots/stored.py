"""Descriptions of robots as text and back: as a file that a person reads, and to be kept with results."""

import dataclasses
import json
import types
import typing
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from fgmbs.io.faults import Fault
from fgmbs.io.robots.located_entries import Entries, unknown_key, worded
from fgmbs.mechanisms.tree.description import RobotDescription


def to_json(description: RobotDescription) -> str:
    """The text of a description, which holds all of it; `of_json` reads it."""
    return json.dumps(dataclasses.asdict(description), ensure_ascii=False)


def of_json(text: str) -> RobotDescription:
    """The description that `to_json` gave this text."""
    return TypeAdapter(RobotDescription).validate_python(json.loads(text))


def to_robot_yaml(description: RobotDescription) -> str:
    """The text of a robot file in YAML, which holds all of a description: its fields, but for those with their default
    values and the name of the file that it came from."""
    data = _plain(dataclasses.replace(description, source=""))
    return yaml.dump(data, Dumper=yaml.SafeDumper, sort_keys=False, default_flow_style=None, width=120)


def is_robot(data: object) -> bool:
    """Whether data of a YAML file are the description of a robot."""
    return isinstance(data, dict) and "links" in data and "joints" in data


def parse_robot(text: str, source: str) -> RobotDescription:
    """The robot of a text as `to_robot_yaml` writes it.

    Args:
        source: What to call the text in messages.

    Raises:
        DescriptionError: All faults that show in single entries, each with its place. What only the whole can show is
            checked where a robot is made of it.
    """
    entries = Entries(text, source)
    entries.faults += _unknown(entries.located.data, RobotDescription)
    try:
        found = TypeAdapter(RobotDescription).validate_python(entries.located.data)
    except ValidationError as failure:
        entries.faults += [worded(error) for error in failure.errors()]
        entries.refuse()
        raise
    entries.refuse()
    return dataclasses.replace(found, source=source)


def _plain(value: Any) -> Any:
    """Without what is there by default."""
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if not dataclasses.is_dataclass(value):
        return value
    pairs = {field.name: (getattr(value, field.name), field.default) for field in dataclasses.fields(value)}
    return {key: _plain(one) for key, (one, default) in pairs.items() if one != default}


def _unknown(data: Any, kind: Any, path: tuple[str | int, ...] = ()) -> list[Fault]:
    """Keys that mean nothing."""
    if typing.get_origin(kind) is types.UnionType:
        kind = next(part for part in typing.get_args(kind) if part is not types.NoneType)
    if typing.get_origin(kind) is tuple and isinstance(data, list):
        inner = typing.get_args(kind)[0]
        return [fault for k, entry in enumerate(data) for fault in _unknown(entry, inner, (*path, k))]
    if not dataclasses.is_dataclass(kind) or not isinstance(data, dict):
        return []
    kinds = typing.get_type_hints(kind)
    found = [unknown_key((*path, key), kinds) for key in data if key not in kinds]
    return found + [fault for key in data if key in kinds for fault in _unknown(data[key], kinds[key], (*path, key))]
