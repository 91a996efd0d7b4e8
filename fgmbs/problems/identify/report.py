"""What an identification says, in words and numbers."""

from typing import TYPE_CHECKING

import numpy as np

from fgmbs.results.estimates import sections
from fgmbs.results.motion import to_dataset
from fgmbs.results.report import Section, in_words

if TYPE_CHECKING:
    from fgmbs.problems.identify.result import Identification

_CORRELATED = 0.9
"""Correlation of two parameters from which on it is reported."""
_OF_STATES = ("Residuals", "Outliers", "Known numbers that the data contradict", "Notes")
"""Parts of the report of the motion that belong to that of the parameters, too."""


def identification_report(fit: "Identification") -> str:
    """Parameters with intervals, what the data cannot say, residuals and warnings."""
    return in_words(identification_sections(fit))


def identification_sections(fit: "Identification") -> list[Section]:
    """The parts of the report that have something to say."""
    of_states = sections(to_dataset(fit.states)) if fit.states is not None else []
    by_title = {section.title: section for section in of_states}
    about = list(by_title["Estimate"].rows) if "Estimate" in by_title else []
    warnings = [(text,) for text in fit.warnings()]
    warnings += by_title["Warnings"].rows if "Warnings" in by_title else ()  # that it did not converge is told by both
    told = [(line[2:] if line.startswith("- ") else line,) for line in str(fit.identifiability()).split("\n")]
    made = [
        Section("Identification", ("", ""), [("method", fit.method), *about]),
        Section("Parameters", ("parameter", "value", "±", "", _interval_title(fit), "before", ""), _parameters(fit)),
        Section("Identifiability", (), told),
        Section("Correlations", ("parameter", "other", "correlation"), _correlations(fit)),
        Section("Noise model", ("residuals of", "χ² / expected", "p", "size"), _noise(fit)),
        Section("Warnings", (), list(dict.fromkeys(warnings))),
        *(by_title[title] for title in _OF_STATES if title in by_title),
    ]
    return [section for section in made if section.rows]


def _interval_title(fit: "Identification") -> str:
    return "95 % interval" if fit.scale == 1 else f"95 % interval, {fit.scale:.2g} times as wide for χ²"


def _parameters(fit: "Identification") -> list[tuple[str, ...]]:
    before = np.asarray(fit.free.values(fit.free.value)).tolist()
    units, stds, intervals = _units(fit), fit.std, fit.intervals(scaled=True)
    at_bound, open_ = fit.at_bound, fit.undetermined
    rows = []
    for (name, value), first in zip(fit.parameters.items(), before, strict=True):
        low, high = intervals[name]
        note = "not determined" if open_[name] else "at its bound" if at_bound[name] else ""
        interval = "" if note == "at its bound" else f"{low:.6g} … {high:.6g}"
        std = "" if open_[name] else f"{stds[name]:.2g}"
        rows.append((name, f"{value:.6g}", std, units.get(name, ""), interval, f"{first:.6g}", note))
    return rows


def _noise(fit: "Identification") -> list[tuple[str, ...]]:
    rows = [
        (
            group.name,
            f"{fit.reduced_chi2[group.name]:.3g}",
            "" if group.found else f"{group.p_value:.2g}",
            "found" if group.found else "given",
        )
        for group in fit.groups
    ]
    return [*rows, ("all", f"{fit.overall_reduced_chi2:.3g}", "", "")]


def _units(fit: "Identification") -> dict[str, str]:
    if fit.states is None:
        return {}
    dataset = to_dataset(fit.states)
    if "unknown" not in dataset.dims:
        return {}
    return dict(zip(map(str, dataset.unknown.values), map(str, dataset["unknown_unit"].values), strict=True))


def _correlations(fit: "Identification") -> list[tuple[str, ...]]:
    correlation = fit.correlation
    pairs = [(i, j) for i in range(len(fit.names)) for j in range(i) if abs(correlation[i, j]) > _CORRELATED]
    pairs.sort(key=lambda pair: -abs(correlation[pair]))
    return [(fit.names[j], fit.names[i], f"{correlation[i, j]:+.3f}") for i, j in pairs]
