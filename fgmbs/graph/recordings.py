"""The graph of several recordings: time graphs side by side that share θ."""

from collections.abc import Callable
from operator import itemgetter

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from fgmbs.factors.base import Factor
from fgmbs.graph.places import over_recordings
from fgmbs.graph.time_graph import Look, TimeGraph, Unknowns
from fgmbs.linear.blocks import BlockTridiagonal, LeastSquares
from fgmbs.typing import Scalar
from fgmbs.unknowns import Free


class JointGraph(eqx.Module):
    """Several recordings, each with steps, times and a time step of its own, of which one θ is found.

    Its unknowns are steps with a first axis of recordings, and θ. It is asked what a `TimeGraph` is asked; systems,
    residuals and tangents have that axis, the cost is the sum.

    Attributes:
        each: The graphs of the recordings, all of whose arrays have a first axis of recordings, as `eqx.filter_vmap` of
            a function that makes a graph returns them. Recordings that are shorter are padded with steps that nothing
            links. Factors of scope "global" say something of θ, and count once: those of the first graph do.
    """

    each: TimeGraph

    @property
    def free(self) -> Free:
        """θ."""
        return jax.tree.map(itemgetter(0), self.each.free)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors of all recordings; their arrays have a first axis."""
        return self.each.factors

    def cost(self, x: Unknowns) -> Scalar:
        """Σ over all factors of ½ρ."""
        return jnp.sum(self._map(TimeGraph.cost, x)) + self._alone.cost(_first(x))

    def margins(self, theta: Float[Array, " p"]) -> Float[Array, " k"]:
        """What θ leaves of `free.limited`; it must not be negative."""
        return self._alone.margins(theta)

    def moved(self, x: Unknowns, delta: Unknowns) -> Unknowns:
        """x ⊞ δ; NaN in steps that cannot be reached."""
        steps = self._map(lambda graph, x, delta: graph.moved(x, delta).steps, x, delta)
        return Unknowns(steps, x.globals + delta.globals)

    def zeros(self, x: Unknowns) -> Unknowns:
        """δ = 0."""
        return Unknowns(self._map(lambda graph, x: graph.zeros(x).steps, x), jnp.zeros_like(x.globals))

    def tangents(self, x: Unknowns) -> Float[Array, "recordings steps nx columns"] | None:
        """∂x/∂δ of every step, and where θ moves the constraints ∂x/∂θ; None where ∂x/∂δ is the identity."""
        return self._map(TimeGraph.tangents, x)

    def linearize(self, x: Unknowns) -> tuple[LeastSquares, Scalar]:
        """The whitened least-squares system in δ at x, and the cost there."""
        return self.look(x)[:2]

    def look(self, x: Unknowns) -> Look:
        """Everything that one evaluation at x with derivatives gives."""
        each, alone = self._map(TimeGraph.look, x), self._alone.look(_first(x))
        of_globals = lambda system: (system.global_residual, system.global_jacobian)
        system = eqx.tree_at(of_globals, each.system, of_globals(alone.system))
        residuals = {True: iter(alone.residuals), False: iter(each.residuals)}
        return Look(
            system,
            jnp.sum(each.cost) + alone.cost,
            tuple(next(residuals[factor.scope == "global"]) for factor in self.each.factors),
            each.tangents,
        )

    def jacobian(self, x: Unknowns) -> tuple[Float[Array, "recordings *places rows nx"], ...]:
        """The derivatives by steps alone of the system that `look` sees, see `TimeGraph.jacobian`."""
        return self._map(TimeGraph.jacobian, x)

    def gradient(self, x: Unknowns) -> Unknowns:
        """Gradient of the cost with respect to δ at x."""
        return jax.grad(lambda delta: self.cost(self.moved(x, delta)))(self.zeros(x))

    def hessian(self, x: Unknowns) -> BlockTridiagonal:
        """Exact Hessian of the cost with respect to δ at x, second derivatives of the residuals included."""
        each = self._map(TimeGraph.hessian, x)
        corner = jnp.sum(each.corner, axis=0) + self._alone.hessian(_first(x)).corner
        return eqx.tree_at(lambda matrix: matrix.corner, each, corner)

    def _map(self, function: Callable[..., PyTree], *points: Unknowns) -> PyTree:
        """The function of (a graph, its points) for all recordings, without factors of θ alone."""
        graphs = _with_factors(self.each, lambda factor: factor.scope != "global")
        numbers, rest = eqx.partition(graphs, eqx.is_array)

        def of_one(numbers, steps):
            ends = (Unknowns(own, point.globals) for own, point in zip(steps, points, strict=True))
            return function(eqx.combine(numbers, rest), *ends)

        return over_recordings(of_one, numbers, tuple(point.steps for point in points))

    @property
    def _alone(self) -> TimeGraph:
        """A graph of the factors of θ alone, over one step of which they know nothing."""
        first = _with_factors(self.each, lambda factor: factor.scope == "global")
        first = jax.tree.map(lambda leaf: leaf[0] if eqx.is_array(leaf) else leaf, first)
        where = lambda graph: (graph.times, graph.chart)
        return eqx.tree_at(where, first, (first.times[:1], None), is_leaf=lambda leaf: leaf is None)


def _with_factors(graph: TimeGraph, wanted: Callable) -> TimeGraph:
    return eqx.tree_at(lambda graph: graph.factors, graph, tuple(filter(wanted, graph.factors)))


def _first(x: Unknowns) -> Unknowns:
    """The first step of the first recording, and θ."""
    return Unknowns(x.steps[0, :1], x.globals)
