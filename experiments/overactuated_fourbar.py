"""The four-bar linkage driven by one motor or by two: what a second motor spares, and how `effort` shares the load.

    python experiments/overactuated_fourbar.py [--dt 5e-3] [--out results/overactuated_fourbar]

The crank angle is 1.2 (1 − cos 2t). The mechanism has one degree of freedom, so that of two torques only the sum of
their powers is determined: u_1 + u_2 dφ/dθ = u of a single motor at the crank. Of all such pairs the one of least
Σ (u/effort)² is taken; a motor of twice the effort takes four times the share. The rocker alone would not do: where
it turns back, dφ/dθ = 0, its motor has no leverage.
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import tyro
from fourbar import MECHANISMS
from matplotlib.figure import Figure

import fgmbs
from fgmbs import plots

DRIVES = {
    "crank alone": (("motor",), {}),
    "both, effort 1 : 1": (("motor", "motor_rocker"), {}),
    "both, effort 1 : 2": (("motor", "motor_rocker"), {"motor_rocker": 2.0}),
    "both, effort 2 : 1": (("motor", "motor_rocker"), {"motor": 2.0}),
}
"""Motors and their scales."""


def crank_angle(t):
    """Desired crank angle [rad]."""
    return 1.2 * (1 - jnp.cos(2 * t))


def figure_of(motions: dict[str, fgmbs.DrivenMotion]) -> Figure:
    """Torques of the crank, of the rocker, and the square sum that is least."""
    figure = Figure(figsize=(9.6, 7.2), layout="constrained")
    axes = figure.subplots(3, 1, sharex=True)
    for place, (name, motion) in enumerate(motions.items()):
        look = {"color": plots.COLOURS[place], "label": name}
        for k, motor in enumerate(motion.actuator_names):
            axes[int(motor == "motor_rocker")].plot(motion.t, motion.forces[:, k], **look)
        axes[2].plot(motion.t, (motion.forces**2).sum(axis=1), **look)
    axes[0].set(title="(a) motor at the crank", ylabel="torque [N·m]")
    axes[1].set(title="(b) motor at the rocker", ylabel="torque [N·m]")
    axes[2].set(title="(c) sum of squares, least for both at 1 : 1", ylabel="Σ u² [(N·m)²]", xlabel="time [s]")
    for one in axes:
        one.grid(True, alpha=0.3)
        one.margins(x=0)
    figure.legend(handles=list(axes[2].lines), loc="outside lower center", ncols=4, frameon=False)
    return figure


def main(dt: float = 5e-3, out: Path = Path("results/overactuated_fourbar")) -> None:
    mechanism = fgmbs.load(MECHANISMS / "fourbar_two_motors.yaml")
    t = np.arange(round(np.pi / dt) + 1) * dt  # one period
    motions = {}
    print("| motors | effort ∫ Σ u² dt [(N·m)² s] | largest torques [N·m] | largest powers [W] | power off [W] |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, (actuators, effort) in DRIVES.items():
        motion = fgmbs.inverse_dynamics(mechanism, t, {"theta": crank_angle}, actuators, effort=effort)
        motions[name] = motion
        motion.save(out / f"{name.replace(',', '').replace(' : ', '_').replace(' ', '_')}.nc")
        torques, powers = (np.abs(values).max(axis=0) for values in (motion.forces, motion.motor_power))
        # The powers of all pairs of motors have the same sum.
        off = np.abs(motion.motor_power.sum(axis=1) - motions["crank alone"].motor_power[:, 0]).max()
        columns = (", ".join(f"{x:.2f}" for x in values) for values in (torques, powers))
        print(f"| {name} | {motion.effort:.1f} | " + " | ".join(columns) + f" | {off:.1e} |")
    figure_of(motions).savefig(out / "torques.png", dpi=150)
    print(out / "torques.png")


if __name__ == "__main__":
    tyro.cli(main)
