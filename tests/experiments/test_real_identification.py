"""Parameters of real rigs beside published ones, and free runs of recordings that were not used."""

import emps
import numpy as np
import pytest

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
