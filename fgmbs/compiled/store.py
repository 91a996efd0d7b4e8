"""Machine code on disk, read without tracing anything."""

import contextlib
import functools
import math
import os
import pickle
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable

from fgmbs.compiled.structure import Blank, Returned

_LARGEST = 1024**3
"""Size of the folder, above which what was not used for longest is dropped [bytes]."""
_SHORTEST = "jax_persistent_cache_min_compile_time_secs"
"""Of JAX: compilation time below which its cache does not take a program."""
_folder: Path | None = None
_alone, _before = 0, 0.0
"""Programs that are being compiled to be kept here, and what JAX was told before."""
_counting = threading.Lock()


def keep_in(folder: Path | None) -> None:
    """Where programs are kept from now on; None keeps nothing."""
    global _folder
    _folder = folder


def keeps() -> bool:
    """Whether programs are kept."""
    return _folder is not None


def file_of(number: str | None) -> Path | None:
    """The file of a program by its number; None if it is not kept."""
    return None if number is None or _folder is None else _folder / number


@contextlib.contextmanager
def alone(file: Path | None) -> Iterator[None]:
    """For the compilation of a program that will be kept in a file: JAX keeps no copy, which nobody would read.

    To write it takes up to a tenth of the compilation. What other threads compile meanwhile JAX does not keep, either.
    """
    global _alone, _before
    if file is None:
        yield
        return
    with _counting:
        if not _alone:
            _before = getattr(jax.config, _SHORTEST)
            jax.config.update(_SHORTEST, math.inf)
        _alone += 1
    try:
        yield
    finally:
        with _counting:
            _alone -= 1
            if not _alone:
                jax.config.update(_SHORTEST, _before)


def load(file: Path | None, arrays: list[Any]) -> Any:
    """The program for such arrays, as `jax.jit(…).lower(…).compile()` gives it; None if there is none."""
    if file is None or not file.exists():
        return None
    try:
        _ready()
        code, returned = pickle.loads(file.read_bytes())
        in_tree, out_tree = (jax.tree.structure(tree) for tree in (((arrays,), {}), Returned.of(returned)))
        compiled = serialize_executable.deserialize_and_load(code, in_tree, out_tree)
        os.utime(file)  # it is in use
    except Exception:  # of another machine, cut off, or gone meanwhile: as if it were not there
        return None
    return compiled


@functools.cache
def _ready() -> None:
    """Machine code calls a library, whose functions JAX looks up when it lowers the first call of one."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), float))


def save(file: Path | None, compiled: Any) -> None:
    """Keeps a program, if that is possible."""
    if file is None:
        return
    try:
        code, _, out_tree = serialize_executable.serialize(compiled)
        returned = jax.tree.unflatten(out_tree, [Blank()] * out_tree.num_leaves)
        content = pickle.dumps((code, returned.tree))
    except Exception:  # it calls Python, or returns what cannot be written down
        return
    with contextlib.suppress(OSError):  # no space, or no right to write
        file.parent.mkdir(parents=True, exist_ok=True)
        _make_room(file.parent, len(content))
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix="new-", delete=False) as new:
            new.write(content)
        os.replace(new.name, file)


def _make_room(folder: Path, size: int) -> None:
    """Drops what was not used for longest until there is room."""
    files = sorted((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in os.scandir(folder))
    total = size + sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= _LARGEST:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
