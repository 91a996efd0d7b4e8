"""Steps to the most likely parameters, on quadratic functions of which the answer is known."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from fgmbs.problems.identify.identifiability import traded
from fgmbs.problems.identify.likeliest import Probes, bent, correction, likelier, met
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


def quadratic(sizes, rows=P + 3):
    """Second derivatives by θ and sizes of noise."""
    rng = np.random.default_rng(3)
    scale = np.array([1e-3, 1.0, 50.0, 2.0, *[1.0, 3.0, 1.0][:sizes]])
    root = rng.normal(size=(rows, P + sizes)) * scale
    return root.T @ root


def bend_of(probes, H, xp=np):
    """What differences of the slopes of a function tell, whose second derivatives are these: none is exactly along."""
    held = np.all(np.asarray(probes.moves) == 0, axis=0)
    noise = np.random.default_rng(0).normal(size=H.shape) * np.max(np.abs(np.asarray(probes.moves)), axis=0)
    moved = np.asarray(probes.moves) + np.where(held, 0.0, 0.01 * noise)
    return np.asarray(probes.bend(moved, moved @ H.T, xp))


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("sizes", [0, 1, 3])
def test_what_is_known_of_a_quadratic_function_when_sizes_of_noise_follow(sizes, xp):
    """One of θ and the last of three sizes are as small as they may be."""
    H = quadratic(sizes)
    free = free_of(np.array([-np.inf, -np.inf, 0.0, -np.inf]), np.full(P, np.inf))
    held = np.arange(P + sizes) == 2
    held[P:] = np.arange(sizes) == 2
    information = H[:P, :P] * np.where(np.eye(P) == 1, 1.2, 1.0)  # another one than the bend
    probes = Probes.of(free, np.zeros(P), information, held[P:], xp)
    assert not np.any(np.asarray(probes.moves)[:, held]) and np.asarray(probes.kept).sum() == (~held).sum()
    left = ~held[:P]
    told = np.linalg.inv((information + bend_of(probes, H, xp))[np.ix_(left, left)])
    right = np.linalg.inv(H[np.ix_(~held, ~held)])[: left.sum(), : left.sum()]
    assert np.sqrt(np.diag(told)) == pytest.approx(np.sqrt(np.diag(right)), rel=1e-6)


def test_most_of_what_the_likelihood_is_bent_less_is_believed_and_all_that_it_is_more():
    information, bend, *_ = problem(1, flat=-0.9)
    free = free_of(np.full(P, -np.inf), np.full(P, np.inf))
    probes = Probes.of(free, np.zeros(P), information, np.zeros(0, bool))
    size = np.max(information)
    assert bend_of(probes, information + bend) == pytest.approx(bend, rel=1e-6, abs=1e-9 * size)
    assert bend_of(probes, information - bend) == pytest.approx(-bend, rel=1e-6, abs=1e-9 * size)
    least = bend_of(probes, information + 3 * bend)  # a saddle
    assert np.min(np.linalg.eigvals(np.linalg.solve(information, least)).real) == pytest.approx(-0.95)
    assert np.all(np.linalg.eigvalsh(information + least) > 0)


@pytest.mark.parametrize("xp", [np, jnp])
def test_what_the_data_do_not_tell_is_not_moved(xp):
    """The sum of two numbers has only priors that are wide."""
    way, wide = np.array([1.0, 1.0, 0.0, 0.0]), 1e5
    free = eqx.tree_at(lambda free: free.sigma, free_of(np.full(P, -np.inf), np.full(P, np.inf)), jnp.full(P, wide))
    seen = quadratic(0)
    seen = seen - np.outer(seen @ way, seen @ way) / (way @ seen @ way)
    information = seen + np.eye(P) / wide**2
    probes = Probes.of(free, np.zeros(P), information, np.zeros(0, bool), xp)
    std = np.sqrt(np.diag(np.linalg.inv(information)))
    assert np.asarray(probes.kept).sum() == P - 1 and np.max(std) > 1e4
    alone = 1 / np.sqrt(np.diag(information))
    assert np.max(np.abs(np.asarray(probes.moves)) / alone) < 10
    known = np.linalg.inv(information + bend_of(probes, 4 * information, xp))
    for direction, times in ((way, 1.0), (np.array([1.0, -1.0, 0.0, 0.0]), 2.0), (np.eye(P)[3], 2.0)):
        other = direction @ np.linalg.inv(information) @ direction
        assert other / (direction @ known @ direction) == pytest.approx(times**2, rel=0.01)


def test_slopes_that_are_not_those_of_one_function_tell_where_their_zeros_move():
    """The slopes by θ at sizes of noise at which those by sizes stay 0."""
    H = quadratic(2, rows=30)
    J = H + 0.05 * np.sqrt(np.outer(np.diag(H), np.diag(H))) * np.random.default_rng(5).normal(size=H.shape)
    follow = np.concatenate([np.eye(P), -np.linalg.solve(J[P:, P:], J[P:, :P])])
    right = J[:P] @ follow
    information = 0.75 * (right + right.T)
    free = free_of(np.full(P, -np.inf), np.full(P, np.inf))
    bend = bend_of(Probes.of(free, np.zeros(P), information, np.zeros(2, bool)), J)
    assert information + bend == pytest.approx((right + right.T) / 2, rel=1e-7, abs=1e-9 * np.max(information))


@pytest.mark.parametrize("xp", [np, jnp])
def test_nothing_is_said_of_slopes_that_were_not_found(xp):
    H = quadratic(1)
    free = free_of(np.full(P, -np.inf), np.full(P, np.inf))
    probes = Probes.of(free, np.zeros(P), H[:P, :P], np.zeros(1, bool), xp)
    changed = np.asarray(probes.moves) @ H
    changed[2] = np.nan
    assert np.all(np.isnan(np.asarray(probes.bend(probes.moves, changed, xp))))


def test_sizes_of_noise_may_explain_the_same_where_standard_deviations_are_half_as_large_again():
    free = free_of(np.array([0.0, -np.inf, -np.inf, -np.inf]), np.full(P, np.inf))
    for bend, known in ((-0.5, False), (-0.6, True), (3.0, False), (np.nan, True)):
        theta, information = np.ones(P), np.diag([1.0, 1e6, 1e-4, 1.0])
        assert traded(free, theta, information, bend * np.diag([0.0, 0.0, 1e-4, 0.0])) == known, bend
    # What is at its bound is not looked at.
    bend = np.diag([-0.9, 0.0, 0.0, 0.0])
    assert traded(free, theta, information, bend) and not traded(free, theta - 1, information, bend)


def test_a_search_ends_where_another_one_ended():
    information, end = np.diag([1.0, 1e6]), np.array([3.0, 0.1])
    cases = ((0.4, 0.0), 0.3, True), ((0.0, 6e-4), 0.1, False), ((0.1, 1e-4), 0.6, False), ((0.1, 0.0), -0.2, False)
    for away, less, known in cases:  # what is likelier is no end
        for xp in (np, jnp):
            assert bool(met(end + np.array(away), -7.0 - less, end, information, -7.0, xp)) == known


@pytest.mark.parametrize("xp", [np, jnp])
def test_of_ends_that_are_as_likely_the_first_that_arrived_is_taken(xp):
    for settled, than_settled, least in ((1, 1, 0.1), (0, 1, 0.1), (1, 0, -0.1), (0, 0, 0.0)):
        for gain in (-0.2, -0.05, 0.05, 0.2):
            taken = likelier(gain - 7.0, settled == 1, -7.0, than_settled == 1, xp)
            assert bool(taken) == (gain > least), (settled, than_settled, gain)
