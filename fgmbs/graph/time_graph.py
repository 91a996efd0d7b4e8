"""The factor graph over time: variables, factors, and their linearization into blocks."""

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from fgmbs.algebra.slopes import changed
from fgmbs.dynamics.chart import MotionChart
from fgmbs.errors import ArgumentError
from fgmbs.factors.base import Factor, Instant
from fgmbs.graph.model import Model, has_mechanism, margins, mechanism_slopes, of_mechanism, rebuilt
from fgmbs.graph.places import by_variables, cost_hessian, linearization, over_time, value
from fgmbs.linear.blocks import BlockTridiagonal, LeastSquares
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Scalar
from fgmbs.unknowns import Free

Sizes = tuple[tuple[str, int], ...]


class Unknowns(NamedTuple):
    """What a graph is solved for: all variables of all steps, and the global parameters."""

    steps: Float[Array, "*recordings steps nx"]
    globals: Float[Array, " p"]


class Rows(NamedTuple):
    """What varies with time in a graph: of all its steps, or of one step without the leading axis."""

    times: Float[Array, "*steps"]
    factors: tuple[tuple[PyTree, Array | None], ...]
    """Series and weights of every factor."""


class Look(NamedTuple):
    """What one evaluation of a graph with derivatives gives."""

    system: LeastSquares
    """The whitened least-squares system in δ, one row block per factor and place; rows of robust factors are scaled by
    √ρ', so that the gradient is exact."""
    cost: Scalar
    residuals: PyTree
    """Whitened residuals before any robust loss: of every factor at all its places, of free runs a `Miss`."""
    tangents: Float[Array, "*recordings steps nx local"] | None
    """∂x/∂δ of every step; None where that is the identity."""


