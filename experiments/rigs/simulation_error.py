"""Parameters of a mechanism by fitting whole free runs: what `fgmbs.identify` is compared with."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import least_squares

Free = Mapping[str, tuple[float, float, float]]
"""First value, least and largest one of every free number."""


class Readings(NamedTuple):
    """Coordinates as they were read, and a command that is held between its stamps."""

    t: Float[np.ndarray, " samples"]
    """From the first sample on [s]."""
    values: Float[np.ndarray, "samples n"]
    names: tuple[str, ...]
    """Of the coordinates."""
    sigma: float
    """Noise of each."""
    command: tuple[Float[np.ndarray, " stamps"], Float[np.ndarray, " stamps"]]
    """(stamps, values), the first one at 0 s."""

    def held(self, t: Float[np.ndarray, " steps"]) -> Float[np.ndarray, " steps"]:
        """The command at other times."""
        stamps, values = self.command
        return values[np.maximum(np.searchsorted(stamps, t, side="right") - 1, 0)]


class Fit(NamedTuple):
    """What a tool found."""

    values: dict[str, float]
    std: dict[str, float]
    """Empty where the tool tells none."""
    rms: Float[np.ndarray, " n"]
    """Of the recording, by the tool's own free run; nan where it makes none."""
    seconds: float
    compiling: float
    """Part of it."""
    evaluations: int
    """Free runs of the recording, or iterations of `fgmbs.identify`, of which each runs through it once or twice."""
    status: str


def bounds_of(free: Free) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first values, lower and upper bounds)."""
    first, lower, upper = np.array(list(free.values()), float).T
    return first, lower, upper


def by_scipy(rates: Callable, readings: Readings, free: Free, start: Free, dt: float, limit: int = 100) -> Fit:
    """The least simulation error by `scipy.optimize.least_squares`, as it comes but for the scale of the unknowns.

    The motion is integrated by Runge and Kutta's rule of fourth order.

    Args:
        rates: Of the state (q, dq) under (numbers by name, state, command).
        readings: What is fitted.
        free: Numbers of the model.
        start: Those of the first state, by names in the order of (q, dq).
        dt: Time step [s].
        limit: Of steps.
    """
    begun = time.perf_counter()
    names = list(free)
    grid = np.arange(0.0, readings.t[-1] + 2 * dt, dt)
    commands = jnp.asarray(readings.held(grid))
    nq = len(readings.names)
    biases = [f"{name}.bias" for name in readings.names]

    def rows(x: Float[Array, " p"]) -> Float[Array, "samples n"]:
        numbers = dict(zip(names, x, strict=False))
        f = lambda state, u: rates(numbers, state, u)

        def step(state, u):
            a = f(state, u)
            b = f(state + dt / 2 * a, u)
            c = f(state + dt / 2 * b, u)
            d = f(state + dt * c, u)
            return state + dt / 6 * (a + 2 * b + 2 * c + d), state

        _, states = jax.lax.scan(step, x[len(names) :], commands)
        q = jnp.stack([jnp.interp(readings.t, grid, states[:, k]) for k in range(nq)], axis=1)
        return q + jnp.stack([numbers.get(bias, 0.0) for bias in biases]) - readings.values

    run = jax.jit(rows)
    count = 0

    def residual(x):
        nonlocal count
        count += 1
        errors = np.asarray(run(x)).ravel() / readings.sigma
        return np.where(np.isfinite(errors), np.clip(errors, -1e6, 1e6), 1e6)

    x0, lower, upper = bounds_of({**free, **start})
    residual(x0)
    compiling = time.perf_counter() - begun
    found = least_squares(residual, x0, bounds=(lower, upper), x_scale="jac", max_nfev=limit)
    errors = found.fun.reshape(-1, nq) * readings.sigma
    spread = np.sqrt(2 * found.cost / (found.fun.size - x0.size) * np.diag(np.linalg.pinv(found.jac.T @ found.jac)))
    return Fit(
        dict(zip(names, found.x.tolist(), strict=False)),
        dict(zip(names, spread.tolist(), strict=False)),
        np.sqrt(np.mean(errors**2, axis=0)),
        time.perf_counter() - begun,
        compiling,
        count,
        {0: "limit"}.get(found.status, "converged"),
    )
