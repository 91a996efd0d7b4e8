"""Checks of what users pass, before anything is compiled, and "did you mean".

Shapes are always checked, numbers only where they are known: inside `jax.jit`, `vmap` and `grad` traced ones pass.
"""

import difflib
import math
import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from fgmbs.errors import ArgumentError

Numbers: TypeAlias = Array | np.ndarray | Sequence | float | int
"""A number or an array of them as users write it."""

Known: TypeAlias = Array | np.ndarray
"""The same after the check: a numpy array where the numbers are known, else a traced one."""

_LISTED = 24
"""Names that are listed in a text, at most."""


def finite(argument: str, value: Numbers) -> Known:
    """`value` as an array.

    Raises:
        ArgumentError: It is no array of finite numbers.
    """
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value)):
        return jnp.asarray(value, dtype=float)
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{argument}: expected numbers; found {reprlib.repr(value)}") from None
    refuse(argument, array, ~np.isfinite(array), "finite numbers")
    return array


def of_type(argument: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Refuses a value of another type.

    Args:
        expected: What is accepted, in words; also how to come by it.

    Raises:
        ArgumentError: It is one.
    """
    if not isinstance(value, kinds):
        raise ArgumentError(f"{argument}: expected {expected}; found {type(value).__name__} {reprlib.repr(value)}")


def finite_number(value: Any, argument: str) -> float:
    """`value` as a float.

    Raises:
        ArgumentError: It is not a finite number.
    """
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ArgumentError(f"{argument}: expected a finite number; found {reprlib.repr(value)}")
    return number


def by_name(argument: str, value: Any, expected: str = "numbers by name, as in {'x': 1.0}") -> None:
    """Refuses what has no names.

    Raises:
        ArgumentError: It is no mapping, or one of its names is no text.
    """
    if not hasattr(value, "keys"):  # tables of other libraries have
        of_type(argument, value, Mapping, expected)
    for name in value:
        of_type(f"a name in {argument}", name, str, "a text")


def texts(argument: str, value: Any, expected: str) -> tuple[str, ...]:
    """One or several texts.

    Raises:
        ArgumentError: It is neither.
    """
    if isinstance(value, str):
        return (value,)
    of_type(argument, value, (list, tuple), expected)
    for one in value:
        of_type(argument, one, str, expected)
    return tuple(value)


def whole_number(argument: str, value: Any, least: int = 0) -> int:
    """`value` as an integer of 31 bits.

    Raises:
        ArgumentError: It is none, or too small or large.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value < 2**31:
        raise ArgumentError(f"{argument}: expected an integer of at least {least}; found {reprlib.repr(value)}")
    return int(value)


def file_path(argument: str, value: object) -> str:
    """The path of a file as a text.

    Raises:
        ArgumentError: It is none, or no file can have it.
    """
    of_type(argument, value, (str, os.PathLike), "the path of a file")
    path = str(os.fspath(value))  # type: ignore[arg-type]
    if "\0" in path:
        raise ArgumentError(f"{argument}: expected the path of a file; found {path!r}, with a NUL character")
    return path


def refuse(argument: str, array: np.ndarray, bad: np.ndarray | np.bool_, expected: str) -> None:
    """Refuses an array for the first of its bad entries.

    Raises:
        ArgumentError: There is one.
    """
    if np.any(bad):
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        name = f"{argument}[{', '.join(map(str, index))}] = " if index else ""
        raise ArgumentError(f"{argument}: expected {expected}; found {name}{array[index]:g}")


def points_and_times(points: Numbers, times: Numbers) -> tuple[Known, Known]:
    """`points`, (N, d) or (N,), and `times`, (N,), as arrays.

    Raises:
        ArgumentError: Other shapes, fewer than two points, numbers that are not finite, times that do not increase.
    """
    points, times = finite("points", points), finite("times", times)
    if points.ndim not in (1, 2):
        raise ArgumentError(f"points: expected shape (N, d) or (N,); found shape {points.shape}")
    if points.shape[0] < 2:
        raise ArgumentError(f"points: expected at least two; found {points.shape[0]}")
    if times.shape != points.shape[:1]:
        raise ArgumentError(
            f"times: expected shape ({points.shape[0]},), one time for each point; found shape {times.shape}"
        )
    if isinstance(times, np.ndarray) and np.any(np.diff(times) <= 0):
        i = int(np.argmax(np.diff(times) <= 0))
        raise ArgumentError(
            f"times: expected increasing times; found times[{i + 1}] = {times[i + 1]:g} s "
            f"after times[{i}] = {times[i]:g} s"
        )
    return points, times


def choice(argument: str, value: Any, accepted: Iterable[Any]) -> None:
    """Refuses what is not among the accepted.

    Raises:
        ArgumentError: It is not.
    """
    accepted = tuple(accepted)
    if not any(isinstance(value, type(one)) and value == one for one in accepted):
        *others, last = (repr(word) for word in accepted)
        raise ArgumentError(f"{argument}: expected {', '.join(others)} or {last}; found {value!r}")


def nearest(name: str, names: Iterable[str], kind: str) -> str:
    """'; did you mean …? known KIND: …', to finish a text about a name that is not one of these."""
    name, listed = str(name), list(names)
    shown = ", ".join(listed[:_LISTED]) + (", …" if len(listed) > _LISTED else "")
    return f"{close_to(name, listed) or ';'} " + (f"known {kind}: {shown}" if listed else f"there are no {kind} here")


def close_to(name: str, names: Iterable[str]) -> str:
    """'; did you mean …?', if one of the names is close."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
