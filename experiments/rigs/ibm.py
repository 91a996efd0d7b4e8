"""The chaotic double pendulum of Asseman, Kornuta, Ozcan, "Learning beyond simulated physics" (2018), filmed.

The mechanism is configs/mechanisms/double_pendulum_ibm.yaml. The paper tells 400 frames/s and arms of 91 and 70 mm,
which the motion contradicts: weight by coupling of the lower arm is g / l1, and what is found is met by l1 = 91 mm
at 501 frames/s or by l1 = 143 mm at 400 frames/s. The lens of 50 mm at 2 m speaks for 91 mm, so the clock is that of
500 frames/s.
"""

from pathlib import Path

import numpy as np

import fgmbs
from fgmbs.sensors import Position
from rigs.recordings import recorded

MECHANISM = Path(__file__).parents[2] / "configs" / "mechanisms" / "double_pendulum_ibm.yaml"
FRAME_RATE = 500.0
"""[1/s]"""
SIGMA = 1.0
"""Standard deviation of a marker as it seems from one frame to the next, a fifth of a pixel [px]."""
TILT = 0.0087
"""Angle by which the camera stands askew in runs 2 to 16: gravity in the images is turned from their vertical [rad]."""


def scale(run: int) -> float:
    """Size of the images, by the arm of 91.3 mm [px/m]; "px" is the unit of the files, a fifth of a camera's pixel."""
    return (602.2 if run < 2 else 588.3) / 0.0913


def recording(run: int, frame_rate: float = FRAME_RATE) -> fgmbs.Recording:
    """Markers `pivot`, `joint`, `tip` as signals `joint.x`, `joint.y`, …: to the right and upwards in the image [px].

    Args:
        run: 0 to 16.
        frame_rate: [1/s].
    """
    path = recorded("ibm_double_pendulum", f"run_{run:02d}.npz")
    with np.load(path) as file:
        down, right = file["px"].astype(float).reshape(-1, 3, 2).transpose(2, 1, 0)
    values = {}
    for k, point in enumerate(("pivot", "joint", "tip")):
        values |= {f"{point}.x": right[k], f"{point}.y": -down[k]}
    return fgmbs.Recording.of(
        np.arange(right.shape[1]) / frame_rate, values, units=dict.fromkeys(values, "px"), source=str(path)
    )


def cameras(motion: fgmbs.Recording, run: int) -> tuple[Position, Position]:
    """The markers `joint` and `tip` as seen by a camera whose scale, place and tilt are known roughly."""
    origin = np.array([np.median(motion[f"pivot.{axis}"].values) for axis in "xy"])
    joint, tip = (
        Position(
            point,
            point=point,
            unit="px",
            sigma=SIGMA,
            gain=fgmbs.Unknown(scale(run), sigma=0.01 * scale(run)),
            bias=fgmbs.Unknown(origin, sigma=3.0),
            misalignment=fgmbs.Unknown(sigma=0.02),
        )
        for point in ("joint", "tip")
    )
    return joint, tip


def first_pose(motion: fgmbs.Recording) -> dict[str, float]:
    """Angles of both arms in the first frame, as the mechanism counts them [rad]."""
    x, y = (np.array([motion[f"{point}.{axis}"].values[0] for point in ("pivot", "joint", "tip")]) for axis in "xy")
    upper, lower = np.arctan2(np.diff(y), np.diff(x))
    return {"theta": float(upper), "phi": float(lower - upper)}
