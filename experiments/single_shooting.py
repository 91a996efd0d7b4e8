"""Single shooting on the filmed double pendulum: what smoothing is compared with.

    python experiments/single_shooting.py [--runs 2 7] [--starts 2 8] [--out results/single_shooting.nc]

On a window of a run, the initial state and the parameters of the motion (three ratios of inertia and weight, two of
friction) are fitted to the markers by `scipy.optimize.least_squares` over an accurate integration without model error.
It starts from smoothed differences and the mechanism of the file ("cold"; "free" is that start itself), or from the fit
to half the window ("grown").
"""

import time
from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from rigs import ibm
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from scipy.signal import savgol_filter

from fgmbs import results

GRAVITY, L1, L2 = 9.81, 0.0913, 0.0699
NOMINAL = np.array([0.1032, 0.0761, 11.05, 0.0316, 0.0108])
"""Of the mechanism file: coupling, inertia of the lower arm, weight [1/m], friction of pivot and joint [1/s].

All are by the inertia of the upper arm with the lower one's mass at the joint.
"""


def rates(t: float, x: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """d/dt of the arms' angles from hanging and of their speeds."""
    a, b, wa, wb = x
    coupling, inertia, weight, pivot, joint = parameters
    c, s = coupling * np.cos(a - b), coupling * np.sin(a - b)
    ra = -s * wb**2 - GRAVITY * weight * np.sin(a) - pivot * wa - joint * (wa - wb)
    rb = s * wa**2 - GRAVITY * coupling / L1 * np.sin(b) - joint * (wb - wa)
    return np.array([wa, wb, (inertia * ra - c * rb) / (inertia - c**2), (rb - c * ra) / (inertia - c**2)])


class Window:
    """A piece of a run and what it says about the motion."""

    def __init__(self, run: int, start: float, length: float):
        piece = ibm.recording(run).between(start - 0.02, start + length + 0.02)
        x, y = (np.stack([piece[f"{point}.{axis}"].values for point in ("pivot", "joint", "tip")]) for axis in "xy")
        within = slice(10, -10)
        self.t = piece["tip.x"].t[within] - piece["tip.x"].t[10]
        self.pixels = np.concatenate([x[1:, within], y[1:, within]])
        self.pivot, self.scale = (np.median(x[0]), np.median(y[0])), ibm.scale(run)
        angles = np.unwrap(np.arctan2(np.diff(x, axis=0), -np.diff(y, axis=0)), axis=1) - ibm.TILT
        smooth = [savgol_filter(angles, 9, 3, deriv=k, delta=1 / ibm.FRAME_RATE)[:, 10] for k in (0, 1)]
        self.guess = np.concatenate([*smooth, NOMINAL])

    def residual(self, unknowns: np.ndarray) -> np.ndarray:
        """Predicted less measured markers [px]."""
        solved = solve_ivp(
            rates, (0, self.t[-1]), unknowns[:4], "DOP853", self.t, rtol=1e-9, atol=1e-9, args=(unknowns[4:],)
        )
        if solved.y.shape[1] < len(self.t):
            return np.full(self.pixels.size, 1e4)  # the parameters let no motion reach the end
        a, b = solved.y[:2] + ibm.TILT
        joint = np.stack([np.sin(a), -np.cos(a)]) * L1
        tip = joint + np.stack([np.sin(b), -np.cos(b)]) * L2
        points = np.stack([joint[0], tip[0], joint[1], tip[1]])
        return (self.scale * points + np.repeat(self.pivot, 2)[:, None] - self.pixels).ravel()

    def fit(self, guess: np.ndarray) -> tuple[np.ndarray, float]:
        """(unknowns, RMS of the residual [px]) from a first guess."""
        bounds = np.r_[guess[:4] - np.inf, [0.01, 0.02, 5, -0.5, -0.5]], np.r_[guess[:4] + np.inf, [0.2, 0.2, 20, 1, 1]]
        found = least_squares(self.residual, guess, bounds=bounds, x_scale=[0.01, 0.01, 0.1, 0.1, *NOMINAL / 100])
        return found.x, float(np.sqrt(np.mean(found.fun**2)))


def grown(run: int, start: float, length: float) -> tuple[np.ndarray, float]:
    """The fit from that on half the window, down to a quarter of a second."""
    window = Window(run, start, length)
    return window.fit(grown(run, start, length / 2)[0] if length > 0.3 else window.guess)


def main(
    runs: tuple[int, ...] = (2, 7, 12),
    starts: tuple[float, ...] = (2.0, 8.0),
    lengths: tuple[float, ...] = (1.0, 2.0, 5.0),
    out: Path = Path("results/single_shooting.nc"),
) -> None:
    shape = len(runs), len(starts), len(lengths)
    rms = {name: np.full(shape, np.nan) for name in ("free", "cold", "grown")}
    print("| run | from [s] | length [s] | free [px] | cold [px] | s | grown [px] | s |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for place in np.ndindex(shape):
        run, start, length = runs[place[0]], starts[place[1]], lengths[place[2]]
        window = Window(run, start, length)
        rms["free"][place] = np.sqrt(np.mean(window.residual(window.guess) ** 2))
        seconds = {}
        for name, fit in (
            ("cold", lambda w=window: w.fit(w.guess)),
            ("grown", lambda a=(run, start, length): grown(*a)),
        ):
            begun = time.perf_counter()
            rms[name][place] = fit()[1]
            seconds[name] = time.perf_counter() - begun
        cold, longer = (f"{rms[name][place]:.2f} | {seconds[name]:.1f}" for name in ("cold", "grown"))
        print(f"| {run} | {start:g} | {length:g} | {rms['free'][place]:.1f} | {cold} | {longer} |", flush=True)
    coordinates = {"run": list(runs), "start": ("start", list(starts), {"units": "s"})}
    coordinates |= {"length": ("length", list(lengths), {"units": "s"})}
    variables = {name: (("run", "start", "length"), values, {"units": "px"}) for name, values in rms.items()}
    results.write(xr.Dataset(variables, coords=coordinates), out)


if __name__ == "__main__":
    tyro.cli(main)
