"""Where a motion starts, what a driven one leaves free, and how far it is out of reach."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from fgmbs.algebra.pseudo_inverse import rank_limit
from fgmbs.arguments import finite_number
from fgmbs.compiled.program import ONCE, program
from fgmbs.compiled.tracing import computed_now, is_traced
from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.factors.base import Factor, Noise
from fgmbs.factors.constraints import position_constraint
from fgmbs.factors.priors import tracking_selected
from fgmbs.graph.time_graph import TimeGraph
from fgmbs.kinematics import assemble
from fgmbs.kinematics.base import prepared
from fgmbs.kinematics.closure import Closure
from fgmbs.kinematics.names import coordinate_index, given_arrays, listed
from fgmbs.kinematics.search import nearest_assembly
from fgmbs.kinematics.velocity import contradiction, velocity_and_gaps
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.solvers.levenberg_marquardt import LevenbergMarquardt
from fgmbs.status import Status, is_one_of
from fgmbs.typing import Coordinates, Scalar, Velocities

_TIGHT = 1e-5
"""Standard deviation of constraints beside desired coordinates of standard deviation 1."""


class GivenStart(NamedTuple):
    """What is given of a start; the rest is assembled, near the mechanism as drawn."""

    given: Bool[Array, " n"] | None
    """Which coordinates; None for none …"""
    values: Coordinates
    """… and their values [m, rad]."""
    rates_given: Bool[Array, " nv"] | None
    """Which velocities; None for those of the mechanism's description …"""
    rates: Velocities | None
    """… and their values [m/s, rad/s]."""

    @staticmethod
    def of(
        mechanism: AbstractMechanism, start: Mapping[str, float] | None, start_velocities: Mapping[str, float] | None
    ) -> "GivenStart":
        """By names.

        Raises:
            ArgumentError: An unknown name or a value that is not a finite number.
        """
        mask, values = given_arrays(mechanism, start, "start")
        rates = (None, None)
        if start_velocities is not None:
            rates = given_arrays(mechanism, start_velocities, "start_velocities", velocities=True)
        return GivenStart(mask if start else None, values, *rates)

    def of_velocities(self, mechanism: AbstractMechanism) -> tuple[Bool[Array, " nv"], Velocities]:
        """(which velocities are given, their values)."""
        if self.rates_given is None or self.rates is None:
            values, mask = mechanism.initial_velocities
            return mask, values
        return self.rates_given, self.rates

    def at(self, mechanism: AbstractMechanism, t: Scalar | float) -> tuple[Coordinates, Velocities, Status]:
        """(q, dq, status) of the start; the best there is where the status is not `converged`."""
        t = jnp.asarray(t, mechanism.reference.dtype)
        q, assembled = nearest_assembly(mechanism, t, self.given, self.values)
        dq, _, possible = velocity_and_gaps(mechanism, q, t, *self.of_velocities(mechanism))
        return q, dq, _status_of(assembled, possible)

    def check(self, mechanism: AbstractMechanism, q: Coordinates, t: float, status: Status) -> None:
        """Refuses a start that is none.

        Args:
            mechanism: The mechanism.
            q: Where it starts.
            t: Time [s].
            status: As `at` tells it.

        Raises:
            AssemblyError: There is no such position: says why.
            ArgumentError: It does not allow these velocities.
        """
        if is_one_of(status, Status.not_assembled):
            assemble(mechanism, _by_name(mechanism.coordinate_names, self.given, self.values), t=t)
        elif is_one_of(status, Status.contradictory):
            rates = self.of_velocities(mechanism)
            dq, gaps, _ = velocity_and_gaps(mechanism, q, jnp.asarray(t, q.dtype), *rates)
            raise ArgumentError(contradiction(mechanism, dq, gaps, _by_name(mechanism.velocity_names, *rates)))


@program(**ONCE)
def _status_of(assembled: Bool[Array, ""], possible: Bool[Array, ""]) -> Status:
    status = Status.where(possible, Status.converged, Status.contradictory)
    return Status.where(assembled, status, Status.not_assembled)


def _by_name(names: tuple[str, ...], mask, values) -> dict[str, float]:
    """Those values that count, by name."""
    if mask is None:
        return {}
    return {name: float(x) for name, there, x in zip(names, np.asarray(mask), np.asarray(values), strict=True) if there}


