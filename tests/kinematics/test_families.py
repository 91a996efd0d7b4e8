"""Kinematics where configurations are no vector space: unit quaternions with angular velocities, n = 7, nv = 6."""

import equinox as eqx
import families
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.dynamics.chart import MotionChart
from fgmbs.errors import ArgumentError
from fgmbs.kinematics import Closure, assemble, mobility, solve_acceleration, sweep, track, velocities
from fgmbs.kinematics.closure import Instant

PENDULUM = families.spherical_pendulum(arm=(0.1, -0.2, 0.5))
X = 0
"""The coordinate x of the centre of mass."""
ZERO = jnp.zeros(())


def differences(function, nv, h=1e-6):
    """Central differences by each of nv local coordinates."""
    return np.stack([(function(h * e) - function(-h * e)) / (2 * h) for e in jnp.eye(nv)], axis=-1)


@pytest.fixture(scope="module")
def q():
    """A pose far from the reference."""
    rough = PENDULUM.retract(PENDULUM.reference, jnp.array([0.1, 0.2, -0.1, 0.7, -0.4, 0.9]))
    return assemble(PENDULUM, start=rough)


@pytest.mark.slow
def test_assembled_with_a_given_coordinate():
    q = assemble(PENDULUM, {"x": 0.2})
    assert np.max(np.abs(PENDULUM.constraints(q, 0.0))) < 1e-14
    assert q[X] == pytest.approx(0.2, abs=1e-14)
    assert np.linalg.norm(q[3:]) == pytest.approx(1, abs=1e-14)
    out_of_reach = float(np.linalg.norm(PENDULUM.arm)) + 0.1
    with pytest.raises(Exception, match="cannot be assembled .*with x = .*'pivot x'"):
        assemble(PENDULUM, {"x": out_of_reach})


def test_degrees_of_freedom(q):
    assert mobility(PENDULUM, q).dof == 3
    assert mobility(families.rigid_body()).dof == 6


def test_velocities_have_names_of_their_own(q):
    dq = velocities(PENDULUM, q, {"w_x": 1.0, "w_y": -2.0, "w_z": 0.5})
    assert np.max(np.abs(PENDULUM.constraint_rate(q, dq, 0.0))) < 1e-14
    turned = families.rotation(q[3:])
    np.testing.assert_allclose(dq[:3], -turned @ np.cross([1.0, -2.0, 0.5], PENDULUM.arm), atol=1e-14)
    with pytest.raises(ArgumentError, match=r"given: there is no velocity 'w_q'; did you mean"):
        velocities(PENDULUM, q, {"w_q": 1.0})
    ddq = solve_acceleration(PENDULUM, q, dq)
    jerkless = lambda s: PENDULUM.constraint_rate(PENDULUM.retract(q, s * dq), dq + s * ddq, ZERO)
    np.testing.assert_allclose((jerkless(1e-5) - jerkless(-1e-5)) / 2e-5, 0, atol=1e-9)


@pytest.mark.parametrize("followed", [(), (X,), (X, 5)])
def test_closure_and_its_derivatives(q, followed):
    y = jnp.array([0.1, 0.3])[: len(followed)]
    closure = Closure(followed, Instant(ZERO, y, 2 * y, -3 * y))
    J = closure.jacobian(PENDULUM, q, ZERO)
    expected = differences(lambda v: closure.rows(PENDULUM, PENDULUM.retract(q, v), ZERO), 6)
    np.testing.assert_allclose(J, expected, atol=1e-9)

    dq, h = jnp.array([0.3, -0.1, 0.2, 1.0, 0.5, -0.7]), 1e-4
    ddq = jnp.array([1.0, 0.4, -0.2, 0.3, 2.0, 0.1])
    rows = lambda s: closure.rows(PENDULUM, PENDULUM.retract(q, s * dq), ZERO + s)
    rates = lambda s: closure.rate(PENDULUM, PENDULUM.retract(q, s * dq), dq + s * ddq, ZERO + s)
    np.testing.assert_allclose(rates(0.0), (rows(h) - rows(-h)) / (2 * h), atol=1e-7)
    bias = closure.bias(PENDULUM, q, dq, ZERO)
    np.testing.assert_allclose(J @ ddq - bias, (rates(h) - rates(-h)) / (2 * h), atol=1e-6)


