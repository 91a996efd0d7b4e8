"""Live expressions: arithmetic written in a mechanism file, evaluated on floats or traced by JAX.

An expression is a number or a text of numbers, names, `+ - * / ^ **`, parentheses, the functions of `FUNCTIONS` and
`pi`. `^` is a power: it is rewritten to `**` before parsing, since Python's own `^` has a lower precedence than `+`.
On floats everything happens on the host with `math`, so that a bad file is found before anything is compiled; on JAX
arrays and tracers the same text becomes differentiable operations.
"""

import ast
import functools
import graphlib
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax.numpy as jnp
import simpleeval
from jaxtyping import Array, Float

from fgmbs.arguments import nearest
from fgmbs.errors import FgmbsError

Expr: TypeAlias = float | str
Number: TypeAlias = float | Float[Array, ""]

LONGEST = 1000
"""Characters an expression may have."""

_DECIMAL = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class ExpressionError(FgmbsError, ValueError):
    """An expression is invalid; the text says what was found and what is accepted."""


def _either(on_floats: Callable[..., float], on_arrays: Callable[..., Number]) -> Callable[..., Number]:
    """A function that stays on the host while its arguments are plain floats."""

    def call(*args: Number) -> Number:
        return (on_floats if all(isinstance(arg, (int, float)) for arg in args) else on_arrays)(*args)

    return call


def _power_of_arrays(base: Number, exponent: Number) -> Number:
    # An integer power has exact derivatives at a zero or negative base.
    if isinstance(exponent, float) and exponent.is_integer():
        exponent = int(exponent)
    return base**exponent


FUNCTIONS: dict[str, tuple[Callable[..., Number], int | None]] = {
    "sin": (_either(math.sin, jnp.sin), 1),
    "cos": (_either(math.cos, jnp.cos), 1),
    "tan": (_either(math.tan, jnp.tan), 1),
    "asin": (_either(math.asin, jnp.arcsin), 1),
    "acos": (_either(math.acos, jnp.arccos), 1),
    "atan": (_either(math.atan, jnp.arctan), 1),
    "atan2": (_either(math.atan2, jnp.arctan2), 2),
    "sqrt": (_either(math.sqrt, jnp.sqrt), 1),
    "exp": (_either(math.exp, jnp.exp), 1),
    "log": (_either(math.log, jnp.log), 1),
    "abs": (_either(math.fabs, jnp.abs), 1),
    "deg2rad": (_either(math.radians, jnp.deg2rad), 1),
    "min": (_either(min, lambda *args: functools.reduce(jnp.minimum, args)), None),
    "max": (_either(max, lambda *args: functools.reduce(jnp.maximum, args)), None),
}
"""Functions by name, each with the number of values it takes (None: two or more)."""

CONSTANTS: dict[str, float] = {"pi": math.pi}

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: _either(math.pow, _power_of_arrays),
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def as_number(text: str) -> float | None:
    """The value of a text that is nothing but a decimal number with an optional sign, or None."""
    match = re.fullmatch(rf"\s*([+-]?{_DECIMAL.pattern})\s*", text)
    if match is None or re.match(r"[+-]?0[0-9]", match[1]):
        return None
    return float(match[1])


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The syntax tree of an expression, all of whose nodes are allowed; its numbers are floats.

    Raises:
        ExpressionError: What was found and what an expression may contain.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression of {len(text)} characters; {LONGEST} are accepted")
    source = " ".join(text.replace("^", "**").split())
    if not source:
        raise ExpressionError("an empty text")
    try:
        tree = ast.parse(source, mode="eval").body
        for node in ast.walk(tree):
            _allow(node, source)
    except SyntaxError as error:
        if error.msg.startswith("leading zeros"):
            raise ExpressionError(f"'{text}'; a leading zero may mean octal, write the number without it") from None
        reason = "" if error.msg.startswith("invalid syntax") else f" ({error.msg})"
        raise ExpressionError(f"'{text}', which is not arithmetic{reason}") from None
    except (RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"'{text[:40]}…', which is nested too deeply") from None
    return tree


