"""The velocity and the acceleration problem."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from fgmbs.algebra.pseudo_inverse import pseudo_inverse, row_norms
from fgmbs.arguments import finite_number
from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import ArgumentError
from fgmbs.kinematics.base import AbstractKinematics, prepared
from fgmbs.kinematics.names import Numbers, finite_vector, given_arrays, listed
from fgmbs.typing import Constraints, Coordinates, Scalar, Velocities

_CONTRADICTION = 1e-9
"""What is left of velocities that contradict each other, relative to the largest of what is asked and found."""


def solve_velocity(
    mechanism: AbstractKinematics,
    q: Coordinates,
    t: Scalar = 0.0,
    given_mask: Bool[Array, " nv"] | None = None,
    given_values: Velocities | None = None,
    start: Velocities | None = None,
) -> Velocities:
    """The velocities nearest to a start that satisfy Φ_q dq = −Φ_t and the given ones. [Blanco21] eq. (2)

    Solved in the least-squares sense: redundant rows do no harm, and given velocities that contradict the constraints
    are met halfway. Compiles, batches and differentiates where the rank is constant.

    Args:
        q: Coordinates that satisfy Φ(q, t) = 0 [m, rad].
        t: Time [s].
        given_mask: Which velocities are given; none by default.
        given_values: Values of the given velocities, anything finite for the others [m/s, rad/s].
        start: Velocities to be near to, zero by default: as slow as possible [m/s, rad/s].
    """
    mechanism = prepared(mechanism)
    t = jnp.asarray(t, q.dtype)
    Phi_t = mechanism.constraint_rate(q, jnp.zeros(mechanism.nv, q.dtype), t)
    return _nearest_rates(mechanism, q, t, -Phi_t, given_mask, given_values, start)


def solve_acceleration(
    mechanism: AbstractKinematics,
    q: Coordinates,
    dq: Velocities,
    t: Scalar = 0.0,
    given_mask: Bool[Array, " nv"] | None = None,
    given_values: Velocities | None = None,
    start: Velocities | None = None,
) -> Velocities:
    """The accelerations nearest to a start that satisfy Φ_q ddq = c and the given ones. [Blanco21] eq. (3)

    Args:
        q: Coordinates that satisfy Φ(q, t) = 0 [m, rad].
        dq: Velocities that satisfy Φ_q dq = −Φ_t [m/s, rad/s].
        t: Time [s].
        given_mask: Which accelerations are given; none by default.
        given_values: Values of the given accelerations, anything finite for the others [m/s², rad/s²].
        start: Accelerations to be near to, zero by default [m/s², rad/s²].
    """
    mechanism = prepared(mechanism)
    t = jnp.asarray(t, q.dtype)
    c = mechanism.constraint_bias(q, dq, t)
    return _nearest_rates(mechanism, q, t, c, given_mask, given_values, start)


def velocities(
    mechanism: AbstractKinematics,
    q: Numbers,
    given: Mapping[str, float] | None = None,
    *,
    start: Numbers | None = None,
    t: float = 0.0,
) -> Velocities:
    """The velocities with the given values by name; otherwise as slow, or as near to `start`, as possible.

    Args:
        q: Assembled coordinates [m, rad].
        given: Values by velocity name [m/s, rad/s].
        start: Velocities to be near to [m/s, rad/s].
        t: Time [s].

    Raises:
        ArgumentError: An unknown name, a number that is not finite, or given velocities that contradict the constraints
            or each other.
    """
    names = mechanism.velocity_names
    q = finite_vector(mechanism, q, mechanism.coordinate_names, "q")
    t = finite_number(t, "t")
    mask, values = given_arrays(mechanism, given, "given", velocities=True)
    near = None if start is None else finite_vector(mechanism, start, names, "start")
    dq, gaps, possible = velocity_and_gaps(mechanism, q, jnp.asarray(t, q.dtype), mask, values, near)
    if not possible:
        raise ArgumentError(contradiction(mechanism, dq, gaps, given or {}))
    return dq


def contradiction(mechanism: AbstractKinematics, dq: Velocities, gaps: Constraints, given: Mapping[str, float]) -> str:
    """Why there are no such velocities; dq and gaps as `velocity_and_gaps` returns them."""
    names, gaps = mechanism.velocity_names, np.asarray(gaps)
    open_rows = [name for name, gap in zip(mechanism.constraint_names, gaps, strict=True) if gap > 1e-3 * np.max(gaps)]
    if not given:
        return (
            f"no velocity satisfies the constraints in this configuration: {listed(open_rows)} contradict each "
            f"other (by {np.max(gaps):.3g}); it may be a dead point of the prescribed motion"
        )
    asked = ", ".join(f"{name} = {value:g}" for name, value in given.items())
    best = ", ".join(f"{name} {dq[names.index(name)]:.6g}" for name in given)
    return (
        f"given: {asked} cannot all hold in this configuration, because they contradict {listed(open_rows)}; "
        f"the nearest velocities are {best}. Give fewer of them, or their independent part only"
    )


@program(**ONCE)
def velocity_and_gaps(
    mechanism: AbstractKinematics,
    q: Coordinates,
    t: Scalar,
    mask: Bool[Array, " nv"],
    values: Velocities,
    start: Velocities | None = None,
) -> tuple[Velocities, Constraints, Bool[Array, ""]]:
    """(dq as `solve_velocity` finds it, what is left of each constraint, whether all that was asked holds)."""
    dq = solve_velocity(mechanism, q, t, mask, values, start)
    mechanism = prepared(mechanism)
    gaps = jnp.abs(mechanism.constraint_rate(q, dq, t))
    norms = row_norms(mechanism.sized(mechanism.constraint_jacobian(q, t)), mechanism.constraint_sizes)
    gaps = gaps / norms
    missed, asked = (jnp.where(mask, jnp.abs(mechanism.relative(v)), 0.0) for v in (dq - values, values))
    # Prescribed motions, too, ask for velocities.
    driven = jnp.abs(mechanism.constraint_rate(q, jnp.zeros_like(dq), t)) / norms
    left = jnp.maximum(jnp.max(gaps, initial=0.0), jnp.max(missed))
    near = jnp.zeros_like(dq) if start is None else jnp.abs(mechanism.relative(start))
    size = jnp.max(jnp.concatenate([jnp.abs(mechanism.relative(dq)), asked, driven, near]))
    return dq, gaps, left <= _CONTRADICTION * size


def _nearest_rates(
    mechanism: AbstractKinematics, q, t, rhs: Constraints, given_mask, given_values, start: Velocities | None
) -> Velocities:
    """min |x − start|², by sizes, over the least-squares solutions of Φ_q x = rhs, x_i = value_i."""
    Phi_q = mechanism.sized(mechanism.constraint_jacobian(q, t))
    x = jnp.zeros(mechanism.nv, q.dtype) if start is None else mechanism.relative(start)
    norms = row_norms(Phi_q, mechanism.constraint_sizes)
    A, b = Phi_q / norms[:, None], rhs / norms
    if given_mask is not None:
        given = given_mask.astype(Phi_q.dtype)
        values = jnp.zeros_like(given) if given_values is None else mechanism.relative(given_values)
        A, b = jnp.concatenate([A, jnp.diag(given)]), jnp.concatenate([b, given * values])
    return mechanism.sized(x + pseudo_inverse(A) @ (b - A @ x))
