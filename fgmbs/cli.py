"""The command line: `fgmbs simulate`, `fgmbs run`, `fgmbs check`."""

import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from tqdm import tqdm

import fgmbs
from fgmbs import plots, results
from fgmbs.errors import ArgumentError, FgmbsError, Interrupted, SolveError
from fgmbs.io.experiment import Experiment, Settings, limits, read_experiment
from fgmbs.io.faults import dotted
from fgmbs.io.truth import read_truth
from fgmbs.kinematics import assemble, mobility

RESULTS = "results.nc"
"""Name of the file of results in the output folder."""

_FAILED, _INTERRUPTED = 2, 130


@dataclass
class Simulate:
    """Simulate the motion of a mechanism."""

    mechanism: tyro.conf.Positional[str]
    """Mechanism file."""
    settings: tyro.conf.OmitArgPrefixes[Settings] = Settings()  # noqa: RUF009


@dataclass
class Run:
    """Run an experiment file; options replace what the file says."""

    file: tyro.conf.Positional[str]
    """Experiment file."""
    experiment: tyro.conf.OmitArgPrefixes[Experiment] = Experiment(mechanism="as in the file")


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
                case Simulate(mechanism, settings):
                    simulate(Experiment(mechanism=mechanism, **settings.model_dump()))
        except KeyboardInterrupt as interrupt:  # `Interrupted` too
            _say(str(interrupt) or "interrupted")
            return _INTERRUPTED
        except FgmbsError as error:
            _say(f"error: {error}")
            return _FAILED
    return 0


def _parse(args: list[str]) -> Simulate | Run | Check:
    command, unknown = tyro.cli(Simulate | Run | Check, args=args, prog="fgmbs", return_unknown_args=True)
    if isinstance(command, Run):
        # Once more, now that the file says what the options replace. A mapping is added to, name by name.
        experiment = read_experiment(command.file)
        default = Run(command.file, experiment.model_copy(update={"start": {}, "start_velocities": {}}))
        given = tyro.cli(Run, default=default, args=args[1:], prog="fgmbs run").experiment
        merged = {key: getattr(experiment, key) | getattr(given, key) for key in ("start", "start_velocities")}
        return Run(command.file, given.model_copy(update=merged))
    if unknown:
        tyro.cli(Simulate | Run | Check, args=args, prog="fgmbs")  # exits with advice
    return command


def simulate(experiment: Experiment) -> None:
    """Simulates, writes the results, says how it went, draws.

    Raises:
        FgmbsError: Bad input, found before anything is compiled; or a solve that failed, its results being saved.
        Interrupted: Ctrl-C, the steps done being saved.
    """
    if found := limits(experiment):
        raise ArgumentError("\n".join(f"{dotted(fault.path)}: {fault.text}" for fault in found))
    folder = Path(experiment.out)
    mechanism = fgmbs.load(experiment.mechanism)
    truth = read_truth(experiment.truth, mechanism.coordinate_names) if experiment.truth else None
    if experiment.plots or experiment.animate:
        plots.require_matplotlib()
    _claim(folder, experiment.overwrite)

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
    results.write(dataset, folder / RESULTS)
    print(summary(dataset, clock.seconds_per_step))
    print(f"results       {folder / RESULTS}")
    if failure is not None:
        failure.args = (f"{failure}; the {dataset.sizes['step']} steps up to there are in {folder / RESULTS}",)
        raise failure
    if experiment.plots:
        for path in plots.save_all(dataset, folder, animate=experiment.animate):
            print(f"figure        {path}")


def summary(dataset, seconds_per_step: float | None = None) -> str:
    """How a simulation went, in a few lines."""
    names = dataset.coordinate.values
    dt = float(dataset.t[1] - dataset.t[0]) if dataset.sizes["step"] > 1 else float("nan")
    iterations = dataset["iterations"].values
    drift = np.max(np.abs(results.energy_drift(dataset)))
    largest = float(dataset["kinetic"].max())
    lines = [
        ("mechanism", f"{dataset.attrs['name']}: {', '.join(names[:8])}{', …' * (len(names) > 8)}"),
        ("steps", f"{dataset.sizes['step']} up to t = {float(dataset.t[-1]):g} s, dt = {dt:g} s"),
        ("status", dataset.attrs["status"]),
        ("iterations", f"{iterations.mean():.2f} per step, at most {iterations.max()}"),
        ("max |Phi|", f"{float(dataset['constraint_norm'].max()):.2e}"),
    ]
    if not dataset.attrs["driven"]:  # else the motor's work is missing from the balance
        relative = f" ({drift / largest:.2e} of the largest kinetic energy)" if largest > 0 else ""
        lines.append(("energy drift", f"{drift:.2e} J{relative}"))
    if "truth_q" in dataset:
        lines += [(f"RMSE {key}", f"{value:.3e}") for key, value in results.rmse(dataset).items()]
    if seconds_per_step is not None:
        lines.append(("time", f"{seconds_per_step * 1e6:.1f} µs per step after compilation"))
    return "\n".join(f"{name:<13} {text}" for name, text in lines)


def check(path: str) -> None:
    """Prints what there is to know about a mechanism before it is simulated."""
    mechanism = fgmbs.load(path)
    print(f"{path}: n = {mechanism.n} coordinates, m = {mechanism.m} constraints")
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
