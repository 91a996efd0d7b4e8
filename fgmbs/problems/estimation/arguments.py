"""What `smooth` and `online` accept: their arguments, checked before anything is compiled."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import by_name, finite_number, of_type, texts
from fgmbs.dynamics.chart import MotionChart
from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.inputs import AbstractInput, Disturbance, GaussMarkov, RandomWalk, augmented, commands, remembered
from fgmbs.kinematics import assemble, velocities
from fgmbs.kinematics.names import given_arrays, listed, velocity_index
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation.scales import own_scale, travel
from fgmbs.sensors.base import AbstractSensor
from fgmbs.sensors.readings import check_sensors
from fgmbs.unknowns import Free, is_unknown

_ROUGH = 10.0
"""Standard deviation of a start that counts for nothing: of coordinates relative to the reach of the mechanism, of
velocities relative to that in one time step, of forces relative to what gives such a velocity in one."""


class Start(NamedTuple):
    """Where a recording begins."""

    x: Float[Array, " nx"] | None
    """None: to be found."""
    sigma: Float[Array, " local"]


def refuse_single_precision() -> None:
    """Estimates need 64-bit floats.

    Raises:
        ArgumentError: JAX computes with 32-bit floats.
    """
    if jnp.zeros(()).dtype != jnp.float64:
        raise ArgumentError(
            "state estimation: expected 64-bit floats, whose digits covariances and exact constraints need; found "
            "32-bit ones; set JAX_ENABLE_X64=1, or leave it unset"
        )


def checked_sensors(mechanism: AbstractMechanism, sensors: Sequence[AbstractSensor]) -> tuple[AbstractSensor, ...]:
    """Sensors that fit the mechanism and each other.

    Raises:
        ArgumentError: None, two of one name, two that read one signal, or one that the mechanism has no place for.
    """
    of_type("sensors", sensors, (AbstractSensor, list, tuple), "sensors as of fgmbs.sensors, in a list")
    sensors = (sensors,) if isinstance(sensors, AbstractSensor) else tuple(sensors)
    check_sensors(mechanism, sensors)
    return sensors


def checked_inputs(
    mechanism: AbstractMechanism, inputs: Sequence[AbstractInput], sensors: Sequence[AbstractSensor]
) -> tuple[AbstractInput, ...]:
    """Inputs that fit the mechanism; a `Disturbance` where no force is unknown.

    Raises:
        ArgumentError: Two of one name, or one that acts on nothing of the mechanism.
    """
    of_type("inputs", inputs, (AbstractInput, list, tuple), "forces as of fgmbs.inputs, in a list")
    inputs = (inputs,) if isinstance(inputs, AbstractInput) else tuple(inputs)
    names = [sensor.name for sensor in sensors]
    for force in inputs:
        if not isinstance(force, AbstractInput):
            raise ArgumentError(f"inputs: expected forces as of fgmbs.inputs; found {force!r}")
        if force.name in names:
            raise ArgumentError(
                f"inputs: expected names that no other input and no sensor has; found {force.name!r} twice; say name=…"
            )
        names.append(force.name)
        force.check(mechanism)
    memory = [force.name for force in inputs if isinstance(force, Disturbance) and force.time_constant is not None]
    if len(memory) > 1:
        raise ArgumentError(
            f"inputs: expected one disturbance with a time constant; found {listed(memory)}; say time_constant=0 of "
            "the others"
        )
    return inputs if len(inputs) > len(commands(inputs)) else (*inputs, Disturbance())


def checked_commands(inputs: Sequence[AbstractInput], *, recorded: bool) -> None:
    """Refuses commands that cannot be followed step by step.

    Args:
        inputs: The inputs, with their unknown numbers.
        recorded: Whether the whole recording is there, from which delays can be found, too.

    Raises:
        ArgumentError: One that is to be found, or a lag in a real-time loop.
    """
    for command in commands(inputs):
        for key in ("lag",) if recorded else command.played_numbers:
            if is_unknown(getattr(command, key)):
                kind = "a fixed-lag smoother" if recorded else "a real-time loop"
                advice = "find it without a window first" if recorded else "find it with smooth first"
                raise ArgumentError(
                    f"input {command.name!r}: {key}: expected a number for {kind}; found Unknown; {advice}"
                )
        if not recorded and command.lag is not None:
            raise ArgumentError(
                f"input {command.name!r}: lag: expected none in a real-time loop, which is given commands as they act; "
                "pass them through the lag before"
            )


def chosen_coordinates(mechanism: AbstractMechanism, independent: Sequence[str] | None) -> MotionChart:
    """The chart of a mechanism.

    Raises:
        AssemblyError: The mechanism cannot move.
        ArgumentError: Not as many coordinates as degrees of freedom.
    """
    dof = mechanism.dof
    if dof == 0:
        raise AssemblyError("the mechanism has no degree of freedom, so that there is no motion to estimate")
    if independent is None:
        return MotionChart(dof)
    names = texts("independent", independent, "names of coordinates")
    chosen = tuple(velocity_index(mechanism, name, "independent") for name in names)
    if len(set(chosen)) != dof or len(chosen) != dof:
        raise ArgumentError(
            f"independent: expected {dof} different coordinates, the degrees of freedom; found {listed(names)}"
        )
    return MotionChart(dof, chosen)


def nominal_delays(sensors: Sequence[AbstractSensor]) -> Float[Array, " sensors"]:
    """Delays of sensors whose numbers have values [s]."""
    return jnp.asarray([0.0 if sensor.delay is None else sensor.delay for sensor in sensors], dtype=float)


def checked_window(window: Any, recordings: int, sizes: Free) -> None:
    """Refuses what a fixed-lag smoother cannot do.

    Raises:
        ArgumentError: Too few steps, several recordings, or sizes of noise that are to be found.
    """
    if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 2:
        raise ArgumentError(f"window: expected an integer of at least 2 time steps, or None; found {window!r}")
    if recordings > 1:
        raise ArgumentError(f"window: expected one recording for a fixed-lag smoother; found {recordings}")
    if sizes.size:
        missing = listed(sorted(sizes.names))
        raise ArgumentError(
            f"window: a fixed-lag smoother needs all sizes of noise; those of {missing} are missing; "
            "find them without a window first, and pass on `sensors` and `inputs` of that result"
        )


def checked_start(
    mechanisms: Sequence[AbstractMechanism],
    dof: int,
    inputs: Sequence[AbstractInput],
    dt: Sequence[float],
    start: Any,
    start_velocities: Any,
    sigma: tuple[float, float] | None,
) -> tuple[Start, ...]:
    """The start of each recording, with its mechanism and time step [s].

    Raises:
        ArgumentError: Unknown names, numbers that are not finite, not one start for each recording.
        AssemblyError: It cannot be assembled.
    """
    places = _for_each(start, len(dt), "start")
    speeds = _for_each(start_velocities, len(dt), "start_velocities")
    rough = _ROUGH * float(np.max(np.asarray(mechanisms[0].reach)))
    if sigma is not None:
        of_type("start_sigma", sigma, (tuple, list), "two positive numbers")
    if sigma is not None and (len(sigma) != 2 or any(finite_number(s, "start_sigma") <= 0 for s in sigma)):
        raise ArgumentError(
            f"start_sigma: expected two positive numbers, of the coordinates and of their velocities; found {sigma!r}"
        )
    starts = []
    for mechanism, place, speed, step in zip(mechanisms, places, speeds, dt, strict=True):
        sizes = (rough, rough / step) if sigma is None else sigma
        # In NumPy, which compiles nothing.
        forces = [np.atleast_1d(np.asarray(_start_of(mechanism, force, step))) for force in augmented(inputs)]
        # Of forces in all directions relative to that of a time as any other.
        forces += [np.ones(dof)] * (remembered(inputs) is not None)
        local = np.concatenate([*(np.full(dof, float(size)) for size in sizes), *forces])
        x = None
        if place is not None or speed is not None:
            _refuse_unknown(place, "start")
            _refuse_unknown(speed, "start_velocities")
            # Refused by the names that they have here.
            given_arrays(mechanism, place, "start")
            given_arrays(mechanism, speed, "start_velocities", velocities=True)
            q = assemble(mechanism, place)
            dq = velocities(mechanism, q, {} if speed is None else speed)
            x = jax.device_put(np.concatenate([q, dq, np.zeros(local.size - 2 * dof)]))
        starts.append(Start(x, jax.device_put(local)))
    return tuple(starts)


def _start_of(mechanism: AbstractMechanism, force: RandomWalk | GaussMarkov, dt: float) -> Any:
    """Standard deviation of a force at the start; of one of which nothing is known what stops it in a step."""
    if isinstance(force, GaussMarkov):
        return force.size
    if force.sigma0 is not None:
        return force.sigma0
    return _ROUGH * own_scale(mechanism, dt).inertia / (dt**2 * travel(mechanism, force.on))


def _refuse_unknown(given: Mapping[str, Any] | None, argument: str) -> None:
    if given is not None:
        by_name(argument, given)
    for name, value in (given or {}).items():
        if is_unknown(value):
            raise ArgumentError(
                f"{argument}[{name!r}]: expected a number; found Unknown; every start is found from the number that is "
                "given: say how sure that is by start_sigma, and by independent of which coordinates"
            )


def _for_each(given: Any, recordings: int, argument: str) -> tuple[Mapping[str, Any] | None, ...]:
    if given is None or isinstance(given, Mapping):
        return (given,) * recordings
    of_type(argument, given, (list, tuple), "numbers by name, as in {'x': 1.0}, or a list of such of each recording")
    if len(given) != recordings:
        raise ArgumentError(f"{argument}: expected one for each of the {recordings} recordings; found {len(given)}")
    return tuple(given)
