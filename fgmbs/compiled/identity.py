"""What a program follows from, as one number that is the same in every process."""

import dataclasses
import enum
import functools
import hashlib
import importlib.metadata
import math
import os
import platform
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from pydantic import BaseModel

_KNOWN = {"fgmbs", "jax", "jaxlib", "equinox", "jaxopt", "numpy", "builtins", "operator", "functools", "math"}
"""Packages whose functions and classes are told by their names: their source is known by the digest or a version."""
_ROOMS = {"jax", "jax.lax", "jax.nn", "jax.numpy", "math", "numpy"}
"""Modules that functions of others may name."""
_VERSIONS = ("jax", "jaxlib", "equinox", "jaxopt", "optax", "numpy")


class Untold(Exception):
    """Something whose meaning another process could not know by name and value."""


def of(function: Callable[..., Any], options: Any, tree: Any, others: tuple[Any, ...], shapes: Any) -> str | None:
    """The number of a program, in hexadecimal; None where it has parts that cannot be told.

    Args:
        function: What is compiled.
        options: Of the compiler.
        tree: Structure of its arguments.
        others: Leaves of them that are no arrays.
        shapes: Shapes and types of the arrays.
    """
    digest = hashlib.sha256(_surroundings())
    try:
        for part in _told((function, options, tree, others, shapes, options_of_jax())):
            digest.update(part.encode())
            digest.update(b"\0")
    except (Untold, RecursionError):
        return None
    return digest.hexdigest()


def options_of_jax() -> tuple[Any, ...]:
    """Those on which a program depends."""
    config = jax.config
    precision = config.jax_enable_x64, config.jax_default_matmul_precision, config.jax_numpy_dtype_promotion
    return *precision, config.jax_default_prng_impl, config.read("jax_disable_most_optimizations")


@functools.cache
def _surroundings() -> bytes:
    """A digest of the source of fgmbs, of versions, and of what programs run on."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _VERSIONS]
    device = jax.devices()[0]
    place = [sys.version, platform.system(), device.platform, device.device_kind, str(len(jax.devices()))]
    place.append(os.environ.get("XLA_FLAGS", ""))
    digest.update("\n".join((*versions, *place)).encode())
    return digest.digest()


def _told(x: Any, *, own: bool = True) -> Iterator[str]:
    """A value as texts; equal ones give the same, and different ones others.

    Args:
        x: The value.
        own: It is not used by a function of somebody else, which may do anything with what it calls.
    """
    told = functools.partial(_told, own=own)
    match x:
        case None | bool() | int() | float() | complex() | str() | bytes() if type(x).__module__ == "builtins":
            yield f"{type(x).__name__} {x!r}"
        case enum.Enum():
            yield f"{_name(type(x))} {x.name}"
        case types.FunctionType() if not _is_known(x):
            yield from _of_function(x)
        case type() | types.FunctionType() | types.BuiltinFunctionType() if own or x.__name__ in _harmless():
            yield _name(x)
        case types.ModuleType() if x.__name__ in _ROOMS:
            yield f"module {x.__name__}"
        case types.CodeType():
            yield from told((x.co_code, x.co_exceptiontable, x.co_flags, x.co_names, x.co_varnames, x.co_freevars))
            yield from told((x.co_cellvars, x.co_argcount, x.co_kwonlyargcount, x.co_posonlyargcount, x.co_consts))
        case functools.partial():
            yield "partial"
            yield from told((type(x), x.func, x.args, x.keywords))
        case np.ndarray() | np.generic() | jax.Array() if not isinstance(x, Tracer) and x.dtype != object:
            yield f"numbers {x.dtype.str} {np.shape(x)} {np.asarray(x).tobytes().hex()}"
        case jax.tree_util.SequenceKey() | jax.tree_util.DictKey() | jax.tree_util.GetAttrKey():
            yield f"{type(x).__name__} {x}"
        case np.dtype():
            yield f"dtype {x.str}"
        case dict():
            yield from _several(told, x, [part for pair in x.items() for part in pair])
        case frozenset() | set():
            yield from _several(told, x, sorted("\0".join(told(part)) for part in x))
        case tuple() | list():
            yield from _several(told, x, x)
        case BaseModel():
            # Its fields: to go through it gives what it has cached, too.
            yield from _several(told, x, [getattr(x, name) for name in type(x).model_fields])
        case jax.tree_util.PyTreeDef():
            yield from told(jax.tree.unflatten(x, range(x.num_leaves)))
        case _ if hasattr(x, "compared"):
            yield _name(type(x))
            yield from told(x.compared)
        case _ if dataclasses.is_dataclass(x):
            yield from _several(told, x, [getattr(x, field.name, "missing") for field in dataclasses.fields(x)])
        case _:
            raise Untold(type(x))


def _of_function(x: types.FunctionType) -> Iterator[str]:
    """A function of somebody else, by what it does: its instructions, and everything that they use.

    Raises:
        Untold: It uses something that may be another thing in another process: files, random numbers, the time.
    """
    names = sorted({name for code in _codes(x.__code__) for name in code.co_names})
    used = {name: x.__globals__[name] for name in names if name in x.__globals__}
    try:
        cells = tuple(cell.cell_contents for cell in x.__closure__ or ())
    except ValueError:  # one that is still empty
        raise Untold(x) from None
    if not _harmless().issuperset(set(names) - set(used)):
        raise Untold(x)
    yield "function"
    yield from _told((x.__code__, x.__defaults__, x.__kwdefaults__, cells, used), own=False)


@functools.cache
def _harmless() -> frozenset[str]:
    """Names of builtins and attributes whose meaning is the same in every process."""
    builtins = {"abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "len", "list", "map", "max", "min"}
    builtins |= {"pow", "range", "reversed", "round", "slice", "sorted", "sum", "tuple", "zip"}
    mathematics = {name for room in (jax.numpy, jax.lax, jax.nn, math, jax.Array) for name in dir(room)}
    rooms = {"jax", "numpy", "lax", "nn", "at", "set", "multiply", "apply"}
    return frozenset((builtins | mathematics | rooms) - {"load", "fromfile", "save", "savez", "tofile", "dump"})


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """That of a function, and of those that are made in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


def _several(told: Callable[[Any], Iterator[str]], x: Any, parts: Any) -> Iterator[str]:
    yield f"{_name(type(x))} {len(parts)}"
    for part in parts:
        yield from told(part)


def _name(x: Any) -> str:
    """Where a class or function of a module is found.

    Raises:
        Untold: It is found nowhere, or where its source is not known.
    """
    if not _is_known(x):
        raise Untold(x)
    return f"{x.__module__} {x.__qualname__}"


def _is_known(x: Any) -> bool:
    package = (getattr(x, "__module__", None) or "").split(".")[0]
    return package in _KNOWN and "<" not in getattr(x, "__qualname__", "<")
