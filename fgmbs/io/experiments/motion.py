"""Tables of desired motions, for inverse dynamics."""

import os
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from fgmbs.io.tables import read_table

Motion: TypeAlias = dict[str, np.ndarray | tuple[np.ndarray, np.ndarray, np.ndarray]]
"""Samples, or (values, velocities, accelerations), by coordinate name."""


def read_motion(
    path: str | os.PathLike[str], coordinate_names: Sequence[str], columns: Sequence[str] | None = None
) -> tuple[np.ndarray, Motion]:
    """(times, desired motion) of a table; see `fgmbs.read_motion`.

    Raises:
        DescriptionError: The file cannot be read, or all its faults.
    """
    triples = [(name, f"d_{name}", f"dd_{name}") for name in coordinate_names]

    def faults(names: Sequence[str]) -> list[str]:
        found = [] if set(names) - {"t"} else ["expected columns of coordinates besides 't'; found none"]
        for value, rate, acceleration in triples:
            given = [key for key in (value, rate, acceleration) if key in names]
            if given not in ([], [value], [value, rate, acceleration]):
                found.append(
                    f"expected '{value}', '{rate}' and '{acceleration}', or '{value}' alone; found "
                    + " and ".join(f"'{key}'" for key in given)
                )
        return found

    known = [key for keys in zip(*triples, strict=True) for key in keys]
    table = read_table(path, known, "a table of a desired motion", columns, fewest=3, name_faults=faults)
    desired: Motion = {}
    for value, rate, acceleration in triples:
        if rate in table:
            desired[value] = table[value], table[rate], table[acceleration]
        elif value in table:
            desired[value] = table[value]
    return table["t"], desired
