"""A point attached to a link: no mirror image, no singular collinear case."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.mechanisms.planar.constraints.rigid_point import rigid_point


def turned(angle, points, shift):
    c, s = np.cos(angle), np.sin(angle)
    return jnp.asarray(points @ np.array([[c, s], [-s, c]]) + shift)


@pytest.mark.parametrize("offset", [[0.5, 0.0], [-0.3, 0.8], [2.0, 0.0]])
def test_rigid_motion_satisfies_the_row_and_the_mirror_image_does_not(offset):
    xi, eta = offset
    body = np.array([[0.0, 0.0], [2.0, 0.0], [2.0 * xi, 2.0 * eta]])
    mirrored = body * [1.0, -1.0]
    a, b, p = turned(1.2, body, [0.3, -0.7])
    np.testing.assert_allclose(rigid_point(a, b, p, jnp.array(offset)), 0.0, atol=1e-15)
    a, b, p = turned(1.2, mirrored, [0.3, -0.7])
    np.testing.assert_allclose(jnp.linalg.norm(rigid_point(a, b, p, jnp.array(offset))), 4 * abs(eta), atol=1e-15)


def test_rows_fix_a_collinear_point():
    """Two distances of a point in line with both ends have dependent gradients; these two rows have not."""
    a, b = jnp.array([0.0, 0.0]), jnp.array([2.0, 0.0])
    jacobian = jax.jacfwd(rigid_point, argnums=2)(a, b, jnp.array([1.0, 0.0]), jnp.array([0.5, 0.0]))
    np.testing.assert_allclose(jacobian, np.eye(2), atol=1e-15)
