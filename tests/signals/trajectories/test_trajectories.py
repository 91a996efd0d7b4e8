"""Trajectories against rational arithmetic, SciPy, closed forms and finite differences."""

from fractions import Fraction
from functools import partial
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy.integrate import cumulative_simpson
from scipy.interpolate import CubicSpline

from fgmbs.errors import ArgumentError
from fgmbs.signals.trajectories import blended_polyline, polyline, sample, sinusoid, spline

pytestmark = pytest.mark.usefixtures("users_code")

POINTS = np.array([[0.0, 1.0], [2.0, 0.5], [-1.0, 0.0], [0.3, 0.2], [1.5, -2.0]])
TIMES = np.array([-0.4, 0.1, 0.8, 1.2, 2.0])
INSIDE = np.linspace(-0.39, 1.99, 60)
LAWS = {
    "cubic": lambda u: 3 * u**2 - 2 * u**3,
    "quintic": lambda u: 10 * u**3 - 15 * u**4 + 6 * u**5,
    "septic": lambda u: 35 * u**4 - 84 * u**5 + 70 * u**6 - 20 * u**7,
}
BLEND_RATES = {"cubic": lambda u: u, "quintic": LAWS["cubic"], "septic": LAWS["quintic"]}
SMOOTHNESS = {"cubic": 1, "quintic": 2, "septic": 3}
BLEND = np.array([0.2, 0.3, 0.1, 0.4, 0.25])
KINDS = {
    **{f"polyline-{law}": (partial(polyline, law=law), order) for law, order in SMOOTHNESS.items()},
    **{f"blended-{law}": (partial(blended_polyline, blend=BLEND, law=law), k) for law, k in SMOOTHNESS.items()},
    **{
        f"spline-{degree}-{ends}": (partial(spline, degree=degree, ends=ends), degree - 1)
        for degree in (3, 5, 7)
        for ends in ("rest", "natural")
    },
}
"""A function of points and times, and the highest derivative that is continuous in it."""
each_kind = pytest.mark.parametrize("kind", KINDS)


@jax.jit
def _derivatives(trajectory, t):
    def with_next(f):
        def g(t):
            values, rates = jax.jvp(f, (t,), (jnp.ones_like(t),))
            return [*values, rates[-1]]

        return g

    f = lambda t: [trajectory(t)]
    for _ in range(7):
        f = with_next(f)
    return jax.vmap(f)(t)


def derivatives(trajectory, t):
    """Derivatives 0 to 7 at all times t, by forward mode over forward mode: (8, steps, d).

    One number of times for all, so that all trajectories of one shape share one program.
    """
    t = np.asarray(t)
    return np.stack(_derivatives(trajectory, np.pad(t, (0, 64 - t.size), "edge")))[:, : t.size]


def both_sides(trajectory, t):
    """(right, left) limits of the derivatives 0 to 7 at the times t."""
    return derivatives(trajectory, t), derivatives(trajectory, np.nextafter(t, -np.inf))


def assert_close(actual, desired, tolerance):
    """Relative to the largest value."""
    np.testing.assert_allclose(actual, desired, rtol=0, atol=tolerance * (1e-300 + np.max(np.abs(desired))))


@pytest.mark.parametrize("law", LAWS)
def test_polyline_follows_its_law(law):
    i = np.searchsorted(TIMES, INSIDE) - 1
    u = (INSIDE - TIMES[i]) / np.diff(TIMES)[i]
    expected = POINTS[i] + LAWS[law](u)[:, None] * np.diff(POINTS, axis=0)[i]
    assert_close(sample(polyline(POINTS, TIMES, law), INSIDE).y, expected, 1e-13)


@pytest.mark.parametrize("law", LAWS)
def test_polyline_rests_at_its_points(law):
    order = SMOOTHNESS[law]
    for side in both_sides(polyline(POINTS, TIMES, law), TIMES[1:-1]):
        assert_close(side[0], POINTS[1:-1], 1e-14)
        # The next derivative is some thousands; one ulp of time away it leaves 1e-12 of the last that vanishes.
        np.testing.assert_allclose(side[1 : order + 1], 0.0, atol=1e-10)
        assert np.all(np.abs(side[order + 1]) > 1)


def blended_velocity(law, t, blend):
    """Velocity of the blended polyline, written piece by piece."""
    corners = TIMES.copy()
    corners[0] += blend[0] / 2
    corners[-1] -= blend[-1] / 2
    v = np.vstack([np.zeros(2), np.diff(POINTS, axis=0) / np.diff(corners)[:, None], np.zeros(2)])
    u = np.clip((t[:, None] - corners + blend / 2) / blend, 0, 1)
    return v[0] + BLEND_RATES[law](u) @ np.diff(v, axis=0)


