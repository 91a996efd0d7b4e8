"""What all results have in common: a motion of a mechanism."""

from pathlib import Path
from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from fgmbs.mechanisms.base import AbstractMechanism
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

    def to_dataset(self) -> "xr.Dataset":
        """All of it with names and units; see `fgmbs.results`."""
        from fgmbs.results import to_dataset  # results build on problems

        return to_dataset(self)

    def save(self, path: str | Path) -> None:
        """Writes a netCDF file with names and units; see `fgmbs.results`."""
        from fgmbs.results import save  # results build on problems

        save(self, path)
