"""Recorded signals as they are played: against integrals over fine steps, and derivatives against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.signal import lfilter

from fgmbs.signals.recordings.played import Played, pieces
from fgmbs.signals.recordings.recording import Signal

RNG = np.random.default_rng(1)
T = np.cumsum(RNG.uniform(0.02, 0.3, 12))
SIGNAL = Signal(T, RNG.normal(0, 1, T.size))
STARTS, DT = np.linspace(-0.2, T[-1] + 0.2, 17), 0.25
HOLDS = pytest.mark.parametrize("hold", ["previous", "linear"])


def signal_at(t, hold):
    if hold == "linear":
        return np.interp(t, SIGNAL.t, SIGNAL.values)
    return SIGNAL.values[max(0, np.searchsorted(SIGNAL.t, t, side="right") - 1)]


def behind_lag(t, lag, hold):
    """∫ s(t − σ) exp(−σ/lag)/lag dσ."""
    if lag == 0:
        return signal_at(t, hold)
    breaks = sorted(t - stamp for stamp in SIGNAL.t if 0 < t - stamp < 40 * lag)
    ends = [0.0, *breaks, 40 * lag]
    parts = zip(ends[:-1], ends[1:], strict=True)
    weighed = lambda s: signal_at(t - s, hold) * np.exp(-s / lag) / lag
    return sum(quad(weighed, a + 1e-13, b - 1e-13, epsabs=1e-13)[0] for a, b in parts if b - a > 3e-13)


@HOLDS
@pytest.mark.parametrize("lag", [0.0, 0.03, 2.0])
def test_lines_have_the_integrals_of_the_force(hold, lag):
    played = Played.of(SIGNAL, 16, pieces(T, DT), hold)
    cut, lag_ = lambda x: x, jnp.asarray(lag)
    states = jax.jit(lambda: played.states(cut, lag_))()
    line = jax.jit(lambda start: played.line(start, start + DT, cut, lag_, lambda k: states[k]))
    at_once = jax.jit(lambda start: played.line(start, start + DT, cut))
    for start in STARTS:
        c0, c1 = line(start)
        breaks = [t for t in T if start < t < start + DT]
        ends = [start, *breaks, start + DT]
        total, moment = 0.0, 0.0
        for a, b in zip(ends[:-1], ends[1:], strict=True):
            nodes, weights = np.polynomial.legendre.leggauss(20)
            t, w = a + (b - a) * (nodes + 1) / 2, (b - a) / 2 * weights
            y = np.array([behind_lag(one, lag, hold) for one in t])
            total, moment = total + w @ y, moment + w @ ((t - start) * y)
        assert float(c0 + c1) / 2 * DT == pytest.approx(total, abs=1e-9)
        assert float(c0 / 6 + c1 / 3) * DT**2 == pytest.approx(moment, abs=1e-9)
        if lag == 0:
            np.testing.assert_allclose(at_once(start), [c0, c1], atol=1e-12)


def test_a_straight_line_is_cut_off_between_its_samples():
    """The line over an interval, values and what a lag leaves of them, against sums over fine steps; and derivatives
    by the limit, against differences."""
    played, limit, lag = Played.of(SIGNAL, 16, pieces(T, DT), "linear"), 0.3, 0.2
    fine = np.linspace(-0.5, T[-1] + 0.5, 800_001)
    h = fine[1] - fine[0]
    cut = np.clip(np.interp(fine, SIGNAL.t, SIGNAL.values), -limit, limit)
    assert np.sum(np.abs(np.diff(np.abs(cut) == limit))) >= 6
    middle = (cut[1:] + cut[:-1]) / 2
    behind = lfilter([1 - np.exp(-h / lag)], [1, -np.exp(-h / lag)], middle, zi=[np.exp(-h / lag) * cut[0]])[0]

    @jax.jit
    def found(limit, lag):
        clip = lambda x: jnp.clip(x, -limit, limit)
        states = played.states(clip, lag, limit)
        lines = jax.vmap(lambda t: played.line(t, t + DT, clip, limit=limit))(STARTS)
        lagging = jax.vmap(lambda t: played.line(t, t + DT, clip, lag, lambda k: states[k], limit))(STARTS)
        values = jax.vmap(lambda t: played.value(t, clip, limit=limit))(STARTS)
        late = jax.vmap(lambda t: played.value(t, clip, lag, lambda k: states[k], limit))(STARTS)
        return lines, lagging, values, late

    lines, lagging, values, late = found(limit, lag)
    np.testing.assert_allclose(values, np.interp(STARTS, fine, cut), atol=1e-5)
    np.testing.assert_allclose(late, np.interp(STARTS, fine[1:], behind), atol=1e-5)
    for y, ends in ((cut, lines), (np.append(cut[0], behind), lagging)):
        whole = np.append(0, np.cumsum((y[1:] + y[:-1]) / 2) * h)
        means = (np.interp(STARTS + DT, fine, whole) - np.interp(STARTS, fine, whole)) / DT
        np.testing.assert_allclose(np.mean(ends, axis=1), means, atol=1e-5)
    slopes, e = jax.jit(jax.jacfwd(found, (0, 1)))(limit, lag), 1e-6
    for column, slope in zip(("limit", "lag"), zip(*slopes, strict=True), strict=True):
        step = np.array([column == "limit", column == "lag"]) * e
        for one, ahead, back in zip(slope, found(*(limit, lag) + step), found(*(limit, lag) - step), strict=True):
            np.testing.assert_allclose(one, (ahead - back) / (2 * e), atol=1e-6)


@HOLDS
def test_values_are_those_behind_the_lag(hold):
    played = Played.of(SIGNAL, 16, 4, hold)
    cut, lag = lambda x: x, jnp.asarray(0.1)
    states = jax.jit(lambda: played.states(cut, lag))()
    value = jax.jit(lambda t: (played.value(t, cut), played.value(t, cut, lag, lambda k: states[k])))
    for t in STARTS:
        at_once, found = value(t)
        assert float(at_once) == pytest.approx(signal_at(t, hold), rel=1e-12)
        assert float(found) == pytest.approx(behind_lag(t, 0.1, hold), abs=1e-9)


@HOLDS
@pytest.mark.parametrize("lag", [0.02, 0.5])
def test_derivatives_by_delay_and_lag(hold, lag):
    played = Played.of(SIGNAL, 16, pieces(T, DT), hold)

    @jax.jit
    def lines(numbers):
        delay, lag = numbers
        states = played.states(lambda x: x, lag)
        return jax.vmap(lambda t: played.line(t - delay, t - delay + DT, lambda x: x, lag, lambda k: states[k]))(STARTS)

    at, e = jnp.array([0.0123, lag]), 1e-6
    forward, backward = jax.jit(lambda at: (jax.jacfwd(lines)(at), jax.jacrev(lines)(at)))(at)
    np.testing.assert_allclose(forward, backward, atol=1e-10)
    for k in range(2):
        step = np.eye(2)[k] * e
        np.testing.assert_allclose(forward[..., k], (lines(at + step) - lines(at - step)) / (2 * e), atol=1e-5)


def test_a_lag_that_is_zero_has_derivatives():
    """The integral of what a held signal is behind falls by lag · jump."""
    played = Played.of(Signal(np.array([0.0, 0.1]), np.array([0.0, 1.0])), 4, 4, "previous")

    def mean(lag):
        states = played.states(lambda x: x, lag)
        return jnp.mean(played.line(0.05, 0.15, lambda x: x, lag, lambda k: states[k]))

    value, slope = jax.jit(jax.value_and_grad(mean))(0.0)
    assert float(value) == pytest.approx(0.5) and float(slope) == pytest.approx(-10.0)


def test_room_for_more_samples_changes_nothing():
    lines = [
        Played.of(SIGNAL, size, 4, "linear").line(0.4, 0.6, jnp.tanh, jnp.asarray(0.1), lambda k: jnp.zeros(k.shape))
        for size in (12, 13, 64)
    ]
    np.testing.assert_array_equal(lines[0], lines[1])
    np.testing.assert_array_equal(lines[0], lines[2])
