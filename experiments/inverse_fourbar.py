"""Inverse dynamics of the four-bar linkage, [Blanco21] section 7.2: Fig. 9 and its row of Table 3.

    python experiments/inverse_fourbar.py [--repeats 7] [--out results/inverse_fourbar]

The crank angle comes as the samples of the paper's file, which are rounded to 5e-8 rad, or as the function of time they
were made from. "exact" is the torque of that function (`exact_inverse.py`). Links of ADAMS are 0.1 m wide, those of the
file are thin rods: 4.5 mN·m between the two are no error of either.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
import xarray as xr
from fourbar import median_seconds
from matplotlib.figure import Figure
from paper_inverse import Case, fourbar, rms

import fgmbs
from fgmbs import plots, results

PAPER_SECONDS, PROGRAM_SECONDS = 5.3, 1.6
"""Of Table 3, and of the paper's program on a 2-core machine."""


def crank_angle(t):
    """Desired crank angle [rad]."""
    return 1.2 * (1 - jnp.cos(2 * t))


def figure_9(case: Case, motion: fgmbs.DrivenMotion) -> Figure:
    """Angle, torque, tracking error; and how far the torques are from the exact one."""
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    (angle, torque), (tracking, error) = figure.subplots(2, 2, sharex=True)
    t, desired, exact = case.t, np.rad2deg(crank_angle(case.t)), case.exact.torques[:, 0]
    blue, orange = plots.COLOURS[:2]
    reached = np.rad2deg(motion.q[:, motion.followed[0]])
    angle.plot(t, reached, color=blue, label="fgmbs")
    angle.plot(t, desired, ":", color="black", linewidth=2, label="desired")
    angle.set(ylabel="crank angle [°]", title="(a) crank angle")
    torque.plot(t, motion.forces[:, 0], color=blue)
    torque.plot(t, case.adams[:, 0], ":", color=orange, linewidth=2, label="ADAMS")
    torque.set(ylabel="torque of the motor [N·m]", title="(b) torque of the motor at the crank")
    for axes, scale, adams, ours in (
        (tracking, 1e6, np.rad2deg(case.adams_angle) - desired, reached - desired),
        (error, 1e3, case.adams[:, 0] - exact, np.asarray(motion.forces[:, 0]) - exact),
    ):
        axes.plot(t, scale * adams, color=orange, linewidth=0.8)
        axes.plot(t, scale * ours, color=blue, linewidth=0.8)
        axes.set(xlabel="time [s]")
    tracking.set(ylabel="error of the crank angle [µ°]", title="(c) tracking error")
    error.set(ylabel="torque less exact torque [mN·m]", title="(d) error of the torque")
    for axes in (angle, torque, tracking, error):
        axes.grid(True, alpha=0.3)
        axes.margins(x=0)
    handles = [*angle.lines, torque.lines[1]]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def main(repeats: int = 7, out: Path = Path("results/inverse_fourbar")) -> None:
    case = fourbar()
    exact = case.exact.torques[:, 0]
    print(
        "| crank angle given by | RMSE to ADAMS | RMS error | largest | first sample | last sample | tracking [rad] |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    found = {}
    for name, desired in (("samples", case.angles), ("function", {"theta": crank_angle})):
        found[name] = motion = fgmbs.inverse_dynamics(case.mechanism, case.t, desired)
        error = 1e3 * (np.asarray(motion.forces[:, 0]) - exact)
        to_adams = 1e3 * rms(motion.forces[:, 0] - case.adams[:, 0])
        torques = (rms(error), np.abs(error).max(), error[0], error[-1])
        tracking = np.abs(motion.tracking_error).max()
        print(f"| {name} | {to_adams:.3f} | " + " | ".join(f"{x:.3g}" for x in torques) + f" | {tracking:.2g} |")
    print(f"torques in mN·m, exact ones from {exact.min():.2f} to {exact.max():.2f} N·m; ADAMS is ", end="")
    print(f"{1e3 * rms(case.adams[:, 0] - exact):.3f} mN·m from exact\n")
    seconds = median_seconds(
        lambda: jax.block_until_ready(fgmbs.inverse_dynamics(case.mechanism, case.t, case.angles)), repeats
    )
    print("| Table 3 | coordinates | samples | paper | its program, 2 cores | fgmbs |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    print(
        f"| four-bar | {case.mechanism.n} | {case.t.size} | {PAPER_SECONDS} s | {PROGRAM_SECONDS} s | {seconds:.3f} s |"
    )

    columns = {f"torque_{name}": motion.forces[:, 0] for name, motion in found.items()}
    columns |= {"torque_adams": case.adams[:, 0], "torque_exact": exact}
    dataset = xr.Dataset(
        {name: ("t", np.asarray(column), {"units": "N·m"}) for name, column in columns.items()},
        coords={"t": ("t", case.t, {"units": "s"})},
        attrs={"seconds": seconds, "device": str(jax.devices()[0])},
    )
    results.write(dataset, out / "torques.nc")
    figure_9(case, found["samples"]).savefig(out / "figure9.png", dpi=150)
    print(out / "figure9.png")


if __name__ == "__main__":
    tyro.cli(main)
