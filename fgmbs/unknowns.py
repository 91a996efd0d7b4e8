"""Numbers that are to be found: which leaves of a model they are, what is known of them before, how they are moved."""

import dataclasses
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, PyTree

from fgmbs.arguments import Numbers, finite, refuse
from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError


class Unknown(eqx.Module):
    """A number to be found, or several; it may stand at any leaf of a mechanism or of a sensor.

    Attributes:
        value: What is most likely before anything is measured, by default 0; the search begins there.
        sigma: Standard deviation of the prior N(value, sigma²); infinite for none. With `log` that of the logarithm,
            for small ones the relative standard deviation.
        lower: Least value.
        upper: Largest value.
        log: The number is positive, and its logarithm is what is searched for and has the prior.
        own: Each of several recordings has a value of its own; by default they share it. `identify` takes what is known
            of these before by recording, too, along a first axis.
        rows: What is known of each, then.
    """

    value: Float[Array, "*shape"]
    sigma: Float[Array, "*shape"]
    lower: Float[Array, "*shape"]
    upper: Float[Array, "*shape"]
    log: bool = eqx.field(static=True)
    own: bool = eqx.field(static=True)
    rows: "tuple[Unknown, ...] | None" = eqx.field(init=False)

    def __init__(
        self,
        value: Numbers | None = None,
        *,
        sigma: Numbers = np.inf,
        lower: Numbers = -np.inf,
        upper: Numbers = np.inf,
        log: bool = False,
        own: bool = False,
    ):
        """See the class.

        Raises:
            ArgumentError: Invalid numbers, bounds that are crossed, a value outside of them.
        """
        parts = {
            "value": jnp.asarray(finite("value", 0.0 if value is None else value), dtype=float),
            "sigma": _perhaps_infinite("sigma", sigma, lambda sigma: sigma <= 0, "positive numbers"),
            "lower": _perhaps_infinite("lower", lower),
            "upper": _perhaps_infinite("upper", upper),
        }
        shapes = {key: part.shape for key, part in parts.items()}
        try:
            shape = np.broadcast_shapes(*shapes.values())
        except ValueError:
            found = ", ".join(f"{key} of shape {shape}" for key, shape in shapes.items())
            raise ArgumentError(f"Unknown: expected numbers of one shape, or one for all; found {found}") from None
        self.value, self.sigma, self.lower, self.upper = (jnp.broadcast_to(part, shape) for part in parts.values())
        for key, flag in (("log", log), ("own", own)):
            if not isinstance(flag, bool):
                raise ArgumentError(f"{key}: expected True or False; found {flag!r}")
        self.log, self.own, self.rows = log, own, None
        numbers = self.value, self.lower, self.upper
        if any(isinstance(part, Tracer) for part in numbers):
            return
        none = ", as none is given" if value is None else ""
        value, lower, upper = map(np.asarray, numbers)
        crossed = lower >= upper
        if np.any(crossed):
            low, high = lower[crossed].flat[0], upper[crossed].flat[0]
            raise ArgumentError(f"lower: expected a number below upper, which is {high:g}; found {low:g}")
        outside = (value < lower) | (value > upper)
        if np.any(outside):
            found, low, high = (part[outside].flat[0] for part in (value, lower, upper))
            raise ArgumentError(f"value: expected a number from {low:g} to {high:g}, its bounds; found {found:g}{none}")
        if log:
            refuse("value", value, value <= 0, "positive numbers, because of log=True")

    @property
    def bounded(self) -> bool:
        """Whether there are bounds."""
        sides = (side for row in self.rows or (self,) for side in (row.lower, row.upper))
        return any(isinstance(side, Tracer) or bool(np.any(np.isfinite(side))) for side in sides)

    def reshaped(self, shape: tuple[int, ...]) -> "Unknown":
        """The same for a leaf of this shape, one number for all of its entries."""
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape), self)

    def by_recording(self) -> "Unknown":
        """The first of what is given along a first axis, with all."""
        each = tuple(jax.tree.map(itemgetter(k), self) for k in range(len(self.value)))
        return eqx.tree_at(lambda first: first.rows, each[0], each, is_leaf=lambda part: part is None)


