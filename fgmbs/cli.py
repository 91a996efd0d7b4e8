"""The command line: `fgmbs simulate`, `fgmbs inverse`, `fgmbs run`, `fgmbs check`."""

import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import tyro
from tqdm import tqdm

import fgmbs
from fgmbs import plots, results
from fgmbs.errors import ArgumentError, FgmbsError, Interrupted, SolveError
from fgmbs.io import schema
from fgmbs.io.experiment import (
    Experiment,
    InverseExperiment,
    InverseSettings,
    Output,
    Settings,
    limits,
    read_experiment,
)
from fgmbs.io.faults import dotted
from fgmbs.io.truth import read_truth
from fgmbs.kinematics import assemble, mobility
from fgmbs.mechanisms.planar import PlanarMechanism
from fgmbs.results.summaries import driven_summary, simulation_summary

RESULTS = "results.nc"
"""Name of the file of results in the output folder."""

_FAILED, _INTERRUPTED = 2, 130


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
class Run:
    """Run an experiment file; options replace what the file says. One with a trajectory takes those of `inverse`."""

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
            match _parse(sys.argv[1:] if args is None else list(args)):
                case Check(mechanism):
                    check(mechanism)
                case Run(_, experiment):
                    simulate(experiment)
                case RunInverse(_, experiment):
                    inverse(experiment)
                case Inverse(mechanism, trajectory, settings):
                    inverse(InverseExperiment(mechanism=mechanism, trajectory=trajectory, **settings.model_dump()))
                case Simulate(mechanism, settings):
                    simulate(Experiment(mechanism=mechanism, **settings.model_dump()))
        except KeyboardInterrupt as interrupt:  # `Interrupted` too
            _say(str(interrupt) or "interrupted")
            return _INTERRUPTED
        except FgmbsError as error:
            _say(f"error: {error}")
            return _FAILED
    return 0


def _parse(args: list[str]) -> Simulate | Inverse | Run | RunInverse | Check:
    commands = Simulate | Inverse | Run | Check
    command, unknown = tyro.cli(commands, args=args, prog="fgmbs", return_unknown_args=True)
    if isinstance(command, Run):
        # Once more, now that the file says what the options replace. A mapping is added to, name by name.
        experiment = read_experiment(command.file)
        kind: type = RunInverse if isinstance(experiment, InverseExperiment) else Run
        mappings = [key for key, value in experiment if isinstance(value, dict)]
        default = kind(command.file, experiment.model_copy(update={key: {} for key in mappings}))
        given = tyro.cli(kind, default=default, args=args[1:], prog="fgmbs run").experiment
        merged = {key: getattr(experiment, key) | getattr(given, key) for key in mappings}
        return kind(command.file, given.model_copy(update=merged))
    if unknown:
        tyro.cli(commands, args=args, prog="fgmbs")  # exits with advice
    return command


def simulate(experiment: Experiment) -> None:
    """Simulates, writes the results, says how it went, draws.

    Raises:
        FgmbsError: Bad input, found before anything is compiled; or a solve that failed, its results being saved.
        Interrupted: Ctrl-C, the steps done being saved.
    """
    if found := limits(experiment):
        raise ArgumentError("\n".join(f"{dotted(fault.path)}: {fault.text}" for fault in found))
    mechanism = fgmbs.load(experiment.mechanism)
    truth = read_truth(experiment.truth, mechanism.coordinate_names) if experiment.truth else None
    _prepare(experiment)

    failure, clock = None, _Clock()
    try:
        with clock:
            simulation = fgmbs.simulate(
                mechanism,
                experiment.duration,
                experiment.dt,
                coordinates=experiment.coordinates,
                integrator=experiment.integrator,
                window=experiment.window,
                batch=experiment.batch,
                linear=experiment.linear,
                independent=experiment.independent,
                start=experiment.start,
                start_velocities=experiment.start_velocities,
                progress=clock.tick,
            )
    except (Interrupted, SolveError) as error:
        assert isinstance(error.result, fgmbs.Simulation)
        failure, simulation = error, error.result

    dataset = results.to_dataset(simulation, config=experiment.model_dump())
    if truth is not None:
        dataset = results.with_truth(dataset, truth)
    _finish(dataset, simulation_summary(dataset, clock.seconds_per_step), experiment, failure)


