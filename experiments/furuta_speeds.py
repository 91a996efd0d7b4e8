"""Speeds of a Furuta pendulum from encoders whose stamps are irregular, against the best smoothing filter.

    python experiments/furuta_speeds.py [--recordings step_4V sine_4V free_2024] [--out results/furuta_speeds.nc]

All arguments of the estimate are the default ones: neither the motor nor its voltage are known, and the sizes of the
unknown forces and of the noise of the stamps are found. Both are compared with the speeds that the drives report, the
filter with the window that is best for it.
"""

from pathlib import Path

import numpy as np
import tyro
import xarray as xr
from rigs import furuta
from scipy.signal import savgol_filter

import fgmbs
from fgmbs import results

DT = 0.002
"""Nominal period of the recordings [s]."""
SIGMA = 2 * np.pi / 8192 / np.sqrt(12)
"""Rounding to the counts of the encoders [rad]."""
WINDOWS = (5, 7, 9, 11, 15, 21, 31, 51, 81)
"""Of Savitzky-Golay filters of third order [samples]."""
AXES = "arm", "pendulum"


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x[max(WINDOWS) : -max(WINDOWS)] ** 2)))


def filtered(angle: fgmbs.Signal, speed: fgmbs.Signal) -> float:
    """Distance of the best filter from the speed of the drive [rad/s]."""
    t = np.arange(angle.t[0], angle.t[-1], DT)
    sampled = np.interp(t, angle.t, angle.values)
    speeds = (savgol_filter(sampled, window, 3, deriv=1, delta=DT) for window in WINDOWS)
    return min(rms(np.interp(speed.t, t, each) - speed.values) for each in speeds)


def compared(name: str) -> list[tuple[float, float, float]]:
    """(distance of the estimate from the speed of the drive, of the best filter [rad/s], noise of stamps [s])."""
    recording = furuta.recording(name)
    sensors = [fgmbs.sensors.Encoder(axis, of=axis, sigma=SIGMA) for axis in AXES]
    estimate = fgmbs.smooth(furuta.Furuta(), recording, sensors)
    rows = []
    for k, axis in enumerate(AXES):
        speed = recording[f"{axis}_speed"]
        found = rms(np.interp(speed.t, estimate.t, np.asarray(estimate.dq)[:, k]) - speed.values)
        rows.append((found, filtered(recording[axis], speed), float(estimate.unknowns[f"{axis}.time_sigma"])))
    return rows


def main(
    recordings: tuple[str, ...] = ("step_4V", "sine_4V", "free_2024"), out: Path = Path("results/furuta_speeds.nc")
) -> None:
    numbers = np.zeros((3, len(recordings), len(AXES)))
    print("| recording | axis | estimate [rad/s] | best filter [rad/s] | ratio | noise of stamps [µs] |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for i, name in enumerate(recordings):
        for k, (axis, row) in enumerate(zip(AXES, compared(name), strict=True)):
            numbers[:, i, k] = row
            found, best, stamps = row
            print(f"| {name} | {axis} | {found:.4f} | {best:.4f} | {found / best:.2f} | {1e6 * stamps:.0f} |")
    units = {"estimate": "rad/s", "filter": "rad/s", "stamps": "s"}
    parts = zip(units.items(), numbers, strict=True)
    data = {key: (("recording", "axis"), values, {"units": unit}) for (key, unit), values in parts}
    results.write(xr.Dataset(data, coords={"recording": list(recordings), "axis": list(AXES)}), out)


if __name__ == "__main__":
    tyro.cli(main)
