"""Assembly by name: branches, angles, and what the errors say."""

import equinox as eqx
import jax.numpy as jnp
import linkages
import numpy as np
import pytest

from fgmbs.errors import ArgumentError, AssemblyError
from fgmbs.kinematics import assemble


@pytest.mark.parametrize("theta", [0.3, 2.0, -2.5, 3.1, 9.0])
def test_both_branches_of_the_fourbar(theta):
    mechanism = linkages.fourbar_angle()
    nearest = assemble(mechanism, {"theta": theta})
    other = assemble(mechanism, {"theta": theta}, branch="other")
    np.testing.assert_allclose(nearest[:4], linkages.fourbar_pose(theta, side=1), atol=1e-12)
    np.testing.assert_allclose(other[:4], linkages.fourbar_pose(theta, side=-1), atol=1e-12)
    assert nearest[4] == pytest.approx(theta, abs=1e-12)


def test_start_near_the_crossed_fourbar_stays_crossed():
    mechanism = linkages.fourbar_angle()
    start = np.append(linkages.fourbar_pose(0.5, side=-1) + 0.1, 0.5)
    q = assemble(mechanism, {"theta": 0.5}, start=start)
    np.testing.assert_allclose(q[:4], linkages.fourbar_pose(0.5, side=-1), atol=1e-12)


def test_angle_is_never_half_a_turn_off():
    """The nearest solution of sin(angle − θ) = 0 would leave the crank where it is."""
    q = assemble(linkages.fourbar_angle(), {"theta": np.pi})
    np.testing.assert_allclose(q[:2], [-1, 0], atol=1e-12)


def test_other_branch_of_a_free_fourbar_is_a_local_nearest_one():
    q = assemble(linkages.fourbar(), branch="other")
    poses = np.stack([linkages.fourbar_pose(theta, side=-1) for theta in np.linspace(-np.pi, np.pi, 20001)])
    distances = np.linalg.norm(poses - linkages.fourbar().reference, axis=1)
    np.testing.assert_allclose(q, poses[np.argmin(distances)], atol=5e-4)  # grid of 3e-4 rad


def test_slider_crank_formula():
    mechanism = linkages.slider_crank()
    q = assemble(mechanism, {"theta": 0.8})
    assert q[2] == pytest.approx(np.cos(0.8) + np.sqrt(9 - np.sin(0.8) ** 2), abs=1e-12)
    other = assemble(mechanism, {"theta": 0.8}, branch="other")
    assert other[2] == pytest.approx(np.cos(0.8) - np.sqrt(9 - np.sin(0.8) ** 2), abs=1e-12)


def test_prescribed_motion_is_assembled_at_its_time():
    q = assemble(linkages.driven_pendulum(), t=1.5)
    assert q[2] == pytest.approx(0.3 + 0.75 + 0.45, abs=1e-12)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"given": {"thetta": 0.3}}, r"given: there is no coordinate 'thetta'; did you mean 'theta'\?"),
        ({"given": {"zzz": 0.3}}, "no coordinate 'zzz'; known coordinates: x1, y1, x2, y2, theta"),
        ({"given": {"theta": np.nan}}, r"given\['theta'\]: expected a finite number; found nan"),
        ({"branch": "upper"}, "branch: expected 'nearest' or 'other'; found 'upper'"),
        ({"start": [1, 2]}, r"start: expected 5 numbers, .* found an array of shape \(2,\)"),
        ({"start": [1, 0, np.inf, 2, 0]}, "start: expected finite numbers; found x2 = inf"),
        ({"t": np.inf}, "t: expected a finite number; found inf"),
    ],
)
def test_arguments_that_cannot_be_meant(arguments, text):
    with pytest.raises(ArgumentError, match=text):
        assemble(linkages.fourbar_angle(), **arguments)


@pytest.mark.parametrize(
    "mechanism, given, text",
    [
        (linkages.fourbar((1, 2, 0.5, 4)), None, r"cannot be assembled .* leaves open 'coupler' by 0\.165, .*Check"),
        (linkages.fourbar_angle(), {"x1": 2.0}, "with x1 = 2: .* Without given values it can, with x1 = 1; sweep"),
        (linkages.truss(0.5, 0.5), None, r"over-constrained and inconsistent .*'left' by 0\.375, 'right' by 0\.375"),
        (linkages.contradiction(), None, "over-constrained and inconsistent .* 1 are indep.*'there' by 0.5, 'here'"),
        (linkages.truss(), {"y": 0.5}, "it has no degree of freedom, so that no coordinate can be given"),
    ],
    ids=["too-short", "out-of-reach", "truss", "contradiction", "no-freedom"],
)  # fmt: skip
def test_what_cannot_be_assembled_says_why(mechanism, given, text):
    with pytest.raises(AssemblyError, match=text):
        assemble(mechanism, given)


def test_redundant_rows_that_disagree_are_named():
    with pytest.raises(AssemblyError, match="over-constrained and inconsistent .*crank3"):
        assemble(linkages.unequal_cranks())


def test_numbers_that_are_not_finite_name_the_rows():
    mechanism = eqx.tree_at(lambda m: m.lengths, linkages.parallelogram(), jnp.array([jnp.nan, 2.0]))
    with pytest.raises(AssemblyError, match="not finite numbers at the start: 'crank1', 'crank2' and 'crank3'"):
        assemble(mechanism)


def test_missing_other_branch_is_said():
    with pytest.raises(AssemblyError, match="no other assembly was found with theta = 0.3"):
        assemble(linkages.pendulum(), {"theta": 0.3}, branch="other")
