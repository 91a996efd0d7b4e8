"""The transition between two steps: its order, and what noise it says unknown forces leave."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fgmbs
from fgmbs.dynamics.chart import MotionChart
from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.transitions import HermiteSimpson, State, between
from fgmbs.factors.base import Instant
from fgmbs.factors.transition import transition
from fgmbs.inputs import Disturbance, GaussMarkov, RandomWalk, WhiteNoise
from fgmbs.problems.estimation.graph import EstimationModel
from fgmbs.unknowns import Free

NONE = Forcing((), (), jnp.zeros(0))


@pytest.fixture(scope="module")
def fourbar():
    return fgmbs.load("configs/mechanisms/fourbar.yaml").evaluated()


@eqx.filter_jit
def residual(mechanism, dt, x0, x1, B):
    n = mechanism.n
    at = Instant(mechanism, dt, dt, jnp.zeros(0), {}, (B, jnp.zeros((2, 0)), None), (HermiteSimpson(), NONE))
    nothing = jnp.zeros(0)
    return transition(at, x0[:n], x0[n:], nothing, x1[:n], x1[n:], nothing)


def test_fourth_order(fourbar):
    """The residual of the exact motion of one step shrinks as Δt⁵."""
    n = fourbar.n
    acceleration = jax.jit(lambda q, dq: fgmbs.acceleration(fourbar, q, dq, 0.0)[0])

    def rhs(t, x):
        return np.concatenate([x[n:], acceleration(jnp.asarray(x[:n]), jnp.asarray(x[n:]))])

    start = np.concatenate([fgmbs.assemble(fourbar), np.zeros(n)])
    x0 = solve_ivp(rhs, (0, 0.4), start, rtol=1e-12, atol=1e-13).y[:, -1]
    B = MotionChart(fourbar.dof).selection(fourbar, jnp.asarray(x0[:n]), 0.0)
    steps = 0.08 / 2.0 ** np.arange(4)
    errors = []
    for dt in steps:
        x1 = solve_ivp(rhs, (0, dt), x0, rtol=1e-13, atol=1e-14).y[:, -1]
        errors.append(np.abs(residual(fourbar, jnp.asarray(dt), jnp.asarray(x0), jnp.asarray(x1), B)))
    slopes = np.diff(np.log(np.array(errors)), axis=0) / -np.log(2)
    np.testing.assert_allclose(slopes[-1], 5, atol=0.35)  # of a step; 4 after 1/Δt of them


class Mass(fgmbs.mechanisms.base.AbstractMechanism):
    """A point on a line without forces."""

    mass: jax.Array
    coordinate_names: tuple[str, ...] = eqx.field(static=True, default=("x",))
    constraint_names: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def reference(self):
        return jnp.zeros(1)

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return self.mass * jnp.eye(1)

    def forces(self, q, dq, t):
        return jnp.zeros(1)

    def potential(self, q):
        return jnp.zeros(())


def exact_covariance(A, G, dt):
    """∫ e^{As} G Gᵀ e^{Aᵀs} ds by van Loan's matrix exponential."""
    n = len(A)
    block = np.zeros((2 * n, 2 * n))
    block[:n, :n], block[:n, n:], block[n:, n:] = -A, G @ G.T, A.T
    from scipy.linalg import expm

    E = expm(block * dt)
    return E[n:, n:].T @ E[:n, n:]


def whitened(force, x1, dt=0.01, mass=2.0):
    """Whitened residual of a motion of the point from rest to x1, as a linear function of x1."""
    rest = Free(), jnp.asarray(dt), MotionChart(1), jnp.zeros(0), ()
    model = EstimationModel(Mass(jnp.asarray(mass)), (), (force,), *rest)
    x = jnp.zeros(model.step_size)
    T, _, W = model.process(x, jnp.asarray(0.0))
    data = (model.transition, model.forcing)
    series = T, jnp.zeros((2, 0)), None
    at = Instant(model.mechanism, jnp.asarray(dt), jnp.asarray(dt), jnp.zeros(0), {}, series, data)
    return W @ transition(at, x[:1], x[1:2], x[2:], x1[:1], x1[1:2], x1[2:])


@pytest.mark.parametrize(
    ("force", "A", "G"),
    [
        (Disturbance(0.3), [[0, 1], [0, 0]], [[0], [np.sqrt(2 * 0.3 / 2.0)]]),
        (WhiteNoise("x", 0.7), [[0, 1], [0, 0]], [[0], [0.7 / 2.0]]),
        (RandomWalk("x", 0.9), [[0, 1, 0], [0, 0, 0.5], [0, 0, 0]], [[0], [0], [0.9]]),
        (
            GaussMarkov("x", 0.4, time_constant=3.0),
            [[0, 1, 0], [0, 0, 0.5], [0, 0, -1 / 3]],
            [[0], [0], [0.4 * np.sqrt(2 / 3)]],
        ),
    ],
    ids=["disturbance", "white", "walk", "markov"],
)
def test_noise_of_a_step_is_that_of_the_stochastic_equation(force, A, G):
    A, G = np.array(A, float), np.array(G)
    cov = exact_covariance(A, G, 0.01)
    J = np.asarray(jax.jit(jax.jacfwd(lambda x1: whitened(force, x1)))(jnp.zeros(len(A))))
    # A least noise of 1e-8 in every direction; within a step a force that forgets counts as one that does not.
    np.testing.assert_allclose(J @ cov @ J.T, np.eye(len(A)), atol=0.01)


def test_power_is_the_kinetic_energy_fed_in(fourbar):
    """B Rᵀ-coordinates: ½ tr(M cov) of the velocities grows by the power for each degree of freedom."""
    rest = Free(), jnp.asarray(1e-2), MotionChart(1), jnp.zeros(0), ()
    model = EstimationModel(fourbar, (), (Disturbance(0.3),), *rest)
    q = fgmbs.assemble(fourbar)
    x = jnp.concatenate([q, jnp.zeros(fourbar.nv)])
    W, E = jax.jit(lambda x: (model.process(x, jnp.asarray(0.0))[2], model.chart.tangent(fourbar, x, 0.0)))(x)
    E = E[fourbar.n :, 1:]
    cov = E @ np.linalg.inv(W[1:, 1:].T @ W[1:, 1:]) @ E.T
    energy = 0.5 * np.trace(fourbar.mass_matrix(q) @ cov)
    assert energy == pytest.approx(0.3 * 1e-2, rel=1e-6)


def test_cubic_between_steps():
    """Exact for cubic motion, inside and a little outside of the interval."""
    dt, poly = 0.1, np.polynomial.Polynomial([0.3, -1.0, 2.0, 5.0])
    speed = poly.deriv()
    start, end = (State(jnp.array([poly(t)]), jnp.array([speed(t)])) for t in (0.0, dt))
    for s in (0.0, 0.3, 1.0, 1.2):
        q, dq = between(Mass(jnp.ones(())), s, dt, start, end)
        np.testing.assert_allclose([q[0], dq[0]], [poly(s * dt), speed(s * dt)], atol=1e-13)
