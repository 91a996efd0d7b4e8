"""The graph of state estimation: how a mechanism goes on under unknown forces, and what its sensors read."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fgmbs.dynamics.chart import MotionChart
from fgmbs.dynamics.forcing import Forcing, Frames
from fgmbs.dynamics.transitions import AbstractTransition, HermiteSimpson
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import chart_prior, prior_of_unknowns
from fgmbs.graph.given import Given
from fgmbs.graph.model import mechanism_slopes, of_mechanism, rebuilt
from fgmbs.graph.places import over_time
from fgmbs.graph.recordings import JointGraph
from fgmbs.graph.time_graph import Rows, TimeGraph, Unknowns
from fgmbs.inputs import (
    AbstractInput,
    Command,
    Disturbance,
    GaussMarkov,
    RandomWalk,
    Recorded,
    augmented,
    commands,
    gains_of,
    memory_size,
    remembered,
)
from fgmbs.linear import Marginals
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.process_noise import process
from fgmbs.problems.trajectory import Trajectory
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.sensors.factor import measurement
from fgmbs.typing import Coordinates, Scalar
from fgmbs.unknowns import Free

SENSORS = 2
"""Place of the first sensor among the factors: the prior and the transition come before."""


class Samples(NamedTuple):
    """What one sensor read, by step: slots that are empty have the mask 0."""

    values: Float[Array, "*steps slots rows"]
    fractions: Float[Array, "*steps slots"]
    """Where in the interval that ends with the step; 1 is the step itself."""
    mask: Float[Array, "*steps slots rows"]
    commands: Float[Array, "*steps slots nc"]
    """Signals of the commands when it was read."""


class StepData(NamedTuple):
    """Everything that is known from outside, by step."""

    times: Float[Array, "*steps"]
    linked: Float[Array, "*steps"]
    """1 where the motion goes on from the step before, 0 at the start of a recording and in padding."""
    prior: Float[Array, "*steps nx"]
    """Centre of the prior of this step …"""
    prior_weights: Float[Array, "*steps local"]
    """… and one over its standard deviations; 0 for none."""
    commands: Float[Array, "*steps 2 nc"]
    """Ends of the line that the signals of the commands follow over the interval that ends with the step …"""
    acting: Float[Array, "*steps nc"]
    """… and what they are at the step: another number where they jump in between."""
    samples: tuple[Samples, ...]


class EstimationModel(eqx.Module):
    """Mechanism, sensors and forces, of which graphs over any steps are made.

    A step is x = (q, dq, u), u the unknown forces that have a memory; those in all directions are its last ones.
    """

    mechanism: AbstractMechanism
    sensors: tuple[AbstractSensor, ...]
    inputs: tuple[AbstractInput, ...]
    """Those whose size was None have a number by now."""
    free: Free
    """θ: which leaves of (mechanism, sensors and inputs by name) are unknown."""
    dt: Float[Array, "*recordings"]
    chart: MotionChart
    delays: Float[Array, " sensors"]
    """Delay of each sensor that the places of its samples allow for [s]."""
    at_steps: tuple[bool, ...] = eqx.field(static=True)
    """Of each sensor: its samples all lie on steps."""
    transition: AbstractTransition = HermiteSimpson()
    """How a step follows from the one before."""
    recorded: tuple[Recorded | None, ...] = ()
    """Of each command, if any: its signal, where delay, lag or limit is unknown; with a first axis as dt has."""
    given: Given = Given()
    """Numbers of the mechanism that are known to differ between several recordings."""

    @property
    def augmented(self) -> tuple[RandomWalk | GaussMarkov, ...]:
        """Inputs that are part of x."""
        return augmented(self.inputs)

    @property
    def remembered(self) -> Disturbance | None:
        """Forces in all directions that are part of x."""
        return remembered(self.inputs)

    @property
    def memory(self) -> int:
        """Numbers of u."""
        return memory_size(self.inputs, self.chart.dof)

    @property
    def commands(self) -> tuple[Command, ...]:
        """Inputs that are known."""
        return commands(self.inputs)

    @property
    def trajectory(self) -> Trajectory:
        """Mechanism, forces and integration rule over time."""
        return Trajectory(self.mechanism, self.transition, self.forcing, self.dt, self.chart, "chart")

    @property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """Variables of a step."""
        return (("q", self.mechanism.n), ("dq", self.mechanism.nv), ("u", self.memory))

    @property
    def shared(self) -> dict[str, AbstractSensor | AbstractInput]:
        """Sensors and inputs by name."""
        return shared_parts(self.sensors, self.inputs, self.recorded)

    @property
    def moves(self) -> bool:
        """Whether the motion from a step on depends on θ."""
        return moves(self.free, self.inputs)

    @property
    def columns(self) -> int:
        """Of `tangents`: local coordinates, and where the motion depends on θ it, too."""
        return self.local_size + self.moves * self.free.size

    def covariances(self, marginals: Marginals) -> Float[Array, "*recordings steps columns columns"]:
        """Covariances along the columns of `tangents`."""
        return marginals.with_globals() if self.moves else marginals.steps

    def at(self, theta: Float[Array, " p"]) -> "EstimationModel":
        """The model of θ."""
        mechanism, shared = rebuilt(self.free, (self.mechanism, self.shared), theta)
        sensors, inputs = (tuple(shared[part.name] for part in parts) for parts in (self.sensors, self.inputs))
        new = mechanism, sensors, inputs, ()  # the inputs have what was recorded by now
        return eqx.tree_at(lambda model: (model.mechanism, model.sensors, model.inputs, model.recorded), self, new)

    def reading(self, theta: Float[Array, " p"]) -> "EstimationModel":
        """The model of θ, but with the mechanism as it is."""
        shared = self.free.put((self.mechanism, self.shared), theta)[1]
        parts = (tuple(shared[part.name] for part in parts) for parts in (self.sensors, self.inputs))
        return eqx.tree_at(lambda model: (model.sensors, model.inputs), self, tuple(parts))

    @property
    def forcing(self) -> Forcing:
        decay = [
            jnp.exp(-self.dt / force.time_constant) if isinstance(force, GaussMarkov) else 1.0
            for force in self.augmented
        ]
        if (everywhere := self.remembered) is not None:
            decay += [jnp.exp(-self.dt / everywhere.time_constant)] * self.chart.dof
        return Forcing(
            tuple(force.on for force in self.augmented),
            tuple(force.on for force in self.commands),
            jnp.asarray(decay, dtype=float) if decay else jnp.zeros(0),
            gains_of(self.inputs, {}),
            tuple(force.name for force in self.commands),
            None if everywhere is None else self.chart,
        )

    def graph(self, x: Unknowns, data: StepData) -> TimeGraph | JointGraph:
        """The graph over the steps of `data`, of one recording or of several along a first axis, each with a time step
        of its own; the size of the noise is that near x."""
        if self.dt.ndim:
            of_one = lambda model, steps, data: model.graph(Unknowns(steps, x.globals), data)
            return JointGraph(self.each(of_one, x.steps, data))
        return self.over(self.at(x.globals).rows(x.steps, data))

    def each(self, function: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
        """function(model of a recording, its arguments) of every recording, along a first axis if there are several."""
        if self.dt.ndim == 0:
            return function(self, *arguments)
        where = lambda model: (model.mechanism, model.dt, model.recorded, model.free, model.given)

        def of_one(dt, recorded, index, given, *one):
            mechanism = given.put(self.mechanism).evaluated() if given.names else self.mechanism
            new = mechanism, dt, recorded, self.free.of(index), Given()
            return function(eqx.tree_at(where, self, new, is_leaf=_is_none), *one)

        return eqx.filter_vmap(of_one)(self.dt, self.recorded, self.free.index, self.given, *arguments)

    def over(self, rows: Rows) -> TimeGraph:
        """The graph over steps with these rows."""
        known = [Factor(chart_prior, ("q", "dq", "u"), Noise.sigma(1.0), name="start"), *self.measurements(rows)]
        if self.free.size:
            prior = Noise.sigma(self.free.sigma)
            known.append(Factor(prior_of_unknowns, (), prior, "global", data=self.free.value, theta=True))
        return self.trajectory.graph(tuple(known), None, rows.times, self.shared, self.free).with_rows(rows)

    def measurements(self, rows: Rows) -> list[Factor]:
        """The factors of the sensors."""
        forcing = self.forcing
        late = {place.name for place in self.free.places}
        factors = []
        for k, (sensor, delay, at_steps) in enumerate(zip(self.sensors, self.delays, self.at_steps, strict=True)):
            slots = rows.factors[SENSORS + k][1].shape[-1] // sensor.rows
            factors.append(
                Factor(
                    measurement,
                    ("q", "dq", "u"),
                    Noise.sigma(jnp.tile(sensor.noise_sigma(), slots)),
                    "step" if at_steps else "interval",
                    data=(forcing, delay if f"{sensor.name}.delay" in late else None),
                    shared=(sensor.name, *forcing.names),
                    loss=sensor.loss,
                    group=sensor.group,
                    name=sensor.name,
                )
            )
        return factors

    def rows(
        self, x: Float[Array, "*steps nx"], data: StepData, before: Float[Array, "*steps nx"] | None = None
    ) -> Rows:
        """What varies with time in the graph.

        Args:
            x: Steps.
            data: What is known of them.
            before: The step before each; by default that in x.
        """
        if x.ndim == 2:
            return over_time(self.rows, x, data, jnp.concatenate([x[:1], x[:-1]]))
        return self.rows_with(
            x, data, *self.process(x, data.times), self.frames(x, x if before is None else before, data.times)
        )

    def frames(self, x: Float[Array, " nx"], before: Float[Array, " nx"], t: Scalar) -> Frames | None:
        """How forces in all directions act at a step and at the one before; None where there are none in x."""
        if self.remembered is None:
            return None
        mechanism, n = self.mechanism, self.mechanism.n
        start, end = ((before[:n], t - self.dt), (x[:n], t))
        G0, G1 = (self.chart.metric_forces(mechanism, *at)[0] for at in (start, end))
        return Frames(G0, G1, self.chart.turned_metric(mechanism, start, end))

    def blank_rows(self, x: Float[Array, " nx"], data: StepData) -> Rows:
        """Rows of a step that goes on from none."""
        B = self.chart.selection(self.mechanism, x[: self.mechanism.n], data.times)
        size = 2 * B.shape[0] + self.memory
        frames = self.frames(x, x, data.times)
        return self.rows_with(x, data, jnp.zeros_like(B), B, jnp.zeros((size, size), B.dtype), frames)

    def prior_weights(self, data: StepData) -> Float[Array, " local"]:
        """One over the standard deviations of the prior; of forces in all directions those of data are relative."""
        if self.remembered is None:
            return data.prior_weights
        dof = self.chart.dof
        return data.prior_weights.at[-dof:].divide(jnp.sqrt(self.remembered.variance))

    def rows_with(
        self, x: Float[Array, " nx"], data: StepData, T: Array, B: Array, W: Array, frames: Frames | None
    ) -> Rows:
        """Rows of a step with these (T, B, whitening matrix) and `frames`."""
        C = self.chart.widened(B, self.memory)
        varying = [((T, data.commands, frames), data.linked * W), ((C, data.prior), self.prior_weights(data))]
        for sensor, samples in zip(self.sensors, data.samples, strict=True):
            weights = samples.mask
            if sensor.time_sigma is not None:
                blur = self.rate_of(sensor, x, data.times, data.acting) * sensor.time_sigma / sensor.noise_sigma()
                weights = weights / jnp.sqrt(1 + blur**2)
            varying.append(((samples.values, samples.fractions, samples.commands, frames), weights.ravel()))
        return Rows(data.times, (*varying, *(((None, None),) * bool(self.free.size))))

    def rate_of(
        self, sensor: AbstractSensor, x: Float[Array, " nx"], t: Scalar, commands: Float[Array, " nc"]
    ) -> Float[Array, " rows"]:
        """How fast that changes which a sensor reads of a step [unit/s], unknown forces going on as they are."""
        mechanism, forcing = self.mechanism, self.forcing
        n, nv = mechanism.n, mechanism.nv
        q, dq, u = x[:n], x[n : n + nv], x[n + nv :]
        ddq = forcing.motion(mechanism, q, dq, t, u, commands)[0] if sensor.order else jnp.zeros_like(dq)

        def later(s):
            q_s, dq_s = mechanism.retract(q, s * dq), dq + s * ddq
            ddq_s, lambda_ = None, None
            if sensor.order >= 2:
                ddq_s, lambda_ = forcing.motion(mechanism, q_s, dq_s, t + s, u, commands)
            reading = Reading(q_s, dq_s, ddq_s, lambda_, forcing.by_target(u, commands), t + s)
            return sensor.predict(mechanism, reading)

        return jax.jvp(later, (jnp.zeros_like(t),), (jnp.ones_like(t),))[1]

    def process(self, x, t) -> tuple[Float[Array, "dof nv"], Float[Array, "dof nv"], Float[Array, "rows rows"]]:
        """(T, B, whitening matrix of `transition`) near x."""
        return process(self.trajectory, self.inputs, x[: self.mechanism.n], t)

    def accelerations(
        self, x: Float[Array, " nx"], t: Scalar, commands: Float[Array, " nc"]
    ) -> tuple[Float[Array, " nv"], Float[Array, " m"]]:
        """(ddq, λ) of a step, white forces left out."""
        n, nv = self.mechanism.n, self.mechanism.nv
        return self.forcing.motion(self.mechanism, x[:n], x[n : n + nv], t, x[n + nv :], commands)

    def tangents(self, x: Float[Array, " nx"], theta: Float[Array, " p"], t: Scalar) -> Float[Array, "nx columns"]:
        """∂x/∂δ of a step, and where the motion depends on θ ∂x/∂θ behind it."""
        E = self.chart.tangent(self.at(theta).mechanism, x, t, mechanism_slopes(self.free, self.mechanism, theta))
        return jnp.pad(E, ((0, 0), (0, self.columns - E.shape[1])))

    def along(
        self,
        theta: Float[Array, " p"],
        x: Float[Array, " nx"],
        E: Float[Array, "nx columns"],
        function: Callable[["EstimationModel", Array], PyTree],
    ) -> tuple[PyTree, PyTree]:
        """function(model of θ, x) and its derivatives by the columns of E, ∂x/∂δ or (∂x/∂δ, ∂x/∂θ); these go last."""
        if E.shape[1] == self.local_size:
            value, push = jax.linearize(lambda x: function(self.at(theta), x), x)
            return value, jax.vmap(push, 1, -1)(E)
        value, push = jax.linearize(lambda theta, x: function(self.at(theta), x), theta, x)
        return value, jax.vmap(push, (1, 1), -1)(jnp.eye(theta.shape[0], E.shape[1], self.local_size), E)

    def advance(self, steps: Float[Array, "2 nx"], data: StepData) -> tuple[Float[Array, " nx"], Rows]:
        """Start value and rows of the step after these, which is the first one of a motion where it is not linked."""
        x = self.next_step(steps[-1], data.times - self.dt, data.commands)
        x = jnp.where((data.linked == 0) | ~jnp.all(jnp.isfinite(x)), steps[-1], x)
        return x, self.rows(x, data, steps[-1])

    def signals(self, commands: Float[Array, "2 nc"], t: Scalar) -> Float[Array, "2 nc"]:
        """Lines of the commands over the interval that ends at t, near those given, of the numbers the model has."""
        return self.forcing.signals(self.shared, commands, t, self.dt)

    def acting(self, commands: Float[Array, " nc"], t: Scalar) -> Float[Array, " nc"]:
        """Commands at t, as `signals`."""
        return self.forcing.acting(self.shared, commands, t, self.dt)

    def next_step(self, x: Float[Array, " nx"], t: Scalar, commands: Float[Array, "2 nc"]) -> Float[Array, " nx"]:
        """Where the motion goes from x at t to t + Δt with the acceleration it has, unknown forces going on as before.

        On the constraints: off them the cost may be lower than anywhere on them, and the solver would stay there.

        Args:
            x: A step.
            t: Its time [s].
            commands: Known forces at both ends of the interval.
        """
        n, nv, dt = self.mechanism.n, self.mechanism.nv, self.dt
        q, dq, u = x[:n], x[n : n + nv], x[n + nv :]
        ddq, _ = self.accelerations(x, t, (commands[0] + commands[1]) / 2)
        there = self.mechanism.retract(q, dt * dq + dt**2 / 2 * ddq)
        there = jnp.concatenate([there, dq + dt * ddq, self.carried(u, q, there, t)])
        return self.chart.move(self.mechanism, there, jnp.zeros(self.local_size, x.dtype), t + dt)

    def carried(self, u: Float[Array, " nu"], q0: Coordinates, q1: Coordinates, t: Scalar) -> Float[Array, " nu"]:
        """What is left of unknown forces one step after t, as they are seen there."""
        forcing = self.forcing
        turn = None
        if self.remembered is not None:
            turn = self.chart.turned_metric(self.mechanism, (q0, t), (q1, t + self.dt))
        return forcing.decay * forcing.turned(u, turn)

    @property
    def step_size(self) -> int:
        """Numbers of x."""
        return sum(size for _, size in self.sizes)

    @property
    def local_size(self) -> int:
        """Local coordinates of x."""
        return self.chart.local_size(self.mechanism, self.step_size)


def shared_parts(
    sensors: Sequence[AbstractSensor], inputs: Sequence[AbstractInput], recorded: Sequence[Recorded | None] = ()
) -> dict[str, AbstractSensor | AbstractInput]:
    """Sensors and inputs by name, commands with what was recorded of them."""
    shared = {part.name: part for part in (*sensors, *inputs)}
    for command, own in zip(commands(inputs), recorded, strict=False):
        if own is not None:
            shared[command.name] = eqx.tree_at(lambda force: force.recorded, command, own, is_leaf=_is_none)
    return shared


def moves(free: Free, inputs: Sequence[AbstractInput]) -> bool:
    """Whether the motion from a step on depends on θ: on numbers of the mechanism or of commands."""
    names = {force.name for force in commands(inputs)}
    return any(of_mechanism(place) or place.path[1].key in names for place in free.places)


def _is_none(leaf) -> bool:
    return leaf is None
