"""Table 1 of [Blanco21]: RMSE of q and time per step over the window N_w, in dependent and independent coordinates.

    python experiments/fourbar_table1.py [--windows 2 3 …] [--duration 5] [--out results/fourbar_table1]

The paper's 3.1 mm is the difference of two models, not of two solutions (gravity 9.81 here, ADAMS with another gravity
and inertia there); the errors here are against the exact motion of the same model. "program" is the paper's program,
measured against that motion on a 2-core machine.
"""

from pathlib import Path

import jax
import tyro
import xarray as xr
from fourbar import KINDS, MECHANISMS, median_seconds, truth

import fgmbs
from fgmbs import results

PAPER_RMSE = {"dependent": [3.11773, 3.11807, 3.11818, 3.11822, 3.11823, *[3.11824] * 4], "independent": [3.14719] * 9}
PAPER_MS = {
    "dependent": [1.4, 1.6, 1.8, 2.1, 2.3, 2.5, 2.8, 3.0, 3.2],
    "independent": [2.8, 3.3, 3.7, 4.2, 4.7, 5.5, 6.1, 6.4, 7.2],
}
PROGRAM_RMSE = {("dependent", 2): 0.028, ("independent", 2): 0.0026}
PROGRAM_MS = {("dependent", 2): 0.67, ("dependent", 10): 2.0, ("independent", 2): 0.97, ("independent", 10): 4.2}


def main(
    windows: tuple[int, ...] = tuple(range(2, 11)),
    duration: float = 5.0,
    dt: float = 1e-3,
    repeats: int = 3,
    out: Path = Path("results/fourbar_table1"),
) -> None:
    exact = truth(duration)
    print("| coordinates | N_w | RMSE q [mm] | RMSE dq [mm/s] | µs/step | paper mm, ms | program mm, ms |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for kind, (file, arguments) in KINDS.items():
        mechanism = fgmbs.load(MECHANISMS / file)
        for window in windows:

            def run(mechanism=mechanism, arguments=arguments, window=window):
                return jax.block_until_ready(
                    fgmbs.simulate(mechanism, duration, dt, window=window, integrator="trapezoidal", **arguments)
                )

            errors = results.rmse(results.with_truth(results.to_dataset(run()), exact))
            row = {
                "rmse_q": errors["q [m]"] * 1e3,
                "rmse_dq": errors["dq [m/s]"] * 1e3,
                "time": median_seconds(run, repeats) / (round(duration / dt) + 1) * 1e6,
            }
            rows.append({"kind": kind, "window": window, **row})
            paper = "dependent" if kind == "dependent" else "independent"
            place = (paper, window)
            print(
                f"| {kind} | {window} | {row['rmse_q']:.5f} | {row['rmse_dq']:.4f} | {row['time']:.1f} "
                f"| {PAPER_RMSE[paper][window - 2]:.5f}, {PAPER_MS[paper][window - 2]} "
                f"| {PROGRAM_RMSE.get(place, '')}, {PROGRAM_MS.get(place, '')} |",
                flush=True,
            )
    units = {"rmse_q": "mm", "rmse_dq": "mm/s", "time": "µs per step, whole call, median"}
    table = xr.Dataset(
        {name: ("run", [row[name] for row in rows], {"units": unit}) for name, unit in units.items()},
        coords={name: ("run", [row[name] for row in rows]) for name in ("kind", "window")},
        attrs={"duration": duration, "dt": dt, "device": str(jax.devices()[0])},
    )
    results.write(table, out / "table1.nc")


if __name__ == "__main__":
    tyro.cli(main)
