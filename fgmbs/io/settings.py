"""What settings of all experiments have in common: numbers, flags, how a robot is read, where the results go."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from fgmbs.mechanisms.planar.expressions import as_number


def _number(value: Any) -> float:
    number = as_number(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise PydanticCustomError("number", "a number")
    return float(number)


Number = Annotated[float, BeforeValidator(_number)]
Flag = Annotated[bool, Field(strict=True)]


class OfRobots(BaseModel):
    """How the file of a robot is read, see `fgmbs.load`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    floating: Flag = False
    """Its root floats."""
    locked: dict[str, Number] = {}
    """Joints that are held, with their coordinates [rad, m]."""
    separate: tuple[str, ...] = ()
    """Fixed joints whose links stay bodies of their own."""
    model: str | None = None
    """Which model of an SDF file."""

    @property
    def options(self) -> dict[str, Any]:
        """What `fgmbs.load` takes besides the file."""
        return dict(floating=self.floating, locked=self.locked or None, separate=self.separate, model=self.model)


class Output(BaseModel):
    """Where the results go, and how the file of a robot is read."""

    # Types only, so that the command line has its own words for them; `limits` checks the values.

    model_config = ConfigDict(frozen=True, extra="forbid")

    out: str = "results"
    """Folder for the results, relative to the working folder."""
    overwrite: Flag = False
    """Write into the folder although something is there."""
    plots: Flag = True
    """Draw the figures."""
    animate: Flag = False
    """Also draw an animation (GIF)."""
    robot: OfRobots = OfRobots()
    """How the file of a robot is read."""
