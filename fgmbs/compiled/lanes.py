"""A program for many members at once, which lie along the last axis: inner loops over them run on vector registers."""

import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import product
from operator import mul
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal

from fgmbs.compiled import loops

CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
}
"""Calls, and what they call."""
_BY_ENTRY = {
    *("abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil"),
    *("clamp", "convert_element_type", "copy", "cos", "cosh", "div", "eq", "exp", "exp2", "expm1", "floor", "ge", "gt"),
    *("integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not"),
    *("or", "pow", "rem", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient"),
    *("sub", "tan", "tanh", "xor"),
}
_AS_THEY_ARE = {"cummax", "cummin", "cumprod", "cumsum", "rev", "split", "squeeze"}
"""Act on axes that their parameters name."""
_REDUCTIONS = {
    "reduce_sum": jnp.add,
    "reduce_prod": mul,
    "reduce_max": jnp.maximum,
    "reduce_min": jnp.minimum,
    "reduce_and": jnp.logical_and,
    "reduce_or": jnp.logical_or,
}
_WRITTEN_OUT = 16
"""Terms of a sum that are written out: a loop over them inside that over the members keeps vector registers empty."""


class _Value(NamedTuple):
    array: Any
    many: bool
    """Whether it has an axis of members; else it is the same for all."""

    def spread(self, shape: tuple[int, ...], size: int) -> Any:
        """An array of this shape, and an axis of members."""
        x = self.array if self.many else jnp.asarray(self.array)[..., None]
        return jnp.broadcast_to(x.reshape(*[1] * (len(shape) + 1 - x.ndim), *x.shape), (*shape, size))


def across(program: ClosedJaxpr, many: Sequence[bool], size: int) -> Callable[..., list]:
    """The program as a function of arrays with a last axis of `size` members, where they are `many`; so are results."""

    def run(*args):
        values = [_Value(*pair) for pair in zip(args, many, strict=True)]
        found = zip(_run(program, values, size), program.out_avals, strict=True)
        return [value.spread(aval.shape, size) for value, aval in found]

    return run


def _run(program: ClosedJaxpr, args: Sequence[_Value], size: int) -> list[_Value]:
    values = dict(zip(program.jaxpr.constvars, [_Value(x, False) for x in program.consts], strict=True))
    values |= dict(zip(program.jaxpr.invars, args, strict=True))

    def read(v):
        return _Value(v.val, False) if isinstance(v, Literal) else values[v]

    for equation in program.jaxpr.eqns:
        if not equation.outvars:  # nothing reads it; JAX 0.12 leaves such ones
            continue
        operands = [read(v) for v in equation.invars]
        values.update(zip(equation.outvars, _done(equation, operands, size), strict=True))
    return [read(v) for v in program.jaxpr.outvars]


def _done(equation: Any, operands: list[_Value], size: int) -> Sequence[_Value]:
    """What an equation makes of its operands."""
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        return _run(params[CALLS[name]], operands, size)
    if name == "custom_linear_solve":
        return _run(*linear_solve(params, operands), size)
    if not any(value.many for value in operands):
        out = equation.primitive.bind(*(value.array for value in operands), **params)
        return [_Value(x, False) for x in (out if equation.primitive.multiple_results else [out])]
    if name in _LOOPS:
        return _LOOPS[name](operands, size, **params)
    shapes, out_shape = [v.aval.shape for v in equation.invars], equation.outvars[0].aval.shape
    changed = _changed(name, params, operands, shapes, out_shape, size)
    if changed is not None:
        arrays, params = changed
        out = equation.primitive.bind(*arrays, **params)
    elif name in _REDUCTIONS and math.prod(shapes[0][axis] for axis in params["axes"]) in range(1, _WRITTEN_OUT + 1):
        (x, _), axes = operands[0], params["axes"]
        terms = product(*(range(n) if axis in axes else [slice(None)] for axis, n in enumerate(shapes[0])))
        out = reduce(_REDUCTIONS[name], [x[term] for term in terms])
    elif name == "dot_general":
        out = _product(operands, shapes, *params["dimension_numbers"], size)
    elif name == "qr":  # of which the program reads R only
        triangle = jax.vmap(lambda x: equation.primitive.bind(x, **params)[1], -1, -1)
        return [_Value(None, True), _Value(triangle(operands[0].array), True)]
    else:
        axes = [-1 if value.many else None for value in operands]
        out = jax.vmap(partial(equation.primitive.bind, **params), axes, -1)(*(value.array for value in operands))
    return [_Value(x, True) for x in (out if equation.primitive.multiple_results else [out])]


def _changed(name, params, operands, shapes, out_shape, size):
    """(arrays, parameters) with which the primitive does its work for all members, if it can."""
    first, rest_is_one = operands[0], not any(value.many for value in operands[1:])

    def spread():
        return [value.spread(shape, size) for value, shape in zip(operands, shapes, strict=True)]

    if name in _BY_ENTRY:
        return [value.spread(out_shape, size) for value in operands], params
    if name in _AS_THEY_ARE or (name in _REDUCTIONS and math.prod(shapes[0]) > math.prod(out_shape) * _WRITTEN_OUT):
        return spread(), params
    if name in ("concatenate", "optimization_barrier") or (name in ("stack", "unstack") and params["axis"] >= 0):
        return spread(), params
    if name == "broadcast_in_dim" and rest_is_one:
        dims = (*params["broadcast_dimensions"], len(out_shape))
        return [first.array], params | {"shape": (*out_shape, size), "broadcast_dimensions": dims}
    if name == "reshape" and params["dimensions"] is None:
        return [first.array], params | {"new_sizes": (*out_shape, size)}
    if name == "transpose":
        return [first.array], params | {"permutation": (*params["permutation"], len(out_shape))}
    if name == "slice":
        strides = params["strides"]
        bounds = {"start_indices": (*params["start_indices"], 0), "limit_indices": (*params["limit_indices"], size)}
        return [first.array], params | bounds | {"strides": None if strides is None else (*strides, 1)}
    if name == "pad" and rest_is_one:
        return [first.array, operands[1].array], params | {"padding_config": (*params["padding_config"], (0, 0, 0))}
    zero = [jnp.zeros((), operands[-1].array.dtype)] if name.startswith("dynamic") else []
    if name == "dynamic_slice" and rest_is_one:
        arrays = [first.array, *(value.array for value in operands[1:]), *zero]
        return arrays, params | {"slice_sizes": (*params["slice_sizes"], size)}
    if name == "dynamic_update_slice" and not any(value.many for value in operands[2:]):
        return [*spread()[:2], *(value.array for value in operands[2:]), *zero], params
    if name == "gather" and rest_is_one:
        numbers = params["dimension_numbers"]
        numbers = numbers._replace(offset_dims=(*numbers.offset_dims, len(out_shape)))
        changed = {"dimension_numbers": numbers, "slice_sizes": (*params["slice_sizes"], size)}
        return [first.array, operands[1].array], params | changed
    if name.startswith("scatter") and not operands[1].many:
        numbers = params["dimension_numbers"]
        numbers = numbers._replace(update_window_dims=(*numbers.update_window_dims, len(shapes[2])))
        target, _, updates = spread()
        return [target, operands[1].array, updates], params | {"dimension_numbers": numbers}
    return None


def _product(operands, shapes, contracted, batch, size):
    """A matrix product."""
    arrays = [value.spread(shape, size) for value, shape in zip(operands, shapes, strict=True)]
    members = [(*axes, len(shape)) for axes, shape in zip(batch, shapes, strict=True)]
    a, b = loops.laid_out(*arrays, contracted, members)
    # Axes: contracted, batch, members, free.
    terms = [jnp.moveaxis(x, 1 + len(batch[0]), -1) for x in (a, b)]
    if a.shape[0] in range(1, _WRITTEN_OUT + 1):
        return sum(x * y for x, y in zip(*terms, strict=True))
    return loops.added_up(*terms)


def linear_solve(params, operands):
    """(the program that solves, its operands) of a `custom_linear_solve`."""
    lengths = params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    return params["jaxprs"].solve, [*operands[first : first + lengths.solve], *operands[sum(lengths) :]]


# Which values have members, without running anything.


def _flags(program: ClosedJaxpr, many: Sequence[bool]) -> list[bool]:
    """Which results of a program have members."""
    values = dict.fromkeys(program.jaxpr.constvars, False) | dict(zip(program.jaxpr.invars, many, strict=True))

    def read(v):
        return not isinstance(v, Literal) and values[v]

    for equation in program.jaxpr.eqns:
        name, params, operands = equation.primitive.name, equation.params, [read(v) for v in equation.invars]
        if name in CALLS:
            out = _flags(params[CALLS[name]], operands)
        elif name == "custom_linear_solve":
            out = _flags(*linear_solve(params, operands))
        elif name == "scan":
            out = _scan_flags(operands, **params)
        elif name == "while":
            out = _while_flags(operands, **params)[1]
        elif name == "cond":
            out = _cond_flags(operands, **params)
        else:
            out = [any(operands)] * len(equation.outvars)
        values.update(zip(equation.outvars, out, strict=True))
    return [read(v) for v in program.jaxpr.outvars]


def _scan_counts(params) -> tuple[int, int]:
    """Numbers of constants and of what is carried."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()  # from jax 0.12 on
    return len(consts), len(carry)


def _scan_flags(many, *, jaxpr, **params):
    """Of the carry and of what is stacked."""
    num_consts, num_carry = _scan_counts(params)
    consts, carry, xs = many[:num_consts], many[num_consts : num_consts + num_carry], many[num_consts + num_carry :]
    while True:
        out = _flags(jaxpr, [*consts, *carry, *xs])
        grown = [a or b for a, b in zip(carry, out[:num_carry], strict=True)]
        if grown == carry:
            return [*carry, *out[num_carry:]]
        carry = grown


def _while_flags(many, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, **_):
    """(of the condition, of the carry)."""
    start = cond_nconsts + body_nconsts
    carry = many[start:]
    while True:
        (going,) = _flags(cond_jaxpr, [*many[:cond_nconsts], *carry])
        out = _flags(body_jaxpr, [*many[cond_nconsts:start], *carry])
        grown = [a or b or going for a, b in zip(carry, out, strict=True)]
        if grown == carry:
            return going, carry
        carry = grown


def _cond_flags(many, *, branches, **_):
    out = [_flags(branch, many[1:]) for branch in branches]
    return [many[0] or any(flags) for flags in zip(*out, strict=True)]


# Loops and branches.


def _as_flagged(values, flags, avals, size):
    pairs = zip(values, flags, avals, strict=True)
    return [value.spread(aval.shape, size) if flag else value.array for value, flag, aval in pairs]


def _values(arrays, flags):
    return [_Value(*pair) for pair in zip(arrays, flags, strict=True)]


def _scan(operands, size, **params):
    program, (num_consts, num_carry) = params["jaxpr"], _scan_counts(params)
    flags = _scan_flags([value.many for value in operands], **params)
    consts, xs = operands[:num_consts], operands[num_consts + num_carry :]
    carry_flags, avals = flags[:num_carry], program.out_avals

    def body(carry, rows):
        rows = _values(rows, [value.many for value in xs])
        out = _as_flagged(_run(program, [*consts, *_values(carry, carry_flags), *rows], size), flags, avals, size)
        return out[:num_carry], out[num_carry:]

    carry = _as_flagged(operands[num_consts : num_consts + num_carry], carry_flags, avals[:num_carry], size)
    options = {key: params[key] for key in ("length", "reverse", "unroll")}
    carry, stacked = jax.lax.scan(body, carry, [value.array for value in xs], **options)
    return _values([*carry, *stacked], flags)


def _while(operands, size, **params):
    condition, program = params["cond_jaxpr"], params["body_jaxpr"]
    start = params["cond_nconsts"] + params["body_nconsts"]
    conditions, consts = operands[: params["cond_nconsts"]], operands[params["cond_nconsts"] : start]
    going_flag, flags = _while_flags([value.many for value in operands], **params)
    avals = program.out_avals
    # A loop that is a batch already asks for every member of it; their axes are the first of everything it carries.
    own = condition.out_avals[0].ndim

    def asked(carry):
        return _run(condition, [*conditions, *_values(carry, flags)], size)[0].array

    def body(state):
        going, carry = state
        new = _as_flagged(_run(program, [*consts, *_values(carry, flags)], size), flags, avals, size)
        if going_flag or own:
            new = [jnp.where(_between(going, own, x.ndim), x, old) for x, old in zip(new, carry, strict=True)]
        return asked(new) & going, new

    carry = _as_flagged(operands[start:], flags, avals, size)
    _, carry = jax.lax.while_loop(lambda state: jnp.any(state[0]), body, (asked(carry), carry))
    return _values(carry, flags)


def _between(going, own, ndim):
    """A condition for an array of so many axes: its own axes first, the members last, of length one between them."""
    return going.reshape(*going.shape[:own], *(1,) * (ndim - going.ndim), *going.shape[own:])


def _cond(operands, size, *, branches, **params):
    avals, arguments = branches[0].out_avals, operands[1:]
    flags = _cond_flags([value.many for value in operands], branches=branches)
    platforms = params.get("branches_platforms")
    if platforms is not None:
        (branch,) = [b for b, names in zip(branches, platforms, strict=True) if names is None or "cpu" in names][:1]
        return _values(_as_flagged(_run(branch, arguments, size), flags, avals, size), flags)
    if operands[0].many:
        found = [_as_flagged(_run(branch, arguments, size), flags, avals, size) for branch in branches]
        index = jnp.clip(operands[0].array.astype(int), 0, len(branches) - 1)
        return _values([jax.lax.select_n(_like(index, cases[0]), *cases) for cases in zip(*found, strict=True)], flags)
    kinds = [value.many for value in arguments]

    def taken(branch, *arrays):
        return _as_flagged(_run(branch, _values(arrays, kinds), size), flags, avals, size)

    arrays = [value.array for value in arguments]
    return _values(jax.lax.switch(operands[0].array, [partial(taken, branch) for branch in branches], *arrays), flags)


def _like(index, case):
    return jnp.broadcast_to(index, case.shape).astype(jnp.int32)


_LOOPS = {"scan": _scan, "while": _while, "cond": _cond}
