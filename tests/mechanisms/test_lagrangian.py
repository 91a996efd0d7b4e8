"""Equations of motion from energies: textbook matrices, MuJoCo, SciPy, conservation of energy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fgmbs
from fgmbs.mechanisms import lagrangian
from fgmbs.mechanisms.base import AbstractMechanism

M1, M2, L1, R1, R2, I1, I2, G = 1.3, 0.7, 0.4, 0.25, 0.3, 0.02, 0.011, 9.81
"""Masses, length, distances to the centres of mass, moments of inertia about these, gravity."""


class DoublePendulum(AbstractMechanism):
    """In relative angles from hanging, with viscous friction in both joints."""

    friction: jax.Array

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return "shoulder", "elbow"

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return ()

    @property
    def reference(self):
        return jnp.zeros(2)

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def centres(self, q):
        a, b = q[0], q[0] + q[1]
        first = jnp.array([jnp.sin(a), -jnp.cos(a)])
        return jnp.stack([R1 * first, L1 * first + R2 * jnp.array([jnp.sin(b), -jnp.cos(b)])])

    def kinetic(self, q, dq):
        speeds = jax.jvp(self.centres, (q,), (dq,))[1]
        moving = M1 * speeds[0] @ speeds[0] + M2 * speeds[1] @ speeds[1]
        return 0.5 * (moving + I1 * dq[0] ** 2 + I2 * (dq[0] + dq[1]) ** 2)

    def potential(self, q):
        return G * jnp.dot(jnp.array([M1, M2]), self.centres(q)[:, 1])

    def mass_matrix(self, q):
        return lagrangian.mass_matrix(self.kinetic, q)

    def forces(self, q, dq, t):
        return lagrangian.forces(self.kinetic, self.potential, q, dq) - self.friction * dq


FREE = DoublePendulum(jnp.zeros(2))
DAMPED = DoublePendulum(jnp.array([0.03, 0.02]))


@jax.jit
def equations(mechanism, q, dq):
    return mechanism.mass_matrix(q), mechanism.forces(q, dq, 0.0)


@pytest.fixture(scope="module")
def states():
    rng = np.random.default_rng(0)
    return rng.uniform(-np.pi, np.pi, (20, 2)), rng.uniform(-8, 8, (20, 2))


def textbook(q, dq, friction):
    """M and Q = −C dq − g − D dq, [Spong, Hutchinson, Vidyasagar: Robot Modeling and Control] eq. (7.86) ff."""
    c, h = np.cos(q[1]), -M2 * L1 * R2 * np.sin(q[1])
    m12 = M2 * (R2**2 + L1 * R2 * c) + I2
    m11 = M1 * R1**2 + M2 * (L1**2 + R2**2 + 2 * L1 * R2 * c) + I1 + I2
    M = np.array([[m11, m12], [m12, M2 * R2**2 + I2]])
    C = np.array([[h * dq[1], h * (dq[0] + dq[1])], [-h * dq[0], 0]])
    second = M2 * R2 * G * np.sin(q[0] + q[1])
    return M, -C @ dq - [(M1 * R1 + M2 * L1) * G * np.sin(q[0]) + second, second] - friction * dq


def test_double_pendulum_is_that_of_the_textbook(states):
    for q, dq in zip(*states, strict=True):
        expected = textbook(q, dq, np.array([0.03, 0.02]))
        for ours, theirs in zip(equations(DAMPED, jnp.asarray(q), jnp.asarray(dq)), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)


MUJOCO = f"""
<mujoco>
  <compiler angle="radian" inertiafromgeom="false"/>
  <option gravity="0 0 -{G}"/>
  <worldbody>
    <body>
      <joint axis="0 -1 0" damping="0.03"/>
      <inertial pos="0 0 -{R1}" mass="{M1}" diaginertia="{I1} {I1} {I1}"/>
      <body pos="0 0 -{L1}">
        <joint axis="0 -1 0" damping="0.02"/>
        <inertial pos="0 0 -{R2}" mass="{M2}" diaginertia="{I2} {I2} {I2}"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_double_pendulum_is_that_of_mujoco(states):
    model = mujoco.MjModel.from_xml_string(MUJOCO)
    data = mujoco.MjData(model)
    for q, dq in zip(*states, strict=True):
        data.qpos, data.qvel = q, dq
        mujoco.mj_forward(model, data)
        M, Q = equations(DAMPED, jnp.asarray(q), jnp.asarray(dq))
        np.testing.assert_allclose(np.linalg.solve(M, Q), data.qacc, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_terms_without_and_linear_in_the_velocity(states):
    """A bead on a hoop that turns at a constant rate: T has parts of degree 0, 1 and 2 in dq."""
    rate, radius = 3.0, 0.5

    def place(turn, q):
        # The pivot of the hoop is off the axis of its turning, so that T has a part of first degree.
        x = 0.2 + radius * jnp.sin(q[0])
        return jnp.array([jnp.cos(turn) * x, jnp.sin(turn) * x + 0.1 * q[0], -radius * jnp.cos(q[0])])

    def kinetic(q, dq):
        v = jax.jvp(place, (jnp.zeros(()), q), (jnp.asarray(rate), dq))[1]
        return 0.5 * v @ v

    def acceleration(q, dq):
        Q = lagrangian.forces(kinetic, lambda q: jnp.zeros(()), q, dq)
        return Q / lagrangian.mass_matrix(kinetic, q)[0]

    # T = ½ (r cos q dq)² + ½ (rate x + 0.1 dq)² + ½ (r sin q dq)², by hand
    for q, dq in zip(*states, strict=True):
        x = 0.2 + radius * np.sin(q[0])
        expected = rate**2 * x * radius * np.cos(q[0]) / (radius**2 + 0.01)
        np.testing.assert_allclose(acceleration(jnp.asarray(q[:1]), jnp.asarray(dq[:1]))[0], expected, atol=1e-12)


@eqx.filter_jit
def simulated(mechanism):
    return fgmbs.simulate(mechanism, 2.0, 0.005, integrator="hermite_simpson", start={"shoulder": 2.0, "elbow": -1.0})


@pytest.mark.slow
def test_energy_is_conserved():
    motion = simulated(FREE)
    energy = jax.vmap(FREE.kinetic)(motion.q, motion.dq) + jax.vmap(FREE.potential)(motion.q)
    assert np.ptp(energy) < 1e-4  # of 8 J, dt⁴ error at dt = 5e-3


def test_motion_is_that_of_scipy():
    motion = simulated(DAMPED)

    def rates(t, x):
        M, Q = textbook(x[:2], x[2:], np.array([0.03, 0.02]))
        return np.r_[x[2:], np.linalg.solve(M, Q)]

    start = np.r_[np.asarray(motion.q[0]), 0, 0]
    exact = solve_ivp(rates, (0, 2), start, "DOP853", np.asarray(motion.t), rtol=1e-11, atol=1e-11).y
    np.testing.assert_allclose(motion.q, exact[:2].T, atol=2e-6)  # dt⁴ error at dt = 5e-3
