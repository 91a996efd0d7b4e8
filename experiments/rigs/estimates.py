"""What the experiments with real recordings share: speed of solving, lateness of signals, what sensors should read."""

import time

import numpy as np

import fgmbs
from fgmbs.problems.smooth.smoothed_motion import SmoothedMotion
from fgmbs.signals.recordings.recording import Signal


def timed(*arguments, **options) -> tuple[SmoothedMotion, float]:
    """(`fgmbs.smooth` of the arguments, seconds it took); the first of a length compiles."""
    begun = time.perf_counter()
    motion = fgmbs.smooth(*arguments, **options)
    return motion, time.perf_counter() - begun


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def residual(motion: SmoothedMotion) -> float:
    """RMS of predicted less measured values of all sensors, in the unit they share."""
    return rms(np.concatenate([(fit.predicted - fit.measured).ravel() for fit in motion.fits]))


def lateness(signal: Signal, t: np.ndarray, reference: np.ndarray, limit: float = 0.03) -> tuple[float, float]:
    """(how much later a signal comes than a reference [s], RMS of their difference without that).

    The shift at which they differ least; within `limit` of the ends nothing is compared.
    """
    inner = (t > t[0] + limit) & (t < t[-1] - limit)
    lags = np.linspace(-limit, limit, 121)
    errors = [rms(np.interp(t[inner] + lag, signal.t, signal.values) - reference[inner]) for lag in lags]
    return float(lags[np.argmin(errors)]), float(np.min(errors))


def at(signal: Signal, t: np.ndarray) -> np.ndarray:
    """Values of a signal at other times."""
    return np.interp(t, signal.t, signal.values)


def predicted(motion: SmoothedMotion) -> fgmbs.Recording:
    """What the sensors should read at every step."""
    calibration: dict[str, dict[str, np.ndarray]] = {sensor.name: {} for sensor in motion.sensors}
    for sensor in motion.sensors:
        for key, unknown in sensor.unknowns.items():
            value = motion.unknowns[f"{sensor.name}.{key}"]
            calibration[sensor.name][key] = np.reshape(value, unknown.value.shape)
    return fgmbs.readings(motion.mechanism, motion, motion.sensors, forces={}, calibration=calibration)
