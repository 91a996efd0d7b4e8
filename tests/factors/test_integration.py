"""Integration factors against their formulas, their order on exact motions, and each other."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.factors import integration

DT = 0.05
B = np.array([[0.0, 1.0, 0.0, 0.0], [0.2, 0.0, 0.0, -1.3]])
RULES = {
    "euler": (2, 0),
    "trapezoidal": (2, 0),
    "hermite_simpson_position": (3, 0),
    "hermite_simpson_velocity": (3, 1),
}
"""How many variables of a step each rule reads, and which of them it integrates."""


def _by_hand(name, linkage, start, end):
    x0, dx0, *rest0 = start
    x1, dx1, *rest1 = end
    if name == "euler":
        return x1 - x0 - DT * dx0
    if name == "trapezoidal":
        return x1 - x0 - DT * (dx0 + dx1) / 2
    # Cubic Hermite polynomials through the ends, at the middle.
    (ddx0,), (ddx1,) = rest0, rest1
    q_mid = (x0 + x1) / 2 + DT * (dx0 - dx1) / 8
    dq_mid = (dx0 + dx1) / 2 + DT * (ddx0 - ddx1) / 8
    if name == "hermite_simpson_position":
        return x1 - x0 - DT / 6 * (dx0 + 4 * dq_mid + dx1)
    return dx1 - dx0 - DT / 6 * (ddx0 + 4 * linkage.ddq(q_mid, dq_mid) + ddx1)


@pytest.mark.parametrize("name", RULES)
class TestRule:
    def variables(self, by_hand, name):
        count, _ = RULES[name]
        return [by_hand.state(seed)[:count] for seed in (1, 2)]

    def test_residual_is_its_formula(self, name, fourbar, by_hand, instant):
        start, end = self.variables(by_hand, name)
        residual = getattr(integration, name)(instant(fourbar), *map(jnp.asarray, (*start, *end)))
        np.testing.assert_allclose(residual, _by_hand(name, by_hand, start, end), atol=1e-9)

    def test_independent_version_is_the_selected_rows_of_the_rule(self, name, fourbar, by_hand, instant):
        """Where z = B x at both ends; z at the start is not read."""
        _, integrated = RULES[name]
        start, end = self.variables(by_hand, name)
        z0, z1 = np.full(2, np.nan), B @ end[integrated]
        variables = map(jnp.asarray, (*start, z0, *end, z1))
        residual = getattr(integration, f"{name}_independent")(instant(fourbar, jnp.asarray(B)), *variables)
        np.testing.assert_allclose(residual, B @ _by_hand(name, by_hand, start, end), atol=1e-9)

    def test_derivatives_equal_differences(self, name, fourbar, by_hand, instant, assert_derivatives):
        start, end = self.variables(by_hand, name)
        tol = 1e-6 if name == "hermite_simpson_velocity" else 1e-8
        assert_derivatives(getattr(integration, name), instant(fourbar), *start, *end, tol=tol)

    def test_independent_derivatives_equal_differences(self, name, fourbar, by_hand, instant, assert_derivatives):
        start, end = self.variables(by_hand, name)
        z0, z1 = np.array([[0.8, 0.2], [0.3, -0.1]])
        tol = 1e-6 if name == "hermite_simpson_velocity" else 1e-8
        residual = getattr(integration, f"{name}_independent")
        assert_derivatives(residual, instant(fourbar, jnp.asarray(B)), *start, z0, *end, z1, tol=tol)


@eqx.filter_jit
def _defects(at):
    """Residuals of all rules for a motion in closed form, over one step from t = 0.1 s."""

    def motion(t):
        x = jnp.array([jnp.sin(3 * t), jnp.exp(-t)])
        dx = jnp.array([3 * jnp.cos(3 * t), -jnp.exp(-t)])
        return x, dx, jnp.array([-9 * jnp.sin(3 * t), jnp.exp(-t)])

    (x0, dx0, ddx0), (x1, dx1, ddx1) = motion(0.1), motion(0.1 + at.dt)
    return jnp.stack(
        [
            integration.euler(at, x0, dx0, x1, dx1),
            integration.trapezoidal(at, x0, dx0, x1, dx1),
            integration.hermite_simpson_position(at, x0, dx0, ddx0, x1, dx1, ddx1),
        ]
    )


def test_defect_falls_with_the_order_of_the_rule(fourbar, instant):
    """One power of dt above the order: 2, 3 and 5."""
    dt = 0.1 / 2.0 ** np.arange(5)
    at = [eqx.tree_at(lambda at: at.dt, instant(fourbar), jnp.asarray(h)) for h in dt]
    defects = np.linalg.norm([_defects(a) for a in at], axis=2)
    slopes = np.polyfit(np.log(dt), np.log(defects), 1)[0]
    np.testing.assert_allclose(slopes, [2, 3, 5], atol=0.1)
