"""Figures of the sensors of an estimate: what they read, what they should have read, and what is left."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fgmbs.plots.estimates import mark_recordings
from fgmbs.plots.style import GREY, legend, look, new_figure, one_motion
from fgmbs.plots.timeline import Timeline, broken, thinned, thinned_dots

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_SENSORS = 12
"""Sensors that a figure shows: those whose residuals fit worst, in their order."""
_LAGS = 25
_LARGEST = 6.0
"""Normalized residual at which what is larger is marked at the edge."""
_LONG = 3.0
"""Time without a sample, in usual intervals, over which no line is drawn."""
_OUTLIER, _CROWD = "#CC0000", 200


class _Fit(NamedTuple):
    """A sensor's samples."""

    name: str
    rows: tuple[str, ...]
    units: tuple[str, ...]
    circular: bool
    t: np.ndarray
    recording: np.ndarray
    measured: np.ndarray
    predicted: np.ndarray
    normalized: np.ndarray
    outlier: np.ndarray

    @property
    def breaks(self) -> np.ndarray:
        """Samples before which there are none for a while, or another recording."""
        steps = np.diff(self.t)
        return np.concatenate([[False], (steps > _LONG * np.median(steps)) | (np.diff(self.recording) > 0)])


@one_motion
def sensor_figure(dataset: "xr.Dataset") -> "Figure":
    """Readings as dots, what the estimate predicts as lines, outliers as crosses."""
    fits, line = _shown(dataset), Timeline(dataset)
    figure = new_figure((9.6, 2.1 * len(fits) + 0.6))
    panels = figure.subplots(len(fits), sharex=True, squeeze=False)[:, 0]
    for axes, fit in zip(panels, fits, strict=True):
        for k in range(len(fit.rows)):
            colour, style = look(k)
            there = np.isfinite(fit.measured[:, k])
            label = f" {fit.rows[k]}" * (len(fit.rows) > 1)
            axes.plot(
                *thinned_dots(fit.t[there], fit.measured[there, k]),
                ".",
                color=colour if len(fit.rows) > 1 else GREY,
                alpha=0.5,
                markersize=3,
                label=f"read{label}",
            )
            values = fit.predicted[there, k]
            wraps = fit.breaks[there]
            if fit.circular:
                wraps = wraps | (np.abs(np.diff(values, prepend=values[:1])) > np.pi)
            axes.plot(
                *thinned(*broken(fit.t[there], values, wraps)),
                color=colour,
                linestyle=style,
                linewidth=1.0,
                label=f"predicted{label}",
            )
        if fit.outlier.any():
            t = np.broadcast_to(fit.t[:, None], fit.measured.shape)[fit.outlier]
            label, size = f"outliers: {fit.outlier.sum()}", 5 if fit.outlier.sum() < _CROWD else 3
            axes.plot(t.ravel(), fit.measured[fit.outlier].ravel(), "x", color=_OUTLIER, markersize=size, label=label)
        axes.set(ylabel=f"{fit.name} [{', '.join(dict.fromkeys(fit.units)).replace(' ', '·') or '1'}]")
        legend(axes)
    panels[0].set_title(_title(dataset, len(fits)))
    mark_recordings(panels, line)
    return figure


@one_motion
def residual_figure(dataset: "xr.Dataset") -> "Figure":
    """Normalized residuals over time, their autocorrelation and distribution."""
    fits, line = _shown(dataset), Timeline(dataset)
    figure = new_figure((11.0, 2.1 * len(fits) + 0.6))
    panels = figure.subplots(len(fits), 3, sharex="col", squeeze=False, width_ratios=(3.2, 1.3, 1.3))
    for (over_time, together, spread), fit in zip(panels, fits, strict=True):
        limit = _over_time(over_time, fit)
        _autocorrelation(together, fit)
        _histogram(spread, fit, limit)
        over_time.set(ylabel=f"{fit.name} [σ]")
    panels[0, 0].set_title("predicted less read" + f", {_title(dataset, len(fits))}".rstrip(", "))
    panels[0, 1].set_title("autocorrelation")
    panels[0, 2].set_title("density")
    panels[-1, 1].set(xlabel="lag [samples]")
    panels[-1, 2].set(xlabel="predicted less read [σ]")
    mark_recordings(panels[:, 0], line)
    return figure


