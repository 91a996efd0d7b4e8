"""Degrees of freedom and redundant constraints, by numerical rank."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from fgmbs.algebra.pseudo_inverse import rank_limit
from fgmbs.arguments import finite_number
from fgmbs.compiled.program import ONCE, program
from fgmbs.errors import AssemblyError
from fgmbs.kinematics.assembly import assemble
from fgmbs.kinematics.base import AbstractKinematics, prepared
from fgmbs.kinematics.names import Numbers, finite_vector
from fgmbs.kinematics.position import solve_position
from fgmbs.kinematics.search import unit_rows

_NEIGHBOURS = 8
_NEIGHBOURHOOD = 1e-2
"""Distance of the neighbours of a configuration, relative to its largest coordinate: far enough that a singular value
that vanishes in a singular pose only, in second order too, is above `rank_limit`. One that assembles closer than a
tenth of it tells nothing new: it slid back."""


class Mobility(eqx.Module):
    """What a mechanism can do to first order, in one configuration and in general."""

    dof: int = eqx.field(static=True)
    """Degrees of freedom in a generic configuration nearby."""
    dof_here: int = eqx.field(static=True)
    """Degrees of freedom in the very configuration; more than `dof` in a singular one (dead point, change point)."""
    redundant_rows: tuple[int, ...] = eqx.field(static=True)
    """Rows of Φ that follow from the rows before them, in a generic configuration."""

    @property
    def singular(self) -> bool:
        """Whether the configuration has fewer independent constraints than those nearby."""
        return self.dof_here > self.dof


def mobility(mechanism: AbstractKinematics, q: Numbers | None = None, t: float = 0.0) -> Mobility:
    """The degrees of freedom nv − rank Φ_q and the redundant rows of an assembled mechanism.

    The rank is the number of singular values of Φ_q, rows scaled to unit length, above √ε times the largest. It is
    taken in the configuration itself and in random assembled ones nearby; the highest of those is the generic one.
    Where no other can be assembled nearby, the mechanism cannot move, whatever its rank.

    Args:
        q: Assembled coordinates [m, rad]; `assemble(mechanism, t=t)` by default.
        t: Time [s].

    Raises:
        AssemblyError: The configuration is not assembled.
    """
    t, mechanism = finite_number(t, "t"), prepared(mechanism)
    q = assemble(mechanism, t=t) if q is None else finite_vector(mechanism, q, mechanism.coordinate_names, "q")
    closed, rows = unit_rows(mechanism, q, jnp.asarray(t, q.dtype))
    if closed and _rank(rows) == rows.shape[0]:
        # Independent rows stay independent nearby, and leave room to move there.
        dof = mechanism.nv - rows.shape[0]
        return Mobility(dof=dof, dof_here=dof, redundant_rows=())
    Phi_q, away, moved = (np.asarray(x) for x in _jacobians(mechanism, q, jnp.asarray(t, q.dtype)))
    if moved[0] > 1e-6:
        raise AssemblyError(
            f"the configuration is not assembled: the nearest one that is lies {moved[0]:.3g} of its size away; "
            "call assemble with it as start"
        )
    ranks = [_rank(A) for A in Phi_q]
    near = np.flatnonzero((away > 0.1 * _NEIGHBOURHOOD) & np.isfinite(moved))
    generic = near[np.argmax(np.take(ranks, near))] if near.size else 0
    return Mobility(
        dof=mechanism.nv - int(ranks[generic]) if near.size else 0,
        dof_here=mechanism.nv - int(ranks[0]),
        redundant_rows=_dependent_rows(Phi_q[generic]),
    )


def degrees_of_freedom(mechanism: AbstractKinematics, q: Numbers | None = None, t: float = 0.0) -> int:
    """Degrees of freedom in a generic configuration near q; see `mobility`, which also tells those in q itself."""
    return mobility(mechanism, q, t).dof


def redundant_rows(mechanism: AbstractKinematics, q: Numbers | None = None, t: float = 0.0) -> tuple[int, ...]:
    """Rows of Φ that follow from the rows before them near q; see `mobility`."""
    return mobility(mechanism, q, t).redundant_rows


def _rank(A) -> int:
    A = np.asarray(A)
    return int(np.linalg.matrix_rank(A, rtol=rank_limit(A.dtype))) if A.size else 0


@program(**ONCE)
def _jacobians(mechanism, q, t):
    """Φ_q with unit rows in q and in neighbours, their relative distance from q and from where they were looked for."""
    known = prepared(mechanism)
    scale = known.extent(q)
    noise = jax.random.normal(jax.random.key(0), (_NEIGHBOURS, mechanism.nv), q.dtype)
    steps = jnp.concatenate([jnp.zeros((1, mechanism.nv), q.dtype), _NEIGHBOURHOOD * scale * noise])

    def jacobian(step):
        start = known.moved(q, step)
        q_near, info = solve_position(mechanism, start, t)
        moved = jnp.max(jnp.abs(known.relative(known.local(start, q_near)))) / scale
        away = jnp.max(jnp.abs(known.relative(known.local(q, q_near)))) / scale
        return unit_rows(known, q_near, t)[1], away, jnp.where(info.assembled, moved, jnp.inf)

    return jax.vmap(jacobian)(steps)


def _dependent_rows(A: np.ndarray) -> tuple[int, ...]:
    """Rows that are combinations of the rows before them, by Gram–Schmidt with reorthogonalization."""
    basis = np.zeros((0, A.shape[1]))
    dependent = []
    for i, row in enumerate(A):
        for _ in range(2):
            row = row - basis.T @ (basis @ row)
        length = np.linalg.norm(row)
        if length > rank_limit(A.dtype):
            basis = np.vstack([basis, row / length])
        else:
            dependent.append(i)
    return tuple(dependent)
