"""Experiments of state estimation: recordings, sensors, settings."""

import math
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PrivateAttr, Tag, ValidationError

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.io.faults import Fault, dotted
from fgmbs.io.located_yaml import Located
from fgmbs.io.sensors import (
    Calibration,
    InputDescription,
    SensorDescription,
    SensorsDescription,
    SensorsFile,
    UnknownDescription,
    fault_of,
    read_sensors_file,
)
from fgmbs.io.settings import Number, OfRobots, Output
from fgmbs.mechanisms.planar.description import Path, plain


class SmoothSettings(Output):
    """How to estimate a motion, and where the results go."""

    dt: Number | None = None
    """Time step; by default the interval between samples of the fastest sensor, or a fourth where that explains far
    more [s]."""
    window: Annotated[int, Field(strict=True)] | None = None
    """Steps of a fixed-lag smoother; by default all steps at once."""
    start: dict[str, Number] = {}
    """Coordinates of the start by name; by default several starts are tried [m, rad]."""
    start_velocities: dict[str, Number] = {}
    """Velocities of the start by coordinate name [m/s, rad/s]."""
    start_sigma: tuple[Number, Number] | None = None
    """Standard deviations of independent coordinates and of their velocities at the start; rough by default."""
    independent: tuple[str, ...] | None = None
    """Names of the independent coordinates; by default the best ones at every step."""
    truth: str | None = None
    """Table of a known motion to compare with, see `read_truth`."""


class SmoothOptions(SmoothSettings):
    """What the command line may replace of an experiment file."""

    mechanism: str
    """Mechanism file."""
    recording: str | None = None
    """File of a recording with the same columns, instead of that of the experiment file."""


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileDescription(_Entry):
    """A file of signals; the keys are the arguments of `fgmbs.read_recording`."""

    file: str
    columns: (
        Annotated[
            Annotated[dict[str, str], Tag("by name")] | Annotated[tuple[str, ...], Tag("names")],
            Discriminator(lambda value: "by name" if isinstance(value, Mapping) else "names"),
        ]
        | None
    ) = None
    time: str = "t"
    time_unit: str | None = None
    rate: Number | None = None
    units: dict[str, str] = {}
    offset: Number = 0.0


class OneFile(FileDescription):
    """A recording in one file."""

    start: dict[str, Number] | None = None
    start_velocities: dict[str, Number] | None = None
    numbers: dict[str, Number] = {}
    """Numbers of the mechanism that were others meanwhile, by name."""


def _kind(value: Any) -> str:
    if isinstance(value, Mapping | BaseModel):
        several = "files" in value if isinstance(value, Mapping) else isinstance(value, SeveralFiles)
        return "several files" if several else "one file"
    return "a path"


_File = Annotated[Annotated[str, Tag("a path")] | Annotated[FileDescription, Tag("one file")], Discriminator(_kind)]


class SeveralFiles(_Entry):
    """A recording whose signals are in several files of one clock, or of clocks that differ by `offset`."""

    files: Annotated[tuple[_File, ...], Field(min_length=1)]
    start: dict[str, Number] | None = None
    start_velocities: dict[str, Number] | None = None
    numbers: dict[str, Number] = {}
    """Numbers of the mechanism that were others meanwhile, by name."""


_Recording = Annotated[
    Annotated[str, Tag("a path")] | Annotated[OneFile, Tag("one file")] | Annotated[SeveralFiles, Tag("several files")],
    Discriminator(_kind),
]


def _many(value: Any) -> str:
    return "all of" if isinstance(value, list | tuple) else "one of"


def _free_kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "free"
    if isinstance(value, list | tuple):
        return "bounds"
    return "unknown" if isinstance(value, Mapping | UnknownDescription) else "value"


FreeNumber = Annotated[
    Annotated[bool | None, Tag("free")]
    | Annotated[tuple[Number, Number], Tag("bounds")]
    | Annotated[UnknownDescription, Tag("unknown")]
    | Annotated[Number, Tag("value")],
    Discriminator(_free_kind),
]
"""true, bounds, all that `Unknown` says, or a first value."""


