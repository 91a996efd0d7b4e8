"""True motions of the four-bar under random forces, for estimators to be tried on.

In the three-simulation method a first simulation is the truth, its sensors feed the estimator, which knows another
mechanism (a wrong mass, gravity or start), and a third simulation shows where that one goes without sensors. White
forces of a given power on the truth let covariances be compared with errors over many seeds.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from independent_motion import nearest_on_constraints, on_constraints, runge_kutta

import fgmbs
from fgmbs.mechanisms.base import AbstractMechanism


class Truth(NamedTuple):
    """A motion; its constraints hold to rounding."""

    t: jax.Array
    q: jax.Array
    dq: jax.Array
    ddq: jax.Array
    """Without the white part, which has no value at an instant."""


def truth(
    mechanism: AbstractMechanism,
    duration: float,
    dt_out: float,
    power,
    seed,
    *,
    z: str | tuple[str, ...] = "theta",
    mean=(0.0, 0.0),
    std=(0.0, 0.0),
    dt: float = 1e-4,
) -> Truth:
    """A motion of a mechanism, driven by its own forces and white ones.

    The white forces are drawn anew for every Runge–Kutta step of length dt and held over it. Batches over seeds, power,
    mean, std and the mechanism's parameters.

    Args:
        mechanism: The mechanism; its reference is near the start.
        duration: From 0 [s].
        dt_out: Between the samples that are returned, a multiple of dt [s].
        power: Kinetic energy that the white forces feed into the mechanism [W]: ddz has the spectral density
            2 power B P Bᵀ, P of [M Φ_qᵀ; Φ_q 0]⁻¹.
        seed: Integer or key.
        z: Its independent coordinate, or several, which determine the others at the start.
        mean: Of z and dz at the start.
        std: Their standard deviations.
        dt: Integration step [s].
    """
    places = tuple(mechanism.coordinate_names.index(name) for name in ((z,) if isinstance(z, str) else z))
    key = jax.random.key(seed) if jnp.issubdtype(jnp.asarray(seed).dtype, jnp.integer) else seed
    moments = (jnp.broadcast_to(jnp.reshape(jnp.asarray(x, float), (2, -1)), (2, len(places))) for x in (mean, std))
    numbers = jnp.asarray(power, float), *moments
    return _simulate(mechanism, places, round(duration / dt_out), round(dt_out / dt), dt_out, key, *numbers)


@eqx.filter_jit
def _simulate(mechanism, places, samples, substeps, dt_out, key, power, mean, std):
    mechanism = mechanism.evaluated()
    h = dt_out / substeps

    def step(state, data):
        q, dq = state
        t, draw = data
        # Forces of spectral density 2 p M give ddq one of P 2 p M P = 2 p P.
        w, V = jnp.linalg.eigh(mechanism.mass_matrix(q))
        force = jnp.sqrt(2 * power / h) * V @ (jnp.sqrt(jnp.maximum(w, 0.0)) * draw)
        q, dq = runge_kutta(mechanism, q, dq, t, h, lambda q, t: force)
        return nearest_on_constraints(mechanism, q, dq, t + h), None

    def sample(state, data):
        t, key = data
        draws = jax.random.normal(key, (substeps, mechanism.nv))
        return jax.lax.scan(step, state, (t + h * jnp.arange(substeps), draws))[0], state

    key_start, key_forces = jax.random.split(key)
    z, dz = mean + std * jax.random.normal(key_start, (2, len(places)))
    t = dt_out * jnp.arange(samples + 1)
    start = on_constraints(mechanism, places, z, dz, mechanism.reference, t[0])
    q, dq = jax.lax.scan(sample, start, (t, jax.random.split(key_forces, samples + 1)))[1]
    ddq = jax.vmap(lambda q, dq, t: fgmbs.acceleration(mechanism, q, dq, t)[0])(q, dq, t)
    return Truth(t, q, dq, ddq)
