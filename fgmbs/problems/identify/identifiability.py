"""What recordings say of parameters, and what they cannot: rank, combinations, what would tell them apart."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Bool, Float
from scipy import special

from fgmbs.errors import ArgumentError
from fgmbs.kinematics.names import listed
from fgmbs.unknowns import Free

_NOTHING = 1e-10
"""Eigenvalue of the information of the data, relative to the largest, below which a combination is not told at all; and
share of what is known of a number along a known motion, below which it is not."""
_PART = 0.05
"""Least part of a combination that is named, relative to its largest."""
_SHOWN = 0.1
"""Largest relative change of a combination as it is shown."""
_WEAK = 0.5
"""Standard deviation of a parameter relative to its value from which on it is called badly determined."""
TRADED = 1.5
"""How many times larger standard deviations are warned of, as sizes of noise may explain the same."""


@dataclasses.dataclass(frozen=True)
class Combination:
    """A direction in which parameters may change together without any reading noticing."""

    parts: dict[str, float]
    """Change of each parameter in it, relative to its value, the largest being 1."""
    separated_by: tuple[str, ...]
    """Parameters of which one has to be known for the others to be found."""
    zero: tuple[str, ...] = ()
    """Parameters whose value is zero: their change is relative to 1."""

    def __str__(self) -> str:
        changes = (
            (name, f"{_SHOWN * part:+.2g}" if name in self.zero else f"{100 * _SHOWN * part:+.2g} %")
            for name, part in self.parts.items()
        )
        return " with ".join(f"{change} {name}" for name, change in changes)


@dataclasses.dataclass(frozen=True)
class Identifiability:
    """What the data, without priors, say of the parameters."""

    names: tuple[str, ...]
    rank: int
    """Combinations of parameters that the data determine."""
    without_influence: tuple[str, ...]
    """Parameters on which no reading depends, or only as on the motion: another one does the same."""
    combinations: tuple[Combination, ...]
    """Combinations that the data cannot separate."""
    badly_determined: tuple[str, ...]
    """Parameters whose standard deviation is more than half of their value."""
    condition: float
    """Ratio of the largest to the smallest singular value of what is determined, parameters in units of what each
    would be known to alone."""

    @property
    def determined(self) -> tuple[str, ...]:
        """Parameters that take part in no combination that is left open."""
        open_ = {name for one in self.combinations for name in one.parts} | set(self.without_influence)
        return tuple(name for name in self.names if name not in open_)

    def __str__(self) -> str:
        lines = [f"{self.rank} of {len(self.names)} combinations of parameters are determined by the data"]
        if self.without_influence:
            blind = listed(self.without_influence)
            lines.append(f"- no reading depends on {blind}, or another motion changes it in the same way")
        for one in self.combinations:
            lines.append(
                f"- {listed(one.parts)} cannot be separated: the change {one} is not seen in any reading; give the "
                f"value of {' or '.join(one.separated_by)}, or a sensor or a motion that tells"
            )
        if self.badly_determined:
            lines.append(f"- badly determined, to worse than half of their value: {listed(self.badly_determined)}")
        if len(lines) == 1:
            lines.append(f"- condition {self.condition:.3g}")
        return "\n".join(lines)


def identifiability(
    names: Sequence[str],
    information: Float[np.ndarray, "p p"],
    prior: Float[np.ndarray, " p"],
    influence: Float[np.ndarray, " p"],
    relative: Float[np.ndarray, " p"],
    at_bound: Bool[np.ndarray, " p"],
    values: Float[np.ndarray, " p"],
) -> Identifiability:
    """What the data say of parameters.

    Args:
        names: Of the numbers of θ.
        information: Of θ, priors included.
        prior: Standard deviations of the priors of θ, infinite ones included.
        influence: Change of all residuals by each of θ, the motion being held.
        relative: Standard deviation of each parameter relative to its value.
        at_bound: Which are as small or as large as they may be.
        values: What a change of each of θ is relative to: its value, 1 for a logarithm.
    """
    data = information - np.diag(1 / prior**2)
    if not np.all(np.isfinite(data)):  # nothing is told where the solve was lost
        data, influence = np.zeros_like(data), np.zeros_like(influence)
    blind = ~(influence * np.where(np.isfinite(prior), prior, np.inf) > 1e-6) | ~(influence > 0)
    # Of what a number changes in the readings, the motion leaves so much.
    blind |= ~(np.diag(data) > _NOTHING * influence**2)
    told = np.flatnonzero(~blind)
    data = data[np.ix_(told, told)]
    unit = influence[told]
    strengths, directions = (
        np.linalg.eigh(data / np.outer(unit, unit)) if told.size else (np.zeros(0), np.zeros((0, 0)))
    )
    largest = float(strengths[-1]) if strengths.size else 1.0
    # A narrow prior leaves rounding to its own number alone.
    lost = _lost(strengths, directions.T**2 @ rounding_of(np.abs(np.diag(information)[told]) / unit**2))
    combinations = []
    for direction in _sparse(directions[:, lost]):
        change = direction / unit  # in θ
        noticed = np.abs(change) * np.sqrt(np.abs(np.diag(data)))  # by deviations that each would have alone
        takes_part = np.flatnonzero(noticed > _PART * np.max(noticed))
        which, change = told[takes_part], change[takes_part]
        if len(which) == 1:
            blind[which] = True
            continue
        change = change / np.where(values[which] == 0, 1.0, np.abs(values[which]))
        change = change / change[np.argmax(np.abs(change))]
        part_names = tuple(names[k] for k in which)
        zero = tuple(names[k] for k in which if values[k] == 0)
        combinations.append(Combination(dict(zip(part_names, change.tolist(), strict=True)), part_names, zero))
    determined = strengths[~lost]
    weak = (relative > _WEAK) & ~blind & ~at_bound
    open_ = {name for one in combinations for name in one.parts}
    return Identifiability(
        tuple(names),
        int(determined.size),
        tuple(names[k] for k in np.flatnonzero(blind)),
        tuple(combinations),
        tuple(names[k] for k in np.flatnonzero(weak) if names[k] not in open_),
        float(np.sqrt(largest / determined[0])) if determined.size else np.inf,
    )


def covariance_of(information: Float[Array | np.ndarray, "p p"], xp: Any = np) -> Float[Array | np.ndarray, "p p"]:
    """The inverse of an information, in units in which its diagonal is 1; that of the part that is told.

    Args:
        information: Of θ.
        xp: NumPy; in compiled functions jax.numpy.
    """
    unit = 1 / xp.sqrt(xp.maximum(xp.diag(information), np.finfo(float).tiny))
    return unit[:, None] * xp.linalg.pinv(unit[:, None] * information * unit, rcond=1e-15, hermitian=True) * unit


def known_alone(prior: Float[np.ndarray, " p"], influence: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
    """Standard deviations of numbers if all others and the motion were known; of what is not read those of priors."""
    return np.minimum(1 / np.maximum(influence, np.finfo(float).tiny), prior)


def covariance_with_priors(
    data: Float[np.ndarray, "p p"], prior: Float[np.ndarray, "p p"], rounding: float = 0.0
) -> Float[np.ndarray, "p p"]:
    """The inverse of data + prior, where the data leave combinations open to which wide priors give hardly anything.

    Their sum has lost these priors to rounding: by its inverse, or a generalized one, combinations that are not told
    at all would look as if they were known well.

    Args:
        data: Information of the data, in units in which its diagonal is about 1.
        prior: That of the priors.
        rounding: Of the information of the data.
    """
    values, directions = np.linalg.eigh(data)
    lost = _lost(values, rounding)
    told, open_ = directions[:, ~lost], directions[:, lost]
    inverse = np.linalg.inv(np.diag(values[~lost]) + told.T @ prior @ told)
    across = inverse @ told.T @ prior @ open_
    rest = np.linalg.inv(open_.T @ prior @ open_ - open_.T @ prior @ told @ across)
    moved = open_ - told @ across
    return told @ inverse @ told.T + moved @ rest @ moved.T


def _lost(values: Float[np.ndarray, " p"], rounding: float | Float[np.ndarray, " p"]) -> Bool[np.ndarray, " p"]:
    """Which eigenvalues of the information of the data are none."""
    return values < np.maximum(_NOTHING * float(np.max(values, initial=0.0)), rounding)


def rounding_of(diagonal: Float[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
    """What rounding leaves of an information of the data that is a difference from one with this diagonal."""
    return 1e3 * np.finfo(float).eps * diagonal


def _sparse(directions: Float[np.ndarray, "p k"]) -> list[np.ndarray]:
    """Vectors that span the same, each with as many zeros as elimination gives: combinations of few parameters."""
    rows = directions.T.copy()
    free = list(range(rows.shape[0]))
    done = []
    while free:
        block = np.abs(rows[free])
        row, column = np.unravel_index(np.argmax(block), block.shape)
        pivot = free.pop(int(row))
        rows[pivot] /= rows[pivot, column]
        for other in range(rows.shape[0]):
            if other != pivot:
                rows[other] -= rows[other, column] * rows[pivot]
        done.append(pivot)
    return [rows[k] for k in sorted(done)]


def quantile(
    level: float, degrees_of_freedom: float | Float[np.ndarray, " p"] = np.inf
) -> float | Float[np.ndarray, " p"]:
    """How many standard deviations to both sides hold this probability, by Student's distribution.

    Raises:
        ArgumentError: The level is not between 0 and 1.
    """
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise ArgumentError(f"level: expected a probability between 0 and 1; found {level!r}")
    below, many = 0.5 + level / 2, np.isinf(degrees_of_freedom)
    return np.where(many, special.ndtri(below), special.stdtrit(np.where(many, 1.0, degrees_of_freedom), below))[()]


def traded(free: Free, theta: np.ndarray, information: np.ndarray, bend: np.ndarray) -> bool:
    """Whether sizes of noise may explain what θ does, so that there may be other maxima; also where it is not known.

    Args:
        free: The numbers that are looked for.
        theta: θ, as it was found.
        information: Of it there.
        bend: See `Identification.bend`.
    """
    rest = (theta > np.asarray(free.lower)) & (theta < np.asarray(free.upper))
    if not np.all(np.isfinite(bend)):
        return True
    variances = [np.diag(covariance_of(matrix[np.ix_(rest, rest)])) for matrix in (information, information + bend)]
    return bool(np.any(variances[1] > TRADED**2 * variances[0]))
