"""Forces that a mechanism's description does not tell: commands that were recorded, and unknown ones.

Sizes of unknown forces that are not given, or are `Unknown`, are found from the data.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.algebra.turning import TURNS, turned
from fgmbs.arguments import Numbers, choice, finite, nearest, of_type, refuse
from fgmbs.compiled.buckets import padded
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.signals.recordings.played import Played
from fgmbs.signals.recordings.recording import Recording
from fgmbs.typing import Scalar
from fgmbs.unknowns import Unknown, is_unknown, known


class AbstractInput(eqx.Module):
    """A force on a mechanism."""

    name: eqx.AbstractVar[str]

    @property
    def size(self) -> Float[Array, ""] | Unknown:
        """The number that tells how large an unknown force is: power, density, rate or sigma.

        Raises:
            ArgumentError: It has none, because the force is known.
        """
        if self.size_key is None:
            raise ArgumentError(f"input {self.name!r}: expected an unknown force; found one that is known")
        return getattr(self, self.size_key)

    @property
    def size_key(self) -> str | None:
        """Which attribute is its size; None for a known force."""
        return None

    @property
    def sizes(self) -> dict[str, Float[Array, ""] | Unknown]:
        """The numbers that tell of an unknown force how large it is, and for how long, by the names of attributes."""
        return {} if self.size_key is None else {self.size_key: self.size}

    def with_size(self, size: "Numbers | Unknown", key: str | None = None) -> "AbstractInput":
        """The same force with another size, or another of its `sizes`."""
        key = self.size_key if key is None else key
        assert key is not None
        where = lambda force: getattr(force, key)
        new = size if is_unknown(size) else jnp.asarray(size, dtype=float)
        return eqx.tree_at(where, self, new, is_leaf=is_unknown)

    def evaluated(self) -> "AbstractInput":
        """The same with what follows from its numbers, computed once for all steps."""
        return self

    @abc.abstractmethod
    def check(self, mechanism: AbstractMechanism) -> None:
        """Refuses a mechanism on which it cannot act.

        Raises:
            ArgumentError: Names the input and offers the nearest names.
        """


class Disturbance(AbstractInput):
    """Forces in all directions in which the mechanism can move, white or with a memory.

    With a memory they are a Gauss–Markov process (Ornstein and Uhlenbeck) in the metric of the mass matrix: their
    spectral density at low frequencies is that of white ones of the same power, their autocorrelation
    exp(−s / time_constant). White forces are the limit of a time constant of 0, a random walk that of a long one.
    """

    power: Float[Array, ""] | Unknown
    """Mean kinetic energy they feed into each degree of freedom per second [W]."""
    time_constant: Float[Array, ""] | None
    """[s]; None: they are white …"""
    settled: bool = eqx.field(static=True)
    """… and stay so: an estimate that finds the power asks the data for no memory."""
    name: str = eqx.field(static=True)

    def __init__(
        self,
        power: Numbers | Unknown | None = None,
        *,
        time_constant: Numbers | None = None,
        name: str = "disturbance",
    ):
        """See the class.

        Args:
            power: By default it is found from the data.
            time_constant: 0 for white forces. By default an estimate that finds the power begins with white forces, and
                finds a time constant if the data ask for one.
            name: What it is called.
        """
        of_type("name", name, str, "a text")
        self.name = name
        self.power = _size(name, "power", power)
        none = time_constant is None or _is_zero(time_constant)
        self.time_constant = None if none else _positive(name, "time_constant", time_constant)
        self.settled = time_constant is not None or not is_unknown(self.power)

    @property
    def size_key(self) -> str:
        return "power"

    @property
    def sizes(self) -> dict[str, Float[Array, ""] | Unknown]:
        return {"power": self.power} | ({} if self.time_constant is None else {"time_constant": self.time_constant})

    @property
    def variance(self) -> Float[Array, ""]:
        """Of one degree of freedom in the metric of the mass matrix, of those with a memory [W/s]."""
        return self.power / self.time_constant

    def check(self, mechanism: AbstractMechanism) -> None:
        pass


class WhiteNoise(AbstractInput):
    """A white force on an actuator or along a velocity; it has no value at an instant."""

    on: str = eqx.field(static=True)
    """Actuator, or velocity that the force acts along."""
    density: Float[Array, ""] | Unknown
    """Square root of its spectral density S, S = density² [N·√s, N·m·√s]."""
    name: str = eqx.field(static=True)

    def __init__(self, on: str, density: Numbers | Unknown | None = None, *, name: str | None = None):
        self.on, self.name = _named(on, name)
        self.density = _size(self.name, "density", density)

    @property
    def size_key(self) -> str:
        return "density"

    def check(self, mechanism: AbstractMechanism) -> None:
        check_target(mechanism, self.on, f"input {self.name!r}: on")


class RandomWalk(AbstractInput):
    """An unknown force that wanders: its change in s seconds has the standard deviation rate · √s."""

    on: str = eqx.field(static=True)
    """Actuator, or velocity that the force acts along."""
    rate: Float[Array, ""] | Unknown
    """[N/√s, N·m/√s]"""
    sigma0: Float[Array, ""] | None
    """Standard deviation of its value at the start; None: beyond any that it can have [N, N·m]."""
    name: str = eqx.field(static=True)

    def __init__(
        self, on: str, rate: Numbers | Unknown | None = None, *, sigma0: Numbers | None = None, name: str | None = None
    ):
        self.on, self.name = _named(on, name)
        self.rate = _size(self.name, "rate", rate)
        self.sigma0 = None if sigma0 is None else _positive(self.name, "sigma0", sigma0)

    @property
    def size_key(self) -> str:
        return "rate"

    def check(self, mechanism: AbstractMechanism) -> None:
        check_target(mechanism, self.on, f"input {self.name!r}: on")


class GaussMarkov(AbstractInput):
    """An unknown force about 0: its standard deviation is `sigma`, its autocorrelation exp(−s / time_constant)."""

    on: str = eqx.field(static=True)
    """Actuator, or velocity that the force acts along."""
    sigma: Float[Array, ""] | Unknown
    """[N, N·m]"""
    time_constant: Float[Array, ""]
    """[s]"""
    name: str = eqx.field(static=True)

    def __init__(
        self, on: str, sigma: Numbers | Unknown | None = None, *, time_constant: Numbers, name: str | None = None
    ):
        self.on, self.name = _named(on, name)
        self.sigma = _size(self.name, "sigma", sigma)
        self.time_constant = _positive(self.name, "time_constant", time_constant)

    @property
    def size_key(self) -> str:
        return "sigma"

    def check(self, mechanism: AbstractMechanism) -> None:
        check_target(mechanism, self.on, f"input {self.name!r}: on")


class Command(AbstractInput):
    """A force that was recorded: gain · y(t), with lag · ẏ + y = signal(t − delay), cut off at its limits."""

    on: str = eqx.field(static=True)
    """Actuator, or velocity that the force acts along."""
    column: str = eqx.field(static=True)
    """Signal of the recording."""
    gain: Float[Array, ""] | Unknown
    """Force per unit of the signal."""
    delay: Float[Array, ""] | Unknown
    """How much later than its stamp the command acts [s]."""
    lag: Float[Array, ""] | Unknown | None
    """Time constant with which the force follows; None for none [s]."""
    limit: Float[Array, ""] | Unknown | None
    """Largest signal that has its effect, in both directions; None for none."""
    hold: str = eqx.field(static=True)
    """Between samples: the previous one, or on the straight line to the next."""
    saturation: str = eqx.field(static=True)
    """How the signal ends at its limit: "clip", or "tanh", which is smooth: limit · tanh(signal / limit)."""
    name: str = eqx.field(static=True)
    recorded: "Recorded | None" = None
    """Its signal, where an estimate finds delay, lag or limit."""

    def __init__(
        self,
        on: str,
        column: str,
        *,
        gain: Numbers | Unknown = 1.0,
        delay: Numbers | Unknown = 0.0,
        lag: Numbers | Unknown | None = None,
        limit: Numbers | Unknown | None = None,
        hold: str = "previous",
        saturation: str = "clip",
        name: str | None = None,
    ):
        self.on, self.name = _named(on, name)
        of_type(f"input {self.name!r}: column", column, str, "the name of a signal")
        self.column, self.hold, self.saturation = column, hold, saturation
        for key, value in (("gain", gain), ("delay", delay), ("lag", lag), ("limit", limit)):
            setattr(self, key, _single(self.name, key, value) if is_unknown(value) else _perhaps(self.name, key, value))
        self.recorded = None
        try:
            choice("hold", hold, ("previous", "linear"))
            choice("saturation", saturation, TURNS)
            for key, bad, expected in (
                ("lag", np.less, "a number of at least 0"),
                ("limit", np.less_equal, "a positive number"),
            ):
                value = known(getattr(self, key))
                if value is not None and not is_traced(value):
                    refuse(key, np.asarray(value), bad(value, 0), expected)
        except ArgumentError as error:
            raise ArgumentError(f"input {self.name!r}: {error}") from None

    @property
    def played_numbers(self) -> tuple[str, ...]:
        """Which of its numbers change more than the size of the force."""
        return tuple(key for key in ("delay", "lag", "limit") if getattr(self, key) is not None)

    def check(self, mechanism: AbstractMechanism) -> None:
        check_target(mechanism, self.on, f"input {self.name!r}: on")

    def limited(self, signal: Float[Array, "*samples"]) -> Float[Array, "*samples"]:
        """What of a signal has its effect."""
        if self.limit is None:
            return signal
        limit = known(self.limit)
        return limit * turned(signal / limit, self.saturation)

    def evaluated(self) -> "Command":
        """The same with what follows from its numbers, computed once for all steps."""
        if self.recorded is None or self.lag is None:
            return self
        return eqx.tree_at(lambda force: force.recorded, self, self.recorded.evaluated(self))

    def line(self, start: Scalar, end: Scalar) -> Float[Array, "2"]:
        """Its recorded signal as it acts, at both ends of an interval; see `Played.line`."""
        assert self.recorded is not None
        delay = known(self.delay)
        return self.recorded.signal.line(start - delay, end - delay, *self.recorded.played(self))

    def force(self, recording: Recording) -> "RecordedForce":
        """The force that it has in a recording, as a function of time, as `hybrid_dynamics` takes it.

        Raises:
            ArgumentError: The recording lacks the signal.
        """
        signal = recording[self.column]
        self = eqx.tree_at(
            lambda force: force.recorded,
            known(self),
            Recorded(Played.of(signal, padded(len(signal)), 4, self.hold)),
            is_leaf=lambda leaf: leaf is None,
        )
        return RecordedForce(self.evaluated())


class Recorded(eqx.Module):
    """The signal of a command, and what the lag makes of it, linearized: see `AbstractMechanism.evaluated`."""

    signal: Played
    at: Float[Array, " numbers"] | None = None
    """(lag, limit) at which …"""
    states: Float[Array, " samples"] | None = None
    """… the force by unit of gain is this at the stamps …"""
    slopes: Float[Array, "samples numbers"] | None = None
    """… and these are its derivatives."""

    def evaluated(self, command: Command) -> "Recorded":
        """With the states of the command's numbers."""
        at, of = _lag_and_limit(command), self._states(command)
        return Recorded(self.signal, at, of(at), jax.jacfwd(of)(at))

    def _states(self, command: Command) -> Callable[[Array], Array]:
        def states(numbers):
            keys = _keys(command)
            new = eqx.tree_at(lambda force: [getattr(force, key) for key in keys], known(command), list(numbers))
            return self.signal.states(new.limited, new.lag)

        return states

    def played(self, command: Command) -> tuple[Any, ...]:
        """(cut, lag, state) that `Played` takes of the numbers of a command, near those that were evaluated."""
        if command.lag is None:
            return (command.limited,)
        if self.states is None or self.slopes is None or self.at is None:
            states = self._states(command)(_lag_and_limit(command))
            return command.limited, known(command.lag), lambda k: states[k]
        change, states, slopes = _lag_and_limit(command) - self.at, self.states, self.slopes
        return command.limited, known(command.lag), lambda k: states[k] + slopes[k] @ change


