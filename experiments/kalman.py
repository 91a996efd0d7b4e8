"""Reference estimator: an error-state extended Kalman filter and Rauch–Tung–Striebel smoother of a mechanism.

State x = [z, dz, u]: independent coordinates, their velocities and unknown forces, as the errorEKF of Sanjurjo, Naya,
Blanco-Claraco, Torres-Moreno, Giménez-Fernández 2017 (Nonlinear Dynamics 88): the mechanism is simulated, the filter
estimates how far it is off, and z and dz with that error put right give all coordinates through the constraints. One
linearisation per step, Jacobians by AD; it shares the mechanics with fgmbs, neither factors, graph nor solvers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from independent_motion import on_constraints, runge_kutta
from jax.scipy.linalg import block_diag, cho_factor, cho_solve

import fgmbs
from fgmbs.algebra.kkt import kkt_inverse
from fgmbs.mechanisms.base import AbstractMechanism


class Measurement(NamedTuple):
    """What a sensor read: y = h(q, dq, ddq, t) + noise of covariance R, at some steps."""

    steps: np.ndarray
    """Their numbers, from 0 (readings,)."""
    h: Callable
    """Angles must not jump: unwrap those of y."""
    y: jax.Array
    """(readings, rows)."""
    R: np.ndarray
    """(rows, rows)."""


class Estimate(NamedTuple):
    """Means and covariances at every step; those of q, dq, ddq by linear propagation."""

    x: jax.Array
    """[z, dz, u] (steps, 2 dof + forces)."""
    cov: jax.Array
    q: jax.Array
    dq: jax.Array
    ddq: jax.Array
    """Without the white part, which has no value at an instant."""
    sigma_q: jax.Array
    sigma_dq: jax.Array
    sigma_ddq: jax.Array


class Kalman(NamedTuple):
    filtered: Estimate
    smoothed: Estimate
    log_likelihood: jax.Array
    """Of all measurements, from the innovations."""


class _Problem(NamedTuple):
    """What does not change from step to step."""

    mechanism: AbstractMechanism
    places: tuple[int, ...]
    """Of z in q."""
    walks: tuple[str, ...]
    rates: jax.Array
    """(forces,)"""
    density: jax.Array
    power: jax.Array

    def split(self, x):
        dof = len(self.places)
        return x[:dof], x[dof : 2 * dof], x[2 * dof :]

    def directions(self, q, t):
        """Generalized forces per unit of each unknown force (nv, forces)."""
        names, actuation = self.mechanism.actuator_names, self.mechanism.actuation(q, t)
        unit = jnp.eye(self.mechanism.nv)
        columns = [
            actuation[:, names.index(name)] if name in names else unit[self.mechanism.coordinate_names.index(name)]
            for name in self.walks
        ]
        return jnp.reshape(jnp.asarray(columns).T, (self.mechanism.nv, len(columns)))

    def motion(self, x, q_near, t):
        """(q, dq, ddq) of a state."""
        z, dz, u = self.split(x)
        q, dq = on_constraints(self.mechanism, self.places, z, dz, q_near, t)
        return q, dq, fgmbs.acceleration(self.mechanism, q, dq, t, self.directions(q, t) @ u)[0]

    def advance(self, x, q_near, t, dt):
        """State a time dt later, and the coordinates now and then."""
        z, dz, u = self.split(x)
        q0, dq0 = on_constraints(self.mechanism, self.places, z, dz, q_near, t)
        q, dq = runge_kutta(self.mechanism, q0, dq0, t, dt, lambda q, t: self.directions(q, t) @ u)
        places = jnp.asarray(self.places)
        return jnp.concatenate([q[places], dq[places], u]), q0, q

    def noise(self, q, t, dt):
        """∫ Φ(s) L S Lᵀ Φ(s)ᵀ ds from 0 to dt, of the integrators u → ddz → dz → z with the mechanism held at q."""
        P = kkt_inverse(self.mechanism.mass_matrix(q), self.mechanism.constraint_jacobian(q, t)).P
        places = jnp.asarray(self.places)
        twice = jnp.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
        thrice = jnp.array([[dt**5 / 20, dt**4 / 8, dt**3 / 6], [dt**4 / 8, *twice[0]], [dt**3 / 6, *twice[1]]])
        white = jnp.kron(twice, self.density + 2 * self.power * P[jnp.ix_(places, places)])
        response = P[places] @ self.directions(q, t)
        L = block_diag(response, response, jnp.eye(len(self.walks)))
        walks = L @ jnp.kron(thrice, jnp.diag(self.rates**2)) @ L.T
        return walks.at[: len(white), : len(white)].add(white)


def kalman(
    mechanism: AbstractMechanism,
    z: Sequence[str],
    dt: float,
    num_steps: int,
    measurements: Sequence[Measurement],
    mean,
    cov,
    *,
    power=0.0,
    density=0.0,
    walks: Mapping[str, float] | None = None,
    q0=None,
    substeps: int = 1,
) -> Kalman:
    """Filtered and smoothed motion of a mechanism at the times k dt, k = 0 … num_steps − 1.

    Compiles; batches over y, mean, cov, power, density and the mechanism's parameters.

    Args:
        mechanism: The mechanism as it is believed to be.
        z: Independent coordinates; they must determine the others all the way.
        dt: Step [s].
        num_steps: Number of instants.
        measurements: At the same steps or not.
        mean: Of the state [z, dz, u] at t = 0, before its measurement (2 dof + forces,).
        cov: Its covariance, positive definite.
        power: Kinetic energy that white forces feed into each degree of freedom [W]: ddz has the spectral density
            2 power B P Bᵀ, P of [M Φ_qᵀ; Φ_q 0]⁻¹.
        density: Spectral density of ddz on top, scalar or (dof, dof) [(m/s²)² s, (rad/s²)² s].
        walks: Unknown forces that walk at random: change of the standard deviation [N/√s, N·m/√s] by actuator or
            coordinate.
        q0: Coordinates near the start, which choose the branch; the reference of the mechanism by default.
        substeps: Runge–Kutta steps of a step.
    """
    walks = walks or {}
    mechanism = mechanism.evaluated()
    problem = _Problem(
        mechanism,
        tuple(mechanism.coordinate_names.index(name) for name in z),
        tuple(walks),
        jnp.asarray(list(walks.values()), float),
        density * jnp.eye(len(z)) if jnp.ndim(density) == 0 else jnp.asarray(density),
        jnp.asarray(power, float),
    )
    whitening = [np.linalg.inv(np.linalg.cholesky(part.R)) for part in measurements]
    y, taken = [jnp.zeros((num_steps, 0))], [jnp.zeros((num_steps, 0), bool)]
    for part, W in zip(measurements, whitening, strict=True):
        y.append(jnp.zeros((num_steps, len(W))).at[part.steps].set(part.y @ W.T))
        taken.append(jnp.zeros((num_steps, len(W)), bool).at[part.steps].set(True))
    return _estimate(
        problem,
        tuple(part.h for part in measurements),
        tuple(map(jnp.asarray, whitening)),
        jnp.concatenate(y, axis=1),
        jnp.concatenate(taken, axis=1),
        (jnp.asarray(mean, float), jnp.asarray(cov, float), mechanism.reference if q0 is None else jnp.asarray(q0)),
        jnp.asarray(dt, float),
        substeps,
    )


@eqx.filter_jit
def _estimate(problem, sensors, whitening, y, taken, start, dt, substeps):
    t = dt * jnp.arange(len(y))
    scale = jnp.concatenate([jnp.zeros(0), *(jnp.log(jnp.diagonal(W)) for W in whitening)])

    def readings(x, q_near, t):
        q, dq, ddq = problem.motion(x, q_near, t)
        rows = [W @ h(q, dq, ddq, t) for W, h in zip(whitening, sensors, strict=True)]
        rows = jnp.concatenate([jnp.zeros(0), *rows])
        return rows, rows

    def update(x, P, q_near, t, y, taken):
        """Row by row, which whitened rows allow: no matrix to invert."""
        H, predicted = jax.jacfwd(readings, has_aux=True)(x, q_near, t)

        def row(carry, data):
            error, P = carry
            H, innovation, taken, scale = data
            s = H @ P @ H + 1
            e = innovation - H @ error
            K = jnp.where(taken, P @ H / s, 0.0)
            A = jnp.eye(len(x)) - jnp.outer(K, H)
            log_likelihood = jnp.where(taken, scale - 0.5 * (e**2 / s + jnp.log(2 * jnp.pi * s)), 0.0)
            return (error + K * e, A @ P @ A.T + jnp.outer(K, K)), log_likelihood

        (error, P), log_likelihood = jax.lax.scan(row, (jnp.zeros_like(x), P), (H, y - predicted, taken, scale))
        return x + error, P, jnp.sum(log_likelihood)

    def predict(x, P, q, t):
        h = dt / substeps

        def substep(carry, t):
            x, P, q_near, F = carry

            def advance(x):
                done = problem.advance(x, q_near, t, h)
                return done[0], done

            F_h, (x, q0, q) = jax.jacfwd(advance, has_aux=True)(x)
            # Mean of the noise of the mechanism as it is at the end and, carried on, at the start: second order.
            Q = (problem.noise(q, t + h, h) - F_h @ problem.noise(q0, t, -h) @ F_h.T) / 2
            return (x, F_h @ P @ F_h.T + Q, q, F_h @ F), q0

        (x, P, q, F), poses = jax.lax.scan(substep, (x, P, q, jnp.eye(len(x))), t + h * jnp.arange(substeps))
        return x, P, q, F, poses[0]

    def forward(carry, data):
        x_prior, P_prior, q = carry
        t, y, taken = data
        x, P, log_likelihood = update(x_prior, P_prior, q, t, y, taken)
        *carry, F, q = predict(x, P, q, t)
        return tuple(carry), (x_prior, P_prior, x, P, F, q, log_likelihood)

    x_prior, P_prior, x, P, F, q, log_likelihood = jax.lax.scan(forward, start, (t, y, taken))[1]

    def backward(carry, data):
        x_next, P_next = carry
        x_prior, P_prior, x, P, F = data
        G = cho_solve(cho_factor(P_prior), F @ P).T
        smoothed = x + G @ (x_next - x_prior), P + G @ (P_next - P_prior) @ G.T
        return smoothed, smoothed

    data = (x_prior[1:], P_prior[1:], x[:-1], P[:-1], F[:-1])
    x_s, P_s = jax.lax.scan(backward, (x[-1], P[-1]), data, reverse=True)[1]
    x_s, P_s = jnp.concatenate([x_s, x[-1:]]), jnp.concatenate([P_s, P[-1:]])

    def estimate(x, P, q, t):
        def motion(x):
            values = problem.motion(x, q, t)
            return values, values

        jacobians, values = jax.jacfwd(motion, has_aux=True)(x)
        return Estimate(x, P, *values, *(jnp.sqrt(jnp.einsum("ij,jk,ik->i", J, P, J)) for J in jacobians))

    both = jax.vmap(jax.vmap(estimate), (0, 0, None, None))(jnp.stack([x, x_s]), jnp.stack([P, P_s]), q, t)
    filtered, smoothed = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in (0, 1))
    return Kalman(filtered, smoothed, jnp.sum(log_likelihood))