@pytest.mark.parametrize("law", LAWS)
def test_blended_polyline_blends_velocities(law):
    trajectory = blended_polyline(POINTS, TIMES, BLEND, law)
    t = np.linspace(TIMES[0], TIMES[-1], 24001)
    y, dy, _ = sample(trajectory, t)
    expected = blended_velocity(law, t, BLEND)
    assert_close(dy, expected, 1e-13)
    # Simpson's rule is of second order across the corners of the parabolic blend's velocity.
    path = POINTS[0] + cumulative_simpson(expected, x=t, axis=0, initial=0)
    assert_close(y, path, 1e-7 if law == "cubic" else 1e-10)
    assert_close(y[-1], POINTS[-1], 1e-14)


def test_lines_of_a_blended_polyline_pass_by_their_points():
    trajectory = blended_polyline(POINTS, TIMES, 0.2)
    y, dy, ddy = sample(trajectory, [0.45])
    assert_close(y[0], (POINTS[1] + POINTS[2]) / 2, 1e-14)
    assert_close(dy[0], (POINTS[2] - POINTS[1]) / 0.7, 1e-14)
    np.testing.assert_array_equal(ddy, 0.0)


def test_blends_may_fill_the_legs():
    times = np.array([0.0, 0.3, 0.5, 0.7, 1.0])
    trajectory = blended_polyline(POINTS, times, 0.2)
    samples = sample(trajectory, np.concatenate([times, np.linspace(0, 1, 41)]))
    assert all(np.all(np.isfinite(x)) for x in samples)
    gradient = jax.grad(lambda times: jnp.sum(sample(blended_polyline(POINTS, times, 0.2), times).y ** 2))(times)
    assert np.all(np.isfinite(gradient))


def exact_spline(degree, ends, times):
    """(t, k) → derivative k of the spline through POINTS at t, from what defines it, in rational numbers."""
    m, size, knots = degree // 2, degree + 1, [Fraction(t) for t in times]
    pieces = len(knots) - 1

    def powers(u, k):
        """Derivative k of 1, u, …, u^degree."""
        return [Fraction(factorial(j), factorial(j - k)) * u ** (j - k) if j >= k else Fraction(0) for j in range(size)]

    def row(value, *of_pieces):
        """Σ coefficients · row of a piece = value."""
        left = [Fraction(0)] * (pieces * size)
        for i, sign, numbers in of_pieces:
            left[i * size : (i + 1) * size] = [sign * number for number in numbers]
        return left + [Fraction(x) for x in value]

    h, zero, nothing = np.diff(knots), Fraction(0), (0, 0)
    rows = []
    for i in range(pieces):
        rows += [row(POINTS[i], (i, 1, powers(zero, 0))), row(POINTS[i + 1], (i, 1, powers(h[i], 0)))]
    for i in range(pieces - 1):
        rows += [row(nothing, (i, 1, powers(h[i], k)), (i + 1, -1, powers(zero, k))) for k in range(1, degree)]
    for k in range(1, m + 1) if ends == "rest" else range(m + 1, degree):
        rows += [row(nothing, (0, 1, powers(zero, k))), row(nothing, (pieces - 1, 1, powers(h[-1], k)))]
    A = np.array(rows)
    for k in range(len(A)):
        pivot = k + np.flatnonzero(A[k:, k])[0]
        A[[k, pivot]] = A[[pivot, k]]
        A[k] = A[k] / A[k, k]
        for other in np.flatnonzero(A[:, k]):
            if other != k:
                A[other] = A[other] - A[other, k] * A[k]
    coefficients = A[:, len(A) :].reshape(pieces, size, -1)

    def value(t, k):
        i = int(np.clip(np.searchsorted(times, t, "right") - 1, 0, pieces - 1))
        return (np.array(powers(Fraction(t) - knots[i], k)) @ coefficients[i]).astype(float)

    return value


@pytest.mark.parametrize("degree", (3, 5, 7))
@pytest.mark.parametrize("ends", ("rest", "natural"))
@pytest.mark.parametrize("times", (TIMES, np.array([0.0, 1.0, 1.15, 2.65, 3.0])), ids=("even", "uneven"))
def test_spline_is_the_exact_solution_of_its_conditions(degree, ends, times):
    reference = exact_spline(degree, ends, times)
    t = np.sort(np.concatenate([times, np.linspace(times[0], times[-1], 50)[1:-1]]))
    ours = derivatives(spline(POINTS, times, degree, ends), t)
    for k in range(degree):
        # The conditioning of septic splines costs 1e-11; each derivative divides it by a step of 0.15.
        assert_close(ours[k], np.array([reference(s, k) for s in t]), 1e-11 if k <= 2 else 1e-8)