def _perhaps_infinite(argument: str, given: Numbers, bad: Callable | None = None, expected: str = "numbers") -> Array:
    """Numbers, but no NaN."""
    if isinstance(given, Tracer):
        return given
    try:
        array = np.asarray(given, float)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{argument}: expected numbers; found {given!r}") from None
    refuse(argument, array, np.isnan(array), "numbers")
    if bad is not None:
        refuse(argument, array, np.asarray(bad(array)), expected)
    return jnp.asarray(array)


def is_unknown(leaf: Any) -> bool:
    return isinstance(leaf, Unknown)


def known(tree: PyTree) -> PyTree:
    """The tree with the values of its unknown leaves."""
    return jax.tree.map(lambda leaf: leaf.value if is_unknown(leaf) else leaf, tree, is_leaf=is_unknown)


def number(argument: str, value: "Numbers | Unknown") -> Array | Unknown:
    """What an argument that may be `Unknown` gives: an array, or itself.

    Raises:
        ArgumentError: It is no array of finite numbers.
    """
    return value if isinstance(value, Unknown) else jnp.asarray(finite(argument, value), dtype=float)


Path = tuple[Any, ...]
"""Where a leaf is in a tree."""


class Place(eqx.Module):
    """Where some of θ belong."""

    path: Path = eqx.field(static=True)
    name: str = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)
    log: bool = eqx.field(static=True)
    bounded: bool = eqx.field(static=True)
    own: bool = eqx.field(static=True, default=False)
    """Each recording has numbers of its own here …"""
    copies: int = eqx.field(static=True, default=1)
    """… which are so many; 1 of what is shared."""

    @property
    def size(self) -> int:
        """Numbers of θ, those of all recordings."""
        return self.copies * self.width

    @property
    def width(self) -> int:
        """Numbers of the leaf."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its numbers: "NAME@RECORDING" where each has its own, and "[ROW]" where there are several."""
        names = [self.name] if self.copies == 1 else [f"{self.name}@{k}" for k in range(self.copies)]
        rows = [""] if self.width == 1 else [f"[{k}]" for k in range(self.width)]
        return tuple(name + row for name in names for row in rows)


