"""How an estimate is made: the problem of its arguments, a first guess, the solution, what follows from it."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.dynamics.transitions import TRANSITIONS
from fgmbs.errors import ArgumentError, Status
from fgmbs.graph import Look, Unknowns, of_mechanism, rebuilt
from fgmbs.inputs import commands as commands_of
from fgmbs.problems import estimation_account as accounts
from fgmbs.problems import estimation_data as grids
from fgmbs.problems.estimation_arguments import (
    Start,
    checked_inputs,
    checked_sensors,
    chosen_coordinates,
    nominal_delays,
)
from fgmbs.problems.estimation_graph import EstimationModel, StepData
from fgmbs.problems.estimation_unknowns import freed_model
from fgmbs.problems.first_state import best_start, candidate_poses
from fgmbs.problems.noise_sizes import Search, to_be_found, with_first_sizes
from fgmbs.problems.online import OnlineEstimate, OnlineEstimator
from fgmbs.problems.simulation import worst
from fgmbs.problems.smoothed_motion import Branch, SmoothedMotion
from fgmbs.problems.window import begin, follow
from fgmbs.recordings.recording import Recording
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.unknowns import Place

_ITERATIONS = 10
"""Of Levenberg–Marquardt between two looks at the keyboard."""
_STEP = 1e-4
"""Relative step at which the iterations end; it is still taken, which squares it."""
_GUESS = 0.1
"""Relative step that a first guess of the motion does not care to look at again."""
_HELD = 1e-3
"""Standard deviation of unknown numbers while the start is looked for, relative to that of their priors."""
_ROUNDS = 20
_SETTLED, _NEARLY = 1e-5, 1e-3
"""Change of the motion by new weights, relative to it, that ends the rounds, or lets sizes of noise be found; this also
bounds what is left then of the cost."""
_LEFT = 1e-12
"""Relative decrease of the cost by the last step, before which residuals and covariances were computed."""
PLACINGS = 5
"""Times that samples are placed anew where a delay that was found puts them between other steps."""
_TOLD = 100
"""Steps of a fixed-lag smoother between two reports of its progress."""
_SEARCHES = 40
"""Rounds in which sizes of noise are found."""


Progress: TypeAlias = Callable[[str, int, float], None]
"""Called with (what is being done, round, cost)."""


class Problem(NamedTuple):
    """What is solved."""

    model: EstimationModel
    data: StepData
    steps: tuple[grids.Grid, ...]
    """Of every recording."""
    channels: tuple[tuple[grids.Channel, ...], ...]
    """Samples of every sensor, by recording."""
    notes: tuple[str, ...]


def build(
    mechanism,
    recording,
    sensors,
    inputs,
    dt,
    independent,
    weights,
    transition=TRANSITIONS["hermite_simpson"],
    delays=None,
) -> tuple[Problem, frozenset[str]]:
    """The checked arguments of `smooth`, see there, and the names of sensors and inputs whose sizes are to be found.

    Args:
        transition: The integration rule.
        delays: Of the sensors, for the places of their samples; those of their priors by default [s].
    """
    if weights not in ("given", "auto"):
        raise ArgumentError(f"weights: expected 'given' or 'auto'; found {weights!r}")
    recordings = (recording,) if isinstance(recording, Recording) else tuple(recording)
    if not recordings:
        raise ArgumentError("recording: expected at least one; found none")
    sensors = checked_sensors(mechanism, sensors)
    inputs = checked_inputs(mechanism, inputs, sensors)
    mechanism, sensors, free = freed_model(mechanism, sensors)
    found = to_be_found(inputs) | (frozenset(s.name for s in sensors) if weights == "auto" else frozenset())
    chart = chosen_coordinates(mechanism, independent)
    mechanism = mechanism.evaluated()
    inputs = with_first_sizes(mechanism, inputs)

    steps = []
    for one in recordings:
        steps.append(grids.grid(one, sensors, dt if not steps else steps[0].dt))
    delays = nominal_delays(sensors) if delays is None else jnp.asarray(delays)
    channels = [
        [grids.channel(one, s, float(delay), g) for s, delay in zip(sensors, delays, strict=True)]
        for one, g in zip(recordings, steps, strict=True)
    ]
    at_steps = [
        all(part.on_steps for part in of_sensor) and f"{sensor.name}.delay" not in free.names
        for sensor, of_sensor in zip(sensors, zip(*channels, strict=True), strict=True)
    ]
    if not all(at_steps):
        # One rule for all recordings: a sample on the first step lies at the start of the first interval.
        channels = [
            [part if on else part.between_steps() for part, on in zip(parts, at_steps, strict=True)]
            for parts in channels
        ]
    slots = [max(1, *(part.slots for part in of_sensor)) for of_sensor in zip(*channels, strict=True)]
    dt = jnp.asarray(steps[0].dt, dtype=float)
    model = EstimationModel(mechanism, sensors, inputs, free, dt, chart, delays, tuple(at_steps), transition)
    samples = [
        [grids.samples(part, g.steps, count) for part, count in zip(parts, slots, strict=True)]
        for parts, g in zip(channels, steps, strict=True)
    ]
    known = [grids.commands(one, commands_of(inputs), g) for one, g in zip(recordings, steps, strict=True)]
    total = grids.padded_steps(sum(g.steps for g in steps))
    data = grids.step_data(steps, samples, known, model.step_size, model.local_size, total)
    notes = tuple(f"{one.source}: {note}" for one in recordings for note in one.notes)
    return Problem(model, data, tuple(steps), tuple(map(tuple, channels)), notes), found


class Solution:
    """An estimate on its way; what it has at any time makes a result."""

    def __init__(self, problem: Problem, found: frozenset[str]):
        self.model, self.data, self.grids, self.channels, self.notes = problem
        self.found = found
        self.x: Unknowns | None = None
        self.look: Look | None = None  # what was seen at x, if anything was
        self.status: Any = Status.running
        self.step_status: Any = None
        self.lag_covariance: Array | None = None
        self.iterations = 0
        self.history: list[float] = []
        self.branches: tuple[Branch, ...] = ()
        self.blind = False
        self.told: tuple[Array, ...] = ()  # of θ; see `checked_findable`

    def begin(self, starts: Sequence[Start], tell: Progress) -> None:
        """Finds where each recording began and follows it step by step."""
        guess, priors, weights, first = [], self.data.prior, self.data.prior_weights, 0
        # A mechanism that is free to become any other follows whatever the first samples say.
        model = _held(self.model, of_mechanism)
        for number, (start, steps) in enumerate(zip(starts, self.grids, strict=True)):
            data = _part(self.data, first, steps.steps, grids.padded_steps(steps.steps))
            x = start.x
            if x is None:
                tell("looking for the start", 0, math.nan)
                x, branches = self._search(start, data, steps.steps)
                self.branches = branches if number == 0 else self.branches
            tell("following", 0, math.nan)
            state, seen = _follow(model, x, start.sigma, data, jnp.asarray(steps.steps))
            guess.append(seen.newest[: steps.steps])
            priors = priors.at[first].set(x)
            weights = weights.at[first].set(1 / start.sigma)
            first += steps.steps
            calibration = state.globals
        guess = jnp.concatenate(guess)
        guess = _finite(guess)
        pad = self.data.times.shape[0] - first
        guess = jnp.concatenate([guess, jnp.broadcast_to(guess[-1], (pad, guess.shape[1]))])
        self.data = self.data._replace(prior=priors.at[first:].set(guess[first:]), prior_weights=weights)
        self.x = Unknowns(guess, jnp.where(jnp.isfinite(calibration), calibration, self.model.free.value))

    def _search(self, start: Start, data: StepData, steps: int):
        """The start that the first samples agree with best; more of them are looked at until they tell."""
        # A calibration that is free to go anywhere makes any start fit.
        model, mechanism = _held(self.model, lambda place: not place.name.endswith(".bias")), self.model.mechanism
        rest = jnp.zeros(model.step_size - mechanism.n)

        def attempt(q, count):
            _, seen = _follow(model, jnp.concatenate([q, rest]), start.sigma, data, jnp.asarray(count))
            return float(seen.cost[count - 1]), np.asarray(seen.newest[count - 1][: q.shape[0]])

        q, branches = best_start(mechanism, candidate_poses(mechanism), attempt, steps)
        return jnp.concatenate([q, rest]), branches

    def follow(self, start: Start, window: int, tell: Progress) -> None:
        """Fixed-lag smoothing of one recording: what an estimator in a real-time loop would do with it."""
        model, ((steps,), (channels,)) = self.model, (self.grids, self.channels)
        x = start.x
        if x is None:
            tell("looking for the start", 0, math.nan)
            data = _part(self.data, 0, steps.steps, grids.padded_steps(steps.steps))
            x, self.branches = self._search(start, data, steps.steps)
        slots = max(1, *(part.slots for part in channels))
        estimator = OnlineEstimator(model, window, slots, covariances=True)
        state = estimator.begin(x, start.sigma, steps.start, np.asarray(self.data.commands[0, 0]))
        estimates: list[OnlineEstimate] = []
        commands = np.asarray(self.data.commands)
        incoming = [np.searchsorted(part.steps, np.arange(steps.steps + 1)) for part in channels]
        tell("following", 0, math.nan)
        try:
            for k in range(steps.steps):
                read = [
                    (part.values[where[k] : where[k + 1]], part.stamps[where[k] : where[k + 1]])
                    for part, where in zip(channels, incoming, strict=True)
                ]
                state, estimate = estimator.step(state, estimator.pack(read, commands[k]))
                estimates.append(estimate)
                if k % _TOLD == 0:
                    tell("following", k, math.nan)
        finally:
            if len(estimates) >= window:
                self._take(estimates, window, x, start)

    def _take(self, estimates: Sequence[OnlineEstimate], window: int, x, start: Start) -> None:
        """Every step as it left the window, the last ones as they are in it."""
        T, last = len(estimates), estimates[-1]
        left = last.of([estimate.numbers for estimate in estimates])
        steps = np.concatenate([left.steps[window - 1 :, 0], last.steps[1:]])
        covariance = np.concatenate([left.covariances[window - 1 :, 0], last.covariances[1:]])
        total = self.data.times.shape[0]
        steps, covariance = (np.concatenate([a, np.repeat(a[-1:], total - T, axis=0)]) for a in (steps, covariance))
        self.grids = (self.grids[0]._replace(steps=T),)
        self.x = Unknowns(jnp.asarray(steps), self.model.free.theta(jnp.asarray(last.unknowns)))
        self.lag_covariance = jnp.asarray(covariance)
        self.step_status = left.status
        self.status = worst(self.step_status)
        self.iterations = T
        priors = self.data.prior.at[0].set(x).at[T:].set(steps[-1])
        self.data = self.data._replace(prior=priors, prior_weights=self.data.prior_weights.at[0].set(1 / start.sigma))

    def lateness(self) -> Float[np.ndarray, " sensors"]:
        """Delays of the sensors as they are known now [s]."""
        assert self.x is not None
        return np.asarray(nominal_delays(self.model.at(self.x.globals).sensors))

    def place_again(self, problem: Problem) -> None:
        """The same problem with its samples in other places; sizes of noise stay as they were found."""
        data = problem.data._replace(prior=self.data.prior, prior_weights=self.data.prior_weights)
        model = eqx.tree_at(lambda m: (m.sensors, m.inputs), problem.model, (self.model.sensors, self.model.inputs))
        self.model, self.data, self.channels, self.look = model, data, problem.channels, None

    def solve(self, tell: Progress) -> None:
        """All steps at once; the sizes of noise that are to be found, too."""
        search = Search(self.found)
        self._iterate(search, tell)
        self.notes += search.notes

    def _iterate(self, search: Search, tell: Progress) -> None:
        assert self.x is not None
        searches = 0
        for round in range(_ROUNDS + _SEARCHES):
            x, status, iterations, history, look, left = _improve(self.model, self.x, self.data)
            history = np.asarray(history)
            self.iterations += int(iterations)
            self.history += history[np.isfinite(history)].tolist()
            change = float(_distance(x, self.x))
            self.x, self.status, self.look = x, status, look
            tell("solving", round, self.history[-1] if self.history else math.nan)
            if status == Status.iteration_limit and round < _ROUNDS:
                continue
            if status != Status.converged:
                return
            if self.found and searches < _SEARCHES and max(change, left) < _NEARLY:
                account = self._account()
                self.model, settled = search.update(self.model, accounts.groups(self.model, account, self.found))
                self.look = None
                searches = _SEARCHES if settled else searches + 1
                if searches == _SEARCHES and not settled:
                    self.notes += (f"the sizes of noise have not settled after {_SEARCHES} rounds",)
            elif change < _SETTLED and left < _LEFT * (1 + self.history[-1]):
                return
        self.look = None

    def _account(self) -> accounts.Account:
        assert self.x is not None
        if self.look is None:
            self.look = accounts.look_at(self.model, self.x, self.data)
        return accounts.account(self.model, self.x, self.data, self.look)

    def result(self) -> SmoothedMotion:
        """What is known now."""
        model, data, x = self.model, self.data, self.x
        account = self._account()
        assert x is not None
        if self.lag_covariance is not None:
            account = accounts.with_covariance(model, x, data, account, self.lag_covariance)
        self.blind = not accounts.sees(model, account)
        self.told = x.globals, account.influence, account.information
        T = sum(g.steps for g in self.grids)
        n, nv = model.mechanism.n, model.mechanism.nv
        steps = x.steps[:T]
        numbers = np.repeat(np.arange(len(self.grids)), [g.steps for g in self.grids])
        free = model.free
        sigma = free.deviations(x.globals, jnp.sqrt(jnp.diag(account.globals_covariance)))
        return SmoothedMotion(
            mechanism=rebuilt(free, (model.mechanism, model.shared), x.globals)[0].bare(),
            sensors=tuple(free.put_back((model.mechanism, model.shared))[1][sensor.name] for sensor in model.sensors),
            inputs=model.inputs,
            t=data.times[:T],
            recording=jnp.asarray(numbers),
            q=steps[:, :n],
            dq=steps[:, n : n + nv],
            ddq=account.ddq[:T],
            lambda_=account.lambda_[:T],
            forces=steps[:, n + nv :],
            commands=data.commands[:T, 1],
            tangents=account.tangents[:T],
            local_covariance=account.covariance[:T],
            ddq_std=account.ddq_std[:T],
            lambda_std=account.lambda_std[:T],
            unknowns=free.named(free.values(x.globals)),
            unknowns_std=free.named(sigma),
            free=free,
            status=self.status,
            step_status=self.step_status,
            iterations=jnp.asarray(self.iterations),
            cost_history=jnp.asarray(np.asarray(self.history), dtype=float),  # from a list, every length would compile
            groups=accounts.groups(model, account, self.found),
            fits=accounts.fits(model, account, data, numbers),
            branches=self.branches,
            notes=self.notes,
        )


def _held(model: EstimationModel, which: Callable[[Place], bool]) -> EstimationModel:
    """The model with some unknown numbers held at what is expected of them."""
    free = model.free
    held = np.concatenate([np.zeros(0, bool), *(np.full(place.size, which(place)) for place in free.places)])
    size = jnp.where(free.logs | (free.value == 0), 1.0, jnp.abs(free.value))
    sigma = jnp.where(jnp.isfinite(free.sigma), free.sigma, size)
    sigma = jnp.where(held, _HELD * sigma, free.sigma)
    return eqx.tree_at(lambda model: model.free.sigma, model, sigma)


def _finite(steps: Float[Array, "steps nx"]) -> Float[Array, "steps nx"]:
    """Steps that were lost on the way replaced by the last one before them."""
    there = jnp.all(jnp.isfinite(steps), axis=1)
    last = jax.lax.cummax(jnp.where(there, jnp.arange(steps.shape[0]), 0))
    return steps[last]


def _part(data: StepData, first: int, steps: int, total: int) -> StepData:
    """The steps of one recording, and behind them steps of which nothing is known."""
    part = jax.tree.map(lambda leaf: leaf[first : first + steps], data)
    part = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.repeat(leaf[-1:], total - steps, axis=0)]), part)
    behind = jnp.arange(total) >= steps
    dt = part.times[1] - part.times[0]
    samples = tuple(s._replace(mask=jnp.where(behind[:, None, None], 0.0, s.mask)) for s in part.samples)
    times = part.times + dt * jnp.maximum(0, jnp.arange(total) - (steps - 1))
    return part._replace(samples=samples, times=times)


@eqx.filter_jit
def _follow(model: EstimationModel, x, sigma, data: StepData, count):
    data = data._replace(prior=data.prior.at[0].set(x), prior_weights=data.prior_weights.at[0].set(1 / sigma))
    state = begin(model, 2, x, jax.tree.map(lambda leaf: leaf[0], data))
    return follow(model, state, data, count, _GUESS)


@eqx.filter_jit
def _improve(model: EstimationModel, x: Unknowns, data: StepData):
    """Some iterations with the weights that belong to x."""
    solver = LevenbergMarquardt(linear="sqrt", maxiter=_ITERATIONS, tol=_STEP)
    x, state = solver.run(x, model.graph(x, data))
    return x, state.status, state.iter_num, state.history, state.look, state.predicted


@jax.jit
def _distance(x: Unknowns, y: Unknowns):
    """Largest change of a variable, relative to its largest value."""
    scale = jnp.max(jnp.abs(y.steps), axis=0) + 1e-12
    return jnp.max(jnp.abs(x.steps - y.steps) / scale)
