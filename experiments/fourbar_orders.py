"""Convergence orders of the integration rules on the four-bar linkage: slope of log error over log dt.

    python experiments/fourbar_orders.py [--duration 1.024] [--kinds dependent "crank angle"] [--out FOLDER]

The error is the largest of |q − exact| of the two moving points over the times that all step sizes of a rule share.
"""

from pathlib import Path

import jax
import numpy as np
import tyro
import xarray as xr
from fourbar import KINDS, MECHANISMS, truth
from matplotlib.figure import Figure

import fgmbs
from fgmbs import plots, results
from fgmbs.compiled.program import forget

COARSEST = {"euler": 4e-3, "trapezoidal": 16e-3, "hermite_simpson": 32e-3}
"""Largest step of each rule [s]; below it the error follows its leading term."""


def error(mechanism, arguments, integrator: str, dt: float, duration: float, grid: float, exact) -> float:
    """Largest error of the coordinates of points at multiples of `grid` [m]."""
    simulation = fgmbs.simulate(mechanism, duration, dt, integrator=integrator, **arguments)
    errors = results.errors(results.with_truth(results.to_dataset(simulation), exact))
    common = np.abs(errors.t / grid - np.round(errors.t / grid)) < 1e-6
    return float(np.nanmax(np.abs(errors["q"].values[np.asarray(common)])))


def main(
    duration: float = 1.024,
    kinds: tuple[str, ...] = ("dependent", "independent", "crank angle"),
    rules: tuple[str, ...] = tuple(COARSEST),
    halvings: int = 4,
    out: Path = Path("results/fourbar_orders"),
) -> None:
    exact = truth(duration)
    table = np.full((len(kinds), len(rules), halvings + 1, 2), np.nan)
    for i, kind in enumerate(kinds):
        file, arguments = KINDS[kind]
        mechanism = fgmbs.load(MECHANISMS / file)
        for j, rule in enumerate(rules):
            steps = COARSEST[rule] * 0.5 ** np.arange(halvings + 1)
            errors = [error(mechanism, arguments, rule, dt, duration, COARSEST[rule], exact) for dt in steps]
            table[i, j] = np.stack([steps, errors], axis=-1)
            slopes = -np.diff(np.log2(errors))
            fit = np.polyfit(np.log(steps), np.log(errors), 1)[0]
            print(f"{kind:<12} {rule:<16} order {fit:.3f}; of each halving {np.round(slopes, 2)}", flush=True)
            forget()
            jax.clear_caches()
    dims = ("kind", "rule", "halving")
    dataset = xr.Dataset(
        {"dt": (dims, table[..., 0], {"units": "s"}), "error": (dims, table[..., 1], {"units": "m"})},
        coords={"kind": list(kinds), "rule": list(rules)},
        attrs={"duration": duration},
    )
    results.write(dataset, out / "orders.nc")
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for j, rule in enumerate(rules):
        for i, kind in enumerate(kinds):
            look = {"color": plots.COLOURS[j], "linestyle": ("-", "--", ":")[i], "marker": "os^"[i], "markersize": 4}
            axes.loglog(table[i, j, :, 0], table[i, j, :, 1], label=f"{rule}, {kind}", **look)
    axes.set(xlabel="time step [s]", ylabel="largest error of q [m]")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    figure.savefig(out / "orders.png", dpi=150)


if __name__ == "__main__":
    tyro.cli(main)
