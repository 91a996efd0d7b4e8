"""Functions of small arrays as one machine function, instead of a chain of kernels."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from fgmbs.compiled import loops
from fgmbs.compiled.flat import flat
from fgmbs.compiled.lanes import CALLS, across, linear_solve

_MARKED = {"xla_cpu_small_call": "true", "inlineable": "false"}
"""Attributes of a call that XLA compiles as a whole for a CPU."""
_WITHIN = {"xla_cpu_small_call": "false", "inlineable": "true"}
"""Of what is in it: a call that stays one in there is meant for several threads, which there are not."""
_LARGEST = 64
"""Size of a matrix above which a matrix library is worth its call."""
_MOST = 16_000
"""Operations of a program above which its compilation takes minutes: 4 s for 5 500, 12 for 14 000, 100 for 23 000."""
_MOST_ACROSS = 8_000
"""The same of blocks of members: with 11 000 they are compiled in twice the time of one member, with 15 000 in three
times. One member after another is compiled as fast as one, and takes a seventh of the time of a chain of kernels for
200 members of 8 600 operations."""
_LANES = 32
"""Members of a batch that are computed side by side."""
_ONE_PLACE = {"scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max"}
"""XLA has them as plain loops where they write to one place."""
_PLAIN = {
    *("abs", "acos", "acosh", "add", "add_any", "and", "argmax", "argmin", "asin", "asinh", "atan", "atan2", "atanh"),
    *("bitcast_convert_type", "shift_left", "shift_right_arithmetic", "shift_right_logical"),
    *("broadcast_in_dim", "cbrt", "ceil", "clamp", "concatenate", "cond", "convert_element_type", "copy", "copy_p"),
    *("cos", "cosh", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "div", "dynamic_slice"),
    *("dynamic_update_slice", "eq", "exp", "exp2", "expand_dims", "expm1", "floor", "gather", "ge", "gt"),
    *("integer_pow", "iota", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg"),
    *("nextafter", "not", "optimization_barrier", "or", "pad", "platform_index", "pow", "rem"),
    *("reshape", "rev", "round", "rsqrt", "scan", "select_n", "sign"),
    *("sin", "sinh", "slice", "split", "sqrt", "square", "squeeze", "stack", "stop_gradient", "sub", "tan", "tanh"),
    *("tile", "unstack"),
    *("transpose", "while", "xor"),
}
"""Primitives that XLA compiles without the help of a library."""
_LIBRARY = {"dot_general", "sort", "qr", "cholesky", "lu", "triangular_solve", "custom_linear_solve"}
"""Those that it does not; `compiled.loops` has them as loops."""


def one_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of pytrees, compiled for a CPU as one machine function, with its loops.

    XLA runs a program as a chain of kernels, of about 0.1 µs each, and ten times that when they are out of the cache:
    most of the cost of a step of a small mechanism. Operations of a matrix library become loops (`compiled.loops`).
    In a batch the members are computed side by side, in blocks (`compiled.lanes`), or one after another where a block
    would be too large. Where the function is differentiated, needs something else, is too large to be compiled so, or
    runs on another device, it stays what it is. To be used in compiled functions; it must not close over their arrays.
    """

    @wraps(function)
    def call(*args):
        if jax.default_backend() != "cpu":
            return function(*args)
        return _one_kernel(function, args)

    return call


@eqx.filter_custom_jvp
def _one_kernel(function, args):
    numbers, rest = eqx.partition(args, eqx.is_array)
    leaves, structure = jax.tree.flatten(numbers)
    left: list[tuple[Any, Any]] = []

    def of_leaves(*leaves):
        out = function(*eqx.combine(jax.tree.unflatten(structure, leaves), rest))
        numbers, static = eqx.partition(out, eqx.is_array)
        leaves, out_structure = jax.tree.flatten(numbers)
        left.append((out_structure, static))
        return leaves

    program = jax.make_jaxpr(of_leaves)(*leaves)
    out_structure, static = left[0]
    run = _marked(program) if _fits(program.jaxpr, _MOST) else jaxpr_as_fun(program)
    return eqx.combine(jax.tree.unflatten(out_structure, run(*leaves)), static)


