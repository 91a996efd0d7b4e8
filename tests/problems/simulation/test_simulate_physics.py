"""Motions that are known otherwise: in closed form, from equations of one degree of freedom, from MuJoCo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

from fgmbs.io.planar.catalogue import chain
from fgmbs.io.planar.load import load
from fgmbs.kinematics.mobility import degrees_of_freedom
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.simulation.simulate import simulate

GRAVITY = 9.81


def run(configs, name, duration, dt, **options):
    return simulate(load(configs / "mechanisms" / f"{name}.yaml"), duration, dt, **options)


def column(result, name):
    return np.asarray(result.q)[:, result.coordinate_names.index(name)]


def test_pendulum_follows_elliptic_functions(configs):
    """Released at 45°: sin(φ/2) = k sn(K + ω₀ t, k) with φ from the vertical, k = sin(22.5°), ω₀² = 3 g / (2 L)."""
    result = run(configs, "pendulum", 2.0, 5e-3, integrator="hermite_simpson")
    m = np.sin(np.pi / 8) ** 2
    sn = ellipj(ellipk(m) + np.sqrt(1.5 * GRAVITY) * np.asarray(result.t), m)[0]
    phi = -2 * np.arcsin(np.sqrt(m) * sn)  # starts to the right, at −45° from +X
    np.testing.assert_allclose(column(result, "x_tip"), -np.sin(phi), atol=1e-8)
    np.testing.assert_allclose(column(result, "y_tip"), -np.cos(phi), atol=1e-8)


@pytest.mark.slow
def test_damped_oscillation_is_exact(configs):
    """ẍ + 2 ζ ω ẋ + ω² x = 0, ω = 2 rad/s, ζ = 0.1, from rest at 0.2 m."""
    result = run(configs, "spring_mass_damper", 4.0, 1e-2, integrator="hermite_simpson")
    t, decay, omega_d = np.asarray(result.t), 0.2, 2 * np.sqrt(1 - 0.1**2)
    x = 0.2 * np.exp(-decay * t) * (np.cos(omega_d * t) + decay / omega_d * np.sin(omega_d * t))
    np.testing.assert_allclose(column(result, "x_left"), 1.0 + x, atol=1e-9)
    np.testing.assert_allclose(result.power, -0.8 * np.asarray(result.dq)[:, 0] ** 2, atol=1e-12)


def one_dof(rods):
    """(A, A', V') of uniform rods as functions of the one coordinate θ, with T = ½ A(θ) θ̇².

    `rods(θ)` lists (mass, one end, the other end); a rod has T = m (v₁·v₁ + v₁·v₂ + v₂·v₂) / 6.
    """

    def inertia(theta):
        _, rates = jax.jvp(lambda theta: [ends for _, *ends in rods(theta)], (theta,), (1.0,))
        return sum(mass * (a @ a + a @ b + b @ b) / 3 for (mass, *_), (a, b) in zip(rods(theta), rates, strict=True))

    def height(theta):
        return sum(mass * GRAVITY * (a[1] + b[1]) / 2 for mass, a, b in rods(theta))

    return jax.jit(lambda theta: (inertia(theta), jax.grad(inertia)(theta), jax.grad(height)(theta)))


def slider_crank_rods(theta, r=0.1, length=0.3, block=0.05):
    pin = r * jnp.array([jnp.cos(theta), jnp.sin(theta)])
    wrist = jnp.array([1.0, 0.0]) * (pin[0] + jnp.sqrt(length**2 - pin[1] ** 2))
    return (1.0, 0.0 * pin, pin), (0.5, pin, wrist), (0.8, wrist, wrist + jnp.array([block, 0.0]))


def crank_rocker_rods(theta, a=0.1, b=0.3, c=0.25, d=0.35):
    """Coupler and rocker meet left of the line from the pin P to the pivot O2, seen from P."""
    pin, pivot = a * jnp.array([jnp.cos(theta), jnp.sin(theta)]), jnp.array([d, 0.0])
    distance = jnp.sqrt((pivot - pin) @ (pivot - pin))
    e = (pivot - pin) / distance
    along = (distance**2 + b**2 - c**2) / (2 * distance)
    Q = pin + along * e + jnp.sqrt(b**2 - along**2) * jnp.array([-e[1], e[0]])
    return (0.2, 0.0 * pin, pin), (0.5, pin, Q), (0.4, pivot + 0.0 * Q, Q)


@pytest.mark.slow
def test_slider_crank_follows_its_equation_of_one_coordinate(configs):
    """A θ̈ + ½ A' θ̇² + V' = 0, integrated by SciPy."""
    result = run(configs, "slider_crank", 0.5, 2.5e-3, integrator="hermite_simpson")
    numbers = one_dof(slider_crank_rods)

    def rate(_, y):
        A, dA, dV = map(float, numbers(y[0]))
        return y[1], -(dA * y[1] ** 2 / 2 + dV) / A

    exact = solve_ivp(rate, (0, 0.5), (np.pi / 3, 0), "DOP853", np.asarray(result.t), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(column(result, "theta"), exact.y[0], atol=1e-7)
    wrist = jax.vmap(lambda theta: slider_crank_rods(theta)[1][2][0])(jnp.asarray(exact.y[0]))
    np.testing.assert_allclose(column(result, "x_wrist"), wrist, atol=1e-8)


@pytest.mark.slow
def test_driven_crank_moves_as_prescribed_and_asks_for_its_torque(configs):
    """θ = 30° + 2π t. Torque of the motor by power balance: τ θ̇ = d(T + V)/dt, so τ = ½ A' θ̇² + V'."""
    result = run(configs, "driven_crank", 1.0, 2.5e-3, integrator="hermite_simpson")
    theta, omega = np.pi / 6 + 2 * np.pi * np.asarray(result.t), 2 * np.pi

    def pose(theta):
        (_, _, P), (_, _, Q), _ = crank_rocker_rods(theta)
        return jnp.concatenate([P, Q, theta[None]])

    q, slope = jax.vmap(lambda theta: jax.jvp(pose, (theta,), (jnp.ones(()),)))(jnp.asarray(theta))
    np.testing.assert_allclose(result.q, q, atol=1e-9)
    np.testing.assert_allclose(result.dq, omega * slope, atol=1e-6)
    _, dA, dV = jax.vmap(one_dof(crank_rocker_rods))(jnp.asarray(theta))
    motor = next(row for row, name in enumerate(result.mechanism.constraint_names) if "motor" in name)
    torque = -np.asarray(result.multipliers)[:, motor]
    np.testing.assert_allclose(torque, dA * omega**2 / 2 + dV, atol=1e-5 * np.max(np.abs(torque)))


@pytest.mark.slow
def test_parallel_robot_falls_freely(configs):
    """One of its 21 constraint rows follows from the others, and its angles have no mass."""
    result = run(configs, "parallel_robot", 1.0, 5e-3, integrator="hermite_simpson")
    robot = result.mechanism
    assert (robot.n, robot.m, degrees_of_freedom(robot)) == (22, 21, 2)
    assert np.linalg.matrix_rank(robot.constraint_jacobian(result.q[100], 0.0), tol=1e-9) == 20
    energy = np.asarray(result.kinetic + result.potential)
    assert np.max(result.kinetic) > 50  # it does fall
    assert np.ptp(energy) <= 1e-4 * np.max(result.kinetic)
    assert np.max(result.constraint_norm) <= 1e-9
    residual = jax.vmap(robot.constraint_bias)(result.q, result.dq, result.t)
    residual -= jnp.einsum("kij,kj->ki", jax.vmap(robot.constraint_jacobian)(result.q, result.t), result.ddq)
    np.testing.assert_allclose(residual, 0.0, atol=1e-6)


def test_chain_falls_as_in_mujoco():
    """Three hinged rods, stretched out and released; MuJoCo's Runge–Kutta rule in steps of 0.1 ms."""
    mujoco = pytest.importorskip("mujoco")
    link = """<body pos="{start} 0 0"><joint type="hinge" axis="0 -1 0"/>
      <inertial pos="{half} 0 0" mass="{mass}" diaginertia="1e-9 {I} {I}"/>{rest}</body>"""
    body, length, mass = "", 1 / 3, 1 / 3
    for k in reversed(range(3)):
        start, I = (length if k else 0), mass * length**2 / 12  # noqa: E741
        body = link.format(start=start, half=length / 2, mass=mass, I=I, rest=body)
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="1e-4" integrator="RK4" gravity="0 0 -{GRAVITY}"/>
        <compiler boundmass="0" balanceinertia="false"/><worldbody>{body}</worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    result = simulate(PlanarMechanism.from_description(chain(3)), 0.5, 1.25e-3, integrator="hermite_simpson")
    expected = []
    for k in range(5001):
        if k % 1000 == 0:
            angles = np.cumsum(data.qpos)
            expected.append(length * np.cumsum(np.column_stack([np.cos(angles), np.sin(angles)]), axis=0).ravel())
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(result.q[::80], expected, atol=1e-7)


