"""Descriptions of robots as text and back, to be kept with results."""

import dataclasses
import json

from pydantic import TypeAdapter

from fgmbs.mechanisms.tree.description import RobotDescription


def to_json(description: RobotDescription) -> str:
    """The text of a description, which holds all of it; `of_json` reads it."""
    return json.dumps(dataclasses.asdict(description), ensure_ascii=False)


def of_json(text: str) -> RobotDescription:
    """The description that `to_json` gave this text."""
    return TypeAdapter(RobotDescription).validate_python(json.loads(text))