def test_closing_meets_all_rows(q):
    closure = Closure((X,), Instant(ZERO, q[jnp.array([X])] + 0.05))
    found = closure.close(PENDULUM, q, ZERO, size=1.0, limit=10)
    assert found.closed and found.iterations <= 6
    assert np.max(np.abs(closure.rows(PENDULUM, found.q, ZERO))) < 1e-15
    assert np.linalg.norm(found.q[3:]) == pytest.approx(1, abs=1e-15)


@pytest.mark.slow
def test_followed_and_differentiated():
    t, straight = jnp.linspace(0.0, 1.0, 6), jnp.linspace(0.0, 0.3, 6)

    def path(scale):
        start = PENDULUM.reference
        return track(PENDULUM, start, t, (X,), start[X] + scale * straight[:, None])

    found = jax.jit(path)(1.0)
    assert found.reached.all()
    assert np.max(np.abs(jax.vmap(lambda q: PENDULUM.constraints(q, 0.0))(found.q))) < 1e-14
    end, slope = jax.jit(lambda scale: jax.jvp(lambda scale: path(scale).q[-1], (scale,), (1.0,)))(1.0)
    np.testing.assert_allclose(slope[X], 0.3, atol=1e-12)
    assert abs(slope[3:] @ end[3:]) < 1e-12  # along the sphere of unit quaternions
    np.testing.assert_allclose(jax.jacfwd(PENDULUM.constraints)(end, ZERO) @ slope, 0, atol=1e-12)


def test_swept():
    q = sweep(PENDULUM, "z", [-0.5, -0.2, 0.3])
    np.testing.assert_allclose(q[:, 2], [-0.5, -0.2, 0.3], atol=1e-13)


LINE = Instant(jnp.asarray(0.2), jnp.array([0.15]), jnp.array([0.4]), jnp.array([-0.3]))
CHARTS = {
    "free body": (families.rigid_body(), MotionChart(6)),
    "pendulum": (PENDULUM, MotionChart(3)),
    "pendulum, angular velocities": (PENDULUM, MotionChart(3, (3, 4, 5))),
    "pendulum with a known motion": (PENDULUM, MotionChart(2, None, Closure((X,), LINE))),
}
move = eqx.filter_jit(lambda mechanism, chart, x, delta: chart.move(mechanism, x, delta, ZERO))


@pytest.fixture(scope="module", params=CHARTS)
def moving(request, q):
    """(mechanism, chart, x on the constraints with one more variable)."""
    mechanism, chart = CHARTS[request.param]
    x = jnp.concatenate([q, jnp.zeros(6), jnp.ones(1)])
    return mechanism, chart, move(mechanism, chart, x, jnp.linspace(0.02, 0.1, 2 * chart.dof + 1))


def test_moved_steps_are_closed(moving):
    mechanism, chart, x = moving
    assert chart.local_size(mechanism, x.size) == 2 * chart.dof + 1
    y = move(mechanism, chart, x, 0.1 * jnp.cos(jnp.arange(2.0 * chart.dof + 1)))
    assert np.max(np.abs(chart.closure.rows(mechanism, y[:7], ZERO)), initial=0.0) < 1e-14
    assert np.max(np.abs(chart.closure.rate(mechanism, y[:7], y[7:13], ZERO)), initial=0.0) < 1e-13
    assert np.linalg.norm(y[3:7]) == pytest.approx(1, abs=1e-14)


@pytest.mark.slow
def test_tangent_and_coordinates_of_a_chart(moving):
    mechanism, chart, x = moving
    E = chart.tangent(mechanism, x, ZERO)
    expected = differences(lambda delta: move(mechanism, chart, x, delta), 2 * chart.dof + 1)
    np.testing.assert_allclose(E, expected, atol=1e-8)
    C = chart.coordinates(mechanism, x, ZERO)
    D = jax.jacfwd(lambda y: jnp.concatenate([mechanism.local(x[:7], y[:7]), y[7:] - x[7:]]))(x)
    np.testing.assert_allclose(C @ D @ E, np.eye(2 * chart.dof + 1), atol=1e-12)


def test_rounding_chooses_no_coordinates():
    """The pendulum of a symmetric arm turns about its x axis as well as about its y axis."""
    pendulum = families.spherical_pendulum()

    def chosen(v):
        u = families.exponential(v)
        q = jnp.concatenate([-families.rotation(u) @ pendulum.arm, u])
        return MotionChart(3).selection(pendulum, q, ZERO)

    B = jax.jit(jax.vmap(chosen))(np.random.default_rng(0).standard_normal((200, 3)))
    np.testing.assert_array_equal(B, np.broadcast_to(B[0], B.shape))