def rough_start(mechanism: AbstractMechanism, start: Mapping[str, float] | None) -> Coordinates | None:
    """The mechanism as drawn but for some coordinates, by name; None where none is given.

    Raises:
        ArgumentError: An unknown name or a value that is not a finite number.
    """
    if not start:
        return None
    guess = mechanism.reference
    for name, value in start.items():
        number = value if is_traced(value) else finite_number(value, f"start[{name!r}]")
        guess = guess.at[coordinate_index(mechanism, name, "start")].set(number)
    return guess


def first_pose(
    mechanism: AbstractMechanism,
    followed: tuple[int, ...],
    y: Float[Array, " k"],
    t: float,
    guess: Coordinates | None,
) -> tuple[Coordinates, Bool[Array, ""]]:
    """(q, whether it is assembled): the pose with the first desired coordinates that is nearest to a rough start.

    It chooses the branch only, and has no derivative.

    Args:
        mechanism: The mechanism.
        followed: Desired coordinates …
        y: … and their values [m, rad].
        t: Time [s].
        guess: The rough start; as drawn by default [m, rad].
    """
    mechanism, y, guess = jax.lax.stop_gradient((mechanism, y, guess))
    guess = mechanism.reference if guess is None else guess
    places = jnp.asarray(followed, int)
    given = jnp.zeros(mechanism.n, bool).at[places].set(True)
    return nearest_assembly(mechanism, t, given, jnp.zeros_like(guess).at[places].set(y), guess)


def check_first_pose(
    mechanism: AbstractMechanism,
    followed: tuple[int, ...],
    y: Float[Array, " k"],
    t: float,
    guess: Coordinates | None,
) -> None:
    """Refuses desired coordinates with which the mechanism cannot be assembled; arguments as of `first_pose`.

    Raises:
        AssemblyError: Says how far the mechanism comes.
    """
    if first_pose(mechanism, followed, y, t, guess)[1]:
        return
    wanted = {mechanism.coordinate_names[i]: float(value) for i, value in zip(followed, y, strict=True)}
    distance = out_of_reach(mechanism, mechanism.reference, t, followed, y)
    try:
        assemble(mechanism, wanted, start=mechanism.reference if guess is None else guess, t=t)
    except AssemblyError as error:
        raise AssemblyError(
            f"the desired motion is out of reach at its first sample, t = {t:.6g} s, by {distance:.4g} (m for "
            f"lengths, rad for angles): {error}"
        ) from None


def freedom_left(mechanism: AbstractMechanism, followed: tuple[int, ...], t: float) -> int:
    """Degrees of freedom that desired coordinates leave: of the mechanism as described, whatever its numbers are now.

    Without a description it is that of its own numbers; while these are traced, every desired coordinate takes one.
    """
    return _freedom_as_drawn(_described(mechanism), followed, t)


def _described(mechanism: AbstractMechanism) -> AbstractMechanism:
    with computed_now():
        described = mechanism.described
    return mechanism if described is None else described


def _freedom_as_drawn(mechanism: AbstractMechanism, followed: tuple[int, ...], t: float) -> int:
    if is_traced(mechanism):
        return max(0, mechanism.dof - len(followed))
    with computed_now():
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
        with computed_now():
            q = assemble(mechanism, t=t)
            aside = np.random.default_rng(0).standard_normal(mechanism.nv) * 1e-2 * float(mechanism.extent(q))
            start = mechanism.moved(q, jnp.asarray(aside))
            left_nearby = _freedom(mechanism, assemble(mechanism, start=start, t=t), t, followed)
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


@program(**ONCE)
def _rows(mechanism, q, t, followed):
    mechanism = prepared(mechanism)
    return mechanism.sized(Closure(followed).jacobian(mechanism, q, t))


def out_of_reach(
    mechanism: AbstractMechanism, q: Coordinates, t: Scalar, followed: tuple[int, ...], y: Float[Array, " k"]
) -> float:
    """How far the desired coordinates stay from y in the assembled pose that comes nearest to them [m, rad]."""
    return float(_distance(mechanism, jnp.asarray(q), jnp.asarray(t, float), followed, jnp.asarray(y)))


@program
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
