"""The parameters of least prediction error, by Levenberg–Marquardt or a solver of optax."""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from fgmbs.arguments import choice
from fgmbs.compiled.program import program
from fgmbs.compiled.tracing import while_loop
from fgmbs.graph.time_graph import Look, Unknowns
from fgmbs.linear import METHODS, factorize_matrix
from fgmbs.problems.estimation.posterior import influence_of
from fgmbs.problems.identify.free_runs.segments import (
    Parameters,
    PredictionProblem,
    cut,
    prepare_prediction,
    run_length,
)
from fgmbs.problems.smooth.beginning import begun_once
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt, OptStep
from fgmbs.status import Status
from fgmbs.typing import Scalar

Solver: TypeAlias = Literal["lm", "adam", "lbfgs"]

_ITERATIONS = {"lm": 50, "adam": 3000, "lbfgs": 300}
_STEP = 1e-9
"""Relative step at which Levenberg–Marquardt ends …"""
_SHARE = 1e-9
"""… or the promised decrease of the cost, as a share of it, however large residuals are. Where dry friction bends, more
is left than the last step promises: twenty starts of a rotary pendulum ended within 9e-6 of the cost."""
_PART = 32
"""Steps of the free runs on the way to longer ones …"""
_TIGHTER = (1.0, 30.0, 1e3, 3e4)
"""… which are tied together by so much more tightly than white forces tie them, one time after another, for …"""
_ON_THE_WAY = 8, 1e-3
"""… so many iterations each at most, and until they promise less than this share of the cost."""
_ADAM = 0.05
"""First rate of Adam, relative to the longest way that the first linearization foresees; it falls to zero."""
_FLAT = 1e-6
"""Length of the gradient, in standard deviations of what is found, at which optax's solvers have converged."""


class Prediction(eqx.Module):
    """Where the prediction error is least."""

    theta: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    """Of θ, the first states being found, too; those of numbers on a bound are as if they were free."""
    information: Float[Array, "p p"]
    """Its inverse, which is finite also where that is not."""
    influence: Float[Array, " p"]
    """Change of all residuals by each of θ, first states being held."""
    starts: Float[Array, "*recordings segments nx"]
    """First states (q, dq)."""
    steps: Float[Array, "*recordings segments steps nx"]
    """The free runs; the last step of one is the first of the next …"""
    run_status: Status
    """… and how every step was found."""
    residuals: tuple[Float[Array, "*recordings segments _ _"], ...]
    """Of every sensor, whitened."""
    joints: Float[Array, "*recordings segments-1 local"]
    """What segments miss each other by, whitened."""
    cost: Scalar
    history: Float[Array, " most"]
    """Cost after every iteration; nan where there was none."""
    status: Status
    iterations: Int[Array, ""]


def predict_best(
    prediction: PredictionProblem,
    solver: Solver = "lm",
    *,
    iterations: int | None = None,
    start: Unknowns | None = None,
) -> Prediction:
    """θ and first states of least prediction error; a pure function, the same under `jax.jit` and `jax.vmap`.

    Args:
        prediction: Made by `prepare_prediction`.
        solver: "lm": Levenberg–Marquardt on the free runs, first states eliminated, bounds exact; "adam" or "lbfgs" of
            optax, in variables whitened by the first linearization, θ clipped to its bounds.
        iterations: Limit.
        start: Where the search begins.

    Raises:
        ArgumentError: There is no such solver.
    """
    choice("solver", solver, tuple(_ITERATIONS))
    limit = _ITERATIONS[solver] if iterations is None else iterations

    start = prediction.start if start is None else start
    if solver == "lm":
        x, state = _fitted(prediction, start, limit, _SHARE)
        # One step of the solver before, which is too small to matter where it has converged.
        return _told(prediction, x, state.look, state.history, state.status, state.iter_num)
    x, *ended = _descended(prediction, start, solver, limit)
    return _told(prediction, x, _looked(prediction, x), *ended)


