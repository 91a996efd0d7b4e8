"""Commands: forces that were recorded."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.algebra.turning import TURNS, turned
from fgmbs.arguments import Numbers, choice, of_type, refuse
from fgmbs.compiled.buckets import padded
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.inputs.base import AbstractInput, check_target, named, perhaps, single
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.signals.recordings.played import Played
from fgmbs.signals.recordings.recording import Recording
from fgmbs.typing import Scalar
from fgmbs.unknowns import Unknown, is_unknown, known


class Command(AbstractInput):
    """A force that was recorded: gain · y(t), with lag · ẏ + y = signal(t − delay).

    The signal, joined between its samples as `hold` says, is cut off at its limits; where it ends there smoothly its
    samples are.
    """

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
        self.on, self.name = named(on, name)
        of_type(f"input {self.name!r}: column", column, str, "the name of a signal")
        self.column, self.hold, self.saturation = column, hold, saturation
        for key, value in (("gain", gain), ("delay", delay), ("lag", lag), ("limit", limit)):
            setattr(self, key, single(self.name, key, value) if is_unknown(value) else perhaps(self.name, key, value))
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

    @property
    def sharp_limit(self) -> Scalar | None:
        """The limit at which the signal ends with a bend."""
        return None if self.limit is None or self.saturation != "clip" else known(self.limit)

    def evaluated(self) -> "Command":
        """The same with what follows from its numbers, computed once for all steps."""
        if self.recorded is None or self.lag is None:
            return self
        return eqx.tree_at(lambda force: force.recorded, self, self.recorded.evaluated(self))

    def line(self, start: Scalar, end: Scalar) -> Float[Array, "2"]:
        """Its recorded signal as it acts, at both ends of an interval; see `Played.line`."""
        assert self.recorded is not None
        delay = known(self.delay)
        return self.recorded.signal.line(start - delay, end - delay, **self.recorded.played(self))

    def acting(self, t: Scalar, instant: Scalar) -> Float[Array, ""]:
        """Its recorded signal as it acts at a time; where it jumps then, as it was before: what is read then was read
        first.

        One that jumps is its mean over an instant before, by weights that fall to 0: where a jump comes nearer than
        that it changes fast, but smoothly.

        Args:
            t: The time [s].
            instant: How long that is [s].
        """
        return self.of_instant(self.line(t - instant, t))

    def of_instant(self, lines: Float[Array, "*times 2"]) -> Float[Array, "*times"]:
        """Its signal as it acts at times, from the lines that it follows over the instants before: see `acting`."""
        jumps = self.hold == "previous" and self.lag is None
        return (2 * lines[..., 0] + lines[..., 1]) / 3 if jumps else lines[..., 1]

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
            return self.signal.states(new.limited, new.lag, new.sharp_limit)

        return states

    def played(self, command: Command) -> dict[str, Any]:
        """What `Played` takes of the numbers of a command, near those that were evaluated."""
        cut = {"cut": command.limited, "limit": command.sharp_limit}
        if command.lag is None:
            return cut
        lagging = cut | {"lag": known(command.lag)}
        if self.states is None or self.slopes is None or self.at is None:
            states = self._states(command)(_lag_and_limit(command))
            return lagging | {"state": lambda k: states[k]}
        change, states, slopes = _lag_and_limit(command) - self.at, self.states, self.slopes
        return lagging | {"state": lambda k: states[k] + slopes[k] @ change}


class RecordedForce(eqx.Module):
    """A recorded command as a function of time [N, N·m]."""

    command: Command

    def __call__(self, t: Scalar) -> Float[Array, ""]:
        command, recorded = self.command, self.command.recorded
        assert recorded is not None
        return command.gain * recorded.signal.value(t - command.delay, **recorded.played(command))


def _keys(command: Command) -> list[str]:
    """Numbers that states depend on."""
    return [key for key in ("lag", "limit") if getattr(command, key) is not None]


def _lag_and_limit(command: Command) -> Float[Array, " numbers"]:
    return jnp.stack([known(getattr(command, key)) for key in _keys(command)])


def commands(inputs: Sequence[AbstractInput]) -> tuple[Command, ...]:
    """Known forces."""
    return tuple(force for force in inputs if isinstance(force, Command))


def gains_of(inputs: Sequence[AbstractInput], unknowns: Mapping[str, Array]) -> Float[Array, " nc"]:
    """Force per unit of each command, some of them `Unknown` and found."""
    return jnp.asarray([unknowns.get(f"{c.name}.gain", c.gain) for c in commands(inputs)], dtype=float)