@pytest.mark.parametrize(("ends", "condition"), (("rest", "clamped"), ("natural", "natural")))
def test_cubic_spline_is_that_of_scipy(ends, condition):
    reference = CubicSpline(TIMES, POINTS, bc_type=condition)
    samples = sample(spline(POINTS, TIMES, ends=ends), INSIDE)
    for k, ours in enumerate(samples):
        assert_close(ours, reference(INSIDE, k), 1e-13)


@pytest.mark.parametrize("degree", (3, 5, 7))
def test_natural_spline_of_few_points_is_a_polynomial(degree):
    m = degree // 2
    t = TIMES[: m + 1]
    trajectory = spline(t**m - t, t, degree, "natural")
    for s in np.linspace(t[0], t[-1], 4):
        np.testing.assert_allclose(trajectory(s), s**m - s, atol=1e-12)


def test_spline_through_points_on_a_line_is_straight():
    trajectory = spline(3 * TIMES + 1, TIMES, 7, "natural")
    y, dy, ddy = sample(trajectory, INSIDE)
    np.testing.assert_allclose(y, 3 * INSIDE + 1, atol=1e-12)
    np.testing.assert_allclose(dy, 3, atol=1e-12)
    np.testing.assert_allclose(ddy, 0, atol=1e-10)


@each_kind
def test_derivatives_are_continuous_up_to_the_promised_order(kind):
    build, order = KINDS[kind]
    trajectory = build(POINTS, TIMES)
    right, left = both_sides(trajectory, trajectory.knots[1:-1])
    for k in range(order + 1):
        scale = np.max(np.abs(right[: k + 1]))
        np.testing.assert_allclose(right[k], left[k], atol=1e-8 * max(scale, 1.0))
    assert np.max(np.abs(right[order + 1] - left[order + 1])) > 1


@each_kind
def test_trajectory_rests_outside_and_ends_as_it_was(kind):
    trajectory = KINDS[kind][0](POINTS, TIMES)
    start, end = TIMES[[0, -1]]
    t = np.array(
        [start - 10, np.nextafter(start, -np.inf), start, np.nextafter(end, -np.inf), end, end + 1e-9, end + 10]
    )
    D = derivatives(trajectory, t)
    np.testing.assert_allclose(D[0, :3], np.broadcast_to(POINTS[0], (3, 2)), atol=1e-13)
    np.testing.assert_allclose(D[0, 3:], np.broadcast_to(POINTS[-1], (4, 2)), atol=1e-13)
    np.testing.assert_array_equal(D[1:, [0, 1, 5, 6]], 0.0)
    np.testing.assert_allclose(D[:, 4], D[:, 3], atol=1e-8)
    assert np.max(np.abs(D[1:, 2])) > 1, "it sets out at the start"
    assert np.max(np.abs(D[1:, 4])) > 1, "it moves until the end"


@each_kind
def test_third_derivative_is_that_of_finite_differences(kind):
    trajectory = KINDS[kind][0](POINTS, TIMES)
    # Between the knots of all kinds.
    t, h = np.array([-0.37, 0.45, 0.9, 1.3, 1.6, 1.8]), 1e-5
    D = derivatives(trajectory, t)
    ahead, behind = derivatives(trajectory, t + h), derivatives(trajectory, t - h)
    for k in (1, 2, 3):
        assert_close((ahead[k - 1] - behind[k - 1]) / (2 * h), D[k], 1e-6)


@pytest.mark.parametrize("kind", ("polyline-quintic", "blended-quintic", "spline-5-rest", "spline-7-natural"))
def test_derivatives_with_respect_to_points_and_times(kind):
    build = KINDS[kind][0]
    t = jnp.array([-0.33, 0.45, 0.9, 1.3, 1.6, 1.9])

    @jax.jit
    def values(points, times):
        y, dy, _ = sample(build(points, times), t)
        return y, dy

    check_grads(values, (POINTS, TIMES), order=1, modes=("fwd", "rev"), eps=1e-6, rtol=1e-6, atol=1e-6)