def inverse(experiment: InverseExperiment) -> None:
    """Finds the forces of a desired motion, writes the results, says what they are, draws.

    Raises:
        FgmbsError: Bad input; or a motion that cannot be made, its results being saved.
    """
    mechanism = fgmbs.load(experiment.mechanism)
    t, desired = fgmbs.read_motion(experiment.trajectory, mechanism, experiment.columns)
    _prepare(experiment)

    failure, start = None, time.perf_counter()
    try:
        motion = fgmbs.inverse_dynamics(
            mechanism,
            t,
            desired,
            experiment.actuators,
            tracking=experiment.tracking,
            effort=experiment.effort,
            smoothness=experiment.smoothness or None,
            sigma=experiment.sigma,
            start=experiment.start,
            covariance=experiment.covariance,
        )
    except SolveError as error:
        assert isinstance(error.result, fgmbs.DrivenMotion)
        failure, motion = error, error.result
    jax.block_until_ready(motion)
    seconds = time.perf_counter() - start

    dataset = results.to_dataset(motion, config=experiment.model_dump())
    _finish(dataset, driven_summary(dataset, seconds), experiment, failure)


def _prepare(experiment: Output) -> None:
    """Makes sure that there will be a place for results and figures before anything is computed."""
    if experiment.plots or experiment.animate:
        plots.require_matplotlib()
    _claim(Path(experiment.out), experiment.overwrite)


def _finish(dataset, text: str, experiment: Output, failure: SolveError | Interrupted | None) -> None:
    """Writes the results, says how it went, draws.

    Raises:
        FgmbsError: The failure, if there was one.
    """
    folder = Path(experiment.out)
    results.write(dataset, folder / RESULTS)
    print(text)
    print(f"results       {folder / RESULTS}")
    if failure is not None:
        done = "samples" if "forces" in dataset else "steps up to there"
        failure.args = (f"{failure}; the {dataset.sizes['step']} {done} are in {folder / RESULTS}",)
        raise failure
    if experiment.plots:
        for path in plots.save_all(dataset, folder, animate=experiment.animate):
            print(f"figure        {path}")


def check(path: str) -> None:
    """Prints what there is to know about a mechanism before it is simulated."""
    mechanism = fgmbs.load(path)
    print(f"{path}: n = {mechanism.n} coordinates, m = {mechanism.m} constraints")
    print(f"actuators: {', '.join(_actuators(mechanism)) or 'none'}")
    q = assemble(mechanism)
    found = mobility(mechanism, q)
    redundant = [mechanism.constraint_names[row] for row in found.redundant_rows]
    print(f"dof = {found.dof}, rank {mechanism.m - len(redundant)} of {mechanism.m} constraints")
    for name in redundant:
        print(f"redundant: {name} follows from the constraints before it")
    if found.singular:
        print(f"warning: the pose is singular: {found.dof_here} degrees of freedom in it, {found.dof} nearby")
    drawn = np.asarray(mechanism.reference)
    print("assembled pose, and how far it is from the drawing:")
    for name, value, reference in zip(mechanism.coordinate_names, np.asarray(q), drawn, strict=True):
        print(f"  {name:<14} {value:>14.9g}   {value - reference:+.1e}")


def _actuators(mechanism: PlanarMechanism) -> list[str]:
    """What each actuator does."""
    texts = []
    for name, actuator in zip(mechanism.actuator_names, mechanism.description.actuators, strict=True):
        match actuator:
            case schema.AngleActuatorDescription(angle=angle):
                does = f"torque on {angle}"
            case schema.CoordinateActuatorDescription(coordinate=coordinate):
                does = f"force on {coordinate}"
            case schema.PointsActuatorDescription(points=points):
                does = f"force between {' and '.join(mechanism.point_names[point] for point in points)}"
            case schema.BodyActuatorDescription(body=body):
                does = f"torque on {mechanism.body_names[body]}"
        texts.append(f"{name} ({does})")
    return texts


class _Clock:
    """A progress bar, and the time per step once compiled."""

    def __init__(self):
        self.bar = tqdm(desc="compiling", unit="step", leave=False, delay=0.5)
        self.seen: list[tuple[int, float]] = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bar.close()

    def tick(self, done: int, total: int) -> None:
        self.seen.append((done, time.perf_counter()))
        self.bar.total = total
        self.bar.set_description("simulating", refresh=False)
        self.bar.update(done - self.bar.n)

    @property
    def seconds_per_step(self) -> float | None:
        """From the end of the first part, which includes the compilation, to that of the last."""
        if len(self.seen) < 2:
            return None
        (first, start), (last, end) = self.seen[0], self.seen[-1]
        return (end - start) / (last - first)


def _claim(folder: Path, overwrite: bool) -> None:
    """Makes the output folder and makes sure that it can be written to."""
    try:
        if folder.is_dir() and not overwrite and any(folder.iterdir()):
            raise ArgumentError(
                f"out: expected a new or empty folder; found files in '{folder}'; name another one or use --overwrite"
            )
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ArgumentError(
            f"out: expected a folder that can be written to; found '{folder}': {error.strerror}"
        ) from None


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
