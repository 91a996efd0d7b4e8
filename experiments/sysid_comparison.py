"""fgmbs.identify beside mujoco.sysid and SciPy's least squares, on the same recordings of real rigs.

    pip install "mujoco[sysid]"
    python experiments/sysid_comparison.py [--rigs furuta] [--starts 5] [--out results/sysid.nc]

All tools look for the same numbers, from the same first values and within the same bounds, in the same readings with
the same noise. The rotary pendulum is fitted where it is driven by 4 V, and three other recordings are foretold. The
chaotic double pendulum is fitted in windows of some lengths [s], and what is foretold is another run of it, half a
second at a time. Errors are those of `fgmbs.free_run` for all tools, the first states fitted; "own" is what each tool
says of its own free run. "Compiled" is the time of the same fit again; "s" that of the first, compilation included.
The rotary pendulum takes ten minutes, a window of the double pendulum (--rigs ibm --lengths 2) as long again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import mujoco
import numpy as np
import tyro
import xarray as xr
from rigs.compared import WINDOWS, Rig, by_array, double, free_run, rotary
from rigs.mujoco_fits import by_mujoco
from rigs.simulation_error import Fit, Free, by_scipy

import fgmbs
from fgmbs import results
from fgmbs.inputs import Disturbance
from fgmbs.status import Status

FACTOR = {"furuta": 5.0, "ibm": 1.3}
"""By which other starts differ from the first at most."""
LIMIT = {"furuta": 100, "ibm": 50}
"""Iterations of the other tools."""


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
    "fgmbs, prediction": lambda rig, free, limit: by_fgmbs(rig, free, method="prediction", horizon=rig.horizon),
    "mujoco.sysid as it comes": lambda rig, free, limit: mujoco_fit(rig, free, limit, fit_start=False),
    "mujoco.sysid, first state free, scaled": lambda rig, free, limit: mujoco_fit(rig, free, limit, x_scale="jac"),
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


def milli(numbers: np.ndarray) -> str:
    return " / ".join(f"{1e3 * x:.1f}" for x in numbers)


def told(fit: Fit) -> str:
    return ", ".join(f"{name} {value:.3g} ± {fit.std.get(name, np.nan):.1g}" for name, value in fit.values.items())


def same(fits: list[Fit], free: Free) -> int:
    """How many fits agree at most: all numbers to 2 %, or to a thousandth of the way between their bounds."""

    def near(one: Fit, other: Fit) -> bool:
        pairs = ((one.values[name], other.values[name], high - low) for name, (_, low, high) in free.items())
        return all(abs(a - b) <= max(0.02 * abs(a), 1e-3 * width) for a, b, width in pairs)

    return max(sum(near(one, other) for other in fits) for one in fits)


def compared(
    cases: Mapping[str, Rig],
    foretold: Mapping[str, Callable[[Rig, dict[str, float]], np.ndarray]],
    tools: Sequence[str],
    count: int,
    factor: float,
    limit: int,
) -> xr.Dataset:
    """A table of what every tool finds in some cases, printed line by line.

    Args:
        cases: What is fitted.
        foretold: Errors of free runs of what was found, by recording [rad].
        tools: Names of the tools.
        count: Number of starts.
        factor: By which they differ.
        limit: Of iterations.
    """
    columns = "fitted", "tool", "found", "own [mrad]", *(f"{name} [mrad]" for name in foretold)
    columns += "s", "compiled", "runs", "status", "same answer"
    print("| " + " | ".join(columns) + " |\n" + "| --- " * len(columns) + "|", flush=True)
    names = list(next(iter(cases.values())).free)
    numbers = np.full((2, len(cases), len(tools), count, len(names)), np.nan)
    errors = np.full((len(cases), len(tools), len(foretold), 2), np.nan)
    for i, (case, rig) in enumerate(cases.items()):
        for j, tool in enumerate(tools):
            fits = [TOOLS[tool](rig, free, limit) for free in starts(rig.free, count, factor)]
            numbers[:, i, j] = np.swapaxes([[list(fit.values.values()), list(fit.std.values())] for fit in fits], 0, 1)
            first, again = fits[0], TOOLS[tool](rig, rig.free, limit)
            errors[i, j] = [error(rig, first.values) for error in foretold.values()]
            row = [case, tool, told(first), milli(first.rms), *map(milli, errors[i, j]), f"{first.seconds:.1f}"]
            row += [f"{again.seconds - again.compiling:.1f}", str(first.evaluations), first.status]
            print("| " + " | ".join([*row, f"{same(fits, rig.free)} of {count}"]) + " |", flush=True)
    dims = "fitted", "tool", "start", "number"
    variables = {"found": (dims, numbers[0]), "std": (dims, numbers[1])}
    variables["rms"] = ("fitted", "tool", "foretold", "axis"), errors, {"units": "rad"}
    coordinates = {"fitted": list(cases), "tool": list(tools), "number": names, "foretold": list(foretold)}
    return xr.Dataset(variables, coordinates)


def held_back(rig: Rig) -> Callable[[Rig, dict[str, float]], np.ndarray]:
    """Errors in another recording of the rotary pendulum, in which the zero of the encoder is another, too."""
    return lambda _, values: rms(free_run(rig, {**values, "pendulum.bias": 0.0}))


def rms(run: fgmbs.FreeRun) -> np.ndarray:
    return np.concatenate(list(run.rms.values()))


def anew(rig: Rig, seconds: float = 0.5) -> Callable[[Rig, dict[str, float]], np.ndarray]:
    """Errors in another recording, of free runs that begin anew after so many seconds."""
    return lambda _, values: np.concatenate(
        [one.horizons[seconds] for one in free_run(rig, values, (seconds,)).sensors]
    )


def main(
    rigs: tuple[Literal["furuta", "ibm"], ...] = ("furuta",),
    starts: int = 5,
    lengths: tuple[float, ...] = (0.5, 2.0),
    tools: tuple[str, ...] = tuple(TOOLS),
    out: Path = Path("results/sysid.nc"),
) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    for rig in rigs:
        if rig == "furuta":
            first, *others = WINDOWS
            cases = {first: rotary(first)}
            foretold = {first: lambda rig, values: rms(free_run(rig, values))}
            foretold |= {name: held_back(rotary(name)) for name in others}
        else:
            cases = {f"{length:g} s": double(length) for length in lengths}
            foretold = {"another run": anew(double(2.5, run=12))}
        found = compared(cases, foretold, tools, starts, FACTOR[rig], LIMIT[rig])
        results.write(found, out.with_name(f"{out.stem}_{rig}.nc"))


if __name__ == "__main__":
    tyro.cli(main)
