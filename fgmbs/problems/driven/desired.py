"""What a mechanism is asked to do: desired coordinates as samples, samples with derivatives or functions of time."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Bool, Float

from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.names import coordinate_index, listed
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.driven.sampled_motion import sampled_motion
from fgmbs.signals.trajectories import sample as sample_function

Desired: TypeAlias = ArrayLike | tuple[ArrayLike, ...] | Callable
"""Samples; (values, velocities, accelerations); or a function of time."""

_UNIFORM = 1e-6
"""How much time steps may differ to count as uniform, relative to the step: files round."""
_MOMENT = 1e-6
"""How long before a sample the acceleration of a function is looked at for a jump, relative to the time step …"""
_JUMP = 1e-4
"""… and how large it is, relative to the largest acceleration."""


class DesiredMotion(eqx.Module):
    """Desired coordinates, one column each, with their derivatives."""

    followed: tuple[int, ...] = eqx.field(static=True)
    """Indices of the coordinates."""
    start: float = eqx.field(static=True)
    """First time, for what is decided before anything is compiled [s]."""
    t: Float[Array, " steps"]
    samples: Float[Array, "steps k"]
    """What was desired [m, rad] …"""
    y: Float[Array, "steps k"]
    """… and the smooth signal through it, with its derivatives."""
    dy: Float[Array, "steps k"]
    ddy: Float[Array, "steps k"]
    cov: Float[Array, "steps k 3 3"] | None
    """Covariance of (y, dy, ddy) of each signal."""
    jumps: Bool[Array, "steps k"]
    sigma: Float[Array, " k"]

    @property
    def by_step(self) -> dict[str, Array | None]:
        """Fields with a row for every step."""
        return {name: getattr(self, name) for name in ("t", "samples", "y", "dy", "ddy", "cov", "jumps")}

    def first(self, steps: int) -> "DesiredMotion":
        """Its first steps."""
        return dataclasses.replace(self, **jax.tree.map(lambda x: x[:steps], self.by_step))


def desired_motion(
    mechanism: AbstractMechanism,
    t: ArrayLike,
    desired: Mapping[str, Desired],
    sigma: Mapping[str, float | tuple[float, float, float]] | None = None,
    covariance: bool = False,
    argument: str = "desired",
) -> DesiredMotion:
    """The desired motion, checked.

    Args:
        mechanism: The mechanism.
        t: Times [s].
        desired: By coordinate name, or "point:NAME" for all coordinates of a point.
        sigma: Standard deviations by the same names: of samples, or of (y, dy, ddy) where all three are given.
        covariance: Also compute covariances.
        argument: What messages call `desired`.

    Raises:
        ArgumentError: An invalid argument.
    """
    times = checked_times(t)
    if not isinstance(desired, Mapping) or not desired:
        raise ArgumentError(
            f"{argument}: expected a mapping from names of coordinates to their motion; found {desired!r}"
        )
    given = {}
    for name, value in desired.items():
        places = _places(mechanism, name, argument)
        columns = _columns(f"{argument}[{name!r}]", value, times, len(places))
        for k, i in enumerate(places):
            if i in given:
                raise ArgumentError(f"{argument}: the coordinate {mechanism.coordinate_names[i]!r} is given twice")
            given[i] = (columns, k, _noise(name, (sigma or {}).get(name), columns))
    unknown = set(sigma or {}) - set(desired)
    if unknown:
        raise ArgumentError(f"sigma: expected names in {argument}, {listed(desired)}; found {listed(sorted(unknown))}")
    followed = tuple(sorted(given))
    bare = any(columns[1] is None for columns, _, _ in given.values())
    why = f"because {argument} has samples without derivatives; give (values, velocities, accelerations)"
    dt = np.asarray(uniform_step(times, why) if bare else 0.0)
    signals = tuple(given[i] for i in followed)
    parts = _joined(mechanism, times, dt, signals, covariance)
    return DesiredMotion(followed, float(times[0]), *parts)


@program
def _joined(mechanism, t, dt, signals, covariance):
    """(t, samples, y, dy, ddy, cov, jumps, sigma) of all signals (columns, place among them, standard deviations).

    Samples without derivatives are smoothed.
    """
    samples = jnp.stack([columns[0][:, k] for columns, k, _ in signals], axis=1)
    parts = [
        (*(column[:, k] for column in columns), noise[0], jnp.broadcast_to(jnp.diag(noise**2), (t.shape[0], 3, 3)))
        for columns, k, noise in signals
        if columns[1] is not None
    ]
    bare = [j for j, (columns, _, _) in enumerate(signals) if columns[1] is None]
    if bare:
        noise = jnp.stack([signals[j][2][0] for j in bare])
        found = sampled_motion(mechanism, samples[:, jnp.asarray(bare)], dt, noise, covariance)
        cov = jnp.zeros((*found.y.shape, 3, 3), found.y.dtype) if found.cov is None else found.cov
        for i, j in enumerate(bare):
            columns = (found.y, found.dy, found.ddy, found.jumps)
            parts.insert(j, (*(column[:, i] for column in columns), found.sigma[i], cov[:, i]))
    y, dy, ddy, jumps, sigma, cov = (jnp.stack(part, axis=-1) for part in zip(*parts, strict=True))
    return t, samples, y, dy, ddy, jnp.moveaxis(cov, -1, 1) if covariance else None, jumps, sigma


def checked_times(t: ArrayLike) -> np.ndarray:
    """Times as an array.

    Raises:
        ArgumentError: Fewer than three, not finite or not increasing.
    """
    try:
        times = np.asarray(t, float)
    except (TypeError, ValueError):
        raise ArgumentError(f"t: expected a list of times in seconds; found {t!r}") from None
    if times.ndim != 1 or times.size < 3:
        raise ArgumentError(f"t: expected at least three times in a row; found an array of shape {times.shape}")
    if not np.isfinite(times).all():
        k = int(np.argmax(~np.isfinite(times)))
        raise ArgumentError(f"t: expected finite times; found t[{k}] = {times[k]}")
    if not (np.diff(times) > 0).all():
        k = int(np.argmax(np.diff(times) <= 0))
        raise ArgumentError(
            f"t: expected times that increase; found t[{k}] = {times[k]:.9g} and t[{k + 1}] = {times[k + 1]:.9g} s"
        )
    return times


def resolution(times: np.ndarray) -> float:
    """How exactly times are known: some units in the last place of the largest [s]."""
    return 4 * float(np.finfo(float).eps) * float(np.max(np.abs(times)))


def uniform_step(times: np.ndarray, why: str) -> float:
    """The step of uniform times.

    Raises:
        ArgumentError: They are not uniform; `why` says why they must be.
    """
    steps = np.diff(times)
    mean = (times[-1] - times[0]) / len(steps)
    off = np.abs(times - (times[0] + mean * np.arange(len(times))))
    if off.max() > _UNIFORM * mean + resolution(times):
        k = int(np.argmax(np.abs(steps - mean)))
        raise ArgumentError(
            f"t: expected uniform times, {why}; found steps from {steps.min():.6g} to {steps.max():.6g} s, as from "
            f"t[{k}] = {times[k]:.9g} to t[{k + 1}] = {times[k + 1]:.9g} s"
        )
    return float(mean)


def _places(mechanism: AbstractMechanism, name: str, argument: str) -> list[int]:
    """Indices of the coordinates that a name means."""
    if not isinstance(name, str) or not name.startswith("point:"):
        return [coordinate_index(mechanism, name, argument)]
    try:
        return list(mechanism.point_coordinates(name.removeprefix("point:")))
    except ArgumentError as error:
        raise ArgumentError(f"{argument}: {str(error).removeprefix('point: ')}") from None


def _columns(where: str, value: Desired, times: np.ndarray, width: int) -> list[Array | None]:
    """(values, velocities, accelerations, their jumps), each (steps, width); None for those that are not given."""
    if callable(value):
        moment = max(_MOMENT * float(np.min(np.diff(times))), resolution(times))
        at, before = (sample_function(value, jnp.asarray(t)) for t in (times, times - moment))
        y, dy, after, left = (checked_samples(where, part, times, width) for part in (*at, before.ddy))
        return [y, dy, *_jumping(after, left)]
    if isinstance(value, tuple):
        if len(value) != 3:
            raise ArgumentError(f"{where}: expected (values, velocities, accelerations); found a tuple of {len(value)}")
        words = ("values", "velocities", "accelerations")
        each = zip(words, value, strict=True)
        parts = [checked_samples(f"{where}, {word}", part, times, width) for word, part in each]
        return [*parts, jax.device_put(np.zeros((len(times), width), bool))]
    return [checked_samples(where, value, times, width), None, None, None]


@program(**ONCE)
def _jumping(
    after: Float[Array, "steps width"], left: Float[Array, "steps width"]
) -> tuple[Float[Array, "steps width"], Bool[Array, "steps width"]]:
    """(accelerations before their jumps, where they jump), of those behind and before every sample."""
    inner = jnp.zeros(after.shape[0], bool).at[2:-3].set(True)[:, None]
    jumps = inner & (jnp.abs(after - left) > _JUMP * jnp.max(jnp.abs(after)))
    return jnp.where(jumps, left, after), jumps


def checked_samples(where: str, value: ArrayLike, times: np.ndarray, width: int) -> Float[Array, "steps width"]:
    """Samples as an array, one row per time.

    Raises:
        ArgumentError: Another shape, or numbers that are not finite.
    """
    try:
        array = jnp.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ArgumentError(f"{where}: expected numbers or a function of time; found {value!r}") from None
    T = len(times)
    accepted = ((T,), (T, 1)) if width == 1 else ((T, width),)
    if array.shape not in accepted:
        raise ArgumentError(f"{where}: expected an array of shape {accepted[0]}, one row per time; found {array.shape}")
    if isinstance(array, Tracer):
        return array.reshape(T, width)
    numbers = np.asarray(array)
    if not np.isfinite(numbers).all():
        k = int(np.argmax(~np.isfinite(numbers.reshape(T, -1)).all(axis=1)))
        raise ArgumentError(f"{where}: expected finite numbers; found {numbers[k]} at t[{k}] = {times[k]:.9g} s")
    return jax.device_put(numbers.reshape(T, width))


def _noise(name: str, sigma, columns) -> Float[Array, "3"]:
    """Standard deviations of (y, dy, ddy); NaN for samples whose noise is to be found."""
    numbers = (sigma,) if sigma is not None and not isinstance(sigma, tuple) else sigma
    complete = columns[1] is not None
    if numbers is not None:
        if len(numbers) != (3 if complete else 1) or not all(np.isfinite(x) and x >= 0 for x in map(float, numbers)):
            accepted = "three standard deviations (values, velocities, accelerations)" if complete else "one"
            raise ArgumentError(f"sigma[{name!r}]: expected {accepted}, finite and ≥ 0; found {sigma!r}")
        return jax.device_put(np.array(numbers if complete else (*numbers, 0.0, 0.0), float))
    return jax.device_put(np.array((0.0 if complete else np.nan, 0.0, 0.0)))
