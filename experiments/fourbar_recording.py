"""Writes configs/experiments/fourbar_recording.csv: what sensors read of the four-bar linkage falling freely.

A gyroscope on the coupler at 500 Hz and an encoder on the crank at 100 Hz, with noise, a constant error of the
gyroscope, lost samples and spikes: all that configs/experiments/fourbar_smooth.yaml is to see through.

    python experiments/fourbar_recording.py
"""

from pathlib import Path

import numpy as np

import fgmbs
from fgmbs.sensors import Encoder, Gyroscope

CONFIGS = Path(__file__).parents[1] / "configs"
FILE = CONFIGS / "experiments" / "fourbar_recording.csv"
DURATION, SEED = 3.0, 7  # [s]
BIAS = 0.03  # of the gyroscope [rad/s]
LOST = {"gyro": slice(400, 409), "crank": slice(120, 124)}  # samples in a row
SPIKES = {"gyro": (9, 2.0), "crank": (4, 0.3)}  # how many, and how large they typically are [rad/s, rad]


def recording() -> fgmbs.Recording:
    """The samples that both sensors gave, before any are lost."""
    mechanism = fgmbs.load(CONFIGS / "mechanisms" / "fourbar.yaml")
    motion = fgmbs.simulate(mechanism, DURATION, 1e-3, integrator="hermite_simpson")
    sensors = (
        Gyroscope("gyro", body="coupler", sigma=0.02, bias=fgmbs.Unknown(sigma=0.1)),
        Encoder("crank", body="crank", sigma=2e-3, resolution=2 * np.pi / 4096),
    )
    rates, bias = {"gyro": 500, "crank": 100}, {"gyro": {"bias": BIAS}}
    return fgmbs.readings(mechanism, motion, sensors, rates=rates, calibration=bias, seed=SEED)


if __name__ == "__main__":
    ideal, rng = recording(), np.random.default_rng(SEED)
    t = ideal["gyro"].t
    table = {"t [s]": [f"{time:.3f}" for time in t]}
    for name, unit in {"gyro": "deg/s", "crank": "deg"}.items():
        values = np.rad2deg(ideal[name].values)
        count, size = SPIKES[name]
        hit = rng.choice(len(values), count, replace=False)
        values[hit] += np.rad2deg(size) * rng.uniform(0.5, 1.5, count) * rng.choice([-1, 1], count)
        values[LOST[name]] = np.nan
        values[rng.choice(len(values), 5, replace=False)] = np.nan
        column = np.full(len(t), "", dtype=object)
        column[:: round((len(t) - 1) / (len(values) - 1))] = [f"{v:.4f}" if np.isfinite(v) else "" for v in values]
        table[f"{name} [{unit}]"] = column
    lines = ["# Four-bar linkage of mechanisms/fourbar.yaml falling freely, by experiments/fourbar_recording.py"]
    lines += [",".join(table), *(",".join(row) for row in zip(*table.values(), strict=True))]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
