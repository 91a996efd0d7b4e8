"""The compiled functions of real-time estimators, which share them: everything in flat arrays."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int

from fgmbs.compiled.ahead import compiled_ahead
from fgmbs.compiled.flat import Flat, Pattern, flat, unflat
from fgmbs.compiled.one_kernel import one_kernel
from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import while_loop
from fgmbs.graph.time_graph import TimeGraph
from fgmbs.problems.estimation.graph import SENSORS, EstimationModel, Samples, StepData
from fgmbs.problems.estimation.window import begin, smoother
from fgmbs.solvers.fixed_lag import WindowState
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status

_ON_STEP = 1e-6
"""Distance from a step, in steps, below which a sample lies on it."""


@dataclass(frozen=True)
class Form:
    """What makes estimators of one structure: everything but their numbers."""

    pattern: Pattern
    """Of the model."""
    window: int
    slots: int
    covariances: bool

    def model(self, numbers: Float[Array | np.ndarray, " numbers"]) -> EstimationModel:
        return unflat(self.pattern, numbers)

    @property
    def layout(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Names and shapes of the parts of an estimate."""
        model = self.model(np.zeros(self.pattern.size))
        n, nv, nu, nl, W = model.mechanism.n, model.mechanism.nv, model.memory, model.columns, self.window
        shapes = dict(t=(), q=(n,), dq=(nv,), ddq=(nv,), forces=(nu,), q_std=(n,), dq_std=(nv,), ddq_std=(nv,))
        shapes |= dict(forces_std=(nu,), steps=(W, model.step_size), unknowns=model.free.value.shape)
        shapes |= dict(status=(), unused=()) | (dict(covariances=(W, nl, nl)) if self.covariances else {})
        return tuple(shapes.items())

    @property
    def sample_size(self) -> int:
        """Numbers in a sample, see `_cut`."""
        model = self.model(np.zeros(self.pattern.size))
        return sum(self.slots * (sensor.rows + 1) for sensor in model.sensors) + 2 * len(model.commands)


class Programs:
    """The compiled functions of all estimators of one structure; all of flat arrays.

    Attributes:
        layout: Parts of an estimate.
    """

    def __init__(self, *form: Any):
        self.form = Form(*form)
        self.layout = self.form.layout
        self._step = None

    def begin(self, numbers: Any, *arrays: Any) -> Float[Array, " state"]:
        """The state of (model, start value, its standard deviations, time, signals of the commands).

        Steps are compiled meanwhile: none of a real-time loop has to wait.
        """
        if any(isinstance(x, Tracer) for x in (numbers, *arrays)):
            return _begin(self.form, numbers, *arrays).numbers
        with compiled_ahead(self._lowered, self.form):
            return _begin(self.form, numbers, *arrays).numbers

    def _lowered(self) -> Iterator[Callable[[], Any]]:
        sizes = (self.form.pattern.size, self._state.numbers.shape, self.form.sample_size)
        yield _step.ahead(self.form, self._state.pattern, *map(np.zeros, sizes))

    @cached_property
    def _state(self) -> Flat:
        """A state of zeros."""
        numbers = np.zeros(self.form.pattern.size)
        model = self.form.model(numbers)
        sizes = (model.step_size, model.local_size, (), len(model.commands))
        return _begin.like(self.form, numbers, *map(np.zeros, sizes))

    def step(self, *arrays: Any) -> tuple[Float[Array, " state"], Float[Array, " estimate"]]:
        """(state, estimate) after (model, state, sample)."""
        if any(isinstance(x, Tracer) for x in arrays):
            return _step(self.form, self._state.pattern, *arrays)
        if self._step is None:
            self._step = _step.ahead(self.form, self._state.pattern, *arrays)()
        return self._step(list(arrays)).tree


programs = lru_cache(maxsize=64)(Programs)
"""The functions of a structure; compiled once."""


@program(**ONCE)
def _begin(form: Form, numbers, x, sigma, t, commands):
    model = form.model(numbers)
    blank = _blank(model, form.slots, t, jnp.broadcast_to(commands, (2, len(model.commands))))
    return Flat.of(begin(model, form.window, x, blank), jnp.broadcast_to(1 / sigma, (model.local_size,)))


