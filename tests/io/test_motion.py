"""Tables of desired motions: what they mean, and every fault with its line."""

import numpy as np
import pytest

import fgmbs
from fgmbs.errors import DescriptionError
from fgmbs.io.experiments.motion import read_motion

NAMES = ("x_P", "y_P", "theta")
ROWS = "0,1.5\n0.1,1.6\n0.25,1.8\n"
KNOWN = "known columns: t, x_P, y_P, theta, d_x_P, d_y_P, d_theta, dd_x_P, dd_y_P, dd_theta"
NO_COORDINATE = ":1: expected columns of coordinates besides 't'; found none"


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "a.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def faults_of(path, columns=None):
    with pytest.raises(DescriptionError) as caught:
        read_motion(path, NAMES, columns)
    return [fault.removeprefix(str(path)) for fault in caught.value.faults]


@pytest.mark.parametrize(
    "text",
    [
        f"t,theta\n{ROWS}",
        f"# a comment\n\n t , theta  # names\n% another\n{ROWS.replace(',', ' , ')}",
        f"t theta\n{ROWS.replace(',', '   ')}",
        "\ufeff% t theta\n" + f"t,theta\n{ROWS}\n\n".replace(",", "\t").replace("\n", "\r\n"),
        "theta,t\n1.5,0\n1.6,1e-1\n1.8,.25\n",
    ],
    ids=["csv", "comments", "spaces", "tabs, CRLF, byte order mark", "another order"],
)
def test_a_table_is_read_by_its_line_of_names(table, text):
    t, desired = read_motion(table(text), NAMES)
    np.testing.assert_array_equal(t, [0.0, 0.1, 0.25])
    assert list(desired) == ["theta"]
    np.testing.assert_array_equal(desired["theta"], [1.5, 1.6, 1.8])


def test_names_can_be_told_and_replace_those_of_the_file(table):
    for text in (ROWS, f"time, crank\n{ROWS}"):
        t, desired = read_motion(table(text), NAMES, ("t", "theta"))
        np.testing.assert_array_equal(t, [0.0, 0.1, 0.25])
        np.testing.assert_array_equal(desired["theta"], [1.5, 1.6, 1.8])


def test_velocities_and_accelerations_go_with_their_coordinate(table):
    t, desired = read_motion(table("t,dd_x_P,x_P,d_x_P,y_P\n0,3,1,2,4\n1,6,4,5,4\n2,9,7,8,4"), NAMES)
    np.testing.assert_array_equal(desired["x_P"], [[1, 4, 7], [2, 5, 8], [3, 6, 9]])
    assert isinstance(desired["x_P"], tuple)
    np.testing.assert_array_equal(desired["y_P"], [4, 4, 4])


def test_a_coordinate_is_taken_by_its_own_name_first(table):
    _, desired = read_motion(table(f"t,d_x\n{ROWS}"), ("d_x", "y"))
    assert list(desired) == ["d_x"]


@pytest.mark.parametrize(
    "text, faults",
    [
        ("", [": expected a table of a desired motion; found nothing but comments or empty lines"]),
        (
            ROWS,
            [
                ":1: expected a line of names, t and coordinates, or columns=('t', …) with a name for each of the 2 "
                "columns; found neither"
            ],
        ),
        (
            f"time,thta\n{ROWS}",
            [
                ":1: expected a column 't', the time [s]; found none",
                f":1: expected names of columns; found 'time'; {KNOWN}",
                f":1: expected names of columns; found 'thta'; did you mean 'theta'? {KNOWN}",
            ],
        ),
        (f"t,t\n{ROWS}", [":1: expected each column once; found 't' 2 times", NO_COORDINATE]),
        ("t\n0\n1\n2", [NO_COORDINATE]),
        (
            f"t,d_theta\n{ROWS}",
            [":1: expected 'theta', 'd_theta' and 'dd_theta', or 'theta' alone; found 'd_theta'"],
        ),
        (
            "# two\nt,theta\n0,1,2\n0.1,1..2\n0.2,\n0.3,nan\n0.4,inf\n",
            [
                ":3: expected 2 columns; found 3",
                ":4: expected a number; found '1..2'",
                ":5: expected a number; found nothing",
                ":6: expected a finite number; found nan",
                ":7: expected a finite number; found inf",
            ],
        ),
        (
            "t,theta\n0,1\n0.2,1\n0.1,1\n0.1,1",
            [
                ":4: expected times that increase; found 0.1 s after 0.2 s",
                ":5: expected times that increase; found 0.1 s after 0.1 s",
            ],
        ),
        ("t,theta\n0,1\n1,1", [": expected at least 3 rows of numbers; found 2"]),
    ],
)
def test_all_faults_are_reported_at_once_with_their_lines(table, text, faults):
    assert faults_of(table(text)) == faults


def test_names_that_are_told_can_be_wrong_too(table):
    assert faults_of(table(ROWS), ("t", "x_P", "y_P")) == [f":{k}: expected 3 columns; found 2" for k in (1, 2, 3)]
    assert faults_of(table(ROWS), ("t", "x_Q"))[0].startswith(
        ": columns: expected names of columns; found 'x_Q'; did you mean 'x_P'?"
    )


def test_a_file_that_is_wrong_all_over_is_reported_in_short(table):
    faults = faults_of(table("t,theta\n" + "0\n" * 1000))
    assert len(faults) == 21 and faults[-1] == ": and 980 more faults"


def test_what_cannot_be_read_is_reported(tmp_path):
    assert faults_of(tmp_path / "none.csv") == [
        ": expected a table of a desired motion; found: No such file or directory"
    ]
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    assert "found no text in UTF-8" in faults_of(tmp_path / "bytes.csv")[0]


def test_read_motion_takes_the_names_of_the_mechanism(table, configs):
    mechanism = fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml")
    _, desired = fgmbs.read_motion(table(ROWS), mechanism, columns=("t", "theta"))
    np.testing.assert_array_equal(desired["theta"], [1.5, 1.6, 1.8])
