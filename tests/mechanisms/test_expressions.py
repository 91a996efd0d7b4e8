"""Expressions against Python's own arithmetic, their derivatives, and what they refuse."""

import math

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

from fgmbs.mechanisms.planar.expressions import (
    ExpressionError,
    as_number,
    evaluate,
    find_cycle,
    names_in,
    parse,
    resolve,
)

NAMES = {"a": 1.25, "b": -0.5, "mass": 3.0}
_PYTHON = {name: getattr(math, name) for name in ("sin", "cos", "tan", "atan", "atan2", "sqrt", "exp", "log")}
_PYTHON |= {"abs": abs, "min": min, "max": max, "deg2rad": math.radians, "pi": math.pi}

_leaves = st.sampled_from(["a", "b", "mass", "pi", "2", "0.5", "1e-3", "1.", ".25", "3"])


def _larger(smaller):
    pairs = st.tuples(smaller, st.sampled_from(["+", "-", "*", "/", "^", " - ", " ^ "]), smaller).map("".join)
    calls = st.tuples(st.sampled_from(["sin", "cos", "sqrt", "exp", "abs", "atan", "deg2rad"]), smaller)
    two = st.tuples(st.sampled_from(["atan2", "min", "max"]), smaller, smaller)
    return st.one_of(
        pairs,
        smaller.map("-{}".format),
        smaller.map("({})".format),
        calls.map(lambda c: f"{c[0]}({c[1]})"),
        two.map(lambda c: f"{c[0]}({c[1]}, {c[2]})"),
    )


expressions = st.recursive(_leaves, _larger, max_leaves=8)


def python_value(text):
    """What Python says of a text, None where it has no finite real value."""
    try:
        value = eval(text.replace("^", "**"), {"__builtins__": {}}, {**_PYTHON, **NAMES})
    except (ArithmeticError, ValueError, TypeError):  # TypeError: sin and its kind of a complex power
        return None
    return value if not isinstance(value, complex) and math.isfinite(value) else None


@settings(derandomize=True, deadline=None, max_examples=300)
@given(expressions)
def test_expressions_mean_what_python_means(text):
    expected = python_value(text)
    if expected is None:
        return
    try:
        value = evaluate(text, NAMES)
    except ExpressionError as error:
        # A complex intermediate result can become real again in Python; here it is refused where it occurs.
        assert "no real value" in str(error) or "beyond the largest" in str(error)
        return
    assert isinstance(value, float)
    assert value == pytest.approx(expected, rel=1e-14, abs=1e-300)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(expressions)
def test_arrays_and_floats_give_the_same_value(text):
    try:
        expected = evaluate(text, NAMES)
    except ExpressionError:
        return
    if not abs(expected) < 1e12:
        return
    value = evaluate(text, {name: jnp.asarray(v, dtype=float) for name, v in NAMES.items()})
    # Rounding of the arguments of sin and cos grows with the argument.
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3^2", 11.0),
        ("2*3^2", 18.0),
        ("-2^2", -4.0),
        ("2^3^2", 512.0),
        ("2^-1", 0.5),
        ("(1/3)*mass*2**2", 4.0),
        ("2/3", 2 / 3),
        ("1e-3 + 1.", 1.001),
        ("2*1e-05", 2e-5),
        ("deg2rad(180) - pi", 0.0),
        ("asin(1) + acos(1)", math.pi / 2),
        ("log(exp(2))", 2.0),
        ("max(1, 2, 3) - min(4, 5, 6)", -1.0),
        ("\n 2 *\n 3 ", 6.0),
    ],
)
def test_precedence_and_functions(text, value):
    assert evaluate(text, NAMES) == pytest.approx(value, rel=1e-15, abs=1e-15)


def test_numbers_are_returned_as_they_are():
    x = jnp.asarray(2.0, dtype=float)
    assert evaluate(1.5, {}) == 1.5
    assert evaluate(x, {}) is x


def test_names_are_those_that_need_a_value():
    assert names_in("a*sin(b) + pi - a") == {"a", "b"}
    assert names_in(3.0) == frozenset()


@pytest.mark.parametrize(
    ("text", "value"), [("1e-3", 1e-3), (" -1. ", -1.0), ("+.5E2", 50.0), ("0.5", 0.5), ("0", 0.0)]
)
def test_texts_that_are_numbers(text, value):
    assert as_number(text) == value


@pytest.mark.parametrize("text", ["012", "-01", "1_000", "0x1F", "1:30", "1e", "inf", "nan", "a", "1+1", ""])
def test_texts_that_are_no_plain_numbers(text):
    assert as_number(text) is None


def _area(length, angle):
    return evaluate("length^2 * sin(angle) / 2 + max(length, 0.1) * atan2(length, 2) - log(length)^3", locals())


