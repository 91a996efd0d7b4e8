"""Local coordinates of a moving mechanism: every step of an estimate stays on the constraints."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.algebra.kkt import kkt_inverse, spd_inverse
from fgmbs.kinematics.closure import Closure, metric, row_sizes
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar

_MASSLESS_PREFERENCE = 10.0
"""How many times better a coordinate with mass must be to become independent before one without (an angle)."""
_TIE = 1e-6
"""How much better than an earlier coordinate a later one must be, for each place between them: of a symmetric mechanism
rounding would choose, in one program so and in another so."""
_PLACES, _CORRECTIONS = 2, 3
"""Places whose Jacobians a moved position is corrected by, and corrections by each."""
_VELOCITY_CORRECTIONS = 2
_CLOSED = 1e-3
"""Correction of a position, by the Jacobian there, that still closes, relative to the coordinates; others follow."""


class MotionChart(eqx.Module):
    """Coordinates δ = (δz, δż, δu) of steps x = (q, q̇, u) with Φ(q, t) = 0 and Φ_q q̇ + Φ_t = 0; u is free.

    ż = B q̇ are independent velocities, chosen anew at every x, and δz moves q along them. [Blanco21] eqs. (8)–(12), and
    the position and velocity problems (30), (31) solved for good.

    Attributes:
        dof: Degrees of freedom.
        independent: Which velocities are the independent ones; None: the best at every x.
        closure: What every step satisfies, a known motion held beside Φ included.
    """

    dof: int = eqx.field(static=True)
    independent: tuple[int, ...] | None = eqx.field(static=True, default=None)
    closure: Closure = Closure()

    def local_size(self, mechanism: AbstractMechanism, size: int) -> int:
        """Number of local coordinates of a step of `size` numbers."""
        return size - mechanism.n - mechanism.nv + 2 * self.dof

    def selection(self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar) -> Float[Array, "dof nv"]:
        """B at q."""
        if self.dof == mechanism.nv:
            return jnp.eye(mechanism.nv, dtype=q.dtype)
        if self.independent is not None:
            return self._selection(mechanism, q, None)
        return self._selection(mechanism, q, self._projector(mechanism, q, t)[0])

    def tangent(
        self,
        mechanism: AbstractMechanism,
        x: Float[Array, " nx"],
        t: Scalar,
        slopes: AbstractMechanism | None = None,
        B: Float[Array, "dof nv"] | None = None,
    ) -> Float[Array, "nx columns"]:
        """∂x/∂δ at δ = 0, and behind it ∂x/∂θ at constant δ.

        Where θ moves the constraints, the steps stay on them: dq = −S Φ_θ dθ, B dq = 0, and so for the velocities.

        Args:
            mechanism: The mechanism.
            x: A step on the constraints.
            t: Its time [s].
            slopes: ∂mechanism/∂θ, an axis of p behind those of each leaf that moves; None for ∂x/∂δ alone.
            B: The selection of independent velocities; by default that at x.
        """
        tangent, S = self._tangent(mechanism, x, t, B)
        if slopes is None:
            return tangent
        return jnp.concatenate([tangent, self._drift(mechanism, x, t, slopes, S)], axis=1)

    def _tangent(self, mechanism, x, t, B):
        """(∂x/∂δ, S or None where there are no constraints)."""
        if self.dof == mechanism.nv:
            q, _, u = _split(mechanism, x)
            E = jnp.eye(mechanism.n, dtype=x.dtype) if mechanism.is_vector_space else mechanism.coordinate_rates(q)
            free = jnp.eye(mechanism.nv + u.shape[0], dtype=x.dtype)
            return jax.scipy.linalg.block_diag(E, free), None
        R, S = self._maps(mechanism, x[: mechanism.n], t, B)
        return self._along(mechanism, x, t, R, S), S

    def _along(self, mechanism, x, t, R, S):
        """∂x/∂δ, of the maps at x."""
        q, dq, u = _split(mechanism, x)
        # Φ_q q̇ + Φ_t stays zero while q moves along R: B q̇ does not change, the rest of q̇ makes up for it.
        zero = jnp.zeros(mechanism.nv, x.dtype)

        def bend_along(r):
            return jax.jvp(lambda v: self.closure.rate(mechanism, mechanism.retract(q, v), dq, t), (zero,), (r,))[1]

        bend = jax.vmap(bend_along, 1, 1)(R)
        moved = R if mechanism.is_vector_space else mechanism.coordinate_rates(q) @ R
        motion = jnp.block([[moved, jnp.zeros_like(moved)], [-S @ bend, R]])
        return jax.scipy.linalg.block_diag(motion, jnp.eye(u.shape[0], dtype=x.dtype))

    def _drift(self, mechanism, x, t, slopes, S):
        """∂x/∂θ at constant δ."""
        q, dq, u = _split(mechanism, x)
        count = jax.tree.leaves(slopes)[0].shape[-1]
        if S is None:
            return jnp.zeros((x.shape[0], count), x.dtype)
        zero = jnp.zeros(mechanism.nv, x.dtype)

        def gaps(moved, v):
            at = mechanism.retract(q, v)
            return self.closure.rows(moved, at, t), self.closure.rate(moved, at, dq, t)

        def along(slope):
            (opened, _) = eqx.filter_jvp(gaps, (mechanism, zero), (slope, zero))[1]
            v = -S @ opened
            (_, rate) = eqx.filter_jvp(gaps, (mechanism, zero), (slope, v))[1]
            moved = v if mechanism.is_vector_space else mechanism.coordinate_rates(q) @ v
            return jnp.concatenate([moved, -S @ rate, jnp.zeros_like(u)])

        return jax.vmap(along, -1, -1)(slopes)

    def move(
        self,
        mechanism: AbstractMechanism,
        x: Float[Array, " nx"],
        delta: Float[Array, " local"],
        t: Scalar,
        B: Float[Array, "dof nv"] | None = None,
    ) -> Float[Array, " nx"]:
        """x ⊞ δ, by Newton's method from q ⊞ R δz at constant z; NaN where the mechanism does not reach z.

        Args:
            mechanism: The mechanism.
            x: A step.
            delta: δ.
            t: Its time [s].
            B: The selection of independent velocities; by default that at x.
        """
        return _moved(self, mechanism, x, delta, t, B, 0)[0]

    def moved_with_tangent(
        self,
        mechanism: AbstractMechanism,
        x: Float[Array, " nx"],
        delta: Float[Array, " local"],
        t: Scalar,
        B: Float[Array, "dof nv"],
    ) -> tuple[Float[Array, " nx"], Float[Array, "nx local"]]:
        """(`move`, its `tangent` there), which look at one place more, not at two; arguments as of `move`."""
        moved, R, S = _moved(self, mechanism, x, delta, t, B, 1)
        if R is None:
            return moved, self._tangent(mechanism, moved, t, B)[0]
        return moved, self._along(mechanism, moved, t, R, S)

    def coordinates(
        self, mechanism: AbstractMechanism, x: Float[Array, " nx"], t: Scalar
    ) -> Float[Array, "local tangent"]:
        """C with δ = C (y ⊟ x) for a neighbour y of x, y ⊟ x of size 2·nv + nu: the selection of (z, ż, u)."""
        q, _, u = _split(mechanism, x)
        return self.widened(self.selection(mechanism, q, t), u.shape[0])

    def widened(self, B: Float[Array, "dof nv"], nu: int) -> Float[Array, "local tangent"]:
        """C of `coordinates`, of a selection B and nu unknown forces."""
        return jax.scipy.linalg.block_diag(B, B, jnp.eye(nu, dtype=B.dtype))

    def metric_forces(
        self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar
    ) -> tuple[Float[Array, "nv dof"], Float[Array, "dof nv"], Float[Array, "nv nv"]]:
        """(G, B, P): generalized forces G w of independent w of unit variance make accelerations of covariance P.

        P is the inverse of the mass matrix along the constraints: G = Bᵀ L⁻ᵀ with L Lᵀ = B P Bᵀ.
        """
        P, B = self.mobility(mechanism, q, t)
        return _metric_forces(P, B), B, P

    def mobility(
        self, mechanism: AbstractMechanism, q: Coordinates, t: Scalar
    ) -> tuple[Float[Array, "nv nv"], Float[Array, "dof nv"]]:
        """(P, B): P is the inverse of the mass matrix along the constraints, B the selection at q."""
        M, Phi_q = mechanism.mass_matrix(q), mechanism.constraint_jacobian(q, t)
        sizes = mechanism.local_sizes, mechanism.constraint_sizes
        if self.dof == mechanism.nv or self.independent is not None or self.closure.followed:
            return kkt_inverse(M, Phi_q, *sizes).P, self.selection(mechanism, q, t)
        # In both metrics at once.
        metrics = jnp.stack([M, metric(mechanism, M.dtype)])
        P, projector = jax.vmap(lambda M: kkt_inverse(M, Phi_q, *sizes).P)(metrics)
        return P, self._selection(mechanism, q, projector)

    def turned_metric(
        self, mechanism: AbstractMechanism, start: tuple[Coordinates, Scalar], end: tuple[Coordinates, Scalar]
    ) -> Float[Array, "dof dof"]:
        """What w of `metric_forces` at one (q, t) is at a neighbour, where others may be the independent velocities: an
        orthogonal matrix."""
        if self.dof == mechanism.nv:
            return jnp.eye(self.dof, dtype=end[0].dtype)
        G, _, P = self.metric_forces(mechanism, *end)
        return G.T @ P @ _metric_forces(P, self.selection(mechanism, *start))

    def _maps(self, mechanism, q, t, B=None):
        """(R, S): R moves along the constraints, B R = 1, J R = 0; S leads back to them, B S = 0, J S = 1."""
        P, S = self._projector(mechanism, q, t)
        return _aligned(P, S, self._selection(mechanism, q, P) if B is None else B)

    def _projector(self, mechanism, q, t):
        """(P, S): the projector on the null space of the Jacobian J of the closure, and the pseudo-inverse of J."""
        J = self.closure.jacobian(mechanism, q, t)
        sizes = mechanism.local_sizes, row_sizes(mechanism, self.closure.followed)
        inverse = kkt_inverse(metric(mechanism, q.dtype), J, *sizes)
        return inverse.P, inverse.S

    def _selection(self, mechanism, q, P):
        if self.independent is not None:
            return jnp.eye(mechanism.nv, dtype=q.dtype)[jnp.asarray(self.independent)]
        P = mechanism.relative(mechanism.relative(jax.lax.stop_gradient(P)).T)
        return best_selection(mechanism, q, P, self.dof)


@eqx.filter_custom_jvp
def _moved(chart: MotionChart, mechanism, x, delta, t, B, again: int):
    """(x ⊞ δ, its maps R and S or None where there are no constraints), these once more after the position is closed if
    `again` is 1."""
    return _corrected(chart, mechanism, x, delta, t, B, again, jax.lax.fori_loop)


@_moved.def_jvp
def _moved_jvp(primals, tangents):
    # The loops keep programs small, but loops within loops have no reverse derivatives of their derivatives.
    def written_out(chart, mechanism, x, delta, t, B):
        return _corrected(chart, mechanism, x, delta, t, B, primals[-1], _repeated)

    return eqx.filter_jvp(written_out, primals[:-1], tangents[:-1])


def _repeated(first: int, end: int, step, carry):
    """`jax.lax.fori_loop`, written out."""
    for k in range(first, end):
        carry = step(k, carry)
    return carry


def _corrected(chart: MotionChart, mechanism, x, delta, t, B, again, loop):
    """`_moved`, with loops of this kind."""
    q, dq, u = _split(mechanism, x)
    dz, ddz, du = delta[: chart.dof], delta[chart.dof : 2 * chart.dof], delta[2 * chart.dof :]
    if chart.dof == mechanism.nv:
        return jnp.concatenate([mechanism.retract(q, dz), dq + ddz, u + du]), None, None

    def closer(k, at):
        moved, largest, chosen, *_ = at
        P, S = chart._projector(mechanism, moved, t)
        if B is None:
            chosen = jnp.where(k == 0, chart._selection(mechanism, moved, P), chosen)
        R, back = _aligned(P, S, chosen)
        moved = mechanism.retract(moved, jnp.where(k == 0, R @ dz, 0.0))

        def correct(_, at):
            moved, largest = at
            change = back @ chart.closure.rows(mechanism, moved, t)
            size = jnp.max(jnp.abs(mechanism.relative(change)), initial=0.0)
            return mechanism.retract(moved, -change), jnp.maximum(largest, size)

        moved, size = loop(0, _CORRECTIONS, correct, (moved, jnp.zeros((), x.dtype)))
        return moved, jnp.where(k < _PLACES, size, largest), chosen, R, back

    nv, m = mechanism.nv, mechanism.m + len(chart.closure.followed)
    zeros = lambda *shape: jnp.zeros(shape, x.dtype)
    blank = q, zeros(), zeros(chart.dof, nv) if B is None else B, zeros(nv, chart.dof), zeros(nv, m)
    moved, largest, B, R, back = loop(0, _PLACES + again, closer, blank)
    moved = jnp.where(largest <= _CLOSED * mechanism.extent(q), moved, jnp.nan)
    correct = lambda _, dq: dq - back @ chart.closure.rate(mechanism, moved, dq, t)
    dq = loop(0, _VELOCITY_CORRECTIONS, correct, R @ (B @ dq + ddz))
    return jnp.concatenate([moved, dq, u + du]), R, back


def _aligned(P, S, B):
    """(R, S) of a selection B, of the projector and the pseudo-inverse of J."""
    R = P @ B.T @ spd_inverse(B @ P @ B.T)
    return R, S - R @ (B @ S)


def _metric_forces(P: Float[Array, "nv nv"], B: Float[Array, "dof nv"]) -> Float[Array, "nv dof"]:
    L = jnp.linalg.cholesky(B @ P @ B.T)
    return jax.scipy.linalg.solve_triangular(L, B, lower=True).T


def best_selection(
    mechanism: AbstractMechanism, q: Coordinates, P: Float[Array, "nv nv"], dof: int
) -> Float[Array, "dof nv"]:
    """Rows of the identity for the velocities that the motion moves most, one after the other.

    Args:
        P: Orthogonal projector on the null space of Φ_q, of velocities by their sizes.
    """
    massless = jnp.diag(mechanism.mass_matrix(q)) == 0
    preference = jnp.where(massless, _MASSLESS_PREFERENCE**2, 1.0) * (1 - _TIE * jnp.arange(P.shape[0], dtype=P.dtype))
    selected = []
    for _ in range(dof):
        share = jnp.diag(P)
        row = jax.nn.one_hot(jnp.argmax(preference * share), P.shape[0], dtype=P.dtype)
        column = P @ row
        P = P - jnp.outer(column, column) / (row @ column)
        selected.append(row)
    return jnp.stack(selected)


def _split(mechanism, x):
    n, nv = mechanism.n, mechanism.nv
    return x[:n], x[n : n + nv], x[n + nv :]
