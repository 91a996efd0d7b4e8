"""Free runs: the motion that a model makes by itself under recorded commands, and what its sensors should read of it.

No unknown force acts. Everything is differentiable in forward and reverse mode with respect to every number of the
model and to the first step.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.algebra.slopes import changed
from fgmbs.compiled.one_kernel import one_kernel
from fgmbs.compiled.program import program
from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.stepping import Known, Stepper
from fgmbs.graph.time_graph import Rows, TimeGraph, Unknowns
from fgmbs.inputs import augmented, gains_of, remembered
from fgmbs.kinematics.closure import Closure
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.graph import SENSORS, EstimationModel, StepData
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.status import Status


class FreeRun(NamedTuple):
    """A motion under known forces alone."""

    steps: Float[Array, "*batch steps nx"]
    """(q, dq), and behind them zeros for unknown forces; steps that only fill up stay where the motion ended."""
    status: Status
    """Of every step: a run that diverges ends in `non_finite`."""


def known_forces(model: EstimationModel) -> EstimationModel:
    """The model without forces that have a memory: its steps are (q, dq)."""
    memory = (*augmented(model.inputs), remembered(model.inputs))
    known = tuple(force for force in model.inputs if not any(force is one for one in memory))
    return eqx.tree_at(lambda model: model.inputs, model, known)


def free_run(model: EstimationModel, x: Float[Array, " nx"], data: StepData) -> FreeRun:
    """The motion of a model from a first step on, by the integration rule that its transition is.

    Constraints hold to rounding, see `fgmbs.dynamics.stepping`.

    Args:
        model: Of a θ, see `EstimationModel.at`.
        x: The first step; it satisfies the constraints.
        data: Times, commands and links of all steps, the first included.
    """
    return FreeRun(*_run(model, x, data.times, data.commands, data.linked))


def free_run_with_slopes(
    model: EstimationModel,
    of_theta: EstimationModel,
    x: Float[Array, " nx"],
    slopes: Float[Array, "nx columns"],
    data: StepData,
) -> tuple[FreeRun, Float[Array, "steps nx columns"]]:
    """(the free run of a model, its derivatives as `slopes` has them).

    Args:
        model: The model of θ …
        of_theta: … and its derivatives by θ, see `fgmbs.algebra.slopes`.
        x: The first step.
        slopes: Derivatives of the first step by its local coordinates, and behind these by θ.
        data: As `free_run` wants it.
    """
    steps, status, along = _run_with_slopes(model, of_theta, x, slopes, data.times, data.commands, data.linked)
    return FreeRun(steps, status), along


@one_kernel
def _run(model: EstimationModel, x, times, commands, linked):
    return _taken(model, x, times, commands, linked)


@one_kernel
def _run_with_slopes(model: EstimationModel, of_theta, x, slopes, times, commands, linked):
    def moved(change):
        at = changed(model, of_theta, change[model.local_size :])
        steps, status = _taken(at, x + slopes @ change, times, commands, linked)
        return steps, (steps, status)

    along, (steps, status) = jax.jacfwd(moved, has_aux=True)(jnp.zeros(slopes.shape[1], x.dtype))
    return steps, status, along


def _taken(model: EstimationModel, x, times, commands, linked):
    """(steps, their status)."""
    mechanism, rule, dt = model.mechanism, model.transition, model.dt
    commands = jax.vmap(model.signals)(commands, times)
    names = tuple(force.on for force in model.commands)
    forcing = Forcing((), names, jnp.zeros(0, x.dtype), gains_of(model.inputs, {}))
    stepper = Stepper(mechanism, rule, forcing, None, Closure())
    fractions = jnp.asarray([0.0, *rule.inner_points, 1.0], x.dtype)
    nothing = jnp.zeros((fractions.shape[0], 0), x.dtype)
    n, nv = mechanism.n, mechanism.nv

    def known(ends):
        return Known(ends[0] + fractions[:, None] * (ends[1] - ends[0]), nothing)

    def advance(state, row):
        (start, slope), (t, ends, link) = state, row
        guess = jax.lax.stop_gradient(stepper.predict(start, slope, dt))
        step, ended = stepper.step(start, guess, t, dt, known(ends))
        there = link != 0
        step = jax.tree.map(lambda new, old: jnp.where(there, new, old), step, start)
        if stepper.outside:
            step = step._replace(ddq=jax.lax.stop_gradient(step.ddq))
        status = Status.where(there, ended.status, Status.converged)
        return (step, jax.lax.stop_gradient(step.ddq - start.ddq)), (step.q, step.dq, status)

    # Under forces from outside a step looks at its start once more: what is carried there needs no derivatives.
    given = stepper, x[:n], x[n : n + nv], times[0], known(commands[1]).at(0)
    first = Stepper.start(*(_still(given) if stepper.outside else given))._replace(q=given[1], dq=given[2])
    rows = times[1:], commands[1:], linked[1:]
    _, (q, dq, status) = jax.lax.scan(advance, (first, jnp.zeros_like(first.dq)), rows)
    there = jnp.concatenate([q, dq, jnp.zeros((q.shape[0], x.shape[0] - n - nv), x.dtype)], axis=1)
    begun = Status.where(jnp.all(jnp.isfinite(first.ddq)), Status.converged, Status.non_finite)
    status = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), begun, status)
    return jnp.concatenate([x[None], there]), status


def _still(tree):
    """The tree without derivatives."""
    return jax.tree.map(lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_inexact_array(leaf) else leaf, tree)


def sensor_rows(model: EstimationModel, steps: Float[Array, "steps nx"], data: StepData) -> Rows:
    """What varies with time in the factors of the sensors, of steps near these: the noise of stamps depends on speeds.

    Args:
        model: Of a θ, without forces that have a memory.
        steps: Steps (q, dq).
        data: What was recorded.
    """
    nv = model.mechanism.nv
    dof = model.chart.dof
    nowhere = jnp.zeros((dof, nv), steps.dtype), jnp.zeros((dof, nv), steps.dtype), jnp.zeros((2 * dof, 2 * dof))
    rows = jax.vmap(lambda x, data: model.rows_with(x, data, *nowhere, None))(steps, data)
    return Rows(rows.times, rows.factors[SENSORS : SENSORS + len(model.sensors)])


def sensor_graph(model: EstimationModel, rows: Rows) -> TimeGraph:
    """The factors of the sensors alone, over steps with these rows.

    Args:
        model: Of a θ.
        rows: Of `sensor_rows`.
    """
    factors = model.measurements(Rows(rows.times, (((None, None),) * SENSORS) + tuple(rows.factors)))
    graph = TimeGraph(model.mechanism, tuple(factors), model.sizes, rows.times, model.dt, model.shared)
    return graph.with_rows(rows)


def sensor_residuals(
    model: EstimationModel, steps: Float[Array, "steps nx"], rows: Rows
) -> tuple[Float[Array, "_ _"], ...]:
    """Whitened residuals of every sensor along steps, before robust losses; 0 where there is no sample.

    Args:
        model: Of a θ, without forces that have a memory.
        steps: Steps (q, dq).
        rows: Of `sensor_rows`.
    """
    return sensor_graph(model, rows).residuals(Unknowns(steps, jnp.zeros(0, steps.dtype)))


@program
def free_runs(
    problem: SmoothingProblem, theta: Float[Array, " p"], x: Float[Array, "*recordings nx"]
) -> tuple[FreeRun, tuple[Float[Array, "*recordings _ _"], ...]]:
    """(the free run of every recording, whitened residuals of every sensor along it).

    Args:
        problem: Made by `prepare_smooth`.
        theta: θ, as `problem.free` has it.
        x: First steps (q, dq), which satisfy the constraints.
    """
    delays = nominal_delays(problem.sensors)

    def of_one(problem, x):
        model = known_forces(problem.model(problem.sizes.value, delays)).at(theta)
        data = problem.data(delays, x, x)
        run = free_run(model, x, data)
        return run, sensor_residuals(model, run.steps, sensor_rows(model, run.steps, data))

    size = problem.mechanism.n + problem.mechanism.nv
    return problem.each(lambda problem, x: of_one(problem, x[:size]), x)