def test_second_derivatives_with_respect_to_points_and_times():
    def value(x):
        return jnp.sum(spline(x[:, :2], x[:, 2])(0.5) ** 2)

    x, h = np.column_stack([POINTS, TIMES]), 1e-5
    gradient = jax.jit(jax.grad(value))
    steps = h * np.eye(x.size).reshape(-1, *x.shape)
    differences = [(gradient(x + step) - gradient(x - step)) / (2 * h) for step in steps]
    hessian = jax.jit(jax.hessian(value))(x)
    assert_close(np.reshape(hessian, (x.size, -1)), np.reshape(differences, (x.size, -1)), 1e-7)


@pytest.mark.parametrize("kind", ("polyline-quintic", "blended-quintic", "spline-5-rest"))
def test_population_is_each_of_its_members(kind):
    build = KINDS[kind][0]
    population = np.random.default_rng(0).normal(size=(3, *POINTS.shape))
    together = jax.jit(jax.vmap(lambda points: sample(build(points, TIMES), INSIDE)))(population)
    for i, points in enumerate(population):
        for ours, alone in zip(together, sample(build(points, TIMES), INSIDE), strict=True):
            assert_close(ours[i], alone, 1e-12)


def test_population_of_times_and_blends():
    shifts = jnp.array([0.0, 0.01])
    together = jax.vmap(lambda s: blended_polyline(POINTS, TIMES + s, 0.2 + s)(0.45 + s))(shifts)
    for y, s in zip(together, shifts, strict=True):
        np.testing.assert_allclose(y, blended_polyline(POINTS, TIMES + s, 0.2 + s)(0.45 + s), atol=1e-13)


@pytest.mark.parametrize("kind", ("polyline-quintic", "blended-quintic", "spline-5-rest"))
def test_one_signal_is_a_column_of_many(kind):
    build = KINDS[kind][0]
    one, many = build(POINTS[:, 1], TIMES), build(POINTS, TIMES)
    assert one(0.3).shape == ()
    np.testing.assert_allclose(one(0.3), many(0.3)[1], atol=1e-13)


def test_program_does_not_grow_with_the_points():
    def size(n):
        times = np.arange(float(n))
        return str(jax.make_jaxpr(lambda points: spline(points, times, 7)(0.5))(times)).count(" = ")

    assert size(200) == size(20)


def test_sinusoid_is_a_sum_of_harmonics():
    amplitude, frequency, phase = np.array([0.5, -0.2]), np.array([1.0, 2.5]), np.array([0.3, 0.0])
    y, dy, ddy = sample(sinusoid(amplitude, frequency, phase, 0.7), INSIDE)
    omega = 2 * np.pi * frequency
    angle = np.outer(INSIDE, omega) + phase
    np.testing.assert_allclose(y, 0.7 + np.sin(angle) @ amplitude, atol=1e-13)
    np.testing.assert_allclose(dy, np.cos(angle) @ (omega * amplitude), atol=1e-12)
    np.testing.assert_allclose(ddy, -np.sin(angle) @ (omega**2 * amplitude), atol=1e-11)


def test_sinusoids_of_several_signals():
    amplitude, phase, offset = np.array([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]]), np.array([0.1, 0.2]), [1.0, 2.0, 3.0]
    together = sinusoid(amplitude, [1.0, 2.0], phase, offset)(0.3)
    alone = [sinusoid(amplitude[:, i], [1.0, 2.0], phase, offset[i])(0.3) for i in range(3)]
    np.testing.assert_allclose(together, alone, atol=1e-14)
    np.testing.assert_allclose(sinusoid(2, 0.5)(0.5), 2.0, atol=1e-14)


def test_sample_takes_any_function_of_time_and_traces_it_once():
    traces = []

    def motion(t):
        traces.append(t)
        return [jnp.sin(t), 2.0]

    y, dy, ddy = sample(motion, INSIDE)
    expected = np.stack([np.sin(INSIDE), np.full_like(INSIDE, 2)], axis=1)
    np.testing.assert_allclose(y, expected, atol=1e-15)
    np.testing.assert_allclose(dy, np.stack([np.cos(INSIDE), 0 * INSIDE], axis=1), atol=1e-15)
    np.testing.assert_allclose(ddy[:, 0], -np.sin(INSIDE), atol=1e-15)
    sample(motion, INSIDE + 1)
    assert len(traces) == 1


def test_everything_obeys_strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        for build, _ in KINDS.values():
            assert jax.eval_shape(lambda t, build=build: build(POINTS, TIMES)(t), 0.0).dtype == float
        sample(sinusoid([1, 2], [1, 2]), [0, 1])


