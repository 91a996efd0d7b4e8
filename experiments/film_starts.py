"""Is the right motion found where no start is given? Every second of the filmed double pendulum, from each film.

    python experiments/film_starts.py [--runs 0 1 2] [--every 1] [--length 1] [--workers 2]

Two markers per frame tell the pose but for whole turns; the camera's scale, place and tilt and the power of unknown
forces are found as well, so that a flipped pendulum in a camera that is elsewhere may explain the first frames, too.
A motion is right if both angles are those of the markers at all frames, but for whole turns, to 0.1 rad.
"""

import itertools
import multiprocessing

import numpy as np
import tyro
from rigs import ibm

import fgmbs
from fgmbs.results.warnings import warnings


def angles(window: fgmbs.Recording) -> np.ndarray:
    """Angles of both arms in every frame [rad]."""
    x, y = (np.stack([window[f"{p}.{axis}"].values for p in ("pivot", "joint", "tip")]) for axis in "xy")
    upper, lower = np.arctan2(np.diff(y, axis=0), np.diff(x, axis=0))
    return np.stack([upper, lower - upper], axis=1)


def judged(window: tuple[int, float, float]) -> tuple[int, float, bool, bool, bool, int]:
    """(run, time, converged, right, warned of its start, starts that were solved) of one window (run, from, length)."""
    run, start, length = window
    seen = ibm.recording(run).between(start, start + length)
    cameras = ibm.cameras(seen, run)
    motion = fgmbs.smooth(fgmbs.load(ibm.MECHANISM), seen, cameras, dt=1 / ibm.FRAME_RATE, throw=False)
    off = np.asarray(motion.q)[:, -2:] - angles(seen)[: len(motion.t)]
    off = np.abs(off - 2 * np.pi * np.round(off / (2 * np.pi))).max()
    warned = any(text.startswith("start") for text in warnings(motion.to_dataset()))
    solved = sum(np.isfinite(branch.weight) for branch in motion.branches)
    return run, start, bool(motion.status == fgmbs.Status.converged), off < 0.1, warned, solved


def main(runs: tuple[int, ...] = tuple(range(17)), every: float = 1.0, length: float = 1.0, workers: int = 2) -> None:
    fgmbs.cache()
    ends = {run: float(ibm.recording(run)["tip.x"].t[-1]) - length for run in runs}
    windows = [(run, float(start), length) for run in runs for start in np.arange(0.0, ends[run], every)]
    print("| run | windows | not converged | wrong | warned of, of these | right but warned of | several solved |")
    print("| ---: " * 7 + "|", flush=True)
    total = np.zeros(6, int)
    with multiprocessing.get_context("spawn").Pool(workers, fgmbs.cache) as pool:
        for run, found in itertools.groupby(pool.imap(judged, windows), lambda row: row[0]):
            _, starts, converged, right, warned, solved = map(np.array, zip(*found, strict=True))
            wrong = converged & ~right
            row = [len(starts), (~converged).sum(), wrong.sum(), (wrong & warned).sum()]
            row += [(converged & right & warned).sum(), (solved > 1).sum()]
            total += row
            which = f" wrong at {', '.join(f'{t:g} s' for t in starts[wrong])}" if wrong.any() else ""
            which += f" open at {', '.join(f'{t:g} s' for t in starts[~converged])}" if (~converged).any() else ""
            print(f"| {run} | " + " | ".join(map(str, row)) + f" |{which}", flush=True)
    print("| all | " + " | ".join(map(str, total)) + " |")


if __name__ == "__main__":
    tyro.cli(main)
