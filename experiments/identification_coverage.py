"""How often intervals of identified parameters hold the truth: fits of simulated recordings over many seeds.

    python experiments/identification_coverage.py [--seeds 200] [--only four-bar] [--out results/coverage.nc]

White torques on the motors that no estimate knows of move the mechanisms beside the commands; their size is found from
the data where a rig says so, else it is given; its intervals are those of Student's distribution then. Of errors e with
the covariance C that the fit tells, eᵀ C⁻¹ e is a χ² number with as many degrees of freedom as there are parameters
where sizes are given, and larger where they are found.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tyro
import xarray as xr
from fourbar import MECHANISMS
from scipy import stats

import fgmbs
from fgmbs import results
from fgmbs.inputs import Command, WhiteNoise
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors import AbstractSensor, Encoder, Gyroscope

DT, FINER = 2.5e-3, 4


class Torque(NamedTuple):
    """mean + Σ amplitudes[k] sin(2π frequencies[k] t) [N·m, Hz]."""

    mean: float
    amplitudes: Sequence[float]
    frequencies: Sequence[float]

    def __call__(self, t: np.ndarray) -> np.ndarray:
        waves = zip(self.amplitudes, self.frequencies, strict=True)
        return self.mean + sum(a * np.sin(2 * np.pi * f * t) for a, f in waves)


class Rig(NamedTuple):
    """A mechanism, its sensors and what drives it."""

    file: str
    truth: Mapping[str, float]
    sensors: Sequence[AbstractSensor]
    motors: Mapping[str, Torque]
    start: Mapping[str, float]
    density: float
    """Of the white torque on each motor [N·m·√s] …"""
    found: bool
    """… and whether it is found from the data."""
    duration: float = 2.0


RIGS = {
    "four-bar": Rig(
        "fourbar_crank_angle",
        {"crank.mass": 1.4, "coupler.mass": 2.5, "rocker.mass": 3.0},
        (Encoder("crank", of="theta", sigma=2e-3), Gyroscope("gyro", body="coupler", sigma=0.02)),
        {"motor": Torque(20.0, (15.0,), (1.5,))},
        {"theta": 0.3},
        0.05,
        found=True,
    ),
    "five-bar": Rig(
        "five_bar",
        {"rho": 2.6, "crank_l.cog.y": 0.02, "crank_r.cog.y": -0.01},
        (Encoder("left", of="theta_l", sigma=1e-3), Encoder("right", of="theta_r", sigma=1e-3)),
        {"drive_l": Torque(0.0, (1.0, 0.5), (1.3, 2.9)), "drive_r": Torque(4.0, (1.0, 0.5), (1.7, 3.7))},
        {"theta_l": 2.2, "theta_r": 0.9},
        0.01,
        found=False,
        duration=1.0,
    ),
    "slider-crank with friction": Rig(
        "slider_crank_friction",
        {"slide.mass": 1.1, "guide_friction.damping": 3.0, "guide_friction.coulomb": 2.0},
        (Encoder("crank", of="theta", sigma=1e-3),),
        {"motor": Torque(0.8, (1.5, 0.7), (2.0, 3.3))},
        {"theta": 1.0},
        0.02,
        found=True,
    ),
}


def recorded(rig: Rig, mechanism: AbstractMechanism, seed: int) -> fgmbs.Recording:
    """Readings of the sensors, and the commands; not the white torques."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(rig.duration / DT) * FINER + 1) * (DT / FINER)
    commands = {name: torque(t) for name, torque in rig.motors.items()}
    white = {name: rig.density / np.sqrt(DT / FINER) * rng.standard_normal(t.size) for name in commands}
    forces = {name: commands[name] + white[name] for name in commands}
    motion = fgmbs.hybrid_dynamics(mechanism.with_parameters(rig.truth), t, forces=forces, start=rig.start)
    fine = fgmbs.readings(mechanism, motion, rig.sensors, seed=seed)
    every = {name: s.values[::FINER] for name, s in fine.signals.items()}
    torques = {f"command_{name}": values[::FINER] for name, values in commands.items()}
    return fgmbs.Recording.of(t[::FINER], {**every, **torques}, source=f"seed {seed}")


def main(seeds: int = 200, only: str = "", out: Path = Path("results/coverage.nc")) -> None:
    fgmbs.cache()
    print(
        "| rig | fits | in the 95 % interval | eᵀC⁻¹e, mean | expected | p | bias in σ, worst | iterations | s a fit |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    variables = {}
    for name, rig in RIGS.items():
        if only not in name:
            continue
        mechanism = fgmbs.load(MECHANISMS / f"{rig.file}.yaml")
        inputs = [Command(motor, f"command_{motor}", hold="linear") for motor in rig.motors]
        inputs += [WhiteNoise(motor, None if rig.found else rig.density, name=f"white_{motor}") for motor in rig.motors]
        scaled, held, squares, iterations, times = [], [], [], [], []
        for seed in range(seeds):
            recording = recorded(rig, mechanism, seed)
            began = time.perf_counter()
            fit = fgmbs.identify(
                mechanism, recording, rig.sensors, inputs, free=list(rig.truth), start=rig.start, throw=False
            )
            times.append(time.perf_counter() - began)
            error = np.array([fit.parameters[key] - rig.truth[key] for key in fit.names])
            scaled.append(error / np.sqrt(np.diag(fit.covariance)))
            held.append([low <= rig.truth[key] <= high for key, (low, high) in fit.intervals().items()])
            squares.append(error @ np.linalg.solve(fit.covariance, error))
            iterations.append(fit.iterations)
        scaled, squares = np.array(scaled), np.array(squares)
        p = stats.kstest(squares, stats.chi2(len(rig.truth)).cdf).pvalue
        bias = np.max(np.abs(scaled.mean(axis=0)))
        print(
            f"| {name} | {seeds} | {np.mean(held):.1%} | {squares.mean():.2f} ± "
            f"{squares.std() / np.sqrt(seeds):.2f} | {len(rig.truth)} | {p:.2g} | {bias:.2f} | "
            f"{np.median(iterations):.0f} | {np.median(times):.2f} |",
            flush=True,
        )
        variables[name] = xr.DataArray(scaled, dims=(f"fit of {name}", f"parameter of {name}"))
    results.write(xr.Dataset(variables), out)


if __name__ == "__main__":
    tyro.cli(main)
