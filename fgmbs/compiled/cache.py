"""Compiled programs, kept on disk between processes."""

import hashlib
import os
import platform
from pathlib import Path

import jax
import platformdirs
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from fgmbs.compiled import CACHE_VARIABLE, store
from fgmbs.errors import ArgumentError

_LARGEST = 1024**3
"""Size of the cache of JAX, above which what was not used for longest is dropped, as in `store` [bytes]."""
_PROGRAMS = "programs"
"""Folder in that of JAX's cache, of programs that are found without tracing; see `fgmbs.compiled.program`."""
_SHORTEST = 0.05
"""Compilation times below which a program is not worth a file [s]."""


def cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keeps compiled programs on disk: another process that asks the same compiles nothing.

    To be called before the first computation; what was compiled before is not kept. The command line and the tests call
    it. A cache that JAX was given already (JAX_COMPILATION_CACHE_DIR) is left as it is.

    Args:
        folder: Where; "off" keeps nothing. By default what the environment variable FGMBS_CACHE says, else the user's
            folder for caches. Folders that processors of different kinds share are safe.

    Returns:
        The folder in use, or None if nothing is kept.

    Raises:
        ArgumentError: The folder cannot be written to.
    """
    if (given := os.environ.get("JAX_COMPILATION_CACHE_DIR")) and folder is None:
        return Path(given)
    wanted = os.environ.get(CACHE_VARIABLE) if folder is None else os.fspath(folder)
    if wanted == "off":
        jax.config.update("jax_compilation_cache_dir", None)
        jax_cache.reset_cache()
        store.keep_in(None)
        return None
    path = Path(wanted) if wanted else Path(platformdirs.user_cache_dir("fgmbs", appauthor=False))
    own = path.expanduser().absolute() / _processor()
    try:
        own.mkdir(parents=True, exist_ok=True)
        if not os.access(own, os.W_OK):
            raise PermissionError(13, "Permission denied")
        _mend(own)
    except OSError as error:
        raise ArgumentError(
            f"cache: expected a folder that can be written to, or 'off'; found '{path}': {error.strerror}"
        ) from None
    jax.config.update("jax_compilation_cache_dir", str(own))
    jax.config.update("jax_compilation_cache_max_size", _LARGEST)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", _SHORTEST)
    store.keep_in(own / _PROGRAMS)
    jax_cache.reset_cache()  # JAX looks for its cache once, at the first compilation
    return own


def _mend(folder: Path) -> None:
    """Makes a cache of JAX one that can be written to, where a process was killed between the two files of a program.

    JAX (2026) reads when each program was last used before it keeps another, and fails where that is missing.
    """
    there = set(os.listdir(folder))
    for name in there:
        if name.endswith("-cache") and (used := f"{name.removesuffix('-cache')}-atime") not in there:
            (folder / used).write_bytes(bytes(8))  # long ago


def _processor() -> str:
    """A name for what programs are compiled for: machine code of one kind of processor may end another's process."""
    parts = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        parts += sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    except OSError:
        pass  # not Linux
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
