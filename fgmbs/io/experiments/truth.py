"""Tables of known motions, to compare results with."""

import os
from collections.abc import Sequence

import numpy as np

from fgmbs.io.tables import read_table


def read_truth(
    path: str | os.PathLike[str], coordinate_names: Sequence[str], force_names: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Columns of a table of a known motion by name.

    A table (see `read_table`) with a line of names: `t` [s], coordinates by name [m, rad] and, if known, their
    velocities as `d_NAME` [m/s, rad/s], and forces as `force_NAME` [N, N·m].

    Raises:
        DescriptionError: The file cannot be read, or all its faults.
    """
    rates, forces = (f"d_{name}" for name in coordinate_names), (f"force_{name}" for name in force_names)
    return read_table(path, (*coordinate_names, *rates, *forces), "a table of a known motion")
