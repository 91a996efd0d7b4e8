"""What a designed experiment promises, in words and numbers."""

import numpy as np

from fgmbs.problems.design.result import ExcitationDesign
from fgmbs.results.estimates import Section, in_words


def design_report(design: ExcitationDesign) -> str:
    """Standard deviations before and after, distances to the limits and warnings."""
    worst = design.random_worst
    overview = [
        ("worst standard deviation", f"{100 * design.worst:.3g} % of its value"),
        (f"of {len(worst)} random signals", f"best {100 * np.min(worst):.3g} %, median {100 * np.median(worst):.3g} %"),
        ("log det", f"{design.log_det:.4g}; of the best random signal {design.random_log_det[0]:.4g}"),
    ]
    parts = [
        Section("Design", ("", ""), overview),
        Section("Parameters", ("parameter", "value", "±", "± before", "", "kind"), _parameters(design)),
        Section("Limits", ("name", "kind", "from", "to", "lower", "upper", "margin"), _limits(design)),
        Section("Warnings", (), [(text,) for text in design.warnings()]),
    ]
    return in_words([part for part in parts if part.rows])


def _parameters(design: ExcitationDesign) -> list[tuple[str, ...]]:
    rows, before = [], design.std_before
    for name, std in design.std.items():
        value = design.values[name]
        relative = f"{100 * std / abs(value):.3g} %" if value != 0 else ""
        role = "wanted" if name in design.wanted else "found along with them"
        rows.append((name, f"{value:.6g}", f"{std:.2g}", f"{before[name]:.2g}", relative, role))
    return rows


def _limits(design: ExcitationDesign) -> list[tuple[str, ...]]:
    return [
        (one.name, one.kind, *(f"{x:.4g}" for x in (one.least, one.largest, one.lower, one.upper, one.margin)))
        for one in design.margins
    ]
