"""Tables of numbers over time in text files."""

import math
import os
from collections.abc import Callable, Sequence

import numpy as np

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.signals.recordings.table import MOST_CHARACTERS, faulty, refuse_names


def read_table(
    path: str | os.PathLike[str],
    known: Sequence[str],
    what: str,
    columns: Sequence[str] | None = None,
    fewest: int = 1,
    name_faults: Callable[[Sequence[str]], list[str]] = lambda names: [],
) -> dict[str, np.ndarray]:
    """Columns of a table by name, `t` [s] with the others.

    The text has commas or white space between the columns, lines of comment after `#` or `%`, and one line of names,
    unless `columns` says them.

    Args:
        path: The file.
        known: Names that a column may have, besides `t`.
        what: What the file should be, for messages.
        columns: Names of the columns; they replace those of the file.
        fewest: Rows there must be.
        name_faults: What else is wrong with names of columns that are known.

    Raises:
        DescriptionError: The file cannot be read, or all its faults, each with its line.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(MOST_CHARACTERS + 1)
    except OSError as error:
        raise DescriptionError([f"{path}: expected {what}; found: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise DescriptionError([f"{path}: expected {what}; found no text in UTF-8: {error.reason}"]) from None
    if len(text) > MOST_CHARACTERS:
        raise DescriptionError([f"{path}: expected {what}; found more than {MOST_CHARACTERS:,} characters"])
    rows = [(k, fields) for k, line in enumerate(text.split("\n"), 1) if (fields := _fields(line))]
    if not rows:
        raise DescriptionError([f"{path}: expected {what}; found nothing but comments or empty lines"])

    names, where = columns, " columns: "
    if all(_number(field) is None for field in rows[0][1]):
        line, own = rows.pop(0)
        if names is None:
            names, where = own, f"{line}: "
    if names is None:
        raise DescriptionError(
            [
                f"{path}:{rows[0][0]}: expected a line of names, t and coordinates, or columns=('t', …) with a name "
                f"for each of the {len(rows[0][1])} columns; found neither"
            ]
        )
    refuse_names(str(path), names)
    faults = [f"{path}:{where}{text}" for text in [*_name_faults(names, ("t", *known)), *name_faults(names)]]
    values, more = _values(rows, len(names))
    if "t" in names and not more:
        t = values[:, list(names).index("t")]
        more = [
            f"{rows[k + 1][0]}: expected times that increase; found {t[k + 1]:.9g} s after {t[k]:.9g} s"
            for k in np.flatnonzero(np.diff(t) <= 0)
        ]
    if len(rows) < fewest:
        more.append(f" expected at least {fewest} row{'s' * (fewest > 1)} of numbers; found {len(rows)}")
    faults += [f"{path}:{text}" for text in more]
    if faults:
        raise faulty(str(path), faults)
    return dict(zip(names, values.T, strict=True))


def _fields(line: str) -> list[str]:
    """What stands in a line, without comments."""
    line = line.replace("%", "#").partition("#")[0].strip()
    return [field.strip() for field in line.split(",")] if "," in line else line.split()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _name_faults(names: Sequence[str], known: Sequence[str]) -> list[str]:
    faults = [] if "t" in names else ["expected a column 't', the time [s]; found none"]
    for name in dict.fromkeys(names):
        if name not in known:
            faults.append(f"expected names of columns; found '{name}'{nearest(name, known, 'columns')}")
        elif list(names).count(name) > 1:
            faults.append(f"expected each column once; found '{name}' {list(names).count(name)} times")
    return faults


def _values(rows: list[tuple[int, list[str]]], width: int) -> tuple[np.ndarray, list[str]]:
    """(numbers, faults), each fault with its line."""
    table, faults = [], []
    for line, fields in rows:
        numbers = [_number(field) for field in fields]
        if len(fields) != width:
            faults.append(f"{line}: expected {width} columns; found {len(fields)}")
        for field, number in zip(fields, numbers, strict=True):
            if number is None:
                faults.append(f"{line}: expected a number; found {repr(field) if field else 'nothing'}")
            elif not math.isfinite(number):
                faults.append(f"{line}: expected a finite number; found {field}")
        table.append(numbers)
    return (np.empty((0, width)) if faults else np.array(table, float).reshape(-1, width)), faults