def led(
    problem: SmoothingProblem, horizon: float | None, near: Unknowns, first: Float[Array, "*recordings nx"]
) -> PredictionProblem:
    """The prediction error of free runs, with a first guess from which its least one is to be found.

    Of long runs the error has many minima. Short ones, which may miss each other, follow the recording whatever θ is;
    they are tied together more and more tightly (multiple shooting), until they are as good as one.

    Args:
        problem: The problem.
        horizon: Length of the free runs [s], None for whole recordings.
        near: Steps and θ to begin with, of all recordings.
        first: Centre of the prior of their first state.
    """
    if run_length(problem, horizon) > _PART:
        parts = cut(problem, near, first, problem.sizes.value, _PART, True)
        x, whiteners = parts.start, parts.segments.whiteners
        for factor in _TIGHTER:
            tied = eqx.tree_at(lambda p: p.segments.whiteners, parts, factor * whiteners)
            x, _ = jax.block_until_ready(_fitted(tied, x, *_ON_THE_WAY))
        near = _joined(problem, near, x)
    return prepare_prediction(problem, horizon, near=near, first=first)


def _joined(problem: SmoothingProblem, near: Unknowns, parts: Unknowns) -> Unknowns:
    """Steps with the first states of their parts among them."""
    size = parts.steps.shape[-1]
    return Unknowns(near.steps[..., :size].at[..., : problem.steps - 1 : _PART, :].set(parts.steps), parts.globals)


def led_programs(problem: SmoothingProblem, horizon: float | None, solver: Solver) -> Iterator[Callable[[], Any]]:
    """The programs of `led`, and those of Levenberg–Marquardt after it, in the order in which they will be needed.

    Args:
        problem: The problem.
        horizon: As of `led`.
        solver: What will fit the free runs.
    """
    length, sizes, at = run_length(problem, horizon), problem.sizes.value, begun_once.like(problem)
    near, first = at.x, at.first
    if length > _PART:
        yield cut.ahead(problem, near, first, sizes, _PART, True)
        parts = cut.like(problem, near, first, sizes, _PART, True)
        yield _fitted.ahead(parts, parts.start, *_ON_THE_WAY)
        near = _joined(problem, near, parts.start)
    yield cut.ahead(problem, near, first, sizes, length, True)
    if solver == "lm":
        whole = cut.like(problem, near, first, sizes, length, True)
        given = whole, whole.start, _ITERATIONS["lm"], _SHARE
        yield _fitted.ahead(*given)
        x, state = _fitted.like(*given)
        yield _told.ahead(whole, x, state.look, state.history, state.status, state.iter_num)


@program
def _fitted(prediction: PredictionProblem, start: Unknowns, limit: int, share: float) -> OptStep:
    return LevenbergMarquardt(linear="sqrt", maxiter=limit, tol=_STEP, share=share).run(start, prediction)


@program
def _looked(prediction: PredictionProblem, x: Unknowns) -> Look:
    return prediction.look(x)


@program
def _told(prediction: PredictionProblem, x: Unknowns, look: Look, history, status: Status, iterations) -> Prediction:
    miss = look.residuals
    factorization = METHODS["sqrt"](look.system, *prediction.zeros(x))
    U, _ = factorization.factor.of_globals()
    return Prediction(
        theta=x.globals,
        covariance=factorization.marginals().globals,
        information=U.T @ U,
        influence=influence_of(look.system),
        starts=x.steps,
        steps=miss.runs.steps,
        run_status=miss.runs.status,
        residuals=miss.sensors,
        joints=miss.joints,
        cost=look.cost,
        history=history,
        status=status,
        iterations=iterations,
    )


class _Descent(NamedTuple):
    y: Parameters
    state: optax.OptState
    cost: Scalar
    history: Float[Array, " limit"]
    count: Int[Array, ""]
    status: Status


