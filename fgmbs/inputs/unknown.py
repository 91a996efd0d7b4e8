"""Forces that nobody recorded. Sizes that are not given, or are `Unknown`, are found from the data."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import Numbers, of_type
from fgmbs.compiled.tracing import is_traced
from fgmbs.inputs.base import AbstractInput, check_target, given_size, named, positive
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.unknowns import Unknown, is_unknown


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
        self.power = given_size(name, "power", power)
        none = time_constant is None or _is_zero(time_constant)
        self.time_constant = None if none else positive(name, "time_constant", time_constant)
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
        self.on, self.name = named(on, name)
        self.density = given_size(self.name, "density", density)

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
        self.on, self.name = named(on, name)
        self.rate = given_size(self.name, "rate", rate)
        self.sigma0 = None if sigma0 is None else positive(self.name, "sigma0", sigma0)

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
        self.on, self.name = named(on, name)
        self.sigma = given_size(self.name, "sigma", sigma)
        self.time_constant = positive(self.name, "time_constant", time_constant)

    @property
    def size_key(self) -> str:
        return "sigma"

    def check(self, mechanism: AbstractMechanism) -> None:
        check_target(mechanism, self.on, f"input {self.name!r}: on")


def augmented(inputs: Sequence[AbstractInput]) -> tuple[RandomWalk | GaussMarkov, ...]:
    """Unknown forces with a memory."""
    return tuple(force for force in inputs if isinstance(force, RandomWalk | GaussMarkov))


def remembered(inputs: Sequence[AbstractInput]) -> Disturbance | None:
    """The forces in all directions that have a memory."""
    found = [force for force in inputs if isinstance(force, Disturbance) and force.time_constant is not None]
    return found[0] if found else None


def memory_size(inputs: Sequence[AbstractInput], dof: int) -> int:
    """Numbers of a step that are unknown forces with a memory."""
    return len(augmented(inputs)) + dof * (remembered(inputs) is not None)


def white(inputs: Sequence[AbstractInput]) -> tuple[Disturbance | WhiteNoise, ...]:
    """Unknown forces without a memory."""
    with_memory = remembered(inputs)
    return tuple(f for f in inputs if isinstance(f, Disturbance | WhiteNoise) and f is not with_memory)


def _is_zero(value: Any) -> bool:
    return not is_traced(value) and np.ndim(value) == 0 and isinstance(value, int | float) and value == 0
