"""Several models of the same recordings, in one table: likelihood, information criteria, what they foretell."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgmbs.arguments import by_name, of_type
from fgmbs.errors import ArgumentError
from fgmbs.problems.identify.result import Identification
from fgmbs.results.report import Section, in_words
from fgmbs.signals.recordings.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclasses.dataclass(frozen=True)
class Compared:
    """One of the models."""

    name: str
    fitted: int
    """Numbers that were fitted."""
    log_likelihood: float
    """Of the readings at the parameters that were found, the motion of "smoother" integrated out."""
    aic: float
    """2 k − 2 log L: less is better …"""
    bic: float
    """… and k log n − 2 log L, which asks more of further numbers."""
    evidence: float | None
    """Logarithm of the density of the readings, parameters integrated out with their priors; None where one has no
    prior, as it may be made as small as one likes then."""
    foretold: Mapping[str, float]
    """Normalized root mean square error of free runs on the recordings that were held back, by sensor."""

    @property
    def error(self) -> float:
        """Root mean square of these."""
        return float(np.sqrt(np.mean(np.square(list(self.foretold.values()))))) if self.foretold else np.nan


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Models of the same recordings, the best by BIC first."""

    models: tuple[Compared, ...]

    @property
    def best(self) -> dict[str, str]:
        """The best model by each criterion that was computed."""
        criteria = {"BIC": "bic", "AIC": "aic"}
        found = {
            key: min(self.models, key=lambda one, name=name: getattr(one, name)).name for key, name in criteria.items()
        }
        if all(one.evidence is not None for one in self.models):
            found["evidence"] = max(self.models, key=lambda one: one.evidence).name
        if all(np.isfinite(one.error) for one in self.models):
            found["free runs"] = min(self.models, key=lambda one: one.error).name
        return found

    def report(self) -> str:
        """The table, and in words which is the best."""
        least = min(one.bic for one in self.models), min(one.aic for one in self.models)
        rows = [
            (
                one.name,
                str(one.fitted),
                f"{one.log_likelihood:.2f}",
                f"{one.bic - least[0]:.2f}",
                f"{one.aic - least[1]:.2f}",
                "" if one.evidence is None else f"{one.evidence:.2f}",
                f"{one.error:.4f}" if one.foretold else "",
            )
            for one in self.models
        ]
        titles = "model", "numbers", "log-likelihood", "ΔBIC", "ΔAIC", "evidence", "free runs"
        best = [(f"best by {criterion}: {name}",) for criterion, name in self.best.items()]
        return in_words([Section("Models", titles, rows), Section("In words", (), best)])


def compare_models(fits: Mapping[str, Identification], held_back: Recording | Sequence[Recording] = ()) -> Comparison:
    """Models that were identified from the same recordings, compared by likelihood, information criteria and by their
    free runs beside recordings that none of them has seen.

    Args:
        fits: What `identify` found, by the name of the model; of the same recordings, sensors and method.
        held_back: Recordings for the free runs.

    Raises:
        ArgumentError: Fewer than two models, models of different data, or a held-back recording that was used.
    """
    by_name("fits", fits, "results of fgmbs.identify by the name of the model")
    for name, fit in fits.items():
        of_type(f"fits[{name!r}]", fit, Identification, "what fgmbs.identify returns")
    if len(fits) < 2:
        raise ArgumentError(f"fits: expected at least two models; found {len(fits)}")
    held = (held_back,) if isinstance(held_back, Recording) else tuple(held_back)
    (first, one), *rest = fits.items()
    for name, other in rest:
        for what, mine, theirs in (
            ("method", one.method, other.method),
            ("recordings", [r.source for r in one.recordings], [r.source for r in other.recordings]),
            ("readings", _readings(one), _readings(other)),
        ):
            if mine != theirs:
                raise ArgumentError(
                    f"fits: expected models of the same {what}; {first!r} has {mine}, {name!r} {theirs}"
                )
    for recording in held:
        of_type("held_back", recording, Recording, "recordings")
        if any(recording is used for fit in fits.values() for used in fit.recordings):
            raise ArgumentError(
                f"held_back: expected recordings that no model was found from; found {recording.source}"
            )
    models = [_compared(name, fit, held) for name, fit in fits.items()]
    return Comparison(tuple(sorted(models, key=lambda one: one.bic)))


def _readings(fit: Identification) -> int:
    return sum(group.count for group in fit.groups if group.kind == "sensor")


def _compared(name: str, fit: Identification, held: "Iterable[Recording]") -> Compared:
    log_likelihood, k, n = fit.profiled_log_likelihood, fit.fitted, _readings(fit)
    priors = bool(np.all(np.isfinite(np.asarray(fit.free.sigma)))) and fit.method == "smoother"
    errors: dict[str, list[float]] = {}
    for recording in held:
        for sensor in fit.free_run(recording).sensors:
            errors.setdefault(sensor.name, []).append(float(np.nanmean((1 - sensor.fit / 100) ** 2)))
    return Compared(
        name,
        k,
        log_likelihood,
        2 * k - 2 * log_likelihood,
        k * float(np.log(n)) - 2 * log_likelihood,
        fit.log_likelihood if priors else None,
        {sensor: float(np.sqrt(np.mean(parts))) for sensor, parts in errors.items()},
    )