@_one_kernel.def_jvp
def _one_kernel_jvp(primals, tangents):
    function, args = primals
    return eqx.filter_jvp(function, args, tangents[1])


def _marked(program: ClosedJaxpr) -> Callable[..., list]:
    there = [math.prod(shape.shape) > 0 for shape in program.in_avals]

    @jax.jit
    def inside(*leaves):
        with set_xla_metadata(**_WITHIN):
            rest = iter(leaves)
            pairs = zip(program.in_avals, there, strict=True)
            args = [next(rest) if has else jnp.zeros(aval.shape, aval.dtype) for aval, has in pairs]
            # XLA (2026) breaks off, process and all, where a call has an argument that nothing reads.
            first = [jax.lax.slice(leaf, (0,) * leaf.ndim, (1,) * leaf.ndim) for leaf in leaves]
            read = flat(first) if leaves else ()
            return _written_out(program, args), read

    @custom_vmap
    def call(*leaves):
        # Nor may it know an argument's value, which it would put in its place.
        given = jax.lax.optimization_barrier([leaf for leaf, has in zip(leaves, there, strict=True) if has])
        with set_xla_metadata(**_MARKED):
            return inside(*given)[0]

    @call.def_vmap
    def _(axis_size, batched, *leaves):
        run = partial(_one_by_one, call, batched)
        if _operations(program.jaxpr) <= _MOST_ACROSS:  # of blocks there are more
            blocks = jax.make_jaxpr(_for_many(program, batched, axis_size))(*leaves)
            run = _marked(blocks) if _fits(blocks.jaxpr, _MOST_ACROSS) else run
        return run(*leaves), [True] * len(program.out_avals)

    return call


def _one_by_one(call: Callable[..., list], batched: Sequence[bool], *leaves) -> list:
    """The program for members along the first axes, one after another."""

    def one(parts):
        parts = iter(parts)
        return call(*(next(parts) if many else x for x, many in zip(leaves, batched, strict=True)))

    return jax.lax.map(one, [x for x, many in zip(leaves, batched, strict=True) if many])


