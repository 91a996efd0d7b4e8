"""A four-bar linkage in motion, integrated by SciPy."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fgmbs.io.planar.load import load

DT = 1e-3


@pytest.fixture(scope="session")
def fourbar(configs):
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml").evaluated()


@pytest.fixture(scope="session")
def pendulum(configs):
    return load(configs / "mechanisms" / "pendulum.yaml").evaluated()


@pytest.fixture(scope="session")
def motion(fourbar):
    """t, q, dq, ddq, lambda_ and the forces on it: a motor, and a force on a point; to 1e-11."""

    @jax.jit
    def accelerations(t, q, dq):
        force = jnp.array([0.0, 0.0, 0.0, 1.0, 0.0]) * push(t) + fourbar.actuation(q, t)[:, 0] * torque(t)
        return fourbar.accelerations(q, dq, t, force)

    def right_side(t, x):
        return np.concatenate([x[5:], accelerations(t, x[:5], x[5:])[0]])

    start = start_velocities(fourbar)
    t = np.arange(401) * DT
    x = solve_ivp(right_side, (0, t[-1]), start, "DOP853", t, rtol=1e-12, atol=1e-12).y.T
    ddq, lambda_ = jax.vmap(accelerations)(jnp.asarray(t), jnp.asarray(x[:, :5]), jnp.asarray(x[:, 5:]))
    forces = {"motor": np.asarray(torque(t)), "y_P2": np.asarray(push(t))}
    return types.SimpleNamespace(t=t, q=x[:, :5], dq=x[:, 5:], ddq=ddq, lambda_=lambda_, forces=forces)


def torque(t):
    return 20 * jnp.sin(9 * t)


def push(t):
    return 5 - 30 * t


def start_velocities(mechanism):
    """The mechanism as drawn, its crank turning by 3 rad/s."""
    q = mechanism.reference
    Phi_q = np.asarray(mechanism.constraint_jacobian(q, jnp.asarray(0.0)))
    rows = np.vstack([Phi_q, np.eye(5)[4]])
    dq = np.linalg.lstsq(rows, np.append(np.zeros(len(Phi_q)), 3.0), rcond=None)[0]
    return np.concatenate([q, dq])
