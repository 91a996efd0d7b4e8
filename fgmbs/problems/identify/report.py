"""What an identification says, in words and numbers."""

from typing import TYPE_CHECKING

import numpy as np

from fgmbs.problems.identify.identifiability import TRADED
from fgmbs.problems.smooth.contents import units_of_numbers
from fgmbs.results.contents import worst_text
from fgmbs.results.estimates import sections
from fgmbs.results.motion import to_dataset
from fgmbs.results.report import Section, in_words
from fgmbs.results.warnings import warnings
from fgmbs.status import Status

if TYPE_CHECKING:
    from fgmbs.problems.identify.result import Identification

_CORRELATED = 0.9
"""Correlation of two parameters from which on it is reported."""
_FAR = 3.0
"""Distance from its first value, in standard deviations of its prior, beyond which a parameter is warned of."""
_REJECTED = 0.5
"""Share of a sensor's samples that its loss rejects, beyond which it is warned of."""
_AS_LIKELY = 1.92
"""Difference of the logarithms of likelihoods within which another maximum is warned of: half the quantile of χ² that a
95 % interval of one parameter is bounded by."""
_NAMED = 3
"""Parameters of it that are named."""
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
    told = [(line[2:] if line.startswith("- ") else line,) for line in str(fit.identifiability()).split("\n")]
    made = [
        Section("Identification", ("", ""), [("method", fit.method), *about]),
        Section("Parameters", ("parameter", "value", "±", "", _interval_title(fit), "before", ""), _parameters(fit)),
        Section("Maxima of the likelihood", ("", "found", *("other",) * (len(fit.maxima) - 1)), _maxima(fit)),
        Section("Identifiability", (), told),
        Section("Correlations", ("parameter", "other", "correlation"), _correlations(fit)),
        Section("Noise model", ("residuals of", "χ² / expected", "p", "size"), _noise(fit)),
        Section("Warnings", (), [(text,) for text in fit.warnings()]),
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
    parts = fit.mechanism, fit.sensors, fit.inputs
    rows = ((place.names, units_of_numbers(*parts, place)) for place in fit.free.places)
    return {name: unit for names, units in rows for name, unit in zip(names, units, strict=True)}


def _correlations(fit: "Identification") -> list[tuple[str, ...]]:
    correlation = fit.correlation
    pairs = [(i, j) for i in range(len(fit.names)) for j in range(i) if abs(correlation[i, j]) > _CORRELATED]
    pairs.sort(key=lambda pair: -abs(correlation[pair]))
    return [(fit.names[j], fit.names[i], f"{correlation[i, j]:+.3f}") for i, j in pairs]


def identification_warnings(fit: "Identification") -> tuple[str, ...]:
    """Everything that does not fit, or that the data do not tell; empty if there is nothing."""
    found = []
    if fit.status != Status.converged:
        found.append(f"the solve did not end well ({worst_text(fit.status)}): nothing below can be relied on")
    found += [
        f"{group.name}: its loss rejects {group.outliers:.0%} of the samples: what else is said here is of the others; "
        "begin nearer to the answer, or with a loss that rejects none, as Huber's"
        for group in fit.groups
        if group.outliers > _REJECTED
    ]
    found += [fit.unsettled] if fit.unsettled else []
    found += [
        f"{name}: at its bound, {fit.parameters[name]:.4g}; "
        + ("the data do not tell where it is" if fit.undetermined[name] else "its interval is not told")
        for name, held in fit.at_bound.items()
        if held
    ]
    found += [
        f"{name}: {fit.mechanism.margin_in_words(0.0)}; intervals are those along this limit"
        for name, reached in fit.at_limit.items()
        if reached
    ]
    found += [
        f"{name}: {fit.mechanism.margin_in_words(float(margin))}: no body can have these numbers"
        for name, margin in fit.mechanism.margins().items()
        if float(margin) < 0 and not fit.at_limit.get(name, False)
    ]
    found += [
        f"{group.name}: its residuals are {'larger' if group.chi2 > group.dof else 'smaller'} than the noise model "
        f"says, χ² {fit.reduced_chi2[group.name]:.3g} of what is expected; {_advice(fit, group.name)}"
        for group in fit.contradicted
    ]
    if fit.scale > 1:
        found.append(
            f"intervals are too narrow by a factor of {fit.scale:.2g}, as all residuals tell; "
            "intervals(scaled=True) allow for it"
        )
    if not np.all(np.isfinite(fit.bend)):
        found.append("standard deviations may be too small: how the likelihood is bent was not found")
    if fit.problem.sizes.size and (wider := fit.widened) > TRADED:
        found.append(
            "parameters and sizes of noise are hardly told from one another: standard deviations are up to "
            f"{wider:.2g} times those for sizes that are known, or more; give the size of a force, or a prior"
        )
    found += _of_other_maxima(fit)
    told = fit.identifiability()
    found += [line[2:] for line in str(told).split("\n")[1:] if not line.startswith("- condition")]
    found += [
        f"{name}: neither the data nor a prior tell its value"
        for name in told.determined
        if fit.undetermined[name] and not fit.at_bound[name]
    ]
    sigma = np.asarray(fit.free.sigma)
    away = np.abs(fit.theta - np.asarray(fit.free.value)) / sigma
    found += [
        f"{name}: {far:.1f} standard deviations of its prior from the first value"
        for name, far in zip(fit.names, away, strict=True)
        if np.isfinite(far) and far > _FAR
    ]
    if fit.states is not None:
        found += warnings(to_dataset(fit.states), {*fit.names, *(group.name for group in fit.groups)})
    return tuple(dict.fromkeys(found))  # that it did not converge is told by both


def _advice(fit: "Identification", name: str) -> str:
    """How the size of the noise of a sensor, or of a force, is found, and what else may be done."""
    sizes = {sensor.name: "sigma" for sensor in fit.sensors}
    sizes |= {force.name: force.size_key for force in fit.inputs if force.size_key is not None}
    if name not in sizes:
        return "mend the model"
    by = ' by method="smoother"' if fit.method == "prediction" else ""
    return f'find its size{by}, free={{"{name}.{sizes[name]}": True}}, or mend the model'


def _of_other_maxima(fit: "Identification") -> list[str]:
    """Other parameters that are as likely nearly, and outside of the intervals."""
    said, intervals, std = [], fit.intervals(), fit.std
    for other in fit.maxima[1:]:
        less = fit.maxima[0].log_likelihood - other.log_likelihood
        beyond = {
            name: abs(value - fit.parameters[name]) / (std[name] or np.inf)
            for name, value in other.parameters.items()
            if not intervals[name][0] <= value <= intervals[name][1]
        }
        if less < _AS_LIKELY and beyond:
            names = sorted(beyond, key=lambda name: -beyond[name])[:_NAMED]
            values = ", ".join(f"{name} {other.parameters[name]:.4g} for {fit.parameters[name]:.4g}" for name in names)
            said.append(
                f"other parameters are nearly as likely, the logarithm of the likelihood being {less:.2g} less, and "
                f"outside of these intervals: {values}; more data, a prior or bounds can tell them apart"
            )
    return said


def _maxima(fit: "Identification") -> list[tuple[str, ...]]:
    """The parameters of several maxima, one column for each, and how many starts led to none."""
    lost = sum(not np.isfinite(end.likelihood) for end in fit.ends)
    if not fit.maxima or len(fit.maxima) + lost < 2:
        return []
    best = fit.maxima[0].log_likelihood
    arrived = ["yes" if one.settled else "not yet" for one in fit.maxima]
    return [
        ("log-likelihood", *(f"{one.log_likelihood - best:+.2f}" for one in fit.maxima)),
        ("starts that led there", *(str(one.starts) for one in fit.maxima)),
        *([("starts that led to nothing", str(lost), *("",) * (len(arrived) - 1))] if lost else []),
        *([("arrived", *arrived)] if "not yet" in arrived else []),
        *((name, *(f"{one.parameters[name]:.6g}" for one in fit.maxima)) for name in fit.names),
    ]
