"""What identification is compared on: recordings of real rigs, and these rigs in the words of all tools."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import fgmbs
from fgmbs.inputs import Command
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.identify.free import Parts, freed_by_name
from fgmbs.sensors import Encoder
from rigs import furuta, ibm, other_models
from rigs.simulation_error import Free, Readings

WINDOWS = {"sine_4V": (0.0, 3.3), "sine_1V": (0.0, 3.3), "step_2V": (2.5, 5.8), "step_4V": (0.2, 3.5)}
"""From a rest on [s]; the first is fitted."""
HELD = {"free_2024": (4.0, 7.3)}
"""The pendulum swings and the arm is held: its encoder does not see it move."""
CLAMP = 15.0, 0.09
"""What holds it, stiff enough for that."""
MISSING = 0.430284, 4.0
"""The message that the file step_4V lacks: one comes every second, and the arm sets off here."""
ROTARY: Free = {
    "J1": (2.4054e-5, 1e-6, 1e-3),
    "J2": (1.479e-5, 1e-6, 1e-4),
    "viscous[0]": (1e-3, 0.0, 0.1),
    "viscous[1]": (1.79e-5, 0.0, 1e-3),
    "coulomb[0]": (1e-3, 0.0, 0.05),
    "coulomb[1]": (1e-5, 0.0, 1e-3),
    "motor.gain": (0.103375 / 16, 1e-3, 0.5),
    "pendulum.bias": (0.0, -0.1, 0.1),
}
"""From what its authors tell: the arm without the rotor, the motor by its resistance."""
DOUBLE: Free = {
    "upper.mass": (0.2, 0.05, 0.4),
    "lower.mass": (0.016, 0.005, 0.026),
    "lower.I0": (9e-5, 6.5e-5, 2e-4),
    "damper0.damping": (1e-4, 0.0, 1e-3),
    "damper1.damping": (3e-5, 0.0, 1e-3),
}
"""By a quarter off, friction by a factor of three; the inertia of the upper arm is the unit of mass."""


class Rig(NamedTuple):
    """What is fitted, in the words of all tools."""

    readings: Readings
    free: Free
    mechanism: AbstractMechanism
    inputs: tuple[Command, ...]
    mjcf: str
    build: Callable
    rates: Callable
    dt: float
    """Time step of SciPy's integration [s]."""
    horizon: float | None
    """Of the free runs that `fgmbs.identify` fits [s]."""
    numbers: Mapping[str, tuple[float, ...]] = {}
    """Those of the mechanism that were others meanwhile."""

    @property
    def state(self) -> Free:
        """Coordinates and velocities at the start: those of a line through the first samples, and bounds about them."""
        slope, first = np.polyfit(self.readings.t[:11], self.readings.values[:11], 1)
        near = {f"q{k}": (x, x - 0.1, x + 0.1) for k, x in enumerate(first)}
        return near | {f"dq{k}": (x, x - 3.0, x + 3.0) for k, x in enumerate(slope)}

    @property
    def sensors(self) -> list[Encoder]:
        return [Encoder(name, of=name, columns=name, sigma=self.readings.sigma) for name in self.readings.names]

    @property
    def recording(self) -> fgmbs.Recording:
        values = dict(zip(self.readings.names, self.readings.values.T, strict=True))
        units = dict.fromkeys(values, "rad")
        recording = fgmbs.Recording.of(self.readings.t, values, units=units).with_numbers(self.numbers)
        stamps, command = self.readings.command
        return recording.merged(fgmbs.Recording.of(stamps, {"u": command})) if self.inputs else recording

    @property
    def start(self) -> dict[str, dict[str, float]]:
        first = np.array(list(self.state.values()))[:, 0].tolist()
        names = self.readings.names
        return {
            "start": dict(zip(names, first[:2], strict=True)),
            "start_velocities": dict(zip(names, first[2:], strict=True)),
        }


def rotary(name: str = "sine_4V") -> Rig:
    """The rotary pendulum in a recording; angles are from the rest at its start."""
    recording, driven = furuta.recording(name), name in WINDOWS
    window = recording.between(*(WINDOWS | HELD)[name])
    t = window["arm"].t - window["arm"].t[0]
    angles = np.stack([window[axis].values for axis in ("arm", "pendulum")], axis=1)
    stamps = values = np.zeros(1)
    if driven:
        u = recording["u"]
        both = (np.r_[MISSING[k], part] if name == "step_4V" else part for k, part in enumerate((u.t, u.values)))
        stamps, values = (np.r_[0.0, part] for part in both)
        stamps[1:] -= window["arm"].t[0]
        angles -= np.median(angles[t < stamps[1]], axis=0)
    else:
        angles[:, 0] -= np.median(angles[:, 0])
    readings = Readings(t, angles, ("arm", "pendulum"), 1e-3, (stamps, values))
    mechanism, motor = furuta.Furuta(drag=(0.0, 0.0)), Command("motor", "u")
    models = other_models.FURUTA, other_models.build_furuta, other_models.furuta_rates
    return Rig(readings, ROTARY, mechanism, (motor,), *models, 5e-4, None, {} if driven else {"clamp": CLAMP})


def double(length: float, run: int = 7, start: float = 2.0) -> Rig:
    """The filmed double pendulum: angles of its arms."""
    window = ibm.recording(run).between(start, start + length)
    x, y = (np.stack([window[f"{point}.{axis}"].values for point in ("pivot", "joint", "tip")]) for axis in "xy")
    upper, lower = np.unwrap(np.arctan2(np.diff(y, axis=0), np.diff(x, axis=0)), axis=1) - ibm.TILT
    t = window["tip.x"].t - window["tip.x"].t[0]
    # A pixel, or one and a half, at both ends of arms of 589 and 451.
    readings = Readings(t, np.stack([upper, lower - upper], axis=1), ("theta", "phi"), 4e-3, (np.zeros(1), np.zeros(1)))
    models = other_models.IBM, other_models.build_ibm, other_models.ibm_rates
    return Rig(readings, DOUBLE, fgmbs.load(ibm.MECHANISM), (), *models, 1e-3, 0.5)


def by_array(numbers: Mapping[str, float | tuple]) -> dict[str, np.ndarray]:
    """Numbers "viscous[0]", "viscous[1]" as one array "viscous"."""
    names = dict.fromkeys(re.sub(r"\[\d\]$", "", name) for name in numbers)
    parts = {name: [value for key, value in numbers.items() if key.split("[")[0] == name] for name in names}
    return {name: np.array(part if f"{name}[0]" in numbers else part[0]) for name, part in parts.items()}


def free_run(rig: Rig, values: Mapping[str, float], horizons: tuple[float, ...] = ()) -> fgmbs.FreeRun:
    """The free run of numbers by `fgmbs.free_run`, its first state fitted."""
    parts = freed_by_name(Parts(rig.mechanism, tuple(rig.sensors), rig.inputs), by_array(values))
    return fgmbs.free_run(parts.mechanism, rig.recording, parts.sensors, parts.inputs, **rig.start, horizons=horizons)
