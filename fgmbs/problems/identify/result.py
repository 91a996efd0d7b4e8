"""What an identification answers: parameters, how sure they are, the mechanism with them, and what was missing."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy import linalg, special

from fgmbs.arguments import of_type
from fgmbs.errors import SolveError
from fgmbs.graph.model import rebuilt
from fgmbs.inputs import AbstractInput
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.identify.free import Parts
from fgmbs.problems.identify.free_runs.validation import FreeRun, free_run
from fgmbs.problems.identify.identifiability import (
    Identifiability,
    covariance_of,
    covariance_with_priors,
    identifiability,
    known_alone,
    quantile,
    rounding_of,
)
from fgmbs.problems.identify.likeliest import End, Maximum, maxima
from fgmbs.problems.identify.profile import Profile, profile
from fgmbs.problems.identify.realizable import ROUNDING, margin_slopes, margins_of
from fgmbs.problems.identify.report import identification_report, identification_warnings
from fgmbs.problems.smooth.smoothed_motion import Group, SmoothedMotion
from fgmbs.sensors.base import AbstractSensor
from fgmbs.status import Status
from fgmbs.unknowns import Free

if TYPE_CHECKING:
    from fgmbs.problems.smooth.problem import SmoothingProblem
    from fgmbs.signals.recordings.recording import Recording

_NOT_KNOWN = 1e-3
"""Standard deviation, as a share of that of the prior that stands for knowing nothing, of what is not known."""


_NONE = 1e-3
"""Degrees of freedom that are none."""
_CHANCE = 1e-3
"""Probability of a χ² below which the noise model is called wrong."""
_ZERO = 1e-3
"""Share of its standard deviation below which a number is as good as zero."""


@dataclasses.dataclass(frozen=True, eq=False)
class Identification:
    """Parameters found from recordings.

    Parameters are named as in `free`; those with several numbers have an entry for each, as "viscous[1]". Standard
    deviations and covariance are those of the parameters themselves; of one that is found by its logarithm, intervals
    are those of the logarithm, and so never below zero.
    """

    mechanism: AbstractMechanism
    """With the parameters that were found; of those that each recording has of its own, those of the first."""
    sensors: tuple[AbstractSensor, ...]
    """With the numbers that were found, calibration and noise."""
    inputs: tuple[AbstractInput, ...]
    """The same of the forces."""
    states: SmoothedMotion | None
    """The motion that was found together with them; None of the method "prediction"."""
    status: Status
    iterations: int
    cost_history: Float[np.ndarray, " iterations"]
    notes: tuple[str, ...]
    method: str
    recordings: tuple["Recording", ...]
    free: Free
    """θ, with the priors that were given."""
    theta: Float[np.ndarray, " p"]
    """θ where it ended: logarithms of parameters found by them."""
    information: Float[np.ndarray, "p p"]
    """Inverse of the covariance of θ, priors included."""
    wide: Float[np.ndarray, " p"]
    """Standard deviations of the priors that were used: wide ones where none was given."""
    influence: Float[np.ndarray, " p"]
    """Change of all residuals by each of θ, the motion being held."""
    log_likelihood: float
    """Of the readings: of "smoother" motion and parameters integrated out, of "prediction" at what was found."""
    groups: tuple[Group, ...]
    """Residuals of every sensor and of every unknown force, against what the noise model expects of them."""
    fitted: int
    """Numbers that were fitted: parameters, sizes of noise, of "prediction" first states."""
    problem: "SmoothingProblem" = dataclasses.field(repr=False)
    """The recordings and what they are explained by, with the wide priors that were used."""
    solved: tuple[Any, Any] = dataclasses.field(repr=False)
    """What was solved, and where it ended."""
    degrees_of_freedom: Float[np.ndarray, " p"] = dataclasses.field(repr=False)
    """Of each of θ: those of Student's distribution that its intervals are of; infinite unless sizes of noise were
    found, of which its variance depends (Satterthwaite)."""
    bend: Float[np.ndarray, "p p"] = dataclasses.field(repr=False)
    """Added to `information` where θ was led far: negative where sizes of noise that were found with it may explain the
    same; NaN where how its likelihood is bent was not found."""
    unsettled: str = ""
    """Why the parameters are not the most likely ones by themselves, of "smoother"; empty if they are."""
    ends: tuple[End, ...] = dataclasses.field(default=(), repr=False)
    """Where each start led, see `maxima`."""
    left_out: tuple[int, ...] = ()
    """Numbers of recordings of which nothing was used."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of θ."""
        return self.free.number_names

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name [SI]."""
        return dict(zip(self.names, self._values(self.theta).tolist(), strict=True))

    def _values(self, theta: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        return np.asarray(self.free.values(jnp.asarray(theta)))

    @property
    def _deviations(self) -> Float[np.ndarray, " p"]:
        """Standard deviations of θ."""
        return np.sqrt(np.maximum(np.diag(self.covariance_theta), 0.0))

    @property
    def at_bound(self) -> dict[str, bool]:
        """Which parameters are as small or as large as they may be."""
        held = (self.theta <= np.asarray(self.free.lower)) | (self.theta >= np.asarray(self.free.upper))
        return dict(zip(self.names, held.tolist(), strict=True))

    @property
    def _open(self) -> Bool[np.ndarray, " p"]:
        """Which take part in a combination that the data leave open."""
        none = np.zeros(self.theta.shape)
        told = identifiability(self.names, self.information, self.wide, self.influence, none, none > 0, none)
        return np.isin(self.names, [name for one in told.combinations for name in one.parts])

    @property
    def undetermined(self) -> dict[str, bool]:
        """Which parameters are known neither from the data nor by priors: they take part in a combination that is open,
        or no reading depends on them."""
        none = ~np.isfinite(np.asarray(self.free.sigma)) & (self._deviations > _NOT_KNOWN * self.wide)
        return dict(zip(self.names, none.tolist(), strict=True))

    @property
    def at_limit(self) -> dict[str, bool]:
        """Which inertias of bodies are at the limit of what a body can have, by the names of `mechanism.margins`."""
        values, size = margins_of(self.free, self.mechanism, self.theta)
        return dict(zip(self.free.limited, (values <= ROUNDING * size).tolist(), strict=True))

    @property
    def covariance_theta(self) -> Float[np.ndarray, "p p"]:
        """Covariance of θ; parameters at a bound are taken as known there, as they do not move, and of those at the
        limit of what a body can be the combination that would go beyond it. Combinations that the data leave open are
        known as well as by the priors, which are as good as none where none was given. NaN where the solve ended at
        what is not finite, as `status` says."""
        return self._covariance_by(self._bent)

    @property
    def _bent(self) -> Float[np.ndarray, "p p"]:
        return self.information + np.where(np.all(np.isfinite(self.bend)), self.bend, 0.0)

    def _covariance_by(self, information: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
        if not np.all(np.isfinite(information)):
            return np.full_like(information, np.nan)
        # Where only a combination can be told, one of it drifts to a bound, which tells nothing of the others.
        held = np.asarray(list(self.at_bound.values()), bool) & ~self._open
        covariance = np.zeros_like(information)
        rest = np.flatnonzero(~held)
        unit = known_alone(self.wide, self.influence)[rest]
        limit = np.asarray(list(self.at_limit.values()), bool)
        slopes = margin_slopes(self.free, self.mechanism, self.theta)[np.ix_(limit, rest)] * unit
        along = linalg.null_space(slopes) if len(slopes) else np.eye(len(rest))
        whole = unit[:, None] * information[np.ix_(rest, rest)] * unit
        prior = np.diag((unit / self.wide[rest]) ** 2)
        parts = along.T @ (whole - prior) @ along, along.T @ prior @ along
        rounding = np.max(rounding_of(np.diag(whole)), initial=0.0)
        found = along @ covariance_with_priors(*parts, rounding) @ along.T
        covariance[np.ix_(rest, rest)] = unit[:, None] * found * unit
        return covariance

    @property
    def widened(self) -> float:
        """How many times as large as by the information alone standard deviations are, at most."""
        known = np.sqrt(np.diag(self._covariance_by(self.information)))
        return float(np.max(self._deviations / np.where(known > 0, known, np.inf), initial=1.0))

    @property
    def covariance(self) -> Float[np.ndarray, "p p"]:
        """Covariance of the parameters, in the order of `names`, by linearization."""
        slope = np.where(self.free.logs, self._values(self.theta), 1.0)
        return slope[:, None] * self.covariance_theta * slope

    @property
    def std(self) -> dict[str, float]:
        """Standard deviations of the parameters; 0 of one at a bound. Of those that take part in a combination that
        the data leave open they are as large as if nothing were known, unless a prior was given."""
        return dict(zip(self.names, np.sqrt(np.maximum(np.diag(self.covariance), 0.0)).tolist(), strict=True))

    @property
    def correlation(self) -> Float[np.ndarray, "p p"]:
        """Correlations of the parameters; 0 of those at a bound."""
        std = self._deviations
        return self.covariance_theta / np.where(np.outer(std, std) > 0, np.outer(std, std), 1.0)

    @property
    def profiled_log_likelihood(self) -> float:
        """Logarithm of the density of the readings at the parameters that were found; of "smoother" the motion is
        integrated out, of "prediction" it is that from the best first states."""
        if self.method == "prediction":
            return self.log_likelihood
        # By Laplace's method parameters were integrated out with their priors, wide ones included.
        far = (self.theta - np.asarray(self.free.value)) / self.wide
        prior = float(np.sum(-0.5 * far**2 - np.log(self.wide))) - 0.5 * np.log(2 * np.pi) * far.size
        unit = 1 / self.wide
        volume = np.linalg.slogdet(self.information / np.outer(unit, unit))[1] + 2 * float(np.sum(np.log(unit)))
        return self.log_likelihood + 0.5 * float(volume) - 0.5 * np.log(2 * np.pi) * far.size - prior

    @property
    def reduced_chi2(self) -> dict[str, float]:
        """χ² over its degrees of freedom, by sensor and unknown force: 1 where the noise is as large as was said; nan
        where there are none. Degrees of freedom are residuals less their leverages, of free runs less a share of what
        was fitted that is the same for all."""
        return {group.name: group.chi2 / group.dof if group.dof > _NONE else np.nan for group in self.groups}

    @property
    def overall_reduced_chi2(self) -> float:
        """The same of all residuals together."""
        chi2, dof = (sum(getattr(group, key) for group in self.groups) for key in ("chi2", "dof"))
        return chi2 / dof if dof > 0 else np.nan

    @property
    def contradicted(self) -> tuple[Group, ...]:
        """Groups of residuals that are larger or smaller than their noise was said to be, beyond chance."""
        return tuple(group for group in self.groups if not group.found and group.dof >= 1 and group.p_value < _CHANCE)

    @property
    def scale(self) -> float:
        """Factor by which `intervals(scaled=True)` are wider: √(reduced χ²) of all residuals where that is more than 1
        beyond chance, else 1."""
        chi2, dof = (sum(getattr(group, key) for group in self.groups) for key in ("chi2", "dof"))
        return float(np.sqrt(chi2 / dof)) if dof > 0 and chi2 > dof and special.chdtrc(dof, chi2) < _CHANCE else 1.0

    def intervals(self, level: float = 0.95, *, scaled: bool = False) -> dict[str, tuple[float, float]]:
        """Intervals that hold each parameter with this probability, within its bounds.

        Where sizes of noise were found from the data they are those of Student's distribution: how little the data tell
        of the sizes makes them wider.

        Args:
            level: The probability.
            scaled: Make them wider by `scale`, where the residuals are larger than the noise model says: as if all
                noise were so much larger.

        Raises:
            ArgumentError: The level is not between 0 and 1.
        """
        z = quantile(level, self.degrees_of_freedom)
        of_type("scaled", scaled, bool, "True or False")
        std = self._deviations * (self.scale if scaled else 1.0)
        low, high = (
            self._values(np.clip(self.theta + side * z * std, self.free.lower, self.free.upper)) for side in (-1, 1)
        )
        return {name: (float(a), float(b)) for name, a, b in zip(self.names, low, high, strict=True)}

    @property
    def deviation_unbounded(self) -> Float[np.ndarray, " p"]:
        """Standard deviations of θ as if no bound or limit was reached; NaN as in `covariance_theta`."""
        if not np.all(np.isfinite(self._bent)):
            return np.full_like(self.theta, np.nan)
        return np.sqrt(np.maximum(np.diag(covariance_of(self._bent)), 0.0))

    def profile(self, name: str, values: Sequence[float] | None = None) -> Profile:
        """The profile likelihood of a parameter: all others and the motion are found anew with each of its values, and
        where parameters were led far sizes of noise, too.

        Where the likelihood is not normal, at bounds and for what is weakly told, its interval is the one to trust.
        The first profile compiles one program, which serves all values and parameters.

        Args:
            name: One of `names`.
            values: Of the parameter [SI]; by default 13 within three standard deviations, and within its bounds.

        Raises:
            ArgumentError: There is no such parameter, or a value is beyond its bounds.
        """
        return profile(self, name, values)

    def identifiability(self) -> Identifiability:
        """What the data, without priors, say of the parameters, and which combinations they cannot separate."""
        held = np.asarray(list(self.at_bound.values()), bool)
        std = self._deviations
        value = np.where(self.free.logs, 1.0, np.where(np.abs(self.theta) > _ZERO * std, self.theta, 0.0))
        relative = std / np.abs(np.where(value == 0, np.inf, value))
        # Of a number that may as well be zero, as a bias, nothing is said by how large it is.
        relative = np.where(~self.free.logs & (np.asarray(self.free.value) == 0), 0.0, relative)
        return identifiability(self.names, self.information, self.wide, self.influence, relative, held, value)

    @property
    def maxima(self) -> tuple[Maximum, ...]:
        """Where the starts led, this first, then the likeliest; empty where nothing was found."""
        there = [end for end in self.ends if np.isfinite(end.likelihood)]
        if not there:
            return ()
        wide, center = self.wide, np.asarray(self.free.value)
        # Priors, wide ones included, are not of the readings.
        priors = lambda theta: 0.5 * np.sum(((theta - center) / wide) ** 2) + np.sum(np.log(wide))
        ends = (end._replace(likelihood=end.likelihood + priors(end.theta)) for end in there)
        named = lambda theta: dict(zip(self.names, self._values(theta).tolist(), strict=True))
        return tuple(maxima(ends, self.theta, self.deviation_unbounded, named))

    def warnings(self) -> tuple[str, ...]:
        """Everything of the parameters, and of the motion that was found with them, that does not fit, or that the data
        do not tell; empty if there is nothing. The report has the same."""
        return identification_warnings(self)

    def free_run(self, recording: "Recording", **options: Any) -> FreeRun:
        """A free run of what was found beside a recording, one that was used or another; see `fgmbs.free_run`.

        Numbers that each recording has of its own are those of the recording; of one that was not used they are found
        together with its first state, from the mean of the others.

        Args:
            recording: What was recorded.
            options: Of `free_run`: `start`, `start_velocities`, `fit_start`, `dt`, `horizons`.

        Raises:
            ArgumentError: An argument is invalid, or the recording lacks a signal.
        """
        mechanism, sensors, inputs = self._parts_for(recording)
        return free_run(mechanism, recording, sensors, inputs, **options)

    def _parts_for(self, recording: "Recording") -> Parts:
        """What was found, with the numbers that this recording has of its own; `Unknown` if it was not used."""
        free = self.free
        if not any(place.own for place in free.places):
            return Parts(self.mechanism, self.sensors, self.inputs)
        rows = [k for k in range(len(self.recordings) + len(self.left_out)) if k not in self.left_out]
        row = next((k for k, one in zip(rows, self.recordings, strict=True) if one is recording), None)
        without = self.problem.replaced.put(self.problem.mechanism)
        model = without, {part.name: part for part in (*self.sensors, *self.inputs)}
        mechanism, shared = rebuilt(free.of(row or 0), model, jnp.asarray(self.theta))
        mechanism = mechanism.bare()
        if row is None:
            mechanism, shared = free.another(jnp.asarray(self.theta), jnp.asarray(self.wide), rows).put_back(
                (mechanism, shared)
            )
        return Parts(mechanism, *(tuple(shared[part.name] for part in parts) for parts in (self.sensors, self.inputs)))

    def check(self) -> None:
        """Raises if the solve failed.

        Raises:
            SolveError: How it ended, with this result.
        """
        if self.status != Status.converged:
            raise SolveError(
                f"identification: {Status[self.status]}, after {self.iterations} iterations; the error's `result` "
                "holds the best there was; try bounds or priors for the parameters that its identifiability() names",
                self,
            )

    def report(self) -> str:
        """Parameters with intervals, what the data cannot say, residuals and warnings, in words and numbers."""
        return identification_report(self)
