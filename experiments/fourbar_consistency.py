"""Are the bands of the smoother right? Errors of many estimates of the four-bar, each by its own account.

    python experiments/fourbar_consistency.py [--seeds 200] [--steps 500] [--out results/fourbar_consistency.nc]

Starts, white forces and noise of the sensors are drawn from what the estimators believe. Then the normalized error
squared (NEES) of crank angle and rate has the mean 2 at every step, and 95 % bands hold 95 % of the truths. Bands are
linear: at a dead point of a coordinate its standard deviation goes through zero, its error does not.
"""

from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from fourbar_observed import FILE, errors, filtered, recorded, smoothed, true_motion
from scipy.stats import chi2
from tqdm import tqdm

import fgmbs
from fgmbs import results


def spread(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean over the first axis."""
    return np.std(values, axis=0, ddof=1) / np.sqrt(len(values))


def main(seeds: int = 200, steps: int = 500, out: Path = Path("results/fourbar_consistency.nc")) -> None:
    mechanism = fgmbs.load(FILE)
    found = {"fgmbs": [], "RTS smoother": [], "EKF": []}
    groups = []
    for seed in tqdm(range(seeds), desc="seeds"):
        motion = true_motion(mechanism, steps, seed)
        recording = recorded(mechanism, motion, seed)
        ours, theirs = smoothed(mechanism, recording), filtered(mechanism, recording, steps)
        for name, estimate in zip(found, (ours, theirs.smoothed, theirs.filtered), strict=True):
            found[name].append(errors(estimate, motion))
        groups.append([(group.chi2, group.dof, group.p_value) for group in ours.groups])

    low, high = chi2.ppf([0.005, 0.995], 2 * seeds) / seeds
    print(f"| estimator | mean NEES | steps whose mean NEES is in [{low:.2f}, {high:.2f}] | RMSE q | dq | ddq |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    nees, covered = {}, {}
    for name, parts in found.items():
        nees[name] = np.array([part.nees for part in parts])
        covered[name] = np.array([part.covered for part in parts])
        means, of_seed = nees[name].mean(axis=0), nees[name].mean(axis=1)
        inside = np.mean((means > low) & (means < high))
        rmse = (np.sqrt(np.mean(np.square([getattr(part, key) for part in parts]))) for key in ("q", "dq", "ddq"))
        columns = (f"{of_seed.mean():.3f} ± {spread(of_seed):.3f}", f"{inside:.1%}", *(f"{x:.5f}" for x in rmse))
        print(f"| {name} | {' | '.join(columns)} |")

    names = [d + name for d in ("", "d_", "dd_") for name in mechanism.coordinate_names]
    print("\n| covered by 95 % bands [%] | " + " | ".join(found) + " |\n| --- |" + " ---: |" * len(found))
    for k, name in enumerate(names):
        shares = (f"{100 * part[:, k].mean():.1f} ± {100 * spread(part[:, k]):.1f}" for part in covered.values())
        print(f"| {name} | " + " | ".join(shares) + " |")

    groups = np.array(groups)
    print("\n| group | χ² | its expectation | (χ² − expectation) by its spread over seeds | p-values below 0.05 |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for k, group in enumerate(ours.groups):
        square, expected, p = groups[:, k].T
        score = np.mean(square - expected) / spread(square - expected)
        print(f"| {group.name} | {square.sum():.0f} | {expected.sum():.0f} | {score:+.2f} | {np.mean(p < 0.05):.1%} |")

    variables = {"nees": (("estimator", "seed", "step"), np.array([*nees.values()]))}
    variables["covered"] = (("estimator", "seed", "coordinate"), np.array([*covered.values()]))
    variables["chi2"] = (("seed", "group", "number"), groups)
    coordinates = {"estimator": [*found], "coordinate": names, "group": [group.name for group in ours.groups]}
    coordinates["number"] = ["chi2", "expectation", "p-value"]
    results.write(xr.Dataset(variables, coords=coordinates), out)


if __name__ == "__main__":
    tyro.cli(main)
