"""Prediction errors: recordings against free runs of a model, from first states that are found with θ.

A recording is one free run, or with a horizon several, one behind the other (multiple shooting): each begins at a state
of its own, and where one ends and the next begins the unknown white forces of the problem may have moved the mechanism
apart, as far as their spectral densities let them in one horizon. So a recording may be longer than what can be
foreseen.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from fgmbs.arguments import choice, finite_number
from fgmbs.compiled.tracing import is_traced
from fgmbs.errors import ArgumentError
from fgmbs.factors.priors import difference
from fgmbs.graph.time_graph import Look, Rows, Unknowns, margins, reweighted
from fgmbs.linear import METHODS, LeastSquares, factorize_matrix
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.graph import EstimationModel, StepData
from fgmbs.problems.identify.rollout import (
    FreeRun,
    free_run,
    free_run_with_slopes,
    known_forces,
    sensor_graph,
    sensor_residuals,
    sensor_rows,
)
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.problems.smooth.rounds import begun
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt, OptStep
from fgmbs.status import Status
from fgmbs.typing import Scalar
from fgmbs.unknowns import Free

Solver: TypeAlias = Literal["lm", "adam", "lbfgs"]

_ANYWHERE = 10.0
"""Standard deviation of a state of which nothing is known, relative to the reach of the mechanism, and of its
velocities relative to that in one step."""
_ITERATIONS = {"lm": 50, "adam": 3000, "lbfgs": 300}
_STEP = 1e-9
"""Relative step at which Levenberg–Marquardt ends."""
_ADAM = 0.05
"""First rate of Adam, relative to the longest way that the first linearization foresees; it falls to zero."""
_FLAT = 1e-6
"""Length of the gradient, in standard deviations of what is found, at which optax's solvers have converged."""


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
    dt: Float[Array, "*recordings"]

    @property
    def several(self) -> bool:
        return self.dt.ndim == 1


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

        def of_one(segments, *own):
            return function(eqx.tree_at(lambda model: model.dt, self.model, segments.dt), segments, *own)

        return jax.vmap(of_one)(self.segments, *own) if self.segments.several else of_one(self.segments, *own)

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
        """The whitened least-squares system in δ at x, and the cost there."""
        parts, rest = self.each(lambda model, segments, x0: _look(model, segments, x0, x.globals), x.steps)
        prior, p = self._prior(x.globals), self.free.size
        several = x.steps.shape[:-2]
        nothing = jnp.zeros((*several, 0)), jnp.zeros((*several, 0, self.model.local_size)), jnp.zeros((*several, 0, p))
        system = LeastSquares(*nothing, *parts, prior, jnp.diag(1 / self.free.sigma))
        return Look(system, system.cost() + jnp.sum(rest), (), None)

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
        return sum(
            0.5
            * jnp.sum(_squares(r, sensor.rows) if sensor.loss is None else sensor.loss.rho(_squares(r, sensor.rows)))
            for sensor, r in zip(self.model.sensors, miss.sensors, strict=True)
        )


class Prediction(eqx.Module):
    """Where the prediction error is least."""

    theta: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    """Of θ, the first states being found, too; those of numbers on a bound are as if they were free."""
    information: Float[Array, "p p"]
    """Its inverse, which is finite also where that is not."""
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


def prepare_prediction(
    problem: SmoothingProblem,
    horizon: float | None = None,
    *,
    continuous: bool = True,
    near: Unknowns | None = None,
    sizes: Float[Array, " k"] | None = None,
) -> PredictionProblem:
    """The prediction error of the recordings of a problem.

    Args:
        problem: Made by `prepare_smooth`.
        horizon: Length of the free runs [s]; None: every recording is one.
        continuous: What free runs of one recording miss each other by counts, as the white forces of the problem let
            them; else each stands for itself.
        near: Steps from which the free runs take their first guess, and θ; by default the first guess of `smooth`.
        sizes: Logarithms of unknown sizes of noise, as an estimate found them; by default their first values.

    Raises:
        ArgumentError: The horizon is no positive number.
    """
    length = problem.steps - 1
    if horizon is not None:
        if not finite_number(horizon, "horizon") > 0:
            raise ArgumentError(f"horizon: expected a positive time in seconds, or None; found {horizon!r}")
        # The horizon of the recording with the shortest steps, if they differ.
        dt = problem.recording.dt
        if is_traced(dt):
            raise ArgumentError("horizon: expected a problem whose time step is known; found one that is traced")
        length = int(np.clip(round(horizon / float(np.min(dt))), 1, length))
    near = begun(problem).x if near is None else near
    return _cut(problem, near, problem.sizes.value if sizes is None else sizes, length, continuous)


