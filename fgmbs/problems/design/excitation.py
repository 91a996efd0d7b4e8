"""Experiment design: signals for the actuators under which recordings tell the most of parameters."""

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from fgmbs.arguments import of_type, whole_number
from fgmbs.errors import ArgumentError
from fgmbs.inputs import AbstractInput, Command
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism, checked_mechanism
from fgmbs.problems.design.arguments import (
    LimitsByName,
    Plan,
    checked_plan,
    designed_commands,
    drawn_scenarios,
    planned_recording,
    signal_limits_of,
    state_limits_of,
    wanted_numbers,
)
from fgmbs.problems.design.information import DesignProblem
from fgmbs.problems.design.result import ExcitationDesign, Margin
from fgmbs.problems.design.search import Found, Progress, improved, joined, random_signals
from fgmbs.problems.estimation.arguments import checked_sensors
from fgmbs.problems.identify.free import FreeNumbers, Parts, freed_by_name
from fgmbs.problems.identify.identifiability import Identifiability, identifiability
from fgmbs.problems.simulation.arguments import Integrator
from fgmbs.problems.smooth.arguments import prepare_smooth
from fgmbs.sensors.base import AbstractSensor
from fgmbs.signals.recordings.recording import Recording
from fgmbs.signals.trajectories.fourier import FourierSeries, series


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
    designed = designed_commands(mechanism, inputs)
    plan = checked_plan(period, harmonics, dt, duration, ramp)
    counts = {"scenarios": (scenarios, 0), "random": (random, 1), "starts": (starts, 1), "iterations": (iterations, 1)}
    for argument, (count, least) in counts.items():
        whole_number(argument, count, least)
    whole_number("seed", seed)
    signal_bounds = signal_limits_of("signal_limits", signal_limits, [command.name for command in designed])
    parts = freed_by_name(Parts(mechanism, sensors, inputs), free)
    recording = planned_recording(mechanism, sensors, designed, plan, rates)
    given = dict(start={} if start is None else start, start_velocities=start_velocities, start_sigma=start_sigma)
    problem = prepare_smooth(
        parts.mechanism, recording, parts.sensors, parts.inputs, dt=plan.dt, **given, integrator=integrator
    )
    design = DesignProblem(
        problem=problem,
        thetas=drawn_scenarios(problem.free, scenarios, seed),
        terms=series(jnp.asarray(plan.times), plan.harmonics, jnp.asarray(plan.period), jnp.asarray(plan.ramp)),
        signals=signal_bounds,
        states=state_limits_of(problem, coordinate_limits, velocity_limits),
        wanted=wanted_numbers(problem, wanted),
    )
    tell = progress or (lambda *_: None)
    tell("comparing random signals", 0, np.nan)
    compared = random_signals(design, random, seed)
    _refuse_untold(design, compared)
    best = improved(design, compared.c[: min(starts, random)], iterations, random, tell)
    return _result(design, plan, designed, best, compared)


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
    influence, values = np.sqrt(np.maximum(data, 0.0)), np.where(free.logs, 1.0, free.value)
    return identifiability(free.number_names, information, np.asarray(free.sigma), influence, none, none > 0, values)


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
    design: DesignProblem, plan: Plan, designed: Sequence[Command], best: Found, compared: Found
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

    def recorded(c, source: str) -> Recording:
        rows = zip(designed, np.asarray(design.sampled(jnp.asarray(c))), strict=True)
        return Recording.of(plan.times, {command.column: row for command, row in rows}, source=source)

    count, n = int(problem.recording.count), problem.mechanism.n
    steps = every.looks.steps[0][:count]
    names = free.number_names
    return ExcitationDesign(
        signals=signals,
        recording=recorded(c, "designed excitation"),
        free=free,
        wanted=tuple(name for name, wanted in zip(names, design.wanted, strict=True) if wanted),
        information=_of_theta(whole, free.size),
        random_information=_of_theta(compared.looks.whole, free.size),
        log_det=float(every.log_det[0]),
        random_log_det=compared.log_det,
        random_recordings=tuple(recorded(one, "random excitation") for one in compared.c),
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
