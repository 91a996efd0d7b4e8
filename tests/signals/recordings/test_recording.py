"""Recordings: what they are made of, how they are cut, shifted and merged, and what they refuse."""

import numpy as np
import pytest

import fgmbs
from fgmbs import ArgumentError, Recording, Signal

T = np.array([0.0, 0.1, 0.25, 0.5])
Q = np.array([1.0, 2.0, 3.0, 4.0])


@pytest.fixture
def recording():
    fast = Recording.of(T, {"q": Q, "v": -Q}, units={"q": "rad", "v": "rad/s"}, source="a")
    return fast.merged(Recording.of([0.2, 0.6], {"u": [5, 6]}, units={"u": "V"}, source="b"))


def test_arrays_are_converted_to_si_units():
    recording = Recording.of(T, {"q": 180 * Q, "a": Q, "u": Q}, units={"q": "deg", "a": "g"}, source="bench")
    np.testing.assert_allclose(recording["q"].values, np.pi * Q, rtol=1e-15)
    np.testing.assert_allclose(recording["a"].values, 9.80665 * Q, rtol=1e-15)
    np.testing.assert_array_equal(recording["u"].values, Q)
    assert [recording[name].unit for name in recording] == ["rad", "m/s^2", ""]
    assert recording.source == "bench"
    assert recording.notes == (
        "q: converted from deg to rad",
        "a: converted from g to m/s^2",
        "u: no unit is given, taken as SI",
    )


def test_an_array_with_a_row_for_each_time_is_several_signals():
    recording = Recording.of(T, {"px": np.arange(8).reshape(4, 2)}, units={"px": "px"})
    assert list(recording) == ["px[0]", "px[1]"]
    np.testing.assert_array_equal(recording["px[1]"].values, [1, 3, 5, 7])
    assert recording["px[1]"].unit == "px"


def test_samples_that_are_nan_are_dropped_signal_by_signal():
    recording = Recording.of(T, {"q": [1, np.nan, 3, np.nan], "v": Q}, units={"q": "rad", "v": "rad/s"})
    np.testing.assert_array_equal(recording["q"].t, [0.0, 0.25])
    np.testing.assert_array_equal(recording["q"].values, [1, 3])
    assert len(recording["v"]) == 4
    assert recording.notes == ("q: 2 of 4 samples are nan or empty, dropped",)


def test_times_span_all_signals(recording):
    assert (recording.start, recording.stop, recording.duration) == (0.0, 0.6, 0.6)
    assert "q" in recording and "x" not in recording
    assert recording.source == "a + b"


def test_a_recording_tells_what_it_holds(recording):
    assert repr(recording.shifted(0.1)).split("\n  ") == [
        "Recording of a + b",
        "q: 4 samples [rad] from 0.1 to 0.6 s, 7.87 Hz, times irregular by 0.018 s, 1 gap of up to 0.25 s",
        "v: 4 samples [rad/s] from 0.1 to 0.6 s, 7.87 Hz, times irregular by 0.018 s, 1 gap of up to 0.25 s",
        "u: 2 samples [V] from 0.3 to 0.7 s, 2.5 Hz",
        "all signals: shifted by 0.1 s",
    ]


def test_a_cut_keeps_the_samples_at_its_ends(recording):
    cut = recording.between(0.1, 0.25)
    np.testing.assert_array_equal(cut["q"].t, [0.1, 0.25])
    np.testing.assert_array_equal(cut["u"].values, [5])
    assert cut["v"].unit == "rad/s"
    assert len(recording.between(0.55, 1.0)["q"]) == 0


def test_a_shift_moves_the_clock_of_all_or_some(recording):
    np.testing.assert_array_equal(recording.shifted(1.0)["q"].t, T + 1)
    some = recording.shifted(-0.2, ["u"])
    np.testing.assert_array_equal(some["u"].t, np.array([0.2, 0.6]) - 0.2)
    np.testing.assert_array_equal(some["q"].t, T)
    assert some.notes[-1] == "u: shifted by -0.2 s"
    assert repr(recording.shifted(-0.2, "u")) == repr(some)


