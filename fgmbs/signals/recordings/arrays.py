"""Tables of numbers in binary files: npz, Parquet and netCDF."""

import zipfile
from collections.abc import Mapping

import numpy as np

from fgmbs.errors import DescriptionError
from fgmbs.signals.recordings.table import Column, Table, refuse_names, refuse_numbers
from fgmbs.signals.recordings.units import split_header


def read_npz(path: str, time: str) -> Table:
    """The arrays of an npz file.

    Raises:
        DescriptionError: The file cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            # By the room that they take, as numbers of eight bytes.
            refuse_numbers(path, sum(part.file_size for part in file.zip.infolist()) // 8)
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, "an npz file of plain arrays", error) from None
    return _table(path, arrays, {}, time)


def read_parquet(path: str, time: str) -> Table:
    """The columns of a Parquet file; it needs pyarrow.

    Raises:
        DescriptionError: The file cannot be read.
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            f'{path}: Parquet files need {error.name}, which is not installed: pip install "fgmbs[parquet]"'
        ) from None
    try:
        about = pyarrow.parquet.read_metadata(path)
        refuse_numbers(path, about.num_rows * about.num_columns)
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise _unreadable(path, "a Parquet file", error) from None
    return _table(path, {name: table[name].to_numpy() for name in table.column_names}, {}, time)


def read_netcdf(path: str, time: str) -> Table:
    """The variables of a netCDF file and their attributes `units`.

    Raises:
        DescriptionError: The file cannot be read.
    """
    import xarray as xr

    try:
        with xr.open_dataset(path, decode_times=False, decode_timedelta=False) as dataset:
            refuse_numbers(path, sum(variable.size for variable in dataset.variables.values()))
            arrays = {str(name): variable.to_numpy() for name, variable in dataset.variables.items()}
            units = {
                str(name): str(variable.attrs["units"]).partition(" since ")[0]
                for name, variable in dataset.variables.items()
                if "units" in variable.attrs
            }
    except (OSError, ValueError) as error:
        raise _unreadable(path, "a netCDF file", error) from None
    return _table(path, arrays, units, time)


def _unreadable(path: str, what: str, error: Exception) -> DescriptionError:
    return DescriptionError([f"{path}: expected {what}; found: {str(error).partition(chr(10))[0]}"])


def _table(path: str, arrays: Mapping[str, np.ndarray], units: Mapping[str, str], time: str) -> Table:
    """The arrays that have a number for each time; a row for each time makes a column of each of its places."""
    arrays = {
        name: array.ravel() if array.size == max(array.shape, default=0) else array for name, array in arrays.items()
    }
    units, notes = dict(units), []
    steps = max((max(array.shape) for array in arrays.values() if array.ndim in (1, 2)), default=0)
    clock = next((name for name in arrays if time in (name, split_header(name)[0])), None)
    if clock is not None and arrays[clock].ndim == 1:
        stamps = arrays[clock]
        steps = len(stamps)
        if steps and stamps.dtype.kind == "M":
            arrays[clock], units[clock] = (stamps - stamps[0]) / np.timedelta64(1, "s"), "s"
            notes.append(f"{clock}: counted from {stamps[0]}")

    columns, numbers, left_out = [], {}, {}
    for name, array in arrays.items():
        if array.dtype.kind not in "iufb":
            left_out[name] = f"of type {array.dtype}, which is no number"
        elif array.ndim not in (1, 2) or steps not in array.shape:
            left_out[name] = f"of shape {array.shape}, which is not one number for each of {steps} times"
        elif array.ndim == 1:
            columns.append(Column.of(name, units.get(name)))
            numbers[name] = array
        else:
            whole = Column.of(name, units.get(name))
            for k, row in enumerate(array.T if len(array) == steps else array):
                columns.append(Column(f"{name}[{k}]", f"{whole.name}[{k}]", whole.unit))
                numbers[f"{name}[{k}]"] = row
    refuse_names(path, [column.header for column in columns])
    return Table(
        path,
        columns,
        lambda headers: {header: numbers[header].astype(float) for header in headers},
        lambda header, row: f"{path}: {header}{'' if row is None else f'[{row}]'}: ",
        notes,
        left_out,
    )
