"""What a designed experiment is: signals, what they will tell of parameters, how near they come to their limits."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy import special

from fgmbs.arguments import file_path
from fgmbs.errors import ArgumentError
from fgmbs.results.report import Section, in_words
from fgmbs.signals.recordings.recording import Recording
from fgmbs.signals.trajectories.fourier import FourierSeries
from fgmbs.unknowns import Free


@dataclasses.dataclass(frozen=True)
class Margin:
    """How near a signal or a number of the motion comes to its limits, in its SI unit."""

    name: str
    kind: str
    """"signal", "coordinate" or "velocity"."""
    lower: float
    upper: float
    least: float
    """Least value in the experiment that was designed …"""
    largest: float
    """… and the largest."""

    @property
    def margin(self) -> float:
        """Distance to the nearer limit; negative beyond it."""
        return min(self.upper - self.largest, self.least - self.lower)

    @property
    def held(self) -> bool:
        """Whether the limits are kept."""
        return self.margin >= 0


@dataclasses.dataclass(frozen=True, eq=False)
class ExcitationDesign:
    """Signals for the commands of a mechanism under which recordings tell the most of parameters.

    Parameters are named as in `free`; those with several numbers have an entry for each, as "viscous[1]". Standard
    deviations are those of one recording, at the values that the design was made with, by linearization; first state,
    nuisances and priors are in them as they are in `identify` with the method "prediction".
    """

    signals: Mapping[str, FourierSeries]
    """By name of the command, as functions of time."""
    recording: Recording
    """The same as samples, in the columns of the commands: `command.force(design.recording)` is the force, as
    `hybrid_dynamics` takes it."""
    free: Free
    """θ, with the priors that were given."""
    wanted: tuple[str, ...]
    """Numbers whose information was made large; the others are found along with them."""
    information: Float[np.ndarray, "p p"]
    """Inverse of the covariance of θ that is foretold, priors included, the first state being found, too."""
    random_information: Float[np.ndarray, "random p p"]
    """The same of the random signals that the design is compared with, each as large as the limits allow, the best
    first."""
    log_det: float
    """Logarithm of the determinant of the information of the wanted numbers; mean over all scenarios."""
    random_log_det: Float[np.ndarray, " random"]
    random_recordings: tuple[Recording, ...]
    """The random signals as samples."""
    margins: tuple[Margin, ...]
    t: Float[np.ndarray, " steps"]
    """Times of the motion that is foretold [s]."""
    q: Float[np.ndarray, "steps n"]
    dq: Float[np.ndarray, "steps nv"]
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the numbers of θ."""
        return self.free.number_names

    @property
    def values(self) -> dict[str, float]:
        """The values that the design was made with, by name [SI]."""
        return dict(zip(self.names, np.asarray(self.free.values(self.free.value)).tolist(), strict=True))

    def _std(self, information: Float[np.ndarray, "p p"]) -> dict[str, float]:
        unit = 1 / np.sqrt(np.diag(information))
        scaled = unit[:, None] * information * unit
        covariance = unit[:, None] * np.linalg.pinv(scaled, rcond=1e-15, hermitian=True) * unit
        sigma = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return dict(zip(self.names, self.free.deviations(np.asarray(self.free.value), sigma).tolist(), strict=True))

    @property
    def std(self) -> dict[str, float]:
        """Standard deviations that are foretold."""
        return self._std(self.information)

    @property
    def std_before(self) -> dict[str, float]:
        """The same under the best random signal."""
        return self.random_std(0)

    def random_std(self, signal: int) -> dict[str, float]:
        """The same under a random signal, the one that tells the most being 0."""
        return self._std(self.random_information[signal])

    def _worst(self, std: Mapping[str, float]) -> float:
        return max(
            (std[name] / abs(self.values[name]) for name in self.wanted if self.values[name] != 0), default=np.nan
        )

    @property
    def worst(self) -> float:
        """Largest standard deviation of a wanted number relative to its value."""
        return self._worst(self.std)

    @property
    def random_worst(self) -> Float[np.ndarray, " random"]:
        """The same under each random signal."""
        return np.asarray([self._worst(self.random_std(k)) for k in range(len(self.random_information))])

    @property
    def held(self) -> bool:
        """Whether all limits are kept."""
        return all(margin.held for margin in self.margins)

    def intervals(self, level: float = 0.95) -> dict[str, float]:
        """Half of the width of the interval that will hold each parameter with this probability.

        Raises:
            ArgumentError: The level is not between 0 and 1.
        """
        if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
            raise ArgumentError(f"level: expected a probability between 0 and 1; found {level!r}")
        return {name: float(special.ndtri(0.5 + level / 2)) * std for name, std in self.std.items()}

    def warnings(self) -> tuple[str, ...]:
        """Everything that makes the design other than it was wanted; empty if there is nothing."""
        beyond = [
            f"{one.kind} {one.name}: from {one.least:.4g} to {one.largest:.4g}, beyond its limits "
            f"{one.lower:.4g} to {one.upper:.4g}"
            for one in self.margins
            if not one.held
        ]
        return (*beyond, *self.notes)

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the signals as a table in a CSV file, which `read_recording` reads.

        Raises:
            ArgumentError: This is no path of a CSV file.
        """
        target = Path(file_path("path", path))
        if target.suffix != ".csv":
            raise ArgumentError(f"path: expected the path of a CSV file; found {str(path)!r}")
        target.parent.mkdir(parents=True, exist_ok=True)
        times = next(iter(self.recording.signals.values())).t
        columns = np.column_stack([times, *(signal.values for signal in self.recording.signals.values())])
        header = ",".join(["t", *self.recording.signals])
        np.savetxt(target, columns, delimiter=",", header=header, comments="", fmt="%.17g")
        return target

    def report(self) -> str:
        """Standard deviations before and after, distances to the limits and warnings, in words and numbers."""
        worst = self.random_worst
        best, median = 100 * np.min(worst), 100 * np.median(worst)
        overview = [
            ("worst standard deviation", f"{100 * self.worst:.3g} % of its value"),
            (f"of {len(worst)} random signals", f"best {best:.3g} %, median {median:.3g} %"),
            ("log det", f"{self.log_det:.4g}; of the best random signal {self.random_log_det[0]:.4g}"),
        ]
        limits = [
            (one.name, one.kind, *(f"{x:.4g}" for x in (one.least, one.largest, one.lower, one.upper, one.margin)))
            for one in self.margins
        ]
        parts = [
            Section("Design", ("", ""), overview),
            Section("Parameters", ("parameter", "value", "±", "± before", "", "kind"), self._parameters()),
            Section("Limits", ("name", "kind", "from", "to", "lower", "upper", "margin"), limits),
            Section("Warnings", (), [(text,) for text in self.warnings()]),
        ]
        return in_words([part for part in parts if part.rows])

    def _parameters(self) -> list[tuple[str, ...]]:
        rows, before = [], self.std_before
        for name, std in self.std.items():
            value = self.values[name]
            relative = f"{100 * std / abs(value):.3g} %" if value != 0 else ""
            role = "wanted" if name in self.wanted else "found along with them"
            rows.append((name, f"{value:.6g}", f"{std:.2g}", f"{before[name]:.2g}", relative, role))
        return rows
