"""State estimation as a pure function of arrays: a problem in, an estimate out."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fgmbs.compiled.ahead import like
from fgmbs.compiled.one_kernel import one_kernel
from fgmbs.compiled.program import program
from fgmbs.graph.time_graph import Look, Unknowns
from fgmbs.inputs import Disturbance, WhiteNoise, augmented
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.first_state import Stage, Starts, best_start
from fgmbs.problems.estimation.graph import SENSORS, EstimationModel, StepData
from fgmbs.problems.estimation.likelihood import settled, slope_of_volume
from fgmbs.problems.estimation.noise_sizes import SizeSearch, slope
from fgmbs.problems.estimation.posterior import Derived, FactorRows, Survey, derived, survey, totals
from fgmbs.problems.estimation.score_tests import Scores, scores
from fgmbs.problems.smooth.first_guess import follow
from fgmbs.problems.smooth.problem import RecordingData, SmoothingProblem
from fgmbs.problems.solving import solve
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status
from fgmbs.typing import Scalar
from fgmbs.unknowns import Free, known

_ITERATIONS = 10
"""Of Levenberg–Marquardt in a round: between two looks at the keyboard."""
_STEP = 1e-4
"""Relative step at which the iterations end; it is still taken, which squares it."""
_HELD = 1e-3
"""Standard deviation of unknown numbers while the start is looked for, relative to that of their priors."""
_ROUNDS = 20
_SETTLED, _NEARLY = 1e-5, 1e-3
"""Change of the motion by new weights, relative to it, that ends the rounds, or lets sizes of noise be found; this also
bounds what is left then of the cost."""
_LEFT = 1e-12
"""Relative decrease of the cost by the last step, before which residuals and covariances were computed."""
_AT_ONCE = 3
"""Rounds after which weights, where `enough` is given, follow half of the change of θ: they might go to and fro."""
_PLACINGS = 5
"""Times that samples are placed anew where a delay that was found puts them between other steps."""
_QUICK = {"xla_backend_optimization_level": 0}
"""For a program that runs once: it is compiled in two thirds of the time."""


class SmoothingState(eqx.Module):
    """How far the solution of a problem is: what a round begins with."""

    x: Unknowns
    first: Float[Array, "*recordings nx"]
    """Centre of the prior of the first step …"""
    behind: Float[Array, "*recordings nx"]
    """… and of steps that only fill up."""
    starts: Starts
    """Which of the starts it came from, and what was seen of the others."""
    weighed: Float[Array, " p"]
    """θ with which forces were weighed in the last round, on whose inertia their noise depends."""
    damping: Scalar
    """With which the solver ended, and begins again where `enough` is given."""
    held: Scalar
    """Weight by which steps are held where they are, while θ alone is looked for; 0 for none."""
    search: SizeSearch
    delays: Float[Array, " sensors"]
    """With which the samples are placed [s]."""
    look: Look | None
    """What was seen at x, or one step of the solver before; None before the first round."""
    status: Status
    resize: Bool[Array, ""]
    """Sizes of noise are to be found before the next round."""
    rounds: Int[Array, ""]
    placings: Int[Array, ""]
    iterations: Int[Array, ""]
    history: Float[Array, " most"]
    """Cost after every iteration; nan where there was none."""

    @property
    def done(self) -> Bool[Array, ""]:
        return self.status != Status.running


def _most_rounds(search: SizeSearch) -> int:
    return _ROUNDS + 3 * search.most


def _model_and_data(problem: SmoothingProblem, at: SmoothingState) -> tuple[EstimationModel, StepData]:
    model = problem.model(at.search.logs, at.delays)
    data = problem.data(at.delays, at.first, at.behind, at.x.globals)
    prior = jnp.where(at.held > 0, at.x.steps, data.prior)
    return model, data._replace(prior=prior, prior_weights=data.prior_weights + at.held)


@program
def modelled(
    problem: SmoothingProblem, delays: Float[Array, " sensors"], first: Float[Array, " nx"]
) -> tuple[EstimationModel, StepData]:
    """Model and data with first values of all unknown numbers."""
    return problem.model(problem.sizes.value, delays), problem.data(delays, first, first)


@program
def begun(problem: SmoothingProblem) -> SmoothingState:
    """The first guess: recordings followed step by step from the start that their first samples agree with best."""
    steps, theta, first, starts = problem.each(_guess)
    theta = problem.free.gathered(theta) if problem.several else theta
    at = _at(problem, Unknowns(steps, theta), first, steps[..., -1, :])
    return eqx.tree_at(lambda at: at.starts, at, starts)


def _guess(problem: SmoothingProblem):
    """(steps, θ, first step, what was seen of the starts) of a single recording, as if there were no other."""
    problem = eqx.tree_at(lambda problem: problem.free, problem, problem.free.alone())
    delays, recording = nominal_delays(problem.sensors), problem.recording
    model, candidates = problem.model(problem.sizes.value, delays), problem.starts_on_constraints()
    # A filter that does not look back cannot find how late a command acts.
    model = eqx.tree_at(lambda model: model.recorded, model, ())
    data = problem.data(delays, candidates[0], candidates[0])
    starts, (newest, theta) = _followed_best(model, candidates, data, recording)
    k = jnp.arange(problem.steps)
    there = jnp.all(jnp.isfinite(newest), axis=1) & (k < recording.count)
    # Steps that were lost on the way, and those behind the last one, are the last one before them.
    steps = newest[jax.lax.cummax(jnp.where(there, k, 0))]
    first = candidates[starts.best]
    steps = jnp.where(jnp.isfinite(steps), steps, first)
    theta = jnp.where(jnp.isfinite(theta), theta, model.free.value)
    return steps, theta, first, starts


@one_kernel
def _followed_best(
    model: EstimationModel, starts: Array, data: StepData, recording: RecordingData
) -> tuple[Starts, tuple[Array, Array]]:
    # A calibration that is free to go anywhere makes any start fit.
    known = {
        Stage.posing: _held(model.free),
        Stage.searching: _held(model.free, biases=False),
        Stage.chosen: model.free.sigma,
    }
    calibrations = jnp.stack([known[stage] for stage in Stage])

    def follow_from(x, count, stage):
        seen = follow(model, x, calibrations[stage], data, count)
        end = seen.steps[count - 1][: model.mechanism.n]
        return seen.cost[count - 1], seen.steps[0], end, (seen.steps, seen.theta)

    blank = jnp.zeros((data.times.shape[0], model.step_size)), jnp.zeros_like(model.free.value)
    return best_start(model.mechanism, follow_from, blank, starts, recording.tried, recording.given, recording.count)


def _at(problem: SmoothingProblem, x: Unknowns, first: Array, behind: Array) -> SmoothingState:
    """A first guess."""
    search = SizeSearch.of(problem.sizes)
    return SmoothingState(
        x=x,
        first=first,
        behind=behind,
        starts=_untried(problem.recording),
        weighed=x.globals,
        damping=jnp.zeros((), x.steps.dtype),
        held=jnp.zeros((), x.steps.dtype),
        search=search,
        delays=nominal_delays(problem.sensors),
        look=None,
        status=Status.running,
        resize=jnp.asarray(False),
        rounds=jnp.asarray(0, int),
        placings=jnp.asarray(0, int),
        iterations=jnp.asarray(0, int),
        history=jnp.full(_ITERATIONS * _most_rounds(search) * (1 + _PLACINGS), jnp.nan, float),
    )


@program
def begun_at(
    problem: SmoothingProblem, near: SmoothingState, *, sizes: bool = True, held: Scalar | float = 0.0
) -> SmoothingState:
    """A first guess that lies where another problem of the same recordings ended.

    Args:
        problem: The problem.
        near: The end of the other one.
        sizes: Unknown sizes of noise are to be found.
        held: Weight by which its steps are held.
    """
    at = _at(problem, near.x, near.first, near.behind)
    search = at.search if sizes else at.search.ended()
    held = jnp.asarray(held, at.held.dtype)
    return eqx.tree_at(lambda at: (at.starts, at.search, at.held), at, (near.starts, search, held))


def _untried(recording: RecordingData) -> Starts:
    behind = jnp.full(recording.starts.shape[:-1], jnp.inf, float)
    return Starts(jnp.argmax(recording.tried, axis=-1), behind, recording.starts)


def improved(problem: SmoothingProblem, at: SmoothingState, *, enough: float = 0.0) -> SmoothingState:
    """A round: some iterations with the weights that belong to x.

    Args:
        problem: The problem.
        at: How far it is solved.
        enough: Decrease of the cost with which a round ends, and if its first step is no better the rounds; 0: when the
            motion no longer changes, to rounding.
    """
    return _improved(problem, _blind(at), enough=enough)


def _blind(at: SmoothingState) -> SmoothingState:
    """Without what was seen, from which no round begins: the first one is the same program as the others."""
    return eqx.tree_at(lambda at: at.look, at, None, is_leaf=lambda leaf: leaf is None)


@program
def _improved(problem: SmoothingProblem, at: SmoothingState, *, enough: float = 0.0) -> SmoothingState:
    model, data = _model_and_data(problem, at)
    tol = 0.0 if enough else _STEP
    solver = LevenbergMarquardt(linear="sqrt", maxiter=_ITERATIONS, tol=tol, enough=enough, damps_steps=not enough)
    weighed = at.x.globals
    if enough:
        weighed = jnp.where(at.rounds < _AT_ONCE, weighed, (at.weighed + weighed) / 2)
    x, state = solver.run(at.x, model.graph(at.x._replace(globals=weighed), data), at.damping if enough else None)
    change, left = _distance(x, at.x), state.predicted
    history = jax.lax.dynamic_update_slice(at.history, state.history, (at.iterations,))
    converged = state.status == Status.converged
    arrived = (change < _SETTLED) & (left < _LEFT * (1 + state.look.cost))
    if enough:
        arrived = state.iter_num == 1
    near = arrived | ((at.search.probe < 0) & (bool(enough) | (jnp.maximum(change, left) < _NEARLY)))
    resize = converged & ~at.search.settled & near
    finished = converged & at.search.settled & arrived
    # Samples of a sensor whose delay is unknown may belong to other intervals than those in which they were placed.
    late = nominal_delays(model.reading(x.globals).sensors)
    misplaced = jnp.any(jnp.abs(late - at.delays) > jnp.min(problem.recording.dt) / 2) & (at.placings < _PLACINGS)
    again = finished & misplaced
    rounds = jnp.where(again, 0, at.rounds + 1)
    goes_on = converged | ((state.status == Status.iteration_limit) & (at.rounds < _ROUNDS))
    exhausted = rounds >= _most_rounds(at.search)
    status = Status.where(goes_on & ~(finished & ~again), Status.running, state.status)
    status = Status.where(goes_on & ~finished & exhausted, Status.iteration_limit, status)
    return SmoothingState(
        x=x,
        first=at.first,
        behind=at.behind,
        starts=at.starts,
        weighed=weighed,
        damping=state.damping,
        held=at.held,
        search=at.search,
        delays=jnp.where(again, late, at.delays),
        look=state.look,
        status=status,
        resize=resize,
        rounds=rounds,
        placings=at.placings + again,
        iterations=at.iterations + state.iter_num,
        history=history,
    )


@program
def surveyed(problem: SmoothingProblem, at: SmoothingState) -> Survey:
    """The survey of an estimate."""
    model, data = _model_and_data(problem, at)
    graph = model.graph(at.x, data)
    return survey(graph, at.x, graph.look(at.x) if at.look is None else at.look)


@program
def volume_slope(
    problem: SmoothingProblem, at: SmoothingState, since: Int[Array, ""]
) -> tuple[SmoothingState, Float[Array, " p"]]:
    """(the estimate as the problem sees it, what the likelihood of θ has besides its cost; see `slope_of_volume`).

    Args:
        problem: The problem.
        at: Its estimate, or that of the problem with other priors.
        since: The number of the first iteration with other priors; it and those after it are told to cost what the end
            does.
    """
    model, data = _model_and_data(problem, at)
    graph = model.graph(at.x, data)
    look = graph.look(at.x)
    k = jnp.arange(at.history.shape[0])
    history = jnp.where((k >= since) & (k < at.iterations), look.cost, at.history)
    return eqx.tree_at(lambda at: (at.look, at.history), at, (look, history)), slope_of_volume(graph, at.x, look.system)


def resumed(at: SmoothingState) -> SmoothingState:
    """An estimate that goes on from where it ended, its sizes of noise staying as they are."""
    where = lambda at: (at.status, at.rounds, at.weighed)
    return eqx.tree_at(where, at, (Status.running, jnp.zeros_like(at.rounds), at.x.globals))


@program
def resized(problem: SmoothingProblem, at: SmoothingState, seen: Survey) -> SmoothingState:
    """The estimate with better sizes of noise, for the next round."""
    chi2, dof, order = _of_sizes(problem, seen)
    search = at.search.update(problem.sizes, chi2, dof, order)
    return eqx.tree_at(lambda at: (at.search, at.resize), at, (search, jnp.asarray(False)))


def _of_sizes(problem: SmoothingProblem, seen: Survey) -> tuple[Array, Array, np.ndarray]:
    """(χ², its expectation, with which power of the size it falls) for every unknown size."""
    moves, _, *read = seen.factors[: SENSORS + len(problem.sensors)]
    found = {}
    for sensor, rows, passed in zip(problem.sensors, read, problem.passed, strict=True):
        # The variance of a residual is that of the reading, that of rounding, and what the stamps add to both.
        rest = rows.scale.reshape(*rows.scale.shape[:-1], -1, sensor.rows) ** 2
        own = known(sensor.sigma) ** 2 / sensor.noise_sigma() ** 2
        for key, share in (("sigma", rest * own), ("time_sigma", 1 - rest)):
            chi2, dof = totals(rows, sensor.rows, share.reshape(rows.scale.shape))
            found[f"{sensor.name}.{key}"] = chi2 / passed, dof, 2.0
    dof, memory = problem.chart.dof, augmented(problem.inputs)
    for force in problem.inputs:
        if isinstance(force, Disturbance | WhiteNoise):
            white = FactorRows(*(leaf[..., : 2 * dof] for leaf in moves))
            found[f"{force.name}.{force.size_key}"] = (
                *totals(white, 2 * dof),
                1.0 if isinstance(force, Disturbance) else 2.0,
            )
    for k, force in enumerate(memory):
        found[f"{force.name}.{force.size_key}"] = (
            *totals(FactorRows(*(leaf[..., 2 * dof + k, None] for leaf in moves)), 1),
            2.0,
        )
    chi2, expected, order = [jnp.zeros(0)], [jnp.zeros(0)], [np.zeros(0)]
    for place in problem.sizes.places:
        *sums, power = found[place.name]
        for parts, one in zip((chi2, expected), sums, strict=True):
            parts.append(one if place.shape else jnp.sum(one)[None])
        order.append(np.full(place.size, power))
    return jnp.concatenate(chi2), jnp.concatenate(expected), np.concatenate(order)


class Solution(eqx.Module):
    """What `solve` finds of a `SmoothingProblem`, as arrays; `finish` puts it into words."""

    x: Unknowns
    """(q, dq, u) of every step, and θ."""
    sizes: Float[Array, " k"]
    """Logarithms of the unknown sizes of noise …"""
    sizes_covariance: Float[Array, "k k"]
    """… and their covariance."""
    survey: Survey
    derived: Derived
    data: StepData
    """What was recorded, as it was used in the end."""
    at: SmoothingState
    """Where the iteration ended."""
    step_status: Status | None = None
    """Of every step, where they were solved one by one."""
    log_likelihoods: Float[Array, "recordings candidates"] | None = None
    """Of the starts of each recording that were solved, where several were compared; else NaN."""

    @property
    def status(self) -> Status:
        return self.at.status


@solve.register(SmoothingProblem)
def _solve(problem: SmoothingProblem) -> Solution:
    # Derivatives are those of the minimum and of the sizes of noise that are found, by the implicit function theorem.
    at = _solved(problem)
    return concluded(problem, at, surveyed(problem, at))


@program
def concluded(problem: SmoothingProblem, at: SmoothingState, seen: Survey) -> Solution:
    """The solution, with everything that follows from it."""
    model, data = _model_and_data(problem, at)
    values = derived(model, at.x, data, model.covariances(seen.marginals))
    return Solution(at.x, at.search.logs, at.search.covariance(), seen, values, data, _blind(at))


@program(**_QUICK)
def tested(problem: SmoothingProblem, at: SmoothingState) -> Scores:
    """The score tests of the numbers that an estimate takes as known."""
    model, data = _model_and_data(problem, at)
    return scores(model, at.x, data)


def lowered_rounds(problem: SmoothingProblem, *, enough: float = 0.0) -> Iterator[Callable[[], Any]]:
    """The programs that follow the first guess, in the order in which they will be needed; see `improved`."""
    first = begun.like(problem)
    yield _improved.ahead(problem, first, enough=enough)
    after = _improved.like(problem, first, enough=enough)
    yield surveyed.ahead(problem, after)
    yield concluded.ahead(problem, after, surveyed.like(problem, after))


@program
def followed(problem: SmoothingProblem, first: Float[Array, " nx"], x: Unknowns, covariance: Array) -> Solution:
    """The solution of steps that were found in another way, with these covariances of their local coordinates."""
    at = _at(problem, x, first, x.steps[-1])
    model, data = _model_and_data(problem, at)
    graph = model.graph(x, data)
    seen = survey(graph, x, graph.look(x))._replace(log_likelihood=jnp.full((), jnp.nan))
    values = derived(model, x, data, covariance)
    return Solution(x, at.search.logs, at.search.covariance(), seen, values, data, at)


@eqx.filter_custom_jvp
def _solved(problem: SmoothingProblem) -> SmoothingState:
    def resize(at):
        return resized(problem, at, surveyed(problem, at))

    def advance(at):
        at = improved(problem, at)
        return jax.lax.cond(at.resize, resize, lambda at: at, at) if problem.sizes.size else at

    at = begun(problem)
    at = eqx.tree_at(lambda at: at.look, at, like(improved, problem, at).look, is_leaf=lambda leaf: leaf is None)
    return jax.lax.while_loop(lambda at: ~at.done, advance, at)


@_solved.def_jvp
def _solved_jvp(primals, tangents):
    # The motion is the minimum of a cost whose noise is that near it, and at the sizes of noise the likelihood has no
    # slope: both hold for neighbouring problems, too.
    (problem,), (t_problem,) = primals, tangents
    at = _solved(problem)

    def motion(problem, logs):
        starts = problem.starts_on_constraints()
        first = (
            jax.vmap(lambda own, best: own[best])(starts, at.starts.best) if problem.several else starts[at.starts.best]
        )
        near = eqx.tree_at(lambda at: (at.search, at.first), at, (at.search._replace(logs=logs), first))
        model, data = _model_and_data(problem, near)
        x = settled(at.x, model, data)
        graph = model.graph(x, data)
        return (x, graph.look(x), first), graph

    def slopes(problem, logs):
        (x, look, _), graph = motion(problem, logs)
        return slope(problem.sizes, logs, *_of_sizes(problem, survey(graph, x, look)))

    logs = at.search.logs
    t_logs = jnp.zeros_like(logs)
    if problem.sizes.size:
        held = at.search.held(problem.sizes)
        bend = jax.jacfwd(lambda logs: slopes(problem, logs))(logs)
        _, t_slopes = eqx.filter_jvp(lambda problem: slopes(problem, logs), (problem,), (t_problem,))
        bend = jnp.where(held[:, None], jnp.eye(held.size), bend)
        t_logs = -jnp.linalg.solve(bend, jnp.where(held, 0.0, t_slopes))
    of_motion = lambda problem, logs: motion(problem, logs)[0]
    _, (t_x, t_look, t_first) = eqx.filter_jvp(of_motion, (problem, logs), (t_problem, t_logs))
    nothing = jax.tree.map(lambda leaf: None, at)
    t_search = nothing.search._replace(logs=t_logs)
    t_at = eqx.tree_at(_moving, nothing, (t_x, t_look, t_first, t_search), is_leaf=lambda leaf: leaf is None)
    return at, t_at


def _moving(at: SmoothingState):
    return at.x, at.look, at.first, at.search


def _held(free: Free, *, biases: bool = True) -> Float[Array, " p"]:
    """Standard deviations of the priors of θ, by which all numbers are held at what is expected of them, biases or
    not."""
    held = [np.full(place.size, biases or not place.name.endswith(".bias")) for place in free.places]
    size = jnp.where(free.logs | (free.value == 0), 1.0, jnp.abs(free.value))
    sigma = jnp.where(jnp.isfinite(free.sigma), free.sigma, size)
    return jnp.where(np.concatenate([np.zeros(0, bool), *held]), _HELD * sigma, free.sigma)


def _distance(x: Unknowns, y: Unknowns) -> Scalar:
    """Largest change of a variable, relative to its largest value."""
    scale = jnp.max(jnp.abs(y.steps), axis=tuple(range(y.steps.ndim - 1))) + 1e-12
    return jnp.max(jnp.abs(x.steps - y.steps) / scale)