class RecordedForce(eqx.Module):
    """A recorded command as a function of time [N, N·m]."""

    command: Command

    def __call__(self, t: Scalar) -> Float[Array, ""]:
        command, recorded = self.command, self.command.recorded
        assert recorded is not None
        return command.gain * recorded.signal.value(t - command.delay, *recorded.played(command))


def _keys(command: Command) -> list[str]:
    """Numbers that states depend on."""
    return [key for key in ("lag", "limit") if getattr(command, key) is not None]


def _lag_and_limit(command: Command) -> Float[Array, " numbers"]:
    return jnp.stack([known(getattr(command, key)) for key in _keys(command)])


def augmented(inputs: Sequence[AbstractInput]) -> tuple[RandomWalk | GaussMarkov, ...]:
    """Unknown forces with a memory."""
    return tuple(force for force in inputs if isinstance(force, RandomWalk | GaussMarkov))


def remembered(inputs: Sequence[AbstractInput]) -> Disturbance | None:
    """The forces in all directions that have a memory."""
    found = [force for force in inputs if isinstance(force, Disturbance) and force.time_constant is not None]
    return found[0] if found else None


def white(inputs: Sequence[AbstractInput]) -> tuple[Disturbance | WhiteNoise, ...]:
    """Unknown forces without a memory."""
    with_memory = remembered(inputs)
    return tuple(f for f in inputs if isinstance(f, Disturbance | WhiteNoise) and f is not with_memory)


