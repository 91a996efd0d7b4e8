"""State estimation on manifolds, n = 7 and nv = 6; the motions come from a Runge–Kutta rule under white forces."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import LabelledPendulum, RigidBody, rigid_body
from scipy.stats import chi2

import fgmbs
from fgmbs.dynamics.chart import MotionChart
from fgmbs.inputs import Disturbance
from fgmbs.kinematics import velocities
from fgmbs.problems.estimation.arguments import chosen_coordinates
from fgmbs.sensors import Gyroscope, Position

DT, STEPS, SEEDS = 0.01, 101, 20
FINER = 20
"""Steps of the truth in one of the estimate."""
POWER = 1e-2
WINDOW = 6
SPACE = ("x", "y", "z")


def pendulum() -> LabelledPendulum:
    return LabelledPendulum(rigid_body(), jnp.array([0.0, 0.0, 0.5]))


FAMILIES = {
    # Beside its centre: a camera on that sees no attitude of a free body.
    RigidBody: (rigid_body, 0.2, {"v_x": 0.5, "v_z": 4.0, "w_x": 1.0, "w_y": 4.0, "w_z": -2.0}),
    LabelledPendulum: (pendulum, 0.1, {"w_x": 2.0, "w_y": 1.0, "w_z": 3.0}),
}


def moving(mechanism, q, dq):
    """seed → a motion from (q, dq) that white forces feed, the same power into each degree of freedom."""
    h, n = DT / FINER, mechanism.n

    def rates(x, force):
        q, dq = x[:n], x[n:]
        return jnp.concatenate([mechanism.coordinate_rates(q) @ dq, mechanism.accelerations(q, dq, 0.0, force)[0]])

    def step(x, normal):
        force = jnp.sqrt(2 * POWER / h * jnp.diag(mechanism.mass_matrix(x[:n]))) * normal
        k1 = rates(x, force)
        k2 = rates(x + h / 2 * k1, force)
        k3 = rates(x + h / 2 * k2, force)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rates(x + h * k3, force)), x

    path = jax.jit(lambda normal: jax.lax.scan(step, jnp.concatenate([q, dq]), normal)[1])

    def motion(seed):
        normal = np.random.default_rng(seed).standard_normal((FINER * (STEPS - 1) + 1, mechanism.nv))
        x = np.asarray(path(jnp.asarray(normal)))[::FINER]
        return types.SimpleNamespace(mechanism=mechanism, t=np.arange(STEPS) * DT, q=x[:, :n], dq=x[:, n:])

    return motion


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.__name__)
def case(request):
    """What there is to estimate."""
    make, beside, start_velocities = FAMILIES[request.param]
    mechanism = make()
    q = fgmbs.assemble(mechanism)
    sensors = (
        Gyroscope("gyro", body="body", axes=SPACE, sigma=0.02),
        Position("camera", body="body", at=(beside, 0.0, 0.0), axes=SPACE, sigma=5e-3),
    )
    motion = moving(mechanism, q, velocities(mechanism, q, start_velocities))
    motions = [motion(seed) for seed in range(SEEDS)]
    recordings = [fgmbs.readings(mechanism, one, sensors, seed=seed) for seed, one in enumerate(motions)]
    start = {"start": {}, "start_velocities": start_velocities}
    return types.SimpleNamespace(
        mechanism=mechanism, sensors=sensors, motions=motions, recordings=recordings, start=start
    )


def smoothed(case, seed, **options):
    return fgmbs.smooth(case.mechanism, case.recordings[seed], case.sensors, (Disturbance(POWER),), **options)


@pytest.fixture(scope="module")
def estimates(case):
    """Of every seed."""
    return [smoothed(case, seed, **case.start) for seed in range(SEEDS)]


def state(est):
    return np.concatenate([est.q, est.dq], axis=1)


def std(est):
    return np.concatenate([est.q_std, est.dq_std], axis=1)


def normalized_errors(case, ests):
    """eᵀ P⁻¹ e in the local coordinates of every step (seeds, steps)."""
    mechanism, n = case.mechanism, case.mechanism.n
    chart = MotionChart(mechanism.dof)

    @jax.jit
    @jax.vmap
    def local(x, truth):
        e = jnp.concatenate([mechanism.local(x[:n], truth[:n]), truth[n:] - x[n:]])
        return chart.coordinates(mechanism, x, 0.0) @ e

    found = []
    for est, motion in zip(ests, case.motions, strict=False):
        e = np.asarray(local(state(est), state(motion)))
        found.append(np.einsum("ka,ka->k", e, np.linalg.solve(est.local_covariance, e[..., None])[..., 0]))
    return np.array(found)


# A free body has the most local coordinates of all that is tested, and compiles for minutes.
pytestmark = pytest.mark.slow


def test_estimates_converge_on_the_manifold(case, estimates):
    for est in estimates:
        assert est.status == fgmbs.Status.converged
        np.testing.assert_allclose(np.sum(est.q[:, 3:] ** 2, axis=1), 1, atol=1e-14)
        closed = jax.vmap(lambda q: case.mechanism.constraints(q, 0.0))(est.q)
        np.testing.assert_allclose(closed, 0, atol=1e-14)


def test_covariances_have_the_size_of_the_tangent(case, estimates):
    size = 2 * case.mechanism.dof
    est = estimates[0]
    assert est.local_covariance.shape == (STEPS, size, size)
    assert est.tangents.shape == (STEPS, 7 + 6, size)
    assert est.q_std.shape == (STEPS, 7) and est.dq_std.shape == (STEPS, 6)
    # Quaternions are uncertain along their sphere only.
    np.testing.assert_allclose(np.einsum("ki,kia->ka", est.q[:, 3:], est.tangents[:, 3:7]), 0, atol=1e-14)


def test_normalized_errors_follow_chi_squared(case, estimates):
    nees, size = normalized_errors(case, estimates), 2 * case.mechanism.dof
    low, high = chi2.ppf([0.005, 0.995], size * SEEDS) / SEEDS
    means = np.mean(nees, axis=0)
    assert np.mean((means > low) & (means < high)) > 0.9  # steps depend on each other
    over_runs = np.mean(nees, axis=1)
    assert abs(np.mean(nees) - size) < 2.9 * np.std(over_runs, ddof=1) / np.sqrt(SEEDS)


def test_95_percent_bands_hold_95_percent_of_the_truths(case, estimates):
    errors = [state(est) - state(motion) for est, motion in zip(estimates, case.motions, strict=True)]
    bands = np.array([std(est) for est in estimates])
    covered = np.mean(np.abs(errors) < 1.96 * bands, axis=1)
    # Over a run an attitude is off by much the same angle: its columns alone say little.
    for share in (covered.T, [np.mean(covered, axis=1)]):
        spread = np.std(share, axis=1, ddof=1) / np.sqrt(SEEDS)
        assert np.all(np.abs(np.mean(share, axis=1) - 0.95) < 3.3 * spread)
    assert spread < 0.03


def test_sums_of_squares_of_residuals_have_their_expectation(estimates):
    square, expected = np.sum([[(group.chi2, group.dof) for group in est.groups] for est in estimates], axis=0).T
    low, high = chi2.ppf([[0.005], [0.995]], expected)
    assert np.all((square > low) & (square < high))


def test_scores_of_right_numbers_are_standard_normal(estimates):
    z = np.array([[test.z for test in est.score_tests()] for est in estimates])
    names = [test.name for test in estimates[0].score_tests()]
    assert {"gyro.gain", "camera.at[0]", "camera.delay", "gyro.misalignment[2]"} <= set(names)
    low, high = chi2.ppf([0.0005, 0.9995], SEEDS)
    squares = np.sum(z**2, axis=0)
    off = squares > high
    assert not off.any(), {name: squares[k] / SEEDS for k, name in enumerate(names) if off[k]}
    # By how much a sensor is turned little tells but what is known of the start, which is right here.
    assert all("misalignment" in name for name, square in zip(names, squares, strict=True) if square < low)


def test_the_start_is_found(case):
    # The prior of the start stands where the search began; it shall say nothing.
    wide = {"start_sigma": (100.0, 100.0)}
    found, expected = smoothed(case, 0, **wide), smoothed(case, 0, **wide, **case.start)
    # Of two unit quaternions for one attitude the search may find either; they are no two starts.
    costs = [branch.cost for branch in found.branches]
    assert min(np.diff(sorted(costs)), default=np.inf) > 1
    away = jax.vmap(case.mechanism.local)(expected.q, found.q)
    assert np.all(np.abs(away) < 1e-4 * np.max(found.q_std, axis=1, keepdims=True))
    np.testing.assert_array_less(np.abs(found.dq - expected.dq), 1e-4 * found.dq_std + 1e-9)
    np.testing.assert_allclose(found.dq_std, expected.dq_std, rtol=1e-3)


NEAR = {"window": WINDOW, "start_sigma": (0.02, 0.2)}
"""Few steps of a free body do not tell its attitude: a window needs to know it roughly."""


def test_windows_know_how_good_they_are(case):
    """The normalized errors have their mean over runs, up to what is linearized too early."""
    runs = [smoothed(case, seed, **NEAR, **case.start) for seed in range(8)]
    assert np.mean(normalized_errors(case, runs)) / (2 * case.mechanism.dof) == pytest.approx(1, abs=0.3)
    for run in runs:
        assert run.status == fgmbs.Status.converged
        np.testing.assert_allclose(np.sum(run.q[:, 3:] ** 2, axis=1), 1, atol=1e-14)


def test_a_window_is_that_of_online_call_by_call(case):
    lagged = smoothed(case, 0, **NEAR, **case.start)
    online = fgmbs.online(
        case.mechanism, case.sensors, (Disturbance(POWER),), dt=DT, window=WINDOW, between_steps=False
    )
    values = {
        sensor.name: np.stack([case.recordings[0][column].values for column in sensor.columns], axis=1)
        for sensor in case.sensors
    }
    now, left = online.init(*case.start.values(), start_sigma=NEAR["start_sigma"]), []
    for k in range(STEPS):
        now, newest = online.step(now, online.sample({name: of[k] for name, of in values.items()}))
        assert newest.status == fgmbs.Status.converged
        assert newest.q_std.shape == (7,) and newest.dq_std.shape == (6,)
        left.append(newest.steps[0])
    np.testing.assert_allclose(np.concatenate([left[WINDOW - 1 :], newest.steps[1:]]), state(lagged), atol=1e-9)


def test_independent_are_velocities_by_name():
    mechanism = pendulum()
    assert chosen_coordinates(mechanism, ("w_x", "w_y", "w_z")).independent == (3, 4, 5)
    with pytest.raises(fgmbs.ArgumentError, match="independent: there is no velocity 'e1'; .* w_z"):
        chosen_coordinates(mechanism, ("e1", "e2", "e3"))