def test_expressions_are_differentiable():
    arguments = (jnp.asarray(1.3, dtype=float), jnp.asarray(0.7, dtype=float))
    check_grads(jax.jit(_area), arguments, order=2, modes=("fwd", "rev"))


def test_integer_powers_are_differentiable_at_zero():
    def square(x):
        return evaluate("x^2", {"x": x})

    zero = jnp.asarray(0.0, dtype=float)
    assert jax.grad(square)(zero) == 0.0
    assert jax.grad(jax.grad(square))(zero) == 2.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("heavy mass", "'heavy mass', which is not arithmetic"),
        ("(1 + 2", "which is not arithmetic ('(' was never closed)"),
        ("", "an empty text"),
        ("2*Ma", "'2*Ma', where 'Ma' is unknown; did you mean 'a'? known names: a, b, mass"),
        ("msas^2", "'msas^2', where 'msas' is unknown; did you mean 'mass'? known names: a, b, mass"),
        ("sine(a)", "a call of 'sine'; did you mean 'sin'? known functions: sin, cos"),
        ("sin(a, b)", "'sin(a, b)'; sin takes 1 value"),
        ("atan2(a)", "'atan2(a)'; atan2 takes 2 values"),
        ("min(a)", "'min(a)'; min takes two or more values"),
        ("sin(a, key=b)", "which is not arithmetic of numbers, names and functions"),
        ("sin(*a)", "which is not arithmetic of numbers, names and functions"),
        ("1/0", "'1/0', which divides by zero"),
        ("sqrt(b)", "'sqrt(b)', which has no real value"),
        ("b^0.5", "'b^0.5', which has no real value"),
        ("exp(1000)", "whose value is beyond the largest number"),
        ("10^400", "whose value is beyond the largest number"),
        ("1e999", "'1e999', which is beyond the largest number"),
        ("9" * 400, "which is beyond the largest number"),
        ("1+" * 500 + "1", "an expression of 1001 characters; 1000 are accepted"),
        ("-" * 900 + "1", "which is nested too deeply"),
        ("(" * 300 + "1" + ")" * 300, "which is not arithmetic (too many nested parentheses)"),
        ("012", "'012'; a leading zero may mean octal, write the number without it"),
        ("0x1F", "0x1F, which is not a decimal number"),
        ("1_000", "1_000, which is not a decimal number"),
        ("2j", "2j, which is not a decimal number"),
        ("'text'", "'text', which is not a decimal number"),
        ("True", "True, which is not a decimal number"),
        ("5 % 2", "which uses an operator other than + - * / ^"),
        ("5 // 2", "which uses an operator other than + - * / ^"),
        ("~5", "which uses an operator other than + - * / ^"),
        ("a < b", "'a < b', which is not arithmetic of numbers, names and functions"),
        ("a and b", "which is not arithmetic of numbers, names and functions"),
        ("a if b else 1", "which is not arithmetic of numbers, names and functions"),
        ("a.real", "'a.real', which is not arithmetic of numbers, names and functions"),
        ("a[0]", "which is not arithmetic of numbers, names and functions"),
        ("[a for a in b]", "which is not arithmetic of numbers, names and functions"),
        ("(lambda: 1)()", "which is not arithmetic of numbers, names and functions"),
        ("__import__('os').system('true')", "which is not arithmetic of numbers, names and functions"),
        ("f'{a}'", "which is not arithmetic of numbers, names and functions"),
        ("a = 2", "which is not arithmetic"),
        ("a; b", "which is not arithmetic"),
        ("(a := 2)", "which is not arithmetic of numbers, names and functions"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, NAMES)
    assert message in str(caught.value)


def test_definitions_in_any_order():
    definitions = {"a": "b + c", "b": "2*c", "c": "k", "d": 1.0}
    assert resolve(definitions, {"k": 1.5}) == {"a": 4.5, "b": 3.0, "c": 1.5, "d": 1.0}


def test_long_chains_of_definitions():
    definitions = {f"x{i}": f"x{i + 1} + 1" for i in range(3000)} | {"x3000": 0.0}
    assert resolve(definitions, {})["x0"] == 3000.0


def test_cycles_are_reported_in_the_order_of_need():
    definitions = {"k": 1.0, "a": "b + k", "b": "2*c", "c": "a"}
    assert find_cycle(definitions) == ("a", "b", "c", "a")
    assert find_cycle({"a": "a"}) == ("a", "a")
    assert find_cycle({"a": "b", "b": 1.0}) is None
    with pytest.raises(ExpressionError, match="a → b → c → a, a definition that needs itself"):
        resolve(definitions, {})


def test_parsing_is_done_once():
    assert parse("a + b*2") is parse("a + b*2")
