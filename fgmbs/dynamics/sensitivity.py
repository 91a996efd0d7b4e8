"""How a small change of the start of a motion grows: whether its end is determined."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fgmbs.compiled.program import program
from fgmbs.dynamics import acceleration
from fgmbs.dynamics.chart import MotionChart
from fgmbs.kinematics.base import prepared
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.typing import Coordinates, Scalar, Velocities

_AT_ONCE = 512
"""Steps that are linearized in one program."""
_LARGE = 1e100
"""Numbers from which on a product is scaled back."""


def growth_of_changes(
    mechanism: AbstractMechanism,
    t: Float[Array | np.ndarray, " steps"],
    q: Float[Array | np.ndarray, "steps n"],
    dq: Float[Array | np.ndarray, "steps nv"],
) -> Float[np.ndarray, " steps"]:
    """The largest factor by which a small displacement of the start has grown, at every step.

    The linearized motion δẋ = D(t) δx along the directions in which the mechanism can move, from step to step by the
    trapezoidal rule, which lets nothing grow that does not. Coordinates count by their sizes.

    Args:
        mechanism: The mechanism.
        t: Times, with equal steps or not [s].
        q: Coordinates of every step, on the constraints.
        dq: Velocities.

    Raises:
        AssemblyError: The mechanism cannot be assembled, so that its degrees of freedom are not known.
    """
    t, q, dq = (np.asarray(part) for part in (t, q, dq))
    place = np.minimum(np.arange(-(-len(t) // _AT_ONCE) * _AT_ONCE), len(t) - 1).reshape(-1, _AT_ONCE)
    parts = [_linearized(prepared(mechanism), mechanism.dof, t[k], q[k], dq[k]) for k in place]
    D, E, C, places, start = (np.concatenate(leaves)[: len(t)] for leaves in zip(*parts, strict=True))
    half = np.diff(t)[:, None, None] / 2
    one = np.eye(D.shape[-1])
    steps = C[1:] @ np.linalg.solve(one - half * D[1:], E[:-1] + half * (D[:-1] @ E[:-1]))
    change, logs, found = start[0], 0.0, [np.linalg.norm(places[0] @ start[0], 2)]
    for step, rows in zip(steps, places[1:], strict=True):
        change = step @ change
        if (largest := np.max(np.abs(change), initial=0.0)) > _LARGE:
            change, logs = change / largest, logs + np.log(largest)
        found.append(np.exp(min(logs + np.log(np.linalg.norm(rows @ change, 2) + 1e-300), 700.0)))
    return np.array(found)


@program
def _linearized(mechanism: AbstractMechanism, dof: int, *motion: Array) -> tuple[Array, ...]:
    """Of steps (t, q, dq): (D, directions of motion δ → (v, dq), δ of these, δ → coordinates by their sizes, unit
    displacements of the independent coordinates by theirs)."""
    chart = MotionChart(dof)

    def at(t: Scalar, q: Coordinates, dq: Velocities):
        n, nv = mechanism.n, mechanism.nv
        zero, now = jnp.zeros(nv, q.dtype), jnp.zeros((), q.dtype)

        def rates(v, w):
            """Of a neighbour (q ⊞ v, dq + w), seen from the motion."""
            beside = mechanism.retract(q, v)
            apart = lambda s: mechanism.local(mechanism.retract(q, s * dq), mechanism.retract(beside, s * (dq + w)))
            dv = jax.jvp(apart, (now,), (jnp.ones_like(now),))[1]
            return jnp.concatenate([dv, acceleration(mechanism, beside, dq + w, t)[0]])

        D = jnp.concatenate(jax.jacfwd(rates, (0, 1))(zero, zero), axis=1)
        x = jnp.concatenate([q, dq])
        E = chart.tangent(mechanism, x, t)
        C = chart.coordinates(mechanism, x, t)
        local = jax.vmap(lambda e: jax.jvp(lambda y: mechanism.local(q, y), (q,), (e,))[1], 1, 1)(E[:n])
        sizes = jnp.ones(nv, q.dtype) if mechanism.local_sizes is None else mechanism.local_sizes
        unit = jnp.diag(C[:dof, :nv] @ sizes)
        places = E[:n] / mechanism.coordinate_sizes[:, None]
        return D, jnp.concatenate([local, E[n:]]), C, places, jnp.concatenate([unit, jnp.zeros((dof, dof), q.dtype)])

    return jax.vmap(at)(*motion)
