"""Integration rules against their formulas, their order on exact motions, and between vector spaces and manifolds."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import RigidBody, rigid_body
from scipy.integrate import solve_ivp

from fgmbs.dynamics.transitions import TRANSITIONS, AbstractTransition, State, between
from fgmbs.mechanisms.base import AbstractMechanism

DT = 0.05
ORDERS = {"euler": 1, "trapezoidal": 2, "hermite_simpson": 4}


class Plain(AbstractMechanism):
    """Two coordinates of a vector space."""

    coordinate_names = ("x", "y")
    constraint_names = ()
    reference = None

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return jnp.eye(2)

    def forces(self, q, dq, t):
        return jnp.zeros(2)

    def potential(self, q):
        return jnp.zeros(())


class Wrapped(Plain):
    """The same plane, but retract is no +, and not even symmetric: a rule must keep its order."""

    def retract(self, q, v):
        return q + v + 0.3 * jnp.stack([v[1] ** 2 + v[0] * v[1], v[0] ** 2])

    def local(self, q0, q1):
        v = q1 - q0
        for _ in range(60):
            v = q1 - q0 - 0.3 * jnp.stack([v[1] ** 2 + v[0] * v[1], v[0] ** 2])
        return v


def motion(t):
    """A motion in closed form: q, dq, ddq."""
    x = jnp.array([jnp.sin(3 * t), jnp.exp(-t)])
    return x, jnp.array([3 * jnp.cos(3 * t), -jnp.exp(-t)]), jnp.array([-9 * jnp.sin(3 * t), jnp.exp(-t)])


@eqx.filter_jit
def missed(rule: AbstractTransition, mechanism, dt):
    """Residuals of an exact motion over one step from t = 0.1 s."""
    (q0, dq0, ddq0), (q1, dq1, ddq1) = motion(0.1), motion(0.1 + dt)
    inner = [motion(0.1 + s * dt)[2] for s in rule.inner_points]
    return jnp.stack(rule.residual(mechanism, State(q0, dq0), State(q1, dq1), jnp.stack([ddq0, *inner, ddq1]), dt))


@pytest.mark.parametrize("mechanism", [Plain(), Wrapped()], ids=["plain", "wrapped"])
@pytest.mark.parametrize("name", ORDERS)
def test_what_is_missed_falls_with_the_order_of_the_rule(name, mechanism):
    """One power of dt above the order, in any local coordinates."""
    steps = 0.1 / 2.0 ** np.arange(5)
    errors = [np.linalg.norm(missed(TRANSITIONS[name], mechanism, jnp.asarray(dt))) for dt in steps]
    slopes = np.diff(np.log(errors)) / -np.log(2)
    assert slopes[-1] == pytest.approx(ORDERS[name] + 1, abs=0.2)


@pytest.mark.parametrize("name", ORDERS)
def test_residual_is_its_formula(name):
    rng = np.random.default_rng(0)
    q0, dq0, a0, am, q1, dq1, a1 = map(jnp.asarray, rng.standard_normal((7, 2)))
    expected = {
        "euler": (q1 - q0 - DT * dq0, dq1 - dq0 - DT * a0),
        "trapezoidal": (q1 - q0 - DT * (dq0 + dq1) / 2, dq1 - dq0 - DT * (a0 + a1) / 2),
        # Simpson's rule on the cubic Hermite polynomial of dq, and on the accelerations.
        "hermite_simpson": (
            q1 - q0 - DT / 6 * (dq0 + 4 * ((dq0 + dq1) / 2 + DT / 8 * (a0 - a1)) + dq1),
            dq1 - dq0 - DT / 6 * (a0 + 4 * am + a1),
        ),
    }[name]
    rule = TRANSITIONS[name]
    points = jnp.stack([a0, am, a1] if rule.inner_points else [a0, a1])
    r = rule.residual(Plain(), State(q0, dq0), State(q1, dq1), points, DT)
    np.testing.assert_allclose(r, expected, atol=1e-14)


def test_middle_is_that_of_the_cubic_polynomial():
    rng = np.random.default_rng(1)
    start, end = (State(*map(jnp.asarray, rng.standard_normal((2, 2)))) for _ in range(2))
    for mechanism in (Plain(), Wrapped()):
        (middle,) = TRANSITIONS["hermite_simpson"].inner(mechanism, start, end, DT)
        np.testing.assert_allclose(middle, between(mechanism, 0.5, DT, start, end), atol=1e-12)


@pytest.fixture(scope="module")
def top():
    """A free body that tumbles: its motion from Euler's equations and the quaternion's, by SciPy."""
    body: RigidBody = rigid_body(weight=(0.0, 0.0, 0.0))

    def rates(_, x):
        u, w = x[:4], x[4:]
        du = 0.5 * np.r_[-u[1:] @ w, u[0] * w + np.cross(u[1:], w)]
        return np.r_[du, -np.cross(w, np.asarray(body.inertia) * w) / np.asarray(body.inertia)]

    def at(t):
        x = solve_ivp(rates, (0, 1.0), [1, 0, 0, 0, 0.3, 5.0, 0.4], rtol=1e-12, atol=1e-13, dense_output=True).sol(t)
        q, dq = np.r_[np.zeros(3), x[:4] / np.linalg.norm(x[:4])], np.r_[np.zeros(3), x[4:]]
        return State(jnp.asarray(q), jnp.asarray(dq)), jnp.asarray(np.r_[np.zeros(3), rates(t, x)[4:]])

    return body, at


@pytest.mark.parametrize("name", ORDERS)
def test_order_on_rotations(top, name):
    body, at = top
    rule, steps, errors = TRANSITIONS[name], 0.04 / 2.0 ** np.arange(4), []
    for dt in steps:
        (start, a0), (end, a1) = at(0.3), at(0.3 + dt)
        inner = [at(0.3 + s * dt)[1] for s in rule.inner_points]
        errors.append(np.abs(jnp.stack(rule.residual(body, start, end, jnp.stack([a0, *inner, a1]), dt))).max())
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(ORDERS[name] + 1, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_derivatives_by_the_end_are_one_at_short_steps(top, name):
    """What simulation and noise rest on."""
    body, at = top
    dt = 1e-6
    (start, a0), (end, a1) = at(0.3), at(0.3 + dt)
    rule = TRANSITIONS[name]
    points = jnp.stack([a0, *(a0 for _ in rule.inner_points), a1])

    def residual(v):
        moved = State(body.retract(end.q, v[:6]), end.dq + v[6:])
        return jnp.concatenate(rule.residual(body, start, moved, points, dt))

    np.testing.assert_allclose(jax.jacfwd(residual)(jnp.zeros(12)), np.eye(12), atol=1e-5)


def test_noise_tells_its_determinant():
    rng = np.random.default_rng(3)
    A, C = rng.standard_normal((2, 3, 3))
    noise = TRANSITIONS["hermite_simpson"].noise(jnp.asarray(A @ A.T), jnp.asarray(C @ C.T), DT)
    for W in (noise.position, noise.velocity):
        assert np.isfinite(W).all()
    expected = sum(np.linalg.slogdet(np.asarray(W))[1] for W in (noise.position, noise.velocity))
    assert float(noise.log_determinant) == pytest.approx(expected, abs=1e-10)
