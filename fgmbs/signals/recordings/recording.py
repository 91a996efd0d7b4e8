"""Recordings: named signals, each with its own times, in SI units."""

import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from fgmbs.arguments import Numbers, by_name, finite, finite_number, nearest, of_type, texts
from fgmbs.errors import ArgumentError
from fgmbs.signals.recordings.timing import Timing, timing
from fgmbs.signals.recordings.units import find_unit, unit_fault


@dataclasses.dataclass(frozen=True, eq=False)
class Signal:
    """Samples of one quantity.

    Raises:
        ArgumentError: Times and values are not finite numbers, one of each per sample, or times do not increase.
    """

    t: Float[np.ndarray, " samples"]
    """Times, which increase [s]."""
    values: Float[np.ndarray, " samples"]
    """Values in SI units."""
    unit: str = ""
    """The SI unit; empty where it is 1 or nobody said."""

    def __post_init__(self):
        for name in ("t", "values"):
            array = _floats(f"Signal: {name}", getattr(self, name))
            if array.ndim != 1 or not np.isfinite(array).all():
                raise ArgumentError(f"Signal: {name}: expected finite numbers in one row; found shape {array.shape}")
            object.__setattr__(self, name, _unchangeable(array))
        if len(self.t) != len(self.values):
            raise ArgumentError(f"Signal: values: expected {len(self.t)}, one for each time; found {len(self.values)}")
        for row, text in faults_of_times(self.t):
            raise ArgumentError(f"Signal: t[{row}]: {text}")

    def __len__(self) -> int:
        return len(self.t)

    def __repr__(self) -> str:
        size = f"{len(self)} sample{'s' * (len(self) != 1)}{f' [{self.unit}]' * bool(self.unit)}"
        if not len(self):
            return size
        when = timing(self.t)
        return f"{size} from {self.t[0]:.6g} to {self.t[-1]:.6g} s" + (f", {when}" if when else "")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """Signals that were recorded together; rates and times of them may differ."""

    signals: Mapping[str, Signal]
    source: str = ""
    """Where the signals come from."""
    notes: tuple[str, ...] = ()
    """What was dropped, converted and assumed on the way."""
    numbers: Mapping[str, Float[np.ndarray, "*shape"]] = dataclasses.field(default_factory=dict)
    """Numbers of the mechanism that were others than those of its description meanwhile, by name [SI]."""

    def __post_init__(self):
        of_type("signals", self.signals, Mapping, "signals by name; Recording.of makes them of arrays")
        for name, signal in self.signals.items():
            of_type(f"signals[{name!r}]", signal, Signal, "a Signal; Recording.of makes them of arrays")
        if not self.signals:
            raise ArgumentError("signals: expected at least one; found none")
        object.__setattr__(self, "signals", types.MappingProxyType(dict(self.signals)))
        object.__setattr__(self, "numbers", types.MappingProxyType(dict(self.numbers)))

    @staticmethod
    def of(
        t: ArrayLike, values: Mapping[str, ArrayLike], *, units: Mapping[str, str] | None = None, source: str = "arrays"
    ) -> "Recording":
        """The recording of arrays that share their times; samples that are nan are dropped.

        Args:
            t: Times, which increase [s].
            values: (samples,), or (samples, k) for k signals `name[0]`, `name[1]` …, by name.
            units: Units by name; SI where none is given.
            source: Where the arrays come from.

        Raises:
            ArgumentError: Names the array, the sample and what is accepted.
        """
        times = _floats("t", t)
        if times.ndim != 1:
            raise ArgumentError(f"t: expected times in one row; found shape {times.shape}")
        for row, text in faults_of_times(times):
            raise ArgumentError(f"t[{row}]: {text}")
        by_name("values", values, "arrays by name, as in {'gyro': [0.1, 0.2]}")
        columns: dict[str, np.ndarray] = {}
        for name, given in values.items():
            array = _floats(f"values['{name}']", given)
            if array.ndim not in (1, 2) or len(array) != len(times):
                raise ArgumentError(
                    f"values['{name}']: expected {len(times)} samples, one for each time; found shape {array.shape}"
                )
            columns |= {name: array} if array.ndim == 1 else {f"{name}[{k}]": row for k, row in enumerate(array.T)}
        known = units_of(columns, {} if units is None else units)
        signals, notes = {}, []
        for name, column in columns.items():
            for row, text in faults_of_values(column):
                raise ArgumentError(f"values['{name}']{f'[{row}]' * (row is not None)}: {text}")
            signals[name], remarks = sampled(name, times, column, known.get(name))
            notes += remarks
        return Recording(signals, source, (*notes, *note_of_no_unit([name for name in columns if name not in known])))

    def __getitem__(self, name: str) -> Signal:
        of_type("recording", name, str, "the name of a signal")
        if name not in self.signals:
            raise ArgumentError(
                f"recording['{name}']: expected a signal of {self.source or 'the recording'}; found '{name}'"
                f"{nearest(name, self.signals, 'signals')}"
            )
        return self.signals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.signals)

    def __repr__(self) -> str:
        lines = [f"{name}: {signal!r}" for name, signal in self.signals.items()]
        return "\n  ".join([f"Recording of {self.source or 'unknown source'}", *lines, *self.remarks])

    @property
    def remarks(self) -> tuple[str, ...]:
        """Numbers of the mechanism that were others, and notes."""
        numbers = (f"with {name} = {np.array2string(x, precision=6)}" for name, x in self.numbers.items())
        return (*numbers, *self.notes)

    @property
    def timings(self) -> dict[str, Timing]:
        """Rate, rounding, jitter and gaps of every signal of at least two samples."""
        found = {name: timing(signal.t) for name, signal in self.signals.items()}
        return {name: one for name, one in found.items() if one is not None}

    @property
    def start(self) -> float:
        """Time of the first sample [s]."""
        return float(min((signal.t[0] for signal in self.signals.values() if len(signal)), default=np.nan))

    @property
    def stop(self) -> float:
        """Time of the last sample [s]."""
        return float(max((signal.t[-1] for signal in self.signals.values() if len(signal)), default=np.nan))

    @property
    def duration(self) -> float:
        """Time between the first and the last sample [s]."""
        return self.stop - self.start

    def between(self, start: float, stop: float) -> "Recording":
        """The samples with start ≤ t ≤ stop [s]; a signal may have none of them.

        Raises:
            ArgumentError: No signal has a sample there.
        """
        start, stop = _moment("start", start), _moment("stop", stop)
        cut = {}
        for name, signal in self.signals.items():
            kept = slice(np.searchsorted(signal.t, start), np.searchsorted(signal.t, stop, side="right"))
            cut[name] = Signal(signal.t[kept], signal.values[kept], signal.unit)
        if not any(len(signal) for signal in cut.values()):
            raise ArgumentError(
                f"between: expected times within {self.start:.6g} and {self.stop:.6g} s, those of the samples; "
                f"found {start:.6g} to {stop:.6g} s"
            )
        return dataclasses.replace(self, signals=cut)

    def shifted(self, seconds: float, names: str | Sequence[str] | None = None) -> "Recording":
        """The recording with later times, where the clocks of some or all signals differ.

        Args:
            seconds: What is added to the times [s].
            names: Signals that are shifted; all by default.

        Raises:
            ArgumentError: There is no such signal, or the shift is not finite.
        """
        moved = tuple(self.signals) if names is None else texts("names", names, "names of signals")
        seconds = finite_number(seconds, "seconds")
        signals = dict(self.signals)
        for name in moved:
            signals[name] = dataclasses.replace(self[name], t=self[name].t + seconds)
        note = f"{', '.join(moved) if names is not None else 'all signals'}: shifted by {seconds:.6g} s"
        return dataclasses.replace(self, signals=signals, notes=(*self.notes, note))

    def with_numbers(self, numbers: Mapping[str, Numbers]) -> "Recording":
        """The recording of a mechanism some of whose numbers were others meanwhile, and known: the mass of a payload,
        the stiffness of a brake that was set. All that is asked of the recording is asked of that mechanism.

        Args:
            numbers: Of the mechanism, by the names that may be free [SI].

        Raises:
            ArgumentError: One of them is no finite number.
        """
        by_name("numbers", numbers, "numbers of the mechanism by name, as in {'payload.mass': 0.5}")
        new = {name: _unchangeable(np.asarray(finite(f"numbers[{name!r}]", value))) for name, value in numbers.items()}
        return dataclasses.replace(self, numbers={**self.numbers, **new})

    def merged(self, other: "Recording") -> "Recording":
        """The signals of both recordings, whose clocks agree.

        Raises:
            ArgumentError: Both have a signal of one name, or other numbers of the mechanism.
        """
        of_type("other", other, Recording, "a recording")
        if twice := [name for name in self.signals if name in other.signals]:
            raise ArgumentError(
                f"merged: expected signals of different names; found {', '.join(repr(name) for name in twice)} in both "
                f"{self.source or 'the recording'} and {other.source or 'the other'}; read_recording(columns=…) renames"
            )
        for name in self.numbers.keys() & other.numbers.keys():
            if not np.array_equal(one := self.numbers[name], another := other.numbers[name]):
                raise ArgumentError(f"merged: expected one number {name!r} of both; found {one} and {another}")
        source = " + ".join(dict.fromkeys(text for text in (self.source, other.source) if text))
        signals, notes = {**self.signals, **other.signals}, (*self.notes, *other.notes)
        return Recording(signals, source, notes, {**self.numbers, **other.numbers})


