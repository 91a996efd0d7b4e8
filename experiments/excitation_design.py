"""A designed excitation of a driven pendulum beside random ones of the same limits, confirmed by Monte Carlo.

    python experiments/excitation_design.py [--seeds 40] [--out results/excitation_design]

Free are inertia, viscous and Coulomb friction, and the gain of the motor; the weight is known, the encoder has an
unknown zero. Random signals have the harmonics of the design, and each is as large as the limits of torque, angle and
speed allow. Under the design, and under the random signal of the median, recordings with noise are simulated and given
to `identify`: the spread of what it finds is compared with what was foretold.
"""

from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import tyro
from jaxtyping import Array, Float

import fgmbs
from fgmbs.inputs import Command
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.plots.style import COLOURS, new_figure
from fgmbs.sensors import Encoder


def _number(default: float):
    return eqx.field(converter=lambda x: jnp.asarray(x, dtype=float), default=default)


class DrivenPendulum(AbstractMechanism):
    """A pendulum on the shaft of a motor, at 0 where it hangs."""

    inertia: Float[Array, ""] = _number(0.02)
    """About the shaft [kg·m²]."""
    weight: Float[Array, ""] = _number(0.5)
    """Mass times gravity times distance of the centre of mass [N·m]."""
    viscous: Float[Array, ""] = _number(0.01)
    """[N·m·s]"""
    coulomb: Float[Array, ""] = _number(0.03)
    """[N·m]"""

    coordinate_names = ("angle",)
    constraint_names = ()
    actuator_names = ("motor",)

    @property
    def reference(self):
        return jnp.zeros_like(self.inertia)[None]

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return self.inertia[None, None]

    def potential(self, q):
        return -self.weight * jnp.cos(q[0])

    def forces(self, q, dq, t):
        return -self.weight * jnp.sin(q) - fgmbs.Friction(self.viscous, self.coulomb, width=0.1)(dq)

    def actuation(self, q, t):
        return jnp.ones((1, 1), q.dtype)


RIG = DrivenPendulum()
MOTOR = Command("motor", "u", hold="linear")
SENSORS = (Encoder("angle", of="angle", sigma=1e-3, bias=fgmbs.Unknown(sigma=0.1)),)
FREE = ("inertia", "viscous", "coulomb", "motor.gain")
LIMITS = dict(signal_limits={"motor": 1.0}, coordinate_limits={"angle": 1.0}, velocity_limits={"angle": 8.0})


def designed(**options) -> fgmbs.ExcitationDesign:
    """Eight harmonics in four seconds at 50 Hz."""
    plan = dict(free=FREE, period=4.0, harmonics=8, dt=2e-2, random=20, starts=12, iterations=240) | LIMITS
    return fgmbs.design_excitation(RIG, SENSORS, [MOTOR], **(plan | options))


def moved(signal: fgmbs.Recording) -> fgmbs.DrivenMotion:
    """The motion under a signal."""
    return fgmbs.hybrid_dynamics(RIG, signal["u"].t, forces={"motor": MOTOR.force(signal)})


def spread(signal: fgmbs.Recording, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """(standard deviations of what is found from recordings of many seeds, means of those that `identify` tells)."""
    motion, found, told = moved(signal), [], []
    for seed in range(seeds):
        recording = fgmbs.readings(RIG, motion, SENSORS, seed=seed).merged(signal)
        fit = fgmbs.identify(RIG, recording, SENSORS, [MOTOR], free=FREE, method="prediction", start={})
        found.append([fit.parameters[name] for name in FREE])
        told.append([fit.std[name] for name in FREE])
    return np.std(found, axis=0, ddof=1), np.mean(told, axis=0)


def draw(design: fgmbs.ExcitationDesign, median: fgmbs.Recording, path: Path) -> None:
    """Torque, angle and speed of both, with the limits; standard deviations of all signals."""
    figure = new_figure((9, 9))
    *over_time, last = figure.subplots(4, 1)
    motion = moved(median)
    rows = (
        ("torque [N·m]", median["u"].values, design.recording["u"].values),
        ("angle [rad]", motion.q[:, 0], design.q[:, 0]),
        ("speed [rad/s]", motion.dq[:, 0], design.dq[:, 0]),
    )
    for axes, (label, random, best), margin in zip(over_time, rows, design.margins, strict=True):
        axes.plot(median["u"].t, random, color=COLOURS[1], label="random, of the median")
        axes.plot(design.t, best, color=COLOURS[0], label="designed")
        for limit in (margin.lower, margin.upper):
            axes.axhline(limit, color="black", linestyle=":", linewidth=1)
        axes.set(ylabel=label)
        axes.margins(x=0)
    over_time[0].legend(loc="lower right", ncols=2)
    over_time[-1].set(xlabel="time [s]")
    worst = 100 * np.sort(design.random_worst)
    last.plot(worst, np.arange(1, len(worst) + 1) / len(worst), "o-", color=COLOURS[1], label="random signals")
    last.axvline(100 * design.worst, color=COLOURS[0], label="designed")
    last.set(xscale="log", xlabel="worst relative standard deviation [%]", ylabel="share of signals")
    last.legend(loc="lower right")
    figure.savefig(path, dpi=150)


def main(seeds: int = 40, out: Path = Path("results/excitation_design")) -> None:
    fgmbs.cache()
    design = designed()
    print(design.report())
    out.mkdir(parents=True, exist_ok=True)
    design.write(out / "signal.csv")
    place = np.argsort(design.random_worst)[len(design.random_worst) // 2]
    median = design.random_recordings[place]
    draw(design, median, out / "excitation_design.png")
    values = np.array([design.values[name] for name in FREE])
    print(f"\n| signal | parameter | foretold [%] | identify says [%] | spread over {seeds} seeds [%] |")
    print("| --- | --- | ---: | ---: | ---: |")
    worst = []
    for title, signal, foretold in (
        ("random, of the median", median, design.random_std(int(place))),
        ("designed", design.recording, design.std),
    ):
        std, told = spread(signal, seeds)
        for name, value, a, b in zip(FREE, values, told, std, strict=True):
            numbers = " | ".join(f"{100 * x / value:.3f}" for x in (foretold[name], a, b))
            print(f"| {title} | {name} | {numbers} |")
        worst.append(np.max(std / values))
    print(
        f"\nworst relative spread: {worst[0] / worst[1]:.2f} times smaller than under the random signal of the median"
    )


if __name__ == "__main__":
    tyro.cli(main)
