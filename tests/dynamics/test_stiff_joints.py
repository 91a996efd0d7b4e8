"""Joints with springs and dampers that are much faster than a step, on links without rotors."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fgmbs
from fgmbs import robots as made


def chain(stiffness, damping):
    """Three links of 1 m that hang on their springs."""
    body = dict(mass=1.0, center=(0.5, 0, 0), inertia=(0.1, 0.1, 0.1))
    law = dict(axis=(0, 1, 0), stiffness=stiffness, damping=damping)
    return made.robot(
        *(made.link(name, **body) for name in "abc"),
        made.revolute("j", "world", "a", **law),
        made.revolute("k", "a", "b", xyz=(1, 0, 0), **law),
        made.revolute("l", "b", "c", xyz=(1, 0, 0), **law),
    )


@pytest.mark.parametrize(("stiffness", "damping", "dt"), [(1e6, 1e4, 1e-2), (1e8, 1e5, 1e-3), (1e8, 1e7, 1e-2)])
def test_steps_are_found_where_accelerations_tell_nothing_of_them(stiffness, damping, dt):
    """The first guess is thousands of turns off: q̈ dt² = 1e4 rad."""
    robot = chain(stiffness, damping)
    motion = fgmbs.simulate(robot, 20 * dt, dt, start={"j": 0.3})
    assert motion.status == fgmbs.Status.converged

    @jax.jit
    def rate(t, y):
        return jax.numpy.concatenate([y[3:], robot.accelerations(y[:3], y[3:], t)[0]])

    start = np.concatenate([motion.q[0], np.zeros(3)])
    exact = solve_ivp(
        rate,
        (0, 20 * dt),
        start,
        "Radau",
        np.asarray(motion.t),
        rtol=1e-9,
        atol=1e-12,
        jac=jax.jit(jax.jacfwd(rate, 1)),
    )
    np.testing.assert_allclose(motion.q, exact.y[:3].T, atol=0.05)  # what is faster than a step is not resolved
    assert abs(float(motion.q[-1, 0] - exact.y[0, -1])) < 5e-3
