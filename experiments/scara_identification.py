"""What a SCARA arm carries and what its gears lose, from its encoders and motor torques: the shipped recording.

    python experiments/scara_identification.py [--out configs/experiments/scara_identify_recording.csv]

The arm swings its joints for three seconds. Its flange holds a tool of 0.8 kg that the robot file does not know of,
and the friction of its gears is another one.
"""

from pathlib import Path

import jax
import numpy as np
import tyro

import fgmbs

CONFIGS = Path(__file__).parents[1] / "configs"
TRUTH = {"flange.mass": 1.05, "shoulder.damping": 1.4, "shoulder.friction": 1.3}
TRUTH |= {"elbow.damping": 0.5, "elbow.friction": 0.8, "quill.friction": 6.0}
T, ENCODER, TORQUE = 5e-3 * np.arange(601), 1e-4, 0.02
"""[s], [rad or m] and share of the torque's span that is noise."""
SWINGS = {"shoulder": (0.7, 0.8, 0.0), "elbow": (0.8, 1.1, 1.2), "quill": (0.04, 0.9, 0.09), "wrist": (0.9, 1.3, 0.0)}
"""Amplitude [rad, m], frequency [Hz] and centre of each joint's motion."""


def swing() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, q̇ and q̈ from rest."""
    waves = []
    for size, frequency, middle in SWINGS.values():
        w = 2 * np.pi * frequency
        waves.append((middle - size * np.cos(w * T), size * w * np.sin(w * T), size * w**2 * np.cos(w * T)))
    return tuple(np.stack(part, axis=1) for part in zip(*waves, strict=True))


def recording(seed: int = 1) -> dict[str, np.ndarray]:
    """Columns of the recording."""
    rng, arm = np.random.default_rng(seed), fgmbs.load(CONFIGS / "robots" / "scara.yaml")
    q, dq, ddq = swing()
    true = arm.with_parameters(TRUTH)
    tau = np.asarray(jax.vmap(lambda *state: fgmbs.tree.inverse_dynamics(true, *state))(q, dq, ddq))
    columns = {"t": T}
    for k, joint in enumerate(arm.joint_names):
        columns[f"at_{joint}"] = q[:, k] + ENCODER * rng.standard_normal(T.size)
        columns[f"by_{joint}"] = tau[:, k] + TORQUE * np.ptp(tau[:, k]) / 6 * rng.standard_normal(T.size)
    return columns


def main(out: Path = CONFIGS / "experiments" / "scara_identify_recording.csv") -> None:
    columns = recording()
    np.savetxt(
        out, np.column_stack([*columns.values()]), delimiter=",", header=",".join(columns), comments="", fmt="%.7g"
    )
    print(out)


if __name__ == "__main__":
    tyro.cli(main)