@eqx.filter_jit
def _cut(
    problem: SmoothingProblem, near: Unknowns, sizes: Float[Array, " k"], length: int, continuous: bool
) -> PredictionProblem:
    delays = nominal_delays(problem.sensors)
    model = problem.model(sizes, delays)
    size = model.mechanism.n + model.mechanism.nv
    theta = jnp.clip(near.globals, problem.free.lower, problem.free.upper)

    def of_one(problem, steps):
        model = known_forces(problem.model(sizes, delays))
        first = steps[0, :size]
        data = problem.data(delays, first, first)
        return _segments(
            model, model.at(theta), steps[:, :size], data, problem.recording.start_sigma, length, continuous
        )

    segments = problem.each(of_one, near.steps)
    return PredictionProblem(known_forces(model), theta, segments)


def _segments(model, at, steps, data: StepData, sigma, length: int, continuous: bool) -> Segments:
    """The segments of a recording with steps near these."""
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
    return Segments(x, x, weights, parts, Rows(times, factors), jnp.where(linked, W, 0.0), model.dt)


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
    """(rows on each segment and between them, their derivatives by first states and θ, cost that robust losses add)."""
    local, p = model.local_size, theta.shape[0]
    zero = jnp.zeros(local + p, x.dtype)

    def of_segment(x, centre, weights, data, rows):
        t = data.times[0]

        def begin(change):
            at = model.at(theta + change[local:])
            begun = _moved(at, x, change[:local], t)
            both = begun, _start_prior(at, begun, centre, weights, t)
            return both, both

        (E, of_prior), (begun, known) = jax.jacfwd(begin, has_aux=True)(zero)
        run, along = free_run_with_slopes(model, theta, begun, E, data)
        tangents = jnp.concatenate([jnp.zeros((local, p)), jnp.eye(p)]).astype(x.dtype)

        def read(steps, theta):
            return sensor_residuals(model.at(theta), steps, rows)

        values, push = jax.linearize(read, run.steps, theta)
        slopes = jax.vmap(push, (2, 0), -1)(along, tangents)
        r, J, robust = [known], [of_prior], jnp.zeros((), x.dtype)
        for factor, value, slope in zip(sensor_graph(model.at(theta), rows).factors, values, slopes, strict=True):
            part, jacobian = reweighted(factor, (value, slope))
            if factor.loss is not None:
                robust += 0.5 * (jnp.sum(factor.loss.rho(factor.squares(value))) - jnp.sum(part**2))
            r.append(part.ravel())
            J.append(jacobian.reshape(-1, local + p))
        r, J = jnp.concatenate(r), jnp.concatenate(J)
        # Of many rows the triangle alone is needed.
        both = jnp.column_stack([J, r])
        R = jnp.linalg.qr(both, mode="r") if both.shape[0] > both.shape[1] else both
        return R[:, -1], R[:, :local], R[:, local:-1], robust, (run.steps[-1], along[-1]), (begun, E)

    given = x, segments.prior, segments.weights, segments.data, segments.rows
    r, of_start, of_theta, robust, (end, along), (x, E) = _each(of_segment, *given)

    def of_joint(end, along, start, E, W, t):
        def joint(own, other, dtheta):
            return _joint(
                model, end + along @ jnp.concatenate([own, dtheta]), start + E @ jnp.concatenate([other, dtheta]), W, t
            )

        zeros = zero[:local], zero[:local], zero[local:]
        return joint(*zeros), *jax.jacfwd(joint, (0, 1, 2))(*zeros)

    t = segments.data.times[1:, 0]
    joints = jax.vmap(of_joint)(end[:-1], along[:-1], x[1:], E[1:], segments.whiteners, t)
    return (r, of_start, of_theta, *joints), jnp.sum(robust)


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
        x, state = _fitted(prediction, start, limit)
        # One step of the solver before, which is too small to matter where it has converged.
        return _told(prediction, x, state.look, state.history, state.status, state.iter_num)
    x, *ended = _descended(prediction, start, solver, limit)
    return _told(prediction, x, _looked(prediction, x), *ended)


@eqx.filter_jit
def _fitted(prediction: PredictionProblem, start: Unknowns, limit: int) -> OptStep:
    return LevenbergMarquardt(linear="sqrt", maxiter=limit, tol=_STEP).run(start, prediction)


@eqx.filter_jit
def _looked(prediction: PredictionProblem, x: Unknowns) -> Look:
    return prediction.look(x)


@eqx.filter_jit
def _told(prediction: PredictionProblem, x: Unknowns, look: Look, history, status: Status, iterations) -> Prediction:
    miss = prediction.miss(x)
    factorization = METHODS["sqrt"](look.system, *prediction.zeros(x))
    U, _ = factorization.factor.of_globals()
    return Prediction(
        theta=x.globals,
        covariance=factorization.marginals().globals,
        information=U.T @ U,
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


@eqx.filter_jit
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
    end = jax.lax.while_loop(lambda at: at.status == Status.running, advance, first)
    return there(end.y), end.history, end.status, end.count