@program
def _descended(prediction: PredictionProblem, start: Unknowns, solver: Solver, limit: int):
    """(x, history, status, iterations) by a solver of optax.

    It moves in y, x = start ⊞ A y: first states follow θ as the first linearization has it, and everything is in
    standard deviations there, so that the cost is near ½‖y‖², and a bound of θ is one of y.
    """
    free, zero = prediction.free, prediction.zeros(start)
    system = prediction.look(start).system
    U, _ = METHODS["sqrt"](system, *zero).factor.of_globals()
    information = system.information()
    of_starts = factorize_matrix(information.without(jnp.ones(free.size, bool)))
    followed = lambda row: -of_starts.solve(row, zero.globals)[0]
    follow = jax.vmap(followed, -2, -1)(information.arrow)
    # Of one segment at a time, its neighbours held.
    blocks = jnp.linalg.cholesky(information.diagonal)
    scale = 1 / jnp.linalg.norm(U, axis=0)
    lower, upper = ((bound - start.globals) / scale for bound in (free.lower, free.upper))

    def within(y: Parameters) -> Parameters:
        return y._replace(theta=jnp.clip(y.theta, lower, upper)) if free.bounded else y

    def there(y: Parameters) -> Unknowns:
        y = within(y)
        theta = scale * y.theta if free.bounded else jax.scipy.linalg.solve_triangular(U, y.theta)
        own = jax.scipy.linalg.solve_triangular(jnp.swapaxes(blocks, -1, -2), y.starts[..., None])[..., 0]
        return prediction.moved(start, Unknowns(follow @ theta + own, theta))

    def loss(y: Parameters) -> Scalar:
        return prediction.cost(there(y))

    def pull(y: Parameters, slope: Parameters) -> Scalar:
        """The largest part of the gradient that no bound stops."""
        stopped = ((y.theta <= lower) & (slope.theta > 0)) | ((y.theta >= upper) & (slope.theta < 0))
        of_theta = jnp.where(stopped, 0.0, slope.theta)
        return jnp.maximum(jnp.max(jnp.abs(of_theta), initial=0.0), jnp.max(jnp.abs(slope.starts)))

    y = Parameters(zero.globals, zero.steps)
    value_and_slope = jax.value_and_grad(loss)
    if solver == "adam":
        rate = optax.cosine_decay_schedule(1.0, limit)
        longest = pull(y, jax.grad(loss)(y))
        method = optax.chain(optax.scale_by_adam(), optax.scale_by_schedule(rate), optax.scale(-_ADAM * longest))
    else:
        method = optax.lbfgs()
    looked = value_and_slope if solver == "adam" else optax.value_and_grad_from_state(loss)

    def advance(at: _Descent) -> _Descent:
        own = {} if solver == "adam" else dict(state=at.state)
        cost, slope = looked(at.y, **own)
        more = {} if solver == "adam" else dict(value=cost, grad=slope, value_fn=loss)
        update, state = method.update(slope, at.state, at.y, **more)
        flat, finite = pull(at.y, slope) <= _FLAT, jnp.isfinite(cost) & jnp.isfinite(pull(at.y, slope))
        moved = within(optax.apply_updates(at.y, update))
        new = jax.tree.map(lambda new, old: jnp.where(flat | ~finite, old, new), moved, at.y)
        status = Status.where(at.count + 1 >= limit, Status.iteration_limit, Status.running)
        status = Status.where(flat, Status.converged, status)
        status = Status.where(finite, status, Status.non_finite)
        return _Descent(new, state, cost, at.history.at[at.count].set(cost), at.count + 1, status)

    history = jnp.full(limit, jnp.nan)
    first = _Descent(y, method.init(y), jnp.asarray(jnp.inf), history, jnp.asarray(0), Status.running)
    end = while_loop(lambda at: at.status == Status.running, advance, first)
    return there(end.y), end.history, end.status, end.count
