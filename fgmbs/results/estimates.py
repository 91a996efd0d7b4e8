"""What an estimate says, in words and numbers."""

import json
from typing import TYPE_CHECKING

import numpy as np

from fgmbs.results.comparison import errors, rmse
from fgmbs.results.motion import AbstractMotion, to_dataset
from fgmbs.results.report import Section, in_words
from fgmbs.results.summaries import mechanism_line
from fgmbs.results.warnings import FAR, start_place, starts_of, suspects, warnings

if TYPE_CHECKING:
    import xarray as xr

_FIRST_TIMES = 4
"""Outliers whose time is reported."""
_SPANS = 4
"""Recordings of which it is told when they were."""
_CERTAIN = 1e6
"""How many times less likely a start is that need not be counted: a million."""


def is_estimate(dataset: "xr.Dataset") -> bool:
    """Whether a dataset is that of a `SmoothedMotion`."""
    return "group" in dataset.dims


def smoothed_report(motion: AbstractMotion) -> str:
    """How an estimate went, how well sensors and model agree, and warnings."""
    return estimate_report(to_dataset(motion))


def estimate_report(dataset: "xr.Dataset", seconds: float | None = None) -> str:
    """The report of an estimate's dataset; with known values beside it, also how far it is from them.

    Args:
        seconds: How long it took.
    """
    return in_words(sections(dataset, seconds))


def sections(dataset: "xr.Dataset", seconds: float | None = None) -> list[Section]:
    """The parts of the report that have something to say."""
    made = [
        Section("Estimate", ("", ""), _overview(dataset, seconds)),
        Section("Warnings", (), [(text,) for text in warnings(dataset)]),
        Section(
            "Residuals",
            ("group", "kind", "count", "χ²", "expected", "p", "correlation", "white p", "size", "", ""),
            _groups(dataset),
        ),
        Section(
            "Outliers",
            ("sensor", "samples", "outliers", "share", f"beyond {FAR:g} σ", "largest", "at t [s]"),
            _outliers(dataset),
        ),
        Section("Unknown numbers", ("number", "value", "±", "", "before", "±"), _unknowns(dataset)),
        Section(
            "Known numbers that the data contradict", ("number", "taken as", "wanted", "±", "", "σ"), _known(dataset)
        ),
        Section("Notes", (), [(text,) for text in json.loads(dataset.attrs["notes"])]),
    ]
    return [section for section in made if section.rows]


def _overview(dataset: "xr.Dataset", seconds: float | None) -> list[tuple[str, str]]:
    t, number = dataset.t.values, dataset.recording.values
    spans = [t[number == k] for k in np.unique(number)]
    more = ["…"] * (len(spans) > _SPANS)
    shown = [f"{span[0]:g} to {span[-1]:g} s" for span in spans[:_SPANS]] + more
    steps = [f"{span[1] - span[0]:.6g}" for span in spans]
    steps = steps[:1] if len(set(steps)) == 1 else steps[:_SPANS] + more
    cost = f", cost {float(dataset['cost_history'][-1]):.6g}" if dataset.sizes["iteration"] else ""
    lines = [
        ("mechanism", mechanism_line(dataset)),
        ("steps", f"{len(t)} of dt = {', '.join(steps)} s, t = {', '.join(shown)}"),
        ("status", dataset.attrs["status"]),
        ("iterations", f"{int(dataset['iterations'])}{cost}"),
    ]
    if np.isfinite(dataset["log_likelihood"]):
        lines.append(("likelihood", f"{float(dataset['log_likelihood']):.6g}, its logarithm"))
    lines += _starts(dataset)
    if any(f"truth_{name}" in dataset for name in ("q", "forces")):
        lines += [(f"RMSE {key}", f"{value:.3e}") for key, value in rmse(dataset).items()]
        lines.append(("within ±2σ", _coverage(dataset)))
    if seconds is not None:
        lines.append(("time", f"{seconds:.3g} s including compilation"))
    return lines