@program
def _step(form: Form, pattern: Pattern, numbers, state, sample):
    # Several machine functions, which are compiled side by side, and together in less time than they would be as one.
    window, x, more = _moved(form, numbers, Flat(state, pattern), sample)
    state, seen = _concluded(form, numbers, window, _solved(form, numbers, window, x), more)
    return state, _told(form, numbers, sample, seen)


@one_kernel
def _moved(form: Form, numbers, state: Flat, sample):
    """(the window with what came and the data of its steps, where the search for these begins, what else is told)."""
    model = form.model(numbers)
    window, weights = state.tree
    read, commands = _cut(model, form.slots, sample)
    t, first = window.rows.times[-1] + model.dt, window.taken == 0
    newest = _blank(model, form.slots, t, commands)._replace(
        linked=jnp.where(first, 0.0, 1.0), prior=window.steps[-1], prior_weights=jnp.where(first, weights, 0.0)
    )
    window, newest, unused = _placed(model, window, newest, read)
    x, rows = smoother(model, window.rows).moved(window, newest)
    return Flat.of(window, rows), Flat.of(x), Flat.of(weights, t, unused)


@eqx.filter_custom_jvp
def _solved(form: Form, numbers, window: Flat, x: Flat) -> Flat:
    """What `LevenbergMarquardt.run` gives, its halves as machine functions."""

    def running(at):
        return at[0]

    def iterated(at):
        return _judged(form, numbers, window, at[1], _looked(form, numbers, window, at[1]))

    return while_loop(running, iterated, (jnp.asarray(True), _begun(form, numbers, window, x)))[1]


@_solved.def_jvp
def _solved_jvp(primals, tangents):
    def run(form, numbers, window, x):
        solver, graph = _problem(form, numbers, window)
        return Flat.of(*solver.run(*x.tree, graph))

    return eqx.filter_jvp(run, primals, tangents)


def _problem(form: Form, numbers, window: Flat) -> tuple[LevenbergMarquardt, TimeGraph]:
    window, rows = window.tree
    of = smoother(form.model(numbers), window.rows)
    return of.solver, of.over(window, rows)


@one_kernel
def _begun(form: Form, numbers, window, x):
    solver, graph = _problem(form, numbers, window)
    (x,) = x.tree
    return Flat.of(x, solver.init_state(x, graph))


@one_kernel
def _looked(form: Form, numbers, window, at):
    solver, graph = _problem(form, numbers, window)
    _, lm = at.tree
    return Flat.of(solver.looked(lm, graph))


@one_kernel
def _judged(form: Form, numbers, window, at, look):
    solver, graph = _problem(form, numbers, window)
    _, lm = at.tree
    x, lm = solver.judged(lm, *look.tree, graph)
    return lm.status == Status.running, Flat.of(x, lm)


@one_kernel
def _concluded(form: Form, numbers, window, solved, more):
    """(the next state, what is told of the window)."""
    model, (window, rows), (x, lm), (weights, t, unused) = form.model(numbers), window.tree, solved.tree, more.tree
    window, estimate = smoother(model, window.rows).concluded(window, rows, x, lm)
    covariances = model.covariances(estimate.marginals()) if form.covariances else None
    told = t, unused, x.steps, x.globals, estimate.newest_covariance(), lm.status._value, covariances
    return flat((window, weights)), Flat.of(*told)


@one_kernel
def _told(form: Form, numbers, sample, seen):
    model = form.model(numbers)
    t, unused, steps, theta, cov, status, covariances = seen.tree
    _, commands = _cut(model, form.slots, sample)
    x = steps[-1]
    n, nv = model.mechanism.n, model.mechanism.nv
    E = model.tangents(x, theta, t)
    cov = cov[: E.shape[1], : E.shape[1]]
    ddq, ddq_tangents = model.along(theta, x, E, lambda model, x: model.accelerations(x, t, commands[1])[0])
    std = _std(E, cov)
    parts = dict(
        t=t,
        q=x[:n],
        dq=x[n : n + nv],
        ddq=ddq,
        forces=x[n + nv :],
        q_std=std[:n],
        dq_std=std[n : n + nv],
        ddq_std=_std(ddq_tangents, cov),
        forces_std=std[n + nv :],
        steps=steps,
        unknowns=model.free.values(theta),
        status=status,
        unused=unused,
        covariances=covariances,
    )
    return flat([parts[name] for name, _ in form.layout])


