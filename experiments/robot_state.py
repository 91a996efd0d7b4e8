"""State of a Panda from the encoders of its joints, an inertial unit on its last link, and the torques of its motors.

    python experiments/robot_state.py [--data ../shared/data] [--out results/robot_state]

The arm swings all joints for 2 s, its gripper held. Read at 1 kHz are seven encoders of 0.1 mrad, a gyroscope and an
accelerometer of three axes, and the torques, with an error of 0.3 N m. These are readings of forces that change: an
accelerometer feels what a force is at an instant, and would contradict commands with white noise beside them. Printed
are the errors of speeds, those of differences of the encoders beside them, how often the 95 % bands hold the truth, and
the time of a second estimate.
"""

import os
from pathlib import Path

import numpy as np
import tyro
from fourbar import median_seconds
from robot_inverse import path

import fgmbs
from fgmbs import plots, results
from fgmbs.inputs import RandomWalk
from fgmbs.sensors import Accelerometer, Encoder, Gyroscope, Torque

DT, SAMPLES = 1e-3, 2001
ENCODER, RATE, ACCELERATION, TORQUE = 1e-4, 1e-2, 0.1, 0.3
"""[rad], [rad/s], [m/s²], [N m]"""
CHANGES = 3.2, 4.8, 3.7, 1.7, 0.21, 0.48, 0.023
"""Of the torques in a second: what the same estimate finds where rates are unknown, to two digits [N m/√s]"""
LAST = "panda_link7"


def swung(robot: fgmbs.Robot) -> fgmbs.DrivenMotion:
    """A motion of all joints, and the torques that it takes."""
    t = DT * np.arange(SAMPLES)
    parts = zip(*(part.T for part in path("panda", t)), strict=True)
    return fgmbs.inverse_dynamics(robot, t, dict(zip(robot.coordinate_names, parts, strict=False)))


def estimated(robot: fgmbs.Robot, motion: fgmbs.DrivenMotion, seed: int = 0):
    """(what was read, a function that smooths it)."""
    joints = robot.coordinate_names
    sensors = [Encoder(f"at_{joint}", of=joint, sigma=ENCODER) for joint in joints]
    axes = ("x", "y", "z")
    sensors += [Gyroscope("gyro", body=LAST, axes=axes, sigma=RATE)]
    sensors += [Accelerometer("acc", body=LAST, axes=axes, sigma=ACCELERATION)]
    sensors += [Torque(f"motor_{joint}", of=joint, sigma=TORQUE) for joint in joints]
    inputs = [RandomWalk(joint, rate) for joint, rate in zip(joints, CHANGES, strict=True)]
    recording = fgmbs.readings(robot, motion, sensors, seed=seed)
    start = dict(zip(joints, np.asarray(motion.q[0]).tolist(), strict=True))
    return recording, lambda: fgmbs.smooth(robot, recording, sensors, inputs, start=start)


def main(data: Path | None = None, out: Path = Path("results/robot_state")) -> None:
    data = (data or Path(os.environ.get("FGMBS_DATA", "../shared/data"))) / "robots"
    robot = fgmbs.load(data / "panda" / "panda.urdf", locked={"panda_finger_joint1": 0.02})
    motion = swung(robot)
    recording, smooth = estimated(robot, motion)
    estimate = smooth()
    seconds = median_seconds(lambda: smooth().q.block_until_ready(), 3)
    error, std = (np.asarray(x) for x in (estimate.dq - motion.dq, estimate.dq_std))
    read = np.stack([recording[f"at_{joint}"].values for joint in robot.coordinate_names], axis=1)
    differences = np.gradient(read, DT, axis=0) - np.asarray(motion.dq)
    rms = lambda x: np.sqrt(np.mean(x**2, axis=0))
    print("| joint | speed, error | of differences | within 95 % |\n| --- | ---: | ---: | ---: |")
    for k, joint in enumerate(robot.coordinate_names):
        inside = 100 * np.mean(np.abs(error[:, k]) < 1.96 * std[:, k])
        print(f"| {joint} | {rms(error)[k]:.2e} rad/s | {rms(differences)[k]:.2e} rad/s | {inside:.1f} % |")
    print(f"\n{SAMPLES} steps: {int(estimate.iterations)} iterations, {seconds:.2f} s compiled; figures in {out}")
    dataset = results.to_dataset(estimate)
    results.write(dataset, out / "results.nc")
    plots.save_all(dataset, out)


if __name__ == "__main__":
    tyro.cli(main)
