"""Columns of a file, by the names that its reader found."""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.signals.recordings.units import split_header

MOST_CHARACTERS = 200_000_000
"""Of a text, unpacked, at most."""
MOST_NUMBERS = 100_000_000
"""In a binary file, unpacked, at most."""
_MOST_COLUMNS, _LONGEST_NAME = 10_000, 1000
"""Columns of a file, and characters of their names, at most."""
_MOST_FAULTS = 20
"""Faults of one file that are reported one by one."""


@dataclasses.dataclass(frozen=True)
class Column:
    """A column as the file has it."""

    header: str
    """What stands in the file."""
    name: str
    """The header without its unit."""
    unit: str | None = None
    """The unit as the file says it."""

    @staticmethod
    def of(header: str, unit: str | None = None) -> "Column":
        """The column of a header 'angle [deg]', or of a name beside its unit."""
        name, own = split_header(header)
        return Column(header, name, own if unit is None else unit)


@dataclasses.dataclass(frozen=True)
class Table:
    """A file of columns, whose numbers are read when they are chosen."""

    path: str
    columns: Sequence[Column]
    load: Callable[[Sequence[str]], Mapping[str, np.ndarray]]
    """Numbers by header, empty fields as nan; raises `DescriptionError` with all that are none."""
    place: Callable[[str, int | None], str]
    """Where a row of a column stands, to begin a text about it."""
    notes: Sequence[str] = ()
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What else is in the file, with the reason why it is no column."""

    @property
    def names(self) -> dict[str, Column]:
        """Columns by name; those that differ in nothing but their units by header."""
        count = collections.Counter(column.name for column in self.columns)
        return {column.name if count[column.name] == 1 else column.header: column for column in self.columns}

    def find(self, name: str) -> Column | None:
        """The column of a header or a name."""
        return {column.header: column for column in self.columns}.get(name, self.names.get(name))

    def missing(self, name: str) -> str:
        """'expected a column …; found …' for a name that is none."""
        reason = f", {self.left_out[name]}" if name in self.left_out else ""
        return f"expected a column of {self.path}; found '{name}'{reason}{nearest(name, self.names, 'columns')}"


def refuse_numbers(path: str, count: int) -> None:
    """Refuses a file of more numbers than can be kept at a time.

    Raises:
        DescriptionError: It has more.
    """
    if count > MOST_NUMBERS:
        raise DescriptionError([f"{path}: expected at most {MOST_NUMBERS:,} numbers; found {count:,}"])


def refuse_names(path: str, names: Sequence[str]) -> None:
    """Refuses names of columns that are too many or too long.

    Raises:
        DescriptionError: They are.
    """
    if len(names) > _MOST_COLUMNS:
        raise DescriptionError([f"{path}: expected at most {_MOST_COLUMNS:,} columns; found {len(names):,}"])
    if (longest := max(map(len, names), default=0)) > _LONGEST_NAME:
        expected = f"names of columns of at most {_LONGEST_NAME:,} characters"
        raise DescriptionError([f"{path}: expected {expected}; found one of {longest:,}"])


def faulty(path: str, faults: Sequence[str]) -> DescriptionError:
    """The error of a file with these faults, the first of which are reported one by one."""
    if len(faults) > _MOST_FAULTS:
        faults = [*faults[:_MOST_FAULTS], f"{path}: and {len(faults) - _MOST_FAULTS} more faults"]
    return DescriptionError(list(faults))
