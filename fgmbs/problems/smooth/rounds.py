"""State estimation as a pure function of arrays: a problem in, an estimate out."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from fgmbs.compiled.ahead import like
from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import while_loop
from fgmbs.graph.time_graph import Look, Unknowns
from fgmbs.inputs import Disturbance, augmented, remembered, white
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.graph import SENSORS, StepData
from fgmbs.problems.estimation.likelihood import settled, slope_of_volume
from fgmbs.problems.estimation.memory import memory_told
from fgmbs.problems.estimation.noise_sizes import SizeSearch, Told, slope, with_sizes
from fgmbs.problems.estimation.posterior import Derived, FactorRows, Survey, derived, survey, totals
from fgmbs.problems.estimation.score_tests import Scores, scores
from fgmbs.problems.smooth.beginning import (
    ITERATIONS,
    PLACINGS,
    ROUNDS,
    SmoothingState,
    at_first,
    begun,
    model_and_data,
    most_rounds,
)
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.solving import solve
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status
from fgmbs.typing import Scalar
from fgmbs.unknowns import known

_STEP = 1e-4
"""Relative step at which the iterations end; it is still taken, which squares it."""
_SETTLED, _NEARLY = 1e-5, 1e-3
"""Change of the motion by new weights, relative to it, that ends the rounds, or lets sizes of noise be found; this also
bounds what is left then of the cost."""
_PATIENT, _TREMBLES, _STANDS = 4, 5e-3, 1e-4
"""Rounds with the same sizes of noise, after which a motion has arrived that still moves to and fro, at kinks of dry
friction; the decrease of the cost that its steps promise then, by a tenth of a standard deviation, and what comes of it
in a round."""
_LEFT = 1e-12
"""Relative decrease of the cost by the last step, before which residuals and covariances were computed."""
_HELD = 1e-6
"""Promised decrease of the cost, as a share of it, that ends a round while the motion is held: it is a guess."""
_AT_ONCE = 3
"""Rounds after which weights, where `enough` is given, follow half of the change of θ: they might go to and fro."""


def improved(problem: SmoothingProblem, at: SmoothingState, *, enough: float = 0.0) -> SmoothingState:
    """A round: some iterations with the weights that belong to x.

    Args:
        problem: The problem.
        at: How far it is solved.
        enough: Decrease of the cost with which a round ends, and if its first step is no better the rounds; 0: when the
            motion no longer changes, to rounding.
    """
    return _improved(problem, _blind(at), at.x, np.asarray(ITERATIONS), enough=enough)


def looked(problem: SmoothingProblem, at: SmoothingState, x: Unknowns, *, enough: float = 0.0) -> Look:
    """What is seen at x with the weights of an estimate: by the program of a round, which would begin there.

    Args:
        problem: The problem.
        at: Its estimate.
        x: Where to look.
        enough: As of `improved`.
    """
    weighed = eqx.tree_at(lambda at: at.rounds, _blind(at), jnp.zeros_like(at.rounds))
    return _improved(problem, weighed, x, np.asarray(1), enough=enough).look


def _blind(at: SmoothingState) -> SmoothingState:
    """Without what was seen, from which no round begins: the first one is the same program as the others."""
    return eqx.tree_at(lambda at: at.look, at, None, is_leaf=lambda leaf: leaf is None)


@program
def _improved(
    problem: SmoothingProblem, at: SmoothingState, x: Unknowns, most: Int[ArrayLike, ""], *, enough: float = 0.0
) -> SmoothingState:
    """At most so many iterations from x, with the weights that belong to the estimate."""
    model, data = model_and_data(problem, at)
    tol = 0.0 if enough else _STEP
    share = jnp.where(at.held > 0, _HELD, 0.0)
    options = dict(tol=tol, enough=enough, share=share, damps_steps=not enough)
    solver = LevenbergMarquardt(linear="sqrt", maxiter=ITERATIONS, **options)
    weighed = at.x.globals
    if enough:
        weighed = jnp.where(at.rounds < _AT_ONCE, weighed, (at.weighed + weighed) / 2)
    x, state = solver.run(x, model.graph(at.x._replace(globals=weighed), data), at.damping, most)
    change, left = _distance(x, at.x), state.predicted
    history = jax.lax.dynamic_update_slice(at.history, state.history, (at.iterations,))
    converged = state.status == Status.converged
    arrived = (change < _SETTLED) & (left < _LEFT * (1 + state.look.cost))
    fell = at.history[at.iterations - 1] - state.look.cost
    arrived |= (at.waited >= _PATIENT) & (change < _NEARLY) & (left < _TREMBLES) & (fell < _STANDS)
    if enough:
        arrived = state.iter_num == 1
    near = arrived | ((at.search.probe < 0) & (bool(enough) | (jnp.maximum(change, left) < _NEARLY)))
    resize = converged & ~at.search.settled & near
    finished = converged & at.search.settled & arrived
    # Samples of a sensor whose delay is unknown may belong to other intervals than those in which they were placed.
    late = nominal_delays(model.reading(x.globals).sensors)
    misplaced = jnp.any(jnp.abs(late - at.delays) > jnp.min(problem.recording.dt) / 2) & (at.placings < PLACINGS)
    again = finished & misplaced
    rounds = jnp.where(again, 0, at.rounds + 1)
    goes_on = converged | ((state.status == Status.iteration_limit) & (at.rounds < ROUNDS))
    exhausted = rounds >= most_rounds(at.search)
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
        far=at.far,
        search=at.search,
        delays=jnp.where(again, late, at.delays),
        look=state.look,
        status=status,
        resize=resize,
        rounds=rounds,
        waited=at.waited + 1,
        placings=at.placings + again,
        iterations=at.iterations + state.iter_num,
        history=history,
    )


@program
def surveyed(problem: SmoothingProblem, at: SmoothingState) -> Survey:
    """The survey of an estimate."""
    model, data = model_and_data(problem, at)
    graph = model.graph(at.x, data)
    return survey(graph, at.x, graph.look(at.x) if at.look is None else at.look)


def volume_slope(
    problem: SmoothingProblem, at: SmoothingState, since: int, *, enough: float = 0.0
) -> tuple[SmoothingState, Float[np.ndarray, " p"]]:
    """(the estimate as the problem sees it, the slope by θ of what their likelihood has besides the cost).

    Args:
        problem: The problem.
        at: Its estimate, or that of the problem with other priors.
        since: As of `seen_by`.
        enough: As of `improved`.
    """
    at = seen_by(problem, at, since, enough=enough)
    return at, np.asarray(_volume_slope(problem, at))


def seen_by(problem: SmoothingProblem, at: SmoothingState, since: int, *, enough: float = 0.0) -> SmoothingState:
    """An estimate of the problem with other priors or sizes, as the problem sees it.

    Args:
        problem: The problem.
        at: Its estimate, or that of the problem with other priors or sizes.
        since: The number of the first iteration with other priors; it and those after it are told to cost what the end
            does.
        enough: As of `improved`.
    """
    look, history = looked(problem, at, at.x, enough=enough), np.array(at.history)
    history[since : int(at.iterations)] = look.cost
    where = lambda at: (at.look, at.history)
    return eqx.tree_at(where, at, (look, jnp.asarray(history)), is_leaf=lambda leaf: leaf is None)


@program(**ONCE)
def _volume_slope(problem: SmoothingProblem, at: SmoothingState) -> Float[Array, " p"]:
    model, data = model_and_data(problem, at)
    return slope_of_volume(model.graph(at.x, data), at.x, at.look)


def resumed(at: SmoothingState) -> SmoothingState:
    """An estimate that goes on from where it ended, its sizes of noise staying as they are."""
    where = lambda at: (at.status, at.rounds, at.weighed)
    return eqx.tree_at(where, at, (Status.running, jnp.zeros_like(at.rounds), at.x.globals))


def resizing(problem: SmoothingProblem, at: SmoothingState, rough: Bool[ArrayLike, ""]) -> SmoothingState:
    """The same, whose sizes of noise are found again from what they are, roughly or not."""
    search = SizeSearch.of(problem.sizes)._replace(logs=at.search.logs, rough=jnp.asarray(rough, bool))
    return eqx.tree_at(lambda at: at.search, resumed(at), search)


@program
def resized(problem: SmoothingProblem, at: SmoothingState, seen: Survey) -> SmoothingState:
    """The estimate with better sizes of noise, for the next round."""
    search = at.search.update(problem.sizes, _told(problem, seen, at.x.steps, at.search.logs))
    where = lambda at: (at.search, at.resize, at.waited)
    return eqx.tree_at(where, at, (search, jnp.asarray(False), jnp.zeros_like(at.waited)))


def _told(problem: SmoothingProblem, seen: Survey, steps: Float[Array, "*steps nx"], logs: Float[Array, " k"]) -> Told:
    """What an estimate with these logarithms of sizes says of every unknown size."""
    moves, start, *read = seen.factors[: SENSORS + len(problem.sensors)]
    found = {}
    for sensor, rows, passed in zip(problem.sensors, read, problem.passed, strict=True):
        # The variance of a residual is that of the reading, that of rounding, and what the stamps add to both.
        rest = rows.scale.reshape(*rows.scale.shape[:-1], -1, sensor.rows) ** 2
        own = known(sensor.sigma) ** 2 / sensor.noise_sigma() ** 2
        for key, share in (("sigma", rest * own), ("time_sigma", 1 - rest)):
            chi2, dof = totals(rows, sensor.rows, share.reshape(rows.scale.shape))
            found[f"{sensor.name}.{key}"] = chi2 / passed, dof, 2.0
    dof, named, alike = problem.chart.dof, augmented(problem.inputs), white(problem.inputs)
    motion = FactorRows(*(leaf[..., : 2 * dof] for leaf in moves))
    for force in alike:
        order = 1.0 if isinstance(force, Disturbance) else 2.0
        found[f"{force.name}.{force.size_key}"] = *totals(motion, 2 * dof), order
    for k, force in enumerate(named):
        found[f"{force.name}.{force.size_key}"] = (
            *totals(FactorRows(*(leaf[..., 2 * dof + k, None] for leaf in moves)), 1),
            2.0,
        )
    sizes, along = problem.sizes, jnp.eye(problem.sizes.size)
    everywhere = remembered(with_sizes(problem.sensors, problem.inputs, sizes.named(sizes.values(logs)))[1])
    if everywhere is not None:
        rows = [FactorRows(*(leaf[..., -dof:] for leaf in part)) for part in (moves, start)]
        alone = None if alike or named else motion
        power, time = (f"{everywhere.name}.{key}" for key in everywhere.sizes)
        w, variance = steps[..., -dof:], seen.marginals.steps[..., -dof:, -dof:]
        dt, sized = problem.recording.dt, power not in sizes.names
        told, bend = memory_told(everywhere, (*rows, alone), w, variance, dt, sized=sized)
        found |= told
        if {power, time} <= set(sizes.names):
            along = along.at[sizes.number_names.index(power), sizes.number_names.index(time)].set(bend)
    chi2, expected, order = [jnp.zeros(0)], [jnp.zeros(0)], [np.zeros(0)]
    for place in problem.sizes.places:
        *sums, power = found[place.name]
        for parts, one in zip((chi2, expected), sums, strict=True):
            parts.append(one if place.shape else jnp.sum(one)[None])
        order.append(np.full(place.size, power))
    return Told(jnp.concatenate(chi2), jnp.concatenate(expected), np.concatenate(order), along)


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


@program(**ONCE)
def concluded(problem: SmoothingProblem, at: SmoothingState, seen: Survey) -> Solution:
    """The solution, with everything that follows from it."""
    model, data = model_and_data(problem, at)
    values = derived(model, at.x, data, model.covariances(seen.marginals))
    return Solution(at.x, at.search.logs, at.search.covariance(), seen, values, data, _blind(at))


@program(**ONCE)
def tested(problem: SmoothingProblem, at: SmoothingState) -> Scores:
    """The score tests of the numbers that an estimate takes as known."""
    model, data = model_and_data(problem, at)
    return scores(model, at.x, data)


def lowered_rounds(
    problem: SmoothingProblem, first: SmoothingState, *, enough: float = 0.0, volume: bool = False, ends: bool = True
) -> Iterator[Callable[[], Any]]:
    """The programs that follow the first guess, in the order in which they will be needed; see `improved`.

    Args:
        problem: The problem.
        first: Any first guess.
        enough: As of `improved`.
        volume: `volume_slope` will be needed, too.
        ends: The solution is what is looked for, so that `concluded` will be needed.
    """
    most = np.asarray(ITERATIONS)
    yield _improved.ahead(problem, first, first.x, most, enough=enough)
    after = _improved.like(problem, first, first.x, most, enough=enough)
    yield surveyed.ahead(problem, after)
    if volume:
        yield _volume_slope.ahead(problem, after)
    if ends:
        yield concluded.ahead(problem, after, surveyed.like(problem, after))


@program(**ONCE)
def followed(problem: SmoothingProblem, first: Float[Array, " nx"], x: Unknowns, covariance: Array) -> Solution:
    """The solution of steps that were found in another way, with these covariances of their local coordinates."""
    at = at_first(problem, x, first, x.steps[-1])
    model, data = model_and_data(problem, at)
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
    return while_loop(lambda at: ~at.done, advance, at)


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
        model, data = model_and_data(problem, near)
        x = settled(at.x, model, data)
        graph = model.graph(x, data)
        return (x, graph.look(x), first), graph

    def slopes(problem, logs):
        (x, look, _), graph = motion(problem, logs)
        return slope(problem.sizes, logs, _told(problem, survey(graph, x, look), x.steps, logs))

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


def _distance(x: Unknowns, y: Unknowns) -> Scalar:
    """Largest change of a variable, relative to its largest value."""
    scale = jnp.max(jnp.abs(y.steps), axis=tuple(range(y.steps.ndim - 1))) + 1e-12
    return jnp.max(jnp.abs(x.steps - y.steps) / scale)
