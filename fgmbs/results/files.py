"""Files of datasets."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from fgmbs.arguments import file_path
from fgmbs.errors import ArgumentError

if TYPE_CHECKING:
    import xarray as xr


def write(dataset: "xr.Dataset", path: str | os.PathLike[str]) -> None:
    """Writes a dataset to a netCDF file, whole or not at all.

    Raises:
        ArgumentError: The file cannot be written.
    """
    with written_whole(Path(file_path("path", path))) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf")


def load_results(path: str | os.PathLike[str]) -> "xr.Dataset":
    """The dataset in a netCDF file.

    Raises:
        ArgumentError: There is no such file, or it is not a netCDF file.
    """
    import xarray as xr

    try:
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return dataset.load()
    except (OSError, ValueError) as error:
        raise ArgumentError(f"path: expected a netCDF file of results; found {str(path)!r}: {error}") from None


@contextlib.contextmanager
def written_whole(path: Path):
    """A temporary path beside `path` that takes its place once the block has ended well.

    Raises:
        ArgumentError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
    except OSError as error:
        raise ArgumentError(f"path: cannot write {str(path)!r}: {error.strerror}") from None
    try:
        yield Path(temporary)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
