"""What the commands do: each reads its files, computes, writes the results, says how it went and draws."""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

import fgmbs
from fgmbs import plots, results
from fgmbs.errors import ArgumentError, Interrupted, SolveError
from fgmbs.inputs import augmented
from fgmbs.io.experiments.experiment import Experiment, InverseExperiment, limits
from fgmbs.io.experiments.smooth_experiment import SmoothExperiment, smooth_limits
from fgmbs.io.experiments.truth import read_truth
from fgmbs.io.faults import Fault, dotted
from fgmbs.io.recordings import read_recordings
from fgmbs.io.sensor_files import build_sensors, unknown_of
from fgmbs.io.sensors import UnknownDescription
from fgmbs.io.settings import Output
from fgmbs.io.texts import file_of
from fgmbs.problems.identify.free import Parts, freed_by_name
from fgmbs.results.summaries import driven_summary, mechanism_summary, simulation_summary

RESULTS = "results.nc"
"""Name of the file of results in the output folder."""
IDENTIFIED = "identified.yaml"
"""Name of the file of a mechanism with the parameters that were found."""


def simulate(experiment: Experiment) -> None:
    """Simulates, writes the results, says how it went, draws.

    Raises:
        FgmbsError: Bad input, found before anything is compiled; or a solve that failed, its results being saved.
        Interrupted: Ctrl-C, the steps done being saved.
    """
    _refuse(limits(experiment))
    mechanism = fgmbs.load(experiment.mechanism, **experiment.robot.options)
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
    dataset = results.with_sensitivity(dataset, simulation)
    if truth is not None:
        dataset = results.with_truth(dataset, truth)
    _finish(dataset, simulation_summary(dataset, clock.seconds_per_step), experiment, failure)


def inverse(experiment: InverseExperiment) -> None:
    """Finds the forces of a desired motion, writes the results, says what they are, draws.

    Raises:
        FgmbsError: Bad input; or a motion that cannot be made, its results being saved.
    """
    mechanism = fgmbs.load(experiment.mechanism, **experiment.robot.options)
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


def _with_parameters(
    mechanism: fgmbs.PlanarMechanism | fgmbs.Robot, experiment: SmoothExperiment
) -> fgmbs.PlanarMechanism | fgmbs.Robot:
    """The mechanism with what the experiment says of its parameters.

    Raises:
        DescriptionError: A name that is no parameter, or invalid numbers.
    """
    if not experiment.parameters:
        return mechanism
    first, values = mechanism.physical_parameters(), {}
    for name, entry in experiment.parameters.items():
        try:
            is_number = not isinstance(entry, UnknownDescription)
            values[name] = entry if is_number else unknown_of(entry, first.get(name, 0.0))
        except ArgumentError as error:
            argument, _, text = str(error).partition(": ")
            within = (argument,) if argument in UnknownDescription.model_fields else ()
            raise experiment.error(("parameters", name, *within), text) from None
    return _changed(mechanism, values, experiment, ("parameters",))


def _changed(
    mechanism: fgmbs.PlanarMechanism | fgmbs.Robot,
    values: Mapping[str, Any],
    experiment: SmoothExperiment,
    path: tuple[str | int, ...],
) -> fgmbs.PlanarMechanism | fgmbs.Robot:
    """The mechanism with these parameters, which the experiment has at a path.

    Raises:
        DescriptionError: A name that is no parameter, or invalid numbers.
    """
    try:
        return mechanism.with_parameters(values)
    except ArgumentError as error:
        named = [name for name in values if repr(name) in str(error)][:1]
        raise experiment.error((*path, *named), str(error).partition(": ")[2]) from None


def _read(experiment: SmoothExperiment):
    """(mechanism, recordings, sensors, inputs) of the files of an experiment.

    Raises:
        FgmbsError: Bad input.
    """
    mechanism = _with_parameters(fgmbs.load(experiment.mechanism, **experiment.robot.options), experiment)
    for part in experiment.parts():
        _changed(mechanism, part.numbers, experiment, (*part.path, "numbers"))
    described = [build_sensors(file, mechanism) for file in experiment.sensor_files()]
    sensors = [sensor for part, _ in described for sensor in part]
    inputs = [force for _, part in described for force in part]
    return mechanism, read_recordings(experiment), sensors, inputs


def smooth(experiment: SmoothExperiment) -> None:
    """Estimates a motion from recordings, writes the results, reports, draws.

    Raises:
        FgmbsError: Bad input; or a solve that failed, its results being saved.
        Interrupted: Ctrl-C, the best that was reached being saved.
    """
    _refuse(smooth_limits(experiment))
    mechanism, recordings, sensors, inputs = _read(experiment)
    forces = [force.name for force in augmented(inputs)]
    truth = read_truth(experiment.truth, mechanism.coordinate_names, forces) if experiment.truth else None
    _prepare(experiment)

    failure, start = None, time.perf_counter()
    try:
        with _Phases() as phases:
            motion = fgmbs.smooth(
                mechanism,
                recordings,
                sensors,
                inputs,
                dt=experiment.dt,
                window=experiment.window,
                start=experiment.starts("start"),
                start_velocities=experiment.starts("start_velocities"),
                start_sigma=experiment.start_sigma,
                independent=experiment.independent,
                progress=phases.tell,
            )
    except (Interrupted, SolveError) as error:
        assert isinstance(error.result, fgmbs.SmoothedMotion)
        failure, motion = error, error.result
    jax.block_until_ready(motion)
    seconds = time.perf_counter() - start

    dataset = results.to_dataset(motion, config=experiment.model_dump(mode="json"))
    if truth is not None:
        dataset = results.with_truth(dataset, truth)
    _finish(dataset, results.estimate_report(dataset, seconds), experiment, failure)


