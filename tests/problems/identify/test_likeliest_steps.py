"""Steps to the most likely parameters, on quadratic functions of which the answer is known."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from fgmbs.problems.identify.likeliest import bent, correction, exchanged, traded
from fgmbs.unknowns import Unknown, freed

P, ARRIVED = 4, 1e-6


def problem(seed, *, flat=None):
    """(information of the cost, bend of what it lacks, slope at 0, lower and upper bounds): as of a likelihood."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(P, P)) * 10.0 ** rng.uniform(-2, 2, P)
    information = root.T @ root
    ways = np.linalg.inv(np.linalg.cholesky(information)).T
    turned = np.linalg.qr(rng.normal(size=(P, P)))[0]
    bends = np.array([3.0, 0.5, 0.0, -0.4]) if flat is None else np.array([0.0, 0.0, 0.0, flat])
    back = np.linalg.inv(ways) @ np.eye(P)
    bend = back.T @ (turned * bends) @ turned.T @ back
    std = np.sqrt(np.diag(np.linalg.inv(information)))
    return information, bend, rng.normal(size=P) / std, ways, std


def free_of(lower, upper):
    numbers = {"theta": Unknown(np.clip(0.0, lower, upper), lower=lower, upper=upper)}
    return freed(numbers, lambda path: path[0].key)[1]


def led(information, bend, slope, free, theta, steps, xp=np):
    """θ and what is known of the bend after some steps, each of which is made in full."""
    known, kept = np.zeros((P, P)), None
    step, learn = (functools.partial(of, free, xp=xp) for of in (correction, bent))
    if xp is jnp:
        step, learn = jax.jit(step), jax.jit(learn)
    lacks = lambda theta: bend @ theta + slope
    for _ in range(steps):
        leaning = -information @ theta  # the cost is least at 0
        if kept is not None:
            moved = theta - kept
            changed = lacks(theta) - lacks(kept), leaning + information @ kept
            known = np.asarray(learn(known, theta, information, moved, *changed))
        kept = theta
        _, target, _, left = step(theta, information, lacks(theta), leaning, known, 4.0)
        theta = np.asarray(target)
        if left < ARRIVED:  # smaller changes are those of rounding
            break
    return theta, known, float(left)


@pytest.mark.parametrize("seed", range(6))
def test_they_arrive_at_the_minimum_whose_bend_is_not_known(seed):
    information, bend, slope, _, std = problem(seed)
    free = free_of(np.full(P, -np.inf), np.full(P, np.inf))
    best = np.linalg.solve(information + bend, -slope)
    theta, known, left = led(information, bend, slope, free, std, 9)
    assert np.all(np.abs(theta - best) < 1e-6 * std) and left < ARRIVED


@pytest.mark.parametrize("xp", [np, jnp])
def test_they_arrive_within_bounds(xp):
    """From within; the answer is that of SciPy's L-BFGS-B in units of standard deviations."""
    for seed in range(6):
        information, bend, slope, _, std = problem(seed)
        inside = np.linalg.solve(information + bend, -slope) / std
        lower, upper = np.full(P, -np.inf), np.full(P, np.inf)
        lower[0], upper[1] = inside[0] + 0.7, inside[1] - 0.4
        first = np.array([lower[0] + 1.0, upper[1] - 1.0, 0.0, 0.0])
        H, g = (information + bend) * np.outer(std, std), slope * std
        cost = lambda x, H=H, g=g: (0.5 * x @ H @ x + g @ x, H @ x + g)
        best = minimize(
            cost, first, jac=True, method="L-BFGS-B", bounds=list(zip(lower, upper, strict=True)), tol=1e-14
        )
        free = free_of(lower * std, upper * std)
        theta, _, left = led(information, bend, slope, free, first * std, 14, xp)
        assert theta / std == pytest.approx(best.x, abs=1e-4), seed


def test_what_sizes_of_noise_take_is_a_direction_in_which_less_is_known():
    information, bend, slope, ways, std = problem(1, flat=-0.9)
    free = free_of(np.full(P, -np.inf), np.full(P, np.inf))
    _, known, _ = led(information, bend, slope, free, std, 9)
    less = information + traded(free, std, information, known)
    right = np.linalg.inv(information + bend)
    assert np.sqrt(np.diag(np.linalg.inv(less))) == pytest.approx(np.sqrt(np.diag(right)), rel=1e-6)
    more = information + traded(free, std, information, -bend)
    assert more == pytest.approx(information, rel=1e-9, abs=1e-9 * np.max(information))


@pytest.mark.parametrize("xp", [np, jnp])
def test_what_sizes_of_noise_take_is_what_is_left_when_they_follow(xp):
    """Of a quadratic function of both; one of the sizes is as small as it may be."""
    rng = np.random.default_rng(3)
    scale = np.array([1e-3, 1.0, 50.0, 2.0, 1.0, 3.0, 1.0])
    root = rng.normal(size=(P + 3, P + 3)) * scale
    H = root.T @ root
    information, slopes, bends = H[:P, :P], H[:P, P:], H[P:, P:]
    led = np.diag(information) * np.array([0.3, 1.0, 0.0, 2.0])
    held = np.array([False, False, True])
    seen = bends - slopes.T @ np.linalg.inv(information + np.diag(led)) @ slopes
    taken = np.asarray(exchanged(seen, held, slopes, information + np.diag(led), xp))
    free = free_of(np.full(P, -np.inf), np.full(P, np.inf))
    less = information + np.asarray(traded(free, np.zeros(P), information, taken, xp))
    std = np.sqrt(np.diag(np.linalg.inv(H[:-1, :-1]))[:P])
    assert np.sqrt(np.diag(np.linalg.inv(less))) == pytest.approx(std, rel=1e-6)
