"""Where a motion starts, what a driven one leaves free, and how far it is out of reach."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fgmbs.errors import ArgumentError, AssemblyError, Status
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.constraints import position_constraint
from fgmbs.factors.priors import tracking_selected
from fgmbs.graph import TimeGraph
from fgmbs.kinematics import assemble
from fgmbs.kinematics.closure import Closure
from fgmbs.kinematics.names import coordinate_index, finite_number, listed
from fgmbs.kinematics.pseudo_inverse import rank_limit
from fgmbs.kinematics.search import nearest_assembly
from fgmbs.kinematics.velocity import contradiction, velocity_and_gaps
from fgmbs.mechanisms.base import AbstractMechanism, prepared
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.tracing import is_traced
from fgmbs.typing import Coordinates, Scalar, Velocities

_TIGHT = 1e-5
"""Standard deviation of constraints beside desired coordinates of standard deviation 1."""


def assembled_start(
    mechanism: AbstractMechanism,
    t: Scalar | float,
    q_given: tuple[Bool[Array, " n"] | None, Float[Array, " n"]],
    dq_given: tuple[Bool[Array, " nv"], Float[Array, " nv"]],
) -> tuple[Coordinates, Velocities, Status]:
    """(q, dq, status) of a start near the mechanism as drawn, with coordinates and velocities given as (mask, values).

    While it is traced, the status tells what is raised otherwise.

    Raises:
        AssemblyError: There is no such position.
        ArgumentError: It does not allow these velocities.
    """
    t = jnp.asarray(t, mechanism.reference.dtype)
    q, assembled = nearest_assembly(mechanism, t, *q_given)
    dq, gaps, possible = velocity_and_gaps(mechanism, q, t, *dq_given)
    status = Status.where(possible, Status.converged, Status.contradictory)
    status = Status.where(assembled, status, Status.not_assembled)
    if not is_traced(status):
        if not assembled:
            assemble(mechanism, _by_name(mechanism.coordinate_names, *q_given), t=float(t))  # says why
        if not possible:
            raise ArgumentError(contradiction(mechanism, dq, gaps, _by_name(mechanism.velocity_names, *dq_given)))
    return q, dq, status


def _by_name(names: tuple[str, ...], mask, values) -> dict[str, float]:
    """Those values that count, by name."""
    if mask is None:
        return {}
    return {name: float(x) for name, there, x in zip(names, np.asarray(mask), np.asarray(values), strict=True) if there}


def first_pose(
    mechanism: AbstractMechanism,
    followed: tuple[int, ...],
    y: Float[Array, " k"],
    t: float,
    start: Mapping[str, float] | None,
) -> Coordinates:
    """The assembled pose with the desired coordinates of the first sample that is nearest to a rough start.

    It chooses the branch only, and has no derivative.

    Args:
        mechanism: The mechanism.
        followed: Desired coordinates …
        y: … and their values [m, rad].
        t: Time [s].
        start: Rough values of coordinates by name; the others are as drawn.

    Raises:
        ArgumentError: `start` cannot be meant.
        AssemblyError: There is no such pose: says how far the mechanism comes.
    """
    mechanism, y = jax.lax.stop_gradient((mechanism, y))
    guess = mechanism.reference
    for name, value in (start or {}).items():
        number = value if is_traced(value) else finite_number(value, f"start[{name!r}]")
        guess = guess.at[coordinate_index(mechanism, name, "start")].set(number)
    places = jnp.asarray(followed, int)
    given = jnp.zeros(mechanism.n, bool).at[places].set(True)
    q, assembled = nearest_assembly(mechanism, t, given, jnp.zeros_like(guess).at[places].set(y), guess)
    if not is_traced(assembled) and not assembled:
        wanted = {mechanism.coordinate_names[i]: float(value) for i, value in zip(followed, y, strict=True)}
        distance = out_of_reach(mechanism, mechanism.reference, t, followed, y)
        try:
            assemble(mechanism, wanted, start=guess, t=t)
        except AssemblyError as error:
            raise AssemblyError(
                f"the desired motion is out of reach at its first sample, t = {t:.6g} s, by {distance:.4g} (m for "
                f"lengths, rad for angles): {error}"
            ) from None
    return q


def freedom_left(mechanism: AbstractMechanism, followed: tuple[int, ...], t: float) -> int:
    """Degrees of freedom that desired coordinates leave: of the mechanism as described, whatever its numbers are now.

    Without a description it is that of its own numbers; while these are traced, every desired coordinate takes one.
    """
    return _freedom_as_drawn(_described(mechanism), followed, t)


def _described(mechanism: AbstractMechanism) -> AbstractMechanism:
    with jax.ensure_compile_time_eval():
        described = mechanism.described
    return mechanism if described is None else described


def _freedom_as_drawn(mechanism: AbstractMechanism, followed: tuple[int, ...], t: float) -> int:
    if is_traced(mechanism):
        return max(0, mechanism.dof - len(followed))
    with jax.ensure_compile_time_eval():
        return _freedom(mechanism, assemble(mechanism, t=t), t, followed)


def refuse_freedom(mechanism: AbstractMechanism, followed: tuple[int, ...], t: float) -> None:
    """Refuses desired coordinates that do not determine the motion; while it is traced, of the mechanism as described.

    Raises:
        ArgumentError: Says how many degrees of freedom are left, or that the pose as drawn is singular for them.
    """
    left = _freedom_as_drawn(_described(mechanism) if is_traced(mechanism) else mechanism, followed, t)
    if left == 0:
        return
    names = listed(mechanism.coordinate_names[i] for i in followed)
    if not is_traced(mechanism):
        with jax.ensure_compile_time_eval():
            q = assemble(mechanism, t=t)
            aside = np.random.default_rng(0).standard_normal(mechanism.nv) * 1e-2 * float(jnp.max(jnp.abs(q)))
            left_nearby = _freedom(
                mechanism, assemble(mechanism, start=mechanism.retract(q, jnp.asarray(aside)), t=t), t, followed
            )
        if left_nearby < left:
            raise ArgumentError(
                f"desired: the pose as drawn is singular for {names} (a dead point): their motion does not tell how "
                "the mechanism leaves it; give other coordinates, or draw the mechanism in another pose"
            )
    raise ArgumentError(
        f"desired: {names} leave {left} degree{'s' * (left > 1)} of freedom to the mechanism; give more coordinates, "
        "or use hybrid_dynamics, where the others move as dynamics says"
    )


def _freedom(mechanism, q, t, followed) -> int:
    J = np.asarray(_rows(mechanism, q, jnp.asarray(t, q.dtype), followed))
    norms = np.linalg.norm(J, axis=1, keepdims=True)
    return mechanism.nv - int(np.linalg.matrix_rank(J / np.where(norms > 0, norms, 1.0), rtol=rank_limit(J.dtype)))


@eqx.filter_jit
def _rows(mechanism, q, t, followed):
    return Closure(followed).jacobian(prepared(mechanism), q, t)


def out_of_reach(
    mechanism: AbstractMechanism, q: Coordinates, t: Scalar, followed: tuple[int, ...], y: Float[Array, " k"]
) -> float:
    """How far the desired coordinates stay from y in the assembled pose that comes nearest to them [m, rad]."""
    return float(_distance(mechanism, jnp.asarray(q), jnp.asarray(t, float), followed, jnp.asarray(y)))


@eqx.filter_jit
def _distance(mechanism, q, t, followed, y):
    B = jnp.eye(mechanism.n, dtype=q.dtype)[jnp.asarray(followed)]
    factors = (
        Factor(position_constraint, ("q",), Noise.sigma(_TIGHT)),
        Factor(tracking_selected, ("q",), Noise.sigma(1.0), series=y[None], data=B),
    )
    graph = TimeGraph(prepared(mechanism), factors, (("q", mechanism.n),), t[None], jnp.ones((), q.dtype))
    solver = LevenbergMarquardt(maxiter=100, damping=1e-3)
    x, _ = solver.run(graph.pack({"q": q[None]}), graph)
    return jnp.linalg.norm(B @ x.steps[0] - y)
