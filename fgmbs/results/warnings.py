"""Warnings about an estimate, in words."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from fgmbs.results.contents import STATUSES

if TYPE_CHECKING:
    import xarray as xr

_UNLIKELY = 1e-3
"""p-value below which chance is no explanation …"""
_MISFIT, _CORRELATED = 0.1, 0.05
"""… of a relative error of χ², or of a correlation, that is large enough to matter."""
_WIDE, _STILL = 0.5, 0.01
"""Width of a band, ±2σ, relative to the range of what it belongs to, beyond which that is hardly observed; a
coordinate is taken to move by this share of the largest of its unit at least."""
_EXACT = 1e-9
"""Standard deviation, relative to the largest of the same kind, of what cannot move: rounding."""
_NOTHING_LEARNT = 0.9
"""Standard deviation relative to that of the prior."""
_AWAY = 4.0
"""Distance of a number from its prior, in standard deviations of that, which chance does not explain."""
_AS_WELL = 0.9
"""Part of the largest score that others have which would explain the data nearly as well."""
_MANY = 0.05
"""Share of outliers that is no longer noise."""
_POOR = 5.0
"""χ² of everything, relative to what is expected, of a motion that may be the wrong one."""
FAR = 5.0
"""Normalized residual that normal noise does not reach."""
_SHARP, _SINGULAR = 1.0, 1e-3
"""Steps in which the least margin of rank grows by itself, below which the motion turns too sharply for them and bands
hold half of what they should; and the margin below which no steps are short enough."""
UNDECIDED = 5.0
"""Difference of costs, or of logarithms of probabilities, below which two starts cannot be told apart."""
_APART, _COORDINATES = 0.1, 4
"""Coordinates that tell where another start is: by how much they differ, relative to the most different one, and how
many at most."""


def warnings(dataset: "xr.Dataset", told: Collection[str] = ()) -> list[str]:
    """Everything about an estimate that does not fit, or that the data do not tell; empty if there is nothing.

    Args:
        dataset: That of an estimate.
        told: Sensors and forces of which others tell whether their noise is as large as was said, and numbers of which
            they tell how well they are known.
    """
    parts = (_solution, _groups, _sensors, _unknowns, _known, _bands, _singular_pose, _start)
    return [text for part in parts for text in (part(dataset, told) if part in (_groups, _unknowns) else part(dataset))]


def _solution(dataset: "xr.Dataset") -> Iterator[str]:
    if "step_status" in dataset:
        open_ = dataset["step_status"].values != STATUSES.index("converged")
        if open_.any():
            first = f"the first at t = {dataset.t.values[open_][0]:g} s"
            yield f"{open_.sum()} of {open_.size} steps did not end well ({dataset.attrs['status']}), {first}"
    elif not dataset.attrs["status"].startswith("converged"):
        yield f"the solve did not end well ({dataset.attrs['status']}): nothing below can be relied on"
    lost = ~np.isfinite(dataset["q"].values).all(axis=1)
    if lost.any():
        yield f"{lost.sum()} of {lost.size} steps are no numbers, the first at t = {dataset.t.values[lost][0]:g} s"


def _groups(dataset: "xr.Dataset", told: Collection[str]) -> Iterator[str]:
    for k, name in enumerate(dataset.group.values):
        group = {key: dataset[f"group_{key}"].values[k] for key in ("kind", "chi2", "dof", "found", "size")}
        p, correlation, white = (float(dataset[f"group_{key}"][k]) for key in ("p_value", "correlation", "whiteness"))
        sensor = group["kind"] == "sensor"
        if not sensor and "step_status" in dataset:
            continue  # estimates of neighbouring steps were made of different data: their differences are no forces
        ratio = group["chi2"] / group["dof"] if group["dof"] > 0 else np.nan
        if p < _UNLIKELY and abs(ratio - 1) > _MISFIT and name not in told:
            found = f"{name}: χ² is {ratio:.3g} times what is expected (p = {p:.1g})"
            if sensor and ratio > 1:
                yield f"{found}: the sensor is worse than its sigma says, or the model lacks what it sees"
            elif sensor:
                yield f"{found}: its sigma is larger than its noise"
            else:
                yield f"{found}: the unknown force is {'larger' if ratio > 1 else 'smaller'} than its size says"
        # What a motion follows of the noise leaves neighbours that differ more: a negative correlation is no fault.
        if sensor and white < _UNLIKELY and correlation > _CORRELATED:
            yield (
                f"{name}: residuals are autocorrelated (correlation of neighbours {correlation:.2f}, p = "
                f"{white:.1g}): something is missing in the model, and bands are narrower than they should be"
            )
        if group["found"] and not sensor and not group["dof"] > 0.5:
            yield f"{name}: the data show no such force; its size, {group['size']:.1g}, means none"


def _sensors(dataset: "xr.Dataset") -> Iterator[str]:
    for name, key in zip(dataset.sensor.values, dataset.sensor_key.values, strict=True):
        weight, normalized = dataset[f"{key}.weight"].values, dataset[f"{key}.normalized"].values
        share, far = float(np.mean(weight < 0.5)) if weight.size else 0.0, _far(normalized)
        if weight.size == 0:
            yield f"{name}: it has no sample in the time that is estimated"
        elif share > _MANY:
            yield f"{name}: {share:.0%} of its samples are outliers: its unit, sign, place or clock may be wrong"
        elif far and not dataset[f"{key}.measured"].attrs["robust"]:
            yield f"{name}: {far} samples are farther than {FAR:g} σ; a robust loss would keep them from pulling"


def _far(normalized: np.ndarray) -> int:
    """Samples that normal noise does not reach."""
    return int(np.sum(np.nanmax(np.abs(normalized), axis=1, initial=0.0) > FAR))


def _unknowns(dataset: "xr.Dataset", told: Collection[str]) -> Iterator[str]:
    if "unknown" in dataset.dims:
        dataset = dataset.isel(unknown=~np.isin(dataset.unknown.values, list(told)))
        for name in dataset.unknown.values[dataset["unknown_left"].values > _NOTHING_LEARNT]:
            yield f"{name}: the data say nothing about it; it is what was assumed before"
        away = dataset["unknown_away"].values
        for k in np.flatnonzero(away > _AWAY):
            before, sigma = (float(dataset[f"unknown_{key}"][k]) for key in ("prior", "prior_std"))
            yield (
                f"{dataset.unknown.values[k]}: it ended {away[k]:.2g} standard deviations from what was known before, "
                f"{before:.4g} ± {sigma:.2g} {dataset.unknown_unit.values[k]}: the motion may be another one than that "
                "found, or a unit, a sign or a place wrong"
            )
        value = dataset["unknown_value"].values
        for side, where in (("lower", np.less_equal), ("upper", np.greater_equal)):
            for name in dataset.unknown.values[where(value, dataset[f"unknown_{side}"].values)]:
                yield f"{name}: it ended on its {side} bound; its standard deviation does not know of that"


def suspects(dataset: "xr.Dataset") -> np.ndarray:
    """Which of the numbers that were taken as known the data contradict, the one of the largest score first."""
    if "known" not in dataset.dims:
        return np.zeros(0, int)
    scores = np.abs(dataset["known_change"].values / dataset["known_std"].values)
    order = np.argsort(-scores, kind="stable")
    return order[scores[order] > special.ndtri(1 - _UNLIKELY / 2 / scores.size)]


def _known(dataset: "xr.Dataset") -> Iterator[str]:
    found = suspects(dataset)
    if not found.size:
        return
    value, change, std = (dataset[f"known_{key}"].values for key in ("value", "change", "std"))
    scores, first = np.abs(change / std), found[0]
    others = [str(dataset.known.values[k]) for k in found[1:] if scores[k] > _AS_WELL * scores[first]]
    like = f"; {' or '.join(others)} would explain that, too" if others else ""
    like += "; samples that are far off may be the cause" * any(
        _far(dataset[f"{key}.normalized"].values) and not dataset[f"{key}.measured"].attrs["robust"]
        for key in dataset.sensor_key.values
    )
    unit = str(dataset.known_unit.values[first])
    wanted = f"{value[first] + change[first]:.4g} ± {std[first]:.2g}" + f" {unit}" * (unit not in ("", "SI"))
    yield (
        f"{dataset.known.values[first]}: the data contradict it by {scores[first]:.3g} standard deviations: they want "
        f"{wanted} instead of {value[first]:.4g}, all else being right{like}; correct it, or make it Unknown"
    )


def _bands(dataset: "xr.Dataset") -> Iterator[str]:
    for variable, axis, unit in (
        ("q", "coordinate", "unit"),
        ("dq", "velocity", "velocity_unit"),
        ("forces", "force", "force_unit"),
    ):
        if variable not in dataset:
            continue
        for number in np.unique(dataset.recording.values):
            here = dataset.recording.values == number
            values, std = (dataset[key].values[here] for key in (variable, f"{variable}_std"))
            typical, moved, largest = np.median(std, axis=0), np.ptp(values, axis=0), np.max(np.abs(values), axis=0)
            # A velocity or a force may well stand still away from 0.
            least = _of_its_kind(largest, dataset[unit].values) * _STILL if variable == "q" else largest
            wide = 2 * typical > _WIDE * np.maximum(moved, least)
            wide &= typical > _EXACT * np.max(typical, initial=0.0)
            many = f" in recording {number}" * (int(dataset.recording.max()) > 0)
            for k in np.flatnonzero(wide):
                name, of = dataset[axis].values[k], dataset[unit].values[k]
                what = f"velocity of {name}" if variable == "dq" and name in dataset.coordinate.values else name
                yield (
                    f"{what}{many}: hardly observed: its band is ±{2 * typical[k]:.2g} {of} where it changes by "
                    f"{moved[k]:.2g} {of}"
                )


def _of_its_kind(largest: np.ndarray, units: np.ndarray) -> np.ndarray:
    """The largest number of the same unit; angles are no smaller than a radian."""
    return np.array([max(largest[units == unit].max(), float(unit == "rad")) for unit in units])


def _singular_pose(dataset: "xr.Dataset") -> Iterator[str]:
    if "rank_margin" not in dataset:
        return
    told = dataset["rank_margin"].attrs
    if told["nearest_steps"] < _SHARP or told["nearest"] < _SINGULAR:
        many = f" of recording {told['nearest_recording']}" * (int(dataset.recording.max()) > 0)
        yield (
            f"motion{many}: at t = {told['nearest_t']:.4g} s it passes by a singular pose (margin of rank "
            f"{told['nearest']:.2g}, {told['nearest_steps']:.2g} steps wide), in which {told['dependent']} depend on "
            "each other and motions meet: another one may fit as well, and bands are narrower than they should be"
        )


def _start(dataset: "xr.Dataset") -> Iterator[str]:
    chi2, dof = (float(np.nansum(dataset[f"group_{key}"].values)) for key in ("chi2", "dof"))
    poor = dof > 0 and chi2 / dof > _POOR
    for number, rows in starts_of(dataset):
        cost, weight, given = (dataset[f"start_{key}"].values[rows] for key in ("cost", "weight", "given"))
        many = f" of recording {number}" * (int(dataset.recording.max()) > 0)
        if given[1:].any() and not given[0]:
            yield (
                f"start{many}: it is not the one that was given: from there, the data are less likely by far; say "
                "start_sigma=… if it is known"
            )
        if poor and not given.any():
            yield (
                f"start{many}: the best that was found leaves a χ² of {chi2 / dof:.3g} times what is expected: if the "
                "model is right, the motion is another one; say start=…"
            )
        # One that is not solved is told from the motion by the first samples alone.
        solved = np.isfinite(weight)
        close = np.where(solved, weight > np.exp(-UNDECIDED), cost < np.min(cost) + UNDECIDED)
        for k in np.flatnonzero(close[1:]) + 1:
            likely = f"with a probability of {weight[k]:.2g}, " if solved[k] else ""
            yield (
                f"start{many}: the data hardly tell the motion from another one, {likely}which begins at "
                f"{start_place(dataset, rows[k], rows[0])}; say start=… or add a sensor"
            )


def starts_of(dataset: "xr.Dataset") -> list[tuple[int, np.ndarray]]:
    """(number of a recording, rows of its starts) where several were compared."""
    recording = dataset["start_recording"].values if "start" in dataset.dims else np.zeros(0, int)
    return [(int(number), np.flatnonzero(recording == number)) for number in np.unique(recording)]


def start_place(dataset: "xr.Dataset", one: int | np.integer, other: int | np.integer) -> str:
    """Coordinates of a start by which it differs from another one, the most different first."""
    q, units = dataset["start_q"].values, dataset.unit.values
    apart = np.abs(q[one] - q[other]) / _of_its_kind(np.max(np.abs(dataset["q"].values), axis=0), units)
    order = [k for k in np.argsort(-apart, kind="stable") if apart[k] > _APART * apart.max()][:_COORDINATES]
    return ", ".join(f"{dataset.coordinate.values[k]} = {q[one, k]:.3g}" for k in order)
