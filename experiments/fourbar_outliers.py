"""Spikes in the sensors of the four-bar, with robust losses and without.

    python experiments/fourbar_outliers.py [--share 0.1] [--seeds 10] [--out results/fourbar_outliers.nc]

A share of the samples of both sensors jumps by 20 to 100 standard deviations. "change" is that of crank angle and rate
against the estimate of the clean recording without a loss, by half the width of its 95 % band; "precision" and "recall"
are those of the samples that `fits` call outliers.
"""

import dataclasses
from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from fourbar_observed import BAND, FILE, SENSORS, errors, recorded, sensors_with, smoothed, true_motion
from tqdm import tqdm

import fgmbs
from fgmbs import results
from fgmbs.losses import Cauchy, Huber, Tukey

LOSSES = {"none": None, "Huber": Huber(), "Cauchy": Cauchy(), "Tukey": Tukey()}
COLUMNS = "median change", "largest change", "precision", "recall", "mean NEES"


def spiked(recording: fgmbs.Recording, share: float, seed: int) -> tuple[fgmbs.Recording, list[np.ndarray]]:
    """The recording with spikes, and which samples of each sensor they are."""
    rng, signals, spikes = np.random.default_rng(seed), {}, []
    for sensor in SENSORS:
        signal = recording[sensor.name]
        hit = rng.random(len(signal)) < share
        height = rng.choice([-1, 1], len(signal)) * rng.uniform(20, 100, len(signal)) * float(sensor.sigma)
        signals[sensor.name] = dataclasses.replace(signal, values=signal.values + np.where(hit, height, 0.0))
        spikes.append(np.flatnonzero(hit))
    return dataclasses.replace(recording, signals=signals), spikes


def change(ours: fgmbs.SmoothedMotion, clean: fgmbs.SmoothedMotion) -> np.ndarray:
    """Of crank angle and rate, by half their 95 % band (2, steps)."""
    pairs = (ours.q, clean.q, clean.q_std), (ours.dq, clean.dq, clean.dq_std)
    return np.array([np.abs(a - b)[:, 4] / (BAND * std[:, 4]) for a, b, std in pairs])


def recognition(estimate: fgmbs.SmoothedMotion, spikes: list[np.ndarray]) -> np.ndarray:
    """(right, found, there): how many samples are called outliers rightly, called so, and are."""
    pairs = [(fit.outliers, there) for fit, there in zip(estimate.fits, spikes, strict=True)]
    return np.array([[np.isin(found, there).sum(), len(found), len(there)] for found, there in pairs]).sum(axis=0)


def main(
    share: float = 0.1, steps: int = 500, seeds: int = 10, out: Path = Path("results/fourbar_outliers.nc")
) -> None:
    mechanism = fgmbs.load(FILE)
    table = np.zeros((len(LOSSES), len(COLUMNS), seeds))
    for seed in tqdm(range(seeds), desc="seeds"):
        motion = true_motion(mechanism, steps, seed)
        recording = recorded(mechanism, motion, seed)
        dirty, spikes = spiked(recording, share, seed)
        clean = smoothed(mechanism, recording)
        for row, loss in zip(table, LOSSES.values(), strict=True):
            ours = smoothed(mechanism, dirty, sensors_with(loss), throw=False)
            changes, (right, found, there) = change(ours, clean), recognition(ours, spikes)
            precision = right / found if found else np.nan
            row[:, seed] = np.median(changes), changes.max(), precision, right / there, errors(ours, motion).nees.mean()

    print("| loss | " + " | ".join(COLUMNS) + " |\n| --- |" + " ---: |" * len(COLUMNS))
    for name, (median, largest, *others) in zip(LOSSES, table, strict=True):
        numbers = [np.median(median), largest.max(), *(part.mean() for part in others)]
        print(f"| {name} | " + " | ".join(f"{number:.3f}" for number in numbers) + " |")
    coordinates = {"loss": [*LOSSES], "figure": [*COLUMNS]}
    results.write(xr.Dataset({"table": (("loss", "figure", "seed"), table)}, coords=coordinates), out)


if __name__ == "__main__":
    tyro.cli(main)
