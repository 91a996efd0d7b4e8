"""What readings under a signal tell of parameters: free runs, their derivatives by θ, Fisher information.

All of it is a differentiable function of the coefficients of the signal.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fgmbs.algebra.slopes import changed, slopes_of
from fgmbs.problems.design.slopes import run_with_slopes
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.problems.identify.free_runs.rollout import free_run, known_forces, sensor_residuals, sensor_rows
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.status import Status
from fgmbs.typing import Scalar


class Limits(eqx.Module):
    """Between which a number of a step stays, at every step."""

    lower: Float[Array, " rows"]
    upper: Float[Array, " rows"]
    places: tuple[int, ...] = eqx.field(static=True)
    """Which number of the step (q, dq) each row is about."""

    def ratios(self, values: Float[Array, "rows times"]) -> Float[Array, "rows times"]:
        """How far from the middle values are, 1 at a limit."""
        middle, half = (self.upper + self.lower) / 2, (self.upper - self.lower) / 2
        return jnp.abs(values - middle[:, None]) / half[:, None]


class DesignProblem(eqx.Module):
    """A signal that is to be designed: what it moves, what reads the motion, what of it is wanted.

    Its unknowns are the coefficients c of the signals, those of all commands behind one another, in units of the
    largest signal of each command.
    """

    problem: SmoothingProblem
    """With a recording of the stamps that are planned; what its sensors and commands say does not matter."""
    thetas: Float[Array, "scenarios p"]
    """θ under which the experiment is planned: the first values, and draws of the priors."""
    terms: Float[Array, "samples terms"]
    """The terms of the series at the samples of the commands."""
    signals: Limits
    """Of the signals of the commands; without places."""
    states: Limits
    wanted: tuple[bool, ...] = eqx.field(static=True)
    """Which numbers of θ are wanted; the others, and the first state, are found along with them."""

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.signals.upper.shape[0] * self.terms.shape[1]

    def coefficients(self, c: Float[Array, " size"]) -> Float[Array, "commands terms"]:
        """Those of each command, in its unit."""
        return self.signals.upper[:, None] * c.reshape(-1, self.terms.shape[1])

    def sampled(self, c: Float[Array, " size"]) -> Float[Array, "commands samples"]:
        """The signals at their samples."""
        return self.coefficients(c) @ self.terms.T


class Look(NamedTuple):
    """What a signal tells under one θ."""

    log_det: Scalar
    """Logarithm of the determinant of the information of the wanted numbers, all others being found, too."""
    whole: Float[Array, "size size"]
    """Information of the first state and of θ, priors included."""
    ratios: Float[Array, " points"]
    """See `ratios`."""
    steps: Float[Array, "steps nx"]
    """The motion (q, dq)."""
    ran: Bool[Array, ""]
    """Whether the free run got to its end."""


def look(design: DesignProblem, c: Float[Array, " size"], theta: Float[Array, " p"]) -> Look:
    """What the signal of c tells under θ."""
    model, x, data = _planned(design, c, theta)
    local, p = model.local_size, theta.shape[0]
    zero, at, of_theta = jnp.zeros(local + p, x.dtype), model.at(theta), slopes_of(model.at, theta)

    def begin(change):
        near = changed(at, of_theta, change[local:])
        begun = model.chart.move(near.mechanism, x, change[:local], data.times[0])
        return begun, begun

    def read(steps, change):
        return sensor_residuals(changed(at, of_theta, change), steps, rows)

    E, begun = jax.jacfwd(begin, has_aux=True)(zero)
    steps, along, status = run_with_slopes(at, of_theta, begun, E, data)
    rows = sensor_rows(at, steps, data)
    _, push = jax.linearize(read, steps, zero[local:])
    by_theta = jnp.concatenate([jnp.zeros((local, p)), jnp.eye(p)]).astype(x.dtype)
    J = jnp.concatenate([slope.reshape(-1, local + p) for slope in jax.vmap(push, (2, 0), -1)(along, by_theta)])
    known = jnp.concatenate([1 / design.problem.recording.start_sigma[:local], 1 / design.problem.free.sigma])
    whole = J.T @ J + jnp.diag(known**2)
    ran = jnp.all(status == Status.converged)
    return Look(_log_det(whole, design.wanted), whole, _ratios(design, c, steps), steps, ran)


def ratios(design: DesignProblem, c: Float[Array, " size"], theta: Float[Array, " p"]) -> Float[Array, " points"]:
    """How near all samples of signals and all limited numbers of the motion come to their limits, 1 at one; infinite
    where the motion gets nowhere."""
    model, x, data = _planned(design, c, theta)
    at = model.at(theta)
    begun = model.chart.move(at.mechanism, x, jnp.zeros(model.local_size, x.dtype), data.times[0])
    run = free_run(at, begun, data)
    found = _ratios(design, c, run.steps)
    return jnp.where(jnp.all(run.status == Status.converged), found, jnp.inf)


def _planned(
    design: DesignProblem, c: Float[Array, " size"], theta: Float[Array, " p"]
) -> tuple[EstimationModel, Float[Array, " nx"], StepData]:
    """(model, first step as it was given, what the commands do)."""
    problem = design.problem
    signals = zip(problem.recording.commands, design.sampled(c), strict=True)
    commands = tuple(_with_samples(recorded, values) for recorded, values in signals)
    problem = problem.of(problem.recording._replace(commands=commands))
    delays = nominal_delays(problem.sensors)
    model = known_forces(problem.model(problem.sizes.value, delays))
    x = problem.recording.starts[0][: model.mechanism.n + model.mechanism.nv]
    return model, x, problem.data(delays, x, x, theta)


def _with_samples(recorded, values: Float[Array, " samples"]):
    """A recorded command with other samples in the same room."""
    behind = recorded.signal.values.shape[0] - values.shape[0] - 1
    values = jnp.concatenate([values[:1], values, jnp.broadcast_to(values[-1:], (behind,))])
    return eqx.tree_at(lambda recorded: recorded.signal.values, recorded, values)


def _ratios(design: DesignProblem, c, steps) -> Float[Array, " points"]:
    of_signals = design.signals.ratios(design.sampled(c))
    of_states = design.states.ratios(steps[:, np.asarray(design.states.places, int)].T)
    return jnp.concatenate([jnp.ravel(of_signals), jnp.ravel(of_states)])


def _log_det(whole: Float[Array, "size size"], wanted: tuple[bool, ...]) -> Scalar:
    """log det of the Schur complement of all that is not wanted."""
    p = len(wanted)
    first = whole.shape[0] - p
    others = np.concatenate([np.arange(first), first + np.flatnonzero(~np.asarray(wanted))])
    order = np.concatenate([others, first + np.flatnonzero(wanted)]).astype(int)
    # In units in which the diagonal is 1.
    unit = jax.lax.stop_gradient(jnp.sqrt(jnp.diag(whole)))[order]
    L = jnp.linalg.cholesky(whole[np.ix_(order, order)] / jnp.outer(unit, unit))
    return 2 * jnp.sum(jnp.log(jnp.diag(L) * unit)[len(others) :])
