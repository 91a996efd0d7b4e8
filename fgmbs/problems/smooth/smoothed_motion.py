"""What state estimation answers: the motion, the forces, and how sure it is of them."""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fgmbs.compiled.buckets import by_step
from fgmbs.compiled.program import program
from fgmbs.dynamics import acceleration
from fgmbs.dynamics.forcing import force_directions
from fgmbs.errors import ArgumentError, SolveError
from fgmbs.graph.given import Given
from fgmbs.graph.model import rebuilt
from fgmbs.inputs import AbstractInput, augmented, commands, gains_of
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation.graph import moves
from fgmbs.problems.smooth.beginning import SmoothingState
from fgmbs.problems.smooth.contents import estimate
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import tested
from fgmbs.results.contents import Contents
from fgmbs.results.estimates import smoothed_report
from fgmbs.results.motion import AbstractMotion
from fgmbs.results.warnings import warnings
from fgmbs.sensors.base import AbstractSensor
from fgmbs.status import Status, is_one_of
from fgmbs.typing import Scalar
from fgmbs.unknowns import Free, Unknown


@dataclasses.dataclass(frozen=True)
class Group:
    """Residuals of one kind: of a sensor, or of what an unknown force adds from step to step."""

    name: str
    kind: str
    """"sensor", "force" or "start"."""
    count: int
    """Residuals."""
    dof: float
    """Expected sum of squares: their number less what the unknowns follow of them."""
    chi2: float
    """Sum of squares of the whitened residuals; with a robust loss, of what it leaves of them, over its mean."""
    size: float
    """Standard deviation (sensor) or size (force) that was used, in its unit; nan where there are several."""
    found: bool
    """Whether the size was found from the data."""
    p_value: float
    """Probability of a χ² as far from its expectation or farther, two-sided."""
    correlation: float
    """Correlation of neighbouring residuals; nan for fewer than ten."""
    whiteness: float
    """p-value of Ljung and Box over ten lags: small if residuals are autocorrelated."""
    outliers: float
    """Share of the residuals that a robust loss leaves less than half of their weight."""


@dataclasses.dataclass(frozen=True, eq=False)
class SensorFit:
    """What a sensor read and what the estimate says it should have read."""

    name: str
    units: tuple[str, ...]
    recording: Int[np.ndarray, " samples"]
    """Which recording each sample belongs to."""
    t: Float[np.ndarray, " samples"]
    """Time of each sample [s]."""
    measured: Float[np.ndarray, "samples rows"]
    predicted: Float[np.ndarray, "samples rows"]
    normalized: Float[np.ndarray, "samples rows"]
    """(predicted − measured)/σ, wrapped where the sensor is circular; nan for rows without a sample."""
    weight: Float[np.ndarray, " samples"]
    """Weight that the robust loss leaves the sample, the least of the things that it reads, 1 without one."""

    @property
    def outliers(self) -> Int[np.ndarray, " outliers"]:
        """Samples whose weight is below one half."""
        return np.flatnonzero(self.weight < 0.5)

    def of_recording(self, number: int) -> "SensorFit":
        """Of one of the recordings."""
        here = self.recording == number
        names = ("t", "measured", "predicted", "normalized", "weight")
        cut = {name: getattr(self, name)[here] for name in names}
        return dataclasses.replace(self, recording=np.zeros(int(np.sum(here)), int), **cut)


@dataclasses.dataclass(frozen=True)
class ScoreTest:
    """What the data say of a number that was taken as known: Rao's score test."""

    name: str
    value: float
    """As it was taken."""
    change: float
    """By which the cost would be least if it were found, too, by one linearization …"""
    std: float
    """… and the standard deviation of what would be found, all other known numbers being right."""

    @property
    def z(self) -> float:
        """A standard normal number if the value is right; half its square is what the cost would fall by."""
        return self.change / self.std


@dataclasses.dataclass(frozen=True)
class Branch:
    """A start from which a motion may have begun."""

    recording: int
    """Number of the recording."""
    q: tuple[float, ...]
    """Coordinates at the first step."""
    cost: float
    """How much more the first samples cost from there than from the start from which they cost least."""
    weight: float
    """Probability of the motion from there among those that were solved, by Laplace's method; NaN of one that was not
    solved, because the first samples decide against it."""
    given: bool
    """Whether it is the start that was given."""


