"""Inverse dynamics of the pick-and-place robot, [Blanco21] section 7.2: Figs. 11 and 12 and its row of Table 3.

    python experiments/inverse_robot.py [--repeats 7] [--out results/inverse_robot]

The motion comes as the samples of the two motor angles in the paper's file, as samples of the left foot of the
platform, for which inverse kinematics is part of the graph, or as the foot's path itself, a function of time. "exact"
is the torque of that path (`exact_inverse.py`), whose acceleration jumps at 0, 2.5 and 5 s.
"""

from pathlib import Path

import jax
import numpy as np
import tyro
import xarray as xr
from fourbar import median_seconds
from matplotlib.figure import Figure
from paper_inverse import Case, rms, robot

import fgmbs
from fgmbs import plots, results
from fgmbs.signals.trajectories import polyline

PAPER_SECONDS, PROGRAM_SECONDS = 15.9, 3.0
"""Of Table 3, and of the paper's program on a 2-core machine."""
CORNERS, TIMES = ((-0.5, -5.0), (-0.5, -4.0), (0.5, -4.0)), (0.0, 2.5, 5.0)
JUMP_MARGIN = 0.02
"""What counts as near a jump of the acceleration [s]."""


def figure_11(case: Case, motion: fgmbs.DrivenMotion, foot: np.ndarray) -> Figure:
    """Path of the foot, its corner, and the angles of the motors."""
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 2))
    path, detail, angles = (figure.add_subplot(place) for place in (grid[0, 0], grid[0, 1], grid[1, :]))
    corner = np.array(CORNERS[1])
    for axes, unit, scale, origin, mark in ((path, "m", 1.0, 0.0, ""), (detail, "mm", 1e3, corner, ".")):
        axes.plot(*(scale * (foot - origin)).T, color=plots.COLOURS[0], marker=mark, label="foot, fgmbs")
        axes.plot(*(scale * (case.path[:, 0] - origin)).T, ":", color="black", linewidth=2, label="desired")
        axes.set(aspect="equal", xlabel=f"x [{unit}]", ylabel=f"y [{unit}]")
    path.set(title="(a) left foot of the platform", xlim=(-0.6, 0.6), ylim=(-5.1, -3.9))
    detail.set(title="(b) about the corner, a dot every 5 ms", xlim=(-0.1, 0.5), ylim=(-0.5, 0.1))
    for k, name in enumerate(motion.desired_names):
        angles.plot(case.t, motion.q[:, motion.followed[k]], color=plots.COLOURS[k + 1], label=f"{name}, fgmbs")
        angles.plot(case.t, case.angles[name], ":", color="black", linewidth=2)
    angles.set(title="(c) angles of the motors", xlabel="time [s]", ylabel="angle [rad]")
    angles.margins(x=0)
    for axes in (path, detail, angles):
        axes.grid(True, alpha=0.3)
    _legend(figure, [*path.lines, *angles.lines[::2]])
    return figure


def figure_12(case: Case, motion: fgmbs.DrivenMotion) -> Figure:
    """Torques of the motors beside those of ADAMS, and their errors."""
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    axes = figure.subplots(3, 2, sharex=True, height_ratios=(2, 1, 1))
    exact, ours = case.exact.torques, np.asarray(motion.forces)
    blue, orange = plots.COLOURS[:2]
    for k, name in enumerate(motion.actuator_names):
        torque, adams_error, error = axes[:, k]
        torque.plot(case.t, case.adams[:, k], color=orange, linewidth=0.8, label="ADAMS")
        torque.plot(case.t, ours[:, k], color=blue, label="fgmbs")
        torque.set(title=f"({'ab'[k]}) torque of {name}", ylabel="torque [N·m]")
        adams_error.plot(case.t, case.adams[:, k] - exact[:, k], color=orange, linewidth=0.8)
        adams_error.set(title=f"({'cd'[k]}) ADAMS less exact", ylabel="error [N·m]")
        error.plot(case.t, 1e3 * (ours[:, k] - exact[:, k]), color=blue, linewidth=0.8)
        error.set(title=f"({'ef'[k]}) fgmbs less exact", xlabel="time [s]", ylabel="error [mN·m]")
        for one in axes[:, k]:
            one.grid(True, alpha=0.3)
            one.margins(x=0)
    _legend(figure, axes[0, 0].lines)
    return figure


