"""Tables of numbers in text files."""

import collections
import csv
import functools
import gzip
import re
import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from fgmbs.errors import DescriptionError
from fgmbs.signals.recordings.table import MOST_CHARACTERS, Column, Table, faulty, refuse_names

_EMPTY = frozenset({"", "na", "n/a", "null", "none"})
"""Fields that hold no number, in lower case."""


def read_text(path: str) -> Table:
    """The columns of a text with commas, semicolons, tabs or blanks between them.

    Comments begin with `#` or `%`. The line of names may be the last of them, as `numpy.savetxt` writes it; in a file
    without names, columns are called `0`, `1` ….

    Raises:
        DescriptionError: The file cannot be read, or its line of names is wrong.
    """
    lines = _lines(path)
    first = next((k for k, line in enumerate(lines) if line.strip() and not _is_comment(line)), None)
    if first is None:
        raise DescriptionError([f"{path}: expected a table of numbers; found nothing but comments or empty lines"])
    delimiter = next((sign for sign in ";\t," if sign in lines[first]), None)
    names, notes, line = _names(lines[first], delimiter), [], first
    if all(_number(field) is not None for field in names):
        above = _names(lines[first - 1].strip().lstrip("#% "), delimiter) if first else []
        if len(above) == len(names) and all(_number(field) is None for field in above):
            names, line = above, first - 1
        else:
            names = [str(k) for k in range(len(names))]
            notes.append(f"no line of names is given: columns are called {', '.join(names)}")
        first -= 1
    refuse_names(path, names)
    if twice := [name for name, count in collections.Counter(names).items() if name and count > 1]:
        raise DescriptionError(
            [
                f"{path}:{line + 1}: expected each column once; found '{name}' {names.count(name)} times"
                for name in twice
            ]
        )

    @functools.cache
    def rows() -> list[tuple[int, str]]:
        return [
            (k, text)
            for k, line in enumerate(lines[first + 1 :], first + 2)
            if (text := (line.replace("%", "#") if "%" in line else line).partition("#")[0].strip(" \r\n"))
        ]

    return Table(
        path,
        [Column.of(name) for name in names if name],
        lambda headers: _numbers(path, rows(), delimiter, names, headers),
        lambda header, row: f"{path}:{'' if row is None else f'{rows()[row][0]}:'} column '{header}': ",
        notes,
    )


def _lines(path: str) -> list[str]:
    try:
        with (gzip.open if path.lower().endswith(".gz") else open)(path, "rt", encoding="utf-8-sig") as file:
            text = file.read(MOST_CHARACTERS + 1)
    except UnicodeDecodeError as error:
        reason = f"no text in UTF-8: {error.reason}"
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = f"broken gzip: {error}"
    else:
        if len(text) <= MOST_CHARACTERS:
            return text.split("\n")
        reason = f"more than {MOST_CHARACTERS:,} characters"
    raise DescriptionError([f"{path}: expected a table of numbers; found: {reason}"])


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith(("#", "%"))


def _names(line: str, delimiter: str | None) -> list[str]:
    if delimiter is None:
        # Blanks stand between names, but also before and in a unit: angle [N m].
        return [match[0].strip('"') for match in re.finditer(r"[^\s\[(]+(?:\s*(?:\[[^\]]*\]|\([^)]*\)))?", line)]
    return [field.strip() for field in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]


def _fields(lines: Sequence[str], delimiter: str | None) -> list[list[str]]:
    """The fields of every line."""
    if delimiter is None:
        return [line.split() for line in lines]
    format = dict(delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        rows = list(csv.reader(lines, **format))
    except csv.Error:
        rows = []
    if len(rows) == len(lines):
        return rows
    rows = []  # a quote that stays open would take further lines in, and too long a field is refused
    for line in lines:
        try:
            rows.append(next(csv.reader([line], **format), []))
        except csv.Error:
            rows.append(line.split(delimiter))
    return rows


def _number(field: str) -> float | None:
    """The number in a field, nan if it is empty, None if it holds something else."""
    try:
        return float(field) if field.isascii() and "_" not in field else None
    except ValueError:
        return np.nan if field.strip().lower() in _EMPTY else None


def _numbers(
    path: str, rows: list[tuple[int, str]], delimiter: str | None, names: Sequence[str], headers: Sequence[str]
) -> Mapping[str, np.ndarray]:
    """Numbers of the columns that are asked for.

    A table of nothing but numbers is read as one; only others are taken apart into fields.

    Raises:
        DescriptionError: All fields that hold no number and all rows of another length, each with its line.
    """
    places = {name: k for k, name in enumerate(names)}
    wanted = [places[header] for header in headers]
    lines = [text for _, text in rows]
    width = len(names)
    if lines and all((line.count(delimiter) + 1 if delimiter else len(line.split())) == width for line in lines):
        try:
            table = np.loadtxt(lines, delimiter=delimiter, usecols=wanted, ndmin=2)
            return dict(zip(headers, table.T, strict=True))
        except ValueError:
            pass
    fields = _fields(lines, delimiter)
    faults = [
        (line, f"expected {width} columns; found {len(row)}")
        for (line, _), row in zip(rows, fields, strict=True)
        if len(row) != width
    ]
    columns = {}
    if not faults:
        for header, k in zip(headers, wanted, strict=True):
            column = [row[k] for row in fields]
            columns[header], odd = _column(column)
            faults += [(rows[j][0], f"column '{header}': expected a number; found '{column[j]}'") for j in odd]
    if faults:
        raise faulty(path, [f"{path}:{line}: {text}" for line, text in sorted(faults)])
    return columns


def _column(fields: list[str]) -> tuple[np.ndarray, list[int]]:
    """(numbers, rows that hold something else) of the fields of a column."""
    if not fields:
        return np.empty(0), []
    try:
        # A separator that is in no text: each field is a line of its own.
        filled = ["nan" if field.strip().lower() in _EMPTY else field for field in fields]
        return np.loadtxt(filled, delimiter="\x1f", comments=None, ndmin=1), []
    except ValueError:
        numbers = [_number(field) for field in fields]
        odd = [k for k, number in enumerate(numbers) if number is None]
        return np.empty(0) if odd else np.array(numbers, float), odd
