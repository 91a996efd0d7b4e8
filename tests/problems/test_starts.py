"""Starts far from the drawing: the same motion with `jax.vmap` and without, and its derivatives."""

import jax
import numpy as np
import pytest

import fgmbs
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.status import Status

T = np.arange(21) * 5e-3
COUPLERS = np.array([1.9, 2.0, 2.1, 10.0])
"""Lengths of members; with the last one the four-bar cannot be assembled."""
FAR = 3.4
"""A crank angle that Newton's method reaches from the drawing only half a turn off [rad]."""


@pytest.fixture(scope="module")
def crank(configs):
    """Assembled as drawn, whatever its lengths."""
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


@pytest.fixture(scope="module")
def loop(configs):
    """The same with a rocker of its own length, so that it must be assembled and may not be."""
    text = (configs / "mechanisms" / "fourbar_crank_angle.yaml").read_text()
    text = text.replace("x: x_P1, y: L_coupler", "x: 1, y: 2").replace("length: auto", "length: 3.6")
    return PlanarMechanism.from_description(parse_mechanism(text))


def simulated(mechanism):
    return fgmbs.simulate(mechanism, T[-1], T[1], start={"theta": FAR}, start_velocities={"theta": 1.0})


def driven(mechanism):
    """Drawn with the crank at 0, which begins to turn far from there."""
    return fgmbs.inverse_dynamics(mechanism, T, {"theta": lambda t: FAR + 0.5 * t + t**2})


def commanded(mechanism):
    return fgmbs.hybrid_dynamics(mechanism, T, forces={"motor": 30 * np.cos(2 * T)}, start={"theta": FAR})


def with_coupler(loop, length):
    return loop.with_parameters({"L_coupler": length})


@pytest.mark.slow
@pytest.mark.parametrize("question", [simulated, driven, commanded])
def test_batch_equals_loop_and_bad_member_spoils_no_other(loop, question):
    batch = jax.jit(jax.vmap(lambda length: question(with_coupler(loop, length))))(COUPLERS)
    for k, length in enumerate(COUPLERS[:3]):
        alone = question(with_coupler(loop, length))
        assert alone.q[0, 4] == pytest.approx(FAR, abs=1e-12)
        for name in ("q", "dq", "ddq", "multipliers"):
            one = np.asarray(getattr(alone, name))
            # The conditioning of the equations of motion multiplies rounding.
            np.testing.assert_allclose(getattr(batch, name)[k], one, rtol=0, atol=1e-12 * (1 + np.abs(one).max()))
    bad = Status.out_of_reach if question is driven else Status.not_assembled
    np.testing.assert_array_equal(batch.status == Status.converged, [True, True, True, False])
    assert (batch.status == bad)[3]


@pytest.mark.slow
def test_way_from_the_drawing_is_the_same_in_a_batch(crank):
    """As drawn it is assembled, and turned from there."""
    masses = np.array([1.0, 2.0])

    def question(mass):
        return driven(crank.with_parameters({"crank.mass": mass}))

    batch = jax.jit(jax.vmap(question))(masses)
    for k, mass in enumerate(masses):
        alone = question(mass)
        np.testing.assert_allclose(batch.q[k], alone.q, atol=1e-12)
        np.testing.assert_allclose(batch.forces[k], alone.forces, atol=1e-12 * np.abs(alone.forces).max())


@pytest.mark.slow
def test_contradictory_velocities_are_reported_by_the_status(crank):
    """The crank turns by one of the two, which a batch cannot refuse."""

    def question(mass):
        changed = crank.with_parameters({"crank.mass": mass})
        return fgmbs.simulate(changed, T[-1], T[1], start_velocities={"theta": 1.0, "y_P1": 2.0})

    with pytest.raises(fgmbs.ArgumentError, match="cannot all hold in this configuration"):
        question(1.0)
    batch = jax.jit(jax.vmap(question))(np.array([1.0, 2.0]))
    assert (batch.status == Status.contradictory).all()
    with pytest.raises(fgmbs.SolveError, match="member 1: the velocities of the start contradict"):
        batch.check()


@pytest.mark.slow
def test_derivatives_of_a_motion_from_an_assembled_start_equal_differences(loop):
    def final(length):
        return simulated(with_coupler(loop, length)).q[-1]

    h = 1e-3
    moves = h * np.array([-2.0, -1.0, 1.0, 2.0])
    back2, back, ahead, ahead2 = np.asarray(jax.jit(jax.vmap(final))(2.05 + moves))
    expected = (8 * (ahead - back) - (ahead2 - back2)) / (12 * h)
    forward = jax.jit(jax.jacfwd(final))(2.05)
    np.testing.assert_allclose(forward, expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(jax.jit(jax.jacrev(final))(2.05), forward, atol=1e-10 * np.abs(expected).max())
