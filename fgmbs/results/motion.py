"""What all results have in common: a motion of a mechanism."""

import abc
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import of_type
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.results.contents import Contents, versions
from fgmbs.results.files import write
from fgmbs.status import Status

if TYPE_CHECKING:
    import xarray as xr


class AbstractMotion(eqx.Module):
    """A motion, step by step: of `simulate`, `inverse_dynamics`, `hybrid_dynamics` or `smooth`."""

    mechanism: eqx.AbstractVar[AbstractMechanism]
    """With the parameters that it moved with."""
    t: eqx.AbstractVar[Float[Array, "*batch steps"]]
    """Time [s]."""
    q: eqx.AbstractVar[Float[Array, "*batch steps n"]]
    """Coordinates [m, rad]."""
    dq: eqx.AbstractVar[Float[Array, "*batch steps nv"]]
    """Velocities [m/s, rad/s]."""
    ddq: eqx.AbstractVar[Float[Array, "*batch steps nv"]]
    """Accelerations [m/s², rad/s²]."""
    multipliers: eqx.AbstractVar[Float[Array, "*batch steps m"]]
    """Multipliers λ of the constraints [N, N·m per unit of the constraint]."""
    step_status: eqx.AbstractVar[Status | None]
    """How each step ended; None where they were solved all at once."""
    status: eqx.AbstractVar[Status]
    """How the whole ended."""

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Names of q."""
        return self.mechanism.coordinate_names

    def state(self, step: int) -> dict[str, dict[str, float]]:
        """Coordinates and velocities at a step, as the arguments `start` and `start_velocities` of another question."""
        named = {
            "start": (self.coordinate_names, self.q[step]),
            "start_velocities": (self.mechanism.velocity_names, self.dq[step]),
        }
        return {key: dict(zip(names, np.asarray(x).tolist(), strict=True)) for key, (names, x) in named.items()}

    @abc.abstractmethod
    def contents(self) -> Contents:
        """What its dataset is made of."""

    def to_dataset(self) -> "xr.Dataset":
        """All of it with names and units; see `fgmbs.results`."""
        return to_dataset(self)

    def save(self, path: str | Path) -> None:
        """Writes a netCDF file with names and units; see `fgmbs.results`."""
        save(self, path)


def to_dataset(result: AbstractMotion, config: Mapping[str, Any] | None = None) -> "xr.Dataset":
    """A result as a dataset; batch axes become the dimensions `member`, `member_1`, …

    Args:
        config: Settings of the run, kept as JSON in the attribute `config`.
    """
    import xarray as xr

    variables, coordinates, attrs = result.contents()
    return xr.Dataset(
        {name: (dims, np.asarray(values), told) for name, (dims, values, told) in variables.items()},
        coords={
            name: (entry[0], np.asarray(entry[1]), *entry[2:]) if isinstance(entry, tuple) else entry
            for name, entry in coordinates.items()
        },
        attrs={"config": json.dumps(dict(config or {}))} | versions() | attrs,
    )


def save(result: AbstractMotion, path: str | os.PathLike[str]) -> None:
    """Writes a result to a netCDF file; see `write`.

    Raises:
        ArgumentError: It is no result, or the file cannot be written.
    """
    of_type("result", result, AbstractMotion, "a result of simulate, smooth …")
    write(to_dataset(result), path)
