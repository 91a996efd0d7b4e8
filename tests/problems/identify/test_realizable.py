"""Inertias that a body can have: I0 ≥ m |c|² whatever the noise, as exactly as a bound; and what nothing separates."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from rod import INPUTS, START, T, measured, rod

import fgmbs
from fgmbs import robots
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command, Disturbance
from fgmbs.sensors import Encoder
from fgmbs.unknowns import Unknown

ZERO = {"enc.bias": Unknown(sigma=0.1)}
"""What the encoder reads at zero, found along with them."""
FREE = {"rod.mass": True, "rod.I0": True}
FIRST = 1.5, 1.0
LEAST = 1e-4 * (1.0 - 0.25 * 1.5)
"""What is left of the inertia about the centre of the first values, at least."""


@pytest.fixture(scope="module")
def noisy():
    """Noise that pushes the inertia below that of the mass in its centre."""
    return measured(rod(), 0.2, seed=7)


def fitted(mechanism, data, free, **options):
    sensors, recording = data
    return fgmbs.identify(mechanism, recording, sensors, INPUTS, free=ZERO | free, start=START, **options)


@pytest.fixture(scope="module")
def fit(noisy):
    return fitted(rod(*FIRST), noisy, FREE)


@pytest.mark.slow
def test_noise_does_not_make_the_inertia_impossible(fit):
    found = fit.parameters
    assert found["rod.I0"] - 0.25 * found["rod.mass"] == pytest.approx(LEAST, abs=1e-9)
    assert fit.status == fgmbs.Status.converged and fit.at_limit == {"rod.I0": True}
    assert any(text.startswith("rod.I0: as small as mass and centre of mass") for text in fit.warnings())
    assert "rod.I0: as small as" in fit.report()


@pytest.mark.slow
def test_at_the_limit_it_is_the_problem_of_one_number_less(fit, noisy):
    """The inertia is an expression of the mass, which alone is found."""
    tied = fitted(rod(FIRST[0], f"mass*0.25 + {LEAST}"), noisy, {"rod.mass": True})
    std = tied.std["rod.mass"]
    assert fit.parameters["rod.mass"] == pytest.approx(tied.parameters["rod.mass"], abs=0.01 * std)
    assert fit.std["rod.mass"] == pytest.approx(std, rel=1e-3)
    assert fit.std["rod.I0"] == pytest.approx(0.25 * std, rel=1e-3)
    assert tied.at_limit == {}


@pytest.mark.slow
def test_bounds_of_the_named_numbers_hold_beside_it(noisy):
    found = fitted(rod(*FIRST), noisy, {"rod.mass": (0.1, 2.05), "rod.I0": (0.1, 5.0)})
    assert found.parameters["rod.mass"] <= 2.05 and found.parameters["rod.I0"] >= 0.25 * found.parameters["rod.mass"]
    found = fitted(rod(*FIRST), noisy, {"rod.mass": True, "rod.I0": (0.55, 1.2)})
    assert found.parameters["rod.I0"] == 0.55 and found.at_bound["rod.I0"]
    assert found.parameters["rod.mass"] <= 0.55 / 0.25


@pytest.mark.slow
def test_with_little_noise_nothing_is_changed():
    found = fitted(rod(*FIRST), measured(rod(), 1e-4, seed=1), FREE)
    assert found.at_limit == {"rod.I0": False}
    assert found.parameters["rod.I0"] == pytest.approx(0.501, abs=4 * found.std["rod.I0"])


@pytest.mark.slow
def test_where_inertia_is_known_the_mass_has_a_limit(noisy):
    """Free runs, and a mass that must not grow beyond I0/c²."""
    found = fitted(rod(1.5, 0.51), noisy, {"rod.mass": True}, method="prediction")
    assert found.parameters["rod.mass"] <= 0.51 / 0.25
    found = fitted(rod(1.5, 0.4), noisy, {"rod.mass": True})
    assert found.at_limit["rod.I0"] and found.std["rod.mass"] == 0
    assert found.parameters["rod.mass"] == pytest.approx((0.4 - 1e-4 * (0.4 - 0.25 * 1.5)) / 0.25, rel=1e-9)


@pytest.mark.slow
def test_a_combination_that_no_reading_separates_is_named():
    """Of a pendulum that swings freely its angle tells one ratio of mass, inertia and centre of mass."""
    fit = fitted(rod(2.0, 0.8), measured(rod(2.0, 0.8), 1e-3, None, torque=0 * T), FREE)
    told = fit.identifiability()
    assert told.rank == 2
    (one,) = told.combinations
    assert set(one.parts) == {"rod.mass", "rod.I0"}
    assert one.parts["rod.mass"] == pytest.approx(one.parts["rod.I0"], rel=1e-3)  # both by the same factor
    assert told.determined == ("enc.bias",)
    assert fit.std["enc.bias"] < 2e-2
    for name, true in (("rod.mass", 2.0), ("rod.I0", 0.8)):
        low, high = fit.intervals()[name]
        assert fit.undetermined[name] and low < true / 10 and high > 10 * true
    assert fit.parameters["rod.mass"] / fit.parameters["rod.I0"] == pytest.approx(2.5, rel=1e-4)
    assert "cannot be separated" in fit.report()
    # One of it that reached a bound is said not to be told, not to be there.
    upper = jnp.where(jnp.arange(len(fit.names)) == fit.names.index("rod.mass"), fit.theta, fit.free.upper)
    bounded = dataclasses.replace(fit, free=dataclasses.replace(fit.free, upper=upper))
    (text,) = (text for text in bounded.warnings() if "at its bound" in text)
    assert text.startswith("rod.mass: at its bound, ") and text.endswith("; the data do not tell where it is")
    assert bounded.undetermined["rod.I0"]


def test_impossible_first_values_are_refused(noisy):
    with pytest.raises(ArgumentError, match=r"free: expected first values of rod.I0, rod.mass that a body can have"):
        fitted(rod(*FIRST), noisy, {"rod.mass": True, "rod.I0": 0.1})


@pytest.mark.parametrize("method", ["prediction", pytest.param("smoother", marks=pytest.mark.slow)])
def test_no_moment_of_a_robots_link_becomes_larger_than_the_others_together(method):
    """One of three is free, the others are known too small."""

    def arm(xx, yy, zz):
        link = robots.link("arm", 0.8, (0.05, 0, 0.03), (xx, yy, zz))
        joint = robots.revolute("shoulder", "world", "arm", (0, -1, 0), damping=0.02)
        return robots.robot(link, joint)

    t = np.arange(101) * 1e-2
    torque = 0.3 * np.sin(5 * t)
    motion = fgmbs.hybrid_dynamics(arm(0.004, 0.004, 0.004), t, forces={"shoulder": torque}, start={})
    sensors = (Encoder("enc", of="shoulder", sigma=1e-3),)
    read = fgmbs.readings(arm(0.004, 0.004, 0.004), motion, sensors, seed=0)
    read = read.merged(fgmbs.Recording.of(t, {"u": torque}))
    inputs, free = (Command("shoulder", "u", hold="linear"), Disturbance(1e-6)), {"arm.inertia.yy": True}
    first = arm(0.001, 0.001, 0.0015)
    fit = fgmbs.identify(first, read, sensors, inputs, free=free, method=method, start={})
    assert fit.parameters["arm.inertia.yy"] == pytest.approx(0.0025, rel=1e-3) and fit.at_limit["arm.inertia"]
    assert float(fit.mechanism.margins()["arm.inertia"]) >= 0
    right = fgmbs.identify(arm(0.004, 0.001, 0.004), read, sensors, inputs, free=free, method=method, start={})
    assert right.parameters["arm.inertia.yy"] == pytest.approx(0.004, abs=4 * right.std["arm.inertia.yy"])
    assert right.std["arm.inertia.yy"] > 0 and not right.at_limit["arm.inertia"]


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_a_product_of_inertia_is_limited_whatever_the_body_weighs(size):
    """By a moment about a third axis that is the largest, on which it has no effect while it is small."""
    link = robots.link("arm", 0.8, (0.05, 0, 0.03), np.array([0.03, 0.03, 0.05]) * size)
    arm = robots.robot(link, robots.revolute("joint", "world", "arm", (0, -1, 0)))
    sensors = (Encoder("enc", of="joint", sigma=1e-3),)
    recording = fgmbs.Recording.of(T, {"enc": 0 * T, "u": 0 * T})
    prepared = fgmbs.prepare_identify(arm, recording, sensors, (Command("joint", "u"),), free=["arm.inertia.xy"])
    assert prepared.smoothing.free.limited == ("arm.inertia",)


def test_only_numbers_of_the_link_are_named():
    links = (
        robots.link(name, 1.0, (0.1, 0, 0), moments) for name, moments in (("a", (0.03, 0.03, 0.2)), ("a1", (1, 1, 1)))
    )
    joints = robots.revolute("j", "world", "a", (0, 1, 0)), robots.revolute("k", "a", "a1", (0, 1, 0))
    arm, recording = robots.robot(*links, *joints), fgmbs.Recording.of(T, {"enc": 0 * T, "u": 0 * T})
    sensors = (Encoder("enc", of="j", sigma=1e-3),)
    with pytest.raises(
        ArgumentError, match=r"values of a\.inertia\.yy that .*; a\.inertia: its largest .* 0\.14 kg m²"
    ):
        free = ["a.inertia.yy", "a.mass", "a1.mass"]
        fgmbs.identify(arm, recording, sensors, (Command("j", "u"),), free=free, start={})
