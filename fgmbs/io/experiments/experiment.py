"""Experiments: what to compute, how, and where the results go; one model of each for files and the command line."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import Field, ValidationError

from fgmbs.arguments import nearest
from fgmbs.errors import DescriptionError
from fgmbs.io.experiments.smooth_experiment import SmoothExperiment, smooth_faults, smooth_limits
from fgmbs.io.faults import Fault, dotted
from fgmbs.io.located_yaml import locate, read_text
from fgmbs.io.settings import Flag, Number, OfRobots, Output
from fgmbs.mechanisms.planar.description import plain


class Settings(Output):
    """How to simulate, and where the results go."""

    dt: Number = 1e-3
    """Time step [s]."""
    duration: Number = 5.0
    """Length of the motion, a multiple of dt [s]."""
    coordinates: Literal["chart", "dependent", "independent"] = "chart"
    """Along the constraints, or with soft constraints in dependent or independent coordinates."""
    integrator: Literal["euler", "trapezoidal", "hermite_simpson"] = "hermite_simpson"
    """Integration rule: of first, second or fourth order."""
    window: Annotated[int, Field(strict=True)] | None = None
    """Steps of the fixed-lag window, of soft constraints; 2 by default."""
    batch: Flag = False
    """Solve all steps at once in the end."""
    linear: Literal["sequential", "sqrt"] = "sequential"
    """Linear method: block Cholesky or block QR."""
    independent: tuple[str, ...] | None = None
    """Names of the independent coordinates; by default the best ones at every step."""
    start: dict[str, Number] = {}
    """Coordinates of the start by name [m, rad]."""
    start_velocities: dict[str, Number] = {}
    """Velocities of the start by coordinate name [m/s, rad/s]."""
    truth: str | None = None
    """Table of a known motion to compare with, see `read_truth`."""


class InverseSettings(Output):
    """How to find the forces of a desired motion, and where the results go."""

    columns: tuple[str, ...] | None = None
    """Names of the columns of the trajectory, for a table without a line of names: t and coordinates."""
    actuators: tuple[str, ...] | None = None
    """Actuators, or coordinates that a force acts on; by default all actuators of the mechanism."""
    tracking: Literal["exact", "weighted"] = "exact"
    """Follow the motion exactly, or as the weights `sigma` and `effort` tell."""
    effort: dict[str, Number] = {}
    """Scale of the force of each actuator, where there are more than the motion needs [N, N·m]."""
    smoothness: dict[str, Number] = {}
    """Standard deviation of the change of each force in one second, for weighted tracking [N/√s, N·m/√s]."""
    sigma: dict[str, Number] = {}
    """Standard deviations of desired coordinates given by samples; by default found from these [m, rad]."""
    start: dict[str, Number] = {}
    """Coordinates near which the first sample is assembled, by name; as drawn by default [m, rad]."""
    covariance: Flag = False
    """Also compute the covariance of the forces for the noise of the desired motion."""


class Experiment(Settings):
    """A forward dynamics experiment. Paths in a file are relative to the folder of the file, except `out`."""

    mechanism: str
    """Mechanism file."""


class InverseExperiment(InverseSettings):
    """An inverse dynamics experiment, recognised by its key `trajectory`. Paths as in `Experiment`."""

    mechanism: str
    """Mechanism file."""
    trajectory: str
    """Table of the desired motion, see `fgmbs.read_motion`."""


AnyExperiment: TypeAlias = Experiment | InverseExperiment | SmoothExperiment

_PATHS = ("mechanism", "truth", "trajectory")


def read_experiment(path: str | os.PathLike[str]) -> AnyExperiment:
    """The experiment of a YAML file, its paths made relative to the working folder.

    Raises:
        DescriptionError: The file cannot be read, or all its faults.
    """
    path = Path(path)
    text = read_text(path, "an experiment file")
    experiment = parse_experiment(text, source=str(path))
    if isinstance(experiment, SmoothExperiment):
        return experiment.moved(path.parent)
    here = {key: str(path.parent / value) for key in _PATHS if (value := getattr(experiment, key, None))}
    return experiment.model_copy(update=here)


def parse_experiment(text: str, source: str = "<string>") -> AnyExperiment:
    """The experiment of a YAML text; see `read_experiment`.

    Args:
        source: What to call the text in messages.
    """
    located = locate(text)
    found = list(located.faults)
    experiment = None
    if isinstance(located.data, Mapping):
        try:
            experiment = _model(located.data).model_validate(located.data)
        except ValidationError as failure:
            found += _faults(failure, located.data)
        else:
            found += _limits(experiment)
    elif not found:
        found.append(Fault((), f"expected a mapping of (mechanism, duration, …); found {plain(located.data)}"))
    if found or experiment is None:
        placed = [(fault.place or located.place(fault.path, of_key=fault.of_key), fault) for fault in found]
        placed.sort(key=lambda item: item[0])
        raise DescriptionError(
            [
                f"{source}:{line}:{column}: {dotted(fault.path)}{': ' if fault.path else ''}{fault.text}"
                for (line, column), fault in placed
            ]
        )
    if isinstance(experiment, SmoothExperiment):
        experiment.placed(located, source)
    return experiment


def _model(data: Mapping[str, Any]) -> type[AnyExperiment]:
    """Which kind of experiment data describe."""
    if "recording" in data:
        return SmoothExperiment
    return InverseExperiment if "trajectory" in data else Experiment


def _faults(failure: ValidationError, data: Mapping[str, Any]) -> list[Fault]:
    """What pydantic found; the limits of what is left are checked too, so that all faults are reported at once."""
    model = _model(data)
    if model is SmoothExperiment:
        return smooth_faults(failure, data)
    found = [_fault(error, model) for error in failure.errors()]
    if model is Experiment:
        bad = {error["loc"][0] for error in failure.errors()}
        left = {"mechanism": ""} | {key: value for key, value in data.items() if key not in bad}
        more = limits(Experiment.model_validate(left))
        # A duration needs its dt.
        found += more if "dt" not in bad else [fault for fault in more if fault.path != ("duration",)]
    return found


def _limits(experiment: AnyExperiment) -> list[Fault]:
    if isinstance(experiment, SmoothExperiment):
        return smooth_limits(experiment)
    return limits(experiment) if isinstance(experiment, Experiment) else []


def limits(settings: Settings) -> list[Fault]:
    """Values that are invalid although they are of the right type."""
    dt, duration, found = settings.dt, settings.duration, []
    if not (math.isfinite(dt) and dt > 0):
        found.append(Fault(("dt",), f"expected a positive time step in seconds; found {dt:g}"))
    elif not math.isfinite(duration) or duration < dt:
        found.append(Fault(("duration",), f"expected at least one time step, dt = {dt:g} s; found {duration:g} s"))
    elif abs((steps := round(duration / dt)) * dt - duration) > 1e-6 * duration:
        advice = f"found {duration:g} s; {steps * dt:.9g} s would do"
        found.append(Fault(("duration",), f"expected a multiple of dt = {dt:g} s; {advice}"))
    if settings.window is not None and settings.window < 2:
        found.append(Fault(("window",), f"expected an integer of at least 2 time steps; found {settings.window}"))
    return found


_OWNERS = {"effort": "actuator", "smoothness": "actuator", "locked": "joint"}
"""What entries of a mapping belong to, where these are no coordinates."""


def _fault(error: Any, model: type[AnyExperiment]) -> Fault:
    path, kind = error["loc"], error["type"]
    field = model.model_fields.get(str(path[0]))
    found = plain(error["input"])
    expected = {
        "missing": "the path of a mechanism file",
        "string_type": "a text",
        "int_type": "an integer",
        "bool_type": "true or false",
        "tuple_type": "a list of names",
        "dict_type": f"a mapping from {_OWNERS.get(str(path[-1]), 'coordinate')} names to numbers",
    }.get(kind, error["msg"])
    if kind == "extra_forbidden":
        recognised_by = ("trajectory", "recording") if model is Experiment else ()
        key, keys = str(path[-1]), (*model.model_fields, *recognised_by) if len(path) == 1 else OfRobots.model_fields
        return Fault(path, f"expected no key '{key}' here{nearest(key, keys, 'keys')}", of_key=True)
    if kind == "missing":
        return Fault(path, f"expected {expected}; found no key '{path[-1]}'")
    if kind == "literal_error" and field is not None:
        words = [f"'{word}'" for word in get_args(field.annotation)]
        expected = f"{', '.join(words[:-1])} or {words[-1]}"
    return Fault(path, f"expected {expected}; found {found}")
