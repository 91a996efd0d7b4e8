"""State estimation: the motion, the forces and their uncertainty from what sensors have read."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from fgmbs.errors import ArgumentError, Interrupted
from fgmbs.inputs import AbstractInput
from fgmbs.kinematics.names import listed
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.problems.estimation_arguments import checked_start, checked_window
from fgmbs.problems.estimation_solution import PLACINGS, Progress, Solution, build
from fgmbs.problems.estimation_unknowns import checked_findable, checked_priors
from fgmbs.problems.simulation_arguments import Integrator, transition_of
from fgmbs.problems.smoothed_motion import SmoothedMotion
from fgmbs.recordings.recording import Recording
from fgmbs.sensors.base import AbstractSensor


def smooth(
    mechanism: AbstractMechanism,
    recording: Recording | Sequence[Recording],
    sensors: Sequence[AbstractSensor],
    inputs: Sequence[AbstractInput] = (),
    *,
    dt: float | None = None,
    window: int | None = None,
    start: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_velocities: Mapping[str, float] | Sequence[Mapping[str, float]] | None = None,
    start_sigma: tuple[float, float] | None = None,
    integrator: Integrator = "hermite_simpson",
    independent: Sequence[str] | None = None,
    weights: Literal["given", "auto"] = "given",
    throw: bool = True,
    progress: Progress | None = None,
) -> SmoothedMotion:
    """The motion that explains recordings best, the unknown forces on it, and how sure both are.

    The factor graph over all steps has the integration of the mechanism's dynamics between steps, with the unknown
    forces as its noise, and a factor for each sensor ([Blanco21] sections 3 and 4). Position and velocity constraints
    hold exactly: the solver moves in independent coordinates, chosen anew at every step. The noise of a step is the
    integral of spectral densities, so that nothing depends on the time step.

    Args:
        mechanism: The mechanism; numbers of it may be `Unknown`, and are found then, lengths and places of points, too.
        recording: What was recorded; several recordings share sensors and their calibration, each has a start of its
            own.
        sensors: What the signals mean; numbers of them may be `Unknown`.
        inputs: Forces that the description of the mechanism does not tell. By default a white `Disturbance` whose
            power is found from the data.
        dt: Time step; by default the interval between samples of the fastest sensor [s].
        window: None: all steps at once. A number: a fixed-lag smoother over the last so many steps.
        start: Coordinates at the start by name, of each recording if they differ; the rest is assembled. By default
            several starts are tried on the first samples.
        start_velocities: Velocities at the start by name.
        start_sigma: Standard deviations of the independent coordinates and of their velocities at the start. By default
            the start is a rough guess that counts for nothing.
        integrator: Integration rule between steps, see `simulate`; those of low order leave their truncation error to
            the unknown forces.
        independent: Coordinates in which the solver moves, by the names of their velocities; by default the best ones
            at every step.
        weights: "auto" also finds the standard deviations of the sensors from the data.
        throw: Raise if the solve fails; otherwise leave it to `status`.
        progress: Called with (what is being done, round, cost) from time to time.

    Raises:
        ArgumentError: An argument cannot be meant, a recording lacks a signal, no sensor sees the motion, or nothing
            tells an unknown number.
        AssemblyError: The start cannot be assembled.
        SolveError: The solve failed; its `result` holds the best that was reached.
        Interrupted: Ctrl-C; its `result` holds the best that was reached.
    """
    arguments = (mechanism, recording, sensors, inputs, dt, independent, weights, transition_of(integrator))
    problem, found = build(*arguments)
    starts = checked_start(problem.model, len(problem.steps), start, start_velocities, start_sigma)
    if window is not None:
        checked_window(window, len(problem.steps), found)
        checked_priors(problem.model.free)
    tell = progress or (lambda *_: None)
    solution = Solution(problem, found)
    try:
        if window is None:
            solution.begin(starts, tell)
            solution.solve(tell)
            for _ in range(PLACINGS):
                late = solution.lateness()
                if np.all(np.abs(late - np.asarray(solution.model.delays)) <= float(solution.model.dt) / 2):
                    break
                solution.place_again(build(*arguments, late)[0])
                solution.solve(tell)
        else:
            solution.follow(starts[0], int(window), tell)
    except KeyboardInterrupt:
        if solution.x is None:
            raise
        raise Interrupted(f"interrupted after {solution.iterations} iterations", solution.result()) from None
    result = solution.result()
    if solution.blind:
        names = listed(sensor.name for sensor in result.sensors)
        raise ArgumentError(f"sensors: nothing is observable: what {names} read does not depend on the motion")
    checked_findable(result.free, *solution.told)
    if throw:
        result.check()
    return result
