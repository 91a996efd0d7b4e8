"""Mechanism files: text → description, with all faults of a file at once."""

import os
import warnings
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.io.faults import Fault, dotted, of_validation, repaired
from fgmbs.io.located_yaml import Located, locate, read_text
from fgmbs.io.planar import checks, references
from fgmbs.io.planar.evaluation import wanted
from fgmbs.mechanisms.planar import description as schema
from fgmbs.mechanisms.planar.description import MechanismDescription, Path
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism


def read_mechanism(path: str | os.PathLike[str]) -> MechanismDescription:
    """The description that a mechanism file gives.

    Warns about what is possible but may not be meant, such as a mechanism that is tied to nothing.

    Raises:
        DescriptionError: The file cannot be read, or all its faults.
    """
    text = read_text(path, "a mechanism file")
    return parse_mechanism(text, source=str(path))


def parse_mechanism(text: str, source: str = "<string>") -> MechanismDescription:
    """The description that the text of a mechanism file gives; see `read_mechanism`.

    Args:
        source: What to call the text in messages.
    """
    located = locate(text)
    found = list(located.faults)
    description = None
    if isinstance(located.data, Mapping):
        description, more = describe(located.data)
        found += more
    elif not found:
        found.append(Fault((), f"expected a mapping of (points, planar_bodies, …); found {schema.plain(located.data)}"))
    if found or description is None:
        raise DescriptionError(_lines(found, located, source))
    for line in _lines(list(references.remarks(description)), located, source):
        warnings.warn(line, stacklevel=3)
    return description


def describe(data: Mapping[str, Any]) -> tuple[MechanismDescription | None, list[Fault]]:
    """The description in plain data (mappings, lists, numbers, texts), and its faults."""
    data, unknown = _with_indices(data)
    try:
        description = MechanismDescription.model_validate(data)
    except ValidationError as failure:
        # Check what is left too, so that all faults are reported at once.
        remains, kept = repaired(data, failure)
        try:
            description = MechanismDescription.model_validate(remains)
        except ValidationError:
            return None, unknown + of_validation(failure, data, lambda path: wanted(None, path))
        found = of_validation(failure, data, lambda path: wanted(description, _mapped(path, kept, back=True)))
        found += [
            fault._replace(path=_mapped(fault.path, kept)) for fault in checks.faults(description, incomplete=kept)
        ]
        return None, unknown + [fault for fault in found if fault.path not in {f.path for f in unknown}]
    return (None if unknown else description), unknown + checks.faults(description)


def load(path: str | os.PathLike[str]) -> PlanarMechanism:
    """The mechanism of a YAML file of at most 250 kB; names and expressions have at most 1000 characters.

    Raises:
        DescriptionError: The file is invalid; names every fault with its line, key and what is accepted.
    """
    return PlanarMechanism.from_description(read_mechanism(path))


def to_yaml(description: MechanismDescription) -> str:
    """The text of a mechanism file that gives this description; points and bodies are referred to by index."""
    data = description.model_dump(exclude_defaults=True)
    for key in ("parameters", "initial_velocities"):
        if key in data:
            data[key] = dict(data[key])
    data = {key: data[key] for key in sorted(data, key=["name", *MechanismDescription.model_fields].index)}
    return yaml.dump(_lists(data), Dumper=yaml.SafeDumper, sort_keys=False, default_flow_style=None, width=120)


def of_yaml(text: str) -> MechanismDescription:
    """The description that `to_yaml` gave this text, whatever numbers an estimate ended with."""
    return MechanismDescription.model_validate(locate(text).data)


def _lists(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _lists(value) for key, value in data.items()}
    return [_lists(value) for value in data] if isinstance(data, (list, tuple)) else data


def _lines(found: list[Fault], located: Located, source: str) -> list[str]:
    """Faults as lines in the order of the file; of several at one place the first says it."""
    placed: dict[tuple, Fault] = {}
    for fault in found:
        placed.setdefault((fault.place or located.place(fault.path, of_key=fault.of_key), fault.path), fault)
    return [
        f"{source}:{line}:{column}: {dotted(path)}{': ' if path else ''}{fault.text}"
        for ((line, column), path), fault in sorted(placed.items(), key=lambda item: item[0][0])
    ]


def _mapped(path: Path, kept: Mapping[str, list[int]], *, back: bool = False) -> Path:
    """A path in repaired data as a path in the data of the file, or `back`."""
    section, *rest = path
    if section not in kept or not rest or not isinstance(rest[0], int):
        return path
    indices = kept[str(section)]
    index = (indices.index(rest[0]) if rest[0] in indices else len(indices)) if back else indices[rest[0]]
    return section, index, *rest[1:]


def _with_indices(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Data with indices in place of the names of points and bodies, and the names that are not known."""
    unknown: list[Fault] = []
    indices = {"point": _indices_of(data.get("points")), "body": _indices_of(data.get("planar_bodies"))}

    def resolved(value: Any, kind: str, path: Path) -> Any:
        if isinstance(value, list):
            return [resolved(part, kind, (*path, k)) for k, part in enumerate(value)]
        if not isinstance(value, str) or value in indices[kind]:
            return indices[kind].get(value, value) if isinstance(value, str) else value
        advice = nearest(value, indices[kind], f"names of {'points' if kind == 'point' else 'bodies'}")
        unknown.append(Fault(path, f"expected an index or the name of a {kind}; found '{value}'{advice}"))
        return value

    result = dict(data)
    sections = ("planar_bodies", "relative_coordinates", "constraints", "springs", "dampers", "forces", "actuators")
    for section in sections:
        if not isinstance(entries := data.get(section), list):
            continue
        result[section] = [dict(entry) if isinstance(entry, Mapping) else entry for entry in entries]
        for i, entry in enumerate(result[section]):
            if isinstance(entry, dict):
                for key in ("points", "point", "line", "body"):
                    if key in entry and (key != "line" or entry.get("type") == "mobile_slider"):
                        entry[key] = resolved(entry[key], "body" if key == "body" else "point", (section, i, key))
    return result, unknown


def _indices_of(entries: Any) -> dict[str, int]:
    """Index by name of the entries that have one; of the first, should a name be there twice."""
    found: dict[str, int] = {}
    for i, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, Mapping) and isinstance(name := entry.get("name"), str):
            found.setdefault(name, i)
    return found
