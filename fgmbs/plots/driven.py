"""Figures of driven motions: forces, tracking, power, forces in the joints."""

from typing import TYPE_CHECKING

import numpy as np

from fgmbs.plots.estimates import bands
from fgmbs.plots.style import COLOURS, GREY, legend, look, new_figure, one_motion, plot_columns, prominent, widen
from fgmbs.plots.timeline import Timeline, broken
from fgmbs.results import errors
from fgmbs.results.comparison import work

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_JOINTS = 6
"""Joints whose forces are shown."""


@one_motion
def force_figure(dataset: "xr.Dataset") -> "Figure":
    """Forces of the actuators with ±2σ, beside known ones; below, their difference, or else σ."""
    sigma = None
    if "force_covariance" in dataset:
        sigma = np.sqrt(np.diagonal(dataset["force_covariance"].values, axis1=1, axis2=2))
    known = "truth_forces" in dataset
    units = list(dict.fromkeys(dataset["force_unit"].values))
    rows = 1 + (known or sigma is not None)
    figure = new_figure((8.0, (3.2, 4.8)[rows - 1] * len(units)))
    panels = figure.subplots(rows * len(units), sharex=True, squeeze=False, height_ratios=[2, 1][:rows] * len(units))
    for place, unit in enumerate(units):
        which = dataset["force_unit"].values == unit
        word, unit = "force" if unit == "N" else "torque", unit.replace(" ", "·")
        upper, lower = panels[rows * place, 0], panels[rows * (place + 1) - 1, 0]
        names = dataset.actuator.values[which]
        forces, deviation = dataset["forces"].values[:, which], None if sigma is None else sigma[:, which]
        shown = prominent(forces)
        plot_columns(upper, dataset.t.values, forces, names, shown)
        if deviation is not None:
            bands(upper, dataset.t.values, forces, deviation, shown)
        if known:
            upper.plot(dataset.truth_t, dataset["truth_forces"].values[:, which], ":", color="black", linewidth=1.0)
            upper.lines[-1].set_label("known")
            error = errors(dataset)["forces"]
            plot_columns(lower, error.t.values, error.values[:, which], names, shown)
            if deviation is not None:
                bands(lower, dataset.t.values, 0 * forces, deviation, shown)
            lower.set(ylabel=f"error of {word} [{unit}]")
        elif deviation is not None:
            plot_columns(lower, dataset.t.values, deviation, names, shown)
            lower.set(ylabel=f"σ of {word} [{unit}]", ylim=(0, None))
            lower.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
        upper.set(ylabel=f"{word} [{unit}]")
        widen(upper)
        _jumps(upper, dataset)
        legend(upper)
    panels[-1, 0].set(xlabel="time [s]")
    return figure


@one_motion
def tracking_figure(dataset: "xr.Dataset") -> "Figure":
    """Desired and achieved coordinates, and how far they are apart; lengths and angles apart."""
    units = list(dict.fromkeys(dataset["desired_unit"].values))
    figure = new_figure((7.2 * len(units), 4.8))
    panels = figure.subplots(2, len(units), sharex=True, squeeze=False, height_ratios=(2, 1))
    t = dataset.t.values
    for (upper, lower), unit in zip(panels.T, units, strict=True):
        which = dataset["desired_unit"].values == unit
        names = dataset.desired.values[which]
        desired, error = (dataset[name].values[:, which] for name in ("desired_q", "tracking_error"))
        shown = prominent(desired)
        plot_columns(upper, t, desired + error, names, shown)
        upper.plot(t, desired[:, shown], ":", color="black", linewidth=1.0)
        upper.lines[-1].set_label("desired")
        plot_columns(lower, t, error, names, shown)
        upper.set(ylabel=f"{'position' if unit == 'm' else 'angle'} [{unit}]")
        lower.set(xlabel="time [s]", ylabel=f"tracking error [{unit}]")
        lower.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
        _jumps(upper, dataset)
        legend(upper)
    return figure


def desired_points(dataset: "xr.Dataset") -> dict[str, tuple[str, str]]:
    """Names of the points of which both coordinates are desired, and of these coordinates."""
    names = dataset.desired.values[dataset["desired_unit"].values == "m"].tolist()
    pairs = ((name, f"y{name[1:]}") for name in names if name.startswith("x"))
    return {x[1:].removeprefix("_"): (x, y) for x, y in pairs if y in names}


