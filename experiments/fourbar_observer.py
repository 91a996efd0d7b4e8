"""Three simulations of the four-bar: a truth, an observer that knows other masses, and that mechanism left alone.

    python experiments/fourbar_observer.py [--error 0.1] [--power 0.1] [--seeds 5] [--out results/fourbar_observer.nc]

The first one gives the readings; coupler and rocker of the mechanism that the estimators know are too heavy by a share
of `--error`. All have the same noise and the same power of white forces, which stand for what is wrong with the model,
except the last one, which finds it. After Sanjurjo et al. 2017 (see kalman.py).
"""

from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from fourbar_observed import DT, FILE, MEAN, STD, Errors, errors, filtered, recorded, smoothed, true_motion
from fourbar_truths import truth
from tqdm import tqdm

import fgmbs
from fgmbs import results
from fgmbs.inputs import Disturbance

ALONE, FOUND = "wrong model alone", "fgmbs, power found"


def main(
    error: float = 0.1,
    power: float = 0.1,
    duration: float = 2.0,
    seeds: int = 5,
    windows: tuple[int, ...] = (5, 20),
    out: Path = Path("results/fourbar_observer.nc"),
) -> None:
    mechanism = fgmbs.load(FILE)
    masses = {name: float(mechanism.parameters[name]) * (1 + error) for name in ("coupler.mass", "rocker.mass")}
    wrong = mechanism.with_parameters(masses)
    steps = round(duration / DT) + 1
    found: dict[str, list[Errors]] = {}
    powers = []
    for seed in tqdm(range(seeds), desc="seeds"):
        motion = true_motion(mechanism, steps, seed, power=0.0)
        alone = truth(wrong, duration, DT, 0.0, seed, mean=MEAN, std=STD, dt=2e-4)  # from the true start
        recording = recorded(mechanism, motion, seed)
        theirs = filtered(wrong, recording, steps, power=power)
        estimates = {ALONE: alone, "EKF": theirs.filtered, "RTS smoother": theirs.smoothed}
        given = (Disturbance(power),)
        estimates["fgmbs"] = smoothed(wrong, recording, inputs=given)
        for window in windows:
            estimates[f"fgmbs, window {window}"] = smoothed(wrong, recording, inputs=given, window=window)
        estimates[FOUND] = smoothed(wrong, recording, inputs=(Disturbance(),))
        powers.append(float(estimates[FOUND].inputs[0].power))
        for name, estimate in estimates.items():
            found.setdefault(name, []).append(errors(estimate, motion))

    names = [d + name for d in ("", "d_", "dd_") for name in mechanism.coordinate_names]
    gaps = np.array([[np.concatenate([e.q, e.dq, e.ddq], axis=1) for e in parts] for parts in found.values()])
    rmse = np.sqrt(np.mean(gaps**2, axis=(1, 2)))
    print("| RMSE, SI | " + " | ".join(found) + " |\n| --- |" + " ---: |" * len(found))
    for name, row in zip(names, rmse.T, strict=True):
        print(f"| {name} | " + " | ".join(f"{value:.5f}" for value in row) + " |")
    nees = np.array([np.mean([e.nees for e in parts]) for parts in found.values()])
    print("| mean NEES (2) | " + " | ".join(f"{value:.2f}" for value in nees) + " |")
    print(f"\npower found: {min(powers):.3g} to {max(powers):.3g} W; given: {power:g} W")
    variables = {"rmse": (("estimator", "coordinate"), rmse), "nees": (("estimator",), nees)}
    results.write(xr.Dataset(variables, coords={"estimator": [*found], "coordinate": names}), out)


if __name__ == "__main__":
    tyro.cli(main)
