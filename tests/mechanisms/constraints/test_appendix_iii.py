"""The closed forms of [Blanco21] appendix III as printed, against the derivatives of our constraints.

Checked are Φ_q, Φ̇_q, Φ_qq q̈ and (Φ̇_q)_q of each row, for coordinates in the order of the paper.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.mechanisms.planar.constraints.absolute_angle import absolute_angle
from fgmbs.mechanisms.planar.constraints.distance import squared_distance
from fgmbs.mechanisms.planar.constraints.fixed_slider import fixed_slider
from fgmbs.mechanisms.planar.constraints.mobile_slider import mobile_slider


def points(q):
    return q.reshape(-1, 2)


def constant_distance(q):
    return squared_distance(*points(q), 1.7)


def print_41(q):
    xi, yi, xj, yj = q
    return np.array([2 * (xi - xj), 2 * (yi - yj), 2 * (xj - xi), 2 * (yj - yi)])


LINE = jnp.array([[0.3, -0.4], [1.9, 0.6]])


def sliding_on_a_fixed_line(q):
    return fixed_slider(q, LINE)


def print_42(q):
    (xA, yA), (xB, yB) = np.asarray(LINE)
    return np.array([-(yB - yA), xB - xA])


def sliding_on_a_mobile_line(q):
    return mobile_slider(*points(q))


def print_43(q):
    x, y, xi, yi, xj, yj = q
    return np.array([yi - yj, xj - xi, yj - y, x - xj, y - yi, xi - x])


# row: (our function of q, printed Φ_q, printed Φ_qq). Printed Φ̇_q (41c, 42c, 43c) and Φ_qq q̈ (41f, 43f) have the form
# of Φ_q with rates in the place of coordinates where Φ_q is linear; 42 is constant.
ROWS = {
    "41": (
        constant_distance,
        print_41,
        [[2, 0, -2, 0], [0, 2, 0, -2], [-2, 0, 2, 0], [0, -2, 0, 2]],
        print_41,
    ),
    "42": (sliding_on_a_fixed_line, print_42, [[0, 0], [0, 0]], lambda dq: np.zeros(2)),
    "43": (
        sliding_on_a_mobile_line,
        print_43,
        [
            [0, 0, 0, 1, 0, -1],
            [0, 0, -1, 0, 1, 0],
            [0, -1, 0, 0, 0, 1],
            [1, 0, 0, 0, -1, 0],
            [0, 1, 0, -1, 0, 0],
            [-1, 0, 1, 0, 0, 0],
        ],
        print_43,
    ),
}


@pytest.mark.parametrize("equation", ROWS)
def test_printed_rows_are_reproduced(equation):
    row, Phi_q, Phi_qq, dPhi_q = ROWS[equation]
    q, dq, ddq = jnp.asarray(np.random.default_rng(3).normal(size=(3, len(Phi_qq))))

    jacobian = jax.jit(jax.jacfwd(row))
    tensor = jax.jit(jax.jacrev(jacobian))
    np.testing.assert_allclose(jacobian(q), Phi_q(q), atol=1e-12)  # (41b, 42b, 43b)
    np.testing.assert_allclose(jax.jvp(jacobian, (q,), (dq,))[1], dPhi_q(dq), atol=1e-12)  # (41c, 42c, 43c)
    np.testing.assert_allclose(tensor(q), np.array(Phi_qq), atol=1e-12)  # (41d, 42d, 43d)
    np.testing.assert_allclose(jax.jacfwd(tensor)(q) @ dq, 0.0, atol=1e-12)  # (41e, 43e)
    np.testing.assert_allclose(tensor(q) @ ddq, dPhi_q(ddq), atol=1e-12)  # (41f, 43f)


L = 1.3


def row_44(theta, dtheta, ddtheta):
    """(44b), (44c), (44f), (44g) with (44e)."""
    Phi_q = np.array([-1, 0, 1, 0, L * np.sin(theta)])
    last = np.array([0, 0, 0, 0, 1.0])
    return (
        Phi_q,
        last * L * dtheta * np.cos(theta),
        last * L * ddtheta * np.cos(theta),
        -last * L * dtheta**2 * np.sin(theta),
    )


def row_45(theta, dtheta, ddtheta):
    """(45b), (45c), (45f), (45g) with (45e)."""
    Phi_q = np.array([0, -1, 0, 1, -L * np.cos(theta)])
    last = np.array([0, 0, 0, 0, 1.0])
    return (
        Phi_q,
        last * L * dtheta * np.sin(theta),
        last * L * ddtheta * np.sin(theta),
        last * L * dtheta**2 * np.cos(theta),
    )


@pytest.mark.parametrize("theta", np.linspace(0.0, 2 * np.pi, 9))
def test_the_smooth_angle_row_is_the_two_printed_rows_turned_by_theta(theta):
    """With A = (44a), B = (45a): L Φ = −sin θ A + cos θ B; A, B and their rates vanish on a motion of the link."""
    dtheta, ddtheta = 0.7, -1.1
    s, c = np.sin(theta), np.cos(theta)
    a, da = np.array([0.2, -0.5]), np.array([0.9, 0.4])
    e, e_normal = np.array([c, s]), np.array([-s, c])
    q = jnp.array([*a, *(a + L * e), theta])
    dq = jnp.array([*da, *(da + L * dtheta * e_normal), dtheta])

    def row(q):
        return L * absolute_angle(q[:2], q[2:4], q[4], L)

    A_q, dA_q, _, dA_q_q_dq = row_44(theta, dtheta, ddtheta)
    B_q, dB_q, _, dB_q_q_dq = row_45(theta, dtheta, ddtheta)
    jacobian = jax.jacfwd(row)
    np.testing.assert_allclose(jacobian(q), -s * A_q + c * B_q, atol=1e-12)

    # d/dt (−s A_q + c B_q − (c A + s B) e_θ) on the motion
    normal_q = -c * A_q - s * B_q
    expected = -s * dA_q + c * dB_q + dtheta * normal_q
    np.testing.assert_allclose(jax.jvp(jacobian, (q,), (dq,))[1], expected, atol=1e-12)

    # (Φ̇_q)_q q̇ with the printed (44g), (45g): what of the row's third derivative is left on the motion
    np.testing.assert_allclose(normal_q @ dq, 0.0, atol=1e-12)


@pytest.mark.parametrize("theta", [0.4, 2.5, 4.0])
def test_print_44_and_45_are_derivatives_of_their_rows(theta):
    """The prints that the test above builds on."""
    q = jnp.array([0.2, -0.5, 1.1, 0.3, theta])
    dq = jnp.array([0.3, 0.1, -0.4, 0.8, 0.7])
    ddq = jnp.array([0.0, 0.0, 0.0, 0.0, -1.1])
    for function, prints in [
        (lambda q: q[2] - q[0] - L * jnp.cos(q[4]), row_44),
        (lambda q: q[3] - q[1] - L * jnp.sin(q[4]), row_45),
    ]:
        Phi_q, dPhi_q, Phi_qq_ddq, dPhi_q_q_dq = prints(theta, 0.7, -1.1)
        jacobian = jax.jacfwd(function)
        np.testing.assert_allclose(jacobian(q), Phi_q, atol=1e-12)
        np.testing.assert_allclose(jax.jvp(jacobian, (q,), (dq,))[1], dPhi_q, atol=1e-12)
        np.testing.assert_allclose(jax.jvp(jacobian, (q,), (ddq,))[1], Phi_qq_ddq, atol=1e-12)
        of_rates = jax.jacfwd(lambda q, jacobian=jacobian: jax.jvp(jacobian, (q,), (dq,))[1])
        np.testing.assert_allclose(of_rates(q) @ dq, dPhi_q_q_dq, atol=1e-12)
