"""Inverse dynamics of a PUMA 560 and a Panda along a smooth path, beside Pinocchio.

    python experiments/robot_inverse.py [--data ../shared/data] [--out results/robot_inverse]

Each joint swings from rest to rest, q = home + a sin²(kπt/T) with another k for each joint. Friction is left out, as
Pinocchio's recursion has none; the rotors of the PUMA are there, as armature. Printed are the torques' range, their
largest difference from Pinocchio's, and the time of all samples; that of Pinocchio is of a loop in Python.
The whole-trajectory problem `fgmbs.inverse_dynamics` writes results and figures.
"""

import dataclasses
import json
import os
from pathlib import Path

import jax
import numpy as np
import pinocchio as pin
import tyro
from fourbar import median_seconds

import fgmbs
from fgmbs import plots, results
from fgmbs.mechanisms.tree.robot import robot as of_description

T, SAMPLES = 4.0, 2001
HOME = {
    "puma560": (0.0, np.pi / 4, np.pi, 0.0, np.pi / 4, 0.0),
    "panda": (0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8, 0.0),
}
"""The PUMA's nominal pose; the last of the Panda are its fingers, which move together."""
SWING = {"puma560": (0.8, 0.5, -0.6, 0.7, 0.5, 0.9), "panda": (0.9, 0.6, -0.7, 0.8, 0.9, 0.6, 0.7, 0.03)}
"""[rad, m]"""


def path(name: str, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, q̇ and q̈ of all joints."""
    a, omega = np.array(SWING[name]), 2 * np.pi * (1 + np.arange(len(SWING[name])) % 3) / T
    phase = np.outer(t, omega)
    q = HOME[name] + a / 2 * (1 - np.cos(phase))
    return q, a / 2 * omega * np.sin(phase), a / 2 * omega**2 * np.cos(phase)


def without_friction(file: Path, armature: tuple[float, ...] = ()) -> fgmbs.Robot:
    """The robot of a file, with inertias of rotors at its joints."""
    description = fgmbs.load(file).description
    joints = [dataclasses.replace(joint, damping=0.0, friction=0.0) for joint in description.joints]
    moving = [k for k, joint in enumerate(joints) if joint.kind != "fixed"]
    for k, inertia in zip(moving, armature, strict=False):
        joints[k] = dataclasses.replace(joints[k], rotor_inertia=inertia)
    return of_description(dataclasses.replace(description, joints=tuple(joints)))


class Pinocchio:
    """The same in Pinocchio; joints that follow others have their forces on the leader."""

    def __init__(self, file: Path, robot: fgmbs.Robot, armature: tuple[float, ...]):
        self.model = pin.buildModelFromUrdf(str(file))
        self.data = self.model.createData()
        if armature:
            self.model.armature = np.array(armature)
        topology = robot.topology
        self.G = np.zeros((self.model.nv, robot.nv))
        for k, joint in enumerate(topology.joints):
            there = self.model.joints[self.model.getJointId(joint)]
            self.G[there.idx_v, topology.starts[1][k]] = float(robot.parameters.multipliers[k])

    def torques(self, q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> np.ndarray:
        """Of all samples."""
        found = [
            pin.rnea(self.model, self.data, *state)
            for state in zip(q @ self.G.T, dq @ self.G.T, ddq @ self.G.T, strict=True)
        ]
        return np.array(found) @ self.G


def main(data: Path | None = None, out: Path = Path("results/robot_inverse")) -> None:
    data = (data or Path(os.environ.get("FGMBS_DATA", "../shared/data"))) / "robots"
    armature = {"puma560": tuple(json.loads((data / "puma560" / "puma560_parameters.json").read_text())["armature"])}
    t = np.linspace(0.0, T, SAMPLES)
    times = []
    print("| robot | joint | torque from | to | difference from Pinocchio |")
    print("| --- | --- | ---: | ---: | ---: |")
    for name in HOME:
        file = data / name / f"{name}.urdf"
        robot = without_friction(file, armature.get(name, ()))
        q, dq, ddq = path(name, t)
        every = jax.jit(jax.vmap(lambda *state, robot=robot: fgmbs.tree.inverse_dynamics(robot, *state)))
        other = Pinocchio(file, robot, armature.get(name, ()))
        tau, theirs = np.asarray(every(q, dq, ddq)), other.torques(q, dq, ddq)
        for k, joint in enumerate(robot.velocity_names):
            unit = "N" if robot.velocity_units[k] == "m/s" else "N m"
            difference = np.abs(tau - theirs)[:, k].max()
            print(f"| {name} | {joint} | {tau[:, k].min():.3f} | {tau[:, k].max():.3f} {unit} | {difference:.1e} |")
        ours = median_seconds(lambda every=every, s=(q, dq, ddq): every(*s).block_until_ready(), 9)
        times.append((name, ours, median_seconds(lambda other=other, s=(q, dq, ddq): other.torques(*s), 3)))

        desired = {joint: tuple(part[:, k] for part in (q, dq, ddq)) for k, joint in enumerate(robot.coordinate_names)}
        motion = fgmbs.inverse_dynamics(robot, t, desired)
        apart = np.abs(np.asarray(motion.forces) - tau).max()
        times[-1] += (apart,)
        dataset = results.to_dataset(motion)
        results.write(dataset, out / name / "results.nc")
        plots.save_all(dataset, out / name)
    print(f"\n{SAMPLES} samples:")
    for name, ours, theirs, apart in times:
        print(f"{name:<8} {1e3 * ours:6.2f} ms, Pinocchio in a loop {1e3 * theirs:6.2f} ms", end="; ")
        print(f"largest difference of fgmbs.inverse_dynamics {apart:.1e} N m; figures in {out / name}")


if __name__ == "__main__":
    tyro.cli(main)
