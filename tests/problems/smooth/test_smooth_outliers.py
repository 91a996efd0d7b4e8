"""Spikes in both sensors against the estimate of the clean recording: robust losses keep it, squares are ruined."""

import numpy as np
import pytest
from fourbar_observed import recorded, sensors_with, smoothed, true_motion
from fourbar_outliers import LOSSES, change, recognition, spiked

STEPS, SEED = 250, 0
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recordings(fourbar_angle):
    """(estimate of the clean recording, recording with spikes, where they are)."""
    recording = recorded(fourbar_angle, true_motion(fourbar_angle, STEPS, SEED), SEED)
    return smoothed(fourbar_angle, recording), *spiked(recording, 0.1, SEED)


def test_without_a_loss_spikes_ruin_the_estimate(fourbar_angle, recordings):
    clean, dirty, spikes = recordings
    ruined = smoothed(fourbar_angle, dirty, throw=False)
    assert np.median(change(ruined, clean)) > 1
    gyroscope = ruined.groups[0]
    assert gyroscope.chi2 > 20 * gyroscope.dof and gyroscope.p_value < 1e-6  # which the report tells
    assert recognition(ruined, spikes)[1] == 0


@pytest.mark.parametrize(
    ("loss", "limit"),
    # Of Huber's every spike keeps pulling with 1.3 deviations, which where two meet goes beyond the band.
    [("Tukey", 1), ("Cauchy", 1), ("Huber", 2)],
)
def test_a_robust_loss_keeps_the_estimate_within_its_band(fourbar_angle, recordings, loss, limit):
    clean, dirty, spikes = recordings
    ours = smoothed(fourbar_angle, dirty, sensors_with(LOSSES[loss]))
    changes = change(ours, clean)
    assert changes.max() < limit
    assert np.median(changes) < 0.4
    right, found, there = recognition(ours, spikes)
    assert right == there  # every spike is found …
    assert right > 0.8 * found  # … and one to two of a hundred good samples, which lie beyond 2.4 to 2.7 deviations
