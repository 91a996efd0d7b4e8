"""The command line: `fgmbs simulate`, `inverse`, `smooth`, `identify`, `run`, `check`."""

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import tyro

import fgmbs
from fgmbs.compiled import CACHE_VARIABLE
from fgmbs.errors import ArgumentError, FgmbsError
from fgmbs.io.experiments.experiment import (
    Experiment,
    InverseExperiment,
    InverseSettings,
    Settings,
    read_experiment,
)
from fgmbs.io.experiments.smooth_experiment import SmoothExperiment, SmoothOptions

_FAILED, _INTERRUPTED = 2, 130

_ABOUT = f"""Motion, forces and parameters of mechanisms. Compiled programs are kept in the user's folder for caches:
--cache FOLDER (or {CACHE_VARIABLE}=FOLDER) names another one, --cache off keeps none. --version says the version."""


@dataclass
class Simulate:
    """Simulate the motion of a mechanism."""

    mechanism: tyro.conf.Positional[str]
    """Mechanism file."""
    settings: tyro.conf.OmitArgPrefixes[Settings] = Settings()


@dataclass
class Inverse:
    """Find the forces of the actuators that make a mechanism follow a desired motion."""

    mechanism: tyro.conf.Positional[str]
    """Mechanism file."""
    trajectory: tyro.conf.Positional[str]
    """Table of the desired motion: t, and coordinates by name."""
    settings: tyro.conf.OmitArgPrefixes[InverseSettings] = InverseSettings()


@dataclass
class Smooth:
    """Estimate motion and forces from what sensors have recorded; options replace what the experiment file says."""

    file: tyro.conf.Positional[str]
    """Experiment file with a recording."""
    experiment: tyro.conf.OmitArgPrefixes[SmoothOptions] = SmoothOptions(mechanism="as in the file")


@dataclass
class Identify:
    """Find parameters from what sensors have recorded; options replace what the experiment file says."""

    file: tyro.conf.Positional[str]
    """Experiment file with a recording, and with `free`: the parameters to find."""
    experiment: tyro.conf.OmitArgPrefixes[SmoothOptions] = SmoothOptions(mechanism="as in the file")


@dataclass
class Run:
    """Run an experiment file; options replace what the file says.

    One with a trajectory takes those of `inverse`, one with a recording those of `smooth`, or of `identify` if some
    parameters are free.
    """

    file: tyro.conf.Positional[str]
    """Experiment file."""
    experiment: tyro.conf.OmitArgPrefixes[Experiment] = Experiment(mechanism="as in the file")


@dataclass
class RunInverse:
    """Run an experiment file with a trajectory; options replace what the file says."""

    file: tyro.conf.Positional[str]
    """Experiment file."""
    experiment: tyro.conf.OmitArgPrefixes[InverseExperiment]


@dataclass
class Identified:
    """An experiment whose parameters are to be found."""

    experiment: SmoothExperiment


@dataclass
class Check:
    """Check a mechanism: coordinates, constraints, degrees of freedom, assembled pose."""

    mechanism: tyro.conf.Positional[str]
    """Mechanism file."""


def main(args: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0, 2 after an error, 130 after Ctrl-C."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: _say(f"warning: {message}")
        try:
            folder, others = _told(sys.argv[1:] if args is None else list(args))
            command = _parse(others)
            _switch_cache_on(folder)
            _do(command)
            sys.stdout.flush()
        except KeyboardInterrupt as interrupt:  # `Interrupted` too
            _say(str(interrupt) or "interrupted")
            return _INTERRUPTED
        except FgmbsError as error:
            _say(f"error: {error}")
            return _FAILED
        except OSError as error:
            if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EPIPE):
                raise
            # Nobody reads what is printed, or there is no room for it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _say(f"error: standard output: {error.strerror}")
            return _FAILED
    return 0


def _do(command: Simulate | Inverse | Run | RunInverse | Check | Identified | SmoothExperiment) -> None:
    from fgmbs import commands  # late: --help needs none of it

    match command:
        case Check(mechanism):
            commands.check(mechanism)
        case Run(_, experiment):
            commands.simulate(experiment)
        case RunInverse(_, experiment):
            commands.inverse(experiment)
        case Identified(experiment):
            commands.identify(experiment)
        case SmoothExperiment() as experiment:
            commands.smooth(experiment)
        case Inverse(mechanism, trajectory, settings):
            commands.inverse(InverseExperiment(mechanism=mechanism, trajectory=trajectory, **settings.model_dump()))
        case Simulate(mechanism, settings):
            commands.simulate(Experiment(mechanism=mechanism, **settings.model_dump()))


def _told(args: list[str]) -> tuple[str | None, list[str]]:
    """(folder of the cache of compiled programs, all other arguments). Says the version, if asked."""
    parser = argparse.ArgumentParser(prog="fgmbs", add_help=False, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"fgmbs {fgmbs.__version__}")
    parser.add_argument("--cache")
    given, others = parser.parse_known_args(args)
    return given.cache, others


def _switch_cache_on(folder: str | None) -> None:
    from fgmbs.compiled.cache import cache  # late: --help needs none

    try:
        cache(folder)
    except ArgumentError as error:
        if folder is not None or CACHE_VARIABLE in os.environ:
            raise
        _say(f"warning: {error}; compiled programs are not kept")


def _parse(args: list[str]) -> Simulate | Inverse | Run | RunInverse | Check | Identified | SmoothExperiment:
    commands = Simulate | Inverse | Smooth | Identify | Run | Check
    command, unknown = tyro.cli(commands, args=args, prog="fgmbs", description=_ABOUT, return_unknown_args=True)
    if isinstance(command, Run | Smooth | Identify):
        # Once more, now that the file says what the options replace.
        experiment = read_experiment(command.file)
        if isinstance(experiment, SmoothExperiment):
            kind = Identify if isinstance(command, Identify) else Smooth
            experiment = experiment.replaced(_replaced(kind, command.file, experiment.options(), args).experiment)
            wanted = isinstance(command, Identify) or (isinstance(command, Run) and bool(experiment.free))
            return Identified(experiment) if wanted else experiment
        if isinstance(command, Smooth | Identify):
            raise ArgumentError(f"file: expected an experiment with a recording; '{command.file}' has none")
        kind = RunInverse if isinstance(experiment, InverseExperiment) else Run
        return _replaced(kind, command.file, experiment, args)
    if unknown:
        tyro.cli(commands, args=args, prog="fgmbs", description=_ABOUT)  # exits with advice
    return command


def _replaced(kind, file: str, said, args: list[str]):
    """What a file says with what the options say instead; a mapping is added to, name by name."""
    mappings = [key for key, value in said if isinstance(value, dict)]
    default = kind(file, said.model_copy(update={key: {} for key in mappings}))
    given = tyro.cli(kind, default=default, args=args[1:], prog=f"fgmbs {args[0]}").experiment
    return kind(file, given.model_copy(update={key: getattr(said, key) | getattr(given, key) for key in mappings}))


def _say(text: str) -> None:
    print(text, file=sys.stderr)