def _blank(model: EstimationModel, slots: int, t, commands) -> StepData:
    """A step of which nothing was read."""
    none = jnp.zeros((slots, len(model.commands)))
    samples = tuple(
        Samples(jnp.zeros((slots, sensor.rows)), jnp.ones(slots), jnp.zeros((slots, sensor.rows)), none)
        for sensor in model.sensors
    )
    known = jnp.zeros(model.step_size), jnp.zeros(model.local_size)
    return StepData(t, jnp.ones(()), *known, commands, commands[1], samples)


def _std(J, cov):
    return jnp.sqrt(jnp.maximum(jnp.einsum("ia,ab,ib->i", J, cov, J), 0.0))


def _cut(model: EstimationModel, slots: int, sample: Float[Array, " numbers"]):
    """(values and times of every sensor, signals of the commands) of a sample."""
    parts, start = [], 0
    for sensor in model.sensors:
        size = slots * (sensor.rows + 1)
        parts.append(sample[start : start + size].reshape(slots, sensor.rows + 1))
        start += size
    signals = sample[start:].reshape(2, -1)
    limited = [force.limited(signals[:, k]) for k, force in enumerate(model.commands)]
    return parts, jnp.stack(limited, axis=1) if limited else signals


def _placed(model: EstimationModel, window: WindowState, newest: StepData, read):
    """The window and its newest step with the samples that came, and how many of these found no place."""
    unused, factors, samples = 0, list(window.rows.factors), []
    (_, commands, _), _ = factors[0]
    commands = jnp.concatenate([commands, newest.commands[None]])
    for k, (came, empty) in enumerate(zip(read, newest.samples, strict=True)):
        (values, fractions, signals, frames), weights = factors[SENSORS + k]
        held = Samples(values, fractions, weights.reshape(values.shape), signals)
        held = jax.tree.map(lambda old, new: jnp.concatenate([old, new[None]]), held, empty)
        held, lost = _place(held, came[:, :-1], came[:, -1] - model.delays[k], newest.times, model.dt, commands)
        unused += lost
        old, new = (jax.tree.map(itemgetter(part), held) for part in (slice(None, -1), -1))
        factors[SENSORS + k] = (old.values, old.fractions, old.commands, frames), old.mask.reshape(weights.shape)
        samples.append(new)
    window = window._replace(rows=window.rows._replace(factors=tuple(factors)))
    return window, newest._replace(samples=tuple(samples)), unused


def _place(window: Samples, values, times, now, dt, commands) -> tuple[Samples, Int[Array, ""]]:
    """The samples of a sensor in the window, and how many of them found no place."""
    steps, (first, last) = window.fractions.shape[0], (commands[:, 0], commands[:, 1])
    unused = jnp.asarray(0)
    for value, time in zip(values, times, strict=True):
        age = jnp.where(jnp.isnan(time), 0.0, (time - now) / dt)
        age = jnp.where(jnp.abs(age - jnp.round(age)) < _ON_STEP, jnp.round(age), age)
        end = jnp.ceil(age)
        fraction = age - end + 1
        there = jnp.isfinite(value)
        # Step 0 leaves the window now, and what lies before it belongs to an interval that has left already.
        row = (jnp.arange(steps) == steps - 1 + end) & (jnp.arange(steps) > 0) & jnp.any(there)
        free = jnp.all(window.mask == 0, axis=-1)
        put = free & (jnp.cumsum(free, axis=1) == 1) & row[:, None]
        unused += (jnp.any(there) & ~jnp.any(put)).astype(int)
        window = Samples(
            jnp.where(put[..., None], jnp.where(there, value, 0.0), window.values),
            jnp.where(put, fraction, window.fractions),
            jnp.where(put[..., None], there.astype(value.dtype), window.mask),
            jnp.where(put[..., None], (first + fraction * (last - first))[:, None], window.commands),
        )
    return window, unused