def test_arrays_of_a_recording_are_for_reading_only(recording):
    with pytest.raises(ValueError, match="read-only"):
        recording["q"].values[0] = 7.0
    with pytest.raises(TypeError):
        recording.signals["q"] = recording["v"]
    given = Q.copy()
    of_given = Recording.of(T, {"q": given})
    given[0] = 7.0
    assert of_given["q"].values[0] == 1.0


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: Recording.of([0, 1, 1], {"q": [1, 2, 3]}), "t[2]: expected times that increase; found 1 s after 1 s"),
        (lambda: Recording.of([0, 2, 1], {"q": [1, 2, 3]}), "t[2]: expected times that increase; found 1 s after 2 s"),
        (lambda: Recording.of([0, np.nan, 1], {"q": [1, 2, 3]}), "t[1]: expected a finite time; found nan"),
        (lambda: Recording.of([[0, 1]], {"q": [1]}), "t: expected times in one row; found shape (1, 2)"),
        (lambda: Recording.of(["a", "b"], {"q": [1, 2]}), "t: expected numbers; found list of something else"),
        (
            lambda: Recording.of(T, {"q": Q[:3]}),
            "values['q']: expected 4 samples, one for each time; found shape (3,)",
        ),
        (
            lambda: Recording.of(T, {"q": np.array(1.0)}),
            "values['q']: expected 4 samples, one for each time; found shape ()",
        ),
        (
            lambda: Recording.of(T, {"q": np.full(4, np.nan)}),
            "values['q']: expected numbers; found 4 samples, all of them nan or empty",
        ),
        (
            lambda: Recording.of(T, {"q": [1, np.inf, 3, 4]}),
            "values['q'][1]: expected finite numbers or nan; found inf",
        ),
        (lambda: Recording.of(T, {}), "signals: expected at least one; found none"),
        (
            lambda: Recording.of(T, {"crank": Q}, units={"crnk": "deg"}),
            "units['crnk']: expected the name of a signal; found 'crnk'; did you mean 'crank'? known signals: crank",
        ),
        (
            lambda: Signal(np.array([0.0]), np.array([np.nan])),
            "Signal: values: expected finite numbers in one row; found shape (1,)",
        ),
        (
            lambda: Signal(np.array([0.0, 0.0]), np.array([1.0, 2.0])),
            "Signal: t[1]: expected times that increase; found 0 s after 0 s",
        ),
    ],
)
def test_arrays_that_cannot_be_meant_are_refused(make, text):
    with pytest.raises(ArgumentError) as caught:
        make()
    assert str(caught.value) == text


def test_an_unknown_unit_of_an_array_is_refused():
    with pytest.raises(ArgumentError) as caught:
        Recording.of(T, {"q": Q}, units={"q": "furlong"})
    assert str(caught.value).startswith(
        "units['q']: expected a unit; found 'furlong'; known units: 1, %, counts, px, rad,"
    )


@pytest.mark.parametrize(
    "ask, text",
    [
        (lambda r: r["Q"], "recording['Q']: expected a signal of a + b; found 'Q'; known signals: q, v, u"),
        (
            lambda r: r.shifted(1.0, ["w"]),
            "recording['w']: expected a signal of a + b; found 'w'; known signals: q, v, u",
        ),
        (lambda r: r.shifted(np.nan), "seconds: expected a finite number; found nan"),
        (
            lambda r: r.between(1.0, 2.0),
            "between: expected times within 0 and 0.6 s, those of the samples; found 1 to 2 s",
        ),
        (
            lambda r: r.merged(Recording.of(T, {"v": Q, "w": Q, "q": Q}, source="c")),
            "merged: expected signals of different names; found 'q', 'v' in both a + b and c; "
            "read_recording(columns=…) renames",
        ),
    ],
)
def test_questions_that_a_recording_cannot_answer_are_refused(recording, ask, text):
    with pytest.raises(fgmbs.ArgumentError) as caught:
        ask(recording)
    assert str(caught.value) == text
