"""Masses of a driven four-bar linkage from an encoder, a gyroscope and the torque of its motor: the shipped recording.

    python experiments/fourbar_identification.py [--out configs/experiments/fourbar_identify_recording.csv]

The true masses are 1.4, 2.5 and 3 kg, those of the mechanism file 1, 2 and 4 kg.
"""

from pathlib import Path

import numpy as np
import tyro

import fgmbs
from fgmbs.sensors import Encoder, Gyroscope

TRUTH = {"crank.mass": 1.4, "coupler.mass": 2.5, "rocker.mass": 3.0}
CONFIGS = Path(__file__).parents[1] / "configs"


def recording(seed: int = 1) -> fgmbs.Recording:
    """Two seconds at 400 Hz; the torque is that of a motor that swings the crank to and fro [N·m]."""
    mechanism = fgmbs.load(CONFIGS / "mechanisms" / "fourbar_crank_angle.yaml").with_parameters(TRUTH)
    t = np.arange(801) * 2.5e-3
    torque = 20 + 15 * np.sin(2 * np.pi * 1.5 * t)
    motion = fgmbs.hybrid_dynamics(mechanism, t, forces={"motor": torque}, start={"theta": 0.3})
    sensors = [Encoder("crank", of="theta", sigma=2e-3), Gyroscope("gyro", body="coupler", sigma=0.02)]
    readings = fgmbs.readings(mechanism, motion, sensors, seed=seed)
    return readings.merged(fgmbs.Recording.of(t, {"torque": torque}, source="motor"))


def main(out: Path = CONFIGS / "experiments" / "fourbar_identify_recording.csv") -> None:
    signals = recording().signals
    t = signals["crank"].t
    columns = np.column_stack([t, *(signals[name].values for name in ("crank", "gyro", "torque"))])
    np.savetxt(out, columns, delimiter=",", header="t,crank,gyro,torque", comments="", fmt="%.7g")
    print(out)


if __name__ == "__main__":
    tyro.cli(main)
