"""How often an estimate warns when nothing is wrong, and when something is: rates over many seeds.

    python experiments/warning_rates.py [--seeds 200] [--out results/warning_rates.nc]

Right: the motion moves under white forces of the power that the estimate finds, and sensors are as good as they are
said to be. Wrong: a mass, a lever arm, friction, a clock or stamps that the estimate does not know of. Beside the share
of runs with a warning stands the worst share of time in which the 95 % band of a position, velocity or acceleration of
the independent coordinate holds the truth: a fault that is small against the bands needs no warning. For a number that
is wrong there is also by how many of its standard deviations, were it found from the same data: of less than three or
four the data know nothing, whatever is made of them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tyro
import xarray as xr
from fourbar import MECHANISMS
from fourbar_truths import truth

import fgmbs
from fgmbs import results
from fgmbs.results.warnings import warnings
from fgmbs.sensors import Accelerometer, Encoder, Gyroscope, Position

DT, STEPS = 0.004, 300
BAND = 1.959963984540054
"""Standard deviations of a 95 % band."""


class Rig(NamedTuple):
    """A mechanism and its sensors."""

    file: str
    z: str
    """Independent coordinate."""
    power: float
    """Of the white forces [W]."""
    spread: tuple[float, float]
    """Standard deviations of z and its velocity at the start."""
    sensors: Sequence[fgmbs.sensors.AbstractSensor]


CRANK = Encoder("enc", of="theta", sigma=5e-3)
gyroscope = partial(Gyroscope, "gyro", body="coupler", sigma=0.02)
accelerometer = partial(Accelerometer, "acc", body="coupler", axes=("x", "y"), sigma=0.1)

RIGS = {
    "pendulum": Rig("pendulum", "x_tip", 0.05, (0.02, 0.2), (Encoder("enc", body="rod", sigma=2e-3),)),
    "four-bar": Rig("fourbar_crank_angle", "theta", 0.5, (0.05, 0.3), (gyroscope(), CRANK)),
    "four-bar, hardly pushed": Rig(
        "fourbar_crank_angle", "theta", 0.005, (0.05, 0.3), (CRANK, accelerometer(at=(0.5, 0.0)))
    ),
    "slider-crank": Rig(
        "slider_crank",
        "theta",
        0.05,
        (0.1, 1.0),
        (Encoder("enc", of="theta", sigma=2e-3), Accelerometer("acc", body="slide", at=(0, 0), axes=("x",), sigma=0.2)),
    ),
    "mass on a spring": Rig(
        "spring_mass_damper", "x_left", 0.02, (0.05, 0.1), (Position("cam", point="left", axes=("x",), sigma=2e-3),)
    ),
    "mass on a spring, hardly pushed": Rig(
        "spring_mass_damper", "x_left", 5e-4, (0.2, 0.5), (Position("cam", point="left", axes=("x",), sigma=2e-3),)
    ),
}


class Fault(NamedTuple):
    """What the estimate does not know of: parameters that are other ones in truth, what happens to the recording."""

    rig: str
    number: str = ""
    """The number that is wrong, by the name of its score test …"""
    by: float = 0.0
    """… and how far it is off."""
    parameters: Mapping[str, float] = {}
    spoil: Callable[[fgmbs.Recording, np.random.Generator], fgmbs.Recording] = lambda recording, rng: recording
    sensors: Sequence[fgmbs.sensors.AbstractSensor] | None = None
    """As they are in truth."""


def outliers(recording: fgmbs.Recording, rng: np.random.Generator) -> fgmbs.Recording:
    """Two of a hundred samples are off by ten standard deviations or so."""
    signals = {}
    for name, signal in recording.signals.items():
        hit = rng.random(len(signal)) < 0.02
        values = np.where(hit, signal.values + 0.05 * rng.standard_normal(len(signal)), signal.values)
        signals[name] = fgmbs.Signal(signal.t, values, signal.unit)
    return fgmbs.Recording(signals, source="with outliers")


def irregular(recording: fgmbs.Recording, rng: np.random.Generator) -> fgmbs.Recording:
    """Stamps are off by a tenth of the interval."""
    signals = {
        name: fgmbs.Signal(s.t + 0.1 * DT * np.clip(rng.standard_normal(len(s)), -3, 3), s.values, s.unit)
        for name, s in recording.signals.items()
    }
    return fgmbs.Recording(signals, source="irregular")


FAULTS = {
    **{f"nothing, {name}": Fault(name) for name in RIGS},
    "mass 20 % more, slider-crank": Fault("slider-crank", "slide.mass", 0.16, {"slide.mass": 0.96}),
    "mass 20 % more, four-bar": Fault("four-bar", "coupler.mass", 0.4, {"coupler.mass": 2.4}),
    "mass 20 % more, four-bar, hardly pushed": Fault(
        "four-bar, hardly pushed", "coupler.mass", 0.4, {"coupler.mass": 2.4}
    ),
    "damping 5 times, mass on a spring": Fault("mass on a spring", "c", 3.2, {"c": 4.0}),
    "damping 5 times, mass on a spring, hardly pushed": Fault("mass on a spring, hardly pushed", "c", 3.2, {"c": 4.0}),
    "gain of the gyroscope 5 % off, four-bar": Fault(
        "four-bar", "gyro.gain", 0.05, sensors=(gyroscope(gain=1.05), CRANK)
    ),
    "gyroscope 8 ms late, four-bar": Fault("four-bar", "gyro.delay", 8e-3, sensors=(gyroscope(delay=8e-3), CRANK)),
    "lever arm 5 cm off, four-bar, hardly pushed": Fault(
        "four-bar, hardly pushed",
        "acc.at[0]",
        0.05,
        sensors=(CRANK, accelerometer(at=(0.55, 0.0))),
    ),
    "2 % outliers, pendulum": Fault("pendulum", spoil=outliers),
    "irregular stamps, pendulum": Fault("pendulum", spoil=irregular),
}


def run(fault: Fault, seed: int) -> tuple[list[str], float, float]:
    """(warnings, worst share of time in which a band holds the truth, how many standard deviations a number is off)."""
    rig = RIGS[fault.rig]
    assumed = fgmbs.load(MECHANISMS / f"{rig.file}.yaml")
    real = assumed.with_parameters(dict(fault.parameters))
    place = assumed.coordinate_names.index(rig.z)
    middle = float(assumed.reference[place])
    mean, duration = (middle, 0.0), (STEPS - 1) * DT
    motion = truth(real, duration, DT, rig.power, seed, z=rig.z, mean=mean, std=rig.spread, dt=DT / 8)
    recording = fgmbs.readings(real, motion, fault.sensors or rig.sensors, seed=seed)
    recording = fault.spoil(recording, np.random.default_rng(seed))
    options = {"dt": DT, "start": {}, "start_velocities": {}, "start_sigma": rig.spread, "independent": (rig.z,)}
    estimate = fgmbs.smooth(assumed, recording, rig.sensors, **options, throw=False)
    covered = []
    for name in ("q", "dq", "ddq"):
        error = np.stack([np.interp(estimate.t, motion.t, np.asarray(getattr(motion, name))[:, place])])
        error = np.asarray(getattr(estimate, name))[:, place] - error[0]
        covered.append(np.mean(np.abs(error) < BAND * np.asarray(getattr(estimate, f"{name}_std"))[:, place]))
    off = [abs(fault.by) / test.std for test in estimate.score_tests() if test.name == fault.number]
    return warnings(results.to_dataset(estimate)), min(covered), max(off, default=np.nan)


def main(seeds: int = 200, only: str = "", out: Path = Path("results/warning_rates.nc")) -> None:
    chosen = {name: fault for name, fault in FAULTS.items() if only in name}
    warned, covered = np.zeros((len(chosen), seeds), bool), np.zeros((len(chosen), seeds))
    off = np.zeros((len(chosen), seeds))
    print("| what is wrong | by σ, in the middle | warned | in the 95 % band (mean of the worst) | most often |")
    print("| --- | ---: | ---: | ---: | --- |")
    for i, (name, fault) in enumerate(chosen.items()):
        texts: dict[str, int] = {}
        for seed in range(seeds):
            found, covered[i, seed], off[i, seed] = run(fault, seed)
            warned[i, seed] = bool(found)
            for text in found:
                kind = re.sub(r"[\d.]+", "#", text)[:60]
                texts[kind] = texts.get(kind, 0) + 1
        most = max(texts, key=texts.get) + f" ({texts[max(texts, key=texts.get)]})" if texts else ""
        sigmas = "" if np.isnan(off[i]).all() else f"{np.nanmedian(off[i]):.1f}"
        print(f"| {name} | {sigmas} | {warned[i].mean():.1%} | {covered[i].mean():.1%} | {most} |", flush=True)
    along = ("fault", "seed")
    variables = {"warned": (along, warned), "covered": (along, covered), "off": (along, off)}
    results.write(xr.Dataset(variables, coords={"fault": list(chosen)}), out)


if __name__ == "__main__":
    tyro.cli(main)
