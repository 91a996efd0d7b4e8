"""Prediction errors: recordings against free runs of a model, from first states that are found with θ.

A recording is one free run, or with a horizon several, one behind the other (multiple shooting): each begins at a state
of its own, and where one ends and the next begins the unknown white forces of the problem may have moved the mechanism
apart, as far as their spectral densities let them in one horizon. So a recording may be longer than what can be
foreseen.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.algebra.slopes import changed, slopes_of
from fgmbs.arguments import finite_number
from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.factors.priors import difference
from fgmbs.graph.model import margins
from fgmbs.graph.time_graph import Look, Rows, Unknowns
from fgmbs.linear import LeastSquares
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.problems.identify.free_runs.rollout import (
    FreeRun,
    free_run,
    free_run_with_slopes,
    known_forces,
    sensor_graph,
    sensor_residuals,
    sensor_rows,
)
from fgmbs.problems.smooth.beginning import begun_once
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.typing import Scalar
from fgmbs.unknowns import Free

_ANYWHERE = 10.0
"""Standard deviation of a state of which nothing is known, relative to the reach of the mechanism, and of its
velocities relative to that in one step."""


class Parameters(NamedTuple):
    """What a prediction error depends on."""

    theta: Float[Array, " p"]
    """θ, as `problem.free` has it."""
    starts: Float[Array, "*recordings segments local"]
    """Changes of the first states from those of the first guess, in independent coordinates and their velocities."""


class Segments(eqx.Module):
    """A recording cut into free runs, or several along a first axis."""

    x: Float[Array, "*recordings segments nx"]
    """First guess of the first states."""
    prior: Float[Array, "*recordings segments nx"]
    """Centres of what is known of them before …"""
    weights: Float[Array, "*recordings segments local"]
    """… and one over the standard deviations."""
    data: StepData
    """With an axis of segments before that of steps: the last step of one is the first of the next."""
    rows: Rows
    """Of the sensors: every sample belongs to one segment."""
    whiteners: Float[Array, "*recordings segments-1 local local"]
    """Of what two segments miss each other by; 0 behind the last one."""


class Miss(NamedTuple):
    """What free runs of a recording leave."""

    starts: Float[Array, "segments local"]
    sensors: tuple[Float[Array, "segments _ _"], ...]
    """Whitened residuals, before robust losses."""
    joints: Float[Array, "segments-1 local"]
    runs: FreeRun


class PredictionProblem(eqx.Module):
    """The prediction error of recordings: what `LevenbergMarquardt` asks of a graph, free runs in the place of steps.

    Its unknowns are the first states of all segments, on the constraints, and θ.
    """

    model: EstimationModel
    """Without forces that have a memory; the time step is that of each recording."""
    theta: Float[Array, " p"]
    """First guess of θ."""
    segments: Segments

    @property
    def free(self) -> Free:
        """θ."""
        return self.model.free

    @property
    def start(self) -> Unknowns:
        """The first guess."""
        return Unknowns(self.segments.x, self.theta)

    def each(self, function: Callable, *own):
        """`function(model, segments, *own)` of every recording; what has its own has a first axis if there are
        several."""
        return self.model.each(function, self.segments, *own)

    def miss(self, x: Unknowns) -> Miss:
        """What the free runs leave, of every recording."""
        return self.each(lambda model, segments, x0: _miss(model.at(x.globals), segments, x0), x.steps)

    def cost(self, x: Unknowns) -> Scalar:
        """½ρ of all samples, of what segments miss each other by, and of what is known of θ before."""
        miss = self.miss(x)
        squares = jnp.sum(miss.starts**2) + jnp.sum(miss.joints**2) + jnp.sum(self._prior(x.globals) ** 2)
        return 0.5 * squares + self._samples(miss)

    def moved(self, x: Unknowns, delta: Unknowns) -> Unknowns:
        """x ⊞ δ; NaN for states that cannot be reached."""
        theta = x.globals + delta.globals

        def of_one(model, segments, x, delta):
            return jax.vmap(lambda *one: _moved(model.at(theta), *one))(x, delta, segments.data.times[:, 0])

        return Unknowns(self.each(of_one, x.steps, delta.steps), theta)

    def margins(self, theta: Float[Array, " p"]) -> Float[Array, " k"]:
        """What θ leaves of `free.limited`; it must not be negative."""
        return margins(self.free, self.model.mechanism, theta)

    def zeros(self, x: Unknowns) -> Unknowns:
        """δ = 0."""
        return Unknowns(jnp.zeros((*x.steps.shape[:-1], self.model.local_size)), jnp.zeros_like(x.globals))

    def look(self, x: Unknowns) -> Look:
        """The whitened least-squares system in δ at x, the cost there, and `miss`."""
        parts, rest, miss = self.each(lambda model, segments, x0: _look(model, segments, x0, x.globals), x.steps)
        prior, p = self._prior(x.globals), self.free.size
        several = x.steps.shape[:-2]
        nothing = jnp.zeros((*several, 0)), jnp.zeros((*several, 0, self.model.local_size)), jnp.zeros((*several, 0, p))
        system = LeastSquares(*nothing, *parts, prior, jnp.diag(1 / self.free.sigma))
        return Look(system, system.cost() + jnp.sum(rest), miss, None)

    def gradient(self, x: Unknowns) -> Unknowns:
        """Gradient of the cost with respect to δ at x."""
        return jax.grad(lambda delta: self.cost(self.moved(x, delta)))(self.zeros(x))

    def at(self, parameters: Parameters) -> Unknowns:
        """First states and θ of parameters."""
        start = self.start
        change = Unknowns(parameters.starts, parameters.theta - start.globals)
        return self.moved(start, change)

    def _prior(self, theta):
        return (theta - self.free.value) / self.free.sigma

    def _samples(self, miss: Miss) -> Scalar:
        squares = (
            (sensor, _squares(r, sensor.group)) for sensor, r in zip(self.model.sensors, miss.sensors, strict=True)
        )
        return sum(0.5 * jnp.sum(s if sensor.loss is None else sensor.loss.rho(s)) for sensor, s in squares)


def prepare_prediction(
    problem: SmoothingProblem,
    horizon: float | None = None,
    *,
    continuous: bool = True,
    near: Unknowns | None = None,
    first: Float[Array, "*recordings nx"] | None = None,
    sizes: Float[Array, " k"] | None = None,
) -> PredictionProblem:
    """The prediction error of the recordings of a problem.

    Args:
        problem: Made by `prepare_smooth`.
        horizon: Length of the free runs [s]; None: every recording is one.
        continuous: What free runs of one recording miss each other by counts, as the white forces of the problem let
            them; else each stands for itself.
        near: Steps from which the free runs take their first guess, and θ; by default the first guess of `smooth`.
        first: Centre of the prior of the first state; by default the first of `near`, or that of `smooth`.
        sizes: Logarithms of unknown sizes of noise, as an estimate found them; by default their first values.

    Raises:
        ArgumentError: The horizon is no positive number.
    """
    length = run_length(problem, horizon)
    if near is None:
        at = begun_once(problem)
        near, first = at.x, at.first if first is None else first
    first = near.steps[..., 0, :] if first is None else first
    return cut(problem, near, first, problem.sizes.value if sizes is None else sizes, length, continuous)


def run_length(problem: SmoothingProblem, horizon: float | None) -> int:
    """Steps of free runs of this length [s]; of the recording with the shortest steps, if they differ.

    Raises:
        ArgumentError: The horizon is no positive number.
    """
    if horizon is None:
        return problem.steps - 1
    if not finite_number(horizon, "horizon") > 0:
        raise ArgumentError(f"horizon: expected a positive time in seconds, or None; found {horizon!r}")
    dt = problem.recording.dt
    if is_traced(dt):
        raise ArgumentError("horizon: expected a problem whose time step is known; found one that is traced")
    return int(np.clip(round(horizon / float(np.min(dt))), 1, problem.steps - 1))


@program(**ONCE)
def cut(
    problem: SmoothingProblem, near: Unknowns, first: Array, sizes: Float[Array, " k"], length: int, continuous: bool
) -> PredictionProblem:
    """The prediction error of free runs of so many steps; see `prepare_prediction`."""
    delays = nominal_delays(problem.sensors)
    model = problem.model(sizes, delays)
    size = model.mechanism.n + model.mechanism.nv
    theta = jnp.clip(near.globals, problem.free.lower, problem.free.upper)

    def of_one(problem, steps, first):
        model, steps, first = known_forces(problem.model(sizes, delays)), steps[:, :size], first[:size]
        data = problem.data(delays, first, first)
        return _segments(model, model.at(theta), steps, data, problem.recording.start_sigma, length, continuous)

    segments = problem.each(of_one, near.steps, first)
    return PredictionProblem(known_forces(model), theta, segments)


def _segments(model, at, steps, data: StepData, sigma, length: int, continuous: bool) -> Segments:
    """The segments of a recording with steps near these; the first step of the data is the centre of its prior."""
    total, local, mechanism = steps.shape[0], model.local_size, model.mechanism
    count = -(-(total - 1) // length)
    k = jnp.arange(count)[:, None] * length + jnp.arange(length + 1)
    inside = k < total
    place = jnp.minimum(k, total - 1)
    first = jnp.arange(length + 1) == 0
    rows = sensor_rows(at, steps, data)
    cut = jax.tree.map(lambda leaf: leaf[place], (data, rows))
    parts, rows = cut
    there = inside & (parts.linked > 0) & ~first
    # The first sample of a recording is that of its first segment; others begin where one has been read already.
    own = there | (first & (jnp.arange(count) == 0)[:, None])
    factors = tuple((series, weights * own[..., None]) for series, weights in rows.factors)
    times = data.times[0] + model.dt * k
    parts = parts._replace(times=times, linked=there.astype(steps.dtype), samples=())
    alive = there[:, 1]
    x = jax.vmap(lambda x, t: _moved(at, x, jnp.zeros(local), t))(steps[place[:, 0]], times[:, 0])
    # States of which nothing tells but what follows.
    reach = _ANYWHERE * jnp.max(mechanism.reach)
    dof = model.chart.dof
    vague = jnp.repeat(jnp.stack([1 / reach, model.dt / reach]), dof, total_repeat_length=local)
    weights = jnp.where(alive[:, None], vague, 1.0).at[0].set(1 / sigma[:local])
    h = length * model.dt
    later = eqx.tree_at(lambda model: model.dt, at, h)

    def whitener(x, t):
        _, _, W = later.process(x, t)
        # As of a rule in which the second velocity has a share of a half in positions: exact for white forces.
        return W.at[:, dof:].add(-h / 2 * W[:, :dof])

    W = jax.vmap(whitener)(x[1:], times[1:, 0])
    linked = (alive[1:] & continuous)[:, None, None]
    return Segments(x, x.at[0].set(data.prior[0]), weights, parts, Rows(times, factors), jnp.where(linked, W, 0.0))


def _moved(model: EstimationModel, x, delta, t):
    return model.chart.move(model.mechanism, x, delta, t)


def _start_prior(model: EstimationModel, x, centre, weights, t):
    B = model.chart.selection(model.mechanism, centre[: model.mechanism.n], t)
    return weights * (model.chart.widened(B, 0) @ difference(model.mechanism, centre, x))


def _joint(model: EstimationModel, end, start, W, t):
    """What a run that ends at `end` misses the start of the next one by, whitened."""
    B = model.chart.selection(model.mechanism, jax.lax.stop_gradient(start[: model.mechanism.n]), t)
    r = W @ (model.chart.widened(B, 0) @ difference(model.mechanism, start, end))
    return jnp.where(jnp.any(W != 0), r, 0.0)


def _miss(model: EstimationModel, segments: Segments, x) -> Miss:
    """Of a recording, the model of θ."""
    runs = _each(lambda x, data: free_run(model, x, data), x, segments.data)
    sensors = jax.vmap(lambda steps, rows: sensor_residuals(model, steps, rows))(runs.steps, segments.rows)
    t = segments.data.times[:, 0]
    starts = jax.vmap(lambda *one: _start_prior(model, *one))(x, segments.prior, segments.weights, t)
    joints = jax.vmap(lambda *one: _joint(model, *one))(runs.steps[:-1, -1], x[1:], segments.whiteners, t[1:])
    return Miss(starts, sensors, joints, runs)


def _look(model: EstimationModel, segments: Segments, x, theta):
    """(rows on each segment and between them, their derivatives by first states and θ, cost that robust losses add,
    what the runs leave)."""
    # Of what each recording has of its own, others tell nothing.
    local, columns = model.local_size, model.free.columns(lambda place: True)
    own, alone = theta[columns], model.free.index is None
    p = own.shape[0]
    zero = jnp.zeros(local + p, x.dtype)
    at, of_theta = model.at(theta), slopes_of(lambda own: model.at(theta.at[columns].set(own)), own)

    def of_segment(x, centre, weights, data, rows):
        t = data.times[0]

        def begin(change):
            near = changed(at, of_theta, change[local:])
            begun = _moved(near, x, change[:local], t)
            both = begun, _start_prior(near, begun, centre, weights, t)
            return both, both

        (E, of_prior), (begun, known) = jax.jacfwd(begin, has_aux=True)(zero)
        run, along = free_run_with_slopes(at, of_theta, begun, E, data)
        tangents = jnp.concatenate([jnp.zeros((local, p)), jnp.eye(p)]).astype(x.dtype)

        def read(steps, change):
            return sensor_residuals(changed(at, of_theta, change), steps, rows)

        values, push = jax.linearize(read, run.steps, zero[local:])
        slopes = jax.vmap(push, (2, 0), -1)(along, tangents)
        r, J, robust = [known], [of_prior], jnp.zeros((), x.dtype)
        for factor, value, slope in zip(sensor_graph(at, rows).factors, values, slopes, strict=True):
            part, jacobian = factor.reweighted(value, slope)
            if factor.loss is not None:
                robust += jnp.sum(factor.costs(value)) - 0.5 * jnp.sum(part**2)
            r.append(part.ravel())
            J.append(jacobian.reshape(-1, local + p))
        r, J = jnp.concatenate(r), jnp.concatenate(J)
        # Of many rows the triangle alone is needed.
        both = jnp.column_stack([J, r])
        R = jnp.linalg.qr(both, mode="r") if both.shape[0] > both.shape[1] else both
        triangle = R[:, -1], R[:, :local], R[:, local:-1]
        return triangle, robust, (run.steps[-1], along[-1]), (begun, E), (known, values, run)

    given = x, segments.prior, segments.weights, segments.data, segments.rows
    rows, robust, (end, along), (x, E), (starts, sensors, runs) = _each(of_segment, *given)

    def of_joint(end, along, start, E, W, t):
        def joint(own, other, dtheta):
            return _joint(
                model, end + along @ jnp.concatenate([own, dtheta]), start + E @ jnp.concatenate([other, dtheta]), W, t
            )

        zeros = zero[:local], zero[:local], zero[local:]
        return joint(*zeros), *jax.jacfwd(joint, (0, 1, 2))(*zeros)

    t = segments.data.times[1:, 0]
    joints = jax.vmap(of_joint)(end[:-1], along[:-1], x[1:], E[1:], segments.whiteners, t)

    def among_all(r, *slopes):
        *of_steps, of_own = slopes
        every = jnp.zeros((*of_own.shape[:-1], theta.shape[0]), x.dtype)
        return r, *of_steps, of_own if alone else every.at[..., columns].set(of_own)

    miss = Miss(starts, sensors, joints[0], runs)
    return (*among_all(*rows), *among_all(*joints)), jnp.sum(robust), miss


def _each(function: Callable, *arguments):
    """`jax.vmap`; of a single member the plain function, which is compiled in less time."""
    if jax.tree.leaves(arguments)[0].shape[0] > 1:
        return jax.vmap(function)(*arguments)
    one = function(*jax.tree.map(lambda leaf: leaf[0], arguments))
    return jax.tree.map(lambda leaf: leaf[None], one)


def _squares(r, rows: int):
    return jnp.sum(r.reshape(*r.shape[:-1], -1, rows) ** 2, axis=-1)


def prediction_loss(
    problem: SmoothingProblem, *, horizon: float | None = None, continuous: bool = True
) -> tuple[Callable[[Parameters], Scalar], Parameters]:
    """(the prediction error as a pure function of parameters, the first guess of these), for optax and jaxopt.

    It is ½Σρ of all whitened samples and priors, and of what segments miss each other by. Bounds are
    `problem.free.lower` and `problem.free.upper` of θ, which whoever minimizes it has to hold; it is not finite where
    a free run diverges.

    Args:
        problem: Made by `prepare_smooth`.
        horizon: As in `prepare_prediction`.
        continuous: As in `prepare_prediction`.

    Raises:
        ArgumentError: The horizon is no positive number.
    """
    prediction = prepare_prediction(problem, horizon, continuous=continuous)
    start = prediction.start

    def loss(parameters: Parameters) -> Scalar:
        return prediction.cost(prediction.at(parameters))

    return loss, Parameters(start.globals, prediction.zeros(start).steps)