def sampled(name: str, t: np.ndarray, values: np.ndarray, unit: str | None) -> tuple[Signal, list[str]]:
    """(signal in SI units without samples that are nan, notes) of columns without faults."""
    si, scale = (find_unit(unit) if unit else None) or ("", 1.0)
    kept = ~np.isnan(values)
    notes = [] if kept.all() else [f"{name}: {np.sum(~kept)} of {len(kept)} samples are nan or empty, dropped"]
    if scale != 1:
        notes.append(f"{name}: converted from {unit} to {si or '1'}")
    return Signal(t[kept], values[kept] * scale, si), notes


def note_of_no_unit(names: list[str]) -> list[str]:
    """What is assumed about signals whose unit nobody said; `px[0]`, `px[1]` … are named `px`."""
    roots = dict.fromkeys(name.partition("[")[0] for name in names)
    return [f"{', '.join(roots)}: no unit is given, taken as SI"] if roots else []


def units_of(names: Iterable[str], units: Mapping[str, str]) -> dict[str, str]:
    """Units by name of a signal; a unit of `px` is that of `px[0]`, `px[1]` … too.

    Raises:
        ArgumentError: There is no such signal or unit.
    """
    by_name("units", units, "units by name, as in {'gyro': 'deg/s'}")
    listed = list(names)
    known = dict.fromkeys(name for full in listed for name in (full, full.partition("[")[0]))
    for name, unit in units.items():
        if name not in known:
            raise ArgumentError(
                f"units['{name}']: expected the name of a signal; found '{name}'{nearest(name, known, 'signals')}"
            )
        if find_unit(unit) is None:
            raise ArgumentError(f"units['{name}']: {unit_fault(unit)}")
    given = {name: units.get(name, units.get(name.partition("[")[0])) for name in listed}
    return {name: unit for name, unit in given.items() if unit is not None}


