"""Sweeps of one coordinate: full turns, dead points, change points."""

import linkages
import numpy as np
import pytest

from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.kinematics import DeadPointError, sweep


def test_fourbar_turns_fully_and_comes_back():
    theta = np.linspace(0, 2 * np.pi, 73)
    q = sweep(linkages.fourbar_angle(), "theta", theta)
    np.testing.assert_allclose(q[:, :4], [linkages.fourbar_pose(angle) for angle in theta], atol=1e-12)
    np.testing.assert_allclose(q[-1, :4], q[0, :4], atol=1e-12)


def test_crossed_fourbar_stays_crossed_over_a_turn():
    theta = np.linspace(0, 2 * np.pi, 73)
    start = np.append(linkages.fourbar_pose(0.0, side=-1), 0.0)
    q = sweep(linkages.fourbar_angle(), "theta", theta, start)
    np.testing.assert_allclose(q[:, :4], [linkages.fourbar_pose(angle, side=-1) for angle in theta], atol=1e-12)


def test_coarse_values_are_divided():
    q = sweep(linkages.fourbar_angle(), "theta", [0.0, 2.5, 5.0, 2 * np.pi + 1])
    np.testing.assert_allclose(q[:, :4], [linkages.fourbar_pose(a) for a in (0, 2.5, 5, 1)], atol=1e-12)


def test_dead_point_ends_the_sweep_with_what_was_reached():
    values = np.linspace(0, 2, 21)
    with pytest.raises(DeadPointError, match="'y1' cannot go beyond 1 towards 1.1 .* 11 of 21 values") as caught:
        sweep(linkages.fourbar(), "y1", values)
    error = caught.value
    assert error.limit == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(error.values, values[:11])
    np.testing.assert_allclose(error.q[:, :2], [[np.sqrt(max(1 - y**2, 0)), y] for y in values[:11]], atol=1e-6)


def test_parallelogram_passes_its_change_point_without_changing_branch():
    """At θ = 0 and π parallelogram and antiparallelogram meet."""
    theta = np.linspace(0.5, 0.5 + 2 * np.pi, 41)
    theta[10] = np.pi
    q = sweep(linkages.driven_parallelogram(), "theta", theta)
    np.testing.assert_allclose(q[:, 2] - q[:, 0], 2, atol=1e-6)
    np.testing.assert_allclose(q[:, 1], np.sin(theta), atol=1e-9)


def test_what_cannot_be_swept():
    with pytest.raises(ArgumentError, match="name: there is no coordinate 'phi'"):
        sweep(linkages.fourbar_angle(), "phi", [0.0, 1.0])
    with pytest.raises(ArgumentError, match=r"values\[1\]: expected a finite number; found nan"):
        sweep(linkages.fourbar_angle(), "theta", [0.0, np.nan])
    with pytest.raises(ArgumentError, match="at least one value"):
        sweep(linkages.fourbar_angle(), "theta", [])
    with pytest.raises(ArgumentError, match="no degree of freedom, so that 'y' cannot be swept"):
        sweep(linkages.truss(), "y", [1.0, 1.2])
    with pytest.raises(AssemblyError, match="with x1 = 3"):
        sweep(linkages.fourbar_angle(), "x1", [3.0, 4.0])