def _over_time(axes: "Axes", fit: _Fit) -> float:
    """Residuals as dots, those beyond the edge as triangles at it; returns where the edge is."""
    largest = np.nanmax(np.abs(fit.normalized), initial=0.0)
    limit = _LARGEST if largest > 4.0 else 4.5
    for k in range(len(fit.rows)):
        r = np.clip(fit.normalized[:, k], -limit, limit)
        label = fit.rows[k] if len(fit.rows) > 1 else None
        axes.plot(*thinned_dots(fit.t, r), ".", color=look(k)[0], markersize=3, alpha=0.6, label=label)
        for sign, marker in ((1, "^"), (-1, "v")):
            if (beyond := sign * fit.normalized[:, k] > limit).any():
                axes.plot(fit.t[beyond], r[beyond], marker, color=_OUTLIER, markersize=5, clip_on=False)
    for level in (-2, 2):
        axes.axhline(level, color=GREY, linestyle="--", linewidth=1.0)
    axes.set(ylim=(-limit, limit))
    if len(fit.rows) > 1:
        axes.legend(loc="upper right", ncols=2, markerscale=2)
    return limit


def _autocorrelation(axes: "Axes", fit: _Fit) -> None:
    """Of residuals without outliers, with the band in which those of white noise lie."""
    fewest = np.min(np.sum(np.isfinite(fit.normalized[~fit.outlier]), axis=0))
    if fewest:
        axes.axhspan(-2 / np.sqrt(fewest), 2 / np.sqrt(fewest), color=GREY, alpha=0.15, linewidth=0)
    for k in range(len(fit.rows)):
        r = fit.normalized[~fit.outlier, k]
        r = r[np.isfinite(r)]
        lags = np.arange(1, min(_LAGS, len(r) - 1) + 1)
        if not len(lags) or not np.std(r) > 0:
            continue
        r = r - r.mean()
        values = [np.sum(r[lag:] * r[:-lag]) / np.sum(r**2) for lag in lags]
        axes.vlines(lags + 0.25 * k, 0, values, color=look(k)[0], linewidth=2.0)
    low, high = axes.get_ylim()
    axes.set(ylim=(min(low, -0.3), max(high, 0.3)), xlim=(0, _LAGS + 1))


def _histogram(axes: "Axes", fit: _Fit, limit: float) -> None:
    """With the density of normal noise."""
    edges = np.linspace(-limit, limit, 33)
    for k in range(len(fit.rows)):
        r = fit.normalized[np.isfinite(fit.normalized[:, k]), k]
        if len(r):
            density = np.histogram(r, edges)[0] / (len(r) * (edges[1] - edges[0]))
            axes.stairs(density, edges, color=look(k)[0], fill=len(fit.rows) == 1, alpha=0.6)
    x = np.linspace(-limit, limit, 200)
    axes.plot(x, np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi), color="black", linewidth=1.0)
    axes.set(xlim=(-limit, limit))


def _shown(dataset: "xr.Dataset") -> list[_Fit]:
    """The sensors that are drawn, with their samples where these stand on the axis of time."""
    line = Timeline(dataset)
    keys = dict(zip(dataset.sensor.values, dataset.sensor_key.values, strict=True))
    ratio = {name: float(chi2 / dof) for name, chi2, dof in zip(*_chi2(dataset), strict=True) if dof > 0}
    worst = sorted(keys, key=lambda name: -abs(np.log(max(ratio.get(name, 1.0), 1e-9))))[:_MOST_SENSORS]
    fits = []
    for name in (name for name in keys if name in worst):
        part = {
            end: dataset[f"{keys[name]}.{end}"].values
            for end in ("t", "recording", "measured", "predicted", "normalized", "weight", "row", "unit")
        }
        fits.append(
            _Fit(
                str(name),
                tuple(part["row"]),
                tuple(part["unit"]),
                bool(dataset[f"{keys[name]}.measured"].attrs["circular"]),
                line.shown(part["t"], part["recording"]),
                part["recording"],
                part["measured"],
                part["predicted"],
                part["normalized"],
                part["weight"] < 0.5,
            )
        )
    return fits


def _chi2(dataset: "xr.Dataset") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return dataset.group.values, dataset["group_chi2"].values, dataset["group_dof"].values


def _title(dataset: "xr.Dataset", shown: int) -> str:
    total = dataset.sizes["sensor"]
    return "" if shown == total else f"the {shown} of {total} sensors that fit worst"
