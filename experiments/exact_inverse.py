"""Exact inverse dynamics of planar mechanisms in plain NumPy, sharing no code with fgmbs.

Coordinates are x, y of every free point; all distances between points of a body are constraints, redundant ones
included. A point follows a path of which position, velocity and acceleration are known. Position by Newton's method,
the rest by dense least squares at each sample.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


class Body(NamedTuple):
    """A rigid body: its frame has its origin at the first point and its x axis through the second."""

    points: tuple[int, ...]
    mass: float
    I0: float
    """About the first point [kg m²]."""
    cog: tuple[float, float]


def rod(i: int, j: int, mass: float, points: np.ndarray) -> Body:
    """A uniform rod between two points as drawn."""
    length = np.linalg.norm(points[j] - points[i])
    return Body((i, j), mass, mass * length**2 / 3, (length / 2, 0.0))


class Mechanism(NamedTuple):
    points: np.ndarray
    """As drawn (points, 2) [m]."""
    fixed: tuple[int, ...]
    bodies: tuple[Body, ...]
    motors: tuple[tuple[int, int], ...]
    """Each turns the link from a fixed point to another, counter-clockwise."""

    @property
    def free(self) -> np.ndarray:
        """Indices of the coordinates of free points."""
        moving = [i for i in range(len(self.points)) if i not in self.fixed]
        return np.array([2 * i + axis for i in moving for axis in (0, 1)])


class Exact(NamedTuple):
    points: np.ndarray
    """(steps, points, 2) [m]."""
    torques: np.ndarray
    """(steps, motors) [N·m]."""


def inverse_dynamics(mechanism: Mechanism, follower: int, path: np.ndarray, gravity: float) -> Exact:
    """Motion and motor torques with which a point follows a path.

    Args:
        mechanism: The mechanism; its drawing is near the first sample.
        follower: The point.
        path: Its position, velocity and acceleration (steps, 3, 2) [m, m/s, m/s²].
        gravity: Downwards [m/s²].
    """
    free, rows = mechanism.free, [2 * follower, 2 * follower + 1]
    follow = np.eye(mechanism.points.size)[rows]
    pairs = {pair for body in mechanism.bodies for pair in combinations(body.points, 2)}
    lengths = {(i, j): np.linalg.norm(mechanism.points[j] - mechanism.points[i]) for i, j in sorted(pairs)}
    M, Q = _mass(mechanism), np.zeros(mechanism.points.size)
    for body in mechanism.bodies:
        Q += body.mass * _carrier(mechanism, body, body.cog).T @ [0.0, -gravity]
    x, points, torques = mechanism.points.ravel().copy(), [], []
    for y, dy, ddy in path:
        for _ in range(20):
            Phi, J = _constraints(lengths, x)
            J = np.vstack([J, follow])
            step = np.linalg.lstsq(J[:, free], np.concatenate([-Phi, y - x[rows]]), rcond=1e-10)[0]
            x[free] += step
            if np.abs(step).max() < 1e-14:
                break
        Phi, Phi_q = _constraints(lengths, x)
        J = np.vstack([Phi_q, follow])[:, free]
        dx, ddx = np.zeros_like(x), np.zeros_like(x)
        dx[free] = np.linalg.lstsq(J, np.concatenate([0 * Phi, dy]), rcond=1e-10)[0]
        ddx[free] = np.linalg.lstsq(J, np.concatenate([-2 * _constraints(lengths, dx, 0.0)[0], ddy]), rcond=1e-10)[0]
        A = np.stack([_torque(x, *link) for link in mechanism.motors], axis=1)
        # M q̈ + Φ_qᵀ λ = Q + A u for λ and u, of which u is unique although λ is not.
        unknown = np.linalg.lstsq(np.hstack([Phi_q.T, -A])[free], (Q - M @ ddx)[free], rcond=1e-10)[0]
        points.append(x.reshape(-1, 2).copy())
        torques.append(unknown[len(Phi) :])
    return Exact(np.array(points), np.array(torques))


def _constraints(lengths, x: np.ndarray, share: float = 1.0):
    """Φ = (|d|² − share L²)/2 of all pairs, and its Jacobian."""
    Phi, Phi_q = np.zeros(len(lengths)), np.zeros((len(lengths), len(x)))
    for row, ((i, j), length) in enumerate(lengths.items()):
        d = x[2 * j : 2 * j + 2] - x[2 * i : 2 * i + 2]
        Phi[row] = (d @ d - share * length**2) / 2
        Phi_q[row, 2 * i : 2 * i + 2], Phi_q[row, 2 * j : 2 * j + 2] = -d, d
    return Phi, Phi_q


def _carrier(mechanism: Mechanism, body: Body, place) -> np.ndarray:
    """N with N x = position of a place (a, b) in the frame of a body."""
    i, j = body.points[:2]
    a, b = np.array(place) / np.linalg.norm(mechanism.points[j] - mechanism.points[i])
    N = np.zeros((2, mechanism.points.size))
    N[:, 2 * i : 2 * i + 2] = (1 - a) * np.eye(2) - b * TURN
    N[:, 2 * j : 2 * j + 2] = a * np.eye(2) + b * TURN
    return N


def _mass(mechanism: Mechanism) -> np.ndarray:
    """M: each body moves as its mass at the cog and four quarters of mass m/4, whose moment of inertia is the rest."""
    M = np.zeros((mechanism.points.size,) * 2)
    for body in mechanism.bodies:
        radius = np.sqrt(body.I0 / body.mass - np.dot(body.cog, body.cog))
        for offset in radius * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
            N = _carrier(mechanism, body, np.array(body.cog) + offset)
            M += body.mass / 4 * N.T @ N
    return M


def _torque(x: np.ndarray, i: int, j: int) -> np.ndarray:
    """Generalized forces of a unit torque on the link i → j: a couple of forces across it."""
    d = x[2 * j : 2 * j + 2] - x[2 * i : 2 * i + 2]
    force = np.zeros_like(x)
    force[2 * j : 2 * j + 2] = TURN @ d / (d @ d)
    force[2 * i : 2 * i + 2] = -force[2 * j : 2 * j + 2]
    return force
