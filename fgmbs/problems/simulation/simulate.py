"""Forward dynamics: how a mechanism moves."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.arguments import of_type
from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.compiled.buckets import by_step, padded
from fgmbs.compiled.one_kernel import one_kernel
from fgmbs.compiled.program import program
from fgmbs.compiled.tracing import is_traced
from fgmbs.dynamics import acceleration
from fgmbs.dynamics.chart import MotionChart
from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.singular import refuse_no_motion
from fgmbs.dynamics.stepping import Step
from fgmbs.errors import Interrupted
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import prior
from fgmbs.graph.time_graph import Rows, TimeGraph, Unknowns
from fgmbs.kinematics.base import prepared
from fgmbs.linear import METHODS
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.simulation.arguments import Integrator, Plan, SimulationProblem, prepare_simulate, refuse_rigid
from fgmbs.problems.simulation.marching import (
    InChunks,
    Marched,
    Outside,
    Run,
    at_once,
    counted_scan,
    lowered_march,
    march,
    unmarched,
)
from fgmbs.problems.simulation.result import Simulation, observe, worst
from fgmbs.problems.solving import finish, solve
from fgmbs.problems.trajectory import Tightness, Trajectory
from fgmbs.solvers.fixed_lag import FixedLagSmoother
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status
from fgmbs.unknowns import known

# Standard deviations of soft graphs. Only their ratios matter to the motion.
_PRIOR = 1e-6
_SIGMA = 1e-3


def simulate(
    mechanism: AbstractMechanism,
    duration: float,
    dt: float,
    *,
    integrator: Integrator = "hermite_simpson",
    coordinates: Literal["chart", "dependent", "independent"] = "chart",
    window: int | None = None,
    batch: bool = False,
    linear: Literal["sequential", "sqrt"] = "sequential",
    independent: tuple[str, ...] | None = None,
    start: Mapping[str, float] | None = None,
    start_velocities: Mapping[str, float] | None = None,
    covariance: bool = False,
    throw: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Simulation:
    """The motion of a mechanism that starts assembled and moves under its own forces. [Blanco21] sections 5.1, 5.2, 7.1

    By default every step moves along the constraints, which hold to rounding: the graph of forward dynamics on the
    chart, with 2·dof unknowns a step, falls apart into one step after the other (`dynamics.stepping`). The graphs of
    the paper, Fig. 2 (dependent) and Fig. 3 (independent coordinates), have soft constraints and are solved by a
    fixed-lag smoother. With `batch` the graph is solved once more as a whole from that result. `jax.vmap` over
    mechanisms and derivatives, forward or reverse, pass through it; there nothing is raised, and `Simulation.status`
    tells how each member ended.

    Args:
        mechanism: The mechanism.
        duration: Length of the motion, a multiple of dt [s].
        dt: Time step [s].
        integrator: "euler" (first order), "trapezoidal" (second), "hermite_simpson" (fourth), or a transition of one's
            own, see `fgmbs.dynamics.transitions`.
        coordinates: "chart": along the constraints. "dependent", "independent": soft constraints, in all coordinates or
            with independent ones beside them; for configurations that are a vector space.
        window: Steps of the fixed-lag window, N_w ≥ 2, of soft constraints; 2 by default.
        batch: Solve all steps at once in the end.
        linear: Linear method of the solver, see `LevenbergMarquardt`.
        independent: Names of the independent coordinates; by default the best ones, chosen anew at every step.
        start: Coordinates of the start by name; the rest is assembled, near the mechanism as drawn [m, rad].
        start_velocities: Velocities of the start by name; by default those of the mechanism's file, and as slow as they
            allow [m/s, rad/s].
        covariance: Also compute the marginal covariances of (q, dq, ddq) at every step, for the noise of a graph with
            soft constraints.
        throw: Raise an error if the solve fails; otherwise leave it to `status`.
        progress: Called with (steps done, steps in all) from time to time.

    Raises:
        ArgumentError: An argument is invalid.
        AssemblyError: The mechanism cannot be assembled, or cannot move.
        SolveError: The solve failed; its `result` holds what was reached.
        Interrupted: Ctrl-C; its `result` holds the steps that were done.
    """
    of_type("throw", throw, bool, "True or False")
    how = dict(integrator=integrator, coordinates=coordinates, window=window, batch=batch, linear=linear)
    what = dict(independent=independent, start=start, start_velocities=start_velocities, covariance=covariance)
    problem = prepare_simulate(mechanism, duration, dt, **how, **what)
    q, dq, status = problem.start.at(mechanism, 0.0)
    if is_traced(q):  # nobody can look in between
        return _result(problem, *_marched(problem, q, dq, at_once)[0], status)
    if throw:
        problem.start.check(mechanism, q, 0.0, status)
        refuse_rigid(mechanism, q)
        refuse_no_motion(mechanism, q, dq, 0.0)
    shapes = problem.plan, mechanism, np.empty(padded(problem.num_steps))
    with compiled_ahead(lambda: _lowered(problem, q, dq, status), *shapes):
        marched, interrupted = _marched(problem, q, dq, InChunks(progress))
    result = _result(problem, *marched, status, interrupted)
    if interrupted:
        raise Interrupted(f"interrupted after {result.t.shape[0]} of {problem.num_steps} steps", result)
    return finish(problem, result, throw=throw)


@solve.register(SimulationProblem)
def _solve(problem: SimulationProblem) -> Simulation:
    q, dq, status = problem.start.at(problem.mechanism, 0.0)
    return _result(problem, *_marched(problem, q, dq, at_once)[0], status)


@finish.register(SimulationProblem)
def _finish(problem: SimulationProblem, simulation: Simulation, *, throw: bool = True) -> Simulation:
    if throw and not is_traced(simulation):
        if simulation.t.ndim == 1:
            problem.start.check(problem.mechanism, jax.device_put(np.asarray(simulation.q)[0]), 0.0, simulation.status)
        simulation.check()
    return simulation


def _marched(problem: SimulationProblem, q, dq, run: Run) -> tuple[tuple, bool]:
    """((`Marched` from a start on, variables of its steps and their data with soft constraints), cut by Ctrl-C)."""
    plan, mechanism, dt = problem.plan, problem.mechanism, problem.dt
    if plan.form == "chart":
        zero, steps = jnp.zeros((), q.dtype), problem.num_steps - 1
        marched, interrupted = march(mechanism, plan.rule, Outside(), q, dq, zero, dt, steps, run)
        return (marched, None, None), interrupted
    # Soft constraints, by a fixed-lag smoother.
    smoother, trajectory, state = _start(plan, mechanism, dt, q, dq)
    T, keep = problem.num_steps, plan.batch or plan.covariance

    def advance(state, begin, length, count):
        return _advance(smoother, dt, state, begin, length, count, plan.window, keep)

    (steps, iterations, step_status, rows), interrupted = run(advance, state, T)
    motion, _ = by_step(partial(_unpacked, trajectory), steps)
    return (Marched(motion, iterations, step_status), steps, rows), interrupted


@program
def _start(plan: Plan, mechanism, dt, q, dq):
    """The smoother, its trajectory and its first window."""
    trajectory = _trajectory(plan, mechanism, dt)
    t = jnp.zeros((), dt.dtype)
    nothing = jnp.zeros(0, dt.dtype)
    x = trajectory.state(q, dq, t, nothing, nothing)
    steps, data = [x, x], [_rows(trajectory, x, x, t)]
    for k in range(1, plan.window - 1):
        x, rows = _next(trajectory, jnp.stack(steps[-2:]), nothing, k * dt)
        steps.append(x)
        data.append(rows)
    solver = LevenbergMarquardt(linear=plan.linear, maxiter=20)
    graph = _graph(trajectory, q, dq, jnp.zeros(1, dt.dtype))
    smoother = FixedLagSmoother(graph, solver, "known", jax.tree_util.Partial(_next, trajectory))
    state = smoother.init(jnp.stack(steps), jax.tree.map(lambda *leaves: jnp.stack(leaves), *data))
    return smoother, trajectory, state


@program
def _unpacked(trajectory: Trajectory, steps: Float[Array, "steps nx"]) -> tuple[Step, None]:
    values = trajectory.unpack(steps)
    return Step(values["q"], values["dq"], values["ddq"]), None


def _trajectory(plan: Plan, mechanism, dt) -> Trajectory:
    forcing = Forcing((), (), jnp.zeros(0, dt.dtype))
    return Trajectory(prepared(mechanism), plan.rule, forcing, dt, plan.chart, plan.form)


def _graph(trajectory: Trajectory, q0, dq0, times) -> TimeGraph:
    """The graph of forward dynamics from (q0, dq0): what is known are priors (21) on the first step."""
    names, sigma = ("q", "dq"), Noise.sigma(_PRIOR)
    known = tuple(
        Factor(prior, (name,), sigma, "initial", data=x, name=f"prior_{name}")
        for name, x in zip(names, (q0, dq0), strict=True)
    )
    # Accelerations can always fit the dynamics; counted in velocity over one step, their rows do not drown the others.
    return trajectory.graph(known, Tightness(_SIGMA, _SIGMA, _SIGMA / trajectory.dt), times)


def _rows(trajectory: Trajectory, before, now, t) -> Rows:
    """Times, series and weights of a step that will end near `now` and comes from `before`."""
    start, end = trajectory.unpack(before), trajectory.unpack(now)
    change = end["ddq"] - start["ddq"] if "ddq" in end else None
    own = trajectory.rows(end["q"], t, jnp.zeros((2, 0), end["q"].dtype), change)
    return Rows(jnp.asarray(t), (*own, (None, None), (None, None)))


def _next(trajectory: Trajectory, steps: Float[Array, "2 nx"], theta: Float[Array, " 0"], t):
    """Start value of the step at time t, and its data."""
    x = trajectory.predict(steps)
    return x, _rows(trajectory, steps[-1], x, t)


@program
@one_kernel
def _advance(smoother: FixedLagSmoother, dt, state, first, length: int, count, window: int, keep: bool):
    """The window moved on by `length` steps: (state, (step that left, its iterations, status and data) for each)."""

    def step(state, k):
        state, estimate = smoother.step(state, (first + k + window - 1) * dt)
        left = jax.tree.map(lambda leaf: leaf[0], estimate.rows) if keep else None
        return state, (estimate.steps[0], estimate.iterations, estimate.status, left)

    return counted_scan(step, state, length, count)


def _result(problem: SimulationProblem, marched: Marched, steps, rows, status, interrupted=False) -> Simulation:
    """The simulation, solved once more as a whole if that was asked for."""
    plan, mechanism, dt = problem.plan, problem.mechanism, problem.dt
    covariance = None
    if interrupted:
        plan = dataclasses.replace(plan, batch=False)
    if plan.batch or plan.covariance:
        marched, covariance = _as_a_whole(plan, mechanism, dt, marched, steps, rows)
    program = partial(_observed, plan.form, plan.chart, mechanism, dt, status)
    observed, status = by_step(program, np.arange(marched.iterations.shape[0]), marched)
    return Simulation(
        mechanism=known(mechanism).bare(),
        coordinates=plan.form,
        integrator=type(plan.rule).__name__,
        **observed,
        covariance=covariance,
        status=status,
    )


@program
def _as_a_whole(plan: Plan, mechanism, dt, marched: Marched, steps, rows):
    """(The motion of all steps solved at once, their covariances), as far as they were asked for."""
    trajectory = _trajectory(plan, mechanism, dt)
    mechanism = trajectory.mechanism
    (q, dq, ddq), iterations, step_status = marched
    t = jnp.arange(q.shape[0]) * dt
    if plan.form == "chart":
        steps = jnp.concatenate([q, dq], axis=1)
        rows = jax.vmap(lambda x, t: _rows(trajectory, x, x, t))(steps, t)
    graph = _graph(trajectory, q[0], dq[0], t).with_rows(rows)
    x, covariance = Unknowns(steps, jnp.zeros(0, steps.dtype)), None
    if plan.batch:
        x, lm = LevenbergMarquardt(linear=plan.linear).run(x, graph)
        system = lm.look.system
        values = trajectory.unpack(x.steps)
        q, dq = values["q"], values["dq"]
        ddq = values["ddq"] if "ddq" in values else jax.vmap(lambda *s: acceleration(mechanism, *s)[0])(q, dq, t)
        iterations = jnp.full_like(iterations, lm.iter_num)
        step_status = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, t.shape), lm.status)
    else:
        system, _ = graph.linearize(x)
    if plan.covariance:
        zeros = jax.tree.map(jnp.zeros_like, x)
        count = mechanism.n + 2 * mechanism.nv
        covariance = METHODS[plan.linear](system, *zeros).marginals().steps[:, :count, :count]
    return Marched(Step(q, dq, ddq), iterations, step_status), covariance


def _lowered(problem: SimulationProblem, q, dq, status: Status) -> Iterator[Callable[[], Any]]:
    """The programs of the steps, and of what is reported of them, before there are any."""
    plan, size = problem.plan, padded(problem.num_steps)
    if plan.form == "chart":
        zero = np.zeros((), q.dtype)
        yield lowered_march(problem.mechanism, plan.rule, Outside(), q, dq, zero, problem.dt)
    rows = np.arange(size), unmarched(q, dq, status, size)
    yield _observed.ahead(plan.form, plan.chart, problem.mechanism, problem.dt, status, *rows)


@program
def _observed(form: str, chart: MotionChart, mechanism, dt, status, numbers, marched: Marched):
    """(What is reported of every step, by field name of `Simulation`; how it all ended)."""
    mechanism, t = prepared(mechanism), numbers * dt
    (q, dq, ddq), iterations, step_status = marched
    z = independent = None
    if form == "independent":
        B = jax.vmap(lambda q, t: chart.selection(mechanism, q, t))(q, t)
        z, independent = jnp.einsum("kij,kj->ki", B, q), jnp.argmax(B, axis=-1)
    observed = dict(
        t=t, q=q, dq=dq, ddq=ddq, z=z, independent=independent, iterations=iterations, step_status=step_status
    )
    overall = Status.where(status == Status.converged, worst(step_status), status)
    return observed | observe(mechanism, t, q, dq), overall