class RecordingPart(NamedTuple):
    """One recording and where the experiment says so."""

    path: Path
    files: tuple[tuple[Path, FileDescription], ...]
    start: Mapping[str, float] | None
    start_velocities: Mapping[str, float] | None
    numbers: Mapping[str, float]


class SmoothExperiment(SmoothSettings):
    """A state estimation, recognised by its key `recording`. Paths as in `Experiment`."""

    mechanism: str
    """Mechanism file."""
    recording: Annotated[
        Annotated[_Recording, Tag("one of")]
        | Annotated[Annotated[tuple[_Recording, ...], Field(min_length=1)], Tag("all of")],
        Discriminator(_many),
    ]
    """A file, a mapping of `file` and how to read it, a mapping of several `files`; or a list of such recordings."""
    sensors: Annotated[
        Annotated[str, Tag("one of")]
        | Annotated[
            Annotated[tuple[Annotated[SensorDescription, Field(discriminator="type")], ...], Field(min_length=1)],
            Tag("all of"),
        ],
        Discriminator(_many),
    ]
    """A file of sensors, or a list of them as in such a file."""
    inputs: tuple[Annotated[InputDescription, Field(discriminator="type")], ...] = ()
    """Forces from outside, besides those of the file of sensors."""
    parameters: dict[str, Calibration] = {}
    """Numbers of the mechanism that are not those of its file, by name: others, or unknown ones."""
    free: dict[str, FreeNumber] = {}
    """What `fgmbs identify` looks for, by name."""
    method: Literal["smoother", "prediction"] = "smoother"
    """How it does."""
    horizon: Number | None = None
    """Length of the free runs of the method "prediction" [s]."""
    restarts: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    """From how many rough first values it looks again, and then from the given ones, too."""
    _located: Located | None = PrivateAttr(None)
    _source: str = PrivateAttr("experiment")

    def placed(self, located: Located, source: str) -> None:
        """Keeps where the keys stand in a file, for faults that are found later."""
        self._located, self._source = located, source

    def error(self, path: Path, text: str) -> DescriptionError:
        """The error of a fault at a path."""
        where = ""
        if self._located is not None:
            line, column = self._located.place(path)
            where = f"{line}:{column}: "
        return DescriptionError([f"{self._source}:{where or ' '}{dotted(path)}: {text}"])

    def parts(self) -> tuple[RecordingPart, ...]:
        """The recordings."""
        if isinstance(self.recording, tuple):
            return tuple(_part(("recording", i), entry) for i, entry in enumerate(self.recording))
        return (_part(("recording",), self.recording),)

    def starts(self, key: Literal["start", "start_velocities"]) -> Any:
        """What `smooth` takes as start, or as its velocities."""
        own = [getattr(part, key) for part in self.parts()]
        return own if any(value is not None for value in own) else getattr(self, key) or None

    def sensor_files(self) -> tuple[SensorsFile, ...]:
        """The descriptions of sensors and inputs, and where they stand.

        Raises:
            DescriptionError: The file of sensors cannot be read, or all its faults.
        """
        located = self._located or Located(None, {}, {}, [])
        sensors = () if isinstance(self.sensors, str) else self.sensors
        own = SensorsDescription.model_construct(sensors=sensors, inputs=self.inputs)
        here = SensorsFile(own, located, self._source)
        return (read_sensors_file(self.sensors), here) if isinstance(self.sensors, str) else (here,)

    def moved(self, folder: FilePath) -> "SmoothExperiment":
        """The experiment with paths relative to a folder made relative to the working folder."""
        update: dict[str, Any] = {"mechanism": str(folder / self.mechanism)}
        if self.truth is not None:
            update["truth"] = str(folder / self.truth)
        if isinstance(self.sensors, str):
            update["sensors"] = str(folder / self.sensors)
        update["recording"] = _moved(self.recording, folder)
        return self.model_copy(update=update)

    def options(self) -> SmoothOptions:
        """What the command line may replace."""
        settings = {key: getattr(self, key) for key in SmoothSettings.model_fields}
        return SmoothOptions(**settings, mechanism=self.mechanism)

    def replaced(self, options: SmoothOptions) -> "SmoothExperiment":
        """The experiment with what the command line says.

        Raises:
            DescriptionError: A recording for an experiment of several files.
        """
        update = {key: getattr(options, key) for key in (*SmoothSettings.model_fields, "mechanism")}
        if options.recording is not None:
            if isinstance(self.recording, tuple | SeveralFiles):
                raise self.error(("recording",), "expected a single file, for --recording to replace it; found several")
            own = self.recording
            update["recording"] = (
                options.recording if isinstance(own, str) else own.model_copy(update={"file": options.recording})
            )
        return self.model_copy(update=update)


