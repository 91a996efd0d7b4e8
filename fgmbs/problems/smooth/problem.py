"""What `smooth` solves, as a pytree: recordings on a grid of time steps, and what they are to be explained by."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fgmbs.compiled.program import ONCE, program
from fgmbs.dynamics.chart import MotionChart
from fgmbs.dynamics.transitions import AbstractTransition
from fgmbs.graph.given import Given
from fgmbs.inputs import AbstractInput, Disturbance, Recorded, WhiteNoise, commands
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.data import Channel, played_commands, samples
from fgmbs.problems.estimation.graph import EstimationModel, StepData, shared_parts
from fgmbs.problems.estimation.noise_sizes import with_sizes
from fgmbs.sensors.base import AbstractSensor
from fgmbs.typing import Scalar
from fgmbs.unknowns import Free


class RecordingData(NamedTuple):
    """What was recorded, on a grid of `steps` time steps of which `count` are there."""

    start: Scalar
    """Time of the first step [s]."""
    dt: Scalar
    """Time step [s]."""
    count: Int[Array, ""]
    commands: tuple[Recorded, ...]
    """Samples of every command."""
    channels: tuple[Channel, ...]
    """Samples of every sensor."""
    starts: Float[Array, "candidates nx"]
    """First steps that the motion may begin with …"""
    tried: Bool[Array, " candidates"]
    """… those of them that are compared, or the only one …"""
    given: Bool[Array, ""]
    """… whether the first of them was given …"""
    through: Bool[Array, ""]
    """… and whether the best is followed through all steps, not only found."""
    start_sigma: Float[Array, " local"]
    """Standard deviations of the local coordinates of the first step."""


class SmoothingProblem(eqx.Module):
    """What `smooth` solves: a pytree of everything that the estimate depends on, made by `prepare_smooth`.

    Other numbers in its place, of the same shapes, are another problem of the same compiled program.
    """

    mechanism: AbstractMechanism
    sensors: tuple[AbstractSensor, ...]
    inputs: tuple[AbstractInput, ...]
    """With first values of unknown sizes."""
    free: Free
    """θ: which leaves of (mechanism, sensors and inputs by name) are unknown."""
    given: Given
    """Numbers of the mechanism that are known to differ between several recordings."""
    replaced: Given
    """What the mechanism has without the numbers of a single recording."""
    sizes: Free
    """Which sizes of noise are unknown."""
    recording: RecordingData
    """With a first axis of recordings, if there are several: these share the sizes of noise, and of θ what is not own
    to each."""
    passed: Float[Array, " sensors"]
    """Mean square that the robust loss of each sensor leaves of normal residuals."""
    chart: MotionChart
    transition: AbstractTransition
    at_steps: tuple[bool, ...] = eqx.field(static=True)
    """Of each sensor: its samples all lie on steps."""
    slots: tuple[int, ...] = eqx.field(static=True)
    """Room for samples of each sensor in a step."""
    steps: int = eqx.field(static=True)
    """Steps to compute with."""

    @property
    def several(self) -> bool:
        """Whether there are several recordings."""
        return self.recording.count.ndim == 1

    def of(self, recording: RecordingData) -> "SmoothingProblem":
        """The problem of another recording."""
        return eqx.tree_at(lambda problem: problem.recording, self, recording)

    def each(self, function: Callable[..., Any], *own: Any) -> Any:
        """`function(problem, *own)` of every recording; what has its own has a first axis if there are several."""
        if not self.several:
            return function(self, *own)

        def of_one(recording, index, given, *own):
            where = lambda problem: (problem.mechanism, problem.free, problem.given)
            new = given.put(self.mechanism), self.free.of(index), Given()
            return function(eqx.tree_at(where, self.of(recording), new), *own)

        return jax.vmap(of_one)(self.recording, self.free.index, self.given, *own)

    def readings(self, until: int | None = None) -> int:
        """Numbers that were read, in the first steps or in all."""
        recording = self.recording
        ends = (
            np.inf
            if until is None
            else (np.asarray(recording.start) + np.asarray(recording.dt) * (until - 0.5))[..., None]
        )
        return sum(
            int(np.sum(np.isfinite(channel.values) & (np.asarray(channel.stamps) < ends)[..., None]))
            for channel in recording.channels
        )

    def model(self, sizes: Float[Array, " k"], delays: Float[Array, " sensors"]) -> EstimationModel:
        """The model with these logarithms of sizes of noise, and samples placed with these delays."""
        sensors, inputs = with_sizes(self.sensors, self.inputs, self.sizes.named(self.sizes.values(sizes)))
        evaluated, dt = self.mechanism.evaluated(), self.recording.dt
        numbers = evaluated, sensors, inputs, self.free, dt, self.chart, delays, self.at_steps, self.transition
        return EstimationModel(*numbers, self._unknown_commands, self.given)

    @property
    def _unknown_commands(self) -> tuple[Recorded | None, ...]:
        """What was recorded of commands whose delay, lag or limit is unknown; where it is unknown when a sensor of
        forces or accelerations has read, of all."""
        late = any(f"{sensor.name}.delay" in self.free.names for sensor in self.sensors if sensor.feels_forces)
        every = zip(commands(self.inputs), self.recording.commands, strict=True)
        return tuple(
            own if late or any(f"{force.name}.{key}" in self.free.names for key in force.played_numbers) else None
            for force, own in every
        )

    def loosened(self, factor: float) -> "SmoothingProblem":
        """The problem with unknown forces of so many times the spectral density, whether it is known or where its
        search begins; those on an actuator or along a velocity that have a memory stay as they are."""
        loose = [force for force in self.inputs if isinstance(force, Disturbance | WhiteNoise)]
        share = {force.name: factor if isinstance(force, Disturbance) else factor**0.5 for force in loose}
        more = {f"{force.name}.{force.size_key}": math.log(share[force.name]) for force in loose}
        logs = [np.full(place.size, more.get(place.name, 0.0)) for place in self.sizes.places]
        factors = {name: np.asarray(one) for name, one in share.items()}
        own = {force.name: force.size for force in loose}, self.sizes.value
        sizes, value = _loosened(*own, factors, np.concatenate([np.zeros(0), *logs]))
        inputs = tuple(force.with_size(sizes[force.name]) if force.name in sizes else force for force in self.inputs)
        return eqx.tree_at(lambda problem: (problem.inputs, problem.sizes.value), self, (inputs, value))

    def data(
        self,
        delays: Float[Array, " sensors"],
        first: Float[Array, "*recordings nx"],
        behind: Float[Array, "*recordings nx"],
        theta: Float[Array, " p"] | None = None,
    ) -> StepData:
        """What was recorded, by steps.

        Args:
            delays: Of the sensors [s].
            first: Centre of the prior of the first step …
            behind: … and of all steps that only fill up.
            theta: Unknown numbers, by which commands act; by default the centre of their prior.
        """
        theta = self.free.value if theta is None else theta
        return self.each(lambda problem, *ends: problem._data(delays, *ends, theta), first, behind)

    def _data(self, delays: Array, first: Array, behind: Array, theta: Array) -> StepData:
        recording, k, T = self.recording, jnp.arange(self.steps), self.steps
        pad = (k >= recording.count)[:, None]
        weights = pad.astype(float) + (k == 0).astype(float)[:, None] / recording.start_sigma
        times = recording.start + recording.dt * k
        shared = shared_parts(self.sensors, self.inputs, recording.commands)
        _, shared = self.free.put((self.mechanism, shared), theta)
        known = [shared[force.name].evaluated() for force in commands(self.inputs)]
        played = played_commands(known, times, recording.dt, recording.channels, delays)
        parts = zip(recording.channels, delays, self.slots, self.at_steps, played.read, strict=True)
        return StepData(
            times=times,
            linked=((k > 0) & ~pad[:, 0]).astype(float),
            prior=jnp.where(pad, behind, 0.0).at[0].set(first),
            prior_weights=weights,
            commands=played.lines,
            acting=played.acting,
            samples=tuple(
                samples(channel, recording.start, recording.dt, delay, recording.count, T, room, on, read)
                for channel, delay, room, on, read in parts
            ),
        )

    def starts_on_constraints(self) -> Float[Array, "*recordings candidates nx"]:
        """The starts, with constraints met at the time of the first step."""

        def of_one(problem):
            model, t = problem.model(problem.sizes.value, nominal_delays(problem.sensors)), problem.recording.start
            zero = jnp.zeros(model.local_size)
            return jax.vmap(lambda x: model.chart.move(model.mechanism, x, zero, t))(problem.recording.starts)

        return self.each(of_one)


@program(**ONCE)
def _loosened(sizes: dict[str, Array], value: Float[Array, " k"], factors, logs) -> tuple[dict[str, Array], Array]:
    """(sizes times their factors, logarithms of unknown ones and theirs)."""
    return {name: size * factors[name] for name, size in sizes.items()}, value + logs
