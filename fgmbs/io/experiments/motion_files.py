"""Files of desired motions of a mechanism."""

import os
from collections.abc import Sequence

import numpy as np

from fgmbs.io.experiments import motion
from fgmbs.mechanisms.base import AbstractMechanism


def read_motion(
    path: str | os.PathLike[str], mechanism: AbstractMechanism, columns: Sequence[str] | None = None
) -> tuple[np.ndarray, motion.Motion]:
    """(t, desired) of a table of a desired motion, as `inverse_dynamics` takes them.

    The text has commas or white space between the columns, comments after `#` or `%`, and one line of names: `t` [s],
    coordinates by name [m, rad] and, where they are known, both `d_NAME` and `dd_NAME`, their velocities and
    accelerations.

    Args:
        path: The file.
        mechanism: The mechanism that is to move so.
        columns: Names of the columns, for a file without a line of names; they replace those that are there.

    Returns:
        Times, and by coordinate name samples or tuples (values, velocities, accelerations).

    Raises:
        DescriptionError: The file cannot be read, or all its faults, each with its line.
    """
    return motion.read_motion(path, mechanism.coordinate_names, columns)
