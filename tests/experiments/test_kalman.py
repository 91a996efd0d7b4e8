"""The reference filter against an exact linear one in numpy and over many seeds; true motions against exact ones."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fourbar_truths import truth
from kalman import Measurement, kalman
from scipy.linalg import block_diag, expm
from scipy.stats import chi2, multivariate_normal, norm

from fgmbs.dynamics import energy
from fgmbs.io.planar.load import load

CONFIGS = Path(__file__).parents[2] / "configs"
SEEDS, STEPS, DT = 200, 500, 0.005
POWER = 0.5
MEAN, STD = np.array([0.2, 0.0]), np.array([0.05, 0.3])


# A linear mechanism: m x'' + c x' + k (x − 1) = u with a force u that walks at random.

MASS, STIFFNESS, DAMPING, WALK = 2.0, 8.0, 0.8, 3.0
A = np.array([[0, 1, 0], [-STIFFNESS / MASS, -DAMPING / MASS, 1 / MASS], [0, 0, 0]])
LINEAR_STEPS, LINEAR_DT = 60, 0.05
JOINT = np.array([[1e-4, 1e-3], [1e-3, 0.04]])
LINEAR_START = np.array([1.2, 0.0, 0.5]), np.diag([0.01, 0.04, 1.0])


def place_and_acceleration(q, dq, ddq, t):
    return jnp.stack([q[0], ddq[0]])


def speed(q, dq, ddq, t):
    return dq[:1]


@pytest.fixture(scope="module")
def linear():
    """(measurements, filtered, smoothed, log-likelihood); mean and covariance by the exact transition."""
    rng = np.random.default_rng(0)
    sensors = [
        (np.arange(0, LINEAR_STEPS, 3), np.array([[1, 0, 0], A[1]]), np.array([0, STIFFNESS / MASS]), JOINT),
        (np.arange(1, LINEAR_STEPS, 2), np.array([[0, 1.0, 0]]), np.zeros(1), np.array([[0.01]])),
    ]
    readings = [
        np.array([1.1, 0.0, 0.1])[rows] + 0.2 * rng.standard_normal((len(steps), len(rows)))
        for (steps, *_), rows in zip(sensors, ([0, 1], [2]), strict=True)
    ]
    S = np.diag([0, 2 * POWER / MASS, WALK**2])
    both = expm(np.block([[-A, S], [np.zeros((3, 3)), A.T]]) * LINEAR_DT)  # Van Loan 1978
    F = both[3:, 3:].T
    Q = F @ both[:3, 3:]
    relaxed = np.array([1.0, 0, 0])
    x, P = LINEAR_START
    priors, filtered, log_likelihood = [], [], 0.0
    for k in range(LINEAR_STEPS):
        priors.append((x, P))
        taken = [i for i in (0, 1) if k in sensors[i][0]]
        if taken:
            H = np.concatenate([sensors[i][1] for i in taken])
            y = np.concatenate([readings[i][np.searchsorted(sensors[i][0], k)] - sensors[i][2] for i in taken])
            cov = H @ P @ H.T + block_diag(*(sensors[i][3] for i in taken))
            K = P @ H.T @ np.linalg.inv(cov)
            log_likelihood += multivariate_normal.logpdf(y - H @ x, cov=cov)
            x, P = x + K @ (y - H @ x), P - K @ H @ P
        filtered.append((x, P))
        x, P = relaxed + F @ (x - relaxed), F @ P @ F.T + Q
    smoothed = filtered[-1:]
    for (x, P), (x_prior, P_prior) in zip(filtered[-2::-1], priors[:0:-1], strict=True):
        G = P @ F.T @ np.linalg.inv(P_prior)
        x_next, P_next = smoothed[-1]
        smoothed.append((x + G @ (x_next - x_prior), P + G @ (P_next - P_prior) @ G.T))
    filtered, smoothed = (list(map(np.stack, zip(*part, strict=True))) for part in (filtered, smoothed[::-1]))
    measurements = [
        Measurement(sensor[0], h, y, sensor[3])
        for h, sensor, y in zip((place_and_acceleration, speed), sensors, readings, strict=True)
    ]
    return measurements, filtered, smoothed, log_likelihood


def test_a_linear_mechanism_gives_the_exact_filter_and_smoother(linear):
    measurements, *exact, log_likelihood = linear
    mechanism = load(CONFIGS / "mechanisms" / "spring_mass_damper.yaml")
    walks = {"x_left": WALK}
    ours = kalman(
        mechanism,
        ("x_left",),
        LINEAR_DT,
        LINEAR_STEPS,
        measurements,
        *LINEAR_START,
        power=POWER,
        walks=walks,
        substeps=20,
    )
    # The noise of a substep h is exact to h² c/m and h² k/m.
    for estimate, pair in zip((ours.filtered, ours.smoothed), exact, strict=True):
        for part, expected in zip((estimate.x, estimate.cov), pair, strict=True):
            np.testing.assert_allclose(part, expected, rtol=1e-5, atol=1e-5 * np.max(np.abs(expected)))
        np.testing.assert_allclose(estimate.q[:, 0], estimate.x[:, 0], atol=1e-12)
        np.testing.assert_allclose(estimate.ddq[:, 0], estimate.x @ A[1] + STIFFNESS / MASS, atol=1e-9)
        sigma = np.sqrt(np.einsum("i,kij,j->k", A[1], estimate.cov, A[1]))
        np.testing.assert_allclose(estimate.sigma_ddq[:, 0], sigma, rtol=1e-9)
    assert ours.log_likelihood == pytest.approx(log_likelihood, rel=1e-5)


# The four-bar with white forces, the crank angle read now and then and the coupler's rate of turn always.


@pytest.fixture(scope="module")
def fourbar():
    return load(CONFIGS / "mechanisms" / "fourbar_crank_angle.yaml")


@pytest.fixture(scope="module")
def moved(fourbar):
    return truths(fourbar)


def truths(mechanism):
    """Motions of all seeds."""

    def one(key):
        return truth(mechanism, (STEPS - 1) * DT, DT, POWER, key, mean=MEAN, std=STD, dt=1e-3)

    return jax.vmap(one)(jax.random.split(jax.random.key(1), SEEDS))


def crank_angle(q, dq, ddq, t):
    return q[4:]


def coupler_rate(q, dq, ddq, t):
    along, across = q[2:4] - q[:2], dq[2:4] - dq[:2]
    return jnp.stack([(along[0] * across[1] - along[1] * across[0]) / (along @ along)])


@pytest.mark.slow
def test_normalised_errors_over_seeds_follow_chi_squared(fourbar, moved):
    rng = np.random.default_rng(2)
    often = np.arange(0, STEPS, 20), np.arange(STEPS)
    sigmas = 0.02, 0.1
    y = []
    for steps, h, sigma in zip(often, (crank_angle, coupler_rate), sigmas, strict=True):
        ideal = jax.vmap(jax.vmap(h))(moved.q, moved.dq, moved.ddq, moved.t)[:, steps]
        y.append(ideal + sigma * rng.standard_normal(ideal.shape))

    def one(angle, turn):
        measurements = [
            Measurement(often[0], crank_angle, angle, np.array([[sigmas[0] ** 2]])),
            Measurement(often[1], coupler_rate, turn, np.array([[sigmas[1] ** 2]])),
        ]
        return kalman(fourbar, ("theta",), DT, STEPS, measurements, MEAN, np.diag(STD**2), power=POWER)

    ours = jax.vmap(one)(*y)
    x = np.stack([moved.q[..., 4], moved.dq[..., 4]], axis=-1)
    low, high = chi2.ppf([0.005, 0.995], 2 * SEEDS) / SEEDS
    for estimate in (ours.filtered, ours.smoothed):
        error = np.asarray(estimate.x) - x
        nees = np.einsum("ski,ski->sk", error, np.linalg.solve(estimate.cov, error[..., None])[..., 0])
        means = np.mean(nees, axis=0)
        assert np.mean((means > low) & (means < high)) > 0.95  # steps depend on each other
        assert abs(np.mean(nees) - 2) < 0.1
        # The median: at dead points of a coordinate its first derivative vanishes, and with it sigma but not the error.
        for gap, sigma in ((estimate.q - moved.q, estimate.sigma_q), (estimate.ddq - moved.ddq, estimate.sigma_ddq)):
            median = np.median(np.abs(gap / sigma)[:, 50:], axis=(0, 1))
            np.testing.assert_allclose(median, norm.ppf(0.75), atol=0.05)
        assert np.max(np.abs(jax.vmap(jax.vmap(fourbar.constraints))(estimate.q, moved.t))) < 1e-10
    assert np.mean(ours.smoothed.sigma_dq[..., 4]) < 0.8 * np.mean(ours.filtered.sigma_dq[..., 4])


# True motions.


@pytest.mark.slow
def test_without_random_forces_the_truth_is_the_exact_motion(fourbar):
    t, *columns = np.loadtxt(CONFIGS / "experiments" / "fourbar_truth.csv", delimiter=",", skiprows=2).T
    true = truth(fourbar, t[-1], t[1], 0.0, 0, dt=1e-3)
    np.testing.assert_allclose(true.t, t, atol=1e-12)
    exact = np.stack(columns, axis=1)
    np.testing.assert_allclose(true.q[:, :4], exact[:, :4], atol=1e-8)  # dt⁴ error
    np.testing.assert_allclose(true.dq[:, :4], exact[:, 4:], atol=1e-7)
    assert np.max(np.abs(jax.vmap(fourbar.constraints)(true.q, true.t))) < 1e-13


@pytest.mark.slow
def test_random_forces_feed_their_power(fourbar):
    """Without gravity √(2 T), with the sign of the crank's velocity, is Brownian motion of rate 2 power."""
    weightless = eqx.tree_at(lambda m: m.parameters["gravity.y"], fourbar, jnp.zeros(()))
    true = truths(weightless)
    kinetic = jax.vmap(jax.vmap(lambda q, dq: energy(weightless, q, dq)[0]))(true.q, true.dq)
    momentum = np.sign(true.dq[..., 4]) * np.sqrt(2 * kinetic)
    steps = np.diff(momentum, axis=1) / np.sqrt(2 * POWER * DT)
    count = steps.size
    assert abs(np.sum(steps)) < 2.6 * np.sqrt(count)
    low, high = chi2.ppf([0.005, 0.995], count)
    assert low < np.sum(steps**2) < high
    assert abs(np.sum(steps[:, 1:] * steps[:, :-1])) < 2.6 * np.sqrt(count)


@pytest.mark.slow
def test_starts_are_drawn_with_the_given_deviations(moved):
    start = np.stack([moved.q[:, 0, 4], moved.dq[:, 0, 4]], axis=-1)
    low, high = chi2.ppf([0.005, 0.995], SEEDS)
    squares = np.sum(((start - MEAN) / STD) ** 2, axis=0)
    assert np.all((squares > low) & (squares < high))
