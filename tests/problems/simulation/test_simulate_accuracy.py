"""The free fall of the four-bar against its exact motion, with the measure of [Blanco21] section 7.1."""

import numpy as np
import pytest

from fgmbs.io.planar.load import load
from fgmbs.problems.simulation.simulate import simulate

MM = 1e3


def rmse(q, exact):
    """Root of the mean square of the errors of x1, y1, x2, y2 over all steps."""
    return np.sqrt(np.mean((np.asarray(q)[:, :4] - exact) ** 2))


def test_shipped_fourbar_is_that_of_the_truth(fourbar, data_dir):
    reference = load(data_dir / "multibody-factor-graphs" / "mechanisms" / "fourbars1.yaml")
    q = fourbar.reference + np.array([0.3, -0.2, 0.1, 0.4])
    np.testing.assert_allclose(fourbar.reference, reference.reference, rtol=1e-15)
    np.testing.assert_allclose(fourbar.mass_matrix(q), reference.mass_matrix(q), rtol=1e-14)
    np.testing.assert_allclose(fourbar.constraints(q, 0.0), reference.constraints(q, 0.0), atol=1e-14)
    np.testing.assert_allclose(fourbar.forces(q, q, 0.0), reference.forces(q, q, 0.0), rtol=1e-14)


def test_trapezoidal_rule_at_one_millisecond(soft_fall, truth):
    """0.0237 mm where measured; the plain rule without the smoother's corrections is at 0.0104 mm."""
    assert MM * rmse(soft_fall.q, truth["q"][:5001]) <= 0.03


def test_velocities_at_one_millisecond(soft_fall, truth):
    """The paper's 0.026 m/s hides under its other model; here it is the rule's error: 0.25 mm/s where measured."""
    assert MM * rmse(soft_fall.dq, truth["dq"][:5001]) <= 0.4


def test_default_is_along_the_constraints(fall, truth):
    """At a millisecond the rule of fourth order leaves rounding and the iteration: 3e-8 mm where measured."""
    assert (fall.coordinates, fall.integrator) == ("chart", "HermiteSimpson")
    assert MM * rmse(fall.q, truth["q"][:5001]) <= 1e-6
    assert np.max(fall.constraint_norm) <= 1e-13
    assert np.max(fall.velocity_constraint_norm) <= 1e-12


@pytest.mark.parametrize("dt_ms, limit", [(10, 5e-4), (20, 2e-2)])
def test_long_steps_along_the_constraints(fourbar, truth, dt_ms, limit):
    """0.00034 and 0.0152 mm where measured."""
    q = simulate(fourbar, 5.0, 1e-3 * dt_ms).q
    assert MM * rmse(q, truth["q"][:5001:dt_ms]) <= limit


@pytest.mark.parametrize("integrator", ["trapezoidal", "hermite_simpson"])
@pytest.mark.parametrize("dt", [1e-5, 1e-6])
def test_steps_so_short_that_positions_round(fourbar, short_run, integrator, dt):
    """A hundred steps against one: the displacement of the first is no larger than rounding of the coordinates."""
    short, long = short_run(fourbar, dt, integrator=integrator), short_run(fourbar, 100 * dt)
    np.testing.assert_allclose(short.q[100], long.q[1], atol=1e-14)
    np.testing.assert_allclose(short.dq[100], long.dq[1], atol=3e-13)
    energy = np.asarray(short.kinetic + short.potential)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-14)
    assert np.max(short.iterations) <= 6


@pytest.mark.slow
def test_independent_coordinates_at_one_millisecond(fourbar_angle, truth):
    """Along one coordinate there is nothing to correct across the constraints: 0.0026 mm where measured."""
    result = simulate(fourbar_angle, 5.0, 1e-3, coordinates="independent", integrator="trapezoidal")
    assert MM * rmse(result.q, truth["q"][:5001]) <= 0.003


@pytest.mark.slow
def test_hermite_simpson_at_ten_milliseconds(fourbar, truth):
    """Ten times the step, a hundredth of the error: 0.0004 mm where measured."""
    result = simulate(fourbar, 5.0, 1e-2, coordinates="dependent")
    assert MM * rmse(result.q, truth["q"][:5001:10]) <= 0.002


# Horizons are so short that the coarsest step still follows the motion, and so long that the finest error stays above
# the 3e-12 m to which the exact motion is known.
@pytest.mark.slow
@pytest.mark.parametrize(
    "integrator, coordinates, horizon_ms, order",
    [
        ("euler", "chart", 160, 1),
        ("trapezoidal", "chart", 160, 2),
        ("hermite_simpson", "chart", 480, 4),
        ("euler", "dependent", 160, 1),
        ("trapezoidal", "dependent", 160, 2),
        ("trapezoidal", "independent", 160, 2),
        ("hermite_simpson", "dependent", 480, 4),
        ("hermite_simpson", "independent", 480, 4),
    ],
)
def test_order_of_convergence(fourbar, truth, short_run, integrator, coordinates, horizon_ms, order):
    """Each run takes 160 steps, of which the first 10, 20 … 160 fill the horizon: one compilation for all."""
    samples = np.arange(1, 11)
    exact = truth["q"][samples * horizon_ms // 10]
    errors = []
    for count in (10, 20, 40, 80, 160):
        # Beyond the horizon coarse steps may fail.
        options = {"integrator": integrator, "coordinates": coordinates, "throw": count == 160}
        q = short_run(fourbar, 1e-3 * horizon_ms / count, **options).q
        errors.append(rmse(np.asarray(q)[samples * count // 10], exact))
    slope = np.polyfit(np.arange(5), np.log2(errors), 1)[0]
    assert slope == pytest.approx(-order, abs=0.1)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"window": 3}, marks=pytest.mark.slow),
        pytest.param({"window": 4}, marks=pytest.mark.slow),
        pytest.param({"window": 6}, marks=pytest.mark.slow),
        {"window": 10},
        {"batch": True},
        pytest.param({"window": 5, "batch": True, "linear": "sqrt"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_longer_windows_give_the_same_motion(fourbar, short_run, options):
    """The residuals nearly vanish, so that later steps hardly correct earlier ones: less than the rule's own error."""
    soft = {"coordinates": "dependent", "integrator": "trapezoidal"}
    usual, longer = short_run(fourbar, **soft), short_run(fourbar, **soft, **options)
    np.testing.assert_allclose(longer.q, usual.q, atol=1e-7)  # truncation error 2e-7 m
    np.testing.assert_allclose(longer.dq, usual.dq, atol=2e-5)


def test_linear_methods_agree(fourbar, short_run):
    soft = {"coordinates": "dependent", "integrator": "trapezoidal"}
    np.testing.assert_allclose(short_run(fourbar, linear="sqrt", **soft).q, short_run(fourbar, **soft).q, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["trapezoidal", "hermite_simpson"])
def test_steps_are_the_elimination_of_the_whole_graph(fourbar, short_run, integrator):
    """One step after the other, or all of them at once by Levenberg–Marquardt: the same solution."""
    steps = short_run(fourbar, integrator=integrator)
    whole = short_run(fourbar, integrator=integrator, batch=True)
    np.testing.assert_allclose(whole.q, steps.q, atol=1e-11)
    np.testing.assert_allclose(whole.dq, steps.dq, atol=1e-10)
    assert int(whole.iterations[0]) <= 2