@pytest.mark.parametrize(
    ("call", "text"),
    (
        (
            lambda: spline(POINTS, [0, 1, 1, 2, 3]),
            r"times: expected increasing times; found times\[2\] = 1 s after times\[1\] = 1 s",
        ),
        (
            lambda: polyline(POINTS, [0, 1, 2]),
            r"times: expected shape \(5,\), one time for each point; found shape \(3,\)",
        ),
        (lambda: polyline([1.0], [0.0]), "points: expected at least two; found 1"),
        (lambda: polyline(1.0, 0.0), r"points: expected shape \(N, d\) or \(N,\); found shape \(\)"),
        (
            lambda: spline([1, 2], [0, 1], 5, "natural"),
            "points: expected at least 3 for a natural spline of degree 5; found 2",
        ),
        (lambda: spline([[1, 2], [3]], [0, 1]), r"points: expected numbers; found \[\[1, 2\], \[3\]\]"),
        (lambda: spline([[1, 2], [3, np.nan]], [0, 1]), r"points: expected finite numbers; found points\[1, 1\] = nan"),
        (lambda: spline([1, 2], [0, np.inf]), r"times: expected finite numbers; found times\[1\] = inf"),
        (lambda: spline(POINTS, TIMES, 4), "degree: expected 3, 5 or 7; found 4"),
        (lambda: spline(POINTS, TIMES, 3, "free"), "ends: expected 'rest' or 'natural'; found 'free'"),
        (lambda: polyline(POINTS, TIMES, "linear"), "law: expected 'cubic', 'quintic' or 'septic'; found 'linear'"),
        (lambda: blended_polyline(POINTS, TIMES, 0.1, ""), "law: expected 'cubic', 'quintic' or 'septic'; found ''"),
        (lambda: blended_polyline(POINTS, TIMES, 0), r"blend: expected a positive duration \[s\]; found 0"),
        (
            lambda: blended_polyline(POINTS, TIMES, [1, 1, -1, 1, 1]),
            r"blend: expected a positive .* found blend\[2\] = -1",
        ),
        (
            lambda: blended_polyline(POINTS, TIMES, [1, 1]),
            r"blend: expected one duration or shape \(5,\).*found shape \(2,\)",
        ),
        (
            lambda: blended_polyline(POINTS, TIMES, 0.35),
            r"blend: expected at most 0.33333333333\d* s, .* room between times\[0\] and times\[1\]; found 0.35 s",
        ),
        (
            lambda: blended_polyline(POINTS, TIMES, [0.1, 0.1, 0.5, 0.5, 0.1]),
            r"at most the 0.4 s between times\[2\] and times\[3\]; found 0.5 s,.* blends 0.8 times as long fit",
        ),
        (lambda: sinusoid([1, 2], [1, 2, 3]), r"frequency: expected shape \(\) or \(2,\) for .* found shape \(3,\)"),
        (
            lambda: sinusoid(1, 1, [0, 1]),
            r"phase: expected shape \(\) for an amplitude of shape \(\); found shape \(2,\)",
        ),
        (lambda: sinusoid([1, 2], 1, 0, [0, 1]), r"offset: expected shape \(\) for .* \(2,\); found shape \(2,\)"),
        (lambda: sinusoid(np.ones((1, 1, 1)), 1), r"amplitude: .*; found shape \(1, 1, 1\)"),
        (lambda: sinusoid(1, np.nan), "frequency: expected finite numbers; found nan"),
        (lambda: sample(jnp.sin, 0.0), r"t: expected times of shape \(steps,\); found shape \(\)"),
        (lambda: sample(lambda t: t * jnp.eye(2), [0.0]), r"trajectory: .* found shape \(2, 2\)"),
    ),
)
def test_bad_arguments_are_explained(call, text):
    with pytest.raises(ArgumentError, match=text):
        call()


def test_longest_blend_of_the_error_fits():
    blended_polyline(POINTS, TIMES, 0.3333333333333)
    blended_polyline(POINTS[:2], [0.0, 1.0], 0.5)


def test_traced_numbers_are_not_checked_but_known_ones_are():
    build = jax.jit(lambda points, times: spline(points, times)(0.3))
    np.testing.assert_allclose(build(POINTS, TIMES), spline(POINTS, TIMES)(0.3), atol=1e-13)
    build(POINTS * np.nan, TIMES)
    with pytest.raises(ArgumentError, match="times: expected increasing"):
        jax.jit(lambda points: spline(points, [0, 1, 1, 2, 3])(0.3))(POINTS)
