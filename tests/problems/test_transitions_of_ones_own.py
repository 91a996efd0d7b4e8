"""An integration rule is one class, used by every question; stiff springs."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.dynamics.transitions import AbstractTransition, State, between
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.sensors import Gyroscope, Position


class Midpoint(AbstractTransition):
    """The implicit midpoint rule: what a user writes."""

    inner_points: ClassVar[tuple[float, ...]] = (0.5,)

    def inner(self, mechanism, start, end, dt):
        return (State((start.q + end.q) / 2, (start.dq + end.dq) / 2),)

    def residual(self, mechanism, start, end, ddq, dt):
        return end.q - start.q - dt / 2 * (start.dq + end.dq), end.dq - start.dq - dt * ddq[1]


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


@pytest.mark.slow
def test_simulation_has_its_order(pendulum):
    exact = fgmbs.simulate(pendulum, 0.64, 1e-2).q[-1]
    steps = [0.04, 0.02, 0.01]
    errors = [np.abs(fgmbs.simulate(pendulum, 0.64, dt, integrator=Midpoint()).q[-1] - exact).max() for dt in steps]
    np.testing.assert_allclose(np.diff(np.log2(errors)), -2, atol=0.2)


def test_hybrid_dynamics_takes_it(pendulum):
    t = np.arange(65) * 0.01
    driven = fgmbs.hybrid_dynamics(
        pendulum, t, forces={"x_tip": lambda t: 0 * t}, actuators=["x_tip"], integrator=Midpoint()
    )
    free = fgmbs.simulate(pendulum, 0.64, 0.01, integrator=Midpoint())
    np.testing.assert_allclose(driven.q, free.q, atol=1e-10)


@pytest.mark.slow
def test_state_estimation_takes_it(swing):
    """A recording without noise: the same estimate up to the truncation error of a rule of second order."""
    sensors = (Position("cam", point="tip", sigma=1e-3), Gyroscope("gyro", body="rod", sigma=0.01))
    recording = fgmbs.readings(swing.mechanism, swing, sensors)
    power = (fgmbs.inputs.Disturbance(1e-3),)
    estimates = [
        fgmbs.smooth(swing.mechanism, recording, sensors, power, start={}, integrator=rule)
        for rule in ("hermite_simpson", Midpoint())
    ]
    np.testing.assert_allclose(estimates[1].q, estimates[0].q, atol=2e-4)
    assert np.abs(estimates[1].q - estimates[0].q).max() > 1e-12


class Spring(AbstractMechanism):
    """A mass of 1 kg on a spring of 1 m that can turn."""

    stiffness: jax.Array
    coordinate_names = ("x", "y")
    constraint_names = ()

    @property
    def reference(self):
        return jnp.array([1.001, 0.0])

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        return jnp.eye(2)

    def forces(self, q, dq, t):
        r = jnp.sqrt(q @ q)
        return -self.stiffness * (r - 1.0) * q / r + jnp.array([0.0, -9.81])

    def potential(self, q):
        return 0.5 * self.stiffness * (jnp.sqrt(q @ q) - 1) ** 2 + 9.81 * q[1]


@pytest.mark.parametrize("integrator, drift", [("trapezoidal", 0.02), ("hermite_simpson", 5e-5)])
def test_a_stiff_spring_stretched_by_a_millimetre(integrator, drift):
    """1e8 N/m: ten radians of its oscillation in a step, where only Newton's method converges."""
    motion = fgmbs.simulate(Spring(jnp.asarray(1e8)), 1.0, 1e-3, integrator=integrator)
    total = motion.kinetic + motion.potential
    assert np.ptp(total) <= drift * total[0]
    np.testing.assert_allclose(np.linalg.norm(motion.q, axis=1), 1.0, atol=1.01e-3)
    assert int(motion.iterations.max()) <= 12


def test_between_is_exact_for_cubic_motion(pendulum):
    poly = np.polynomial.Polynomial([0.3, -1.0, 2.0, 5.0])
    ends = [State(jnp.full(2, poly(t)), jnp.full(2, poly.deriv()(t))) for t in (0.0, 0.1)]
    q, dq = between(pendulum, 0.3, 0.1, *ends)
    np.testing.assert_allclose([q[0], dq[0]], [poly(0.03), poly.deriv()(0.03)], atol=1e-13)
