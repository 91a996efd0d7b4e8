"""Figures of motions: coordinates, errors, constraints, energy."""

from typing import TYPE_CHECKING

import numpy as np

from fgmbs.dynamics.singular import SINGULAR
from fgmbs.plots.style import COLOURS, GREY, WORDS, legend, new_figure, one_motion, plot_columns, prominent, widen
from fgmbs.results import energy_drift, errors

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


_SMALL = {"1": "10⁻³", "SI": "10⁻³ SI"}
"""Thousandth parts of units that have no millimetres."""


@one_motion
def motion_figure(dataset: "xr.Dataset") -> "Figure":
    """Coordinates and velocities over time, those of one unit together."""
    columns = (("q", "coordinate", "unit"), ("dq", "velocity", "velocity_unit"))
    rows = max(len(set(dataset[unit].values)) for _, _, unit in columns)
    same = dataset.coordinate.values.tolist() == dataset.velocity.values.tolist()
    figure = new_figure((9.6, 3.2 * rows))
    shown: dict[int, np.ndarray] = {}
    for place, (variable, axis, kinds) in enumerate(columns, 1):
        for row, unit in enumerate(dict.fromkeys(dataset[kinds].values)):
            which = dataset[kinds].values == unit
            axes = figure.add_subplot(rows, 2, 2 * row + place)
            values = dataset[variable].values[:, which]
            if row not in shown or not same:  # else one legend serves both
                shown[row] = prominent(values)
            plot_columns(axes, dataset.t.values, values, dataset[axis].values[which], shown[row])
            axes.set(xlabel="time [s]", ylabel=f"{WORDS.get(unit, axis)} [{unit}]")
            widen(axes)
            if variable == "dq" or not same:
                legend(axes)
    return figure


@one_motion
def error_figure(dataset: "xr.Dataset") -> "Figure":
    """Coordinates and velocities less those of the known motion, over time, as far as they are known."""
    difference = errors(dataset)
    known = {name: ~np.isnan(dataset[f"truth_{name}"].values).all(axis=0) for name in ("q", "dq")}
    known = {name: which for name, which in known.items() if which.any()}
    words = {"q": ("coordinate", "unit", "coordinates"), "dq": ("velocity", "velocity_unit", "velocities")}
    figure = new_figure((4.8 * len(known), 3.2))
    for place, (name, which) in enumerate(known.items(), 1):
        axis, kinds, word = words[name]
        axes = figure.add_subplot(1, len(known), place)
        error = 1e3 * difference[name].values[:, which]
        plot_columns(axes, difference.t.values, error, dataset[axis].values[which])
        units = (_SMALL.get(unit, f"m{unit}") for unit in dict.fromkeys(dataset[kinds].values[which]))
        axes.set(xlabel="time [s]", ylabel=f"error of {word} [{', '.join(units)}]")
        legend(axes)
    return figure


@one_motion
def constraint_figure(dataset: "xr.Dataset") -> "Figure":
    """How well the constraints hold, and how far they are from depending on each other, on logarithmic axes."""
    figure = new_figure((6.4, 5.2))
    axes, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for name, label, colour in (
        ("constraint_norm", "positions  ‖Φ(q, t)‖ [m², m, rad]", COLOURS[0]),
        ("velocity_constraint_norm", "velocities  ‖dΦ/dt‖ [m²/s, m/s, rad/s]", COLOURS[1]),
    ):
        norm = dataset[name].values
        axes.plot(dataset.t.values, np.where(norm > 0, norm, np.nan), color=colour, linewidth=1.0, label=label)
    norms = np.concatenate([line.get_ydata() for line in axes.lines])
    axes.set_yscale("log")
    if np.isfinite(norms).any():  # the start holds far better than the rest and would stretch the axis
        axes.set_ylim(bottom=0.3 * np.nanquantile(norms, 0.005))
    axes.set(ylabel="norm of the constraints")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=1, borderaxespad=0.2)
    if "rank_margin" in dataset:
        margins = np.maximum(dataset["rank_margin"].values, np.finfo(float).eps)
        lower.plot(dataset.t.values, margins, color=COLOURS[0], linewidth=1.0)
        if margins.min() < SINGULAR:
            lower.axhline(SINGULAR, color="0.6", linewidth=0.8, linestyle=":")
    lower.set(xlabel="time [s]", ylabel="rank margin", yscale="log")
    return figure


@one_motion
def energy_figure(dataset: "xr.Dataset") -> "Figure":
    """Kinetic, potential and total energy, and how far they are out of balance."""
    figure = new_figure((6.4, 5.2))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    t, kinetic, potential = (dataset[name].values for name in ("t", "kinetic", "potential"))
    potential = potential - potential[0]  # its zero is arbitrary and may be far away
    upper.plot(t, kinetic, color=COLOURS[0], label="kinetic")
    upper.plot(t, potential, color=COLOURS[1], linestyle="--", label="potential, from the start")
    upper.plot(t, kinetic + potential, color=COLOURS[6], linestyle="-.", label="total")
    upper.set(ylabel="energy [J]")
    upper.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
    lower.plot(t, energy_drift(dataset), color=COLOURS[2])
    driven, actuated = dataset.attrs["driven"], "motor_power" in dataset
    lower.set(xlabel="time [s]", ylabel=f"{'gain' if driven else 'drift'} [J]")
    work = f"the work of {'actuators, ' * actuated}dampers, forces"
    known = "that of the start, put in by the motors" if driven else f"that of the start and {work}"
    lower.set_title(f"total energy less {known}", color=GREY)
    lower.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    return figure
