"""Levenberg–Marquardt on a graph over time: a jaxopt iterative solver whose linear step is structured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxopt.base import IterativeSolver, OptStep
from jaxtyping import Array, ArrayLike, Float, Int, PyTree

from fgmbs.compiled.tracing import while_loop
from fgmbs.graph.time_graph import Look, Unknowns
from fgmbs.linear import METHODS, Damped, Factorization, LeastSquares, factorize_matrix
from fgmbs.linear.triangle import AbstractFactor
from fgmbs.solvers.limits import Limited, bounds_of, possible
from fgmbs.status import Status
from fgmbs.typing import Scalar

_HARDLY = 0.1
"""Part of the slope along a step that damping may take up for its size to tell how far the minimum is."""
_LAST_DIGITS = 512
"""Rounding of a cost, in units of its last digit: residuals are differences of numbers of 1e3 standard deviations."""


@runtime_checkable
class Graph(Limited, Protocol):
    """What can be solved: a `TimeGraph`, a `JointGraph`, or something else that is least squares in blocks.

    Its solution has derivatives if it has a `hessian`, too.
    """

    def look(self, x: Unknowns) -> Look:
        """Everything that one evaluation at x with derivatives gives."""
        ...

    def moved(self, x: Unknowns, delta: Unknowns) -> Unknowns:
        """x ⊞ δ."""
        ...

    def zeros(self, x: Unknowns) -> Unknowns:
        """δ = 0."""
        ...

    def gradient(self, x: Unknowns) -> Unknowns:
        """Gradient of the cost with respect to δ at x."""
        ...


class LMState(NamedTuple):
    """State of the iteration. `params` of the step is the best point so far, `trial` the next one to look at."""

    iter_num: Int[Array, ""]
    status: Status
    error: Scalar
    """Norm of the last step against that of the unknowns."""
    trial: Unknowns
    point: Unknowns
    """The best point that was looked at …"""
    look: Look
    """… what was seen there: linearization, cost, residuals …"""
    gradient: Unknowns
    """… and the gradient of the cost."""
    factor: AbstractFactor | None
    """Of the last linear step: of the linearization, damped. None unless the solver holds it."""
    damping: Scalar
    growth: Scalar
    predicted: Scalar
    """Decrease of the cost that the linearization promises for the trial."""
    history: Float[Array, " maxiter"]
    """Cost at the best point after every iteration; NaN where there was none."""


@dataclass(eq=False)
class LevenbergMarquardt(IterativeSolver):
    """Minimizes the cost of a `TimeGraph`, or of a `JointGraph` of several ([Blanco21] eq. (19)).

    One iteration looks at the trial point (one linearization, the only one in the program), keeps the better point,
    and solves (JᵀJ + μ diag(D)) δ = −Jᵀr there for the next trial. A trial whose cost is higher or not finite is
    rejected and damped; it is never returned. The step that is found too small to matter is still taken. Bounds of
    unknown numbers hold exactly: the Schur complement of θ is solved within them. `run` is
    differentiable in forward and reverse mode with respect to everything in the graph, by the implicit function theorem
    with the exact Hessian.

    Attributes:
        linear: "sequential" (block Cholesky), "sqrt" (block QR, for stiff weights) or "dense" (tests).
        maxiter: Iteration limit.
        tol: Converged when ‖δ‖ ≤ tol (‖x‖ + tol) and damping hardly holds δ, or when the predicted decrease of the cost
            is below its rounding (its last digits, once it falls no more) or below a step of 1e-8 standard deviations
            for every residual.
        damping: Initial μ, against the diagonal of JᵀJ.
        damps_steps: Whether all is damped alike, or steps by the share μ/(1 + μ) only. Where neighbouring steps are
            tied tightly, μ times the diagonal holds the directions along which they move together, while of steps whose
            θ is known little is nonlinear.
        enough: Predicted decrease of the cost that is not worth another look: √(2 · enough) standard deviations.
        share: The same as a share of the cost, where residuals may be far larger than their noise.
        holds_factor: The state holds the last factor, which spares `factorization` one more, and costs memory.
    """

    linear: str = "sequential"
    maxiter: int = 30
    tol: float = 1e-9
    damping: float = 0.0
    damps_steps: bool = True
    enough: float = 0.0
    share: float | Scalar = 0.0
    holds_factor: bool = False
    verbose: bool | int = False
    jit: bool = False
    unroll: Any = False

    def init_state(self, init_params: Unknowns, graph: Graph) -> LMState:
        """State before the first iteration; evaluates nothing."""
        dtype = init_params.steps.dtype
        zero, inf = graph.zeros(init_params), jnp.asarray(jnp.inf, dtype)

        def shapes():
            look = _look(graph, init_params)
            return look, METHODS[self.linear](look.system, *zero).factor if self.holds_factor else None

        look, factor = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(shapes))
        return LMState(
            iter_num=jnp.asarray(0, int),
            status=Status.running,
            error=inf,
            trial=init_params,
            point=init_params,
            look=look._replace(cost=inf),
            gradient=zero,
            factor=factor,
            damping=jnp.asarray(self.damping, dtype),
            growth=jnp.asarray(2.0, dtype),
            predicted=inf,
            history=jnp.full(self.maxiter, jnp.nan, dtype),
        )

    def update(self, params: Unknowns, state: LMState, graph: Graph) -> OptStep:
        """One iteration; the identity once the status is no longer `running`."""
        step = self._update(state, graph)
        running = state.status == Status.running
        return jax.tree.map(lambda new, old: jnp.where(running, new, old), step, OptStep(params, state))

    def _update(self, state: LMState, graph: Graph) -> OptStep:
        return self.judged(state, self.looked(state, graph), graph)

    def looked(self, state: LMState, graph: Graph) -> Look:
        """The first half of an iteration: the look at the trial."""
        return _look(graph, state.trial)

    def judged(self, state: LMState, look: Look, graph: Graph) -> OptStep:
        """The second half: what a look at the trial says of it, and the next one."""
        first = state.iter_num == 0
        system, cost = look.system, look.cost
        looked = (state.trial, look, Unknowns(*system.gradient()))
        # The gradient meets every entry of the residual and of its Jacobian.
        finite = jnp.isfinite(cost + _total(looked[2]))
        # Costs of residuals of 1e-6 standard deviations and the last digits of a cost are rounding, which must not
        # count against a step.
        eps, rounding = jnp.finfo(cost.dtype).eps, 1e-12 * system.num_residuals
        accept = finite & (cost <= jnp.maximum((1 + _LAST_DIGITS * eps) * state.look.cost, rounding))
        falls, gain_ratio = cost < state.look.cost, jnp.maximum(state.look.cost - cost, 0) / state.predicted
        best = (state.point, state.look, state.gradient)
        better = accept | first
        point, look, gradient = jax.tree.map(lambda new, old: jax.lax.select(better, new, old), looked, best)
        system, cost = look.system, look.cost

        # Nielsen's rule: smooth decrease of the damping by the gain ratio, ever faster growth while steps fail.
        shrink = jnp.maximum(1 / 3, 1 - (2 * gain_ratio - 1) ** 3)
        shrink = jnp.where(first, 1.0, shrink)
        damping = jnp.where(accept, state.damping * shrink, jnp.maximum(state.damping, 1e-8) * state.growth)
        damping = jnp.where(damping < 1e-12, 0.0, damping)
        growth = jnp.where(accept, 2.0, 2 * state.growth)

        diagonal = jax.lax.cond(damping > 0, _scaled_diagonal, _no_diagonal, system, damping)
        if not self.damps_steps:
            diagonal = diagonal._replace(steps=damping / (1 + damping) * diagonal.steps)
        factorization = METHODS[self.linear](system, diagonal.steps, diagonal.globals)
        bounds = bounds_of(graph, point.globals)
        delta = Unknowns(*(factorization.minimizer() if bounds is None else factorization.minimizer_within(*bounds)))
        solved = jnp.isfinite(_total(delta))
        delta = jax.tree.map(lambda d: jnp.where(solved, d, 0.0), delta)
        if graph.free.limited:
            delta = delta._replace(globals=possible(graph, point.globals + delta.globals) - point.globals)
        trial = graph.moved(point, delta)

        held, slope = _dot(delta, jax.tree.map(jnp.multiply, diagonal, delta)), -_dot(delta, gradient)
        if bounds is None:
            predicted = 0.5 * (held + slope)
        else:
            # To rounding: θ + (bound − θ) is not the bound.
            trial = trial._replace(globals=jnp.clip(trial.globals, graph.free.lower, graph.free.upper))
            predicted = slope - system.product(*delta).cost()
        error = jnp.sqrt(_dot(delta, delta)) / (jnp.sqrt(_dot(point, point)) + self.tol)
        # Heavy damping makes any step small; where neighbouring steps are tied tightly, 1e-8 of the diagonal is heavy.
        undamped = held <= _HARDLY * slope
        share = jnp.maximum(jnp.where(falls, 1, _LAST_DIGITS) * eps, self.share)
        negligible = jnp.maximum(share * cost, 1e-4 * rounding + self.enough)
        small = (undamped & (error <= self.tol)) | ((damping < 1) & (predicted <= negligible))
        status = _first_true(
            (first & ~finite, Status.non_finite),
            (solved & small, Status.converged),
            (damping > 1e12, Status.stalled),
            (state.iter_num + 1 >= self.maxiter, Status.iteration_limit),
            default=Status.running,
        )
        # The last step is too small to be looked at, but it doubles the number of right digits.
        params = jax.tree.map(lambda a, b: jnp.where(status == Status.converged, a, b), trial, point)
        return OptStep(
            params,
            LMState(
                iter_num=state.iter_num + 1,
                status=status,
                error=jnp.where(solved, error, jnp.inf),
                trial=trial,
                point=point,
                look=look,
                gradient=gradient,
                factor=factorization.factor if self.holds_factor else None,
                # An unsolved system counts as a rejected trial: its cost is compared with itself, its gain is zero.
                damping=jnp.where(solved, damping, jnp.maximum(damping, 1e-8) * 10),
                growth=growth,
                predicted=jnp.where(solved, predicted, jnp.inf),
                history=jnp.where(jnp.arange(self.maxiter) == state.iter_num, cost, state.history),
            ),
        )

    def factorization(self, state: LMState) -> Factorization:
        """The system at the solution, factorized without damping: as the last iteration did, if it had none."""
        system = state.look.system
        zero = _no_diagonal(system, state.damping)
        if state.factor is None:
            return METHODS[self.linear](system, *zero)

        def anew(system):
            return METHODS[self.linear](system, *zero).factor

        factor = jax.lax.cond(state.damping > 0, anew, lambda _: state.factor, system)
        return Factorization(Damped(system, *zero), factor)

    def optimality_fun(self, params: Unknowns, graph: Graph) -> Unknowns:
        """Gradient of the cost; zero at a solution."""
        return graph.gradient(params)

    def run(
        self,
        init_params: Unknowns,
        graph: Graph,
        damping: Scalar | None = None,
        most: Int[ArrayLike, ""] | None = None,
    ) -> OptStep:
        """Iterates to the end; see the class. The result does not depend on `init_params` to first order.

        Args:
            init_params: Where it begins.
            graph: What is minimized.
            damping: Initial μ, in the place of that of the solver.
            most: Iterations after which it pauses, `running`; after one, what is seen at `init_params` is in the state.
        """
        return _run(self, init_params, graph, damping, most)


@eqx.filter_custom_jvp
def _run(
    solver: LevenbergMarquardt,
    init_params: Unknowns,
    graph: Graph,
    damping: Scalar | None,
    most: Int[ArrayLike, ""] | None,
) -> OptStep:
    state = solver.init_state(init_params, graph)
    state = state if damping is None else state._replace(damping=damping)
    most = solver.maxiter if most is None else most
    return while_loop(
        lambda step: (step.state.status == Status.running) & (step.state.iter_num < most),
        lambda step: solver._update(step.state, graph),
        OptStep(init_params, state),
    )


@_run.def_jvp
def _run_jvp(primals, tangents):
    solver, init_params, graph, damping, most = primals
    t_graph = tangents[2]
    params, state = _run(solver, init_params, graph, damping, most)
    t_params = response(graph, params)(t_graph)
    _, t_look = eqx.filter_jvp(lambda graph, x: graph.look(x), (graph, params), (t_graph, t_params))
    t_state = jax.tree.map(lambda _: None, state)._replace(point=t_params, look=t_look)
    return OptStep(params, state), OptStep(t_params, t_state)


def response(graph: Any, params: Unknowns) -> Callable[[PyTree], Unknowns]:
    """How a solution moves with the graph: tangents of the graph → tangents of the solution, a linear function.

    By the implicit function theorem: at a solution the gradient g(x, graph) vanishes, H t_x = −(∂g/∂graph) t_graph, H
    the exact Hessian.
    """
    zero, hessian = graph.zeros(params), graph.hessian(params)
    free, held = graph.free, jnp.zeros(graph.free.size, bool)
    if free.bounded:
        held = (params.globals <= free.lower) | (params.globals >= free.upper)
        of_others, hessian = hessian, hessian.without(held)
    factorization = factorize_matrix(hessian)

    def tangent(t_graph):
        _, t_gradient = eqx.filter_jvp(lambda graph: graph.gradient(params), (graph,), (t_graph,))
        t_gradient = jax.tree.map(lambda x, t: jnp.zeros_like(x) if t is None else t, zero, t_gradient)
        t_held = zero.globals
        if free.bounded:
            # Numbers on their bounds move with these, which the others answer to.
            for bound, t_bound in ((free.lower, t_graph.free.lower), (free.upper, t_graph.free.upper)):
                t_held = t_held if t_bound is None else jnp.where(params.globals == bound, t_bound, t_held)
            t_gradient = jax.tree.map(jnp.add, t_gradient, Unknowns(*of_others.matvec(zero.steps, t_held)))
            t_gradient = t_gradient._replace(globals=jnp.where(held, 0.0, t_gradient.globals))
        t_delta = Unknowns(*factorization.solve(-t_gradient.steps, -t_gradient.globals))
        t_delta = t_delta._replace(globals=t_delta.globals + t_held)
        # Where the constraints themselves move, the steps move with them.
        return eqx.filter_jvp(lambda delta, graph: graph.moved(params, delta), (zero, graph), (t_delta, t_graph))[1]

    return tangent


@eqx.filter_jit(inline=True)
def _look(graph: Graph, x: Unknowns) -> Look:
    """Compiled functions are traced once for their shapes, and this one is wanted twice in a program."""
    return graph.look(x)


def _total(tree) -> Scalar:
    """Sum of all entries; not finite if any of them is not."""
    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree))


def _dot(a, b) -> Scalar:
    return sum(jnp.vdot(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def _scaled_diagonal(system: LeastSquares, damping: Scalar) -> Unknowns:
    """The damping: μ times the diagonal of JᵀJ, which is kept away from zero."""
    steps, globals_ = system.diagonal()
    floor = 1e-12 * (jnp.max(steps) + 1e-300)
    return Unknowns(damping * jnp.maximum(steps, floor), damping * jnp.maximum(globals_, floor))


def _no_diagonal(system: LeastSquares, damping: Scalar) -> Unknowns:
    del damping
    return Unknowns(*system.zeros())


def _first_true(*cases, default: Status) -> Status:
    status = default
    for condition, value in reversed(cases):
        status = Status.where(condition, value, status)
    return status