class Free(eqx.Module):
    """θ: all unknown leaves of a tree behind one another, as logarithms where they are positive.

    Where each of several recordings has a number of its own, θ has those of all of them, one behind the other.

    Attributes:
        places: Which leaves these are.
        value: Centre of the prior of θ.
        sigma: Its standard deviations; infinite where there is none.
        lower: Bounds of θ.
        upper: Bounds of θ.
        index: The recording whose own numbers are put; of several recordings along a first axis, None where all numbers
            are shared.
        limited: Names of what θ must leave to be possible, see `AbstractMechanism.margins` …
        least: … and how much of each at least.
    """

    places: tuple[Place, ...] = ()
    value: Float[Array, " p"] = eqx.field(default_factory=lambda: jnp.zeros(0))
    sigma: Float[Array, " p"] = eqx.field(default_factory=lambda: jnp.zeros(0))
    lower: Float[Array, " p"] = eqx.field(default_factory=lambda: jnp.zeros(0))
    upper: Float[Array, " p"] = eqx.field(default_factory=lambda: jnp.zeros(0))
    index: Int[Array, "*recordings"] | None = None
    limited: tuple[str, ...] = eqx.field(static=True, default=())
    least: Float[Array, " k"] = eqx.field(default_factory=lambda: jnp.zeros(0))

    @property
    def size(self) -> int:
        """Numbers of θ."""
        return sum(place.size for place in self.places)

    def put(self, tree: PyTree, theta: Float[Array, " p"]) -> PyTree:
        """The tree with θ at its places."""
        if not self.places:
            return tree
        return self._filled(tree, self._chosen(self.values(theta)))

    def _filled(self, tree: PyTree, leaves: Sequence[Any]) -> PyTree:
        return filled(tree, [place.path for place in self.places], leaves)

    def numbers(self, theta: Float[Array | np.ndarray, "*p"]) -> list[Array | np.ndarray]:
        """What θ, or something of its shape, has of each place, in the shape of the leaf; a row for every recording
        where each has its own."""
        parts, start = [], 0
        for place in self.places:
            rows = () if place.copies == 1 else (place.copies,)
            parts.append(theta[start : start + place.size].reshape((*rows, *place.shape)))
            start += place.size
        return parts

    def _chosen(self, theta: Float[Array, "*p"]) -> list[Array]:
        """What θ has of each place: of the recording where it is its own."""
        rows = zip(self.places, self.numbers(theta), strict=True)
        return [part if place.copies == 1 else part[self.index] for place, part in rows]

    def chosen(self, numbers: Float[Array, " p"]) -> dict[str, Array]:
        """What each place has of numbers like θ, of the recording where they are its own, by the name of the place."""
        return dict(zip(self.names, self._chosen(numbers), strict=True))

    def of(self, index: Int[Array, ""] | int | None) -> "Free":
        """θ as it is put for this recording."""
        if self.index is None:
            return self
        return eqx.tree_at(lambda free: free.index, self, jnp.asarray(index))

    def alone(self) -> "Free":
        """θ of the recording as if there were no other."""
        if self.index is None:
            return self
        places = tuple(dataclasses.replace(place, copies=1) for place in self.places)
        sides = (self.value, self.sigma, self.lower, self.upper)
        return Free(places, *(_raveled(self._chosen(side)) for side in sides))

    def another(self, theta: Float[Array, " p"], sigma: Float[Array, " p"], rows: Sequence[int]) -> "Free":
        """What each recording has of its own, of a recording that is none of these: as those of which least was known.

        Args:
            theta: θ as it was found …
            sigma: … and what the standard deviations of its prior were.
            rows: Recordings that it was found from: their mean is where a search begins.
        """

        def own(numbers: Float[Array, " p"]) -> list[Array]:
            parts = zip(self.places, self.numbers(numbers), strict=True)
            return [(part[None] if place.copies == 1 else part[np.array(rows)]) for place, part in parts if place.own]

        least = [part == jnp.max(part, axis=0) for part in own(sigma)]

        def mean(numbers: Float[Array, " p"]) -> Float[Array, " own"]:
            parts = zip(own(numbers), least, strict=True)
            return _raveled([jnp.mean(part, axis=0, where=which) for part, which in parts])

        places = tuple(dataclasses.replace(place, copies=1) for place in self.places if place.own)
        return Free(places, *map(mean, (theta, sigma, self.lower, self.upper)))

    def gathered(self, thetas: Float[Array, "recordings alone"]) -> Float[Array, " p"]:
        """θ of all recordings from that of each alone: the mean of what they share."""
        if self.index is None:
            return jnp.mean(thetas, axis=0)
        parts, start = [], 0
        for place in self.places:
            part = thetas[:, start : start + place.width]
            parts.append(jnp.ravel(part) if place.copies > 1 else jnp.mean(part, axis=0))
            start += place.width
        return jnp.concatenate(parts)

    def columns(self, wanted: Callable[[Place], bool]) -> np.ndarray | Int[Array, " columns"]:
        """Which of θ are at the places that are wanted, of the recording where they are its own."""
        parts, start = [np.zeros(0, int)], 0
        for place in self.places:
            first = start if place.copies == 1 else start + place.width * self.index
            if wanted(place):
                parts.append(first + np.arange(place.width))
            start += place.size
        return np.concatenate(parts) if all(isinstance(part, np.ndarray) for part in parts) else jnp.concatenate(parts)

    @property
    def bounded(self) -> bool:
        """Whether any of them has bounds."""
        return any(place.bounded for place in self.places)

    @property
    def names(self) -> tuple[str, ...]:
        """What the places are called."""
        return tuple(place.name for place in self.places)

    @property
    def number_names(self) -> tuple[str, ...]:
        """What each number of θ is called."""
        return tuple(name for place in self.places for name in place.names)

    @property
    def owners(self) -> dict[str, int | None]:
        """The recording that each number of θ belongs to, by its name; None of what is shared."""
        rows = ((place, k) for place in self.places for k in range(place.size))
        owners = (None if place.copies == 1 else k // place.width for place, k in rows)
        return dict(zip(self.number_names, owners, strict=True))

    def priors(self) -> dict[str, Unknown]:
        """What is known of each place before, by name."""
        sides = (self.values(side) for side in (self.value, self.lower, self.upper))
        value, lower, upper = map(self.numbers, sides)
        rows = zip(self.places, value, self.numbers(self.sigma), lower, upper, strict=True)
        return {
            place.name: Unknown(value, sigma=sigma, lower=lower, upper=upper, log=place.log, own=place.own)
            for place, value, sigma, lower, upper in rows
        }

    def put_back(self, tree: PyTree) -> PyTree:
        """The tree with `Unknown` at the places, as it was."""
        rows = zip(self.places, self.priors().values(), strict=True)
        first = [prior if place.copies == 1 else jax.tree.map(itemgetter(0), prior) for place, prior in rows]
        return self._filled(tree, first)

    @property
    def logs(self) -> Bool[np.ndarray, " p"]:
        """Which of θ are logarithms."""
        return np.concatenate([np.zeros(0, bool), *(np.full(place.size, place.log) for place in self.places)])

    def values(self, theta: Float[Array | np.ndarray, " p"]) -> Float[Array | np.ndarray, " p"]:
        """The numbers of the leaves; of an array of NumPy without JAX."""
        xp = np if isinstance(theta, np.ndarray) else jnp
        return xp.where(self.logs, xp.exp(theta), theta) if self.logs.any() else theta

    def theta(self, values: Float[Array, " p"]) -> Float[Array, " p"]:
        """θ of the numbers of the leaves; of a bound below zero the logarithm is that of zero."""
        if not self.logs.any():
            return values
        return jnp.where(self.logs, jnp.log(jnp.where(self.logs, jnp.maximum(values, 0.0), 1.0)), values)

    def deviations(
        self, theta: Float[Array | np.ndarray, " p"], sigma: Float[np.ndarray, " p"]
    ) -> Float[np.ndarray, " p"]:
        """Standard deviations of the numbers of the leaves, from those of θ."""
        return np.where(self.logs, self.values(theta), 1.0) * sigma if self.logs.any() else sigma

    def named(self, numbers: Float[Array | np.ndarray, " p"]) -> dict[str, Array | np.ndarray]:
        """What each place has of numbers like θ, by name."""
        return dict(zip(self.names, self.numbers(numbers), strict=True))


def filled(tree: PyTree, paths: Sequence[Path], leaves: Sequence[Any]) -> PyTree:
    """The tree with these leaves at the paths."""
    new = dict(zip(paths, leaves, strict=True))
    old, structure = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_unknown)
    return jax.tree.unflatten(structure, [new.get(path, leaf) for path, leaf in old])