_UNUSED_BY_IDENTIFY = {
    "window": "as parameters are found from all steps at once",
    "independent": "as independent coordinates are chosen at every step",
    "truth": "as it is a motion; `fgmbs smooth` compares with it",
}
"""Keys of an experiment that state estimation reads, and why identification does not."""


def identify(experiment: SmoothExperiment) -> None:
    """Finds parameters from recordings, writes them, the mechanism with them and the motion, reports.

    Raises:
        FgmbsError: Bad input; or a solve that failed, its results being saved.
        Interrupted: Ctrl-C, the best that was reached being saved.
    """
    _refuse(smooth_limits(experiment))
    mechanism, recordings, sensors, inputs = _read(experiment)
    free = _free(experiment, Parts(mechanism, tuple(sensors), tuple(inputs)), len(recordings))
    _prepare(experiment)

    failure, start = None, time.perf_counter()
    try:
        with _Phases() as phases:
            fit = fgmbs.identify(
                mechanism,
                recordings,
                sensors,
                inputs,
                free=free,
                method=experiment.method,
                horizon=experiment.horizon,
                restarts=experiment.restarts,
                dt=experiment.dt,
                start=experiment.starts("start"),
                start_velocities=experiment.starts("start_velocities"),
                start_sigma=experiment.start_sigma,
                progress=phases.tell,
            )
    except (Interrupted, SolveError) as error:
        assert isinstance(error.result, fgmbs.Identification)
        failure, fit = error, error.result
    seconds = time.perf_counter() - start

    folder = Path(experiment.out)
    written = folder / IDENTIFIED
    text = file_of(fit.mechanism)
    if text is not None:
        written.write_text(text)
    if fit.states is not None:
        dataset = results.to_dataset(fit.states, config=experiment.model_dump(mode="json"))
        results.write(dataset, folder / RESULTS)
    print(f"{fit.report()}\n")
    for key, why in _UNUSED_BY_IDENTIFY.items():
        if getattr(experiment, key) is not None:
            print(f"note          {key}: not used, {why}")
    print(f"time          {seconds:.3g} s including compilation")
    if text is not None:
        print(f"mechanism     {written}")
    if fit.states is not None:
        print(f"results       {folder / RESULTS}")
    if experiment.plots and fit.states is not None:
        for path in plots.save_identification(fit, dataset, folder):
            print(f"{'report' if path.suffix == '.html' else 'figure':<13} {path}")
    if failure is not None:
        failure.args = (f"{failure}; what was reached is in {folder}",)
        raise failure


def _free(experiment: SmoothExperiment, parts: Parts, recordings: int) -> dict[str, Any]:
    """What the experiment says of the parameters to find.

    Raises:
        DescriptionError: Nothing is to be found, a name that is none of a number, or invalid numbers.
    """
    if not experiment.free:
        raise experiment.error(("free",), "expected names of the parameters to find; found none")
    wanted = {}
    for name, entry in experiment.free.items():
        wanted[name] = entry.model_dump(exclude_none=True) if isinstance(entry, UnknownDescription) else entry
        try:
            freed_by_name(parts, {name: wanted[name]}, recordings)
        except ArgumentError as error:
            raise experiment.error(("free", name), str(error).partition(": ")[2]) from None
    return wanted


def _refuse(found: list[Fault]) -> None:
    """Raises what is wrong with settings that come from the command line."""
    if found:
        raise ArgumentError("\n".join(f"{dotted(fault.path)}: {fault.text}" for fault in found))


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
        steps = dataset.sizes["step"]
        if results.is_estimate(dataset):
            done = f"what was reached of the {steps} steps is"
        else:
            done = f"the {steps} {'samples' if 'forces' in dataset else 'steps up to there'} are"
        failure.args = (f"{failure}; {done} in {folder / RESULTS}",)
        raise failure
    if experiment.plots:
        for path in plots.save_all(dataset, folder, animate=experiment.animate):
            print(f"{'report' if path.suffix == '.html' else 'figure':<13} {path}")


def check(path: str) -> None:
    """Prints what there is to know about a mechanism before it is simulated."""
    print(f"{path}: {mechanism_summary(fgmbs.load(path))}")


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


class _Phases:
    """A line that says what is being done."""

    def __init__(self):
        self.bar = tqdm(desc="compiling", bar_format="{desc} [{elapsed}]", leave=False, delay=0.5)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bar.close()

    def tell(self, phase: str, number: int, cost: float) -> None:
        known = "" if np.isnan(cost) else f", round {number + 1}, cost {cost:.6g}"
        self.bar.set_description_str(f"{phase}{known}")


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
