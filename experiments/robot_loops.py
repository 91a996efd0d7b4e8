"""A five-bar robot and a Bennett linkage fall freely: how well their loops stay closed, and what becomes of the energy.

    python experiments/robot_loops.py [--data ../shared/data] [--duration 2] [--dt 5e-4] [--out results/robot_loops]

Both are trees of joints with one closure, whose rows are redundant. Drift is that of the total energy from its start,
relative to the largest kinetic energy.
"""

import os
from pathlib import Path

import numpy as np
import tyro

import fgmbs
from fgmbs import plots, results

NAMES = ("five_bar", "bennett")


def main(
    data: Path | None = None, duration: float = 2.0, dt: float = 5e-4, out: Path = Path("results/robot_loops")
) -> None:
    data = (data or Path(os.environ.get("FGMBS_DATA", "../shared/data"))) / "robots" / "loops"
    print("| loop | dof | rows | rank | closure kept | its rate kept | energy drift | relative |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in NAMES:
        robot = fgmbs.load(data / f"{name}.urdf")
        motion = fgmbs.simulate(robot, duration, dt)
        rank = np.linalg.matrix_rank(np.asarray(robot.constraint_jacobian(motion.q[0], 0.0)), tol=1e-8)
        energy = np.asarray(motion.kinetic + motion.potential)
        drift, largest = np.abs(energy - energy[0]).max(), float(motion.kinetic.max())
        kept, rate = float(motion.constraint_norm.max()), float(motion.velocity_constraint_norm.max())
        numbers = f"{kept:.1e} | {rate:.1e} | {drift:.1e} J | {drift / largest:.1e}"
        print(f"| {name} | {robot.dof} | {robot.m} | {rank} | {numbers} |", flush=True)
        dataset = results.to_dataset(motion)
        results.write(dataset, out / name / "results.nc")
        plots.save_all(dataset, out / name)


if __name__ == "__main__":
    tyro.cli(main)
