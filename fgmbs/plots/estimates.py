"""Figures of an estimate: coordinates, velocities, accelerations and unknown forces with their bands."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fgmbs.plots.style import GREY, WORDS, legend, look, new_figure, one_motion, plot_columns, prominent, widen
from fgmbs.plots.timeline import Timeline, broken, thinned_band
from fgmbs.results import errors
from fgmbs.results.contents import per_second

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Quantity(NamedTuple):
    """What is drawn, and what it is called where its unit does not tell more."""

    variable: str
    axis: str
    unit: str
    word: str


_Q = _Quantity("q", "coordinate", "unit", "coordinate")
_DQ = _Quantity("dq", "velocity", "velocity_unit", "velocity")
_DDQ = _Quantity("ddq", "velocity", "velocity_unit", "acceleration")
_FORCES = _Quantity("forces", "force", "force_unit", "force")


@one_motion
def coordinate_figure(dataset: "xr.Dataset") -> "Figure":
    """Coordinates with ±2σ beside known ones; below, their difference, or else σ."""
    return _banded(dataset, _Q)


@one_motion
def velocity_figure(dataset: "xr.Dataset") -> "Figure":
    """The same of velocities."""
    return _banded(dataset, _DQ)


@one_motion
def acceleration_figure(dataset: "xr.Dataset") -> "Figure":
    """The same of accelerations, which nobody knows."""
    return _banded(dataset, _DDQ)


@one_motion
def unknown_force_figure(dataset: "xr.Dataset") -> "Figure":
    """The same of unknown forces with a memory."""
    return _banded(dataset, _FORCES)


def _banded(dataset: "xr.Dataset", quantity: _Quantity) -> "Figure":
    line = Timeline(dataset)
    breaks = np.diff(dataset.recording.values, prepend=0) > 0
    t = line.shown(dataset.t.values, dataset.recording.values)
    all_units = dataset[quantity.unit].values
    units = list(dict.fromkeys(all_units))
    known = f"truth_{quantity.variable}" in dataset
    figure = new_figure((8.0, 4.8 * len(units)))
    panels = figure.subplots(2 * len(units), sharex=True, squeeze=False, height_ratios=[2, 1] * len(units))[:, 0]
    for place, unit in enumerate(units):
        which = all_units == unit
        upper, lower = panels[2 * place], panels[2 * place + 1]
        names = dataset[quantity.axis].values[which]
        shown = per_second(unit) if quantity is _DDQ else unit
        word, shown = WORDS.get(shown, quantity.word), shown.replace(" ", "·")
        values, sigma = (dataset[f"{quantity.variable}{end}"].values[:, which] for end in ("", "_std"))
        along, middle = broken(t, values, breaks)
        sigma = broken(t, sigma, breaks)[1]
        coloured = prominent(values)
        plot_columns(upper, along, middle, names, coloured)
        bands(upper, along, middle, sigma, coloured)
        upper.set(ylabel=f"{word} [{shown}]")
        if known:
            here = (dataset.truth_t.values >= t[0]) & (dataset.truth_t.values <= t[-1])
            truth = dataset[f"truth_{quantity.variable}"].values[here][:, which]
            upper.plot(dataset.truth_t[here], truth, ":", color="black", linewidth=1.0)
            upper.lines[-1].set_label("known")
            difference = errors(dataset)[quantity.variable]
            plot_columns(lower, difference.t.values, difference.values[:, which], names, coloured)
            bands(lower, along, 0 * middle, sigma, coloured)
            lower.set(ylabel=f"error [{shown}]")
        else:
            plot_columns(lower, along, sigma, names, coloured)
            lower.set(ylabel=f"σ [{shown}]", ylim=(0, 1.1 * np.nanmax(sigma, initial=1e-300)))
        lower.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
        widen(upper)
        legend(upper)
    mark_recordings(panels, line)
    return figure


def bands(axes: "Axes", t: np.ndarray, middle: np.ndarray, sigma: np.ndarray, shown: np.ndarray) -> None:
    """±2σ around each of the columns that have colours."""
    for place, column in enumerate(shown):
        value, deviation = middle[:, column], sigma[:, column]
        label = "±2σ" if place == 0 else None
        band = thinned_band(t, value - 2 * deviation, value + 2 * deviation)
        axes.fill_between(*band, color=look(place)[0], alpha=0.25, linewidth=0, label=label)


def mark_recordings(panels: "np.ndarray | list[Axes]", line: Timeline) -> None:
    """The axis of time of panels that share it, with the borders of recordings."""
    for axes in panels:
        for border in line.borders:
            axes.axvline(border, color=GREY, linestyle=(0, (1, 3)), linewidth=1.0, zorder=1)
    panels[-1].set(xlabel=line.label)
