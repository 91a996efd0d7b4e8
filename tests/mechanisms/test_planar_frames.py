"""Frames of bodies, points by name, gravity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import ArgumentError


def test_the_frame_of_a_body_runs_from_its_first_to_its_second_point(everything, state):
    q, _, t = state
    points = np.asarray(everything.point_positions(q))
    for name, (first, second, *_) in zip(everything.body_names, everything.body_points, strict=True):
        rotation, origin = everything.body_frame(name, q, t)
        d = points[second] - points[first]
        np.testing.assert_allclose(origin, points[first])
        np.testing.assert_allclose(rotation @ jnp.array([np.hypot(*d), 0.0]), d, atol=1e-14)
        np.testing.assert_allclose(rotation.T @ rotation, np.eye(2), atol=1e-14)
        np.testing.assert_allclose(np.linalg.det(rotation), 1)


def test_points_are_found_by_name(everything, state):
    q = state[0]
    for name, position in zip(everything.point_names, everything.point_positions(q), strict=True):
        np.testing.assert_array_equal(everything.point_position(name, q), position)


def test_gravity_is_that_of_the_description_and_follows_its_parameters(everything):
    np.testing.assert_array_equal(everything.gravity, [0, -9.81])
    slope = jax.grad(lambda g: everything.with_parameters({"gravity.y": g}).gravity @ jnp.array([1.0, 2.0]))(-1.0)
    assert slope == 2


def test_names_that_are_not_there(everything, state):
    q, _, t = state
    with pytest.raises(
        ArgumentError, match="body: there is no body 'crunk'; did you mean 'crank'. known bodies: crank,"
    ):
        everything.body_frame("crunk", q, t)
    with pytest.raises(ArgumentError, match="point: there is no point 'Z'; known points: A, B,"):
        everything.point_position("Z", q)
