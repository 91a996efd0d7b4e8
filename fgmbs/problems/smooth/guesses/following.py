"""A first guess of a recorded motion: a plain filter, which goes through the samples once and does not look back."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from fgmbs.compiled.tracing import while_loop
from fgmbs.factors.base import Factor, Instant
from fgmbs.factors.priors import difference
from fgmbs.problems.estimation.graph import SENSORS, EstimationModel, StepData
from fgmbs.typing import Scalar

_STAGES = (0.0, 0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)
"""Where in an interval the accelerations are looked at, and how they count: the classical rule of fourth order."""
_PASSES = 8
"""Looks at a step, at most."""
_DAMPED, _UNDAMPED = 1e-3, 1e-6
"""Damping, relative to what is known of each number, after a change that made it worse, and what counts as none."""
_ENOUGH = 1e-6
"""Decrease of the cost that is not worth another look, in squares of standard deviations."""
_ANYWHERE = 1e6
"""Standard deviation of a number of which nothing is known, relative to its size."""


class Followed(NamedTuple):
    """What was known of steps when they came in."""

    steps: Float[Array, "steps nx"]
    cost: Float[Array, " steps"]
    """Of everything that had come in."""
    theta: Float[Array, " p"]
    """In the end; numbers of the mechanism are as expected."""


class _Belief(NamedTuple):
    """A step, and rows R s + d of unit covariance on its change s = (δ, change of θ)."""

    x: Float[Array, " nx"]
    E: Float[Array, "nx local"]
    """∂x/∂δ."""
    theta: Float[Array, " p"]
    R: Float[Array, "wide wide"]
    d: Float[Array, " wide"]
    cost: Scalar
    """Of what no change can help any more."""


class _Look(NamedTuple):
    """One look at a step: what is there at a change s = (that of the step before, of θ, of this step)."""

    s: Float[Array, " changes"]
    x: Float[Array, " nx"]
    E: Float[Array, "nx local"]
    R: Float[Array, "changes changes"]
    d: Float[Array, " changes"]
    rest: Scalar
    """Cost that no change can help."""

    @property
    def cost(self) -> Scalar:
        return self.rest + self.helped

    @property
    def helped(self) -> Scalar:
        """How much of the cost the best change takes away."""
        return 0.5 * jnp.sum(self.d**2)


class _Search(NamedTuple):
    best: _Look
    change: Float[Array, " changes"]
    """From there, to be looked at next."""
    damping: Scalar
    looks: Int[Array, ""]
    done: Bool[Array, ""]


def follow(
    model: EstimationModel, x: Float[Array, " nx"], sigma: Float[Array, " p"], data: StepData, count: Array | int
) -> Followed:
    """The first `count` steps of a recording, from x on.

    Every step is foreseen by the accelerations of the step before and corrected by its samples, in square roots of
    information: what is eliminated is the step before. Numbers of the mechanism are not found.

    Args:
        model: What moves, and what is read of it.
        x: Near the first step.
        sigma: Standard deviations of θ around its first value.
        data: What was read, by step.
        count: Steps to follow; it is no part of the program.
    """
    theta, T = model.free.value, data.times.shape[0]
    k, p = model.local_size, theta.shape[0]
    size = jnp.where(model.free.logs | (theta == 0), 1.0, jnp.abs(theta))
    known = 1 / jnp.where(jnp.isfinite(sigma), sigma, _ANYWHERE * size)
    R = jnp.diag(jnp.concatenate([jnp.ones(k), known]))
    belief = _Belief(x, jnp.zeros((x.shape[0], k)), theta, R, jnp.zeros(k + p), jnp.zeros(()))
    seen = jnp.zeros((T, x.shape[0])), jnp.zeros(T)

    def advance(step, carry):
        belief, (steps, costs) = carry
        belief, cost = _corrected(model, belief, jax.tree.map(lambda leaf: leaf[step], data))
        return belief, (steps.at[step].set(belief.x), costs.at[step].set(cost))

    belief, (steps, costs) = jax.lax.fori_loop(0, count, advance, (belief, seen))
    return Followed(steps, costs, belief.theta)


def foreseen(model: EstimationModel, x: Float[Array, " nx"], t: Scalar, commands: Float[Array, "2 nc"]) -> Array:
    """Where the motion goes from x at t in one step, next to the constraints."""
    mechanism, dt = model.mechanism, model.dt
    n, nv = mechanism.n, mechanism.nv
    q, dq, u = x[:n], x[n : n + nv], x[n + nv :]
    shares, weights = (jnp.asarray(row, x.dtype) for row in _STAGES)

    def stage(k, carry):
        (v, a), total = carry
        share = shares[k]
        c = commands[0] + share * (commands[1] - commands[0])
        there = mechanism.retract(q, share * dt * v), dq + share * dt * a
        v, a = there[1], model.forcing.motion(mechanism, *there, t + share * dt, u, c)[0]
        return (v, a), jax.tree.map(lambda sum, rate: sum + weights[k] * rate, total, (v, a))

    zero = jnp.zeros_like(dq), jnp.zeros_like(dq)
    _, (v, a) = jax.lax.fori_loop(0, len(_STAGES[0]), stage, (zero, zero))
    there = mechanism.retract(q, dt * v)
    return jnp.concatenate([there, dq + dt * a, model.carried(u, q, there, t)])


def _corrected(model: EstimationModel, before: _Belief, data: StepData) -> tuple[_Belief, Scalar]:
    """(What is known with one more step, the cost of everything so far)."""
    k, p = before.E.shape[1], before.theta.shape[0]
    mechanism, t, free = model.mechanism, data.times, model.free

    def ahead(s):
        x, reading = before.x + before.E @ s[:k], model.reading(before.theta + s[k:])
        y = foreseen(reading, x, t - model.dt, data.commands)
        fixed = jax.lax.stop_gradient(y)
        return difference(mechanism, fixed, y), y

    F, y = jax.jacfwd(ahead, has_aux=True)(jnp.zeros(k + p))
    found = jnp.all(jnp.isfinite(y)) & jnp.all(jnp.isfinite(F))
    linked, lost = (data.linked != 0) & found, (data.linked != 0) & ~found
    y = jnp.where(linked, y, before.x)
    T, B, W = model.process(y, t)
    F = jnp.where(linked, model.chart.widened(B, model.memory) @ F, 0.0)
    W = jnp.where(linked, W, 0.0)
    rows = model.rows_with(y, data, T, B, W, model.frames(y, before.x, t))
    sensors = model.measurements(rows)
    series = rows.factors[SENSORS : SENSORS + len(sensors)]
    # What does not change from look to look: the past, the way from there, what is known of the step itself.
    past = jnp.concatenate([before.R, jnp.zeros((k + p, k)), before.d[:, None]], axis=1)
    # The noise is that of a rule in which the second velocity has a share in positions.
    dof, share = model.chart.dof, model.transition.velocity_share * model.dt
    W = W.at[:, dof : 2 * dof].add(-share * W[:, :dof])
    way = jnp.concatenate([-W @ F, W, jnp.zeros((k, 1))], axis=1)
    own = jnp.concatenate([jnp.zeros((k, k + p)), jnp.diag(model.prior_weights(data)), jnp.zeros((k, 1))], axis=1)
    square = jnp.linalg.qr(jnp.concatenate([past, way, own]), mode="r")
    fixed, offset, past_cost = square[:-1, :-1], square[:-1, -1], before.cost + 0.5 * square[-1, -1] ** 2
    # What is read on the step itself leaves alone the rows by which the step before is eliminated.
    lead = 0 if any(factor.scope == "interval" for factor in sensors) else k

    def read(s, x, E, change):
        """Residuals of all sensors at a change of the last variables of (step before, θ, this step) from s and x."""
        change = jnp.pad(change, (lead, 0))
        start = before.x + before.E @ (s[:k] + change[:k])
        theta = before.theta + s[k : k + p] + change[k : k + p]
        reading, ends = model.reading(theta), (start, x + E @ change[k + p :])
        return [
            factor.whitened(_instant(reading, factor, t, theta, values), weights, *_variables(model, factor, ends))
            for factor, (values, weights) in zip(sensors, series, strict=True)
        ]

    def look(s) -> _Look:
        x, E = model.chart.moved_with_tangent(mechanism, y, s[k + p :], t, B)

        def twice(change):
            residuals = read(s, x, E, change)
            return residuals, residuals

        slopes, residuals = jax.jacfwd(twice, has_aux=True)(jnp.zeros_like(s[lead:]))
        there = offset + fixed @ s
        parts, rest = [(there[lead:], fixed[lead:, lead:])], past_cost + jnp.where(lost, jnp.inf, 0.0)
        for factor, r, J in zip(sensors, residuals, slopes, strict=True):
            if factor.loss is not None:
                weight = jnp.sqrt(factor.loss.weight(factor.squares(r)))
                weight = jnp.repeat(weight, r.shape[0] // weight.shape[0])
                rest = rest + 0.5 * jnp.sum(factor.loss.rho(factor.squares(r))) - 0.5 * jnp.sum((weight * r) ** 2)
                r, J = weight * r, weight[:, None] * J
            parts.append((r, J))
        d, R = (jnp.concatenate(column) for column in zip(*parts, strict=True))
        square = jnp.linalg.qr(jnp.concatenate([R, d[:, None]], axis=1), mode="r")
        R = jnp.concatenate([fixed[:lead], jnp.pad(square[:-1, :-1], ((0, 0), (lead, 0)))])
        d = jnp.concatenate([there[:lead], square[:-1, -1]])
        return _Look(s, x, E, R, d, rest + 0.5 * square[-1, -1] ** 2)

    def advance(search: _Search) -> _Search:
        s = search.best.s + search.change
        if free.bounded:
            within = jnp.clip(before.theta + s[k : k + p], free.lower, free.upper)
            s = s.at[k : k + p].set(within - before.theta)
        new = look(s)
        better = (search.looks == 0) | (new.cost <= search.best.cost)
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), new, search.best)
        less = jnp.where(search.damping > _UNDAMPED, search.damping / 10, 0.0)
        damping = jnp.where(better, less, jnp.maximum(10 * search.damping, _DAMPED))
        over = better & (new.helped <= _ENOUGH)
        looks = search.looks + 1
        return _Search(best, _solution(best, damping), damping, looks, over | (looks >= _PASSES))

    zero, wide = jnp.zeros(2 * k + p), jnp.zeros((2 * k + p, 2 * k + p))
    blank = _Look(zero, before.x, before.E, wide, zero, before.cost)
    search = _Search(blank, zero, jnp.zeros(()), jnp.asarray(0), jnp.asarray(False))
    best = while_loop(lambda search: ~search.done, advance, search).best
    # The step before is eliminated: its columns are the first.
    R = jnp.concatenate([best.R[k:, k + p :], best.R[k:, k : k + p]], axis=1)
    return _Belief(best.x, best.E, before.theta + best.s[k : k + p], R, best.d[k:], best.rest), best.cost


def _solution(look: _Look, damping: Scalar) -> Float[Array, " changes"]:
    """The change that lowers the cost most, less far by the damping; none in directions of which nothing is known."""

    def damped(R, d):
        held = jnp.pad(jnp.diag(jnp.sqrt(damping * jnp.sum(R**2, axis=0))), ((0, 0), (0, 1)))
        square = jnp.linalg.qr(jnp.concatenate([jnp.column_stack([R, d]), held]), mode="r")
        return square[:-1, :-1], square[:-1, -1]

    R, d = jax.lax.cond(damping > 0, damped, lambda R, d: (R, d), look.R, look.d)
    unknown = jnp.diag(R) == 0
    R = jnp.where(unknown[:, None], jnp.eye(unknown.size, dtype=R.dtype), R)
    return -jax.scipy.linalg.solve_triangular(R, jnp.where(unknown, 0.0, d))


def _variables(model: EstimationModel, factor: Factor, ends: tuple[Array, Array]) -> list[Array]:
    """(q, dq, u) of what a factor reads: of the second step, or of both."""
    n, nv = model.mechanism.n, model.mechanism.nv
    return [part for x in (ends if factor.scope == "interval" else ends[1:]) for part in jnp.split(x, [n, n + nv])]


def _instant(model: EstimationModel, factor: Factor, t: Scalar, theta, values) -> Instant:
    shared = {name: model.shared[name] for name in factor.shared}
    return Instant(model.mechanism, t, model.dt, theta, shared, values, factor.data)
