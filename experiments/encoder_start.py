"""A five-bar robot of two degrees of freedom falls, one crank has an encoder: is the motion found, or a doubt said?

    python experiments/encoder_start.py [--seeds 100] [--first 0] [--duration 0.4] [--workers 2]

Where the motion begins is not given: the robot is let go at rest, near the drawing, and falls under white forces of the
power that the estimate knows. An estimate says a doubt if a warning is about its start or its motion (another one fits,
too), or if it did not converge. Without doubt, the motion should be the right one, and 95 % of its coordinates within
their bands; neighbouring steps share their error, so the coverage is given with its standard error over the runs.
"""

import multiprocessing
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tyro
from fourbar_truths import truth

import fgmbs
from fgmbs.results.warnings import warnings

MECHANISM = Path(__file__).parents[1] / "configs" / "mechanisms" / "five_bar.yaml"
DT, POWER = 5e-3, 1e-4
CRANKS = "theta_l", "theta_r"


class Judged(NamedTuple):
    converged: bool
    right: bool
    doubted: bool
    weight: float
    """Probability that the estimate gives itself."""
    covered: float
    """Share of coordinates within 1.96 standard deviations."""


def judged(job: tuple[int, float]) -> Judged:
    seed, duration = job
    rng, robot = np.random.default_rng(seed), fgmbs.load(MECHANISM)
    drawn = dict(zip(robot.coordinate_names, map(float, robot.reference), strict=True))
    start = [drawn[name] + rng.uniform(-0.5, 0.5) for name in CRANKS]
    motion = truth(robot, duration, DT, POWER, seed, z=CRANKS, mean=(start, [0.0, 0.0]), dt=DT / 20)
    encoder = [fgmbs.sensors.Encoder("encoder", of="theta_l", sigma=1e-3)]
    recording = fgmbs.readings(robot, motion, encoder, seed=seed)
    found = fgmbs.smooth(robot, recording, encoder, [fgmbs.inputs.Disturbance(POWER)], throw=False)
    # Where the readings are explained poorly the estimate has steps between the samples, too.
    at_samples = slice(None, None, round((len(found.t) - 1) / (len(motion.t) - 1)))
    q, std = np.asarray(found.q)[at_samples], np.asarray(found.q_std)[at_samples]
    off = q - np.asarray(motion.q)
    off[:, -2:] -= 2 * np.pi * np.round(off[:, -2:] / (2 * np.pi))
    covered = float(np.mean(np.abs(off) <= 1.96 * std))
    said = any(text.startswith(("start", "motion")) for text in warnings(found.to_dataset()))
    converged = bool(found.status == fgmbs.Status.converged)
    weight = found.branches[0].weight if found.branches else np.nan
    # Another assembly is far off somewhere; the right one may be, within its bands.
    far = np.max(np.abs(off) - 5 * std)
    return Judged(converged, bool(far < 0.05), said or not converged, weight, covered)


def main(seeds: int = 100, first: int = 0, duration: float = 0.4, workers: int = 2) -> None:
    fgmbs.cache()
    with multiprocessing.get_context("spawn").Pool(workers, fgmbs.cache) as pool:
        rows = pool.map(judged, [(seed, duration) for seed in range(first, first + seeds)])
    sure = [row for row in rows if not row.doubted]
    told = [row for row in rows if row.doubted]
    print(f"{seeds} runs: {sum(row.converged for row in rows)} converged, {len(told)} said a doubt about the start")
    print(f"without doubt: {len(sure)}, right {sum(row.right for row in sure)}", end="")
    covered = [row.covered for row in sure]
    print(f", coverage {np.mean(covered):.1%} ± {np.std(covered) / np.sqrt(len(sure)):.1%}" if sure else "")
    print(f"with doubt:    {len(told)}, right {sum(row.right for row in told)}", end="")
    weights = [row.weight for row in told if np.isfinite(row.weight)]
    print(f", of which {np.sum(weights):.1f} were expected of {len(weights)} with a probability" if weights else "")


if __name__ == "__main__":
    tyro.cli(main)
