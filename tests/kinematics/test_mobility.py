"""Degrees of freedom and redundant rows, in generic and in singular configurations."""

from pathlib import Path

import linkages
import numpy as np
import pytest

from fgmbs.errors import AssemblyError
from fgmbs.io.planar.load import read_mechanism
from fgmbs.kinematics import degrees_of_freedom, mobility, redundant_rows
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

MECHANISMS = Path(__file__).parents[2] / "configs" / "mechanisms"


@pytest.mark.parametrize(
    "mechanism, dof, redundant",
    [
        (linkages.fourbar(), 1, ()),
        (linkages.fourbar_angle(), 1, ()),
        (linkages.parallelogram(), 1, (5,)),
        (linkages.double_pendulum(), 2, ()),
        (linkages.driven_pendulum(), 0, ()),
        (linkages.truss(), 0, ()),
    ],
    ids=["fourbar", "fourbar_angle", "parallelogram", "double_pendulum", "driven_pendulum", "truss"],
)
def test_degrees_of_freedom(mechanism, dof, redundant):
    assert degrees_of_freedom(mechanism) == dof
    assert redundant_rows(mechanism) == redundant


@pytest.mark.parametrize(
    "file, dof, redundant", [("slider_crank", 1, 0), ("fourbar_crank_angle", 1, 0), ("parallel_robot", 2, 1)]
)
def test_shipped_mechanisms(file, dof, redundant):
    mechanism = PlanarMechanism.from_description(read_mechanism(MECHANISMS / f"{file}.yaml"))
    found = mobility(mechanism)
    assert (found.dof, len(found.redundant_rows), found.singular) == (dof, redundant, False)


def test_change_point_is_singular_but_not_freer():
    found = mobility(linkages.parallelogram(), [1.0, 0, 3, 0, 5, 0])
    assert found.singular and found.dof_here > 1
    assert found.dof == 1


def test_collinear_truss_cannot_move():
    found = mobility(linkages.truss(1.0, 1.0), [1.0, 0.0])
    assert (found.dof, found.dof_here) == (0, 1)


def test_dof_needs_an_assembled_configuration():
    with pytest.raises(AssemblyError, match="not assembled: .* call assemble"):
        degrees_of_freedom(linkages.fourbar(), np.array([1.0, 0, 1, 2.5]))
