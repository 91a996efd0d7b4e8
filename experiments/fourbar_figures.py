"""Figures 7 and 8 of [Blanco21] from the file that `fgmbs run configs/experiments/fourbar_dependent.yaml` wrote.

    python experiments/fourbar_figures.py [results/fourbar_dependent/results.nc]

Fig. 7: coordinates and velocities beside the exact motion, and their errors. Fig. 8: ‖Φ(q)‖ over time.
"""

from pathlib import Path

import tyro
from fourbar import truth
from matplotlib.figure import Figure

from fgmbs import plots, results


def figure_7(dataset) -> Figure:
    """Coordinates and velocities with every hundredth exact sample, and the errors."""
    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    errors = results.errors(dataset)
    columns = (("q", "coordinates", "[m]", "[mm]"), ("dq", "velocities", "[m/s]", "[mm/s]"))
    for column, (name, word, unit, small_unit) in enumerate(columns):
        upper, lower = axes[:, column]
        for place, coordinate in enumerate(dataset.coordinate.values):
            look = {"color": plots.COLOURS[place], "label": coordinate}
            upper.plot(dataset.t, dataset[name][:, place], **look)
            exact = dataset[f"truth_{name}"][:, place]
            upper.plot(dataset.truth_t[::100], exact[::100], ".", markersize=4, color="black")
            lower.plot(errors.t, 1e3 * errors[name][:, place], **look)
        upper.set(ylabel=f"{word} {unit}", title=f"({'ab'[column]}) lines: fgmbs, dots: exact")
        lower.set(xlabel="time [s]", ylabel=f"error of {word} {small_unit}", title=f"({'cd'[column]})")
        upper.grid(True, alpha=0.3)
        lower.grid(True, alpha=0.3)
    axes[0, 1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return figure


def main(file: tyro.conf.Positional[Path] = Path("results/fourbar_dependent/results.nc")) -> None:
    dataset = results.load_results(file)
    dataset = dataset.drop_vars([name for name in dataset.variables if str(name).startswith("truth_")])
    dataset = results.with_truth(dataset, truth(float(dataset.t[-1])))
    for name, figure in (("figure7", figure_7(dataset)), ("figure8", plots.constraint_figure(dataset))):
        path = file.parent / f"{name}.png"
        figure.savefig(path, dpi=150)
        print(path)
    for name, value in results.rmse(dataset).items():
        print(f"RMSE {name}: {value:.4g}")


if __name__ == "__main__":
    tyro.cli(main)
