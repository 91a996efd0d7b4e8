"""What `design_excitation` accepts: its arguments, checked before anything is compiled."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import by_name, finite_number, nearest, of_type, texts, whole_number
from fgmbs.errors import ArgumentError
from fgmbs.graph.model import of_mechanism
from fgmbs.inputs import AbstractInput, Command, commands
from fgmbs.kinematics.names import coordinate_index, listed, velocity_index
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.design.information import Limits
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.sensors.base import AbstractSensor
from fgmbs.sensors.readings import readings
from fgmbs.signals.recordings.recording import Recording
from fgmbs.unknowns import Free, known

LimitsByName = Mapping[str, float | tuple[float, float]]
"""A pair of limits by name, or one number for ± that."""

_MOST_STEPS = 1_000_000
"""Of an experiment."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """When the signals are sampled, and what they are made of."""

    times: Float[np.ndarray, " samples"]
    dt: float
    period: float
    ramp: float
    harmonics: tuple[int, ...]


def checked_plan(period: Any, harmonics: Any, dt: Any, duration: Any, ramp: Any) -> Plan:
    """The signals' times and harmonics.

    Raises:
        ArgumentError: Times that are not positive or too short, no harmonics, or some that dt does not resolve.
    """
    numbers = {"period": period, "dt": dt}
    numbers |= {name: value for name, value in (("duration", duration), ("ramp", ramp)) if value is not None}
    for name, value in numbers.items():
        if finite_number(value, name) <= 0:
            raise ArgumentError(f"{name}: expected a positive time in seconds; found {value!r}")
    if isinstance(harmonics, list | tuple):
        chosen = tuple(whole_number(f"harmonics[{k}]", one) for k, one in enumerate(harmonics))
        if not chosen or len(set(chosen)) != len(chosen):
            raise ArgumentError(f"harmonics: expected at least one, each once; found {list(chosen)}")
    else:
        chosen = tuple(range(1, whole_number("harmonics", harmonics, 1) + 1))
    period, dt = float(period), float(dt)
    duration = period if duration is None else float(duration)
    if duration < period * (1 - 1e-9):
        raise ArgumentError(f"duration: expected at least one period, {period:g} s; found {duration:g} s")
    most = int(np.ceil(period / (2 * dt))) - 1
    if max(chosen) > most:
        raise ArgumentError(
            f"harmonics: expected at most {most}, of which a period has more than two samples, dt = {dt:g} s apart; "
            f"found {max(chosen)}"
        )
    if duration / dt > _MOST_STEPS:
        raise ArgumentError(f"duration: expected at most {_MOST_STEPS:,} steps of dt = {dt:g} s; found {duration:g} s")
    ramp = period / max(1, *chosen) if ramp is None else float(ramp)
    times = dt * np.arange(int(np.floor(duration / dt * (1 + 1e-9))) + 1)
    return Plan(times, dt, period, ramp, chosen)


def designed_commands(mechanism: AbstractMechanism, inputs: Sequence[AbstractInput]) -> tuple[Command, ...]:
    """The commands whose signals are designed.

    Raises:
        ArgumentError: There is none, one acts on nothing of the mechanism, or two have one signal.
    """
    for force in inputs:
        of_type("inputs", force, AbstractInput, "forces as of fgmbs.inputs")
        force.check(mechanism)
    designed = commands(inputs)
    if not designed:
        raise ArgumentError("inputs: expected a fgmbs.inputs.Command, whose signal is designed; found none")
    for k, command in enumerate(designed):
        if command.column in [other.column for other in designed[:k]]:
            raise ArgumentError(
                f"inputs: expected commands with a signal each; found {command.column!r} as the column of two"
            )
    return designed


def signal_limits_of(argument: str, given: Any, names: Sequence[str]) -> Limits:
    """Limits of every signal.

    Raises:
        ArgumentError: Limits of no signal, of none of some, or 0 is not between them.
    """
    pairs = _pairs(argument, given, names, "commands")
    if missing := [name for name in names if name not in pairs]:
        raise ArgumentError(
            f"{argument}: expected limits of the signal of every command; found none of {listed(missing)}"
        )
    for name, (lower, upper) in pairs.items():
        if not lower < 0 < upper:
            raise ArgumentError(
                f"{argument}[{name!r}]: expected limits on both sides of 0, from where the signal rises; "
                f"found {lower:g} to {upper:g}"
            )
    lower, upper = np.asarray([pairs[name] for name in names]).T
    return Limits(jnp.asarray(lower), jnp.asarray(upper), ())


def _pairs(argument: str, given: Any, names: Sequence[str], kind: str) -> dict[str, tuple[float, float]]:
    """Pairs of limits by name.

    Raises:
        ArgumentError: A name that is not there, or limits that are none.
    """
    by_name(argument, given, "numbers, or pairs of them, by name, as in {'x': (-1.0, 1.0)}")
    pairs = {}
    for name, value in given.items():
        where = f"{argument}[{name!r}]"
        if name not in names:
            raise ArgumentError(f"{argument}: expected names of {kind}; found {name!r}{nearest(name, names, kind)}")
        if isinstance(value, list | tuple):
            if len(value) != 2:
                raise ArgumentError(f"{where}: expected a positive number or a pair of limits; found {value!r}")
            lower, upper = (finite_number(side, where) for side in value)
        else:
            upper = finite_number(value, where)
            lower = -upper
        if lower >= upper:
            raise ArgumentError(
                f"{where}: expected a lower limit below the upper one, or a positive number; found {value!r}"
            )
        pairs[name] = lower, upper
    return pairs


def state_limits_of(problem: SmoothingProblem, coordinates: Any, velocities: Any) -> Limits:
    """Limits of coordinates and velocities, which hold at the start.

    Raises:
        ArgumentError: A name that is not there, limits that are none, or that the start is beyond.
    """
    mechanism, first = problem.mechanism, np.asarray(problem.recording.starts[0])
    places, lower, upper = [], [], []
    for argument, given, kind, names, index, behind in (
        ("coordinate_limits", coordinates, "coordinates", mechanism.coordinate_names, coordinate_index, 0),
        ("velocity_limits", velocities, "velocities", mechanism.velocity_names, velocity_index, mechanism.n),
    ):
        for name, (low, high) in _pairs(argument, {} if given is None else given, names, kind).items():
            place = behind + index(mechanism, name, argument)
            if not low <= first[place] <= high:
                raise ArgumentError(
                    f"{argument}[{name!r}]: expected limits that hold at the start, where it is {first[place]:.6g}; "
                    f"found {low:g} to {high:g}"
                )
            places.append(place)
            lower.append(low)
            upper.append(high)
    return Limits(jnp.asarray(lower, dtype=float), jnp.asarray(upper, dtype=float), tuple(places))


def wanted_numbers(problem: SmoothingProblem, names: Any) -> tuple[bool, ...]:
    """Which numbers of θ are wanted.

    Raises:
        ArgumentError: None is free, a name is none of a free number, or a number is none that a free run depends on.
    """
    free, driven = problem.free, {command.name for command in commands(problem.inputs)}
    if not free.size:
        raise ArgumentError("free: expected at least one number to find, besides sizes of noise; found none")
    for place in free.places:
        if not of_mechanism(place) and place.path[1].key in driven and not place.name.endswith(".gain"):
            raise ArgumentError(
                f"free: expected of commands their gain, of which free runs are differentiated; found {place.name!r}"
            )
    every = free.number_names
    if names is None:
        moving = [of_mechanism(place) or place.path[1].key in driven for place in free.places]
        chosen = [own for place, own in zip(free.places, moving, strict=True) for _ in range(place.size)]
        return tuple(chosen) if any(chosen) else (True,) * free.size
    of_place = {place.name: place.names for place in free.places}
    found: set[str] = set()
    for name in texts("wanted", names, "names of free numbers"):
        if name not in every and name not in of_place:
            raise ArgumentError(
                f"wanted: expected names of free numbers; found {name!r}{nearest(name, every, 'free numbers')}"
            )
        found |= set(of_place.get(name, (name,)))
    if not found:
        raise ArgumentError("wanted: expected at least one name of a free number; found none")
    return tuple(name in found for name in every)


def drawn_scenarios(free: Free, count: int, seed: int) -> Float[Array, "scenarios p"]:
    """The first values of θ, and draws of their priors.

    Raises:
        ArgumentError: There are to be draws, but no number has a prior.
    """
    sigma = np.asarray(free.sigma)
    if count and not np.isfinite(sigma).any():
        raise ArgumentError(
            f"scenarios: expected 0 where no free number has a prior to draw from, Unknown(sigma=…); found {count}"
        )
    drawn = np.random.default_rng((seed, 1)).standard_normal((count, free.size))
    thetas = free.value + drawn * np.where(np.isfinite(sigma), sigma, 0.0)
    return jnp.concatenate([free.value[None], jnp.clip(thetas, free.lower, free.upper)])


class _Still(eqx.Module):
    """A motion that stays where it is."""

    t: np.ndarray
    q: np.ndarray
    dq: np.ndarray


def planned_recording(
    mechanism: AbstractMechanism,
    sensors: Sequence[AbstractSensor],
    designed: Sequence[Command],
    plan: Plan,
    rates: Mapping[str, float] | float | None,
) -> Recording:
    """A recording with the stamps that are planned, and no more."""
    mechanism, count = known(mechanism), len(plan.times)
    rest = _Still(plan.times, np.tile(np.asarray(mechanism.reference), (count, 1)), np.zeros((count, mechanism.nv)))
    nothing = Recording.of(plan.times, {command.column: np.zeros(count) for command in designed}, source="design")
    return readings(mechanism, rest, sensors, rates=rates).merged(nothing)