def _starts(dataset: "xr.Dataset") -> list[tuple[str, str]]:
    """Of each recording, how many starts were compared, and how far behind the next is."""
    lines, several = [], int(dataset.recording.max()) > 0
    for number, rows in starts_of(dataset):
        if len(rows) < 2:
            continue
        cost, weight, given = (dataset[f"start_{key}"].values[rows] for key in ("cost", "weight", "given"))
        which = f"the {'one that was given' if given[0] else 'best'} of {len(rows)} that were compared"
        where = start_place(dataset, rows[1], rows[0])
        odds = np.exp(np.clip(cost[1] - cost[0], 0.0, 700.0))
        less = f"{odds:.3g}" if odds < _CERTAIN else "more than a million"
        text = f"{which}; from the next, at {where}, the first samples are {less} times less likely"
        if np.isfinite(weight[1]):
            text = f"{which}; the motion from {where} has a probability of {weight[1]:.2g}"
        lines.append((f"start {number}" if several else "start", text))
    return lines


def _coverage(dataset: "xr.Dataset") -> str:
    """How many of the known values lie in the bands."""
    texts, difference = [], errors(dataset)
    for key, error in difference.data_vars.items():
        std = dataset[f"{key}_std"].isel(step=np.searchsorted(dataset.t.values, difference.t.values)).values
        known = ~np.isnan(error.values) & (std > 0)
        if known.any():
            inside = np.abs(error.values)[known] <= 2 * std[known]
            texts.append(f"{key} {np.mean(inside):.1%}")
    return f"{', '.join(texts)} of the known values; 95.4% are expected"


def _groups(dataset: "xr.Dataset") -> list[tuple[str, ...]]:
    rows = []
    for k, name in enumerate(dataset.group.values):
        group = {key: dataset[f"group_{key}"].values[k] for key in ("kind", "count", "found")}
        if group["kind"] != "sensor" and "step_status" in dataset:
            continue  # see `warnings`
        number = {
            key: float(dataset[f"group_{key}"][k])
            for key in ("chi2", "dof", "p_value", "correlation", "whiteness", "size")
        }
        # What the smoother leaves of a force is smooth, however white that was.
        sensor = group["kind"] == "sensor"
        rows.append(
            (
                str(name),
                str(group["kind"]),
                f"{group['count']}",
                _number(number["chi2"], ".1f"),
                _number(number["dof"], ".1f"),
                _number(number["p_value"], ".2g"),
                _number(number["correlation"], ".3f"),
                _number(number["whiteness"], ".2g") if sensor else "",
                _number(number["size"], ".4g"),
                str(dataset.group_unit.values[k]),
                "found" if group["found"] else "given",
            )
        )
    return rows


def _outliers(dataset: "xr.Dataset") -> list[tuple[str, ...]]:
    rows = []
    for name, key in zip(dataset.sensor.values, dataset.sensor_key.values, strict=True):
        far = np.nanmax(np.abs(dataset[f"{key}.normalized"].values), axis=1, initial=0.0)
        weight, t = dataset[f"{key}.weight"].values, dataset[f"{key}.t"].values
        out = np.flatnonzero(weight < 0.5)
        shown = ", ".join(f"{time:g}" for time in t[out][:_FIRST_TIMES]) + ", …" * (len(out) > _FIRST_TIMES)
        robust = dataset[f"{key}.measured"].attrs["robust"]
        rows.append(
            (
                str(name),
                f"{len(t)}",
                f"{len(out)}" if robust else "no loss",
                f"{len(out) / max(len(t), 1):.2%}" if robust else "",
                f"{np.sum(far > FAR)}",
                f"{far.max(initial=0.0):.1f} σ",
                shown,
            )
        )
    return rows


def _unknowns(dataset: "xr.Dataset") -> list[tuple[str, ...]]:
    if "unknown" not in dataset.dims:
        return []
    keys = ("unknown_value", "unknown_std", "unknown_unit", "unknown_prior", "unknown_prior_std")
    columns = [dataset[key].values for key in keys]
    return [
        (str(name), f"{value:.6g}", f"{std:.2g}", str(unit), f"{prior:.4g}", f"{sigma:.2g}")
        for name, value, std, unit, prior, sigma in zip(dataset.unknown.values, *columns, strict=True)
    ]


def _known(dataset: "xr.Dataset") -> list[tuple[str, ...]]:
    rows = []
    for k in suspects(dataset):
        value, change, std = (float(dataset[f"known_{key}"][k]) for key in ("value", "change", "std"))
        unit = str(dataset.known_unit.values[k])
        wanted = f"{value + change:.6g}"
        rows.append(
            (str(dataset.known.values[k]), f"{value:.6g}", wanted, f"{std:.2g}", unit, f"{abs(change / std):.1f}")
        )
    return rows


def _number(value: float, form: str) -> str:
    return "" if np.isnan(value) else f"{value:{form}}"