def commands(inputs: Sequence[AbstractInput]) -> tuple[Command, ...]:
    """Known forces."""
    return tuple(force for force in inputs if isinstance(force, Command))


def gains_of(inputs: Sequence[AbstractInput], unknowns: Mapping[str, Array]) -> Float[Array, " nc"]:
    """Force per unit of each command, some of them `Unknown` and found."""
    return jnp.asarray([unknowns.get(f"{c.name}.gain", c.gain) for c in commands(inputs)], dtype=float)


def check_target(mechanism: AbstractMechanism, name: str, argument: str) -> None:
    """Refuses what is neither an actuator nor a velocity that a force acts along.

    Raises:
        ArgumentError: The names nearest to it are offered.
    """
    known = (*mechanism.actuator_names, *mechanism.velocity_names)
    if name not in known:
        same = mechanism.velocity_names == mechanism.coordinate_names
        kinds = ("coordinate", "coordinates") if same else ("velocity", "velocities")
        advice = nearest(name, known, f"actuators and {kinds[1]}")
        raise ArgumentError(f"{argument}: there is no actuator or {kinds[0]} {name!r}{advice}")


def _named(on: str, name: str | None) -> tuple[str, str]:
    """(what a force acts on, what it is called)."""
    of_type("on", on, str, "the name of an actuator or a velocity")
    if name is not None:
        of_type("name", name, str, "a text")
    return on, name or on


