"""Errors of the smoother over many seeds against its own account of them; the motions come from a Runge–Kutta rule."""

import numpy as np
import pytest
from counting import compilations
from fourbar_observed import errors, filtered, recorded, smoothed, true_motion
from scipy.stats import chi2

pytestmark = pytest.mark.slow

FEW = 60, 150
MANY = 200, 500
"""Seeds and steps."""


class Found:
    """What all seeds give."""

    def __init__(self, mechanism, seeds: int, steps: int):
        self.nees, self.covered, self.groups = [], [], []

        def estimate(seed):
            motion = true_motion(mechanism, steps, seed)
            ours = smoothed(mechanism, recorded(mechanism, motion, seed))
            found = errors(ours, motion)
            self.nees.append(found.nees)
            self.covered.append(found.covered)
            self.groups.append([(group.chi2, group.dof) for group in ours.groups])

        estimate(0)
        self.compiled = compilations(lambda: [estimate(seed) for seed in range(1, seeds)])


@pytest.fixture(scope="module", params=[FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def found(request, fourbar_angle):
    return Found(fourbar_angle, *request.param)


def spread(values):
    """Standard error of the mean over seeds, which do not depend on each other."""
    return np.std(values, axis=0, ddof=1) / np.sqrt(len(values))


def test_normalized_errors_follow_chi_squared_at_every_step(found):
    nees = np.array(found.nees)
    low, high = chi2.ppf([0.005, 0.995], 2 * len(nees)) / len(nees)
    means = np.mean(nees, axis=0)
    assert np.mean((means > low) & (means < high)) > 0.96  # steps depend on each other
    assert abs(np.mean(nees) - 2) < 2.6 * spread(np.mean(nees, axis=1))


def test_95_percent_bands_hold_95_percent_of_the_truths(found):
    covered = np.array(found.covered)
    gap = np.mean(covered, axis=0) - 0.95
    # Of all columns of q, dq and ddq; a normal variable of fifteen is within 3.3 in 99 of 100 cases.
    assert np.all(np.abs(gap) < 3.3 * spread(covered))
    assert np.all(spread(covered) < 0.03)  # or else that says nothing


def test_sums_of_squares_of_residuals_have_their_expectation(found):
    groups = np.array(found.groups)
    gap = groups[..., 0] - groups[..., 1]
    assert np.all(np.abs(np.mean(gap, axis=0)) < 2.8 * spread(gap))
    # Unknowns follow the residuals of forces nearly everywhere: their sum of squares varies less than χ².
    square, expected = np.sum(groups, axis=0).T
    low, high = chi2.ppf([0.005, 0.995], expected[:, None]).T
    assert np.all((square > low) & (square < high))


def test_other_recordings_compile_nothing(found):
    assert found.compiled == 0


def test_the_estimate_is_that_of_a_kalman_smoother(fourbar_angle):
    """Up to what it changes that the filter linearizes before it knows what comes: 2 % of the bands."""
    motion = true_motion(fourbar_angle, FEW[1], 3)
    recording = recorded(fourbar_angle, motion, 3)
    ours, theirs = smoothed(fourbar_angle, recording), filtered(fourbar_angle, recording, FEW[1]).smoothed
    for name in ("q", "dq", "ddq"):
        std, expected = np.asarray(getattr(ours, f"{name}_std")), np.asarray(getattr(theirs, f"sigma_{name}"))
        gap = np.abs(np.asarray(getattr(ours, name) - getattr(theirs, name)))
        typical = np.sqrt(np.mean(expected**2, axis=0))
        assert np.max(np.sqrt(np.mean(gap**2, axis=0)) / typical) < 0.15
        np.testing.assert_allclose(np.sqrt(np.mean(std**2, axis=0)), typical, rtol=0.05)