class SmoothedMotion(AbstractMotion):
    """The estimated motion of a mechanism; arrays over the steps of all recordings, one behind the other.

    Standard deviations are those of the posterior linearized at the estimate; they lie in the directions in which the
    mechanism can move.
    """

    mechanism: AbstractMechanism
    """With the estimates of its unknown numbers, of the first recording where each has its own, and without those that
    are given of some of several recordings; see `of_recording`."""
    sensors: tuple[AbstractSensor, ...]
    inputs: tuple[AbstractInput, ...]
    """With the sizes that were used or found."""
    t: Float[Array, " steps"]
    """[s]"""
    recording: Int[Array, " steps"]
    """Number of the recording of each step."""
    q: Float[Array, "steps n"]
    """[m, rad]"""
    dq: Float[Array, "steps nv"]
    ddq: Float[Array, "steps nv"]
    """Accelerations by the mechanism, known forces and those with a memory; white ones have no value at an instant."""
    multipliers: Float[Array, "steps m"]
    """Multipliers λ of the constraints."""
    forces: Float[Array, "steps nu"]
    """Unknown forces with a memory on actuators or along velocities [N, N·m]."""
    disturbance: Float[Array, "steps nv"]
    """Generalized forces of a `Disturbance` with a memory [N, N·m]; 0 without one."""
    commands: Float[Array, "steps nc"]
    """Known forces [N, N·m]."""
    tangents: Float[Array, "steps nx columns"]
    """∂(q, dq, u)/∂δ, δ the local coordinates, u `forces` and behind them, where it has a memory, `disturbance`; where
    numbers of the mechanism are unknown also ∂(q, dq, u)/∂θ, θ all unknown numbers, logarithms of positive ones …"""
    local_covariance: Float[Array, "steps columns columns"]
    """… and the covariance of these."""
    ddq_std: Float[Array, "steps nv"]
    multipliers_std: Float[Array, "steps m"]
    unknowns: dict[str, Array]
    """Estimates of the unknown numbers, by the name of the parameter of the mechanism, SENSOR.ATTRIBUTE or
    INPUT.ATTRIBUTE; of numbers that each of several recordings has of its own a row for each."""
    unknowns_std: dict[str, Array]
    free: Free
    """Which numbers of mechanism and sensors are unknown, and what was known of them before."""
    given: Given
    """Numbers of the mechanism that are known to differ between several recordings."""
    sizes: Free
    """What was known before of sizes of noise that are unknown."""
    status: Status
    step_status: Status | None
    """Of every step, where they were solved one by one."""
    iterations: Int[Array, ""]
    log_likelihood: Scalar
    """Logarithm of the probability density of the samples, with the sizes of noise as they are, by Laplace's method: it
    compares models, and sizes, of the same samples. NaN of a fixed-lag smoother."""
    cost_history: Float[Array, " iterations"]
    groups: tuple[Group, ...] = eqx.field(static=True)
    fits: tuple[SensorFit, ...] = eqx.field(static=True)
    branches: tuple[Branch, ...] = eqx.field(static=True)
    """Starts of each recording that were compared: that of the motion, then others, the most likely first."""
    notes: tuple[str, ...] = eqx.field(static=True)
    """What was dropped, assumed or found on the way, in words."""
    solved: tuple[SmoothingProblem, SmoothingState] | None
    """The problem, and where its iteration ended; None of a fixed-lag smoother."""

    @property
    def differ(self) -> bool:
        """Whether recordings have numbers of their own."""
        return self.free.index is not None or bool(self.given.names)

    @property
    def priors(self) -> dict[str, Unknown]:
        """What was known of the unknown numbers before, by name."""
        return self.free.priors() | self.sizes.priors()

    @property
    def force_names(self) -> tuple[str, ...]:
        """Names of `forces`."""
        return tuple(force.name for force in augmented(self.inputs))

    @property
    def command_names(self) -> tuple[str, ...]:
        """Names of `commands`."""
        return tuple(force.name for force in commands(self.inputs))

    @property
    def applied_forces(self) -> dict[str, Float[Array, " steps"]]:
        """Total estimated and known force by the actuator or velocity it acts on [N, N·m]."""
        total: dict[str, Array] = {}
        forces = (*augmented(self.inputs), *commands(self.inputs))
        for force, values in zip(forces, jnp.concatenate([self.forces, self.commands], axis=1).T, strict=True):
            total[force.on] = total.get(force.on, jnp.zeros_like(values)) + values
        return total

    @property
    def covariance(self) -> Float[Array, "steps nx nx"]:
        """Covariance of (q, dq, u) of every step, q with all its numbers, which may be more than it has directions."""
        E, cov = np.asarray(self.tangents), np.asarray(self.local_covariance)
        return jax.device_put(E @ cov @ E.mT)

    @property
    def _std(self) -> Float[np.ndarray, "steps nx"]:
        E, cov = np.asarray(self.tangents), np.asarray(self.local_covariance)
        return np.sqrt(np.maximum(np.sum(E @ cov * E, axis=2), 0.0))

    @property
    def q_std(self) -> Float[Array, "steps n"]:
        return jax.device_put(self._std[:, : self.q.shape[1]])

    @property
    def dq_std(self) -> Float[Array, "steps nv"]:
        n = self.q.shape[1]
        return jax.device_put(self._std[:, n : n + self.dq.shape[1]])

    @property
    def forces_std(self) -> Float[Array, "steps nu"]:
        first = self.q.shape[1] + self.dq.shape[1]
        return jax.device_put(self._std[:, first : first + self.forces.shape[1]])

    @property
    def disturbance_std(self) -> Float[Array, "steps nv"]:
        std = self._std[:, self.q.shape[1] + self.dq.shape[1] + self.forces.shape[1] :]
        return jax.device_put(std if std.size else np.zeros(self.disturbance.shape))

    @property
    def chi2(self) -> dict[str, tuple[float, float]]:
        """(χ², its expectation) of each group of residuals."""
        return {group.name: (group.chi2, group.dof) for group in self.groups}

    def joint_forces(self) -> tuple[Float[Array, "steps pins d"], Float[Array, "steps pins d"]]:
        """Forces on the bodies at their pins, in the order of `mechanism.pin_names`, and their standard deviations [N].

        Raises:
            ArgumentError: The mechanism has no pins.
        """
        if not self.mechanism.pin_names:
            raise ArgumentError("joint forces: expected a mechanism with pins; this one has none")
        shared = self.mechanism, self.inputs, self.free, self.given, self.unknowns
        own = self.recording if self.differ else None
        forces = self.forces, self.disturbance, self.commands
        rows = (own, self.t, self.q, self.dq, *forces, self.tangents, self.local_covariance)
        return by_step(partial(_joint_forces, *shared), *rows)[0]

    def of_recording(self, number: int) -> "SmoothedMotion":
        """The estimate of one of the recordings, with the numbers that are its own under their plain names.

        What is said of all recordings together stays as it is: `groups`, `log_likelihood`, how the iteration went. It
        has no score tests.

        Args:
            number: Of the recording, from 0 on.

        Raises:
            ArgumentError: There is no such recording.
        """
        last = int(np.max(self.recording))
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number <= last:
            raise ArgumentError(f"number: expected that of a recording, from 0 to {last}; found {number!r}")
        free, theta, here = self.free.of(number), _theta(self.free, self.unknowns), np.asarray(self.recording) == number
        local = self.tangents.shape[2] - theta.size * moves(free, self.inputs)
        columns = np.concatenate([np.arange(local), local + np.asarray(free.columns(lambda _: True))])
        columns = columns[columns < self.tangents.shape[2]]
        by_step = {
            "t": self.t,
            "recording": jnp.zeros_like(self.recording),
            "tangents": self.tangents[..., columns],
            "local_covariance": self.local_covariance[:, columns[:, None], columns],
        }
        names = ("q", "dq", "ddq", "multipliers", "forces", "disturbance", "commands", "ddq_std", "multipliers_std")
        by_step |= {name: getattr(self, name) for name in names}
        std = jnp.concatenate([jnp.zeros(0), *(jnp.ravel(self.unknowns_std[name]) for name in free.names)])
        others = self.sizes.names
        return dataclasses.replace(
            self,
            mechanism=rebuilt(free, (self.given.of(number).put(self.mechanism), {}), theta)[0].bare(),
            **jax.device_put({name: np.asarray(leaf)[here] for name, leaf in by_step.items()}),
            unknowns=free.chosen(free.values(theta)) | {name: self.unknowns[name] for name in others},
            unknowns_std=free.chosen(std) | {name: self.unknowns_std[name] for name in others},
            free=free.alone(),
            given=Given(),
            fits=tuple(fit.of_recording(number) for fit in self.fits),
            branches=tuple(
                dataclasses.replace(branch, recording=0) for branch in self.branches if branch.recording == number
            ),
            step_status=None if self.step_status is None else jax.tree.map(lambda leaf: leaf[here], self.step_status),
            solved=None,
        )

    def score_tests(self) -> tuple[ScoreTest, ...]:
        """Of all numbers of mechanism and sensors that were taken as known, those that the data can tell: what these
        would change them to; none of a fixed-lag smoother, nor of an estimate that did not converge."""
        if self.solved is None or self.status != Status.converged:
            return ()
        found = tested(*self.solved)
        columns = (np.asarray(column).tolist() for column in (found.value, found.change, found.std))
        # The motion that is most likely beside a gain follows the noise the more, the larger that is: of all motions
        # together, whose determinant falls with it, a smaller one is most likely. By other numbers that hardly changes.
        followed = {f"{group.name}.gain": group.count - group.dof for group in self.groups if group.kind == "sensor"}
        return tuple(
            ScoreTest(name, value, change - std**2 * (followed[name] / value if name in followed else 0.0), std)
            for name, value, change, std in zip(found.names, *columns, strict=True)
            if np.isfinite(std)
        )

    def contents(self) -> Contents:
        return estimate(self)

    def warnings(self) -> tuple[str, ...]:
        """Everything that does not fit, or that the data do not tell; empty if there is nothing. The report has the
        same."""
        return tuple(warnings(self.to_dataset()))

    def report(self) -> str:
        """How the estimate went and how sure it is, in words and numbers."""
        return smoothed_report(self)

    def check(self) -> None:
        """Raises if the solve failed.

        Raises:
            SolveError: How it ended, with this result.
        """
        if not is_one_of(self.status, Status.converged):
            cost = f" at a cost of {float(self.cost_history[-1]):.6g}" if self.cost_history.size else ""
            raise SolveError(
                f"state estimation: {Status[self.status]}, after {int(self.iterations)} iterations{cost}; the error's "
                "`result` holds the best state there was; try another start, larger unknown forces or a robust loss",
                self,
            )


