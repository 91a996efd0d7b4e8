"""When a signal was sampled."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_DIGITS = 9
"""Decimal places of times that are looked at."""
_SHORT = 7
"""Digits of a short number."""
_OFF = 0.01
"""How far the last time may be from where a short interval puts it, in intervals."""
_EXACT = 4 * np.finfo(float).eps
"""Relative error of a number that was computed in a few steps."""


class Timing(NamedTuple):
    """How regularly a signal was sampled."""

    interval: float
    """Between samples, where none is missing [s]."""
    rounding: float
    """How far a time may be off because it was rounded: half of its last decimal place [s]."""
    jitter: float
    """Standard deviation of times around regular ones, by how it changes from one interval to the next [s]."""
    gaps: tuple[tuple[float, float], ...]
    """(last time before, first time after) each place where samples are missing [s]."""

    @property
    def is_irregular(self) -> bool:
        """Whether there is more than rounding."""
        return bool(self.jitter > 2 * self.rounding)

    def __str__(self) -> str:
        text = f"{1 / self.interval:.6g} Hz"
        if self.is_irregular:
            text += f", times irregular by {self.jitter:.2g} s"
        if self.gaps:
            longest = max(stop - start for start, stop in self.gaps)
            text += f", {len(self.gaps)} gap{'s' * (len(self.gaps) > 1)} of up to {longest:.3g} s"
        return text


def timing(t: Float[np.ndarray, " samples"]) -> Timing | None:
    """How regular increasing times are; None of fewer than two.

    The interval is that of the whole number of samples in the time there is, so that it is right at any rate, whether
    times are exact or rounded; a short decimal, or the reciprocal of one, where that says the same.
    """
    if len(t) < 2:
        return None
    steps = np.diff(t)
    missing = np.maximum(np.round(steps / np.median(steps)), 1.0)
    k = np.concatenate([[0.0], np.cumsum(missing)])
    middle = k - k.mean()
    interval = float(middle @ (t - t.mean()) / (middle @ middle))
    rounding = _rounding(t)
    # Of times that are off by σ, independently, intervals are off by √2 σ; where samples are missing one does not know.
    off = (steps - interval * missing)[missing == 1]
    jitter = float(np.std(off) / np.sqrt(2)) if off.size else 0.0
    slack = min(max(2 * rounding, jitter), _OFF * interval) / k[-1]
    texts = ((f"{1 / interval:.{digits}g}", f"{interval:.{digits}g}") for digits in range(1, _SHORT + 1))
    shorter = (dt for rate, same in texts for dt in (1 / float(rate), float(same)))
    interval = next((dt for dt in shorter if abs(dt - interval) <= slack), interval)
    gaps = tuple((float(t[i]), float(t[i + 1])) for i in np.flatnonzero(missing > 1))
    return Timing(interval, rounding, jitter, gaps)


def _rounding(t: Float[np.ndarray, " samples"]) -> float:
    size = float(np.max(np.abs(t)))
    for digits in range(_DIGITS + 1):
        unit = 10.0**-digits
        if _EXACT * size > 0.01 * unit:
            break
        if np.all(np.abs(t - np.round(t, digits)) <= _EXACT * size):
            return unit / 2
    return _EXACT * size