def _part(path: Path, entry: str | OneFile | SeveralFiles) -> RecordingPart:
    if isinstance(entry, str):
        return RecordingPart(path, ((path, FileDescription(file=entry)),), None, None, {})
    if isinstance(entry, OneFile):
        return RecordingPart(path, ((path, entry),), entry.start, entry.start_velocities, entry.numbers)
    files = tuple(
        ((*path, "files", i), FileDescription(file=file) if isinstance(file, str) else file)
        for i, file in enumerate(entry.files)
    )
    return RecordingPart(path, files, entry.start, entry.start_velocities, entry.numbers)


def _moved(entry: Any, folder: FilePath) -> Any:
    match entry:
        case str():
            return str(folder / entry)
        case tuple():
            return tuple(_moved(one, folder) for one in entry)
        case SeveralFiles():
            return entry.model_copy(update={"files": _moved(entry.files, folder)})
    return entry.model_copy(update={"file": str(folder / entry.file)})


def smooth_limits(settings: SmoothSettings) -> list[Fault]:
    """Values that are invalid although they are of the right type."""
    found = []
    if settings.dt is not None and not (math.isfinite(settings.dt) and settings.dt > 0):
        found.append(Fault(("dt",), f"expected a positive time step in seconds; found {settings.dt:g}"))
    if settings.window is not None and settings.window < 2:
        found.append(Fault(("window",), f"expected an integer of at least 2 time steps; found {settings.window}"))
    for k, sigma in enumerate(settings.start_sigma or ()):
        if not (math.isfinite(sigma) and sigma > 0):
            found.append(Fault(("start_sigma", k), f"expected a positive number; found {sigma:g}"))
    if isinstance(settings, SmoothExperiment):
        found += _starts(settings)
        found += _free_runs(settings.method, settings.horizon)
        if settings.truth is not None and len(settings.parts()) > 1:
            found.append(Fault(("truth",), "expected one recording to compare with a known motion; found several"))
    return found


def _starts(experiment: SmoothExperiment) -> list[Fault]:
    """Recordings without a start although others have one."""
    found = []
    for key in ("start", "start_velocities"):
        own = [getattr(part, key) for part in experiment.parts()]
        if any(value is not None for value in own):
            where = [part.path for part, value in zip(experiment.parts(), own, strict=True) if value is None]
            found += [Fault(path, f"expected a key '{key}', which other recordings have; found none") for path in where]
    return found


def _free_runs(method: str, horizon: float | int | None) -> list[Fault]:
    """What is wrong with their length."""
    if horizon is None:
        return []
    if not (math.isfinite(horizon) and horizon > 0):
        return [Fault(("horizon",), f"expected a positive time in seconds; found {horizon:g}")]
    text = f"expected none with the method '{method}', which has no free runs; found {horizon:g}"
    return [] if method == "prediction" else [Fault(("horizon",), text)]


