"""Parameters of a class of one's own, by the names of its fields."""

import numpy as np
import pytest
from families import rigid_body

from fgmbs.errors import ArgumentError
from fgmbs.unknowns import Unknown, is_unknown


def test_a_class_of_ones_own_has_parameters_by_the_names_of_its_fields():
    body = rigid_body()
    changed = body.with_parameters({"mass": 7.0, "inertia": np.array([1.0, 2.0, 3.0])})
    assert type(changed) is type(body)
    assert float(changed.mass) == 7.0
    np.testing.assert_array_equal(changed.inertia, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(changed.weight, body.weight)
    assert is_unknown(body.with_parameters({"mass": Unknown(1.0)}).mass)
    with pytest.raises(ArgumentError, match="expected names of parameters; found 'mas'; did you mean 'mass'"):
        body.with_parameters({"mas": 1.0})
    with pytest.raises(ArgumentError, match=r"values\['inertia'\]: expected shape \(3,\); found shape \(\)"):
        body.with_parameters({"inertia": 1.0})
