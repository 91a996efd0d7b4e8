"""Tables of known motions, to compare results with."""

import os
from collections.abc import Sequence

import numpy as np

from fgmbs.errors import DescriptionError
from fgmbs.io.expressions import nearest


def read_truth(path: str | os.PathLike[str], coordinate_names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of a table of a known motion by name.

    A CSV file with lines of comment (`#`) and one line of names: `t` [s], coordinates by name [m, rad] and, if known,
    their velocities as `d_NAME` [m/s, rad/s].

    Raises:
        DescriptionError: The file cannot be read, or a column cannot be meant.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if line.strip() and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise DescriptionError([f"{path}: expected a table of a known motion; found: {error}"]) from None
    names = [name.strip() for name in lines[0].split(",")] if lines else []
    known = ["t", *coordinate_names, *(f"d_{name}" for name in coordinate_names)]
    faults = [f"expected names of columns; found '{name}'{nearest(name, known, 'columns')}" for name in names]
    faults = [text for name, text in zip(names, faults, strict=True) if name not in known]
    if "t" not in names:
        faults.insert(0, "expected a column 't', the time [s]; found none")
    try:
        table = np.loadtxt(lines[1:], delimiter=",", ndmin=2) if lines[1:] else np.empty((0, len(names)))
    except ValueError as error:
        faults.append(f"expected rows of numbers; found: {error}")
    else:
        if len(table) == 0 or table.shape[1] != len(names) or not np.isfinite(table).all():
            faults.append(f"expected rows of {len(names)} finite numbers; found {len(table)} of {table.shape[1]}")
    if faults:
        raise DescriptionError([f"{path}: {text}" for text in faults])
    return dict(zip(names, table.T, strict=True))
