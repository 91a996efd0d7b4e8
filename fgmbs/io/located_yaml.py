"""YAML as plain Python data together with the place of every key and value.

Stricter than PyYAML where PyYAML (YAML 1.1) says something else than the writer meant: a key that is there twice is a
fault instead of the last one winning; a number with a leading zero, a base or a colon stays a text (`012` would be
ten, `1:30` ninety), which no number field accepts; keys are always texts (`no: 1` is the key 'no').
"""

import math
import os
from typing import Any, NamedTuple

import yaml

from fgmbs.arguments import file_path
from fgmbs.errors import DescriptionError
from fgmbs.io.faults import Fault, Place
from fgmbs.mechanisms.planar.description import Path
from fgmbs.mechanisms.planar.expressions import LONGEST, as_number

MOST_BYTES = 250_000
"""Size of a file, at most."""
MOST_NODES = 50_000
"""Values a file may have once its aliases are written out."""
DEEPEST = 50
"""Lists and mappings within each other, at most."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C is twenty times as fast."""
_TAG = "tag:yaml.org,2002:"


def read_text(path: str | os.PathLike[str], what: str) -> str:
    """The text of a file.

    Args:
        path: The file.
        what: What it should be, for messages.

    Raises:
        ArgumentError: The path is none.
        DescriptionError: It cannot be read, or is no UTF-8.
    """
    try:
        with open(file_path("path", path), "rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise DescriptionError([f"{path}: expected {what} of at most {MOST_BYTES:,} bytes; found more"])
        return content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise DescriptionError(
            [f"{path}: expected text in UTF-8; found byte 0x{error.object[error.start]:02x}"]
        ) from None
    except OSError as error:
        raise DescriptionError([f"{path}: expected {what}; found: {error.strerror}"]) from None


class Located(NamedTuple):
    """Data of a YAML text, the line and column of its keys and values, and the faults of the text itself."""

    data: Any
    keys: dict[Path, Place]
    values: dict[Path, Place]
    faults: list[Fault]

    def place(self, path: Path, *, of_key: bool = False) -> Place:
        """Line and column (from 1) of a value, or of its key, or of the nearest thing around it that is there."""
        if of_key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, (1, 1))


def locate(text: str) -> Located:
    """Reads a YAML text; `data` is None if it cannot be read at all."""
    located = Located(None, {}, {}, [])
    try:
        if place := _too_deep(text):
            depth = f"expected at most {DEEPEST} lists or mappings within each other; found more"
            return located._replace(faults=[_fault(depth, place)])
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        located.faults.append(_fault(f"expected YAML; found an error: {error.problem or error.context}", place))
    except yaml.reader.ReaderError as error:
        line, column = text.count("\n", 0, error.position) + 1, error.position - text.rfind("\n", 0, error.position)
        located.faults.append(_fault(f"expected a text; found the character U+{error.character:04X}", (line, column)))
    else:
        if root is not None:
            return located._replace(data=_Reader(located).read(root, ()))
    return located


def _too_deep(text: str) -> Place | None:
    """Where lists within lists … begin that would take long, or more of the stack than there is."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                return event.start_mark.line + 1, event.start_mark.column + 1
    except yaml.MarkedYAMLError as error:
        # The parser has a limit of its own, far above ours, and looks ahead.
        if error.problem_mark is None or "nesting depth" not in str(error.problem):
            raise
        return _too_deep(text[: error.problem_mark.index - 1])
    return None


def _fault(text: str, place: Place) -> Fault:
    return Fault((), text, place=place)


class _Reader:
    def __init__(self, located: Located):
        self.located = located
        self.around: list[int] = []
        self.count = 0

    def fault(self, path: Path, node: yaml.Node, text: str) -> None:
        self.located.faults.append(Fault(path, text, place=_place(node)))

    def read(self, node: yaml.Node, path: Path) -> Any:
        self.located.values[path] = _place(node)
        self.count += 1
        if self.count == MOST_NODES:
            self.fault(path, node, f"expected at most {MOST_NODES} values; found more once aliases are written out")
        if self.count >= MOST_NODES:
            return None
        if id(node) in self.around:
            self.fault(path, node, "expected a value; found an alias of what contains it")
            return None
        self.around.append(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.read(child, (*path, i)) for i, child in enumerate(node.value)]
            return self.scalar(node, path)
        finally:
            self.around.pop()

    def short(self, text: str, path: Path, node: yaml.Node) -> str:
        """A name or another text; one that is longer than an expression may be is a fault."""
        if len(text) > LONGEST:
            self.fault(path, node, f"expected at most {LONGEST} characters; found {len(text)}")
        return text[:LONGEST]

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.fault(path, key_node, "expected a name as key; found a list or mapping")
                continue
            key = self.short(key_node.value, path, key_node)
            below = (*path, key)
            if key in data:
                line = self.located.keys[below][0]
                self.fault(below, key_node, f"expected each key once; found '{key}' again, first in line {line}")
                continue
            self.located.keys[below] = _place(key_node)
            data[key] = self.read(child, below)
        return data

    def scalar(self, node: yaml.Node, path: Path) -> Any:
        text, kind = node.value, node.tag.removeprefix(_TAG)
        match kind:
            case "null":
                return None
            case "bool":
                return text.lower() in ("true", "yes", "on")
            case "int" | "float":
                if (number := as_number(text)) is None:
                    return float(text.replace(".", "")) if text[-3:].lower() in ("inf", "nan") else text
                return int(number) if kind == "int" and math.isfinite(number) else number
            case "str" | "timestamp" | "merge" | "value":
                return self.short(text, path, node)
        self.fault(path, node, f"expected a number or a text; found a value tagged '{node.tag}'")
        return None


def _place(node: yaml.Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1
