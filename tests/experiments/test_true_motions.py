"""True motions under white forces of mechanisms with several degrees of freedom."""

import jax
import numpy as np
import pytest
from fourbar_truths import truth

import fgmbs


@pytest.mark.slow
def test_a_truth_without_forces_is_the_simulated_motion_also_through_a_singular_pose(configs):
    """The cranks of the robot do not tell where it goes, shortly before 0.35 s."""
    robot = fgmbs.load(configs / "mechanisms" / "five_bar.yaml")
    drawn = dict(zip(robot.coordinate_names, map(float, robot.reference), strict=True))
    rng = np.random.default_rng(10)
    start = {name: drawn[name] + rng.uniform(-0.5, 0.5) for name in ("theta_l", "theta_r")}
    motion = truth(robot, 0.4, 5e-3, 0.0, 0, z=tuple(start), mean=(list(start.values()), [0.0, 0.0]), dt=5e-4)
    simulated = fgmbs.simulate(robot, 0.4, 1e-3, start=start)
    np.testing.assert_allclose(motion.q[:81], simulated.q[::5], atol=2e-5)


def test_a_power_feeds_every_degree_of_freedom_with_its_share(configs):
    """At first the mean kinetic energy of a mechanism at rest grows by the power for each."""
    robot = fgmbs.load(configs / "mechanisms" / "five_bar.yaml")
    level = robot.with_parameters({"gravity.y": 0.0})
    cranks, power, duration = ("theta_l", "theta_r"), 1e-6, 0.01
    drawn = [float(robot.reference[robot.coordinate_names.index(name)]) for name in cranks]

    def energy(seed):
        motion = truth(level, duration, duration, power, seed, z=cranks, mean=(drawn, [0.0, 0.0]), dt=1e-3)
        return 0.5 * motion.dq[-1] @ level.mass_matrix(motion.q[-1]) @ motion.dq[-1]

    energies = np.asarray(jax.vmap(energy)(np.arange(400)))
    assert abs(np.mean(energies) / (2 * power * duration) - 1) < 4 * np.std(energies) / np.mean(energies) / 20
