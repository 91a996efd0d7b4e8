"""Where the solution of an estimation problem begins: the first guess, and all that a round goes on from."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fgmbs.compiled.one_kernel import one_kernel
from fgmbs.compiled.program import ONCE, program
from fgmbs.graph.time_graph import Look, Unknowns
from fgmbs.losses import Led, ignores_samples
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.first_state import FIRST_STEPS, Stage, Starts, best_start
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.problems.estimation.noise_sizes import SizeSearch
from fgmbs.problems.smooth.guesses.following import follow
from fgmbs.problems.smooth.problem import RecordingData, SmoothingProblem
from fgmbs.status import Status
from fgmbs.typing import Scalar
from fgmbs.unknowns import Free

ITERATIONS = 10
"""Of Levenberg–Marquardt in a round: between two looks at the keyboard."""
ROUNDS = 20
PLACINGS = 5
"""Times that samples are placed anew where a delay that was found puts them between other steps."""
_HELD = 1e-3
"""Standard deviation of unknown numbers while the start is looked for, relative to that of their priors."""


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
    """With which the solver ended, and begins again."""
    held: Scalar
    """Weight by which steps are held where they are, while θ alone is looked for; 0 for none."""
    far: Bool[Array, ""]
    """The solution of a problem on the way: no sample is ignored yet, see `Led`."""
    search: SizeSearch
    delays: Float[Array, " sensors"]
    """With which the samples are placed [s]."""
    look: Look | None
    """What was seen at x, or one step of the solver before; None before the first round."""
    status: Status
    resize: Bool[Array, ""]
    """Sizes of noise are to be found before the next round."""
    rounds: Int[Array, ""]
    waited: Int[Array, ""]
    """Rounds since the sizes of noise are what they are."""
    placings: Int[Array, ""]
    iterations: Int[Array, ""]
    history: Float[Array, " most"]
    """Cost after every iteration; nan where there was none."""

    @property
    def done(self) -> Bool[Array, ""]:
        return self.status != Status.running


def most_rounds(search: SizeSearch) -> int:
    return ROUNDS + 3 * search.most


def model_and_data(problem: SmoothingProblem, at: SmoothingState) -> tuple[EstimationModel, StepData]:
    model = _led(problem.model(at.search.logs, at.delays), at.far)
    data = problem.data(at.delays, at.first, at.behind, at.x.globals)
    prior = jnp.where(at.held > 0, at.x.steps, data.prior)
    return model, data._replace(prior=prior, prior_weights=data.prior_weights + at.held)


def _led(model: EstimationModel, far: Bool[Array, ""] | bool) -> EstimationModel:
    """The model, whose losses ignore no sample while it is far from a solution."""
    losses = {k: sensor.loss for k, sensor in enumerate(model.sensors) if ignores_samples(sensor.loss)}
    if not losses:
        return model
    where = lambda model: [model.sensors[k].channel.loss for k in losses]
    return eqx.tree_at(where, model, [Led(loss, jnp.asarray(far)) for loss in losses.values()])


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
    at = at_first(problem, Unknowns(steps, theta), first, steps[..., -1, :])
    return eqx.tree_at(lambda at: at.starts, at, starts)


begun_once = program(**ONCE)(begun.function)
"""The same, compiled in a third to a half of the time, and found in three to seven times the time: where much else is
computed."""


def _guess(problem: SmoothingProblem):
    """(steps, θ, first step, what was seen of the starts) of a single recording, as if there were no other."""
    problem = eqx.tree_at(lambda problem: problem.free, problem, problem.free.alone())
    delays, recording = nominal_delays(problem.sensors), problem.recording
    model, candidates = _led(problem.model(problem.sizes.value, delays), True), problem.starts_on_constraints()
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
    # One sample does not tell how fast a motion is: it need not go farther than it can in the steps that decide.
    slow = FIRST_STEPS * model.dt / jnp.max(model.mechanism.reach)
    first, dof = data.prior_weights[0], model.chart.dof
    posing = first.at[dof : 2 * dof].max(slow)
    # Accelerations at one instant could be those of any pose and speed; they pose a start where nothing else does.
    unposed = [sensor.order > 1 for sensor in model.sensors]
    unposed = [one and not all(unposed) for one in unposed]

    def follow_from(x, count, stage):
        is_posing = stage == Stage.posing
        samples = tuple(
            part._replace(mask=jnp.where(is_posing, 0.0, part.mask)) if left_out else part
            for part, left_out in zip(data.samples, unposed, strict=True)
        )
        weights = data.prior_weights.at[0].set(jnp.where(is_posing, posing, first))
        given = data._replace(prior_weights=weights, samples=samples)
        seen = follow(model, x, calibrations[stage], given, count)
        end = seen.steps[count - 1][: model.mechanism.n]
        return seen.cost[count - 1], seen.steps[0], end, (seen.steps, seen.theta)

    blank = jnp.zeros((data.times.shape[0], model.step_size)), jnp.zeros_like(model.free.value)
    which = recording.tried, recording.given, recording.through, recording.count
    return best_start(model.mechanism, follow_from, blank, starts, *which)


def at_first(problem: SmoothingProblem, x: Unknowns, first: Array, behind: Array) -> SmoothingState:
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
        far=jnp.asarray(False),
        search=search,
        delays=nominal_delays(problem.sensors),
        look=None,
        status=Status.running,
        resize=jnp.asarray(False),
        rounds=jnp.asarray(0, int),
        waited=jnp.asarray(0, int),
        placings=jnp.asarray(0, int),
        iterations=jnp.asarray(0, int),
        history=jnp.full(ITERATIONS * most_rounds(search) * (1 + PLACINGS), jnp.nan, float),
    )


@program
def begun_at(
    problem: SmoothingProblem, near: SmoothingState, *, sizes: bool = True, held: Scalar | float = 0.0
) -> SmoothingState:
    """A first guess that lies where another problem of the same recordings ended.

    Args:
        problem: The problem.
        near: The end of the other one.
        sizes: Unknown sizes of noise are to be found. Otherwise it is a problem on the way to another.
        held: Weight by which its steps are held.
    """
    at = at_first(problem, near.x, near.first, near.behind)
    search = at.search if sizes else at.search.ended()
    held = jnp.asarray(held, at.held.dtype)
    new = near.starts, search, held, jnp.asarray(not sizes)
    return eqx.tree_at(lambda at: (at.starts, at.search, at.held, at.far), at, new)


def _untried(recording: RecordingData) -> Starts:
    behind = jnp.full(recording.starts.shape[:-1], jnp.inf, float)
    return Starts(jnp.argmax(recording.tried, axis=-1), behind, recording.starts)


def _held(free: Free, *, biases: bool = True) -> Float[Array, " p"]:
    """Standard deviations of the priors of θ, by which all numbers are held at what is expected of them, biases or
    not."""
    held = [np.full(place.size, biases or not place.name.endswith(".bias")) for place in free.places]
    size = jnp.where(free.logs | (free.value == 0), 1.0, jnp.abs(free.value))
    sigma = jnp.where(jnp.isfinite(free.sigma), free.sigma, size)
    return jnp.where(np.concatenate([np.zeros(0, bool), *held]), _HELD * sigma, free.sigma)
