"""A motion found from its beginning on: its first steps are solved, some more are foreseen and solved with them."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from fgmbs.compiled.one_kernel import one_kernel
from fgmbs.compiled.program import program
from fgmbs.graph.time_graph import Unknowns
from fgmbs.problems.estimation.first_state import DECIDED, FIRST_STEPS
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.problems.smooth.beginning import SmoothingState, begun, begun_at, model_and_data
from fgmbs.problems.smooth.guesses.following import foreseen
from fgmbs.problems.smooth.iteration import POOR, to_the_end
from fgmbs.problems.smooth.problem import SmoothingProblem

_MORE, _LEAST = 8, 3
"""Steps that are taken in together, after the first ones, and at least."""
_ROUNDS = 2
"""Rounds of every solution on the way."""


def grown(problem: SmoothingProblem) -> SmoothingState:
    """A first guess where a filter, which does not look back, loses the motion: at every time all that was read until
    then is explained, and as many more steps are taken in as are explained from there.

    Where none are, the rest is the motion that the mechanism makes by itself.
    """
    counts = np.asarray(problem.recording.count)
    at, done, more, total = None, 0, FIRST_STEPS, int(np.max(counts))
    while done < total and more >= _LEAST:
        until = min(done + more, total)
        part = _until(problem, counts, until)
        guess = begun(part) if at is None else _foreseen_to(part, at, np.asarray(done))
        *_, new = itertools.islice(to_the_end(part, begun_at(part, guess, sizes=False)), _ROUNDS)
        before = 0.0 if at is None else float(at.look.cost)
        read = problem.readings(until) - problem.readings(done)
        if float(new.look.cost) < before + POOR * read + DECIDED:
            more = _MORE if at is None else 2 * more
            at, done = new, until
        else:
            more = (until - done) // 2
    if at is None:
        return begun(problem)
    return at if done == total else _foreseen_to(problem, at, np.asarray(done))


def _until(problem: SmoothingProblem, counts: np.ndarray, until: int) -> SmoothingProblem:
    """The problem of the first steps alone."""
    return problem.of(problem.recording._replace(count=jax.device_put(np.minimum(counts, until))))


@program
def _foreseen_to(problem: SmoothingProblem, at: SmoothingState, done: Int[Array, ""]) -> SmoothingState:
    """A first guess of all steps of a problem, of an estimate of those that are done."""
    model, data = model_and_data(problem, at)
    counts = problem.recording.count

    def of_one(model, steps, data, done, count):
        return _goes_on(model.at(at.x.globals), steps, data, done, count)

    steps = model.each(of_one, at.x.steps, data, jnp.minimum(done, counts), counts)
    where = lambda at: (at.x, at.behind)
    return eqx.tree_at(where, at, (Unknowns(steps, at.x.globals), steps[..., -1, :]))


@one_kernel
def _goes_on(
    model: EstimationModel, steps: Array, data: StepData, done: Int[Array, ""], count: Int[Array, ""]
) -> Array:
    """The steps behind the last one that is done as forces without noise make them; those behind `count` stand."""
    zero = jnp.zeros(model.local_size)

    def advance(k, steps):
        before, t = steps[k - 1], data.times[k]
        x = model.chart.move(model.mechanism, foreseen(model, before, t - model.dt, data.commands[k]), zero, t)
        return steps.at[k].set(jnp.where((k < count) & jnp.all(jnp.isfinite(x)), x, before))

    return jax.lax.fori_loop(done, steps.shape[0], advance, steps)
