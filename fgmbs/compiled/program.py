"""Compiled functions whose programs are kept: in the process, and on disk beside what they were made of.

`program` is `equinox.filter_jit` with another memory. JAX keeps machine code by the text of a program, which has to be
traced and lowered first, and that takes longer than to read the machine code. A `Program` keeps it by what the text
follows from: the function, the structure of its arguments with everything in them that is no array, shapes and types,
the source of fgmbs, versions and options (`fgmbs.compiled.identity`). Where these cannot be told, as of a class that
is not fgmbs' own, it is traced and lowered once in every process.
"""

import functools
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree

from fgmbs.compiled import identity, store
from fgmbs.compiled.structure import Returned, Structure, split
from fgmbs.compiled.tracing import is_traced

_NONE: dict[str, Any] = {}
_FASTER = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
"""XLA's first way to emit kernels takes two thirds of the time that the second one does, and they are as fast. The
first level of optimization spares another tenth, of large programs a third; few become more than 5 % slower."""

FULLY = {"xla_backend_optimization_level": 3}
"""Options of a program that computes thousands of states of many coordinates by plain arithmetic, and is not large: it
is compiled as fast, and takes two thirds of the time."""

ONCE = {"xla_backend_optimization_level": 0}
"""Options of a program that hardly computes: it is compiled in two thirds of the time, and takes up to six times as
long. Not taken where its arguments are large."""
_LARGE = 1_000_000
"""Numbers in the arguments of a program."""


class _Entry:
    """A program: to be loaded or lowered, then compiled, by whoever needs it first; others wait for it."""

    def __init__(self):
        self.lowering, self.compiling = threading.Lock(), threading.Lock()
        self.lowered: Any = None
        self.compiled: Any = None

    def lower(self, program: "Program", structure: Structure, arrays: list[Any]) -> Any:
        """What is known of it then, machine code or not."""
        with self.lowering:
            if self.compiled is None and self.lowered is None:
                of = program.function, program.options, *structure, _shapes(arrays)
                number = identity.of(*of) if store.keeps() else None
                self.file = store.file_of(number)
                self.compiled = store.load(self.file, arrays)
                if self.compiled is None:
                    with _uncollected():
                        self.lowered = program.jitted(number).lower(structure, arrays)
            return self.compiled or self.lowered

    def finish(self, program: "Program", structure: Structure, arrays: list[Any]) -> Callable[..., Returned]:
        """Its machine code."""
        if self.compiled is None:
            self.lower(program, structure, arrays)
            with self.compiling:
                if self.compiled is None:
                    with store.alone(self.file):
                        options = _options(program.options, sum(array.size for array in arrays))
                        self.compiled = self.lowered.compile(compiler_options=options)
                    store.save(self.file, self.compiled)
                    self.lowered = None
        return self.compiled


@contextmanager
def _uncollected() -> Iterator[None]:
    """Tracing makes many objects, hardly any of which is garbage: to look for it among them takes up to a seventh of
    the time. Where threads overlap the first to end turns it on again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _options(own: dict[str, Any], size: int) -> dict[str, Any]:
    """Of XLA's compiler, for a program with options of its own and so many numbers in its arguments."""
    own = _NONE if own == ONCE and size > _LARGE else own
    options = {name: value for name, value in _FASTER.items() if _is_accepted(name)} | own
    if jax.config.read("jax_disable_most_optimizations"):
        options.pop("xla_backend_optimization_level", None)
    return options


@functools.cache
def _is_accepted(name: str) -> bool:
    """Whether this version of the compiler knows an option."""
    try:
        jax.jit(lambda x: x).lower(0.0).compile(compiler_options={name: _FASTER[name]})
    except jax.errors.JaxRuntimeError:
        return False
    return True


_ENTRIES: dict[Any, _Entry] = {}


def forget() -> None:
    """Drops the programs of this process, as `jax.clear_caches` does with those of JAX."""
    _ENTRIES.clear()


class Program:
    """A function of pytrees, compiled; made by `program`."""

    def __init__(self, function: Callable[..., PyTree], options: dict[str, Any] = _NONE):
        self.function, self.options = function, options
        functools.update_wrapper(self, function)
        self.traced = self.jitted()

    def jitted(self, number: str | None = None) -> Callable[..., Returned]:
        """The function, as JAX compiles it.

        Args:
            number: Becomes part of its name, so that JAX compiles it, and does not read it from its own cache: what is
                read from there cannot be written down again.
        """

        def flat(structure, arrays):
            args, kwargs = structure.filled(arrays)
            return Returned.of(self.function(*args, **kwargs))

        flat.__name__ = self.__name__ if number is None else f"{self.__name__}_{number[:16]}"
        return jax.jit(flat, static_argnums=0)

    def __call__(self, *args, **kwargs):
        arrays, structure = split((args, kwargs))
        if _as_usual(arrays):
            return self.traced(structure, arrays).tree
        return self._entry(structure, arrays).finish(self, structure, arrays)(arrays).tree

    def ahead(self, *args, **kwargs) -> Callable[[], Any]:
        """Traces and lowers it for such arguments, if that has to be; what compiles it then."""
        arrays, structure = split((args, kwargs))
        entry = self._entry(structure, arrays)
        entry.lower(self, structure, arrays)
        return lambda: entry.finish(self, structure, arrays)

    def like(self, *args, **kwargs) -> PyTree:
        """Zeros in the shape of what it returns for such arguments, which is not computed."""
        arrays, structure = split((args, kwargs))
        shapes = self._entry(structure, arrays).lower(self, structure, arrays).out_info
        return jax.tree.map(lambda leaf: jax.device_put(np.zeros(leaf.shape, leaf.dtype)), shapes).tree

    def _entry(self, structure: Structure, arrays: list[Any]) -> _Entry:
        key = self, structure, _shapes(arrays), identity.options_of_jax()
        return _ENTRIES.setdefault(key, _Entry())


def program(function: Callable[..., PyTree] | None = None, **options: Any) -> Any:
    """A function as a `Program`: arrays in its arguments may differ from call to call, all else is compiled in.

    Args:
        function: A function of a module.
        options: Of XLA's compiler.
    """
    if function is None:
        return functools.partial(program, **options)
    return Program(function, options)


def _shapes(arrays: list[Any]) -> tuple[Any, ...]:
    return tuple((x.shape, x.dtype, getattr(x, "weak_type", False)) for x in arrays)


def _as_usual(arrays: list[Any]) -> bool:
    """Whether it is JAX that has to decide: while a function is traced, of arrays on chosen devices, and for who looks
    for NaN."""
    if any(isinstance(x, Tracer) or getattr(x, "committed", False) for x in arrays) or is_traced(jnp.zeros(())):
        return True
    config = jax.config
    return bool(config.jax_default_device or config.jax_debug_nans or config.jax_debug_infs or config.jax_disable_jit)
