"""What the experiments on estimators of the four-bar share: its sensors, estimates of either kind, and their errors.

A gyroscope on the coupler reads 500 times a second, an encoder at the crank 100 times. Every truth starts from a state
drawn from the prior that the estimators are given, and moves under white forces.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from fourbar import MECHANISMS
from fourbar_truths import Truth, truth
from kalman import Estimate, Kalman, Measurement, kalman

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.losses import AbstractLoss
from fgmbs.sensors import Encoder, Gyroscope

FILE = MECHANISMS / "fourbar_crank_angle.yaml"
DT = 0.002
RATES = {"gyroscope": 500.0, "encoder": 100.0}
POWER = 0.5
"""Of the white forces [W]."""
INPUTS = (Disturbance(POWER),)
MEAN, STD = (0.2, 0.0), (0.05, 0.3)
"""Of the crank angle and its rate at the start [rad, rad/s]."""
BAND = 1.959963984540054
"""Standard deviations of a 95 % band."""


def sensors_with(loss: AbstractLoss | None = None) -> tuple[Gyroscope, Encoder]:
    """The gyroscope and the encoder."""
    return (
        Gyroscope("gyroscope", body="coupler", sigma=0.05, loss=loss),
        Encoder("encoder", of="theta", sigma=0.02, loss=loss),
    )


SENSORS = sensors_with()


def true_motion(mechanism, steps: int, seed: int, *, power: float = POWER, dt: float = DT) -> Truth:
    """A motion under white forces that no step of an estimate resolves."""
    return truth(mechanism, (steps - 1) * dt, dt, power, seed, mean=MEAN, std=STD, dt=2e-4)


def recorded(mechanism, motion, seed: int | None) -> fgmbs.Recording:
    """What the sensors read of it."""
    return fgmbs.readings(mechanism, motion, SENSORS, rates=RATES, seed=seed)


def smoothed(mechanism, recording, sensors=SENSORS, inputs=INPUTS, **options) -> fgmbs.SmoothedMotion:
    """The estimate by fgmbs; the crank angle is the independent coordinate, as for the Kalman filter."""
    options = {"dt": DT, "start": {"theta": MEAN[0]}, "start_sigma": STD, "independent": ("theta",), **options}
    return fgmbs.smooth(mechanism, recording, sensors, inputs, **options)


def filtered(mechanism, recording, steps: int, *, power=POWER, dt: float = DT) -> Kalman:
    """Extended Kalman filter and RTS smoother of the same recording."""
    gyroscope, encoder = SENSORS
    measurements = []
    for sensor, h in ((gyroscope, _coupler_rate), (encoder, _crank_angle)):
        signal = recording[sensor.name]
        y = np.unwrap(signal.values) if sensor is encoder else signal.values
        places = np.round(signal.t / dt).astype(int)
        measurements.append(Measurement(places, h, jnp.asarray(y)[:, None], np.array([[float(sensor.sigma) ** 2]])))
    return kalman(mechanism, ("theta",), dt, steps, measurements, MEAN, np.diag(np.square(STD)), power=power)


def _crank_angle(q, dq, ddq, t):
    return q[4:]


def _coupler_rate(q, dq, ddq, t):
    along, across = q[2:4] - q[:2], dq[2:4] - dq[:2]
    return jnp.stack([(along[0] * across[1] - along[1] * across[0]) / (along @ along)])


class Errors(NamedTuple):
    """Estimate less truth."""

    q: np.ndarray
    """(steps, 5)"""
    dq: np.ndarray
    ddq: np.ndarray
    normalized: np.ndarray
    """The errors of (q, dq, ddq), each by its standard deviation (steps, 15)."""
    nees: np.ndarray
    """eᵀ P⁻¹ e of the crank angle and its rate (steps,)."""

    @property
    def covered(self) -> np.ndarray:
        """Share of the steps at which the 95 % band of each of (q, dq, ddq) holds the truth (15,)."""
        return np.mean(np.abs(self.normalized) < BAND, axis=0)


def errors(estimate: fgmbs.SmoothedMotion | Estimate | Truth, motion: Truth) -> Errors:
    """How far an estimate is off, and how far by its own account; a motion that was simulated has none."""
    gaps = [np.asarray(getattr(estimate, name) - getattr(motion, name)) for name in ("q", "dq", "ddq")]
    if isinstance(estimate, Truth):
        nothing = np.full(len(gaps[0]), np.nan)
        return Errors(*gaps, np.full_like(np.concatenate(gaps, axis=1), np.nan), nothing)
    if isinstance(estimate, Estimate):
        cov, std = estimate.cov, (estimate.sigma_q, estimate.sigma_dq, estimate.sigma_ddq)
    else:
        crank = np.array([4, estimate.q.shape[1] + 4])
        cov = estimate.covariance[:, crank[:, None], crank]
        std = estimate.q_std, estimate.dq_std, estimate.ddq_std
    e = np.stack([gaps[0][:, 4], gaps[1][:, 4]], axis=1)
    nees = np.einsum("ki,ki->k", e, np.linalg.solve(np.asarray(cov), e[..., None])[..., 0])
    return Errors(*gaps, np.concatenate(gaps, axis=1) / np.concatenate(std, axis=1), nees)