def faults_of_times(t: np.ndarray, unit: str = "s") -> list[tuple[int, str]]:
    """(sample, what is wrong) of times that are not finite or do not increase."""
    odd = [(int(k), f"expected a finite time; found {t[k]}") for k in np.flatnonzero(~np.isfinite(t))]
    late = np.flatnonzero(np.diff(t) <= 0)
    text = "expected times that increase; found {:.15g} {unit} after {:.15g} {unit}"
    return sorted(odd + [(int(k) + 1, text.format(t[k + 1], t[k], unit=unit)) for k in late])


def faults_of_values(values: np.ndarray) -> list[tuple[int | None, str]]:
    """(sample, or None for all of them, what is wrong) of values that are infinite or all nan."""
    if np.isnan(values).all():
        found = f"{len(values)} samples, all of them nan or empty" if len(values) else "no samples"
        return [(None, f"expected numbers; found {found}")]
    return [(int(k), f"expected finite numbers or nan; found {values[k]}") for k in np.flatnonzero(np.isinf(values))]


def _moment(what: str, given: float) -> float:
    """A time, which may be infinite."""
    try:
        time = float(given)
    except (TypeError, ValueError, OverflowError):
        time = np.nan
    if np.isnan(time):
        raise ArgumentError(f"{what}: expected a time [s]; found {given!r}")
    return time


def _floats(what: str, given: ArrayLike) -> np.ndarray:
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{what}: expected numbers; found {type(given).__name__} of something else") from None


def _unchangeable(array: np.ndarray) -> np.ndarray:
    """The array for reading only, so that recordings may share it."""
    view = array.view()
    view.flags.writeable = False
    return view
