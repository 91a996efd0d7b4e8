"""Torques of a tree as a linear function of the inertial numbers of its bodies."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fgmbs.mechanisms.tree.kernels import motion
from fgmbs.mechanisms.tree.kernels.numbers import TreeNumbers
from fgmbs.mechanisms.tree.kernels.vectors import cross, transposed_times
from fgmbs.mechanisms.tree.topology import TreeTopology
from fgmbs.typing import Coordinates, Velocities


def regressor(
    topology: TreeTopology, numbers: TreeNumbers, q: Coordinates, dq: Velocities, ddq: Velocities
) -> Float[Array, "nv bodies 10"]:
    """Y with τ = Σ Y[:, b] π_b + forces of the joints; see `fgmbs.tree.regressor`."""
    at = motion.placed(topology, numbers, q, relative=True)
    S = motion.columns(topology, numbers, at)
    rates, accelerations = (motion.column_rates(topology, numbers, x) for x in (dq, ddq))
    V = motion.twists(topology, S, rates)
    dV = motion.twist_rates(topology, S, V, rates, accelerations)
    # Of the bodies' origins, seen from the bodies.
    w, dw = (transposed_times(at.R, x) for x in (V.w, dV.w))
    a = dV.v + cross(dV.w, at.p) + cross(V.w, V.v + cross(V.w, at.p)) - numbers.gravity[:, None]
    a = transposed_times(at.R, a)

    def wrench(w, dw, a):
        """(6, 10): of one body about its origin."""

        def of(pi):
            mc, (xx, yy, zz, xy, xz, yz) = pi[1:4], pi[4:]
            J = jnp.stack([jnp.stack([xx, xy, xz]), jnp.stack([xy, yy, yz]), jnp.stack([xz, yz, zz])])
            n = J @ dw + jnp.cross(w, J @ w) + jnp.cross(mc, a)
            return jnp.concatenate([n, pi[0] * a + jnp.cross(dw, mc) + jnp.cross(w, jnp.cross(w, mc))])

        return jax.jacfwd(of)(jnp.zeros(10, q.dtype))

    wrenches = jax.vmap(wrench, -1)(w, dw, a)  # bodies, 6, 10
    R, p = jnp.moveaxis(at.R, -1, 0), at.p.T
    f = jnp.einsum("bij,bjk->bik", R, wrenches[:, 3:])
    n = jnp.einsum("bij,bjk->bik", R, wrenches[:, :3]) + jnp.cross(p[:, :, None], f, axis=1)
    by_column = jnp.einsum("ic,bik->cbk", jnp.concatenate([S.w, S.v]), jnp.concatenate([n, f], axis=1))
    by_column = by_column * topology.supports[:, :, None]
    return jnp.moveaxis(motion.gathered(topology, numbers, jnp.moveaxis(by_column, 0, -1)), -1, 0)
