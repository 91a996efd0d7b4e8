"""Independent coordinates and the maps R and S."""

import equinox as eqx
import jax
import jax.numpy as jnp
import linkages
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.kinematics import (
    independent_coordinates,
    select_independent,
    selection_matrix,
    solve_position,
    velocity_maps,
)

MECHANISMS = {
    "fourbar": (linkages.fourbar(), 1),
    "fourbar_angle": (linkages.fourbar_angle(), 1),
    "parallelogram": (linkages.parallelogram(), 1),
    "double_pendulum": (linkages.double_pendulum(), 2),
    "slider_crank": (linkages.slider_crank(), 1),
}


@eqx.filter_jit
def _maps(mechanism, q, dof):
    B = select_independent(mechanism, q, 0.0, dof)
    return B, *velocity_maps(mechanism, q, 0.0, B), mechanism.constraint_jacobian(q, 0.0)


@pytest.mark.parametrize("name", MECHANISMS)
def test_maps_span_the_null_space_and_are_well_conditioned(name):
    mechanism, dof = MECHANISMS[name]
    start = mechanism.reference + 0.2 * jax.random.normal(jax.random.key(3), mechanism.reference.shape)
    q, _ = eqx.filter_jit(solve_position)(mechanism, start)
    B, S, R, Phi_q = _maps(mechanism, q, dof)
    np.testing.assert_allclose(Phi_q @ R, 0, atol=1e-12)
    np.testing.assert_allclose(B @ R, np.eye(dof), atol=1e-12)
    np.testing.assert_allclose(B @ S, 0, atol=1e-12)
    rng = np.random.default_rng(0)
    b = np.asarray(Phi_q) @ rng.standard_normal(mechanism.n)  # right-hand sides that redundant rows agree on
    np.testing.assert_allclose(Phi_q @ (S @ b), b, atol=1e-11)
    assert np.max(np.abs(R)) <= 1.01
    assert sorted(np.unique(np.asarray(B))) == [0.0, 1.0] and np.all(np.sum(B, axis=1) == 1)


def test_maps_differentiate_in_both_modes():
    mechanism = linkages.fourbar_angle()
    B = selection_matrix(mechanism, [4])

    def dq(theta):
        q = solve_position(mechanism, mechanism.reference, 0.0, jnp.arange(5) == 4, jnp.full(5, theta))[0]
        return velocity_maps(mechanism, q, 0.0, B)[1][:, 0]

    h, pose = 1e-4, linkages.fourbar_pose
    # R = dq/dθ, so that dR/dθ = d²q/dθ²
    expected = np.append((pose(0.6 + h) - 2 * pose(0.6) + pose(0.6 - h)) / h**2, 0.0)
    theta = jnp.asarray(0.6)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(dq))(theta), expected, atol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.jacrev(dq))(theta), jax.jit(jax.jacfwd(dq))(theta), atol=1e-12)


def test_maps_off_the_constraints_are_least_squares():
    mechanism = linkages.parallelogram()
    q = mechanism.reference + 1e-3 * jnp.arange(6)
    B = selection_matrix(mechanism, [0])
    S, R = eqx.filter_jit(velocity_maps)(mechanism, q, 0.0, B)
    A = np.concatenate([mechanism.constraint_jacobian(q, 0.0), B])
    np.testing.assert_allclose(np.concatenate([S, R], axis=1), np.linalg.pinv(A), atol=1e-11)


def test_selection_changes_inside_compiled_code():
    mechanism = linkages.pendulum()

    def chosen(theta):
        q = jnp.stack([2 * jnp.cos(theta), 2 * jnp.sin(theta), theta])
        return jnp.argmax(select_independent(mechanism, q, 0.0, 1), axis=1)[0]

    # dx = −2 sin θ, dy = 2 cos θ, dθ = 1
    assert list(jax.jit(jax.vmap(chosen))(jnp.array([0.0, np.pi / 2, np.pi]))) == [1, 0, 1]


def test_users_choice_is_checked():
    mechanism = linkages.fourbar()
    q = mechanism.reference
    assert independent_coordinates(mechanism, q, ["y1"]) == (1,)
    with pytest.raises(ArgumentError, match="'x1' do not determine the motion .*; 'y2' would do"):
        independent_coordinates(mechanism, q, ["x1"])
    with pytest.raises(
        ArgumentError, match="expected 1, the degrees of freedom; found 2: 'y1' and 'x2'; 'y2' would do"
    ):
        independent_coordinates(mechanism, q, ["y1", "x2"])
    with pytest.raises(ArgumentError, match="has a coordinate twice"):
        independent_coordinates(linkages.double_pendulum(), linkages.double_pendulum().reference, ["y1", "y1"])
    with pytest.raises(ArgumentError, match="there is no coordinate 'y9'; known coordinates: x1"):
        independent_coordinates(mechanism, q, ["y9"])
    with pytest.raises(ArgumentError, match="no degree of freedom"):
        independent_coordinates(linkages.truss(), linkages.truss().reference)
