"""How small displacements of the start grow: against closed forms and differences of simulations."""

import math

import jax
import numpy as np
import pytest

import fgmbs
from fgmbs import ArgumentError, results
from fgmbs.dynamics.chart import MotionChart
from fgmbs.results.summaries import simulation_summary


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


def upright(pendulum, duration):
    return fgmbs.simulate(pendulum, duration=duration, dt=2e-3, start={"x_tip": 0.0, "y_tip": 1.0})


def test_a_pendulum_that_stands_on_its_head_leaves_it_exponentially(pendulum):
    motion = upright(pendulum, 4.0)
    # θ̈ = (m g L/2)/(m L²/3) θ beside it.
    expected = np.cosh(math.sqrt(1.5 * 9.81) * np.asarray(motion.t))
    np.testing.assert_allclose(motion.sensitivity(), expected, rtol=1e-4)


@pytest.mark.slow
def test_small_displacements_grow_as_in_simulations(configs):
    double = fgmbs.load(configs / "mechanisms" / "double_pendulum_ibm.yaml")
    angles, h = {"theta": 0.5, "phi": 1.0}, 1e-5

    def moved(**angles):
        return fgmbs.simulate(double, duration=1.0, dt=2e-3, start=angles)

    def difference(name):
        plus, minus = (np.asarray(moved(**(angles | {name: angles[name] + sign * h})).q) for sign in (1, -1))
        return (plus - minus) / (2 * h)

    motion = moved(**angles)
    both = np.stack([difference(name) for name in angles], axis=2)
    sizes = np.asarray(double.coordinate_sizes)
    B = np.asarray(MotionChart(2).selection(double.evaluated(), motion.q[0], 0.0))
    # Per unit displacement of the independent coordinates at the start, all by their sizes.
    expected = np.linalg.norm(both / sizes[:, None] @ np.linalg.inv(B @ both[0]) * (B @ sizes), 2, axis=(1, 2))
    np.testing.assert_allclose(motion.sensitivity(), expected, rtol=5e-3)
    assert expected[-1] > 2 * expected[0]


def test_what_is_no_single_motion_is_refused(pendulum):
    batch = jax.tree.map(lambda leaf: leaf[None], fgmbs.simulate(pendulum, duration=0.02, dt=2e-3))
    with pytest.raises(ArgumentError, match="sensitivity: expected a single motion .* found a batch"):
        batch.sensitivity()


def test_an_end_that_is_not_determined_is_said_to_be_one(pendulum):
    motion = upright(pendulum, 4.0)
    dataset = results.with_sensitivity(results.to_dataset(motion), motion)
    np.testing.assert_array_equal(dataset["sensitivity"], motion.sensitivity())
    said = simulation_summary(dataset)
    beyond = float(dataset.t[int(np.argmax(dataset["sensitivity"].values > 1e6))])
    assert beyond == pytest.approx(math.acosh(1e6) / math.sqrt(1.5 * 9.81), abs=4e-3)
    assert f"a start known to a millionth says nothing from t = {beyond:g} s on" in said
    short = dataset.isel(step=slice(500))
    assert "times as large at the end" in simulation_summary(short) and "unstable" not in simulation_summary(short)
