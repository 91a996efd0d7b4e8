"""Derivatives of a free run by its first state and θ, themselves differentiable by the commands, side by side in time.

The run x₀, x₁, … is found step by step; where it is known, what each interval misses, m(x_k, x_k+1, commands, θ) = 0,
has all derivatives without a search and without the other intervals: S_k+1 = −m₊⁻¹ (m₋ S_k + m_θ).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fgmbs.algebra.slopes import changed
from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.stepping import Known, Stepper
from fgmbs.dynamics.transitions import State
from fgmbs.inputs import gains_of
from fgmbs.kinematics.closure import Closure
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.problems.identify.free_runs.rollout import free_run
from fgmbs.status import Status


def run_with_slopes(
    model: EstimationModel,
    of_theta: EstimationModel,
    x: Float[Array, " nx"],
    E: Float[Array, "nx columns"],
    data: StepData,
) -> tuple[Float[Array, "steps nx"], Float[Array, "steps nx columns"], Status]:
    """(the free run of a model, its derivatives as `E` has them, how each step was found).

    Both are differentiable once more with respect to the commands in `data`, and to nothing else.

    Args:
        model: The model of θ, without forces that have a memory …
        of_theta: … and its derivatives by θ, see `fgmbs.algebra.slopes`.
        x: The first step.
        E: Derivatives of the first step by its local coordinates, and behind these by θ.
        data: As `free_run` wants it.
    """
    run = free_run(model, x, _held(data))
    n, local = model.mechanism.n, model.local_size
    p = E.shape[1] - local

    def missed(y, x, change, end, commands, t):
        stepper = _stepper(changed(model, of_theta, change))
        fractions = jnp.asarray([0.0, *stepper.rule.inner_points, 1.0], x.dtype)
        forces = commands[0] + fractions[:, None] * (commands[1] - commands[0])
        known = Known(forces, jnp.zeros((fractions.shape[0], 0), x.dtype))
        return stepper.missed(State(x[:n], x[n:]), _beside(model, end, y), t, model.dt, known)

    def interval(x, end, commands, t, linked):
        """(∂x_k+1/∂x_k, ∂x_k+1/∂θ, change of x_k+1 with the commands alone)."""
        y, change = jnp.zeros(2 * model.mechanism.nv, x.dtype), jnp.zeros(p, x.dtype)

        def twice(*varying):
            value = missed(*varying, end, commands, t)
            return value, value

        (by_y, by_x, by_theta), value = jax.jacfwd(twice, (0, 1, 2), has_aux=True)(y, x, change)
        # One factorization for all of them.
        solved = -jnp.linalg.solve(by_y, jnp.column_stack([by_x, by_theta, value]))
        moved = jax.jacfwd(lambda y: jnp.concatenate(_beside(model, end, y)))(y) @ solved
        # Steps that only fill up stay where they are.
        moved = jnp.where(linked != 0, moved, jnp.eye(x.shape[0], moved.shape[1], dtype=x.dtype))
        return moved[:, : x.shape[0]], moved[:, x.shape[0] : -1], moved[:, -1]

    fixed = jax.lax.stop_gradient(run.steps)
    rows = data.commands[1:], data.times[1:], data.linked[1:]
    A, _, pushed = jax.vmap(interval)(fixed[:-1], fixed[1:], *rows)
    steps = fixed + _summed(jax.lax.stop_gradient(A), pushed, jnp.zeros_like(x))
    A, B, _ = jax.vmap(interval)(steps[:-1], steps[1:], *rows)
    return steps, _summed(A, jnp.pad(B, ((0, 0), (0, 0), (local, 0))), E), run.status


def _summed(A: Float[Array, "intervals nx nx"], b: Float[Array, "intervals nx *columns"], first: Array) -> Array:
    """s_k+1 = A_k s_k + b_k from the first one on."""
    _, rest = jax.lax.scan(lambda s, row: (row[0] @ s + row[1],) * 2, first, (A, b))
    return jnp.concatenate([first[None], rest])


def _beside(model: EstimationModel, x: Float[Array, " nx"], y: Float[Array, " twice_nv"]) -> State:
    """The state at a distance of local coordinates and velocities."""
    v, w = jnp.split(y, 2)
    n = model.mechanism.n
    return State(model.mechanism.retract(x[:n], v), x[n:] + w)


def _stepper(model: EstimationModel) -> Stepper:
    names = tuple(force.on for force in model.commands)
    forcing = Forcing((), names, jnp.zeros(0, model.dt.dtype), gains_of(model.inputs, {}))
    return Stepper(model.mechanism, model.transition, forcing, None, Closure())


def _held(tree: PyTree) -> PyTree:
    return jax.tree.map(jax.lax.stop_gradient, tree)