class TimeGraph(eqx.Module):
    """Factors on variables at uniform time steps.

    Attributes:
        mechanism: Read by the factors; derivatives with respect to its leaves pass through every solve.
        factors: The factors. Their cost is Σ ½ρ(‖whitened residual‖²).
        sizes: Name and size of the variables of one step, in the order in which they are stacked.
        times: Time of every step [s].
        dt: Time step [s].
        shared: By name, what factors read besides the mechanism, as sensors.
        free: θ, the unknown leaves of (mechanism, shared); the model is rebuilt from it once per evaluation.
        chart: Local coordinates of the steps, on which everything linear acts; the first variables of a step are q and
            dq then. Without it, a first variable q moves by q ⊞ v, and all others are vectors.
    """

    mechanism: AbstractMechanism
    factors: tuple[Factor, ...]
    sizes: Sizes = eqx.field(static=True)
    times: Float[Array, " steps"]
    dt: Scalar
    shared: dict[str, PyTree] = eqx.field(default_factory=dict)
    free: Free = eqx.field(default_factory=Free)
    chart: MotionChart | None = None

    def __check_init__(self):
        for factor in self.factors:
            for name in factor.variables:
                if name not in dict(self.sizes):
                    raise ArgumentError(
                        f"factor '{factor.name}' reads the variable {name!r}; the graph has {list(dict(self.sizes))}"
                    )
            for name in factor.shared:
                if name not in self.shared:
                    raise ArgumentError(f"factor '{factor.name}' reads {name!r}; the graph shares {list(self.shared)}")

    @property
    def num_steps(self) -> int:
        return self.times.shape[0]

    @property
    def step_size(self) -> int:
        """Variables of one step, nx."""
        return sum(size for _, size in self.sizes)

    @property
    def local_size(self) -> int:
        """Local coordinates of one step."""
        if self.chart is not None:
            return self.chart.local_size(self.mechanism, self.step_size)
        return self.step_size - (self.mechanism.n - self.mechanism.nv if self._curved else 0)

    @property
    def _curved(self) -> bool:
        """Whether the variables are no vectors, though there is no chart."""
        return self.chart is None and self.sizes[0][0] == "q" and not self.mechanism.is_vector_space

    def pack(self, values: dict[str, Float[Array, "steps _"]], theta: Float[Array, " p"] | None = None) -> Unknowns:
        """Stack named variables (each (steps, size)) and θ, by default the centre of its prior."""
        steps = jnp.concatenate([values[name] for name, _ in self.sizes], axis=1)
        return Unknowns(steps, self.free.value if theta is None else theta)

    def unpack(self, steps: Float[Array, "*batch nx"]) -> dict[str, Float[Array, "*batch _"]]:
        """Named variables of stacked ones."""
        return _split(steps, self.sizes)

    @property
    def rows(self) -> "Rows":
        """Everything in the graph that varies with time."""
        return Rows(self.times, tuple((factor.series, factor.weights) for factor in self.factors))

    def with_rows(self, rows: "Rows") -> "TimeGraph":
        """The same graph over other steps."""
        factors = tuple(
            eqx.tree_at(lambda f: (f.series, f.weights), factor, varying, is_leaf=lambda leaf: leaf is None)
            for factor, varying in zip(self.factors, rows.factors, strict=True)
        )
        return eqx.tree_at(lambda graph: (graph.factors, graph.times), self, (factors, rows.times))

    def cost(self, x: Unknowns) -> Scalar:
        """Σ over all factors of ½ρ."""
        return jnp.sum(self.factor_costs(x))

    def factor_costs(self, x: Unknowns) -> Float[Array, " factors"]:
        """Cost of every factor, summed over time."""
        return jnp.stack([jnp.sum(factor.costs(r)) for factor, r in self._evaluate(x, value)])

    def model(self, theta: Float[Array, " p"]) -> Model:
        """(mechanism, shared) of θ."""
        return rebuilt(self.free, (self.mechanism, self.shared), theta)

    def margins(self, theta: Float[Array, " p"]) -> Float[Array, " k"]:
        """What θ leaves of `free.limited`; it must not be negative."""
        return margins(self.free, self.mechanism, theta)

    def moved(self, x: Unknowns, delta: Unknowns) -> Unknowns:
        """x ⊞ δ; NaN in steps that cannot be reached."""
        globals = x.globals + delta.globals
        if self.chart is None and not self._curved:
            return Unknowns(x.steps + delta.steps, globals)
        mechanism, _ = self.model(globals)
        move = lambda x, delta, t: self._move(mechanism, x, delta, t)
        return Unknowns(over_time(move, x.steps, delta.steps, self.times), globals)

    def _move(self, mechanism: AbstractMechanism, x, delta, t) -> Float[Array, " nx"]:
        """x ⊞ δ of one step."""
        if self.chart is not None:
            return self.chart.move(mechanism, x, delta, t)
        n, nv = self.mechanism.n, self.mechanism.nv
        return jnp.concatenate([mechanism.retract(x[:n], delta[:nv]), x[n:] + delta[nv:]])

    def zeros(self, x: Unknowns) -> Unknowns:
        """δ = 0."""
        return Unknowns(jnp.zeros((self.num_steps, self.local_size), x.steps.dtype), jnp.zeros_like(x.globals))

    def tangents(self, x: Unknowns) -> Float[Array, "steps nx columns"] | None:
        """∂x/∂δ of every step, and where θ moves the constraints ∂x/∂θ; None where ∂x/∂δ is the identity."""
        mechanism, _ = self.model(x.globals)
        if (chart := self.chart) is not None:
            along = mechanism_slopes(self.free, self.mechanism, x.globals)
            return over_time(lambda x, t: chart.tangent(mechanism, x, t, along), x.steps, self.times)
        if not self._curved:
            return None
        n = self.mechanism.n
        free = jnp.eye(self.step_size - n, dtype=x.steps.dtype)
        return over_time(lambda x: jax.scipy.linalg.block_diag(mechanism.coordinate_rates(x[:n]), free), x.steps)

    def residuals(self, x: Unknowns) -> tuple[Float[Array, "*places rows"], ...]:
        """Whitened residuals of every factor at all its places, before any robust loss."""
        return tuple(r for _, r in self._evaluate(x, value))

    def linearize(self, x: Unknowns) -> tuple[LeastSquares, Scalar]:
        """The whitened least-squares system in δ at x, and the cost there."""
        return self.look(x)[:2]

    def look(self, x: Unknowns) -> Look:
        """Everything that one evaluation at x with derivatives gives."""
        rows = {"initial": [], "step": [], "interval": [], "global": []}
        robust = 0.0
        residuals, tangents = [], self.tangents(x)
        for factor, r, jacobian in self._evaluate(x, linearization, tangents):
            residuals.append(r)
            variables, theta = jacobian
            parts = factor.reweighted(r, *self._blocks(factor, r, variables), theta @ self._spread(factor))
            rows[factor.scope].append(parts)
            if factor.loss is not None:
                robust += jnp.sum(factor.costs(r)) - 0.5 * jnp.sum(parts[0] ** 2)
        T, nx, p = self.num_steps, self.local_size, x.globals.shape[0]
        dtype = x.steps.dtype

        def stacked(scope, lead, blocks):
            empty = (jnp.zeros((*lead, 0), dtype), *(jnp.zeros((*lead, 0, nx), dtype),) * blocks)
            empty = (*empty, jnp.zeros((*lead, 0, p), dtype))
            parts = rows[scope] or [empty]
            return [jnp.concatenate(part, axis=len(lead)) for part in zip(*parts, strict=True)]

        initial = stacked("initial", (), 1)
        step = stacked("step", (T,), 1)
        pair = stacked("interval", (T - 1,), 2)
        global_ = stacked("global", (), 0)
        system = LeastSquares(
            initial_residual=initial[0],
            initial_jacobian=initial[1],
            initial_arrow=initial[2],
            step_residual=step[0],
            step_jacobian=step[1],
            step_arrow=step[2],
            pair_residual=pair[0],
            pair_start=pair[1],
            pair_end=pair[2],
            pair_arrow=pair[3],
            global_residual=global_[0],
            global_jacobian=global_[1],
        )
        return Look(system, system.cost() + robust, tuple(residuals), tangents)

    def jacobian(self, x: Unknowns) -> tuple[Float[Array, "*places rows nx"], ...]:
        """The derivatives of the system that `look` sees by steps alone: initial_jacobian, step_jacobian, pair_start,
        pair_end."""
        T, nx = self.num_steps, self.local_size
        leads = {"initial": ((), 1), "step": ((T,), 1), "interval": ((T - 1,), 2)}
        rows = {scope: [(jnp.zeros((*lead, 0, nx), x.steps.dtype),) * ends] for scope, (lead, ends) in leads.items()}
        of_steps = tuple(factor for factor in self.factors if factor.scope != "global")
        graph = eqx.tree_at(lambda graph: graph.factors, self, of_steps)
        for factor, r, variables in graph._evaluate(x, by_variables, self.tangents(x)):
            _, *blocks = factor.reweighted(r, *self._blocks(factor, r, variables))
            rows[factor.scope].append(blocks)
        return tuple(jnp.concatenate(part, axis=-2) for parts in rows.values() for part in zip(*parts, strict=True))

    def gradient(self, x: Unknowns) -> Unknowns:
        """Gradient of the cost with respect to δ at x."""
        return jax.grad(lambda delta: self.cost(self.moved(x, delta)))(self.zeros(x))

    def hessian(self, x: Unknowns) -> BlockTridiagonal:
        """Exact Hessian of the cost with respect to δ at x, second derivatives of the residuals included."""
        H, E = self._hessian(x), self.tangents(x)
        if E is None:
            return H
        # cost(x + E δ + ½ δᵀ D δ): Eᵀ H E, and at every step the gradient times D.
        steps, size = jax.grad(self.cost)(x).steps, self.local_size

        def bend(x_k, t, gradient):
            def along(delta):
                theta = x.globals + delta[size:] if has_mechanism(self.free) else x.globals
                return gradient @ self._move(self.model(theta)[0], x_k, delta[:size], t)

            return jax.hessian(along)(jnp.zeros(E.shape[-1], x.steps.dtype))

        D = jax.vmap(bend)(x.steps, self.times, steps)
        E, F = E[..., :size], E[..., size:]  # of δ and of θ
        diagonal = jnp.einsum("kxa,kxy,kyb->kab", E, H.diagonal, E) + D[:, :size, :size]
        lower = jnp.einsum("kxa,kxy,kyb->kab", E[1:], H.lower, E[:-1])
        if not has_mechanism(self.free):
            return BlockTridiagonal(diagonal, lower, jnp.einsum("kpx,kxa->kpa", H.arrow, E), H.corner)
        # x + E δ + F θ: what F brings, Fᵀ H of all steps.
        G = jnp.einsum("kxp,kxy->kpy", F, H.diagonal)
        G = G.at[:-1].add(jnp.einsum("kxp,kxy->kpy", F[1:], H.lower))
        G = G.at[1:].add(jnp.einsum("kyp,kxy->kpx", F[:-1], H.lower))
        both = jnp.einsum("kpx,kxq->pq", H.arrow, F)
        return BlockTridiagonal(
            diagonal=diagonal,
            lower=lower,
            arrow=jnp.einsum("kpx,kxa->kpa", H.arrow + G, E) + D[:, size:, :size],
            corner=H.corner + both + both.T + jnp.einsum("kpx,kxq->pq", G, F) + jnp.sum(D[:, size:, size:], axis=0),
        )

    def _hessian(self, x: Unknowns) -> BlockTridiagonal:
        """Hessian with respect to the variables."""
        T, nx, p = self.num_steps, self.step_size, x.globals.shape[0]
        diagonal = jnp.zeros((T, nx, nx), x.steps.dtype)
        lower = jnp.zeros((T - 1, nx, nx), x.steps.dtype)
        arrow = jnp.zeros((T, p, nx), x.steps.dtype)
        corner = jnp.zeros((p, p), x.steps.dtype)
        for factor, _, local in self._evaluate(x, cost_hessian):
            columns = self._columns(factor)
            wide = jnp.zeros((*local.shape[:-2], 2 * nx + p, 2 * nx + p), x.steps.dtype)
            wide = wide.at[..., columns[:, None], columns].set(local)
            first, second, last = slice(0, nx), slice(nx, 2 * nx), slice(2 * nx, None)
            corner = corner + jnp.sum(wide[..., last, last], axis=tuple(range(wide.ndim - 2)))
            if factor.scope == "interval":
                diagonal = diagonal.at[:-1].add(wide[:, first, first]).at[1:].add(wide[:, second, second])
                lower = lower + wide[:, second, first]
                arrow = arrow.at[:-1].add(wide[:, last, first]).at[1:].add(wide[:, last, second])
            elif factor.scope != "global":
                places = 0 if factor.scope == "initial" else slice(None)
                diagonal = diagonal.at[places].add(wide[..., first, first])
                arrow = arrow.at[places].add(wide[..., last, first])
        return BlockTridiagonal(diagonal=diagonal, lower=lower, arrow=arrow, corner=corner)

    # Evaluation of one factor at all its places.

    def _evaluate(self, x: Unknowns, evaluate: Callable, tangents: Float[Array, "steps nx columns"] | None = None):
        """(factor, *evaluate(whitened residual, factor, arguments)) of every factor at all its places.

        The arguments are (its variables, change of those of θ it depends on), or with tangents (δ of its steps, these).
        """
        values, model = self.unpack(x.steps), self.model(x.globals)
        # Second derivatives need more of the mechanism than its slopes.
        along = mechanism_slopes(self.free, self.mechanism, x.globals) if evaluate is linearization else None
        for factor in self.factors:
            spread = self._spread(factor)

            def function(variables, row, E, factor=factor, spread=spread):
                t, series, weights = row

                def residual(arguments):
                    moved, change = arguments
                    change = change @ spread
                    theta = x.globals + change
                    if E is not None:
                        moved = self._shifted(factor, variables, E, moved, change)
                    fixed = evaluate in (value, by_variables) or len(spread) == 0
                    mechanism, shared = model if fixed else self._near(model, along, theta, change)
                    shared = {name: shared[name] for name in factor.shared}
                    at = Instant(mechanism, t, self.dt, theta, shared, series, factor.data)
                    return factor.whitened(at, weights, *moved)

                arguments = variables if E is None else tuple(jnp.zeros(self.local_size, e.dtype) for e in E)
                return evaluate(residual, factor, (arguments, jnp.zeros(len(spread), x.globals.dtype)))

            rows = (self.times, factor.series, factor.weights)
            if factor.scope in ("global", "initial"):
                variables = tuple(values[name][0] for name in factor.variables)
                E = None if tangents is None or factor.scope == "global" else (tangents[0],)
                yield factor, *function(variables, jax.tree.map(itemgetter(0), rows), E)
            else:
                ends = (slice(None, -1), slice(1, None)) if factor.scope == "interval" else (slice(None),)
                variables = tuple(values[name][end] for end in ends for name in factor.variables)
                E = None if tangents is None else tuple(tangents[end] for end in ends)
                rows = jax.tree.map(itemgetter(slice(len(ends) - 1, None)), rows)
                yield factor, *over_time(function, variables, rows, E)

    def _of_theta(self, factor: Factor) -> np.ndarray | Array:
        """Which of θ a factor may depend on: of numbers that each recording has of its own, on those of this one."""
        if factor.theta:
            return np.arange(self.free.size)
        return self.free.columns(lambda place: of_mechanism(place) or place.path[1].key in factor.shared)

    def _spread(self, factor: Factor) -> np.ndarray | Array:
        """Rows of the identity for those of θ on which a factor may depend."""
        which = self._of_theta(factor)
        return (np if isinstance(which, np.ndarray) else jnp).eye(self.free.size)[which]

    def _near(self, model: Model, along: AbstractMechanism | None, theta, change) -> Model:
        """The model of θ, that of θ − change being given; the mechanism by its slopes where these are given."""
        if along is None:
            return self.model(theta)
        return changed(model[0], along, change), self.free.put(model, theta)[1]

    def _shifted(self, factor: Factor, variables, tangents, deltas, change) -> tuple[Array, ...]:
        """Variables of a factor at x + E δ, δ of each of its steps; with E those of θ where they move the steps."""
        shifts = []
        for E, delta in zip(tangents, deltas, strict=True):
            delta = jnp.concatenate([delta, change]) if E.shape[-1] > delta.shape[0] else delta
            shifts += [self.unpack(E @ delta)[name] for name in factor.variables]
        return tuple(value + shift for value, shift in zip(variables, shifts, strict=True))

    def _columns(self, factor: Factor) -> np.ndarray | Array:
        """Where the flat (variables, θ) of a factor sit among the columns [step, next step, θ]."""
        nx = self.step_size
        steps = _split(np.arange(nx), self.sizes)
        ends = (0, nx) if factor.scope == "interval" else (0,)
        parts = [steps[name] + end for end in ends for name in factor.variables]
        theta = self._of_theta(factor)
        join = np.concatenate if isinstance(theta, np.ndarray) else jnp.concatenate
        return join([np.zeros(0, int), *parts, 2 * nx + theta])

    def _blocks(self, factor: Factor, r: Array, variables: tuple[Array, ...]) -> tuple[Array, ...]:
        """Blocks over all local coordinates of a step, from the derivatives by variable or by them."""
        if factor.scope == "global" or self.chart is not None or self._curved:
            return tuple(variables)

        def widen(blocks, sizes):
            parts = [blocks.get(name, jnp.zeros((*r.shape, size), r.dtype)) for name, size in sizes]
            return jnp.concatenate([jnp.zeros((*r.shape, 0), r.dtype), *parts], axis=-1)

        count = len(factor.variables)
        ends = [variables[:count], variables[count:]] if factor.scope == "interval" else [variables]
        return tuple(widen(dict(zip(factor.variables, part, strict=True)), self.sizes) for part in ends)


def _split(stacked, sizes: Sizes) -> dict:
    parts, start = {}, 0
    for name, size in sizes:
        parts[name] = stacked[..., start : start + size]
        start += size
    return parts