def smooth_faults(failure: ValidationError, data: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with data that are no `SmoothExperiment`, and the limits of what is left."""
    found = [fault for error in failure.errors() if (fault := _fault(error, data))]
    bad = {error["loc"][0] for error in failure.errors()}
    left = {key: value for key, value in data.items() if key in SmoothSettings.model_fields and key not in bad}
    found += smooth_limits(SmoothSettings.model_validate(left))
    if not bad & {"method", "horizon"}:
        found += _free_runs(data.get("method", "smoother"), data.get("horizon"))
    return found


_TAGS = ("a path", "one file", "several files", "one of", "all of", "by name", "names")
_NUMBERS = ("one", "list", "unknown")
_EXPECTED = {
    "mechanism": "the path of a mechanism file",
    "recording": "a path, a mapping with a file or files, or a list of them",
    "sensors": "the path of a file of sensors, or a list of sensors",
    "file": "a path",
    "files": "a list of files",
    "columns": "a mapping from signals to columns, or a list of columns",
    "units": "a mapping from signals to units",
    "parameters": "a mapping from parameters to numbers, or to mappings of (value, sigma, lower, upper, log, own)",
    "numbers": "a mapping from parameters to numbers",
    "start": "a mapping from coordinate names to numbers",
    "start_velocities": "a mapping from coordinate names to numbers",
    "start_sigma": "two numbers",
    "locked": "a mapping from joint names to numbers",
    "separate": "a list of names",
    "independent": "a list of names",
    "inputs": "a list of inputs",
}
_KINDS = {
    "string_type": "a text",
    "int_type": "an integer",
    "bool_type": "true or false",
    "number": "a number",
}


def _fault(error: Any, data: Mapping[str, Any]) -> Fault | None:
    """What pydantic found, in our words."""
    loc: Path = tuple(step for step in error["loc"] if step not in _TAGS)
    if loc[0] == "parameters":
        loc = (*loc[:2], *(step for step in loc[2:] if step not in _NUMBERS))
    section, last, kind = loc[0], loc[-1], error["type"]
    if section in ("sensors", "inputs") and len(loc) > 1:
        return fault_of({**error, "loc": loc}, data)
    found = plain(error["input"])
    match kind:
        case "extra_forbidden":
            keys = _keys(error["loc"])
            return Fault(loc, f"expected no key '{last}' here{nearest(str(last), keys, 'keys')}", of_key=True)
        case "missing" if isinstance(last, int):  # one of the two numbers of start_sigma
            return Fault(loc[:1], f"expected {_EXPECTED[str(section)]}; found a list of {last}")
        case "missing":
            return Fault(loc, f"expected {_EXPECTED.get(str(last), 'a value')}; found no key '{last}'")
        case "literal_error":
            words = [f"'{word}'" for word in get_args(SmoothExperiment.model_fields[str(section)].annotation)]
            return Fault(loc, f"expected {' or '.join(words)}; found {found}")
        case "too_short" if error["input"]:
            return None  # its entries have faults of their own
        case "too_short" | "too_long":
            return Fault(loc, f"expected {_EXPECTED[str(last)]}; found {found}")
    name = next((str(step) for step in reversed(loc) if isinstance(step, str)), "")
    whole = kind in ("dict_type", "tuple_type") or (name == last and kind == "string_type") or name == "recording"
    expected = _EXPECTED.get(name) if whole else None
    return Fault(loc, f"expected {expected or _KINDS.get(kind, error['msg'])}; found {found}")


def _keys(loc: tuple[str | int, ...]) -> list[str]:
    """Keys that are accepted where pydantic found an unknown one."""
    if len(loc) == 1:
        return list(SmoothExperiment.model_fields)
    if loc[0] == "robot":
        return list(OfRobots.model_fields)
    if "unknown" in loc:
        return list(UnknownDescription.model_fields)
    if "files" in loc:
        return list(FileDescription.model_fields)
    return list((SeveralFiles if "several files" in loc else OneFile).model_fields)
