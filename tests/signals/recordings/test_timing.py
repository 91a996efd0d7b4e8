"""Rates, rounding, jitter and gaps of times as loggers write them."""

import numpy as np
import pytest

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.signals.recordings.timing import timing

RATES = (7.3, 29.97, 30.0, 60.0, 90.0, 120.0, 150.0, 240.0, 300.0, 500.0, 1000.0)


@pytest.mark.parametrize("rate", RATES)
def test_the_rate_is_found_whatever_the_stamps(rate):
    k, rng = np.arange(3000), np.random.default_rng(0)
    stamps = {
        "exact": k / rate,
        "microseconds": np.round(k / rate, 6),
        "Unix": 1.7e9 + np.round(k / rate, 6),
        "milliseconds": np.round(k / rate, 3),
        "irregular": (k + 0.02 * rng.standard_normal(k.size)) / rate,
        "gap": np.round(np.delete(k, slice(100, 220)) / rate, 6),
    }
    for name, t in stamps.items():
        found = timing(t)
        assert found.interval * rate == pytest.approx(1.0, abs=1e-15), name
        assert len(found.gaps) == (name == "gap") and (f"{rate:g} Hz" in str(found)), name
    (gap,) = timing(stamps["gap"]).gaps
    assert gap == pytest.approx((99 / rate, 220 / rate), abs=1e-6)
    assert timing(stamps["irregular"]).jitter == pytest.approx(0.02 / rate, rel=0.1)
    assert timing(stamps["microseconds"]).jitter < 1e-6


def test_rounding_is_half_of_the_last_place():
    assert timing(np.round(np.arange(100) / 30, 6)).rounding == 0.5e-6
    assert timing(0.002 * np.arange(100)).rounding == 0.5e-3
    assert timing(np.arange(100) / 30).rounding < 1e-13
    assert timing(1.7e9 + np.arange(100) / 30).rounding == pytest.approx(1.5e-6, rel=0.1)  # of the double itself


def test_too_few_times_have_no_rate():
    assert timing(np.zeros(1)) is None and timing(np.zeros(0)) is None
    recording = fgmbs.Recording.of(np.zeros(1), {"a": np.ones(1)})
    assert recording.timings == {} and "Hz" not in repr(recording)


def test_a_recording_says_its_rate_and_gaps():
    t = np.delete(np.arange(500), slice(50, 60)) / 100
    recording = fgmbs.Recording.of(t, {"a": np.sin(t)}, units={"a": "rad"})
    assert "a: 490 samples [rad] from 0 to 4.99 s, 100 Hz, 1 gap of up to 0.11 s" in repr(recording)
    assert recording.timings["a"].gaps == ((0.49, 0.6),)


def prepared(configs, t, **sensors):
    """The problem of these times of an encoder and a gyroscope."""
    signals = {name: fgmbs.Recording.of(times, {name: np.zeros(times.size)}) for name, times in t.items()}
    recording = signals["enc"].merged(signals["gyro"])
    kinds = {"enc": Encoder, "gyro": Gyroscope}
    made = [kinds[name](name, body="rod", sigma=0.01, **sensors.get(name, {})) for name in t]
    return fgmbs.prepare_smooth(
        fgmbs.load(configs / "mechanisms" / "pendulum.yaml"), recording, made, (Disturbance(1.0),)
    )


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("start", (0.0, 1.7e9))
def test_samples_of_regular_sensors_lie_on_steps(configs, rate, start):
    """A fast sensor, and one that reads at every third of its times; stamps of µs, or as exact as a double is."""
    k = np.arange(3000)
    for digits in (6, None):
        t = start + (k / rate if digits is None else np.round(k / rate, digits))
        problem = prepared(configs, {"enc": t[::3], "gyro": t})
        assert problem.at_steps == (True, True) and problem.slots == (1, 1), (rate, digits)
        assert float(problem.recording.dt) * rate == pytest.approx(1.0, abs=1e-15)
        assert int(problem.recording.count) == 3000


def test_samples_between_steps_stay_there(configs):
    """100 Hz beside 250 Hz: two decimal places are no reason to shift the slow ones by half a step."""
    problem = prepared(configs, {"enc": np.arange(100) / 100, "gyro": np.arange(250) / 250})
    assert problem.at_steps == (False, True) and float(problem.recording.dt) == 0.004
