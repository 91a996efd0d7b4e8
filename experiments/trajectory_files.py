"""Writes the desired motions of the inverse dynamics experiments into configs/experiments.

The crank angle 1.2 (1 − cos 2t) of [Blanco21] section 7.1, and the path of the parallel robot of section 7.2: one metre
up, one to the right, each in 2.5 s, from rest to rest.

    python experiments/trajectory_files.py
"""

from pathlib import Path

import numpy as np

from fgmbs.signals.trajectories import polyline, sample

FOLDER = Path(__file__).parents[1] / "configs" / "experiments"


def write(name: str, what: str, columns: dict[str, np.ndarray]) -> None:
    """Writes a table with all digits of its numbers."""
    lines = [f"# {what}, by experiments/trajectory_files.py", ",".join(columns)]
    lines += [",".join(f"{float(number)!r}" for number in row) for row in zip(*columns.values(), strict=True)]
    (FOLDER / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    t = np.arange(2000) / 200
    write(
        "fourbar_angle.csv",
        "Desired crank angle 1.2 (1 - cos 2t) [s, rad]",
        {"t": t, "theta": 1.2 * (1 - np.cos(2 * t))},
    )

    t = np.arange(1001) / 200
    corners, times = np.array([[-0.5, -5.0], [-0.5, -4.0], [0.5, -4.0]]), np.array([0.0, 2.5, 5.0])
    x, y = np.asarray(sample(polyline(corners, times), t).y).T
    what = "Desired path of the point foot_l, cubic in time on either leg [s, m]"
    write("parallel_robot_path.csv", what, {"t": t, "x_foot_l": x, "y_foot_l": y})
