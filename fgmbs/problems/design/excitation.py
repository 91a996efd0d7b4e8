"""Experiment design: signals for the actuators under which recordings tell the most of parameters."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import by_name, finite_number, nearest, of_type, texts, whole_number
from fgmbs.errors import ArgumentError
from fgmbs.graph.time_graph import of_mechanism
from fgmbs.inputs import AbstractInput, Command, commands
from fgmbs.kinematics.names import coordinate_index, listed, velocity_index
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.design.information import DesignProblem, Limits
from fgmbs.problems.design.result import ExcitationDesign, Margin
from fgmbs.problems.design.search import Found, Progress, improved, joined, random_signals
from fgmbs.problems.estimation.arguments import checked_sensors
from fgmbs.problems.identify.free import FreeNumbers, Parts, freed_by_name
from fgmbs.problems.identify.identifiability import Identifiability, identifiability
from fgmbs.problems.simulation.arguments import Integrator
from fgmbs.problems.smooth.arguments import prepare_smooth
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.sensors.base import AbstractSensor
from fgmbs.sensors.readings import readings
from fgmbs.signals.recordings.recording import Recording
from fgmbs.signals.trajectories.fourier import FourierSeries, series
from fgmbs.unknowns import Free, known

LimitsByName = Mapping[str, float | tuple[float, float]]
"""A pair of limits by name, or one number for ± that."""

_MOST_STEPS = 1_000_000
"""Of an experiment."""


def design_excitation(
    mechanism: AbstractMechanism,
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput],
    *,
    free: FreeNumbers,
    period: float,
    harmonics: int | Sequence[int],
    dt: float,
    signal_limits: LimitsByName,
    coordinate_limits: LimitsByName | None = None,
    velocity_limits: LimitsByName | None = None,
    wanted: Sequence[str] | None = None,
    duration: float | None = None,
    ramp: float | None = None,
    rates: Mapping[str, float] | float | None = None,
    start: Mapping[str, float] | None = None,
    start_velocities: Mapping[str, float] | None = None,
    start_sigma: tuple[float, float] | None = None,
    scenarios: int = 0,
    random: int = 24,
    starts: int = 6,
    iterations: int = 180,
    seed: int = 0,
    integrator: Integrator = "hermite_simpson",
    progress: Progress | None = None,
) -> ExcitationDesign:
    """Signals for the commands of a mechanism under which a recording tells the most of its parameters (D-optimal).

    Each signal is a Fourier series that rises smoothly from rest. Its coefficients maximize log det of the Fisher
    information of the wanted numbers, all other free numbers and the first state being found along with them (their
    Schur complement): of readings of a free run, as `identify` with the method "prediction" fits them, with the noise
    of the sensors. The gradient is that of the simulated steps and their derivatives by θ. Limits hold at every step
    of the free run, by an augmented Lagrangian; what it leaves of them is made up for by the size of the signal.

    The search begins at the best of random signals, each as large as the limits allow.

    Args:
        mechanism: The mechanism with first values of its parameters, at which the experiment is planned.
        sensors: What will be read.
        inputs: Forces as of `identify`, among them the commands whose signals are designed. Unknown forces do not act.
        free: What will be looked for, by name, as in `identify`.
        period: Of the signals [s].
        harmonics: How many, from the first on, or which; 0 is a constant.
        dt: Time step, and interval of the samples of the signals [s].
        signal_limits: Of the signal of every command by the name of the command, in its unit, on both sides of 0.
        coordinate_limits: Of coordinates by name [m, rad].
        velocity_limits: Of velocities by name [m/s, rad/s].
        wanted: Names of free numbers whose information counts; by default those of the mechanism and of commands, not
            the calibration of sensors.
        duration: Of the recording, a period or more; by default one [s].
        ramp: Time in which the signals rise; by default a period of the highest harmonic [s].
        rates: Readings per second, of all sensors or by name; by default one every dt [Hz].
        start: Coordinates at the start by name; the rest is assembled, near the mechanism as drawn.
        start_velocities: Velocities at the start by name; by default it is at rest.
        start_sigma: How sure the start is, see `smooth`; by default nothing is known of it when parameters are found.
        scenarios: Draws of the priors of `free` over which log det is averaged, and under which limits hold, besides
            the first values.
        random: Random signals that are compared.
        starts: How many of them, the best, are improved.
        iterations: Of Adam.
        seed: Of random signals and scenarios; the same seed gives the same design.
        integrator: Integration rule between steps, see `simulate`.
        progress: Called with (what is being done, round, best log det) from time to time.

    Raises:
        ArgumentError: An argument is invalid, a limit is crossed or excludes the start, a name is none of a command, a
            coordinate or a free number, or no reading depends on a wanted number.
        AssemblyError: The start cannot be assembled.
    """
    checked_mechanism(mechanism)
    sensors = checked_sensors(mechanism, sensors)
    of_type("inputs", inputs, (AbstractInput, list, tuple), "forces as of fgmbs.inputs, in a list")
    inputs = (inputs,) if isinstance(inputs, AbstractInput) else tuple(inputs)
    designed = _designed(mechanism, inputs)
    plan = _planned(period, harmonics, dt, duration, ramp)
    counts = {"scenarios": (scenarios, 0), "random": (random, 1), "starts": (starts, 1), "iterations": (iterations, 1)}
    for argument, (count, least) in counts.items():
        whole_number(argument, count, least)
    whole_number("seed", seed)
    signal_bounds = _bounds("signal_limits", signal_limits, [command.name for command in designed])
    parts = freed_by_name(Parts(mechanism, sensors, inputs), free)
    recording = _still(mechanism, sensors, designed, plan, rates)
    given = dict(start={} if start is None else start, start_velocities=start_velocities, start_sigma=start_sigma)
    problem = prepare_smooth(
        parts.mechanism, recording, parts.sensors, parts.inputs, dt=plan.dt, **given, integrator=integrator
    )
    design = DesignProblem(
        problem=problem,
        thetas=_scenarios(problem.free, scenarios, seed),
        terms=series(jnp.asarray(plan.times), plan.harmonics, jnp.asarray(plan.period), jnp.asarray(plan.ramp)),
        signals=signal_bounds,
        states=_state_limits(problem, coordinate_limits, velocity_limits),
        wanted=_wanted(problem, wanted),
    )
    tell = progress or (lambda *_: None)
    tell("comparing random signals", 0, np.nan)
    compared = random_signals(design, random, seed)
    _refuse_untold(design, compared)
    best = improved(design, compared.c[: min(starts, random)], iterations, tell)
    return _result(design, plan, designed, best, compared)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """When the signals are sampled, and what they are made of."""

    times: Float[np.ndarray, " samples"]
    dt: float
    period: float
    ramp: float
    harmonics: tuple[int, ...]


def _planned(period: Any, harmonics: Any, dt: Any, duration: Any, ramp: Any) -> _Plan:
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
    return _Plan(times, dt, period, ramp, chosen)


def _designed(mechanism: AbstractMechanism, inputs: Sequence[AbstractInput]) -> tuple[Command, ...]:
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


def _bounds(argument: str, given: Any, names: Sequence[str]) -> Limits:
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


def _state_limits(problem: SmoothingProblem, coordinates: Any, velocities: Any) -> Limits:
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


def _wanted(problem: SmoothingProblem, names: Any) -> tuple[bool, ...]:
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


def _scenarios(free: Free, count: int, seed: int) -> Float[Array, "scenarios p"]:
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


def _still(
    mechanism: AbstractMechanism,
    sensors: Sequence[AbstractSensor],
    designed: Sequence[Command],
    plan: _Plan,
    rates: Mapping[str, float] | float | None,
) -> Recording:
    """A recording with the stamps that are planned, and no more."""
    mechanism, count = known(mechanism), len(plan.times)
    rest = _Still(plan.times, np.tile(np.asarray(mechanism.reference), (count, 1)), np.zeros((count, mechanism.nv)))
    nothing = Recording.of(plan.times, {command.column: np.zeros(count) for command in designed}, source="design")
    return readings(mechanism, rest, sensors, rates=rates).merged(nothing)


def _told(
    design: DesignProblem, information: Float[np.ndarray, "p p"], data: Float[np.ndarray, " p"]
) -> Identifiability:
    """What readings say of θ.

    Args:
        design: The problem.
        information: Of θ, priors included.
        data: Diagonal of that of the readings, the first state being known.
    """
    free, none = design.problem.free, np.zeros(design.problem.free.size)
    return identifiability(
        free.number_names, information, np.asarray(free.sigma), np.sqrt(np.maximum(data, 0.0)), none, none > 0
    )


def _of_theta(whole: Float[np.ndarray, "*signals size size"], p: int) -> Float[np.ndarray, "*signals p p"]:
    """Information of θ, the first state being found, too."""
    local = whole.shape[-1] - p
    start, mixed = whole[..., :local, :local], whole[..., :local, local:]
    return whole[..., local:, local:] - np.swapaxes(mixed, -1, -2) @ np.linalg.solve(start, mixed)


def _of_readings(
    design: DesignProblem, whole: Float[np.ndarray, "*signals size size"]
) -> Float[np.ndarray, "*signals p"]:
    """Diagonal of the information of the readings of θ, the first state being known."""
    free = design.problem.free
    return np.diagonal(whole, axis1=-2, axis2=-1)[..., -free.size :] - 1 / np.asarray(free.sigma) ** 2


def _refuse_untold(design: DesignProblem, compared: Found) -> None:
    """Refuses wanted numbers of which nothing is told, under all random signals together.

    Raises:
        ArgumentError: No free run gets to its end; a number without influence; some that no reading separates.
    """
    ran = compared.looks.ran
    if not ran.any():
        raise ArgumentError(
            f"signal_limits, dt: expected a mechanism whose free runs get to their end; found that none of "
            f"{len(ran)} does, under random signals of any size; try a smaller dt"
        )
    free = design.problem.free
    whole = compared.looks.whole[ran]
    told = _told(design, _of_theta(whole, free.size).sum(0), _of_readings(design, whole).sum(0))
    counts = [name for name, wanted in zip(told.names, design.wanted, strict=True) if wanted]
    if blind := [name for name in told.without_influence if name in counts]:
        raise ArgumentError(
            f"free: expected numbers that readings depend on; found that none depends on {listed(blind)}; leave it "
            "out, or add a sensor or a command"
        )
    sigma = dict(zip(told.names, np.asarray(free.sigma), strict=True))
    for one in told.combinations:
        if any(name in counts for name in one.parts) and not all(np.isfinite(sigma[name]) for name in one.parts):
            raise ArgumentError(
                f"free: expected numbers that readings tell apart; found that the change {one} is seen in none, under "
                f"any of {len(ran)} random signals; give the value of {listed(one.separated_by, 'or')}, or a prior"
            )


def _result(
    design: DesignProblem, plan: _Plan, designed: Sequence[Command], best: Found, compared: Found
) -> ExcitationDesign:
    """The best of all signals, with names."""
    problem, free = design.problem, design.problem.free
    notes = []
    if not (compared.reach <= 1).any():
        notes.append(f"none of {len(compared.c)} random signals, of any size, keeps the limits")
    every = joined(best, compared)
    if np.array_equal(every.c[0], compared.c[0]):
        notes.append(
            "no improved signal tells more than the best random one; more iterations, or another seed, may help"
        )
    c = jnp.asarray(every.c[0])
    whole = every.looks.whole[0]
    told = _told(design, _of_theta(whole, free.size), _of_readings(design, whole))
    notes += [line[2:] for line in str(told).split("\n")[1:] if not line.startswith("- condition")]
    coefficients, samples = np.asarray(design.coefficients(c)), np.asarray(design.sampled(c))
    half = len(plan.harmonics)
    numbers = jnp.asarray(plan.period), jnp.asarray(plan.ramp), plan.harmonics
    signals = {
        command.name: FourierSeries(jnp.asarray(row[:half]), jnp.asarray(row[half:]), *numbers)
        for command, row in zip(designed, coefficients, strict=True)
    }
    columns = {command.column: row for command, row in zip(designed, samples, strict=True)}
    count, n = int(problem.recording.count), problem.mechanism.n
    steps = every.looks.steps[0][:count]
    names = free.number_names
    return ExcitationDesign(
        signals=signals,
        recording=Recording.of(plan.times, columns, source="designed excitation"),
        free=free,
        wanted=tuple(name for name, wanted in zip(names, design.wanted, strict=True) if wanted),
        information=_of_theta(whole, free.size),
        random_information=_of_theta(compared.looks.whole, free.size),
        log_det=float(every.log_det[0]),
        random_log_det=compared.log_det,
        margins=_margins(design, designed, samples, steps),
        t=float(problem.recording.start) + plan.dt * np.arange(count),
        q=steps[:, :n],
        dq=steps[:, n:],
        notes=tuple(notes),
    )


def _margins(
    design: DesignProblem, designed: Sequence[Command], samples: np.ndarray, steps: np.ndarray
) -> tuple[Margin, ...]:
    mechanism = design.problem.mechanism
    found = []
    for command, row, lower, upper in zip(designed, samples, design.signals.lower, design.signals.upper, strict=True):
        found.append(Margin(command.name, "signal", float(lower), float(upper), float(row.min()), float(row.max())))
    for place, lower, upper in zip(design.states.places, design.states.lower, design.states.upper, strict=True):
        kind = "coordinate" if place < mechanism.n else "velocity"
        names = mechanism.coordinate_names if place < mechanism.n else mechanism.velocity_names
        name, row = names[place if place < mechanism.n else place - mechanism.n], steps[:, place]
        found.append(Margin(name, kind, float(lower), float(upper), float(row.min()), float(row.max())))
    return tuple(found)
