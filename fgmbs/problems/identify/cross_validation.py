"""Cross-validation: each recording is foretold by a model that was found from the others."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from fgmbs.arguments import of_type
from fgmbs.errors import ArgumentError
from fgmbs.problems.identify.free_runs.prediction import predict_best
from fgmbs.problems.identify.free_runs.segments import PredictionProblem
from fgmbs.problems.identify.free_runs.validation import FreeRun
from fgmbs.problems.identify.identify import identification, identification_of_free_runs
from fgmbs.problems.identify.result import Identification
from fgmbs.problems.identify.smoother import corrected, likeliest
from fgmbs.problems.smooth.beginning import begun_at
from fgmbs.problems.smooth.iteration import to_the_end
from fgmbs.problems.smooth.problem import SmoothingProblem
from fgmbs.results.report import Section, in_words

_ENOUGH = 1e-6
"""Decrease of the cost that ends a round: that of the fit itself, whose program this is."""


@dataclasses.dataclass(frozen=True, eq=False)
class Fold:
    """A recording that was left out."""

    recording: int
    """Its number."""
    source: str
    """Where it comes from."""
    fit: Identification
    """What was found from the others …"""
    run: FreeRun
    """… and what that foretells of it."""


@dataclasses.dataclass(frozen=True, eq=False)
class CrossValidation:
    """What models that were found without a recording foretell of it."""

    folds: tuple[Fold, ...]

    @property
    def parameters(self) -> dict[str, Float[np.ndarray, " folds"]]:
        """The parameters of every fold, by name; nan of a recording's own where it was left out."""
        return self._told(lambda fit: fit.parameters)

    def _told(self, numbers: Callable[[Identification], dict[str, float]]) -> dict[str, Float[np.ndarray, " folds"]]:
        owners = self.folds[0].fit.free.owners
        columns = [numbers(fold.fit) for fold in self.folds]
        own = [fold.recording for fold in self.folds]
        return {
            name: np.array([np.nan if owner == k else told[name] for k, told in zip(own, columns, strict=True)])
            for name, owner in owners.items()
        }

    @property
    def rms(self) -> dict[str, Float[np.ndarray, "folds rows"]]:
        """Root mean square error of the free run of every fold, by sensor, in its unit."""
        return self._of_sensors(lambda one: one.rms)

    @property
    def normalized(self) -> dict[str, Float[np.ndarray, "folds rows"]]:
        """The same over the standard deviation of what was recorded: 1 is no better than its mean."""
        return self._of_sensors(lambda one: 1 - one.fit / 100)

    def at(self, horizon: float) -> dict[str, Float[np.ndarray, "folds rows"]]:
        """Root mean square error of runs that begin anew after so many seconds.

        Raises:
            ArgumentError: This horizon was not asked for.
        """
        known = list(self.folds[0].run.sensors[0].horizons)
        if horizon not in known:
            raise ArgumentError(f"horizon: expected one of {known}, which were asked for; found {horizon!r}")
        return self._of_sensors(lambda one: one.horizons[horizon])

    def _of_sensors(self, number) -> dict[str, np.ndarray]:
        names = [one.name for one in self.folds[0].run.sensors]
        return {name: np.array([number(fold.run[name]) for fold in self.folds]) for name in names}

    def total(self) -> dict[str, float]:
        """Root mean square of the normalized errors of all folds and rows, by sensor; nan rows count nothing."""
        return {name: float(np.sqrt(np.nanmean(values**2))) for name, values in self.normalized.items()}

    def report(self) -> str:
        """Errors of every recording and how far the parameters scatter, in words and numbers."""
        horizons = list(self.folds[0].run.sensors[0].horizons)
        errors = []
        for fold in self.folds:
            for one in fold.run.sensors:
                normalized = 1 - np.asarray(one.fit) / 100
                for row, unit in enumerate(one.units):
                    anew = [f"{one.horizons[horizon][row]:.3g}" for horizon in horizons]
                    name = one.name if len(one.units) == 1 else f"{one.name}[{row}]"
                    errors.append((fold.source, name, f"{one.rms[row]:.3g}", unit, f"{normalized[row]:.3f}", *anew))
        titles = "left out", "sensor", "rms", "", "normalized", *(f"after {horizon:g} s" for horizon in horizons)
        scatter, stds = [], self._told(lambda fit: fit.std)
        for name, values in self.parameters.items():
            there = values[np.isfinite(values)]
            spread = f"{np.std(there, ddof=1):.2g}" if there.size > 1 else ""
            columns = (f"{value:.5g}" if np.isfinite(value) else "" for value in values)
            scatter.append((name, *columns, spread, f"{np.nanmean(stds[name]):.2g}"))
        without = [f"without {fold.recording}" for fold in self.folds]
        return in_words(
            [
                Section("Free runs of what was found from the other recordings", titles, errors),
                Section("Parameters", ("parameter", *without, "scatter", "±"), scatter),
            ]
        )


