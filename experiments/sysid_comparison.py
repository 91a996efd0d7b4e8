"""fgmbs.identify beside mujoco.sysid and SciPy's least squares, on the same recordings of real rigs.

    python experiments/sysid_comparison.py [--rigs furuta ibm] [--starts 5] [--lengths 2 5 10] [--out results/sysid.nc]

All tools look for the same numbers, from the same first values and within the same bounds, in the same readings with
the same noise. The rotary pendulum is fitted where it is driven by 4 V, and three other recordings are foretold; the
chaotic double pendulum is fitted in longer and longer windows, and what is foretold is another run, half a second at a
time. Errors of free runs are those of `fgmbs.free_run` for all tools, whose first states are fitted; "own" are those of
the tool itself. --lengths 2 5 10 34 looks at the whole run of the double pendulum, which takes long.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import mujoco
import numpy as np
import tyro
import xarray as xr
from rigs import furuta, ibm, other_models
from rigs.mujoco_fits import by_mujoco
from rigs.simulation_error import Fit, Free, Readings, by_scipy

import fgmbs
from fgmbs import results
from fgmbs.inputs import Command, Disturbance
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.identify.free import Parts, freed_by_name
from fgmbs.sensors import Encoder
from fgmbs.status import Status

WINDOWS = {"sine_4V": (0.0, 3.3), "sine_1V": (0.0, 3.3), "step_2V": (2.5, 5.8), "step_4V": (0.2, 3.5)}
"""From a rest on [s]; the first is fitted."""
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
START = 5.0
"""Factor by which other starts differ from these at most, the double pendulum 1.3."""


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

    @property
    def state(self) -> Free:
        """The first state, from the first samples."""
        t, y = self.readings.t[:11], self.readings.values[:11]
        slope, first = np.polyfit(t, y, 1)
        near = {f"q{k}": (x, x - 0.1, x + 0.1) for k, x in enumerate(first)}
        return near | {f"dq{k}": (x, x - 3.0, x + 3.0) for k, x in enumerate(slope)}

    @property
    def sensors(self) -> list[Encoder]:
        return [Encoder(name, of=name, columns=name, sigma=self.readings.sigma) for name in self.readings.names]

    @property
    def recording(self) -> fgmbs.Recording:
        values = dict(zip(self.readings.names, self.readings.values.T, strict=True))
        recording = fgmbs.Recording.of(self.readings.t, values, units=dict.fromkeys(values, "rad"))
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
    begin, end = WINDOWS[name]
    recording = furuta.recording(name)
    u, window = recording["u"], recording.between(begin, end)
    stamps, values = (np.r_[MISSING[k], part] if name == "step_4V" else part for k, part in enumerate((u.t, u.values)))
    stamps, values = np.r_[0.0, stamps - window["arm"].t[0]], np.r_[0.0, values]
    t = window["arm"].t - window["arm"].t[0]
    angles = np.stack([window[axis].values for axis in ("arm", "pendulum")], axis=1)
    angles -= np.median(angles[t < stamps[1]], axis=0)
    readings = Readings(t, angles, ("arm", "pendulum"), 1e-3, (stamps, values))
    mechanism, motor = furuta.Furuta(drag=(0.0, 0.0)), Command("motor", "u")
    models = other_models.FURUTA, other_models.build_furuta, other_models.furuta_rates
    return Rig(readings, ROTARY, mechanism, (motor,), *models, 5e-4)


def double(length: float, run: int = 7, start: float = 2.0) -> Rig:
    """The filmed double pendulum: angles of its arms."""
    window = ibm.recording(run).between(start, start + length)
    x, y = (np.stack([window[f"{point}.{axis}"].values for point in ("pivot", "joint", "tip")]) for axis in "xy")
    upper, lower = np.unwrap(np.arctan2(np.diff(y, axis=0), np.diff(x, axis=0)), axis=1) - ibm.TILT
    t = window["tip.x"].t - window["tip.x"].t[0]
    # A pixel, or one and a half, at both ends of arms of 589 and 451.
    readings = Readings(t, np.stack([upper, lower - upper], axis=1), ("theta", "phi"), 4e-3, (np.zeros(1), np.zeros(1)))
    models = other_models.IBM, other_models.build_ibm, other_models.ibm_rates
    return Rig(readings, DOUBLE, fgmbs.load(ibm.MECHANISM), (), *models, 1e-3)


def by_array(numbers: Mapping[str, float | tuple]) -> dict[str, np.ndarray]:
    """Numbers "viscous[0]", "viscous[1]" as one array "viscous"."""
    names = dict.fromkeys(re.sub(r"\[\d\]$", "", name) for name in numbers)
    parts = {name: [value for key, value in numbers.items() if key.split("[")[0] == name] for name in names}
    return {name: np.array(part if f"{name}[0]" in numbers else part[0]) for name, part in parts.items()}


def by_fgmbs(rig: Rig, free: Free, limit: int | None = None, **options) -> Fit:
    """What `fgmbs.identify` finds; the own free run is the common one."""
    begun = time.perf_counter()
    unknown = {name: fgmbs.Unknown(x[..., 0], lower=x[..., 1], upper=x[..., 2]) for name, x in by_array(free).items()}
    inputs = [*rig.inputs, Disturbance()]
    found = fgmbs.identify(
        rig.mechanism, rig.recording, rig.sensors, inputs, free=unknown, **rig.start, throw=False, **options
    )
    seconds = time.perf_counter() - begun
    values, std = ({name: told[name] for name in free} for told in (found.parameters, found.std))
    return Fit(values, std, np.full(2, np.nan), seconds, 0.0, found.iterations, Status[found.status])


def mujoco_fit(rig: Rig, free: Free, limit: int, **options) -> Fit:
    spec = mujoco.MjSpec.from_string(rig.mjcf)
    return by_mujoco(spec, rig.build, rig.readings, free, rig.state, max_iters=limit, **options)


TOOLS: dict[str, Callable[[Rig, Free, int], Fit]] = {
    "fgmbs, smoother": by_fgmbs,
    "fgmbs, prediction": lambda rig, free, limit: by_fgmbs(rig, free, method="prediction"),
    "mujoco.sysid as it comes": lambda rig, free, limit: mujoco_fit(rig, free, limit, fit_start=False),
    "mujoco.sysid, first state free": lambda rig, free, limit: mujoco_fit(rig, free, limit),
    "the same, x_scale": lambda rig, free, limit: mujoco_fit(rig, free, limit, x_scale="jac"),
    "SciPy": lambda rig, free, limit: by_scipy(rig.rates, rig.readings, free, rig.state, rig.dt, limit),
}


def starts(free: Free, count: int, factor: float) -> list[Free]:
    """First values within the bounds: those that are given, and others up to a factor away."""
    random = np.random.default_rng(1)
    made = [free]
    for _ in range(count - 1):
        factors = factor ** random.uniform(-1, 1, len(free))
        numbers = zip(free.items(), factors, strict=True)
        made.append({name: (float(np.clip(x * f, low, high)), low, high) for (name, (x, low, high)), f in numbers})
    return made


def free_run(rig: Rig, values: Mapping[str, float], horizons: tuple[float, ...] = ()) -> fgmbs.FreeRun:
    """The common free run of numbers that were found."""
    parts = freed_by_name(Parts(rig.mechanism, tuple(rig.sensors), rig.inputs), by_array(values))
    return fgmbs.free_run(parts.mechanism, rig.recording, parts.sensors, parts.inputs, **rig.start, horizons=horizons)


def milli(numbers: np.ndarray) -> str:
    return " / ".join(f"{1e3 * x:.1f}" for x in numbers)


def told(fit: Fit) -> str:
    return ", ".join(f"{name} {value:.3g} ± {fit.std.get(name, np.nan):.1g}" for name, value in fit.values.items())


def same(fits: list[Fit]) -> int:
    """How many fits agree at most: all numbers to 2 % of themselves, or of the geometric mean of their bounds."""

    def near(one: Fit, other: Fit) -> bool:
        pairs = ((one.values[name], other.values[name], one.std.get(name, 0.0)) for name in one.values)
        return all(abs(a - b) <= max(0.02 * abs(a), std) for a, b, std in pairs)

    return max(sum(near(one, other) for other in fits) for one in fits)


def fitted(rig: Rig, tool: str, count: int, factor: float, limit: int) -> tuple[list[Fit], float]:
    """(fits from all starts, seconds of the first one where its programs are compiled)."""
    fits = [TOOLS[tool](rig, free, limit) for free in starts(rig.free, count, factor)]
    first = fits[0]
    again = first.seconds - first.compiling
    return fits, TOOLS[tool](rig, rig.free, limit).seconds if tool.startswith("fgmbs") else again


def head(*columns: str) -> None:
    print("| " + " | ".join(columns) + " |\n" + "| --- " * len(columns) + "|", flush=True)


def compare_rotary(tools: Sequence[str], count: int) -> xr.Dataset:
    """The rotary pendulum: what every tool finds in the first recording, and how it foretells all of them."""
    rigs = {name: rotary(name) for name in WINDOWS}
    head(
        "tool",
        "found",
        "own [mrad]",
        *(f"{name} [mrad]" for name in WINDOWS),
        "s",
        "compiled",
        "runs",
        "status",
        "same",
    )
    table = {name: np.full((len(tools), len(WINDOWS), 2), np.nan) for name in ("rms",)}
    table |= {name: np.full((len(tools), count, len(ROTARY)), np.nan) for name in ("found", "std")}
    for i, tool in enumerate(tools):
        fits, again = fitted(rigs["sine_4V"], tool, count, START, 100)
        first, rms = fits[0], []
        for k, (name, rig) in enumerate(rigs.items()):
            # The zero of the encoder is another in every recording.
            values = first.values if k == 0 else {**first.values, "pendulum.bias": 0.0}
            run = free_run(rig, values)
            rms.append(np.concatenate(list(run.rms.values())))
            table["rms"][i, k] = rms[-1]
        for j, fit in enumerate(fits):
            table["found"][i, j] = list(fit.values.values())
            table["std"][i, j] = [fit.std.get(name, np.nan) for name in ROTARY]
        row = [tool, told(first), milli(first.rms), *map(milli, rms), f"{first.seconds:.1f}", f"{again:.1f}"]
        print(
            "| " + " | ".join([*row, str(first.evaluations), first.status, f"{same(fits)} of {count}"]) + " |",
            flush=True,
        )
    units = {
        "rms": ("tool", "recording", "axis"),
        "found": ("tool", "start", "number"),
        "std": ("tool", "start", "number"),
    }
    coordinates = {"tool": list(tools), "recording": list(WINDOWS), "axis": ["arm", "pendulum"], "number": list(ROTARY)}
    return xr.Dataset({name: (units[name], values) for name, values in table.items()}, coordinates)


def compare_double(tools: Sequence[str], lengths: Sequence[float], count: int) -> xr.Dataset:
    """The chaotic double pendulum: what every tool finds in windows of growing length."""
    other = double(2.5, run=12)
    head(
        "window [s]",
        "tool",
        "found",
        "own [mrad]",
        "0.5 s of another run [mrad]",
        "s",
        "compiled",
        "runs",
        "status",
        "same",
    )
    shape = len(lengths), len(tools), count, len(DOUBLE)
    table = {"found": np.full(shape, np.nan), "std": np.full(shape, np.nan)}
    foretold = np.full((len(lengths), len(tools), 2), np.nan)
    for i, length in enumerate(lengths):
        for j, tool in enumerate(tools):
            fits, again = fitted(double(length), tool, count, 1.3, 50)
            first = fits[0]
            run = free_run(other, first.values, (0.5,))
            foretold[i, j] = np.concatenate([one.horizons[0.5] for one in run.sensors])
            for k, fit in enumerate(fits):
                table["found"][i, j, k] = list(fit.values.values())
                table["std"][i, j, k] = [fit.std.get(name, np.nan) for name in DOUBLE]
            row = [f"{length:g}", tool, told(first), milli(first.rms), milli(foretold[i, j]), f"{first.seconds:.1f}"]
            row += [f"{again:.1f}", str(first.evaluations), first.status, f"{same(fits)} of {count}"]
            print("| " + " | ".join(row) + " |", flush=True)
    dims = "window", "tool", "start", "number"
    variables = {name: (dims, values) for name, values in table.items()} | {
        "rms": (("window", "tool", "axis"), foretold)
    }
    return xr.Dataset(variables, {"tool": list(tools), "window": list(lengths), "number": list(DOUBLE)})


def main(
    rigs: tuple[Literal["furuta", "ibm"], ...] = ("furuta", "ibm"),
    starts: int = 5,
    lengths: tuple[float, ...] = (0.5, 2.0, 5.0),
    tools: tuple[str, ...] = tuple(TOOLS),
    out: Path = Path("results/sysid.nc"),
) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    for rig in rigs:
        found = compare_rotary(tools, starts) if rig == "furuta" else compare_double(tools, lengths, starts)
        results.write(found, out.with_name(f"{out.stem}_{rig}.nc"))


if __name__ == "__main__":
    tyro.cli(main)