def _size(name: str, argument: str, value: Numbers | Unknown | None) -> Array | Unknown:
    if value is None:
        return Unknown()
    return _single(name, argument, value) if isinstance(value, Unknown) else _positive(name, argument, value)


def _is_zero(value: Any) -> bool:
    return not is_traced(value) and np.ndim(value) == 0 and isinstance(value, int | float) and value == 0


def _perhaps(name: str, argument: str, value: Numbers | None) -> Array | None:
    return None if value is None else _number(name, argument, value)


def _single(name: str, argument: str, value: Unknown) -> Unknown:
    if value.value.shape:
        raise ArgumentError(f"input {name!r}: {argument}: expected one number; found shape {value.value.shape}")
    return value


def _positive(name: str, argument: str, value: Numbers) -> Array:
    return _number(name, argument, value, positive=True)


def _number(name: str, argument: str, value: Any, *, positive: bool = False) -> Array:
    try:
        if is_unknown(value):
            raise ArgumentError(
                f"{argument}: expected a number; found Unknown, which power, density, rate, sigma, gain, delay, lag "
                "and limit may be"
            )
        array = finite(argument, value)
        if array.ndim:
            raise ArgumentError(f"{argument}: expected one number; found shape {array.shape}")
        if positive and isinstance(array, np.ndarray):
            refuse(argument, array, array <= 0, "a positive number")
    except ArgumentError as error:
        raise ArgumentError(f"input {name!r}: {error}") from None
    return jnp.asarray(array, dtype=float)
