"""Parameters of real rigs beside published ones, and free runs of recordings that were not used."""

import emps
import numpy as np
import pytest
import robot_identification

from fgmbs.status import Status

pytestmark = pytest.mark.slow
WITHIN = {"mass": 0.01, "viscous": 0.015, "coulomb": 0.02, "offset": 0.03}


def test_friction_of_a_positioning_system_is_what_is_published(data_dir):
    fit = emps.identified()
    assert fit.status == Status.converged
    for name, bound in WITHIN.items():
        assert fit.parameters[name] == pytest.approx(emps.PUBLISHED[name], rel=bound), name
    run = emps.foretold(fit)["x"]
    assert np.max(run.rms) < 9e-3 < 0.05 * np.ptp(run.measured)


def test_torques_of_a_panda_that_were_held_back_are_foretold(data_dir):
    """To 5 % of their span, and where gravity is felt to 2 % of their size."""
    found = robot_identification.held_back("panda")
    assert found.attrs["base"] == 43
    assert np.all(found.error < 0.05 * found.span)
    assert np.all((found.error < 0.02 * found.torque)[1:4])


def test_what_a_simulated_arm_is_made_of_is_found(data_dir):
    fit = robot_identification.Simulated.moved().identified(seed=0)
    assert fit.status == Status.converged
    for name, value in robot_identification.TRUTH.items():
        assert abs(fit.parameters[name] - value) < 3.5 * fit.std[name], name
    assert fit.std["link6.mass"] < 0.03
