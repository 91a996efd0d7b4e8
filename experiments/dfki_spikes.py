"""Spikes of a torque that act: what a robust loss makes of them, and how the energy tells.

    python experiments/dfki_spikes.py [--walk 5.0] [--out results/dfki_spikes]

Three motions of an actuated pendulum: a swing-up whose torque was recorded cleanly, another one and a periodic motion
under controllers so stiff that the torque comes in spikes of many times its mean. Inertia, moment of the weight and
friction are found from the angle and the torque of each, where torques are readings of a force that walks at random,
with errors of the size that most of them have: without a loss, or with one by which the others hardly count, or not at
all.

A robust loss is for errors of the sensor; these spikes act on the arm. That is told without a model of noise: the work
of the torque lifts the arm, and is lost to friction. Without its spikes it would be too small.
"""

import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import tyro
from rigs import dfki
from rigs.dfki import SimplePendulum
from scipy.ndimage import gaussian_filter1d, uniform_filter1d
from scipy.signal import medfilt

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import RandomWalk
from fgmbs.losses import AbstractLoss, Huber, Tukey
from fgmbs.sensors import Encoder, Torque
from fgmbs.status import Status

CLEAN, SPIKY, _ = RECORDINGS = {
    # Every so many samples, until [s], errors of the angle as the drive's ringing makes them [rad].
    "ddp_swingup": (2, 6.0, 1e-3),
    "pd_tracking_spiky": (1, 3.9, 5e-3),
    "fourier_excitation_noisy": (1, 30.0, 5e-3),
}
LOSSES: dict[str, AbstractLoss | None] = {"none": None, "Huber": Huber(), "Tukey": Tukey()}
WALK = 5.0
"""Of a torque in a second, by default [N m/√s]."""
MEAN, SMOOTH = 0.1, 0.03
"""Over which a torque's mean is taken, and an angle is smoothed where there is no estimate [s]."""


def read(name: str) -> fgmbs.Recording:
    every, until, _ = RECORDINGS[name]
    whole = dfki.simple_recording(name)
    t = whole["q"].t
    kept = np.flatnonzero(t < until)[::every]
    signals = {key: whole[key].values[kept] for key in ("q", "tau")}
    return fgmbs.Recording.of(t[kept], signals, source=name, units={"q": "rad", "tau": "N m"})


def scatter(recording: fgmbs.Recording) -> float:
    """Standard deviation of most samples of the torque around its mean of a short time [N·m]."""
    signal = recording["tau"]
    around = signal.values - uniform_filter1d(signal.values, max(3, round(MEAN / np.median(np.diff(signal.t)))))
    return float(1.4826 * np.median(np.abs(around)))


def identified(recording: fgmbs.Recording, loss: AbstractLoss | None, walk: float) -> fgmbs.Identification:
    free = {
        "inertia": Unknown(0.2, lower=0.02, upper=2.0),
        "moment": Unknown(0.3, lower=0.03, upper=3.0),
        "viscous": Unknown(0.01, lower=0.0, upper=1.0),
        "coulomb": Unknown(0.1, lower=0.0, upper=1.0),
    }
    sensors = [
        Encoder("q", of="joint", sigma=RECORDINGS[recording.source][2]),
        Torque("tau", of="joint", sigma=scatter(recording), loss=loss),
    ]
    rig = SimplePendulum(*(float(one.value) for one in free.values()))
    return fgmbs.identify(rig, recording, sensors, [RandomWalk("joint", walk)], free=free, throw=False)


def work(recording: fgmbs.Recording, spikes: bool) -> float:
    """That of the torque, with its spikes or by the median of seven samples [J]."""
    q, tau = recording["q"], recording["tau"].values
    dt = float(np.median(np.diff(q.t)))
    speed = np.gradient(gaussian_filter1d(q.values, SMOOTH / dt), q.t)
    return float(np.sum((tau if spikes else medfilt(tau, 7)) * speed) * dt)


def lifted(recording: fgmbs.Recording, moment: float) -> float:
    """What an arm of this moment gained from rest to rest by its weight [J]."""
    arm, q = SimplePendulum(0.0, moment, 0.0, 0.0), jnp.asarray(recording["q"].values)
    return float(arm.potential(q[-1:]) - arm.potential(q[:1]))


def main(walk: float = WALK, out: Path = Path("results/dfki_spikes")) -> None:
    """
    Args:
        walk: How fast a torque walks, apart from its spikes [N m/√s].
        out: Folder for the reports.
    """
    fgmbs.cache()
    out.mkdir(parents=True, exist_ok=True)
    recordings = {name: read(name) for name in RECORDINGS}
    print("| recording | loss | inertia [kg m²] | moment [kg m] | Coulomb [N m] | differ by | ended |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    clean = None
    for name, recording in recordings.items():
        for kind, loss in LOSSES.items():
            begin = time.perf_counter()
            fit = identified(recording, loss, walk)
            (out / f"{name}_{kind}.txt").write_text(fit.report())
            found = {key: float(value) for key, value in fit.parameters.items()}
            clean = found if clean is None else clean
            numbers = " | ".join(f"{found[k]:.4f} ± {fit.std[k]:.4f}" for k in ("inertia", "moment", "coulomb"))
            apart = ", ".join(f"{100 * (found[key] / clean[key] - 1):+.1f}" for key in ("inertia", "moment"))
            ended = f"{Status[fit.status]}, {fit.iterations} iterations, {time.perf_counter() - begin:.0f} s"
            print(f"| {name} | {kind} | {numbers} | {apart} % | {ended} |", flush=True)
    print(f"\n| recording | work of the torque | without spikes | to lift the arm, by the moment of {CLEAN} |")
    print("| --- | ---: | ---: | ---: |")
    for name in (CLEAN, SPIKY):
        joules = (
            work(recordings[name], True),
            work(recordings[name], False),
            lifted(recordings[name], clean["moment"]),
        )
        print(f"| {name} | " + " | ".join(f"{one:.2f} J" for one in joules) + " |")


if __name__ == "__main__":
    tyro.cli(main)
