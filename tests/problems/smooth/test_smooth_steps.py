"""Bands of the smoother do not depend on its time step: the noise of a step is the integral of a spectral density."""

import pytest
from fourbar_observed import recorded, smoothed, true_motion
from fourbar_steps import BANDS, CASES, bands, difference

from fgmbs.inputs import Disturbance, GaussMarkov, RandomWalk

EVERY, DURATION = 0.01, 0.3
ALL_AT_ONCE = Disturbance(0.05), RandomWalk("motor", 5.0), GaussMarkov("theta", 2.0, time_constant=0.2)


def widest_change(mechanism, inputs, steps):
    """Of all bands, from the first step to the others."""
    motion = true_motion(mechanism, round(DURATION / 1e-3) + 1, 0, power=0.05, dt=1e-3)
    recording = recorded(mechanism, motion, 0)
    first, *others = (bands(smoothed(mechanism, recording, inputs=inputs, dt=dt), EVERY) for dt in steps)
    return max(difference(other[name], first[name]) for other in others for name in BANDS)


@pytest.mark.slow
def test_bands_do_not_depend_on_the_time_step(fourbar_angle):
    """White forces, a random walk and a Gauss–Markov force together; of 5 ms the gyroscope reads between the steps."""
    assert widest_change(fourbar_angle, ALL_AT_ONCE, (0.002, 0.005)) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_bands_do_not_depend_on_the_time_step_with_any_force(fourbar_angle, case):
    assert widest_change(fourbar_angle, CASES[case], (0.001, 0.002, 0.005)) < 0.05