def cross_validate(fit: Identification, *, horizons: Sequence[float] = (), **options: Any) -> CrossValidation:
    """Leaves out one recording after the other, finds the parameters from the rest, and lets what was found run free
    beside the one that was left out.

    A recording that is left out loses its samples but keeps its place, so that no fold compiles a program for its fit.
    Each fit begins where that of all recordings ended.

    Args:
        fit: What `identify` found of several recordings.
        horizons: Also the errors of free runs that begin anew after so many seconds.
        options: Of `free_run`, besides: `fit_start`, `dt`.

    Raises:
        ArgumentError: A single recording, or an argument is invalid.
    """
    of_type("fit", fit, Identification, "what fgmbs.identify returns")
    count = len(fit.recordings)
    if count < 2:
        raise ArgumentError("fit: expected one of at least two recordings, so that one can be left out; found one")
    folds = []
    for k, recording in enumerate(fit.recordings):
        other = without(fit, (k,))
        folds.append(Fold(k, recording.source, other, other.free_run(recording, horizons=horizons, **options)))
    return CrossValidation(tuple(folds))


def without(fit: Identification, left_out: Sequence[int]) -> Identification:
    """The parameters from the other recordings, by the programs that found those of all.

    Args:
        fit: What was found of all.
        left_out: Numbers of the recordings that are not used.
    """
    used = [one for k, one in enumerate(fit.recordings) if k not in left_out]
    names = ", ".join(fit.recordings[k].source for k in left_out)
    notes = *fit.notes, f"left out: {names}"
    if fit.method == "smoother":
        problem, at = fit.problem, fit.solved[1]
        blind = _blind(problem, left_out)
        # Steps that only fill up are where the motion ended.
        which = jnp.asarray(list(left_out))
        ended = jnp.broadcast_to(at.behind[which][:, None], at.x.steps[which].shape)
        at = eqx.tree_at(lambda at: at.x.steps, at, at.x.steps.at[which, 1:].set(ended[:, 1:]))
        *_, at = to_the_end(blind, begun_at(blind, at), enough=_ENOUGH)
        tell = lambda *_: None
        found = identification(likeliest(blind, [corrected(blind, at, tell)], tell), fit.free, used, notes)
    else:
        prediction, x = fit.solved
        blind = _blind_runs(prediction, left_out)
        best = predict_best(blind, start=x)
        found = identification_of_free_runs(_blind(fit.problem, left_out), blind, best, fit.free, used, notes)
    return dataclasses.replace(found, left_out=tuple(left_out))


def _blind(problem: SmoothingProblem, left_out: Sequence[int]) -> SmoothingProblem:
    """The problem without samples of these recordings, of which one step is left."""
    which = jnp.asarray(list(left_out))
    channels = tuple(
        channel._replace(values=channel.values.at[which].set(jnp.nan)) for channel in problem.recording.channels
    )
    count = problem.recording.count.at[which].set(1)
    return problem.of(problem.recording._replace(channels=channels, count=count))


def _blind_runs(prediction: PredictionProblem, left_out: Sequence[int]) -> PredictionProblem:
    which = jnp.asarray(list(left_out))
    rows = prediction.segments.rows
    factors = tuple((series, weights.at[which].set(0.0)) for series, weights in rows.factors)
    where = lambda prediction: (prediction.segments.rows.factors, prediction.segments.whiteners)
    return eqx.tree_at(where, prediction, (factors, prediction.segments.whiteners.at[which].set(0.0)))
