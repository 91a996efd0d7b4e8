"""What a rotary pendulum is made of, from several recordings at once, each foretold from the others.

    python experiments/furuta_identification.py [--level] [--method smoother] [--windows sine_4V free_2024] [--out …]

The arm turns about an axis that is not quite upright. Its encoder counts from wherever it was switched on, so that
each recording has a tilt of its own, in the directions of its own zero, and a zero of the pendulum's encoder. They are
found together with what all recordings share: inertias, friction, the motor. With --level the axis is upright.
What is left out is foretold with tilt and zero found together with its first state, everything else from the others,
or from the windows if these are named. In free_2024 the arm is held, which its recording says (`with_numbers`), and the
drag of the pendulum is found, too.
"""

import time
from pathlib import Path
from typing import Literal

import jax.numpy as jnp
import numpy as np
import tyro
import xarray as xr
from rigs.compared import HELD, ROTARY, WINDOWS, Rig, by_array, rotary

import fgmbs
from fgmbs import Unknown, results
from fgmbs.inputs import Disturbance
from fgmbs.status import Status

LEANS, UPRIGHT = 0.03, 1e-6
"""Standard deviations of the tilt before anything is measured [rad]. Where the arm is held one of its directions is a
zero of the pendulum's encoder, and of the other nothing but its square is seen: there it is known."""

MISSES = 1e-2
"""What free runs of seconds miss by, as the model lacks something; encoders read a tenth of it [rad]."""


def rig_for(name: str, method: str) -> Rig:
    rig = rotary(name)
    return rig._replace(readings=rig.readings._replace(sigma=MISSES)) if method == "prediction" else rig


def identified(
    windows: tuple[str, ...] = tuple(WINDOWS), *, level: bool = False, method: str = "prediction"
) -> fgmbs.Identification:
    rigs = [rig_for(name, method) for name in windows]
    free = {name: Unknown(x[..., 0], lower=x[..., 1], upper=x[..., 2]) for name, x in by_array(ROTARY).items()}
    if set(windows) & set(HELD):
        free["drag"] = Unknown((1e-9, 1e-7), lower=0.0, upper=1e-5)
    free["pendulum.bias"] = Unknown(0.0, lower=-0.1, upper=0.1, own=True)
    if not level:
        leans = [2 * [UPRIGHT if name in HELD else LEANS] for name in windows]
        free["tilt"] = Unknown((0.0, 0.0), sigma=leans, own=True)
    first = {key: [rig.start[key] for rig in rigs] for key in rigs[0].start}
    return fgmbs.identify(
        rigs[0].mechanism,
        [rig.recording for rig in rigs],
        rigs[0].sensors,
        [*rigs[0].inputs, Disturbance()],
        free=free,
        method=method,
        throw=False,
        **first,
    )


def main(
    windows: tuple[str, ...] = tuple(WINDOWS),
    level: bool = False,
    method: Literal["prediction", "smoother"] = "prediction",
    out: Path = Path("results/furuta_identification.nc"),
) -> None:
    fgmbs.cache()
    begun = time.perf_counter()
    fit = identified(windows, level=level, method=method)
    seconds, ended = time.perf_counter() - begun, Status[fit.status]
    print(f"{seconds:.0f} s including compilation; {fit.iterations} iterations at the end, {ended}\n")
    print("| number | found | ± by residuals |\n| --- | ---: | ---: |")
    for name in [name for name, owner in fit.free.owners.items() if owner is None]:
        print(f"| {name} | {fit.parameters[name]:.4g} | {fit.scale * fit.std[name]:.2g} |")
    print("\nErrors of free runs, arm / pendulum [mrad]\n")
    print("| recording | fitted | left out | tilt [mrad] |\n| --- | ---: | ---: | ---: |")
    tilts = fit.free.named(jnp.asarray(fit.theta)).get("tilt", np.zeros((len(windows), 2))).reshape(-1, 2)
    others = [name for name in WINDOWS if name not in windows]
    folds = [None] * len(windows) if others else [fold.run for fold in fgmbs.cross_validate(fit).folds]
    runs = [(fit.free_run(one), left_out) for one, left_out in zip(fit.recordings, folds, strict=True)]
    runs += [(None, fit.free_run(rig.recording, **rig.start)) for rig in (rig_for(name, method) for name in others)]
    errors = np.full((2, len(runs), 2), np.nan)
    for k, (name, both) in enumerate(zip((*windows, *others), runs, strict=True)):
        for part, run in enumerate(both):
            if run is not None:
                errors[part, k] = [1e3 * float(run.rms[axis][0]) for axis in ("arm", "pendulum")]
        told = " | ".join(f"{arm:.1f} / {pendulum:.1f}" if arm == arm else "" for arm, pendulum in errors[:, k])
        tilt = 1e3 * np.linalg.norm(tilts[k] if name in windows else both[-1].parameters.get("tilt", np.zeros(2)))
        print(f"| {name} | {told} | {tilt:.1f} |", flush=True)
    data = {
        "found": ("number", [fit.parameters[name] for name in fit.names]),
        "std": ("number", [fit.std[name] for name in fit.names]),
        "error": (("part", "recording", "axis"), errors),
    }
    axes = {"number": list(fit.names), "part": ["fitted", "left out"], "recording": [*windows, *others]}
    out.parent.mkdir(parents=True, exist_ok=True)
    results.write(xr.Dataset(data, axes | {"axis": ["arm", "pendulum"]}), out)


if __name__ == "__main__":
    tyro.cli(main)
