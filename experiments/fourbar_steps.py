"""Do the bands of the smoother depend on its time step? One recording of the four-bar, estimated with several.

    python experiments/fourbar_steps.py [--steps 0.001 0.002 0.005] [--duration 0.5] [--out results/fourbar_steps.nc]

Unknown forces are given by spectral densities, so that the noise of a step is an integral. Bands are compared at the
instants that all steps have in common, relative to the median of the same quantity: at a dead point of a coordinate its
band goes through zero.
"""

from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from fourbar_observed import FILE, recorded, smoothed, true_motion

import fgmbs
from fgmbs import results
from fgmbs.inputs import Disturbance, GaussMarkov, RandomWalk

WALK, WIND = RandomWalk("motor", 5.0), GaussMarkov("motor", 2.0, time_constant=0.2)
CASES = {
    "white": (Disturbance(0.5),),
    "random walk": (WALK,),
    "white and random walk": (Disturbance(0.05), WALK),
    "Gauss–Markov": (WIND,),
    "white and Gauss–Markov": (Disturbance(0.05), WIND),
}
BANDS = "q_std", "dq_std", "ddq_std", "forces_std"


def bands(estimate: fgmbs.SmoothedMotion, every: float) -> dict[str, np.ndarray]:
    """Those at multiples of `every` [s]."""
    stride = round(every / float(estimate.t[1] - estimate.t[0]))
    return {name: np.asarray(getattr(estimate, name))[::stride] for name in BANDS}


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest difference of bands, relative to the median of each column."""
    return float(np.max(np.abs(ours - theirs) / np.median(theirs, axis=0), initial=0.0))


def main(
    steps: tuple[float, ...] = (0.001, 0.002, 0.005),
    duration: float = 0.5,
    out: Path = Path("results/fourbar_steps.nc"),
) -> None:
    mechanism = fgmbs.load(FILE)
    finest = min(steps)
    motion = true_motion(mechanism, round(duration / finest) + 1, 0, power=0.05, dt=finest)
    recording = recorded(mechanism, motion, 0)
    every = np.lcm.reduce([round(1e6 * step) for step in steps]) / 1e6
    print("| unknown forces | Δt [ms] | largest change of the bands of q | of dq | of ddq | of the forces |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    changes = np.zeros((len(CASES), len(steps), len(BANDS)))
    for row, (name, inputs) in zip(changes, CASES.items(), strict=True):
        found = [bands(smoothed(mechanism, recording, inputs=inputs, dt=step), every) for step in steps]
        for step, place, ours in zip(steps, row, found, strict=True):
            place[:] = [difference(ours[key], found[0][key]) for key in BANDS]
            print(f"| {name} | {1e3 * step:g} | " + " | ".join(f"{change:.2%}" for change in place) + " |", flush=True)
    coordinates = {"case": [*CASES], "dt": ("dt", list(steps), {"units": "s"}), "band": [*BANDS]}
    results.write(xr.Dataset({"change": (("case", "dt", "band"), changes)}, coords=coordinates), out)


if __name__ == "__main__":
    tyro.cli(main)
