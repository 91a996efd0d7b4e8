"""Starts to be compared with that of a motion that was found."""

import jax
import numpy as np

from fgmbs.inputs import memory_size
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.estimation.data import on_first_step
from fgmbs.problems.estimation.graph import SENSORS
from fgmbs.problems.estimation.noise_sizes import with_sizes
from fgmbs.problems.estimation.posterior import FactorRows
from fgmbs.problems.smooth.arguments import candidates_of, stacked
from fgmbs.problems.smooth.other_motions import Motion
from fgmbs.problems.smooth.problem import RecordingData, SmoothingProblem


def with_others(problem: SmoothingProblem, found: Motion, seed: int, *, of_motion: bool) -> SmoothingProblem:
    """The problem with the start of a motion as if it were given, and others to be compared with it.

    Args:
        problem: The problem.
        found: A motion that was found.
        seed: Others for every seed.
        of_motion: Others are those that first samples without noise cannot tell from the start of the motion. With
            noise a sample may be one that no pose makes, and leads those on both sides of a turning point to the same.
            Otherwise they are those that the first samples as they are cannot tell from where the motion was begun.

    Raises:
        AssemblyError: There is none.
    """
    resting = problem.mechanism.nv + memory_size(problem.inputs, problem.chart.dof)

    def of_one(recording, starts, steps, rows):
        start = starts.posed[starts.best]
        if of_motion:
            start, recording = steps[0], _without_noise_at_first(recording, found, rows)
        return recording._replace(**candidates_of(problem.mechanism, resting, start, seed))

    # In NumPy, which compiles nothing.
    told = found.at.starts, found.at.x.steps, found.seen.factors[SENSORS:]
    each = jax.tree.map(np.asarray, (problem.recording, *told))
    if not problem.several:
        return problem.of(jax.device_put(of_one(*each)))
    every = [of_one(*jax.tree.map(lambda leaf, k=k: np.asarray(leaf[k]), each)) for k in range(len(found.at.x.steps))]
    return problem.of(jax.tree.map(stacked, *every))


def _without_noise_at_first(recording: RecordingData, found: Motion, rows: tuple[FactorRows, ...]) -> RecordingData:
    """A recording whose samples on the first step are what a motion says that they should have been.

    Args:
        recording: The recording.
        found: The motion.
        rows: What it says of every sensor.
    """
    problem, sizes = found.problem, found.problem.sizes
    sensors = with_sizes(problem.sensors, problem.inputs, sizes.named(sizes.values(found.at.search.logs)))[0]
    parts = zip(recording.channels, sensors, rows, nominal_delays(sensors), problem.at_steps, strict=True)
    channels = []
    for channel, sensor, of_sensor, delay, at_steps in parts:
        if at_steps:  # other samples belong to intervals, none to the first step
            scale = of_sensor.scale[0]
            off = of_sensor.residual[0] * np.asarray(sensor.noise_sigma()) / np.where(scale > 0, scale, 1.0)
            here = on_first_step(channel, recording.start, recording.dt, float(delay), recording.count)
            channel = channel._replace(values=channel.values + np.where(here[:, None], off, 0.0))
        channels.append(channel)
    return recording._replace(channels=tuple(channels))