def test_energy_and_constraints_of_the_free_fourbar(fall):
    energy = np.asarray(fall.kinetic + fall.potential)
    assert np.ptp(energy) <= 1e-4 * energy[0]  # 58.86 J above the ground
    assert np.max(fall.constraint_norm) <= 1e-6
    np.testing.assert_allclose(fall.power, 0.0, atol=1e-9)


def drift(result, period):
    """How the mean energy of the last stretch of time differs from that of the first, relative to the first energy."""
    energy = np.asarray(result.kinetic + result.potential)
    return abs(np.mean(energy[-period:]) - np.mean(energy[:period])) / energy[0]


def test_motion_does_not_drift_over_twenty_seconds(fourbar):
    """Steps of 4 ms, so that the run has as many as `fall`; the rule loses 6e-5 of the energy a second there."""
    result = simulate(fourbar, 20.0, 4e-3)
    assert drift(result, 1000) <= 2e-3
    assert np.max(result.constraint_norm) <= 1e-6


@pytest.mark.slow
def test_motion_does_not_drift_over_minutes(fourbar):
    result = simulate(fourbar, 200.0, 1e-3)
    assert drift(result, 10_000) <= 2e-3
    assert np.max(result.constraint_norm) <= 1e-6


@pytest.mark.parametrize("integrator, dt, atol", [("trapezoidal", 2e-3, 1e-5), ("hermite_simpson", 3e-3, 1e-8)])
def test_reversed_motion_returns_to_the_start(fourbar, short_run, integrator, dt, atol):
    """Both rules are symmetric in time; the smoother's corrections across the constraints are not."""
    there = short_run(fourbar, dt, integrator=integrator)
    names = fourbar.coordinate_names
    start = {name: float(value) for name, value in zip(names, there.q[-1], strict=True)}
    # One velocity of a mechanism of one degree of freedom gives the others.
    fastest = int(np.argmax(np.abs(there.dq[-1])))
    velocity = {names[fastest]: -float(there.dq[-1, fastest])}
    back = short_run(fourbar, dt, integrator=integrator, start=start, start_velocities=velocity)
    np.testing.assert_allclose(back.q[-1], fourbar.reference, atol=atol)
    np.testing.assert_allclose(back.q[::-1], there.q, atol=atol)
    np.testing.assert_allclose(back.dq[::-1], -there.dq, atol=1e3 * atol)
