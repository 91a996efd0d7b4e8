"""What a program follows from, as one number: equal for what does the same, none where that cannot be told."""

import math
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from numpy import loadtxt, random

import fgmbs
from fgmbs.compiled import identity

GAIN = 3.0
TABLES = {"read": np.loadtxt}
TABLE = np.linspace(0.0, 1.0, 5)


def number(function: Callable[..., Any]) -> str | None:
    return identity.of(function, {}, None, (), ())


def scaled(factor: Any) -> Callable[[Any], Any]:
    return lambda t: factor * jnp.sin(t)


def called(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda t: function("table.csv") * t


def helped(t: Any) -> Any:
    return GAIN * t


def of_a_helper(t: Any) -> Any:
    return helped(t) + jnp.interp(t, TABLE, TABLE)


def recursive(t: Any) -> Any:
    return recursive(t - 1.0)


def test_functions_are_told_by_what_they_do() -> None:
    one, same, other = (number(scaled(factor)) for factor in (1.0, 1.0, 2.0))
    assert one is not None
    assert one == same != other


@pytest.mark.parametrize(
    "pair",
    [
        (lambda t: 0.5 + 0 * t, lambda t: 0.6 + 0 * t),
        (lambda t: jnp.sin(t), lambda t: jnp.cos(t)),
        (lambda t: t + 1, lambda t: t + 1.0),
        (lambda t, k=1.0: k * t, lambda t, k=2.0: k * t),
        (lambda t: (lambda s: s * 2.0)(t), lambda t: (lambda s: s * 3.0)(t)),
        (scaled(np.ones(2)), scaled(np.zeros(2))),
        (scaled(jnp.ones(2)), scaled(jnp.ones(3))),
    ],
)
def test_functions_that_differ_have_different_numbers(pair: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
    first, second = map(number, pair)
    assert first is not None and second is not None
    assert first != second


@pytest.mark.parametrize(("name", "value"), [("GAIN", 4.0), ("TABLE", np.linspace(0.0, 2.0, 5))])
def test_what_a_function_uses_counts(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    before = number(of_a_helper)
    assert before is not None
    monkeypatch.setitem(globals(), name, value)
    assert number(of_a_helper) not in (None, before)


@pytest.mark.parametrize(
    "function",
    [
        lambda t: np.random.rand() * t,
        lambda t: np.loadtxt("table.csv") * t,
        lambda t: jnp.load("table.npy") * t,
        lambda t: float(open("table.txt").read()) * t,
        lambda t: time.time() * t,
        lambda t: pytest.approx(t),
        lambda t: __import__("table").values,
        lambda t: loadtxt("table.csv") * t,
        lambda t: random.power(3.0) * t,
        lambda t: TABLES["read"]("table.csv") * t,
        lambda t, read=fgmbs.load: read("table.csv"),
        called(np.loadtxt),
        called(fgmbs.load),
        recursive,
        scaled(object()),
    ],
)
def test_what_may_be_another_thing_in_another_process_has_none(function: Callable[..., Any]) -> None:
    assert number(function) is None


def test_modules_of_mathematics_are_known() -> None:
    assert number(lambda t: math.pi * t) is not None
