"""Recordings from files."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from fgmbs.arguments import by_name, file_path, finite_number, of_type, texts
from fgmbs.errors import ArgumentError, DescriptionError
from fgmbs.signals.recordings.arrays import read_netcdf, read_npz, read_parquet
from fgmbs.signals.recordings.recording import (
    Recording,
    faults_of_times,
    faults_of_values,
    note_of_no_unit,
    sampled,
    units_of,
)
from fgmbs.signals.recordings.table import Column, Table, faulty
from fgmbs.signals.recordings.texts import read_text
from fgmbs.signals.recordings.units import find_unit, unit_fault

_TEXTS = (".csv", ".txt", ".tsv", ".dat")
_ARRAYS = {
    ".npz": read_npz,
    **dict.fromkeys((".parquet", ".pq"), read_parquet),
    **dict.fromkeys((".nc", ".nc4", ".netcdf"), read_netcdf),
}


def read_recording(
    path: str | os.PathLike[str],
    columns: Mapping[str, str] | Sequence[str] | None = None,
    *,
    time: str = "t",
    time_unit: str | None = None,
    rate: float | None = None,
    units: Mapping[str, str] | None = None,
    offset: float = 0.0,
) -> Recording:
    """The recording in a file: CSV and other text (also gzipped), npz, Parquet or netCDF, by the end of its name.

    A unit is that of `units`, of the file (`angle [deg]`, `angle (deg)` or an attribute of netCDF), or SI; values are
    converted. Samples that are nan or empty are dropped signal by signal, so that one table may hold several rates. An
    array with a row for each time is read as the columns `name[0]`, `name[1]` …. Notes of the recording tell what was
    dropped, converted and assumed. A file has at most 10 000 columns and, unpacked, 200 million characters of text or
    100 million numbers.

    Args:
        columns: Names of columns, with or without their unit, by the name that the signal shall have, or a list of
            those that keep their names; by default every column but time.
        time: The column of times, or of time stamps in Parquet and npz, which are counted from the first.
        time_unit: The unit of times, if it is neither seconds nor said by the file.
        rate: Samples per second of a file that has no times [Hz]; the first sample is at 0 s.
        units: Units by name of a signal; one of `px` is that of `px[0]`, `px[1]` … too.
        offset: What is added to the times, where clocks of recordings differ [s].

    Raises:
        ArgumentError: There is no such column or unit, or no such kind of file.
        DescriptionError: The file cannot be read, or all its faults, each with its line or index.
        ImportError: The file is Parquet and pyarrow is not installed.
    """
    of_type("time", time, str, "the name of a column")
    offset = finite_number(offset, "offset")
    rate = None if rate is None else finite_number(rate, "rate")
    if time_unit is not None:
        of_type("time_unit", time_unit, str, "a unit, as 'ms'")
    table = _open(file_path("path", path), time)
    clock = _clock(table, time, rate)
    chosen = _choose(table, columns, clock)
    known = _units(table, chosen, {} if units is None else units)
    second = _unit_of_time(table, clock, time_unit)

    numbers = table.load(list(dict.fromkeys(column.header for column in (*chosen.values(), *filter(None, [clock])))))
    t, faults, notes = _times(table, clock, second or "s", numbers, rate or 1.0)
    for column in chosen.values():
        found = faults_of_values(numbers[column.header])
        faults += [f"{table.place(column.header, row)}{text}" for row, text in found]
    if faults:
        raise faulty(table.path, faults)

    notes = [*table.notes, *notes]
    if offset:
        notes.append(f"all signals: shifted by {offset:.6g} s")
    if columns is None:
        notes += [f"left out: {name}, {reason}" for name, reason in table.left_out.items()]
    signals = {}
    for name, column in chosen.items():
        signals[name], more = sampled(name, t + offset, numbers[column.header], known[name])
        notes += more
    bare = [time] * (clock is not None and second is None) + [name for name, unit in known.items() if unit is None]
    return Recording(signals, table.path, (*notes, *note_of_no_unit(bare)))


def _open(path: str, time: str) -> Table:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise DescriptionError([f"{path}: expected a recording; found: {error.strerror}"]) from None
    name = path.lower()
    if name.removesuffix(".gz").endswith(_TEXTS):
        return read_text(path)
    for suffix, read in _ARRAYS.items():
        if name.endswith(suffix):
            return read(path, time)
    raise ArgumentError(
        f"path: expected a file {', '.join((*_TEXTS, *_ARRAYS))}, of text also with .gz behind; found '{path}'"
    )


def _clock(table: Table, time: str, rate: float | None) -> Column | None:
    """The column of times, or None where the rate says them."""
    clock = table.find(time)
    if rate is not None and clock is not None:
        raise ArgumentError(f"rate: expected None, since {table.path} has times, '{time}'; found {rate}")
    if rate is not None and not rate > 0:
        raise ArgumentError(f"rate: expected a positive number of samples per second; found {rate}")
    if rate is None and clock is None:
        raise ArgumentError(f"time: {table.missing(time)}; a file without times needs rate=… [Hz]")
    return clock


def _choose(table: Table, columns: Mapping[str, str] | Sequence[str] | None, clock: Column | None) -> dict[str, Column]:
    """Columns by name of the signal."""
    if columns is None:
        chosen = {name: column for name, column in table.names.items() if column != clock}
    else:
        if isinstance(columns, Mapping):
            by_name("columns", columns)
        else:
            columns = {name: name for name in texts("columns", columns, "names of columns, in a list or by name")}
        chosen = {}
        for name, header in columns.items():
            of_type(f"columns[{name!r}]", header, str, "the name of a column")
            column = table.find(header)
            if column is None:
                raise ArgumentError(f"columns['{name}']: {table.missing(header)}")
            chosen[name] = column
    if not chosen:
        raise ArgumentError(f"columns: expected a column of {table.path} besides the times; found none")
    return chosen


def _units(table: Table, chosen: Mapping[str, Column], units: Mapping[str, str]) -> dict[str, str | None]:
    """Units by name of the signal, None where nobody says one."""
    given = units_of(chosen, units)
    known = {name: given.get(name, column.unit) for name, column in chosen.items()}
    if faults := [
        f"{table.place(chosen[name].header, None)}{unit_fault(unit)}; or tell what is meant, units={{'{name}': …}}, or "
        "choose other columns"
        for name, unit in known.items()
        if unit is not None and find_unit(unit) is None
    ]:
        raise faulty(table.path, faults)
    return known


def _unit_of_time(table: Table, clock: Column | None, time_unit: str | None) -> str | None:
    """The unit of times, None where nobody says it."""
    unit = time_unit if time_unit is not None or clock is None else clock.unit
    if unit is None or (find_unit(unit) or ("",))[0] == "s":
        return unit
    fault = unit_fault(unit, ("s",))
    if clock is None or time_unit is not None:
        raise ArgumentError(f"time_unit: {fault}")
    raise faulty(table.path, [f"{table.place(clock.header, None)}{fault}; or tell what is meant, time_unit=…"])


def _times(
    table: Table, clock: Column | None, unit: str, numbers: Mapping[str, np.ndarray], rate: float
) -> tuple[np.ndarray, list[str], list[str]]:
    """(times [s], faults, notes)."""
    if clock is None:
        t = np.arange(len(next(iter(numbers.values())))) / rate
        return t, [], [f"times are made from rate = {rate:.6g} Hz, the first at 0 s"]
    t = numbers[clock.header]
    faults = [f"{table.place(clock.header, row)}{text}" for row, text in faults_of_times(t, unit)]
    _, scale = find_unit(unit) or ("s", 1.0)
    return t * scale, faults, [f"{clock.name}: converted from {unit} to s"] if scale != 1 else []
