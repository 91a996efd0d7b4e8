"""Integration factors between variables (q, dq, ddq, u) of two steps against their formulas."""

import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.dynamics.forcing import Forcing
from fgmbs.dynamics.transitions import TRANSITIONS
from fgmbs.factors import transition

DT = 0.05
B = np.array([[0.0, 1.0, 0.0, 0.0], [0.2, 0.0, 0.0, -1.3]])
NONE = Forcing((), (), jnp.zeros(0))
NO_FORCE, NO_COMMAND = np.zeros(0), jnp.zeros((2, 0))


def formulas(name, linkage, start, end):
    """(r_q, r_dq)."""
    (q0, dq0, ddq0), (q1, dq1, ddq1) = start, end
    if name == "euler":
        return q1 - q0 - DT * dq0, dq1 - dq0 - DT * ddq0
    if name == "trapezoidal":
        return q1 - q0 - DT * (dq0 + dq1) / 2, dq1 - dq0 - DT * (ddq0 + ddq1) / 2
    # Cubic Hermite polynomials at the middle: that through the ends of q, and that of dq with its rates.
    q, dq = (q0 + q1) / 2 + DT * (dq0 - dq1) / 8, 3 / 2 / DT * (q1 - q0) - (dq0 + dq1) / 4
    dq_of_rates = (dq0 + dq1) / 2 + DT * (ddq0 - ddq1) / 8
    return (
        q1 - q0 - DT / 6 * (dq0 + 4 * dq_of_rates + dq1),
        dq1 - dq0 - DT / 6 * (ddq0 + 4 * linkage.ddq(q, dq) + ddq1),
    )


@pytest.mark.parametrize("kind", [0, 1], ids=["positions", "velocities"])
@pytest.mark.parametrize("name", TRANSITIONS)
class TestIntegrated:
    @pytest.mark.slow
    def test_residual_is_its_formula(self, name, kind, fourbar, by_hand, instant, assert_derivatives):
        residual = (transition.integrated_positions, transition.integrated_velocities)[kind]
        start, end = by_hand.state(1), by_hand.state(2)
        at = instant(fourbar, NO_COMMAND, data=(TRANSITIONS[name], NONE))
        variables = (*start, NO_FORCE, *end, NO_FORCE)
        expected = formulas(name, by_hand, start, end)[kind]
        np.testing.assert_allclose(residual(at, *map(jnp.asarray, variables)), expected, atol=1e-9)
        tol = 1e-6 if (name, kind) == ("hermite_simpson", 1) else 1e-8
        assert_derivatives(residual, at, *variables, tol=tol)

    def test_independent_version_is_its_selected_rows(self, name, kind, fourbar, by_hand, instant, assert_derivatives):
        """Where z = B x at the end; z at the start is not read."""
        independent = (transition.integrated_positions_independent, transition.integrated_velocities_independent)
        start, end = by_hand.state(1), by_hand.state(2)
        at = instant(fourbar, (jnp.asarray(B), NO_COMMAND), data=(TRANSITIONS[name], NONE))
        z0, z1 = np.full(2, np.nan), B @ end[kind]
        variables = (*start, NO_FORCE, z0, *end, NO_FORCE, z1)
        expected = B @ formulas(name, by_hand, start, end)[kind]
        np.testing.assert_allclose(independent[kind](at, *map(jnp.asarray, variables)), expected, atol=1e-9)
        z0, z1 = np.array([[0.8, 0.2], [0.3, -0.1]])
        tol = 1e-6 if (name, kind) == ("hermite_simpson", 1) else 1e-8
        assert_derivatives(independent[kind], at, *start, NO_FORCE, z0, *end, NO_FORCE, z1, tol=tol)
