"""Forces from outside: their numbers, their names, and what they refuse."""

import jax
import jax.numpy as jnp
import pytest

from fgmbs import Unknown, load
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command, Disturbance, GaussMarkov, RandomWalk, WhiteNoise
from fgmbs.inputs.base import number


@pytest.fixture(scope="module")
def fourbar(configs):
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


def test_names_are_those_of_what_they_act_on_unless_given():
    given = (WhiteNoise("motor"), RandomWalk("motor", name="load"), Disturbance(), Command("x", "i", name="drive"))
    assert [force.name for force in given] == ["motor", "load", "disturbance", "drive"]


def test_sizes_that_are_not_given_are_to_be_found():
    for force in (WhiteNoise("a"), RandomWalk("a"), Disturbance(), GaussMarkov("a", time_constant=2)):
        assert isinstance(force.size, Unknown)
    assert RandomWalk("a").sigma0 is None


def test_numbers_are_leaves():
    force = GaussMarkov("a", 3, time_constant=2)
    assert [float(x) for x in jax.tree.leaves(force)] == [3, 2]
    slope = jax.grad(lambda gain: Command("a", "i", gain=gain).gain * 2)(jnp.asarray(0.5))
    assert slope == 2


@pytest.mark.parametrize("build", [WhiteNoise, RandomWalk, lambda on: Command(on, "i")])
def test_they_act_on_actuators_and_coordinates(fourbar, build):
    for on in ("motor", "theta", "x_P1"):
        build(on).check(fourbar)
    with pytest.raises(ArgumentError) as error:
        build("moter").check(fourbar)
    text = "input 'moter': on: there is no actuator or coordinate 'moter'; did you mean 'motor'? known actuators and"
    assert str(error.value).startswith(text)


def test_a_disturbance_acts_on_every_mechanism(fourbar):
    Disturbance(0.1).check(fourbar)


@pytest.mark.parametrize(
    "build, text",
    [
        (lambda: Disturbance(0.0), "input 'disturbance': power: expected a positive number; found 0"),
        (lambda: WhiteNoise("a", -1), "input 'a': density: expected a positive number; found -1"),
        (lambda: RandomWalk("a", (1.0, 2.0)), "input 'a': rate: expected one number; found shape (2,)"),
        (lambda: RandomWalk("a", sigma0=float("inf")), "input 'a': sigma0: expected finite numbers; found inf"),
        (lambda: GaussMarkov("a", time_constant=0), "input 'a': time_constant: expected a positive number; found 0"),
        (
            lambda: number("a", "sigma0", Unknown()),
            "input 'a': sigma0: expected a number; found Unknown, which power, density, rate, sigma, gain, delay, lag "
            "and limit may be",
        ),
        (lambda: Command("a", "i", gain=float("nan")), "input 'a': gain: expected finite numbers; found nan"),
        (lambda: Command("a", "i", lag=-1.0), "input 'a': lag: expected a number of at least 0; found -1"),
        (lambda: Command("a", "i", limit=Unknown(0.0)), "input 'a': limit: expected a positive number; found 0"),
        (lambda: Command("a", "i", delay=Unknown([1.0])), "input 'a': delay: expected one number; found shape (1,)"),
        (lambda: Command("a", "i", saturation="x"), "input 'a': saturation: expected 'tanh' or 'clip'; found 'x'"),
        (lambda: Command("a", "i", hold="cubic"), "input 'a': hold: expected 'previous' or 'linear'; found 'cubic'"),
    ],
)
def test_arguments_that_cannot_be_meant(build, text):
    with pytest.raises(ArgumentError) as error:
        build()
    assert str(error.value).startswith(text)
