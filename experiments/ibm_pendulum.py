"""Smoothing the filmed chaotic double pendulum, where single shooting loses the motion after a second.

    python experiments/ibm_pendulum.py [--runs 2 7] [--starts 2 8] [--length 5] [--out results/ibm_pendulum.nc]

Two markers per frame are all that is measured. Unknown are the motion, scale, place and tilt of the camera, and the
power of white forces that stand for all that the model lacks. "Unseen" is of a second estimate, from every other frame:
RMS in the frames between. Times are by the clock of 500 frames/s (see rigs/ibm.py), by which windows are the shorter:
5 s are 6.25 s by the nominal clock. In the same windows experiments/single_shooting.py leaves 30 to 745 px.
"""

from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from rigs import ibm
from rigs.estimates import predicted, residual, rms, timed
from rigs.figures import draw_markers

import fgmbs
from fgmbs import results
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion


def smoothed(window: fgmbs.Recording, run: int, every: int = 1) -> tuple[SmoothedMotion, float]:
    """(estimate, seconds it took) from every so many frames; it has a step for each frame."""
    seen = {name: window[name].values[::every] for name in window}
    recording = fgmbs.Recording.of(window["tip.x"].t[::every], seen, units=dict.fromkeys(seen, "px"))
    cameras, start = ibm.cameras(window, run), ibm.first_pose(window)
    return timed(fgmbs.load(ibm.MECHANISM), recording, cameras, dt=1 / ibm.FRAME_RATE, start=start)


def unseen(motion: SmoothedMotion, window: fgmbs.Recording) -> float:
    """RMS in every other frame, those that an estimate from the rest has not seen [px]."""
    errors = [signal.values - window[name].values[: len(signal)] for name, signal in predicted(motion).signals.items()]
    return rms(np.concatenate([error[1::2] for error in errors]))


def main(
    runs: tuple[int, ...] = (2, 7, 12),
    starts: tuple[float, ...] = (2.0, 8.0),
    length: float = 5.0,
    out: Path = Path("results/ibm_pendulum.nc"),
) -> None:
    names = {"rms": "px", "worst": "px", "unseen": "px", "power": "W", "seconds": "s", "speed_std": "rad/s"}
    names |= {"acceleration_std": "rad/s²"}
    table = {name: np.full((len(runs), len(starts)), np.nan) for name in names}
    out.parent.mkdir(parents=True, exist_ok=True)
    print("| run | from [s] | " + " | ".join(f"{name} [{unit}]" for name, unit in names.items()) + " | iterations |")
    print("| ---: " * (len(names) + 3) + "|", flush=True)
    for place in np.ndindex(len(runs), len(starts)):
        run, start = runs[place[0]], starts[place[1]]
        window = ibm.recording(run).between(start, start + length)
        motion, seconds = smoothed(window, run)
        worst = max(float(np.max(np.abs(fit.predicted - fit.measured))) for fit in motion.fits)
        half = unseen(smoothed(window, run, 2)[0], window)
        bands = [float(np.median(std[:, -2:])) for std in (motion.dq_std, motion.ddq_std)]
        row = residual(motion), worst, half, float(motion.inputs[0].power), seconds, *bands
        for name, value in zip(names, row, strict=True):
            table[name][place] = value
        print(
            f"| {run} | {start:g} | " + " | ".join(f"{x:.3g}" for x in row) + f" | {int(motion.iterations)} |",
            flush=True,
        )
        draw_markers(motion, out.with_name(f"{out.stem}_{run}_{start:g}.png"))
    coordinates = {"run": list(runs), "start": ("start", list(starts), {"units": "s"})}
    variables = {name: (("run", "start"), table[name], {"units": unit}) for name, unit in names.items()}
    results.write(xr.Dataset(variables, coords=coordinates, attrs={"length": length}), out)


if __name__ == "__main__":
    tyro.cli(main)