def _legend(figure: Figure, lines) -> None:
    figure.legend(handles=list(lines), loc="outside lower center", ncols=len(lines), frameon=False)


def main(repeats: int = 7, out: Path = Path("results/inverse_robot")) -> None:
    case = robot()
    exact, foot_path = case.exact.torques, case.path[:, 0]
    far = np.abs(case.t[:, None] - np.array(TIMES)).min(axis=1) > JUMP_MARGIN - 1e-9
    x = case.mechanism.coordinate_names.index("x_foot_l")
    given = {
        "angles": case.angles,
        "foot": {"point:foot_l": foot_path},
        "function": {"point:foot_l": polyline(CORNERS, TIMES)},
    }
    print("| given by | RMSE to ADAMS [N·m] | error far from jumps: RMS, largest | first, last | foot [mm], corner |")
    print("| --- | ---: | ---: | ---: | ---: |")
    found, feet = {}, {}
    for name, desired in given.items():
        found[name] = motion = fgmbs.inverse_dynamics(case.mechanism, case.t, desired)
        feet[name] = np.asarray(motion.q[:, x : x + 2])
        to_adams = [rms(motion.forces[:, k] - case.adams[:, k]) for k in (0, 1)]
        error = 1e3 * np.abs(np.asarray(motion.forces) - exact)
        off = 1e3 * np.linalg.norm(feet[name] - foot_path, axis=1)
        corner = off[np.abs(case.t - TIMES[1]) < 0.25].max()
        print(
            f"| {name} | {to_adams[0]:.3f}, {to_adams[1]:.3f} | {rms(error[far]):.2g}, {error[far].max():.2g} "
            f"| {error[0].max():.2g}, {error[-1].max():.2g} | {off.max():.2g}, {corner:.2g} |"
        )
    adams = [rms(case.adams[:, k] - exact[:, k]) for k in (0, 1)]
    print(f"errors to exact in mN·m, far: {1e3 * JUMP_MARGIN:.0f} ms and more; ADAMS is ", end="")
    print(f"{adams[0]:.3f}, {adams[1]:.3f} N·m from exact\n")
    seconds = median_seconds(
        lambda: jax.block_until_ready(fgmbs.inverse_dynamics(case.mechanism, case.t, case.angles)), repeats
    )
    print("| Table 3 | coordinates | samples | paper | its program, 2 cores | fgmbs |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    print(f"| robot | {case.mechanism.n} | {case.t.size} | {PAPER_SECONDS} s | {PROGRAM_SECONDS} s | {seconds:.3f} s |")

    torques = {f"torque_{name}": motion.forces for name, motion in found.items()}
    torques |= {"torque_adams": case.adams, "torque_exact": exact}
    variables = {name: (("t", "motor"), np.asarray(torque), {"units": "N·m"}) for name, torque in torques.items()}
    variables |= {f"foot_{name}": (("t", "axis"), foot, {"units": "m"}) for name, foot in feet.items()}
    dataset = xr.Dataset(
        variables,
        coords={"t": ("t", case.t, {"units": "s"}), "motor": list(found["angles"].actuator_names), "axis": ["x", "y"]},
        attrs={"seconds": seconds, "device": str(jax.devices()[0])},
    )
    results.write(dataset, out / "torques.nc")
    for name, figure in (
        ("figure11.png", figure_11(case, found["angles"], feet["angles"])),
        ("figure12.png", figure_12(case, found["angles"])),
    ):
        figure.savefig(out / name, dpi=150)
        print(out / name)


if __name__ == "__main__":
    tyro.cli(main)