def _theta(free: Free, unknowns: dict[str, Array]) -> Float[Array, " p"]:
    return free.theta(jnp.concatenate([jnp.zeros(0), *(jnp.ravel(unknowns[name]) for name in free.names)]))


@program
def _joint_forces(mechanism: AbstractMechanism, inputs, free: Free, given: Given, unknowns: dict[str, Array], *rows):
    shared = mechanism.evaluated()
    forcing = tuple(force.on for force in (*augmented(inputs), *commands(inputs)))
    # Command of each actuator: the sum of the forces on it.
    select = jnp.asarray([[float(on == name) for on in forcing] for name in mechanism.actuator_names], float)
    select = select.reshape(len(mechanism.actuator_names), len(forcing))
    n, nv = mechanism.n, mechanism.nv

    theta = _theta(free, unknowns)
    columns = rows[-1].shape[2]
    along_theta = jnp.eye(theta.size, columns, columns - theta.size) * moves(free, inputs)

    def at_step(number, t, q, dq, u, everywhere, c, E, cov):
        own = free.of(number)
        mechanism = given.of(number).put(shared).evaluated() if given.names else shared
        gains = gains_of(inputs, own.chosen(own.values(theta)))

        def pins(theta, x, named=u.size):
            moved, _ = rebuilt(own, (mechanism, {}), theta)
            q, dq, u, more = jnp.split(x, [n, n + nv, n + nv + named])
            change = gains_of(inputs, own.chosen(own.values(theta))) - gains
            forces = jnp.concatenate([u, c + change * jnp.where(gains == 0, 0.0, c / gains)])
            Q = force_directions(moved, q, t, forcing) @ forces + (more if more.size else 0.0)
            ddq, lambda_ = acceleration(moved, q, dq, t, Q)
            return moved.joint_forces(q, dq, ddq, lambda_, t, select @ forces)

        x = jnp.concatenate([q, dq, u, everywhere])[: E.shape[0]]
        value, push = jax.linearize(pins, theta, x)
        J = jax.vmap(push, (1, 1), -1)(along_theta, E)
        return value, jnp.sqrt(jnp.maximum(jnp.einsum("pia,ab,pib->pi", J, cov, J), 0.0))

    return jax.vmap(at_step)(*rows), None
