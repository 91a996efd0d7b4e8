"""Inverse dynamics as a compromise: the graph of Fig. 4 of [Blanco21] with weights, sections 5.3 and 7.2."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from fgmbs.algebra.kkt import kkt_inverse
from fgmbs.compiled.program import program
from fgmbs.dynamics.chart import MotionChart
from fgmbs.dynamics.forcing import Forcing, force_directions
from fgmbs.dynamics.transitions import Trapezoidal
from fgmbs.errors import ArgumentError
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.priors import soft_equality, tracking, tracking_selected
from fgmbs.graph.time_graph import Rows, TimeGraph, Unknowns
from fgmbs.kinematics.base import prepared
from fgmbs.linear import METHODS
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.trajectory import Tightness, Trajectory
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status
from fgmbs.typing import Scalar

_TIGHT = 1e-3
"""Standard deviation of what must hold exactly, against the smallest of the soft factors; its square is the relative
error of the commands that it leaves."""
_FULL_STEPS = 30
_DAMPED_STEPS = 300
"""At most, of Gauss–Newton and then of Levenberg–Marquardt, which an impossible motion makes creep."""
_LEAST_RESPONSE = 1e-3
"""Of the strongest actuator; one that moves less has no say in how tight that is."""


class Motion(NamedTuple):
    """A motion with its commands, step by step."""

    q: Float[Array, "steps n"]
    dq: Float[Array, "steps nv"]
    ddq: Float[Array, "steps nv"]
    u: Float[Array, "steps nu"]


class WeightedTracking(eqx.Module):
    """The most probable motion and commands."""

    q: Float[Array, "steps n"]
    """Coordinates [m, rad]."""
    dq: Float[Array, "steps nv"]
    """Velocities [m/s, rad/s]."""
    ddq: Float[Array, "steps nv"]
    """Accelerations [m/s², rad/s²]."""
    u: Float[Array, "steps nu"]
    """Commands of the actuators [N, N·m]."""
    covariance_u: Float[Array, "steps nu nu"] | None
    """Marginal covariances of u, if asked for; the weights of effort and smoothness act as probabilities too."""
    covariance_q: Float[Array, "steps n n"] | None
    """Those of q."""
    cost: Float[Array, " maxiter"]
    """Cost after every iteration of Levenberg–Marquardt; NaN where there was none."""
    iterations: Int[Array, ""]
    """Those, and the full Gauss–Newton steps before them."""
    status: Status
    """How the solve ended."""


def weighted_tracking(
    mechanism: AbstractMechanism,
    t: ArrayLike,
    followed: tuple[int, ...],
    y: ArrayLike,
    sigma: ArrayLike,
    start: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike],
    effort: ArrayLike,
    smoothness: ArrayLike | None = None,
    rates: tuple[ArrayLike, ArrayLike] | None = None,
    motors: tuple[str, ...] | None = None,
    linear: str = "sequential",
    covariance: bool = False,
) -> WeightedTracking:
    """Commands of the actuators, and the motion, that follow desired coordinates as closely as their weights tell.

    Minimizes ½ Σ of squares, in standard deviations, of the followed coordinates from y, of the commands from zero and
    of their changes from step to step. Constraints, equations of motion and the trapezoidal rule hold so tightly that
    the commands differ by about 1e-6 from where they hold exactly. Fewer coordinates than degrees of freedom may be
    followed, or more; there may be fewer actuators, or more.

    Derivatives pass through it, with five right digits: tight equations cost the others in their linear system.

    Two sample values per degree of freedom are not in the coordinates: the trapezoidal rule does not see velocities nor
    accelerations that alternate from one step to the next. Effort and smoothness choose them. So the first and the last
    term of either sum count half: else it would pay to alternate, by about 1/steps of the command or of its change.

    Args:
        mechanism: The mechanism.
        t: Times (steps,), evenly spaced [s].
        followed: Indices of the k coordinates that are followed.
        y: What they should be (steps, k) [m, rad].
        sigma: Standard deviation of following them, one for all or (k,) [m, rad].
        start: (q, dq, ddq, u), each (steps, its size), a motion near the solution: its branch is the one that is found,
            and its accelerations weigh the errors of the integration rule; see `tangent_weights`.
        effort: Standard deviation of every command around zero, one for all or (nu,) [N, N·m].
        smoothness: Standard deviation of the change of a command over one second, as of a random walk, one for all or
            (nu,) [N/√s, N·m/√s].
        rates: Desired velocities (steps, k) of the followed coordinates and their standard deviations [m/s, rad/s].
        motors: Actuators or velocities on which the unknown commands act; all actuators of the mechanism by default.
        linear: Linear method of the solver. "sequential" does where the standard deviations, commands counted in
            the displacement that they make in one step, Δt² |∂q̈/∂u|, lie within three orders of magnitude of each
            other; "sqrt" also beyond.
        covariance: Also compute the marginal covariances of u and q.

    Raises:
        ArgumentError: Sizes do not agree.
    """
    motors = mechanism.actuator_names if motors is None else motors
    nu = len(motors)
    steps = _check_sizes(mechanism, np.shape(t), followed, np.shape(y), start, nu)
    dtype = mechanism.reference.dtype

    def numbers(name, value, size):
        value = jnp.asarray(value, dtype)
        if value.shape not in ((), (size,)):
            raise ArgumentError(f"{name}: expected one number or {size}; found shape {value.shape}")
        return jnp.broadcast_to(value, (size,))

    if rates is not None:
        if np.shape(rates[0]) != (steps, len(followed)):
            raise ArgumentError(f"rates: expected shape {(steps, len(followed))}; found {np.shape(rates[0])}")
        rates = (jnp.asarray(rates[0], dtype), numbers("rates", rates[1], len(followed)))
    return _solve(
        mechanism,
        motors,
        jnp.asarray(t, dtype),
        tuple(followed),
        jnp.asarray(y, dtype),
        numbers("sigma", sigma, len(followed)),
        Motion(*(jnp.asarray(x, dtype) for x in start)),
        numbers("effort", effort, nu),
        None if smoothness is None else numbers("smoothness", smoothness, nu),
        rates,
        jnp.asarray(_TIGHT, dtype),
        linear,
        covariance,
    )


def _check_sizes(mechanism, times, followed, desired, start, nu):
    n, nv = mechanism.n, mechanism.nv
    if nu == 0:
        raise ArgumentError("mechanism: expected one with actuators; found none")
    if len(times) != 1 or times[0] < 3:
        raise ArgumentError(f"t: expected at least 3 times; found shape {times}")
    if not followed or any(not 0 <= i < n for i in followed):
        raise ArgumentError(f"followed: expected indices of coordinates, 0 to {n - 1}; found {followed}")
    (steps,) = times
    if desired != (steps, len(followed)):
        raise ArgumentError(f"y: expected shape {(steps, len(followed))}; found {desired}")
    for name, x, size in zip(Motion._fields, start, (n, nv, nv, nu), strict=True):
        if np.shape(x) != (steps, size):
            raise ArgumentError(f"start: expected {name} of shape {(steps, size)}; found {np.shape(x)}")
    return steps


@program
def _solve(mechanism, motors, t, followed, y, sigma, start, effort, smoothness, rates, tight, linear, covariance):
    mechanism = prepared(mechanism)
    tight = tight * _least_displacement(mechanism, motors, t, start, sigma, effort, smoothness)
    graph = _graph(mechanism, motors, t, followed, y, tight, sigma, start, effort, smoothness, rates)
    x = graph.pack(start._asdict())
    x, full_steps = _approach(jax.lax.stop_gradient(graph), jax.lax.stop_gradient(x), linear)
    x, state = LevenbergMarquardt(linear=linear, maxiter=_DAMPED_STEPS).run(x, graph)
    values = graph.unpack(x.steps)
    covariance_u = covariance_q = None
    if covariance:
        cov = METHODS[linear](state.look.system, *jax.tree.map(jnp.zeros_like, x)).marginals().steps
        n, nu = start.q.shape[1], start.u.shape[1]
        covariance_q, covariance_u = cov[:, :n, :n], cov[:, -nu:, -nu:]
    return WeightedTracking(
        **values,
        covariance_u=covariance_u,
        covariance_q=covariance_q,
        cost=state.history,
        iterations=full_steps + state.iter_num,
        status=state.status,
    )


def _approach(graph: TimeGraph, x: Unknowns, linear: str) -> tuple[Unknowns, Int[Array, ""]]:
    """A point near the solution by full Gauss–Newton steps, or x itself if they do not lower the cost; their number.

    Equations this tight are curved: a long step along them opens them, whatever it gains, and the next one closes them.
    Levenberg–Marquardt, which takes no step uphill, would creep along them.
    """

    def advance(carry):
        count, x, _ = carry
        system, _ = graph.linearize(x)
        delta = Unknowns(*METHODS[linear](system, *jax.tree.map(jnp.zeros_like, x)).minimizer())
        size = jnp.linalg.norm(delta.steps) / jnp.linalg.norm(x.steps)
        return count + 1, jax.tree.map(jnp.add, x, delta), size

    def far(carry):  # not a number is not far: it ends here
        count, _, size = carry
        return (size > 1e-6) & (count < _FULL_STEPS)

    count, end, _ = jax.lax.while_loop(far, advance, (0, x, jnp.asarray(jnp.inf, x.steps.dtype)))
    better = graph.cost(end) < graph.cost(x)
    return jax.tree.map(lambda new, old: jnp.where(better, new, old), end, x), jnp.asarray(count)


def _graph(mechanism, motors, t, followed, y, tight, sigma, start, effort, smoothness, rates) -> TimeGraph:
    """The factors of Fig. 4; `tight` is the standard deviation of those that must hold, a displacement in one step."""
    steps, n = start.q.shape
    nu = start.u.shape[1]
    dt = t[1] - t[0]
    forcing = Forcing(motors, (), jnp.ones(nu, t.dtype))
    trajectory = Trajectory(mechanism, Trapezoidal(), forcing, dt, MotionChart(mechanism.nv), "dependent")
    ends = jnp.ones((steps, nu), t.dtype)
    half_at_ends = ends.at[jnp.array([0, -1])].set(jnp.sqrt(0.5))
    half_changes = ends.at[jnp.array([1, -1])].set(jnp.sqrt(0.5))
    B = jnp.eye(n, dtype=t.dtype)[jnp.asarray(followed)]
    zero = jnp.zeros_like(start.u)
    known = [
        Factor(tracking_selected, ("q",), Noise.sigma(sigma), series=y, data=B),
        Factor(tracking, ("u",), Noise.sigma(effort), series=zero, weights=half_at_ends, name="effort"),
    ]
    if rates is not None:
        known.append(
            Factor(tracking_selected, ("dq",), Noise.sigma(rates[1]), series=rates[0], data=B, name="tracking_rates")
        )
    if smoothness is not None:
        change = Noise.sigma(smoothness * jnp.sqrt(dt))
        known.append(Factor(soft_equality, ("u",), change, "interval", weights=half_changes, name="smoothness"))
    # An acceleration a makes a velocity a Δt and a displacement a Δt² in a step.
    graph = trajectory.graph(tuple(known), Tightness(tight, tight / dt, tight / dt**2), t)
    changes = jnp.diff(start.ddq, axis=0, prepend=start.ddq[:1])
    own = jax.vmap(lambda q, t, change: trajectory.rows(q, t, jnp.zeros((2, 0), t.dtype), change))(start.q, t, changes)
    return graph.with_rows(Rows(t, (*own, *((factor.series, factor.weights) for factor in known))))


def _least_displacement(mechanism, motors, t, start, sigma, effort, smoothness) -> Scalar:
    """What the soft factors allow at least, as a displacement in one step [m, rad].

    A command that its prior lets vary by σ_u moves a coordinate by Δt² |∂q̈/∂u| σ_u. Against those, equations of
    standard deviation s give way by the square of the ratio. Where more is followed than can move, tracking errors pull
    with 1/σ: they open the constraints by s²/σ, which counts against the same displacements.
    """
    dt = t[1] - t[0]

    def response(q, t):
        M, Phi_q = mechanism.mass_matrix(q), mechanism.constraint_jacobian(q, t)
        P = kkt_inverse(M, Phi_q, mechanism.local_sizes, mechanism.constraint_sizes).P
        return jnp.linalg.norm(P @ force_directions(mechanism, q, t, motors), axis=0)

    typical = jnp.mean(jax.vmap(response)(start.q, t), axis=0)
    typical = jnp.maximum(typical, _LEAST_RESPONSE * jnp.max(typical))
    loose = effort if smoothness is None else jnp.minimum(effort, smoothness * jnp.sqrt(dt))
    least = jnp.min(dt**2 * typical * loose)
    return least * jnp.minimum(1.0, jnp.sqrt(jnp.min(sigma) / least))
