"""A mass of 2 kg on a line, pushed by white noise, whose place is read at every step: all of it by hand."""

import numpy as np

import fgmbs

MASS = 2.0


def mass():
    """The mechanism."""
    return fgmbs.load("configs/mechanisms/spring_mass_damper.yaml").with_parameters({"k": 0.0, "c": 0.0})


def step(power, dt):
    """(F, Q) of position and velocity over a step: x ← F x + N(0, Q)."""
    density = 2 * power / MASS
    return np.array([[1, dt], [0, 1]]), density * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])


def distribution(power, sigma, dt, steps, start, begun):
    """(mean, covariance) of all samples.

    Args:
        power: Of the disturbance.
        sigma: Standard deviation of a sample.
        dt: Time step.
        steps: How many there are.
        start: Mean position and velocity at the start …
        begun: … and their standard deviations.
    """
    F, Q = step(power, dt)
    mean, cov = [np.asarray(start)], [np.diag(np.square(begun))]
    for _ in range(steps - 1):
        mean.append(F @ mean[-1])
        cov.append(F @ cov[-1] @ F.T + Q)
    # cov(x_i, x_j) of positions, i before j: that of step i, and dt (j − i) times that of its position and velocity.
    k = np.arange(steps)
    first, later = np.minimum.outer(k, k), np.maximum.outer(k, k)
    own, cross = np.array(cov)[:, 0, 0], np.array(cov)[:, 0, 1]
    places = own[first] + dt * (later - first) * cross[first]
    return np.array(mean)[:, 0], places + sigma**2 * np.eye(steps)
