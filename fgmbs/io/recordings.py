"""The recordings that an experiment file names."""

import functools
import re

from fgmbs.errors import ArgumentError
from fgmbs.io.experiments.smooth_experiment import FileDescription, RecordingPart, SmoothExperiment
from fgmbs.mechanisms.planar.description import Path
from fgmbs.signals.recordings.reading import read_recording
from fgmbs.signals.recordings.recording import Recording


def read_recordings(experiment: SmoothExperiment) -> tuple[Recording, ...]:
    """The recordings of an experiment, each of one file or of several that belong together.

    Raises:
        DescriptionError: A file cannot be read, or has no such column; names the key of the experiment file.
    """
    return tuple(_recording(experiment, part) for part in experiment.parts())


def _recording(experiment: SmoothExperiment, part: RecordingPart) -> Recording:
    read = [_file(experiment, path, file) for path, file in part.files]
    try:
        return functools.reduce(Recording.merged, read).with_numbers(part.numbers)
    except ArgumentError as error:
        raise experiment.error((*part.path, "files"), str(error).removeprefix("merged: ")) from None


def _file(experiment: SmoothExperiment, path: Path, file: FileDescription) -> Recording:
    options = {key: getattr(file, key) for key in FileDescription.model_fields if key != "file"}
    try:
        return read_recording(file.file, **options)
    except ArgumentError as error:
        # "columns['crank']: expected …": the experiment has a place for the argument.
        match = re.fullmatch(r"(\w+)(?:\['(.*?)'\])?: (.*)", str(error), re.DOTALL)
        assert match is not None
        argument = "file" if match[1] == "path" else match[1]
        raise experiment.error((*path, argument, *filter(None, [match[2]])), match[3]) from None
