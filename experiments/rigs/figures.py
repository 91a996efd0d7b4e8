"""Figures of the experiments with real recordings."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import fgmbs
from fgmbs.plots.style import COLOURS, new_figure
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion
from rigs.friction import fitted, losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_band(axes: "Axes", t: np.ndarray, value: np.ndarray, std: np.ndarray, colour: str, label: str) -> None:
    """A curve and ± two standard deviations."""
    axes.fill_between(t, value - 2 * std, value + 2 * std, color=colour, alpha=0.3, linewidth=0)
    axes.plot(t, value, color=colour, linewidth=1.0, label=label)


def draw_markers(motion: SmoothedMotion, path: Path) -> None:
    """Distances of the markers in the whole window; half a second of speeds and accelerations with bands."""
    figure = new_figure((9, 8))
    upper, *lower = figure.subplots(3, 1)
    for colour, fit in zip(COLOURS, motion.fits, strict=False):
        distance = np.linalg.norm(fit.predicted - fit.measured, axis=1)
        upper.plot(fit.t, distance, ".", markersize=2, color=colour, label=fit.name)
    upper.set(ylabel="distance to marker [px]", ylim=(0, None))
    part = slice(len(motion.t) // 2, len(motion.t) // 2 + 250)
    kinds = (("speed [rad/s]", motion.dq, motion.dq_std), ("acceleration [rad/s²]", motion.ddq, motion.ddq_std))
    for axes, (label, *values) in zip(lower, kinds, strict=True):
        for colour, name in zip(COLOURS, ("theta", "phi"), strict=False):
            place = motion.mechanism.coordinate_names.index(name)
            draw_band(axes, motion.t[part], *(value[part, place] for value in values), colour, name)
        axes.set(ylabel=label)
    lower[-1].set(xlabel="time [s]")
    for axes in (upper, *lower):
        axes.legend(loc="upper right")
    figure.savefig(path, dpi=150)


def draw_torques(motion: SmoothedMotion, window: fgmbs.Recording, path: Path) -> None:
    """Torques of both joints over five seconds: measured, ours with its band, ours and friction."""
    figure = new_figure((9, 6))
    t = np.asarray(motion.t)
    part = (t > t[0] + 2) & (t < t[0] + 7)
    for k, (joint, axes) in enumerate(zip(motion.force_names, figure.subplots(2, 1, sharex=True), strict=True)):
        torque, measured = (
            np.asarray(motion.forces[:, k]),
            np.interp(t, window[f"{joint}_torque"].t, window[f"{joint}_torque"].values),
        )
        _, lost = fitted(np.asarray(motion.dq[:, k]), measured - torque)
        axes.plot(t[part], measured[part], color=COLOURS[6], linewidth=0.6, label="measured")
        draw_band(axes, t[part], torque[part], np.asarray(motion.forces_std)[part, k], COLOURS[0], "from the encoders")
        axes.plot(t[part], (torque + lost)[part], color=COLOURS[1], linewidth=1.0, label="with friction")
        axes.set(ylabel=f"torque of the {joint} [N m]")
    axes.set(xlabel="time [s]")
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=150)


def draw_friction(motion: SmoothedMotion, joint: int, rows: np.ndarray, known: np.ndarray, path: Path) -> None:
    """Friction over time and over speed."""
    t, speed = np.asarray(motion.t), np.asarray(motion.dq[:, joint])
    torque, std = np.asarray(motion.forces[:, 0]), np.asarray(motion.forces_std[:, 0])
    figure = new_figure((9, 4))
    left, right = figure.subplots(1, 2)
    draw_band(left, t, 1e3 * torque, 1e3 * std, COLOURS[0], "smoothed")
    left.plot(t, -1e3 * losses(speed, *known), color=COLOURS[1], linewidth=1.0, label="known model")
    left.set(xlabel="time [s]", ylabel="friction [mN m]", xlim=(t[0] + 0.5, t[0] + 2.5))
    left.legend(loc="upper right")
    right.plot(speed, 1e3 * torque, ".", markersize=1, color=COLOURS[5])
    right.errorbar(rows[:, 0], 1e3 * rows[:, 1], 1e3 * rows[:, 2], fmt="o", color=COLOURS[0])
    ordered = np.sort(speed)
    right.plot(ordered, -1e3 * losses(ordered, *known), color=COLOURS[1])
    right.set(xlabel="speed [rad/s]", ylabel="friction [mN m]")
    figure.savefig(path, dpi=150)