def _allow(node: ast.AST, source: str) -> None:
    """Refuses what is not arithmetic; makes the number of a constant a float."""
    found = ast.get_source_segment(source, node) if isinstance(node, ast.expr) else None
    match node:
        case ast.Name() | ast.Load() | ast.BinOp() | ast.UnaryOp():
            return
        case ast.operator() | ast.unaryop() if type(node) in _OPERATORS:
            return
        case ast.operator() | ast.unaryop():
            raise ExpressionError(f"'{source}', which uses an operator other than + - * / ^")
        case ast.Constant() if found is not None and _DECIMAL.fullmatch(found):
            node.value = float(found)
            if not math.isfinite(node.value):
                raise ExpressionError(f"'{found}', which is beyond the largest number, 1.8e308")
            return
        case ast.Constant():
            raise ExpressionError(f"{found}, which is not a decimal number")
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            if name not in FUNCTIONS:
                raise ExpressionError(f"a call of '{name}'{nearest(name, FUNCTIONS, 'functions')}")
            count = FUNCTIONS[name][1]
            if len(args) != count and (count is not None or len(args) < 2):
                raise ExpressionError(f"'{found}'; {name} takes {count or 'two or more'} value{'s' * (count != 1)}")
            return
    raise ExpressionError(f"'{found or source}', which is not arithmetic of numbers, names and functions")


@functools.lru_cache(maxsize=4096)
def names_in(expr: Expr) -> frozenset[str]:
    """Names that an expression needs; constants and functions are not among them."""
    if not isinstance(expr, str):
        return frozenset()
    nodes = list(ast.walk(parse(expr)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = (node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called)
    return frozenset(names).difference(CONSTANTS)


def evaluate(expr: Expr | Number, names: Mapping[str, Number]) -> Number:
    """The value of an expression; a float if all it needs are floats, else a JAX array.

    Args:
        expr: A number, which is returned as it is, or a text.
        names: Values of the names that the text may use.

    Raises:
        ExpressionError: The text is no expression, needs an unknown name, or has no value for these (host) numbers.
    """
    if not isinstance(expr, str):
        return float(expr) if isinstance(expr, int) else expr
    tree = parse(expr)
    needed = names_in(expr)
    if unknown := sorted(needed - names.keys()):
        raise ExpressionError(f"'{expr}', where '{unknown[0]}' is unknown{nearest(unknown[0], names, 'names')}")
    functions = {name: function for name, (function, _) in FUNCTIONS.items()}
    evaluator = simpleeval.SimpleEval(_OPERATORS, functions, CONSTANTS | {name: names[name] for name in needed})
    try:
        return evaluator.eval(expr, previously_parsed=tree)
    except ZeroDivisionError:
        raise ExpressionError(f"'{expr}', which divides by zero") from None
    except OverflowError:
        raise ExpressionError(f"'{expr}', whose value is beyond the largest number, 1.8e308") from None
    except ValueError:
        raise ExpressionError(f"'{expr}', which has no real value (root, power or logarithm of a negative?)") from None
    except RecursionError:
        raise ExpressionError(f"'{expr[:40]}…', which is nested too deeply") from None


def find_cycle(definitions: Mapping[str, Expr | Number]) -> tuple[str, ...] | None:
    """Names each of which needs the next, the first repeated at the end; None if no definition needs itself."""
    try:
        graphlib.TopologicalSorter(_needs(definitions)).prepare()
    except graphlib.CycleError as error:
        names = error.args[1][:0:-1]
        start = min(range(len(names)), key=lambda k: list(definitions).index(names[k]))
        return (*names[start:], *names[:start], names[start])
    return None


def order(definitions: Mapping[str, Expr | Number]) -> tuple[str, ...]:
    """Names of definitions, each after those it needs.

    Raises:
        ExpressionError: A cycle 'a → b → a'.
    """
    if cycle := find_cycle(definitions):
        raise ExpressionError(f"{' → '.join(cycle)}, a definition that needs itself")
    return tuple(graphlib.TopologicalSorter(_needs(definitions)).static_order())


def resolve(definitions: Mapping[str, Expr | Number], known: Mapping[str, Number]) -> dict[str, Number]:
    """Values of definitions that may use each other, in any order, and the known names.

    Raises:
        ExpressionError: As `evaluate`, or a cycle 'a → b → a'.
    """
    values = dict(known)
    for name in order(definitions):
        values[name] = evaluate(definitions[name], values)
    return {name: values[name] for name in definitions}


def _needs(definitions: Mapping[str, Expr | Number]) -> dict[str, list[str]]:
    return {
        name: [n for n in sorted(names_in(expr)) if n in definitions] if isinstance(expr, str) else []
        for name, expr in definitions.items()
    }