def _for_many(program: ClosedJaxpr, batched: Sequence[bool], size: int) -> Callable[..., list]:
    """The program for members along the first axes, in blocks which fit into the cache."""
    lanes = min(size, _LANES)
    count = -(-size // lanes)

    def cut(x):
        """Axes: blocks, those of x, members."""
        x = jnp.concatenate([x, jnp.broadcast_to(x[-1:], (count * lanes - size, *x.shape[1:]))])
        return jnp.moveaxis(x.reshape(count, lanes, *x.shape[1:]), 1, -1)

    def joined(x):
        return jnp.moveaxis(x, -1, 1).reshape(count * lanes, *x.shape[1:-1])[:size]

    def run(*leaves):
        one = across(program, batched, lanes)

        def block(parts):
            parts = iter(parts)
            return one(*(next(parts) if many else x for x, many in zip(leaves, batched, strict=True)))

        return [joined(x) for x in jax.lax.map(block, [cut(x) for x, b in zip(leaves, batched, strict=True) if b])]

    return run


def _fits(jaxpr: Jaxpr, most: int) -> bool:
    """Whether the program can be one machine function, in reasonable time."""
    return _is_plain(jaxpr) and _operations(jaxpr) <= most


def _is_plain(jaxpr: Jaxpr) -> bool:
    """Whether the program needs no library."""
    for equation in jaxpr.eqns:
        name, shapes = equation.primitive.name, [v.aval.shape for v in equation.invars]
        if name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            there = math.prod(shapes[0][axis] for axis in contracted) * equation.outvars[0].aval.size <= _LARGEST**3
            there &= all(math.prod(shape) <= _LARGEST**2 for shape in shapes)
        elif name == "sort":
            there = equation.params["num_keys"] == 1 and shapes[0][equation.params["dimension"]] <= _LARGEST
        elif name == "qr":
            there = max(shapes[0]) <= _LARGEST and not (
                equation.params["pivoting"] or _reads(jaxpr, equation.outvars[0])
            )
        elif name in ("cholesky", "lu", "triangular_solve"):
            there = all(max(shape) <= _LARGEST for shape in shapes)
        elif name.startswith("reduce_"):
            there = math.prod(shapes[0]) <= loops.LARGEST_SUM
        elif name in _ONE_PLACE:
            there = math.prod(shapes[1][:-1]) == 1
        else:
            there = name in _PLAIN or name in CALLS or name == "custom_linear_solve"
        if not there or not all(map(_is_plain, _inner(equation))):
            return False
    return True


def _has_library(jaxpr: Jaxpr) -> bool:
    """Whether anything in a plain program is written out otherwise than it is."""
    return any(e.primitive.name in _LIBRARY or any(map(_has_library, _inner(e))) for e in jaxpr.eqns)


def _operations(jaxpr: Jaxpr) -> int:
    return sum(1 + sum(map(_operations, _inner(equation))) for equation in jaxpr.eqns)


def _reads(jaxpr: Jaxpr, variable: Any) -> bool:
    return any(v is variable for v in [*jaxpr.outvars, *(v for equation in jaxpr.eqns for v in equation.invars)])


def _inner(equation: Any) -> Iterator[Jaxpr]:
    for value in equation.params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            if _is_jaxpr(one):
                yield one.jaxpr if isinstance(one, ClosedJaxpr) else one


def _is_jaxpr(value: Any) -> bool:
    return isinstance(value, Jaxpr | ClosedJaxpr)


def _written_out(program: ClosedJaxpr, args: Sequence[Any]) -> list:
    """The program with loops in the place of libraries."""
    values = dict(zip([*program.jaxpr.constvars, *program.jaxpr.invars], [*program.consts, *args], strict=True))
    for equation in program.jaxpr.eqns:
        operands = [v.val if isinstance(v, Literal) else values[v] for v in equation.invars]
        values.update(zip(equation.outvars, _done(equation, operands), strict=True))
    return [v.val if isinstance(v, Literal) else values[v] for v in program.jaxpr.outvars]


def _done(equation: Any, operands: list) -> Sequence[Any]:
    """What an equation makes of its operands."""
    name, params = equation.primitive.name, equation.params
    if name in CALLS:
        return _written_out(params[CALLS[name]], operands)
    if name == "custom_linear_solve":
        return _written_out(*linear_solve(params, operands))
    if name == "dot_general":
        contracted, batch = params["dimension_numbers"]
        if min(x.ndim for x in operands) > 1 or batch[0]:
            operands = map(jnp.asarray, operands)  # constants may be of a type that JAX has for them
            return [loops.product(*operands, contracted, batch).astype(equation.outvars[0].aval.dtype)]
    if name == "sort":
        columns = [jnp.moveaxis(x, params["dimension"], -1) for x in operands]
        places = loops.batched(loops.order, columns[0], dims=1)
        sorted_columns = [jnp.take_along_axis(x, places, axis=-1) for x in columns]
        return [jnp.moveaxis(x, -1, params["dimension"]) for x in sorted_columns]
    if name == "qr":
        return [None, loops.batched(loops.triangularize, *operands)]
    if name == "cholesky":
        return [loops.batched(loops.cholesky, *operands)]
    if name == "lu":
        return loops.batched(loops.lu, *operands)
    if name == "triangular_solve":
        return [loops.batched(partial(_solve_triangular, **params), *operands)]
    if any(True for _ in _inner(equation)):
        params = {key: jax.tree.map(_rewritten, value, is_leaf=_is_jaxpr) for key, value in params.items()}
    out = equation.primitive.bind(*operands, **params)
    return out if equation.primitive.multiple_results else [out]


def _solve_triangular(a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    del conjugate_a  # of real numbers
    if left_side:
        return loops.solve_triangular(a, b, lower, transpose_a, unit_diagonal)
    return loops.solve_triangular(a, b.T, lower, not transpose_a, unit_diagonal).T


def _rewritten(value: Any) -> Any:
    if not isinstance(value, ClosedJaxpr) or not _has_library(value.jaxpr):
        return value
    return jax.make_jaxpr(lambda *args: _written_out(value, args))(*value.in_avals)