def _raveled(parts: Sequence[Array]) -> Float[Array, " p"]:
    if is_traced(parts):
        return jnp.concatenate([jnp.ravel(part) for part in parts])
    return jax.device_put(np.concatenate([np.ravel(part) for part in parts]))  # which compiles nothing


@program(**ONCE)
def _by_logarithms(free: Free) -> tuple[Array, Array, Array]:
    """(value, lower, upper) of θ."""
    return free.theta(free.value), free.theta(free.lower), free.theta(free.upper)


def freed(tree: PyTree, name: Callable[[Path], str], recordings: int = 1) -> tuple[PyTree, Free]:
    """(the tree with the values of its unknown leaves, which these are).

    Args:
        tree: A pytree.
        name: What the leaf at a path is called.
        recordings: How many values a number has that is own to each recording.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_unknown)
    unknown = [(path, leaf) for path, leaf in leaves if is_unknown(leaf)]
    if not unknown:
        return tree, Free()
    copies = [recordings if leaf.own else 1 for _, leaf in unknown]
    places = tuple(
        Place(path, name(path), leaf.value.shape, leaf.log, leaf.bounded, leaf.own, count)
        for (path, leaf), count in zip(unknown, copies, strict=True)
    )

    def stacked(key: str) -> Array:
        of_each = ((leaf.rows or count * (leaf,)) for (_, leaf), count in zip(unknown, copies, strict=True))
        return _raveled([getattr(row, key) for rows in of_each for row in rows])

    index = jnp.arange(recordings) if max(copies) > 1 else None
    free = Free(places, *map(stacked, ("value", "sigma", "lower", "upper")), index)
    sides = _by_logarithms(free) if free.logs.any() else (free.value, free.lower, free.upper)
    return known(tree), eqx.tree_at(lambda free: (free.value, free.lower, free.upper), free, sides)
