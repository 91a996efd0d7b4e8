"""Signals of the most information within their limits: random ones, scaled to their limits, improved by gradient.

Limits hold at every sample and step by an augmented Lagrangian, with a multiplier of each; what it leaves of them is
made up for by the size of the signal.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from fgmbs.compiled.program import program
from fgmbs.problems.design.information import DesignProblem, Look, look, ratios
from fgmbs.typing import Scalar

_RATE = 0.1
"""First rate of Adam, relative to the coefficients that the search begins with; it falls to zero."""
_ROUNDS = 6
"""Rounds, after each of which the multipliers follow."""
_WEIGHT = 1000.0
"""Weight of what is beyond limits in the first round, beside log det by parameter …"""
_HEAVIER = 3.0
"""… and how it grows from round to round."""
_SIZES = 28
"""Sizes of a signal that are compared, down to …"""
_SMALLEST = 1e-3
"""… this part of the largest that its own limits allow …"""
_HALVINGS = 12
"""… and how often the distance between one that keeps the limits and the next that does not is halved."""
_WITHIN = 1 - 1e-9
"""Part of a limit up to which is within it, after rounding."""

Progress = Callable[[str, int, float], None]


class Found(NamedTuple):
    """Signals, along a first axis."""

    c: Float[np.ndarray, "signals size"]
    log_det: Float[np.ndarray, " signals"]
    """Mean over all scenarios; −inf where some free run gets nowhere."""
    reach: Float[np.ndarray, " signals"]
    """Largest ratio to any limit."""
    looks: Look
    """Under the first values."""


def random_signals(design: DesignProblem, count: int, seed: int) -> Found:
    """Signals of normal coefficients, as large as the limits allow, from the one that tells the most on."""
    c = jax.random.normal(jax.random.key(seed), (count, design.size), design.terms.dtype)
    return best_first(looked(design, within_limits(design, np.asarray(c))))


def improved(
    design: DesignProblem, c: Float[np.ndarray, "signals size"], iterations: int, room: int, tell: Progress
) -> Found:
    """Signals improved from these by Adam, as large as the limits allow, the best first.

    Args:
        design: The problem.
        c: Where the search begins, each for itself.
        iterations: Of Adam, in all.
        room: How many signals are compared at once, no fewer than there are.
        tell: Called with (what is done, round, best log det).
    """
    each = max(1, iterations // _ROUNDS)
    points = jax.eval_shape(lambda c: ratios(design, c, design.thetas[0]), c[0]).shape[0]
    held = jnp.zeros((c.shape[0], design.thetas.shape[0], points))
    unit = jnp.sqrt(jnp.mean(jnp.asarray(c) ** 2, axis=1, keepdims=True))
    way = _Way(jnp.asarray(c), _method(1).init(jnp.asarray(c)), held, jnp.zeros(c.shape[0]))
    for round in range(_ROUNDS):
        way = _descended(design, way, unit, jnp.asarray(_WEIGHT * _HEAVIER**round), each)
        tell("improving signals", round + 1, float(jnp.max(way.log_det)))
    # In the room of all, for which programs are there.
    last = np.resize(np.asarray(way.c), (room, c.shape[1]))
    found = looked(design, within_limits(design, last))
    return best_first(jax.tree.map(lambda leaf: leaf[: c.shape[0]], found))


def best_first(found: Found) -> Found:
    """Signals that keep their limits before those that do not, and of each kind the one that tells the most first."""
    order = np.lexsort((-found.log_det, found.reach > 1))
    return jax.tree.map(lambda leaf: leaf[order], found)


def joined(one: Found, other: Found) -> Found:
    """The signals of both, the best first."""
    return best_first(jax.tree.map(lambda *leaves: np.concatenate(leaves), one, other))


def looked(design: DesignProblem, c: Float[np.ndarray, "signals size"]) -> Found:
    """What signals tell."""
    looks, log_det, reach = jax.tree.map(np.asarray, _looked(design, jnp.asarray(c)))
    return Found(np.asarray(c), log_det, reach, looks)


@program
def _looked(design: DesignProblem, c):
    def of_one(c):
        looks = jax.vmap(lambda theta: look(design, c, theta))(design.thetas)
        log_det = jnp.where(looks.ran & jnp.isfinite(looks.log_det), looks.log_det, -jnp.inf)
        reach = jnp.where(jnp.all(looks.ran), jnp.max(looks.ratios), jnp.inf)
        return jax.tree.map(lambda leaf: leaf[0], looks), jnp.mean(log_det), reach

    return jax.lax.map(of_one, c)


def within_limits(design: DesignProblem, c: Float[np.ndarray, "signals size"]) -> Float[np.ndarray, "signals size"]:
    """The signals, each of the largest size at which all limits are kept; where there is none, of that which is beyond
    them by the least."""
    largest = np.asarray(_largest(design, jnp.asarray(c)))
    sizes = np.geomspace(1.0, _SMALLEST, _SIZES)
    scaled = (largest[:, None] * sizes)[..., None] * c[:, None]
    reach = np.stack([np.asarray(_reach(design, jnp.asarray(one))) for one in np.swapaxes(scaled, 0, 1)], axis=1)
    kept = reach <= 1.0
    some = kept.any(axis=1)
    first = np.where(some, np.argmax(kept, axis=1), np.argmin(reach, axis=1))
    low = sizes[first]
    high = np.where(some, sizes[np.maximum(first - 1, 0)], low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = np.asarray(_reach(design, jnp.asarray((largest * middle)[:, None] * c))) <= 1.0
        low, high = np.where(inside & some, middle, low), np.where(inside | ~some, high, middle)
    return (largest * low * _WITHIN)[:, None] * c


@program
def _largest(design: DesignProblem, c):
    """Factor by which each signal has the size that its own limits allow."""

    def of_one(c):
        y = design.sampled(c)
        lower, upper = design.signals.lower[:, None], design.signals.upper[:, None]
        return 1 / jnp.max(jnp.maximum(y / upper, y / lower))

    return jax.vmap(of_one)(c)


@program
def _reach(design: DesignProblem, c):
    """Largest ratio to any limit, under every θ."""
    of_one = lambda c: jnp.max(jax.vmap(lambda theta: jnp.max(ratios(design, c, theta)))(design.thetas))
    return jax.lax.map(of_one, c)


class _Way(NamedTuple):
    c: Float[Array, "signals size"]
    state: optax.OptState
    held: Float[Array, "signals scenarios points"]
    """What the multipliers of the limits would be after the last iteration."""
    log_det: Float[Array, " signals"]
    """At that."""


def _method(iterations: int) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(_RATE, iterations))


@program
def _descended(design: DesignProblem, way: _Way, unit, weight: Scalar, iterations: int) -> _Way:
    """The way after so many iterations, with the multipliers that it came with."""
    method, multipliers = _method(_ROUNDS * iterations), way.held
    wanted = sum(design.wanted)

    def loss(c, multipliers):
        looks = jax.vmap(lambda theta: look(design, c, theta))(design.thetas)
        held = jnp.maximum(multipliers + weight * (looks.ratios - 1), 0.0)
        value = -jnp.mean(looks.log_det) / wanted + jnp.mean(held**2) / (2 * weight)
        return value, (held, jnp.mean(looks.log_det))

    slope = jax.vmap(jax.grad(loss, has_aux=True))

    def advance(way: _Way, _):
        gradient, (held, log_det) = slope(way.c, multipliers)
        there = jnp.all(jnp.isfinite(gradient), axis=1)[:, None]
        update, state = method.update(jnp.where(there, gradient, 0.0), way.state)
        held = jnp.where(jnp.isfinite(held), held, way.held)
        return _Way(way.c + unit * update, state, held, log_det), None

    return jax.lax.scan(advance, way, None, iterations)[0]
