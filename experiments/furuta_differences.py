"""Numerical differentiation of the Furuta pendulum's angle: what smoothed speeds and accelerations are compared with.

    python experiments/furuta_differences.py [--start 4] [--length 4] [--out results/furuta_differences.nc]

The truth is a motion without model error, of the pendulum alone while the arm is at rest, fitted to the angles of
free_2024 by single shooting; its residual tells how far it can be trusted.
"""

from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from rigs import furuta
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from scipy.signal import savgol_filter

from fgmbs import results

DT = 0.002
"""Nominal period of the recording [s]."""
WINDOWS = (5, 9, 15, 21, 31, 51, 81)
"""Of Savitzky-Golay filters of third order [samples]."""


def rates(t: float, x: np.ndarray, stiffness: float, viscous: float, coulomb: float, drag: float, tilt: float):
    """d/dt of the pendulum's angle from hanging and of its speed, all forces by its inertia."""
    losses = viscous * x[1] + coulomb * np.tanh(x[1] / 0.05) + drag * np.abs(x[1]) * x[1]
    return np.array([x[1], -stiffness * np.sin(x[0] - tilt) - losses])


def fitted(t: np.ndarray, angles: np.ndarray, speed: float) -> tuple[np.ndarray, np.ndarray]:
    """(parameters and initial state, angles and speeds) of the motion next to the angles."""

    def motion(unknowns: np.ndarray, count: int) -> np.ndarray:
        span = 0, t[count - 1] - t[0]
        return solve_ivp(
            rates, span, unknowns[5:], "DOP853", t[:count] - t[0], rtol=1e-9, atol=1e-9, args=tuple(unknowns[:5])
        ).y

    unknowns = np.array([86.8, 0.1, 0.1, 0.004, 0.0, angles[0], speed])
    for count in (len(t) // 4, len(t)):  # a quarter first, within which the guess keeps its phase
        unknowns = least_squares(
            lambda x, count=count: motion(x, count)[0] - angles[:count],
            unknowns,
            x_scale=[1, 0.02, 0.02, 2e-3, 0.01, 0.01, 0.1],
        ).x
    return unknowns, motion(unknowns, len(t))


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


def main(start: float = 4.0, length: float = 4.0, out: Path = Path("results/furuta_differences.nc")) -> None:
    recording = furuta.recording("free_2024").between(start, start + length)
    angle, drive = recording["pendulum"], recording["pendulum_speed"]
    turns = 2 * np.pi * np.round(np.median(angle.values) / (2 * np.pi))
    unknowns, (q, dq) = fitted(angle.t, angle.values - turns, drive.values[0])
    ddq = np.array([rates(0, x, *unknowns[:5])[1] for x in np.stack([q, dq], axis=1)])
    print(
        f"fitted motion: {rms(q + turns - angle.values):.4f} rad from the angles; stiffness {unknowns[0]:.2f} rad/s²\n"
    )

    t = np.arange(angle.t[0], angle.t[-1], DT)
    sampled, dq, ddq = (np.interp(t, angle.t, x) for x in (angle.values, dq, ddq))
    inner = slice(max(WINDOWS), -max(WINDOWS))
    speed, acceleration = [], []
    print("| Savitzky-Golay | error of speed [rad/s] | of acceleration [rad/s²] |")
    print("| --- | ---: | ---: |")
    for window in WINDOWS:
        first, second = (savgol_filter(sampled, window, 3, deriv=k, delta=DT) for k in (1, 2))
        speed.append(rms((first - dq)[inner]))
        acceleration.append(rms((second - ddq)[inner]))
        print(f"| {window} samples | {speed[-1]:.3f} | {acceleration[-1]:.2f} |")
    reported = rms((np.interp(t, drive.t, drive.values) - dq)[inner])
    print(f"| by the drive | {reported:.3f} | |\n")
    lags = np.arange(0, 0.02, DT / 4)
    errors = [rms((np.interp(t + lag, drive.t, drive.values) - dq)[inner]) for lag in lags]
    print(f"the drive's speed comes {1e3 * lags[np.argmin(errors)]:.1f} ms late; without that {min(errors):.3f} rad/s")
    variables = {"speed": ("window", speed, {"units": "rad/s"})}
    variables["acceleration"] = ("window", acceleration, {"units": "rad/s²"})
    results.write(xr.Dataset(variables, coords={"window": list(WINDOWS)}, attrs={"drive": reported}), out)


if __name__ == "__main__":
    tyro.cli(main)