@one_motion
def path_figure(dataset: "xr.Dataset") -> "Figure":
    """Paths of the desired points in the plane, achieved and desired."""
    figure = new_figure((6.4, 5.6))
    axes = figure.add_subplot()
    for place, (point, names) in enumerate(desired_points(dataset).items()):
        colour, style = look(place)
        desired, error = (dataset[name].sel(desired=list(names)).values for name in ("desired_q", "tracking_error"))
        reached = desired + error
        axes.plot(*reached.T, color=colour, linestyle=style, linewidth=3.0, alpha=0.6, label=f"path of {point}")
        axes.plot(*desired.T, ":", color="black", linewidth=1.2, label="desired" if place == 0 else None)
        axes.plot(*reached[0], "o", color=colour, markersize=7, label="start" if place == 0 else None)
    axes.set_aspect("equal")
    axes.margins(0.08)
    axes.set(xlabel="x [m]", ylabel="y [m]")
    legend(axes)
    return figure


@one_motion
def power_figure(dataset: "xr.Dataset") -> "Figure":
    """Power of the actuators, and where their work goes."""
    figure = new_figure((8.0, 5.6))
    upper, lower = figure.subplots(2, 1, sharex=True)
    t, power = dataset.t.values, dataset["motor_power"].values
    plot_columns(upper, t, power, dataset.actuator.values)
    if power.shape[1] > 1:
        upper.plot(t, power.sum(axis=1), color=GREY, linewidth=1.0, label="together")
    gained = (dataset["kinetic"] + dataset["potential"]).values
    lower.plot(t, work(power.sum(axis=1), t), color=COLOURS[0], label="work of the actuators")
    others = np.abs(dataset["power"].values).max(initial=0.0)
    if others > 1e-9 * np.abs(power).max(initial=0.0):  # else it is rounding
        lower.plot(
            t, work(dataset["power"].values, t), color=COLOURS[1], linestyle="--", label="work of dampers, forces"
        )
    lower.plot(t, gained - gained[0], ":", color="black", label="energy gained")
    upper.set(ylabel="power [W]")
    lower.set(xlabel="time [s]", ylabel="energy [J]")
    _jumps(upper, dataset)
    legend(upper)
    legend(lower)
    return figure


@one_motion
def joint_figure(dataset: "xr.Dataset") -> "Figure":
    """Magnitudes of the largest forces in the joints; of two bodies that press on each other, the first is shown."""
    figure = new_figure((8.0, 3.6))
    axes = figure.add_subplot()
    size = np.linalg.norm(dataset["joint_forces"].values, axis=-1)
    peak = np.nan_to_num(size).max(axis=0)
    shown: list[int] = []
    for k in np.argsort(-peak, kind="stable"):
        if not any(np.allclose(size[:, k], size[:, i], rtol=0, atol=1e-6 * peak[k], equal_nan=True) for i in shown):
            shown.append(int(k))
    shown = shown[:_MOST_JOINTS]
    names = [" on ".join(reversed(pin.rsplit("@", 1))) for pin in dataset.pin.values[shown]]
    t, size, label = dataset.t.values, size[:, shown], "time [s]"
    if "recording" in dataset.coords:
        line, number = Timeline(dataset), dataset.recording.values
        t, size = broken(line.shown(t, number), size, np.diff(number, prepend=0) > 0)
        label = line.label
    plot_columns(axes, t, size, np.array(names))
    axes.set(xlabel=label, ylabel="force in the joint [N]", ylim=(0, None))
    _jumps(axes, dataset)
    legend(axes)
    return figure


def _jumps(axes: "Axes", dataset: "xr.Dataset") -> None:
    """Marks where the desired acceleration jumps."""
    if "jumps" in dataset:
        for place, t in enumerate(dataset.t.values[dataset["jumps"].values.any(axis=1)]):
            label = "acceleration jumps" if place == 0 else None
            axes.axvline(t, color=GREY, linestyle=(0, (1, 3)), linewidth=1.0, zorder=1, label=label)
