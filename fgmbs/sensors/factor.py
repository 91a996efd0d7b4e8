"""Sensors: what they should read of a motion against what they did read."""

import jax
from jaxtyping import Array, Float

from fgmbs.dynamics.forcing import Forcing, Frames
from fgmbs.dynamics.transitions import State, between
from fgmbs.factors.base import Instant
from fgmbs.sensors.base import AbstractSensor, Reading
from fgmbs.typing import Coordinates, Scalar, Velocities


def measurement(at: Instant, *variables: Array) -> Float[Array, " rows"]:
    """Predicted minus measured of all samples of a sensor that belong to a step, one after the other.

    The variables are (q, dq, u) of the step; in the scope "interval", (q, dq, u) of two steps, between which the
    samples lie. `at.shared` has the sensor and behind it the commands, `at.data` = (`Forcing`, delay that the fractions
    allow for already [s], None for that of the sensor), `at.series` = (samples (slots, rows), fraction of the interval
    (slots,), commands (slots, nc), `Frames` of both ends or None).
    """
    (sensor, *_), (forcing, delay) = at.shared.values(), at.data
    forcing = forcing.sharing(at.shared)
    samples, fractions, commands, frames = at.series
    if delay is not None:
        fractions = fractions - (sensor.delay - delay) / at.dt

    def error(sample, fraction, c):
        return sensor.error(predicted(at, sensor, forcing, c, frames, variables, fraction), sample)

    return jax.vmap(error)(samples, fractions, commands).ravel()


def predicted(
    at: Instant,
    sensor: AbstractSensor,
    forcing: Forcing,
    c: Float[Array, " nc"],
    frames: Frames | None,
    variables: tuple[Coordinates | Velocities | Float[Array, " nu"], ...],
    fraction: Scalar,
) -> Float[Array, " rows"]:
    """What a sensor should read."""
    if len(variables) == 3:
        (q, dq, u), t = variables, at.t
        everywhere = forcing.everywhere(frames, u, u, 1.0)
    else:
        q0, dq0, u0, q1, dq1, u1 = variables
        q, dq = between(at.mechanism, fraction, at.dt, State(q0, dq0), State(q1, dq1))
        u = u0 + fraction * (u1 - u0)
        everywhere = forcing.everywhere(frames, u0, u1, fraction)
        t = at.t + (fraction - 1) * at.dt
    if sensor.feels_forces:
        c = forcing.acting(at.shared, c, t, at.dt)
    ddq, lambda_ = forcing.motion(at.mechanism, q, dq, t, u, c, everywhere) if sensor.order >= 2 else (None, None)
    reading = Reading(q, dq, ddq, lambda_ if sensor.order >= 3 else None, forcing.by_target(u, c), t)
    return sensor.predict(at.mechanism, reading)
