"""Inverse dynamics against dense algebra, MSC ADAMS, closed-form paths and finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import central_difference, exact_inverse, read_table

import fgmbs
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

MSC = {"gravity.y": -9.80665}


def swing(t):
    """The crank angle of [Blanco21] section 7.2."""
    return 1.2 * (1 - jnp.cos(2 * t))


@pytest.fixture(scope="module")
def crank(configs):
    return load(configs / "mechanisms" / "fourbar_crank_angle.yaml")


@pytest.fixture(scope="module")
def two_motors(configs):
    return load(configs / "mechanisms" / "fourbar_two_motors.yaml")


@pytest.fixture(scope="module")
def arm(configs):
    return load(configs / "mechanisms" / "five_bar.yaml")


@pytest.fixture(scope="module")
def reference_data(data_dir):
    return data_dir / "multibody-factor-graphs"


T = np.arange(200) * 5e-3
SWING = (1.2 * (1 - np.cos(2 * T)), 2.4 * np.sin(2 * T), 4.8 * np.cos(2 * T))


@pytest.fixture(scope="module")
def swung(crank):
    return fgmbs.inverse_dynamics(crank, T, {"theta": SWING}, ["motor"])


def column(*indices):
    return lambda q: np.eye(len(q))[:, list(indices)]


class TestFourBar:
    def test_samples_against_adams_and_exact_dynamics(self, reference_data):
        mechanism = load(reference_data / "mechanisms" / "fourbars1-with-rel-angle.yaml").with_parameters(MSC)
        t, theta = read_table(reference_data / "trajectories" / "fourbars1-with-rel-angle-trajectory.txt").T
        adams = -read_table(reference_data / "experiments" / "InverseDynamics_4bars_MSC.tab")[:, 1]
        result = fgmbs.inverse_dynamics(mechanism, t, {"q4": theta}, ["q4"])
        torque = np.asarray(result.forces)[:, 0]
        assert np.sqrt(np.mean((torque - adams) ** 2)) < 5.5e-3
        assert np.abs(result.tracking_error).max() < 1e-6
        y = np.asarray(swing(t)), 2.4 * np.sin(2 * t), 4.8 * np.cos(2 * t)
        exact = exact_inverse(mechanism, t, [4], *(x[:, None] for x in y), mechanism.reference, column(4))[0][:, 0]
        error = np.abs(torque - exact)
        assert np.sqrt(np.mean(error**2)) < 4e-3
        assert max(error[:3].max(), error[-3:].max()) < 2 * error.max() < 0.04
        assert not np.asarray(result.jumps).any()

    def test_derivatives_given_is_exact(self, crank, swung):
        y = [x[:, None] for x in SWING]
        exact = exact_inverse(crank, T, [4], *y, crank.reference, column(4))
        for ours, theirs in zip((swung.forces, swung.q, swung.dq, swung.ddq), exact, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-10)
        assert swung.status == fgmbs.Status.converged
        assert np.abs(swung.missing).max() < 1e-10

    def test_function_of_time_is_samples_with_derivatives(self, crank, swung):
        result = fgmbs.inverse_dynamics(crank, T, {"theta": swing}, ["theta"])
        np.testing.assert_allclose(result.forces, swung.forces, atol=1e-10)

    def test_power_balances_the_energy(self, swung):
        # dE/dt by differences of fourth order
        energy = np.asarray(swung.kinetic + swung.potential)
        rate = (energy[:-4] - 8 * energy[1:-3] + 8 * energy[3:-1] - energy[4:]) / (12 * 5e-3)
        np.testing.assert_allclose(rate, swung.motor_power[2:-2, 0], atol=2e-5)

    def test_joint_forces_and_gravity_move_the_centre_of_mass(self, crank, swung):
        # Ground forces on crank (at A) and rocker (at B) plus weight are the rate of momentum of all bodies.
        names = swung.joint_names
        ground = swung.joint_forces[:, names.index("crank@A")] + swung.joint_forces[:, names.index("rocker@B")]
        P1, P2 = swung.ddq[:, :2], swung.ddq[:, 2:4]
        momentum = 1 * P1 / 2 + 2 * (P1 + P2) / 2 + 4 * P2 / 2
        np.testing.assert_allclose(ground + jnp.array([0, -9.81 * 7]), momentum, atol=1e-9)

    def test_times_need_not_be_uniform_where_derivatives_are_given(self, crank, swung):
        pick = np.sort(np.random.default_rng(0).choice(200, 60, replace=False))
        result = fgmbs.inverse_dynamics(crank, T[pick], {"theta": tuple(x[pick] for x in SWING)})
        np.testing.assert_allclose(result.forces, swung.forces[pick], atol=1e-10)


class TestRobot:
    def leg(self, u):
        return 3 * u**2 - 2 * u**3, (6 * u - 6 * u**2) / 2.5, (6 - 12 * u) / 6.25

    def path(self, t):
        """Exact position, velocity, acceleration of the end effector."""
        first = (t <= 2.5 + 1e-9)[:, None]
        s, ds, dds = self.leg(np.where(first[:, 0], t, t - 2.5) / 2.5)
        z = np.zeros_like(s)
        return (
            np.where(first, np.c_[z - 0.5, -5 + s], np.c_[-0.5 + s, z - 4]),
            np.where(first, np.c_[z, ds], np.c_[ds, z]),
            np.where(first, np.c_[z, dds], np.c_[dds, z]),
        )

    @pytest.mark.slow
    def test_samples_of_the_motor_angles(self, reference_data):
        mechanism = load(reference_data / "mechanisms" / "pick-and-place-robot.yaml").with_parameters(MSC)
        t, *theta = read_table(reference_data / "trajectories" / "pick-and-place-robot-trajectory.txt").T
        adams = read_table(reference_data / "experiments" / "InverseDynamics_pprobot_MSC.tab")[:, 1:]
        result = fgmbs.inverse_dynamics(mechanism, t, dict(zip(("q20", "q21"), theta, strict=True)), ["q20", "q21"])
        torque = np.asarray(result.forces)
        assert (np.sqrt(np.mean((torque - adams) ** 2, axis=0)) < 1.1).all()
        y = self.path(t)
        exact = exact_inverse(mechanism, t, [8, 9], *y, mechanism.reference, column(20, 21))
        away = np.min(np.abs(t[:, None] - [0, 2.5, 5]), axis=1) > 0.0201
        assert np.abs(torque - exact[0])[away].max() < 0.02
        assert np.abs(result.q[:, 8:10] - y[0]).max() < 1e-6  # of the end effector, the corner included [m]
        np.testing.assert_array_equal(np.flatnonzero(result.jumps.any(axis=1)), [500])

    def test_path_of_the_end_effector(self, configs):
        mechanism = load(configs / "mechanisms" / "parallel_robot.yaml")
        t = np.linspace(0, 5, 101)
        result = fgmbs.inverse_dynamics(mechanism, t, {"point:foot_l": self.path(t)})
        i = mechanism.coordinate_names.index("x_foot_l")
        exact = exact_inverse(mechanism, t, [i, i + 1], *self.path(t), mechanism.reference, column(20, 21))[0]
        assert result.actuator_names == ("drive_l", "drive_r")
        np.testing.assert_allclose(result.forces, exact, atol=1e-8)

    def test_corner_of_a_function_of_time(self, configs):
        mechanism = load(configs / "mechanisms" / "parallel_robot.yaml")
        t = np.linspace(0, 5, 101)
        path = fgmbs.trajectories.polyline([[-0.5, -5.0], [-0.5, -4.0], [0.5, -4.0]], [0.0, 2.5, 5.0])
        result = fgmbs.inverse_dynamics(mechanism, t, {"point:foot_l": path})
        i = mechanism.coordinate_names.index("x_foot_l")
        exact = exact_inverse(mechanism, t, [i, i + 1], *self.path(t), mechanism.reference, column(20, 21))[0]
        np.testing.assert_allclose(result.forces, exact, atol=1e-7)  # from the left at the corner
        np.testing.assert_array_equal(np.flatnonzero(result.jumps.any(axis=1)), [50])


@pytest.mark.slow
def test_rough_starts_reach_the_same_motion(crank, swung):
    rng = np.random.default_rng(1)
    theta, coupler, rocker = 0.0, np.pi / 2, np.arctan2(2, -3)
    desired = {"theta": tuple(x[:20] for x in SWING)}
    for turn in rng.uniform(-1, 1, (100, 3)):
        a, b, _ = np.array([theta, coupler, rocker]) + turn
        p1 = np.array([np.cos(a), np.sin(a)])
        p2 = p1 + 2 * np.array([np.cos(b), np.sin(b)])
        start = dict(zip(crank.coordinate_names, [*p1, *p2, a], strict=True))
        result = fgmbs.inverse_dynamics(crank, T[:20], desired, start=start)
        np.testing.assert_allclose(result.forces, swung.forces[:20], atol=1e-9)


class TestOveractuated:
    def null_space(self, mechanism, q):
        Phi_q = np.asarray(mechanism.constraint_jacobian(q, 0.0))
        return np.linalg.svd(Phi_q)[2][-1:].T

    @pytest.mark.slow
    def test_least_effort_is_the_pseudo_inverse(self, two_motors):
        scale = {"motor": 1.0, "motor_rocker": 3.0}
        result = fgmbs.inverse_dynamics(two_motors, T, {"theta": SWING}, effort=scale)
        W = np.diag(list(scale.values()))
        for k in range(0, 200, 20):
            q, dq, ddq = result.q[k], result.dq[k], result.ddq[k]
            N, A = self.null_space(two_motors, q), np.asarray(two_motors.actuation(q, 0.0))
            needed = np.asarray(two_motors.mass_matrix(q) @ ddq - two_motors.forces(q, dq, 0.0))
            expected = W @ np.linalg.pinv(N.T @ A @ W) @ (N.T @ needed)
            np.testing.assert_allclose(result.forces[k], expected, atol=1e-8)

    def test_one_motor_or_two_do_the_same_work(self, two_motors):
        both = fgmbs.inverse_dynamics(two_motors, T, {"theta": SWING})
        one = fgmbs.inverse_dynamics(two_motors, T, {"theta": SWING}, ["motor"])
        np.testing.assert_allclose(both.motor_power.sum(axis=1), one.motor_power.sum(axis=1), atol=1e-8)
        assert (np.sum(both.forces**2, axis=1) <= one.forces[:, 0] ** 2 + 1e-9).all()


@pytest.mark.slow
def test_redundant_constraints_do_not_change_the_torque(configs, crank, swung):
    text = (configs / "mechanisms" / "fourbar_crank_angle.yaml").read_text()
    more = text + "\nconstraints:\n  - {type: distance, points: [P1, P2], length: L_coupler}\n"
    more += "  - {type: distance, points: [A, P1], length: L_crank}\n"
    result = fgmbs.inverse_dynamics(PlanarMechanism.from_description(parse_mechanism(more)), T, {"theta": SWING})
    np.testing.assert_allclose(result.forces, swung.forces, atol=1e-9)


class TestDerivatives:
    @staticmethod
    @eqx.filter_jit
    def effort(mechanism, x):
        changed = mechanism.with_parameters({"crank.mass": x[0], "L_coupler": x[1], "rocker.mass": x[2]})
        desired = {"theta": lambda t: x[3] * (1 - jnp.cos(x[4] * t))}
        return fgmbs.inverse_dynamics(changed, T[::10], desired, ["motor"]).effort

    @pytest.mark.slow
    def test_of_the_effort_equal_differences(self, crank):
        x = jnp.array([1.0, 2.0, 4.0, 1.2, 2.0])
        function = jax.jit(lambda x: self.effort(crank, x))
        expected = central_difference(lambda x: float(function(jnp.asarray(x))), np.asarray(x))
        reverse = jax.jit(jax.grad(lambda x: self.effort(crank, x)))(x)
        np.testing.assert_allclose(reverse, expected, rtol=1e-6)
        forward = jax.jit(jax.jacfwd(lambda x: self.effort(crank, x)))(x)
        np.testing.assert_allclose(forward, reverse, rtol=1e-10)

    @pytest.mark.slow
    def test_pass_through_the_smoothing_of_samples(self, crank):
        direction = jnp.asarray(np.cos(3 * T))

        @jax.jit
        def peak(a):
            y = jnp.asarray(SWING[0]) + a * direction
            return fgmbs.inverse_dynamics(crank, T, {"theta": y}, ["motor"], sigma={"theta": 1e-6}).forces[50, 0]

        np.testing.assert_allclose(jax.jit(jax.grad(peak))(0.0), (peak(1e-4) - peak(-1e-4)) / 2e-4, rtol=1e-5)

    @pytest.mark.slow
    def test_batches_of_mechanisms(self, crank):
        masses = jnp.linspace(1.0, 2.0, 3)
        desired = {"theta": tuple(x[::10] for x in SWING)}

        def torque(mass):
            return fgmbs.inverse_dynamics(crank.with_parameters({"crank.mass": mass}), T[::10], desired).forces

        batch = jax.jit(jax.vmap(torque))(masses)
        for mass, one in zip(masses, batch, strict=True):
            np.testing.assert_allclose(one, torque(float(mass)), atol=1e-10)


class TestCovariance:
    @pytest.mark.slow
    def test_of_given_derivatives_is_that_of_noisy_motions(self, crank):
        rng = np.random.default_rng(0)
        sigma = (1e-4, 1e-3, 1e-2)
        t = T[:200:20]
        motion = [x[:200:20] for x in SWING]
        result = fgmbs.inverse_dynamics(crank, t, {"theta": tuple(motion)}, sigma={"theta": sigma}, covariance=True)
        assert result.covariance is not None

        @jax.jit
        @jax.vmap
        def torque(noise):
            noisy = tuple(x + s * e for x, s, e in zip(motion, sigma, noise, strict=True))
            return fgmbs.inverse_dynamics(crank, t, {"theta": noisy}).forces[:, 0]

        count = 500
        sample = np.var(np.asarray(torque(rng.standard_normal((count, 3, len(t))))), axis=0, ddof=1)
        ratio = sample / np.asarray(result.covariance[:, 0, 0])
        assert np.abs(ratio - 1).max() < 3.3 * np.sqrt(2 / (count - 1))

    @pytest.mark.slow
    def test_of_samples_is_that_of_the_errors(self, crank):
        """Motions drawn from the process that the smoother assumes: errors have the covariance that it reports."""
        rng = np.random.default_rng(0)
        dt, sigma, count = 5e-3, 1e-5, 300
        t = np.arange(100) * dt
        snap = rng.standard_normal((count, 10 * len(t))) * 50.0 / np.sqrt(dt / 10)
        x = np.zeros((count, 4))
        x[:, 1] = 0.5
        rows = []
        h = dt / 10
        for k in range(10 * len(t)):
            if k % 10 == 0:
                rows.append(x[:, :3].copy())
            x = x @ np.array([[1, 0, 0, 0], [h, 1, 0, 0], [h**2 / 2, h, 1, 0], [h**3 / 6, h**2 / 2, h, 1]])
            x += snap[:, k : k + 1] * np.array([h**4 / 24, h**3 / 6, h**2 / 2, h])
        truth = np.moveaxis(np.array(rows), 0, 1)  # (count, steps, 3)
        noisy = truth[..., 0] + sigma * rng.standard_normal(truth.shape[:2])

        @jax.jit
        @jax.vmap
        def errors(y, exact):
            found = fgmbs.inverse_dynamics(crank, t, {"theta": y}, sigma={"theta": sigma}, covariance=True)
            right = fgmbs.inverse_dynamics(crank, t, {"theta": tuple(exact.T)})
            return (found.forces - right.forces)[:, 0], found.covariance[:, 0, 0]

        error, variance = map(np.asarray, errors(noisy, truth))
        normalised = np.mean(error**2 / variance, axis=0)
        # The density of the process is estimated too, from each short record.
        assert 0.5 < np.median(normalised) < 2.5


class Arm(AbstractMechanism):
    """A double pendulum of point masses on rods of 1 m, in absolute angles from the vertical."""

    masses: jax.Array

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        return "a", "b"

    @property
    def constraint_names(self) -> tuple[str, ...]:
        return ()

    @property
    def actuator_names(self) -> tuple[str, ...]:
        return "shoulder", "elbow"

    @property
    def reference(self):
        return jnp.array([0.3, 0.1])

    def evaluated(self):
        return self

    def constraints(self, q, t):
        return q[:0]

    def mass_matrix(self, q):
        m1, m2 = self.masses
        c = jnp.cos(q[0] - q[1])
        return jnp.array([[m1 + m2, m2 * c], [m2 * c, m2]])

    def forces(self, q, dq, t):
        turn = self.masses[1] * jnp.sin(q[0] - q[1]) * jnp.array([-1.0, 1.0]) * dq[::-1] ** 2
        return turn - jax.grad(self.potential)(q)

    def potential(self, q):
        m1, m2 = self.masses
        return -9.81 * ((m1 + m2) * jnp.cos(q[0]) + m2 * jnp.cos(q[1]))

    def actuation(self, q, t):
        return jnp.array([[1.0, -1.0], [0.0, 1.0]])


def test_mechanism_of_the_users_own():
    arm = Arm(jnp.array([1.0, 0.5]))
    desired = {"a": lambda t: 0.3 + 0.1 * jnp.sin(t), "b": lambda t: 0.1 * jnp.cos(t)}
    result = fgmbs.inverse_dynamics(arm, T, desired)
    a, b, da, db = 0.3 + 0.1 * np.sin(T), 0.1 * np.cos(T), 0.1 * np.cos(T), -0.1 * np.sin(T)
    dda, ddb = -0.1 * np.sin(T), -0.1 * np.cos(T)
    elbow = 0.5 * (np.cos(a - b) * dda + ddb - np.sin(a - b) * da**2 + 9.81 * np.sin(b))
    shoulder = elbow + 1.5 * dda + 0.5 * (np.cos(a - b) * ddb + np.sin(a - b) * db**2) + 1.5 * 9.81 * np.sin(a)
    np.testing.assert_allclose(result.forces, np.c_[shoulder, elbow], atol=1e-10)
    assert result.joint_forces is None and result.joint_names == ()


@pytest.mark.slow
def test_weighted_tracking_of_a_part_lets_motors_elsewhere_help():
    """One angle of two is desired; a motor on the other, which does no work on the first, is no fault."""
    arm = Arm(jnp.array([1.0, 0.5]))
    result = fgmbs.inverse_dynamics(
        arm,
        T,
        {"a": 0.3 + 0.1 * np.sin(T)},
        ["a", "b"],
        tracking="weighted",
        sigma={"a": 1e-3},
        effort={"a": 10.0, "b": 10.0},
    )
    assert result.status == fgmbs.Status.converged
    assert np.abs(result.tracking_error).max() < 1e-3


class TestWeighted:
    sigma, effort = {"theta_l": 1e-4, "theta_r": 1e-4}, {"drive_l": 10.0, "drive_r": 10.0}

    def desired(self, arm):
        return {"theta_l": float(arm.reference[-2]) + 0.2 * np.sin(6 * T), "theta_r": float(arm.reference[-1]) + 0 * T}

    @pytest.mark.slow
    def test_approaches_exact_tracking(self, arm):
        exact = fgmbs.inverse_dynamics(arm, T, self.desired(arm))
        weighted = fgmbs.inverse_dynamics(
            arm, T, self.desired(arm), tracking="weighted", sigma=self.sigma, effort=self.effort, covariance=True
        )
        assert weighted.status == fgmbs.Status.converged
        assert np.abs(weighted.tracking_error).max() < 1e-4
        assert np.abs(weighted.forces - exact.forces)[5:-5].max() < 0.02 * np.abs(exact.forces).max()
        assert (np.diagonal(weighted.covariance, axis1=1, axis2=2) > 0).all()

    @pytest.mark.slow
    def test_makes_the_best_of_too_few_motors(self, arm):
        weighted = fgmbs.inverse_dynamics(
            arm,
            T,
            self.desired(arm),
            ["drive_l"],
            tracking="weighted",
            sigma={"theta_l": 0.1, "theta_r": 0.1},
            effort={"drive_l": 10.0},
        )
        assert weighted.status == fgmbs.Status.converged
        assert weighted.constraint_norm.max() < 1e-7
        assert np.abs(weighted.tracking_error).max() > 0.1  # it cannot do better
