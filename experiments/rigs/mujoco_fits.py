"""The same fits by `mujoco.sysid`, the toolbox for identification that comes with MuJoCo."""

import contextlib
import io
import re
import time
from collections.abc import Callable

import mujoco
import numpy as np
from mujoco import sysid

from rigs.simulation_error import Fit, Free, Readings


def by_mujoco(
    spec: mujoco.MjSpec,
    build: Callable[[dict[str, float], mujoco.MjSpec], None],
    readings: Readings,
    free: Free,
    start: Free,
    *,
    fit_start: bool = True,
    **options,
) -> Fit:
    """The least simulation error by `mujoco.sysid.optimize`.

    Sensors of a rollout lag behind the times that they are given by a step; the state does not, so it is compared.
    Rows are weighed so that each is in standard deviations of its noise, as with the other tools.

    Args:
        spec: The model; its joints are what is read, in order.
        build: Writes numbers by name into a model.
        readings: What is fitted.
        free: Numbers of the model.
        start: Those of the first state, by names in the order of (q, dq).
        fit_start: Whether the first state is found, too, by a rollout of one's own; the tool itself holds it.
        options: Of `mujoco.sysid.optimize`.
    """
    begun = time.perf_counter()
    model = spec.compile()
    names, nq = list(free), model.nq
    grid = np.arange(0.0, readings.t[-1] + 2 * model.opt.timestep, model.opt.timestep)
    observed = [(f"{model.joint(k).name}_qpos", sysid.SignalType.MjStateQPos) for k in range(nq)]
    measured = sysid.TimeSeries.from_names(readings.t, readings.values, model, observed)
    commands = np.tile(readings.held(grid)[:, None], (1, model.nu))
    control = sysid.TimeSeries.from_control_names(grid, commands, model)
    first, _, _ = bounds = tuple(np.array(list(start.values()), float).T)
    state = sysid.create_initial_state(model, first[:nq], first[nq:])
    sequences = sysid.ModelSequences("rig", spec, "recording", state, control, measured)
    parameters = sysid.ParameterDict()
    for name, (value, lower, upper) in free.items():
        parameters.add(sysid.Parameter(name, value, lower, upper))
    if fit_start:
        parameters.add(sysid.Parameter("start", *bounds))
    count = 0

    def built(parameters, spec):
        nonlocal count
        count += 1
        build({name: float(parameters[name].value[0]) for name in names}, spec)
        return spec.compile()

    def rollout(*, models, initial_states, param_dicts, **rest):
        own = [np.concatenate([[0.0], parameters["start"].value]) for parameters in param_dicts]
        states = [np.concatenate([x, state[len(x) :]]) for x, state in zip(own, initial_states, strict=True)]
        return sysid.sysid_rollout(models=models, initial_states=states, **rest)

    # The tool divides by the size of the signal.
    seen = readings.values[(readings.t >= grid[1]) & (readings.t <= grid[-1])]
    residual = sysid.build_residual_fn(
        models_sequences=[sequences],
        build_model=built,
        custom_rollout=rollout if fit_start else None,
        enabled_observations=observed,
        sensor_weights=np.linalg.norm(seen, axis=0) / np.sqrt(2) / readings.sigma,
        n_threads=1,
    )
    said = io.StringIO()
    with contextlib.redirect_stdout(said):  # its solver cannot be made silent, and says nowhere else how it ended
        found, told = sysid.optimize(parameters, residual, verbose=False, **options)
    status = re.search(r"Terminated after \d+ iterations: (.*?)\.? y:", said.getvalue())
    left, _, _ = residual(told.x, found)
    covariance, _ = sysid.calculate_intervals(left, told.jac)
    std = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    errors = np.concatenate(left).reshape(-1, nq) * readings.sigma
    rms = np.sqrt(np.mean(errors**2, axis=0))
    values = {name: float(found[name].value[0]) for name in names}
    spread = dict(zip(names, std.tolist(), strict=False))
    return Fit(values, spread, rms, time.perf_counter() - begun, 0.0, count, status[1] if status else "unknown")
