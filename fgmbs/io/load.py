"""Mechanism files of every format, told by their ending and what is in them."""

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from fgmbs.arguments import file_path
from fgmbs.errors import ArgumentError
from fgmbs.io.located_yaml import locate, read_text
from fgmbs.io.planar.load import load as load_planar
from fgmbs.io.robots.closures import with_closures
from fgmbs.io.robots.denavit_hartenberg import is_table, parse_table
from fgmbs.io.robots.mjcf import read_mjcf
from fgmbs.io.robots.sdf import read_sdf
from fgmbs.io.robots.stored import is_robot, parse_robot
from fgmbs.io.robots.urdf import read_urdf
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.mechanisms.tree.checks import remarks
from fgmbs.mechanisms.tree.description import RobotDescription
from fgmbs.mechanisms.tree.locked import with_locked, with_separate
from fgmbs.mechanisms.tree.robot import Robot, robot

_YAML = (".yaml", ".yml", ".json")
_ROBOTS = (".urdf", ".sdf", ".world", ".xml")
_WITH_LOOPS = (".sdf", ".world", ".xml")
"""Formats that say themselves where a loop is closed."""
_BESIDE = tuple(f"_closure{suffix}" for suffix in _YAML)


def load(
    path: str | os.PathLike[str],
    *,
    floating: bool = False,
    locked: Mapping[str, float] | None = None,
    separate: Sequence[str] = (),
    closures: str | os.PathLike[str] | None = None,
    model: str | None = None,
) -> PlanarMechanism | Robot:
    """The mechanism of a file: planar (YAML), or a robot (URDF, SDF, MJCF; in YAML a Denavit–Hartenberg table or what
    `fgmbs identify` writes).

    Warns of inertias that no link can have, by its name.

    Args:
        path: The file: .yaml, .urdf, .sdf, .world, or .xml of MuJoCo.
        floating: Whether the root of a robot floats; it is held to the ground otherwise.
        locked: Joints of a robot that are held, with their coordinates [rad, m].
        separate: Fixed joints of a robot, or locked ones, whose links stay bodies of their own: what such a joint
            transmits can be read (`ForceTorque`), and what it holds has numbers of its own, as TOOL.mass. What all
            others hold becomes a part of what holds it.
        closures: A file of joints that close loops; by default NAME_closure.yaml (or .json) beside the URDF file or
            table NAME, if it is there.
        model: Which model of an SDF file, where there are several.

    Raises:
        ArgumentError: An invalid argument.
        DescriptionError: The file is invalid; names every fault with its line, what was found and what is accepted.
    """
    file = Path(file_path("path", path))
    suffix = file.suffix.lower()
    if not isinstance(floating, bool):
        raise ArgumentError(f"floating: expected True or False; found {floating!r}")
    if model is not None and suffix not in (".sdf", ".world"):
        raise ArgumentError(f"model: expected no name of a model, because {path} is no SDF file; found {model!r}")
    if suffix not in _ROBOTS:
        if suffix in _YAML:
            data = locate(text := read_text(path, "a mechanism file")).data
            parse = parse_table if is_table(data) else parse_robot if is_robot(data) else None
            if parse is not None:
                return _made(parse(text, str(path)), file, floating, locked, separate, closures)
        options = dict(floating=floating, locked=locked, separate=separate, closures=closures)
        for argument, given in options.items():
            if given:
                raise ArgumentError(f"{argument}: expected none, because {path} is no file of a robot; found {given!r}")
        return load_planar(path)
    match suffix:
        case ".urdf":
            description = read_urdf(path)
        case ".xml":
            description = read_mjcf(path)
        case _:
            description = read_sdf(path, model=model, floating=floating)
    return _made(description, file, floating, locked, separate, closures)


def _made(
    description: RobotDescription,
    file: Path,
    floating: bool,
    locked: Mapping[str, float] | None,
    separate: Sequence[str],
    closures: str | os.PathLike[str] | None,
) -> Robot:
    if floating:
        description = dataclasses.replace(description, floating=True)
    if closures is None and file.suffix.lower() not in _WITH_LOOPS:
        beside = (file.with_name(file.stem + ending) for ending in _BESIDE)
        closures = next((one for one in beside if one.is_file()), None)
    if closures is not None:
        description = with_closures(description, closures)
    if locked is not None:
        description = with_locked(description, locked)
    if separate:
        description = with_separate(description, separate)
    made = robot(description)
    for text in remarks(description):
        warnings.warn(f"{file}: {text}", stacklevel=3)
    return made
