"""Mechanisms as texts: files, and what is kept with results."""

from fgmbs.io.planar.load import to_yaml
from fgmbs.io.robots.stored import to_json, to_robot_yaml
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.mechanisms.tree.redescribed import redescribed
from fgmbs.mechanisms.tree.robot import Robot


def texts_of(mechanism: AbstractMechanism) -> dict[str, str]:
    """The text that describes a mechanism, by what it is: "mechanism", a mechanism file; "robot", the description of a
    robot; none where no file can."""
    match mechanism:
        case PlanarMechanism():
            return {"mechanism": to_yaml(mechanism.description)}
        case Robot():
            return {"robot": to_json(mechanism.description)}
    return {}


def file_of(mechanism: AbstractMechanism) -> str | None:
    """The text of a file that `fgmbs.load` makes this mechanism of, with its parameters; None where there is none."""
    match mechanism:
        case PlanarMechanism():
            return to_yaml(mechanism.description)
        case Robot():
            return to_robot_yaml(redescribed(mechanism))
    return None
