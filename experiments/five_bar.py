"""A five-bar robot draws a rounded rectangle with its end point: torques, powers and joint forces of both motors.

    python experiments/five_bar.py [--lap 2] [--dt 1e-3] [--out results/five_bar]

The torques found are then fed back as known forces: the end point must draw the same rectangle.
"""

from pathlib import Path

import jax
import numpy as np
import tyro
from fourbar import MECHANISMS
from matplotlib.figure import Figure

import fgmbs
from fgmbs import plots
from fgmbs.signals.trajectories import blended_polyline

MIDDLE, WIDTH, HEIGHT = (0.0, 0.43), 0.16, 0.08
"""Of the rectangle [m]."""
ROUNDING = 0.1
"""Duration of the blend at a corner, relative to that of a lap."""


def rectangle(lap: float):
    """The rectangle as a function of time, from rest to rest, corners rounded; jerk is continuous."""
    corners = np.array([[0, -1], [1, -1], [1, 1], [-1, 1], [-1, -1], [0, -1]]) * [WIDTH / 2, HEIGHT / 2] + MIDDLE
    way = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1))])
    return blended_polyline(corners, lap * way / way[-1], ROUNDING * lap, "septic")


def figure_of(mechanism: fgmbs.PlanarMechanism, motion: fgmbs.DrivenMotion) -> Figure:
    """The robot in three poses, torques, powers and joint forces over time."""
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    (drawing, torque), (force, power) = figure.subplots(2, 2)
    t, points = np.asarray(motion.t), np.asarray(jax.vmap(mechanism.point_positions)(motion.q))
    for step, shade in ((0, 1.0), (len(t) // 3, 0.35), (2 * len(t) // 3, 0.15)):
        for body in mechanism.body_points:
            drawing.plot(*points[step, list(body)].T, "o-", color="#333333", markersize=4, linewidth=2, alpha=shade)
    place = mechanism.point_names.index("E")
    drawing.plot(*points[:, place].T, color=plots.COLOURS[2], label="path of E")
    drawing.set(
        aspect="equal",
        xlabel="x [m]",
        ylabel="y [m]",
        title="(a) at the start; faded, at 1/3 and 2/3 of the lap",
    )
    for k, name in enumerate(motion.actuator_names):
        torque.plot(t, motion.forces[:, k], color=plots.COLOURS[k], label=name)
        power.plot(t, motion.motor_power[:, k], color=plots.COLOURS[k], label=name)
    for k, name in enumerate(motion.joint_names):
        if name.startswith("crank"):
            look = {"color": plots.COLOURS["crank_r" in name], "linestyle": "-" if "base" in name else "--"}
            force.plot(t, np.linalg.norm(motion.joint_forces[:, k], axis=-1), **look, label=name)
    torque.set(title="(b) torques of the motors", ylabel="torque [N·m]")
    force.set(title="(c) forces on the cranks", ylabel="force [N]", xlabel="time [s]")
    power.set(title="(d) powers of the motors", ylabel="power [W]", xlabel="time [s]")
    for axes in (drawing, torque, force, power):
        axes.grid(True, alpha=0.3)
        axes.legend(loc="best", framealpha=0.9)
    return figure


def main(lap: float = 2.0, dt: float = 1e-3, out: Path = Path("results/five_bar")) -> None:
    mechanism = fgmbs.load(MECHANISMS / "five_bar.yaml")
    t = np.arange(round(lap / dt) + 1) * dt
    motion = fgmbs.inverse_dynamics(mechanism, t, {"point:E": rectangle(lap)})
    start = dict(zip(motion.coordinate_names, motion.q[0].tolist(), strict=True))
    again = fgmbs.hybrid_dynamics(mechanism, t, forces=motion.commands, start=start)
    x = motion.coordinate_names.index("x_E")
    off = np.linalg.norm((again.q - motion.q)[:, x : x + 2], axis=1)
    energy = np.asarray(motion.kinetic + motion.potential)
    power = np.asarray(motion.motor_power.sum(axis=1))
    work = np.concatenate([[0.0], np.cumsum((power[1:] + power[:-1]) / 2 * dt)])
    print(f"tracking error of E        {np.abs(motion.tracking_error).max():.1e} m")
    print(f"E, torques fed back        {1e3 * off.max():.1e} mm off at most")
    print(f"energy less work of motors {np.abs(energy - energy[0] - work).max():.1e} J at most")
    for k, name in enumerate(motion.actuator_names):
        largest = [np.abs(values[:, k]).max() for values in (motion.forces, motion.motor_power)]
        print(f"{name:<26} {largest[0]:.3f} N·m, {largest[1]:.3f} W at most")
    for k, name in enumerate(motion.joint_names):
        print(f"{name:<26} {np.linalg.norm(motion.joint_forces[:, k], axis=-1).max():.2f} N at most")
    motion.save(out / "results.nc")
    figure_of(mechanism, motion).savefig(out / "five_bar.png", dpi=150)
    print(out / "five_bar.png")


if __name__ == "__main__":
    tyro.cli(main)
