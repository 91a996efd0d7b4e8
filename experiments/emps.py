"""Mass and friction of a positioning system from its encoder and the voltage of its motor, beside published values.

    python experiments/emps.py [--method smoother] [--out results/emps.nc]

The mass, viscous and Coulomb friction and the offset are found from one recording; the other, in which pulses push the
carriage, is foretold by a free run. The voltage holds the pulses already: with them as forces of their own it would
miss by 140 mm.
"""

import time
from pathlib import Path
from typing import Literal

import numpy as np
import tyro
import xarray as xr
from rigs import emps

import fgmbs
from fgmbs import results
from fgmbs.inputs import Command, Disturbance
from fgmbs.sensors import Encoder

PUBLISHED = {"mass": 95.1, "viscous": 203.5, "coulomb": 20.4, "offset": -3.16}
"""By inverse dynamics and least squares (Janot, Gautier, Brunot 2019)."""
SENSOR = Encoder("x", of="x", unit="m", sigma=2e-6)
MOTOR = Command("motor", "u", gain=emps.GAIN)


def identified(method: str = "smoother") -> fgmbs.Identification:
    recording = emps.recording("estimation")
    free = {"mass": (1.0, 1e3), "viscous": (0.0, 1e4), "coulomb": (0.0, 1e3), "offset": True}
    start = {"x": float(recording["x"].values[0])}
    return fgmbs.identify(
        emps.Carriage(), recording, [SENSOR], [MOTOR, Disturbance()], free=free, start=start, method=method
    )


def foretold(fit: fgmbs.Identification) -> fgmbs.FreeRun:
    """The free run of what was found beside the recording with pulses."""
    recording = emps.recording("validation_pulses")
    start = {"x": float(recording["x"].values[0])}
    return fit.free_run(recording, start=start, start_velocities={"x": 0.0})


def main(method: Literal["smoother", "prediction"] = "smoother", out: Path = Path("results/emps.nc")) -> None:
    begun = time.perf_counter()
    fit = identified(method)
    seconds = time.perf_counter() - begun
    print(fit.report())
    print(f"\n{seconds:.1f} s including compilation, {fit.iterations} iterations\n")
    print("| parameter | found | ± | published | difference |\n| --- | ---: | ---: | ---: | ---: |")
    for name, value in PUBLISHED.items():
        found = fit.parameters[name]
        print(f"| {name} | {found:.4g} | {fit.std[name]:.2g} | {value:g} | {100 * (found / value - 1):+.2f} % |")
    run = foretold(fit)
    travel = float(np.ptp(run["x"].measured))
    rms = float(np.max(run["x"].rms))
    print(f"\nfree run of the validation: {1e3 * rms:.2f} mm RMS over {1e3 * travel:.0f} mm of travel")
    names = list(PUBLISHED)
    columns = {"found": fit.parameters, "std": fit.std, "published": PUBLISHED}
    data = {key: ("parameter", [values[name] for name in names]) for key, values in columns.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    results.write(xr.Dataset(data | {"validation_rms": rms}, {"parameter": names}), out)


if __name__ == "__main__":
    tyro.cli(main)
