"""Inverse dynamics by dense least squares in numpy, which shares no code with the package but M, Q and Φ."""

import equinox as eqx
import jax
import numpy as np


@eqx.filter_jit
def _terms(mechanism, q, dq, t):
    return (
        mechanism.constraints(q, t),
        mechanism.constraint_jacobian(q, t),
        mechanism.constraint_bias(q, dq, t),
        mechanism.forces(q, dq, t),
        mechanism.mass_matrix(q),
    )


def exact_inverse(mechanism, t, followed, y, dy, ddy, q, A):
    """(forces, q, dq, ddq) of a motion whose coordinates `followed` are y; A(q) are the columns of the motors."""
    n, k = len(q), len(followed)
    B, q = np.eye(n)[list(followed)], np.array(q, float)
    rows = []
    for i, time in enumerate(t):
        for _ in range(60):
            Phi, Phi_q, *_ = map(np.array, _terms(mechanism, q, np.zeros(n), time))
            step = np.linalg.lstsq(np.vstack([Phi_q, B]), np.r_[Phi, B @ q - y[i]], rcond=1e-9)[0]
            q = q - step
            if np.abs(step).max() < 1e-13:
                break
        J = np.vstack([Phi_q, B])
        dq = np.linalg.lstsq(J, np.r_[np.zeros(len(Phi)), dy[i]], rcond=1e-9)[0]
        _, _, c, Q, M = map(np.array, _terms(mechanism, q, dq, time))
        ddq = np.linalg.lstsq(J, np.r_[c, ddy[i]], rcond=1e-9)[0]
        columns = A(q)
        x = np.linalg.lstsq(np.hstack([Phi_q.T, -columns]), Q - M @ ddq, rcond=1e-9)[0]
        rows.append((x[len(Phi) :], q, dq, ddq))
        assert k == len(y[i])
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def central_difference(function, x, h=1e-5):
    """Gradient of a function of a vector by central differences."""
    return np.array([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def read_table(path):
    """A table of numbers with comments of `%`."""
    return np.loadtxt(path, comments="%")


def jit_vmap(function):
    return jax.jit(jax.vmap(function))
