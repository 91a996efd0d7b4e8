"""Unknown numbers: what they may be, where they may stand, and how θ is made of them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.errors import ArgumentError
from fgmbs.problems.estimation.unknowns import checked_findable, checked_priors, freed_model
from fgmbs.sensors import Gyroscope
from fgmbs.unknowns import freed, known


@pytest.fixture(scope="module")
def fourbar():
    return fgmbs.load("configs/mechanisms/fourbar.yaml")


@pytest.fixture
def tree():
    return {
        "length": Unknown(2.0, sigma=0.1, lower=0.5, log=True),
        "place": Unknown((0.1, -0.2), sigma=(1.0, np.inf), upper=3.0),
        "mass": jnp.asarray(4.0),
    }


def test_theta_is_what_is_unknown_logarithms_of_positive_numbers(tree):
    rest, free = freed(tree, lambda path: path[0].key)
    assert free.names == ("length", "place") and free.size == 3
    np.testing.assert_allclose(free.value, [np.log(2), 0.1, -0.2])
    np.testing.assert_allclose(free.sigma, [0.1, 1, np.inf])
    np.testing.assert_allclose(free.lower, [np.log(0.5), -np.inf, -np.inf])
    np.testing.assert_allclose(free.upper, [np.inf, 3, 3])
    assert free.bounded
    np.testing.assert_allclose(rest["length"], 2)
    moved = free.put(rest, jnp.array([0.0, 5.0, 6.0]))
    np.testing.assert_allclose([moved["length"], *moved["place"], moved["mass"]], [1, 5, 6, 4])
    np.testing.assert_allclose(free.theta(free.values(free.value)), free.value)
    # Of the logarithm a small standard deviation is a relative one.
    np.testing.assert_allclose(free.deviations(free.value, np.array([0.01, 0.5, 0.6])), [0.02, 0.5, 0.6])
    back = free.put_back(rest)
    for ours, given in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
        np.testing.assert_allclose(ours, given)


def test_without_unknown_numbers_nothing_happens():
    rest, free = freed({"mass": jnp.asarray(4.0)}, str)
    assert free.size == 0 and not free.bounded and free.put(rest, jnp.zeros(0)) is rest


@pytest.mark.parametrize(
    "given, text",
    [
        ({"value": np.nan}, "value: expected finite numbers; found nan"),
        ({"value": "long"}, "value: expected numbers; found 'long'"),
        ({"sigma": 0}, "sigma: expected positive numbers; found 0"),
        ({"sigma": (1, -1)}, "sigma: expected positive numbers; found sigma[1] = -1"),
        ({"lower": np.nan}, "lower: expected numbers; found nan"),
        ({"lower": 2, "upper": 1}, "lower: expected a number below upper, which is 1; found 2"),
        ({"value": 3, "upper": 1}, "value: expected a number from -inf to 1, its bounds; found 3"),
        ({"lower": 1, "upper": 2}, "value: expected a number from 1 to 2, its bounds; found 0, as none is given"),
        ({"value": -1, "log": True}, "value: expected positive numbers, because of log=True; found -1"),
        (
            {"value": (1, 2), "sigma": (1, 2, 3)},
            "Unknown: expected numbers of one shape, or one for all; found value of shape (2,), sigma of shape (3,), "
            "lower of shape (), upper of shape ()",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(given, text):
    with pytest.raises(ArgumentError) as caught:
        Unknown(**given)
    assert str(caught.value) == text


@pytest.mark.slow
def test_it_stands_for_its_value_where_nothing_is_sought(fourbar):
    """In simulation, energies, readings."""
    unknown = fourbar.with_parameters({"L_crank": Unknown(1.1, sigma=0.1, log=True)})
    given = fourbar.with_parameters({"L_crank": 1.1})
    sensor = Gyroscope("gyro", body="crank", sigma=1, bias=Unknown(0.3, sigma=1.0))
    motions = [fgmbs.simulate(mechanism, 0.02, 0.01) for mechanism in (unknown, given)]
    for ours, exact in zip(jax.tree.leaves((motions[0].q, motions[0].dq)), (motions[1].q, motions[1].dq), strict=True):
        np.testing.assert_array_equal(ours, exact)
    q = motions[1].q[1]
    np.testing.assert_array_equal(unknown.constraints(q, 0.0), given.constraints(q, 0.0))
    np.testing.assert_allclose(known(unknown.parameters)["L_crank"], 1.1)
    read = [
        fgmbs.readings(m, motion, (sensor,))["gyro"].values for m, motion in zip((unknown, given), motions, strict=True)
    ]
    np.testing.assert_array_equal(*read)


@pytest.mark.parametrize(
    "parameters, text",
    [
        ({"L_cranc": Unknown(1.0)}, "values: expected names of parameters; found 'L_cranc'; did you mean 'L_crank'?"),
        ({"L_crank": Unknown((1.0, 2.0))}, "values['L_crank']: expected one number; found shape (2,)"),
    ],
)
def test_names_and_shapes_are_those_of_the_mechanism(fourbar, parameters, text):
    with pytest.raises(ArgumentError) as caught:
        fourbar.with_parameters(parameters)
    assert str(caught.value).startswith(text)


class _Geared(Gyroscope):
    """Reads a shaft that turns faster by a number of teeth."""

    teeth: Any = eqx.field(static=True, default=1)


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
def test_structure_cannot_be_unknown(fourbar):
    sensor = _Geared("gyro", body="crank", sigma=1)
    object.__setattr__(sensor, "teeth", Unknown(3.0))
    with pytest.raises(ArgumentError) as caught:
        freed_model(fourbar, (sensor,), ())
    assert str(caught.value) == "unknown 'gyro.teeth': expected the place of a number; found one of structure"


def test_names_are_told_apart(fourbar):
    sensors = [Gyroscope(name, body="crank", sigma=1, bias=Unknown(0.0)) for name in ("a", "b")]
    mechanism = fourbar.with_parameters({"crank.mass": Unknown(1.0)})
    assert freed_model(mechanism, sensors, ())[-1].names == ("crank.mass", "a.bias", "b.bias")


FREE = freed({"k": Unknown(1.0), "c": Unknown(2.0), "m": Unknown(3.0, sigma=1.0)}, lambda path: path[0].key)[1]


def test_what_recordings_cannot_tell_is_named():
    """θ is (c, k, m)."""
    theta, influence = jnp.array([2.0, 1.0, 3.0]), jnp.array([1.0, 1.0, 1.0])
    checked_findable(FREE, theta, influence, jnp.diag(jnp.array([1e4, 1e-4, 1.0])))
    cases = [
        (
            influence.at[1].set(0),
            jnp.eye(3),
            "unknown 'k': expected numbers that the readings depend",
        ),
        (
            influence,
            jnp.ones((3, 3)) + jnp.diag(jnp.array([0.0, 0.0, 1.0])),
            "unknown 'c' and 'k': expected",
        ),
        (
            influence,
            jnp.diag(jnp.array([1.0, 0.0, 1.0])),
            "unknown 'k': expected numbers that the rec",
        ),
    ]
    for influences, information, text in cases:
        with pytest.raises(ArgumentError) as caught:
            checked_findable(FREE, theta, influences, information)
        assert str(caught.value).startswith(text)
    # A prior tells what the recording does not.
    checked_findable(FREE, theta, influence, jnp.diag(jnp.array([1.0, 1.0, 0.0])))


def test_a_window_begins_with_priors():
    with pytest.raises(ArgumentError, match="unknown 'c': sigma: expected a finite standard deviation, as a fixed-lag"):
        checked_priors(FREE)
