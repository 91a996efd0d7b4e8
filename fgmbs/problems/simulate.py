"""Forward dynamics: how a mechanism moves."""

from collections.abc import Callable, Mapping
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from fgmbs.errors import Interrupted, Status
from fgmbs.graph import Unknowns
from fgmbs.kinematics import assemble, solve_position, solve_velocity, velocities
from fgmbs.kinematics.names import given_arrays
from fgmbs.linear import METHODS
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.forward_graph import ForwardModel, Integrator, forward_model
from fgmbs.problems.simulation import Simulation, observe, worst
from fgmbs.problems.simulation_arguments import Plan, plan, refuse_rigid
from fgmbs.solvers.fixed_lag import FixedLagSmoother
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt

_CHUNK = 1000
"""Steps between two looks at the keyboard and the progress bar."""


def simulate(
    mechanism: AbstractMechanism,
    duration: float,
    dt: float,
    *,
    coordinates: Literal["dependent", "independent"] = "dependent",
    integrator: Integrator = "trapezoidal",
    window: int = 2,
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

    Solves the factor graph of Fig. 2 (dependent) or Fig. 3 (independent coordinates) with a fixed-lag smoother and,
    with `batch`, once more as a whole from that result. `jax.vmap` over mechanisms and derivatives, forward or reverse,
    pass through it; there nothing is raised, and `Simulation.status` tells how each member ended.

    Args:
        mechanism: The mechanism.
        duration: Length of the motion, a multiple of dt [s].
        dt: Time step [s].
        coordinates: Which coordinates the motion is integrated in.
        integrator: "euler" (first order), "trapezoidal" (second), "hermite_simpson" (fourth).
        window: Steps of the fixed-lag window, N_w ≥ 2.
        batch: Solve all steps at once in the end.
        linear: Linear method of the solver, see `LevenbergMarquardt`.
        independent: Names of the independent coordinates; by default the best ones, chosen anew at every step.
        start: Coordinates of the start by name; the rest is assembled, near the mechanism as drawn [m, rad].
        start_velocities: Velocities of the start by coordinate name; by default those of the mechanism's file, and as
            slow as they allow [m/s, rad/s].
        covariance: Also compute the marginal covariances of (q, dq, ddq) at every step, for the noise of the graph.
        throw: Raise an error if the solve fails; otherwise leave it to `status`.
        progress: Called with (steps done, steps in all) from time to time.

    Raises:
        ArgumentError: An argument cannot be meant.
        AssemblyError: The mechanism cannot be assembled, or cannot move.
        SolveError: The solve failed; its `result` holds what was reached.
        Interrupted: Ctrl-C; its `result` holds the steps that were done.
    """
    the_plan = plan(mechanism, duration, dt, coordinates, integrator, window, linear, independent)
    traced = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(mechanism))
    q_given = given_arrays(mechanism, start, "start")
    dq_given = _velocities_given(mechanism, start_velocities)
    if traced:
        q, info = solve_position(mechanism, mechanism.reference, 0.0, *q_given)
        dq = solve_velocity(mechanism, q, 0.0, *dq_given)
        status = Status.where(info.assembled, Status.converged, Status.not_assembled)
    else:
        q = assemble(mechanism, start)
        refuse_rigid(mechanism, q)
        names = np.asarray(mechanism.coordinate_names)[np.asarray(dq_given[0])]
        dq = velocities(mechanism, q, dict(zip(names, np.asarray(dq_given[1])[dq_given[0]], strict=True)))
        status = Status.converged
    smoother, model, state = _start(the_plan, mechanism, jnp.asarray(dt, q.dtype), q, dq)

    T = the_plan.num_steps
    chunks = 1 if traced else -(-T // _CHUNK)
    length = -(-T // chunks)
    done = []
    try:
        for chunk in range(chunks):
            state, out = jax.block_until_ready(
                _advance(
                    smoother, model, state, jnp.asarray(chunk * length), length, the_plan.window, batch or covariance
                )
            )
            done.append(out)
            if progress is not None:
                progress(min((chunk + 1) * length, T), T)
    except KeyboardInterrupt:
        if not done:
            raise
        result = _result(the_plan, model, done, min(len(done) * length, T), status, False, covariance)
        raise Interrupted(f"interrupted after {result.t.shape[0]} of {T} steps", result) from None
    result = _result(the_plan, model, done, T, status, batch, covariance)
    if throw and not traced:
        result.check()
    return result


def _velocities_given(mechanism, start_velocities):
    if start_velocities is None:
        values, mask = mechanism.initial_velocities
        return mask, values
    return given_arrays(mechanism, start_velocities, "start_velocities")


@eqx.filter_jit
def _start(plan: Plan, mechanism, dt, q, dq):
    """The smoother, its model and its first window."""
    mechanism = mechanism.evaluated()
    t = jnp.zeros((), dt.dtype)
    model = forward_model(mechanism, q, dq, dt, plan.integrator, plan.dof, plan.chosen)
    x = model.state(q, dq, t)
    steps, data = [x, x], [model.rows(x, x, t)]
    for k in range(1, plan.window - 1):
        x, rows = _next(model, jnp.stack(steps[-2:]), k * dt)
        steps.append(x)
        data.append(rows)
    solver = LevenbergMarquardt(linear=plan.linear, maxiter=20)
    smoother = FixedLagSmoother(model.graph, solver, "known", jax.tree_util.Partial(_next, model))
    state = smoother.init(jnp.stack(steps), jax.tree.map(lambda *leaves: jnp.stack(leaves), *data))
    return smoother, model, state


def _next(model: ForwardModel, steps: Float[Array, "2 nx"], t):
    """Start value of the step at time t, and its data."""
    x = model.predict(steps, model.graph.dt)
    return x, model.rows(steps[-1], x, t)


@eqx.filter_jit
def _advance(
    smoother: FixedLagSmoother, model: ForwardModel, state, first, length: int, window: int, keep_rows: bool = False
):
    """The window moved on by `length` steps: (state, (step that left, its iterations, status and data) for each)."""

    def step(state, k):
        t = (k + window - 1) * model.graph.dt
        state, estimate = smoother.step(state, t)
        left = jax.tree.map(lambda leaf: leaf[0], estimate.rows) if keep_rows else None
        return state, (estimate.steps[0], estimate.iterations, estimate.status, left)

    return jax.lax.scan(step, state, first + jnp.arange(length))


@eqx.filter_jit
def _result(plan: Plan, model: ForwardModel, done, num_steps: int, status, batch: bool, covariance: bool):
    steps, iterations, step_status, rows = jax.tree.map(lambda *parts: jnp.concatenate(parts)[:num_steps], *done)
    mechanism, dt = model.graph.mechanism, model.graph.dt
    t = jnp.arange(num_steps) * dt
    overall = worst(step_status)
    marginals = None
    if batch or covariance:
        graph = model.graph.with_rows(rows)
        x = Unknowns(steps, jnp.zeros(0, steps.dtype))
        if batch:
            x, lm = LevenbergMarquardt(linear=plan.linear).run(x, graph)
            steps, overall = x.steps, lm.status
            iterations = jnp.full_like(iterations, lm.iter_num)
            step_status = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_steps,)), lm.status)
        if covariance:
            zeros = jax.tree.map(jnp.zeros_like, x)
            count = 3 * mechanism.n
            marginals = METHODS[plan.linear](graph.linearize(x)[0], *zeros).marginals().steps[:, :count, :count]
    values = model.graph.unpack(steps)
    z = independent = None
    if plan.dof:
        B = jax.vmap(model.selection)(values["q"], t)
        z, independent = jnp.einsum("kij,kj->ki", B, values["q"]), jnp.argmax(B, axis=-1)
    return Simulation(
        mechanism=mechanism,
        t=t,
        q=values["q"],
        dq=values["dq"],
        ddq=values["ddq"],
        **observe(mechanism, t, values["q"], values["dq"]),
        z=z,
        independent=independent,
        covariance=marginals,
        iterations=iterations,
        step_status=step_status,
        status=Status.where(status == Status.converged, overall, status),
    )
