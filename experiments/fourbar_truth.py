"""Writes configs/experiments/fourbar_truth.csv: the exact motion of the four-bar linkage of [Blanco21] section 7.1.

Shares no code with fgmbs: the crank angle is the one coordinate, coupler and rocker follow from it by the law of
cosines, and Lagrange's equation of that one coordinate, I(θ) θ'' + I'(θ) θ'²/2 + V'(θ) = 0, is integrated by SciPy.

    python experiments/fourbar_truth.py
"""

from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

CRANK, COUPLER, ROCKER, BASE = 1.0, 2.0, np.sqrt(13.0), 4.0  # [m]
MASSES, GRAVITY = np.array([1.0, 2.0, 4.0]), 9.81  # uniform rods [kg], [m/s²]
FILE = Path(__file__).parents[1] / "configs" / "experiments" / "fourbar_truth.csv"


def points(theta):
    """P1, P2 as complex numbers, on the branch where P2 is above the diagonal P1–B [m]."""
    P1 = CRANK * np.exp(1j * theta)
    diagonal = BASE - P1
    s = abs(diagonal)
    beta = np.arccos((s**2 + COUPLER**2 - ROCKER**2) / (2 * s * COUPLER))
    return P1, P1 + COUPLER * np.exp(1j * (np.angle(diagonal) + beta))


def rates(theta):
    """dP1/dθ, dP2/dθ: P2 keeps its distances to P1 and B."""
    P1, P2 = points(theta)
    dP1 = 1j * P1
    a, b = P2 - P1, P2 - BASE
    A = np.array([[a.real, a.imag], [b.real, b.imag]])
    x, y = np.linalg.solve(A, [(a.conjugate() * dP1).real, 0.0])
    return dP1, x + 1j * y


def inertia(theta):
    """I(θ): twice the kinetic energy at θ' = 1. A uniform rod has m/6 (|u|² + u·w + |w|²), u and w of its ends."""
    dP1, dP2 = rates(theta)
    ends = ((0.0, dP1), (dP1, dP2), (dP2, 0.0))
    squares = [abs(u) ** 2 + (np.conj(u) * w).real + abs(w) ** 2 for u, w in ends]
    return float(MASSES @ squares) / 3


def potential(theta):
    P1, P2 = points(theta)
    return GRAVITY * float(MASSES @ [P1.imag / 2, (P1.imag + P2.imag) / 2, P2.imag / 2])


def derivative(f, x, h=1e-3):
    """f' by central differences of eighth order."""
    weights = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))
    return sum(w * (f(x + k * h) - f(x - k * h)) for k, w in weights) / h


def motion(t, state):
    theta, rate = state
    acceleration = -(derivative(inertia, theta) * rate**2 / 2 + derivative(potential, theta)) / inertia(theta)
    return rate, acceleration


if __name__ == "__main__":
    t = np.arange(251) * 0.02
    solution = solve_ivp(motion, (0.0, t[-1]), [0.0, 0.0], method="DOP853", t_eval=t, rtol=1e-12, atol=1e-12)
    rows = []
    for t_k, theta, rate in zip(t, *solution.y, strict=True):
        positions, velocities = points(theta), [rate * dP for dP in rates(theta)]
        rows.append([t_k, *(f(P) for part in (positions, velocities) for P in part for f in (np.real, np.imag))])
    names = "t,x_P1,y_P1,x_P2,y_P2,d_x_P1,d_y_P1,d_x_P2,d_y_P2"
    header = (
        f"# Exact motion of mechanisms/fourbar.yaml from rest [s, m, m/s], by experiments/fourbar_truth.py\n{names}"
    )
    np.savetxt(FILE, rows, fmt="%.10g", delimiter=",", header=header, comments="")
