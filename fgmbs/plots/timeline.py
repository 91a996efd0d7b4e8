"""Long motions and several recordings on one axis of time."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

_BINS = 2000
"""Parts of a long line of which the lowest and the highest value are drawn: more than a figure has pixels."""
_GAP = 0.02
"""Between recordings, relative to the length of all."""


class Timeline:
    """Times as they are shown: recordings one behind the other, with a gap between them."""

    def __init__(self, dataset: "xr.Dataset"):
        t, number = dataset.t.values, dataset.recording.values
        numbers = np.unique(number)
        first = np.array([t[number == k].min() for k in numbers])
        length = np.array([np.ptp(t[number == k]) for k in numbers])
        behind = np.concatenate([[0.0], np.cumsum(length + _GAP * length.sum())[:-1]])
        self.borders = behind[1:] - _GAP / 2 * length.sum()
        # One recording keeps its own times.
        self.shift = behind - first if len(numbers) > 1 else np.zeros(1)
        self.label = "time [s]" if len(numbers) == 1 else "time [s], recordings one behind the other"

    def shown(self, t: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Where times of recordings stand on the axis."""
        return t + self.shift[number]


def broken(t: np.ndarray, values: np.ndarray, breaks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and values with a gap before each of these samples."""
    places = np.flatnonzero(breaks)
    return np.insert(t, places, t[places]), np.insert(values, places, np.nan, axis=0)


def thinned(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A line that looks the same with fewer points: the lowest and highest of each part, and its gaps."""
    if len(y) <= 2 * _BINS:
        return t, y
    kept = _outline(y)
    return t[kept], y[kept]


def thinned_dots(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fewer dots, evenly taken so that they are as dense where there are many, and with those at the edge."""
    if len(y) <= 4 * _BINS:
        return t, y
    kept = np.union1d(_outline(y), np.arange(0, len(y), -(-len(y) // (4 * _BINS))))
    return t[kept], y[kept]


def thinned_band(t: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A band that covers the same with fewer points."""
    if len(t) <= 2 * _BINS:
        return t, low, high
    gap = np.isnan(_parts(low)).any(axis=1)
    return (
        _parts(t)[:, 0],
        np.where(gap, np.nan, _parts(low).min(axis=1)),
        np.where(gap, np.nan, _parts(high).max(axis=1)),
    )


def _outline(y: np.ndarray) -> np.ndarray:
    """Places of the lowest and highest value and of the first gap of each part."""
    parts = _parts(y)
    gap = np.isnan(parts)
    rows = np.arange(len(parts)) * parts.shape[1]
    low, high = (np.argmin(np.where(gap, np.inf, sign * parts), axis=1) for sign in (1, -1))
    kept = np.concatenate([rows + low, rows + high, rows + np.argmax(gap, axis=1)])
    return np.unique(np.minimum(kept, len(y) - 1))


def _parts(values: np.ndarray) -> np.ndarray:
    """Values in rows of equal length, the last one filled up with the last value."""
    width = -(-len(values) // _BINS)
    return np.pad(values, (0, -len(values) % width), mode="edge").reshape(-1, width)
