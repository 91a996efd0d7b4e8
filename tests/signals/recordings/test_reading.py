"""Recordings in files: what is read, converted, dropped and assumed, and every fault with its place."""

import gzip
import sys

import numpy as np
import pytest

import fgmbs
from fgmbs import ArgumentError, DescriptionError, read_recording

ROWS = "0,1.5\n0.1,1.6\n0.25,1.8\n"
T = np.array([0.0, 0.1, 0.25])
Q = np.array([1.5, 1.6, 1.8])
MADE = ("a.npz", "a.parquet", "a.nc")
"""Files of arrays, in all formats."""


@pytest.fixture
def file(tmp_path):
    """Writes a text, or arrays, into a file of this name."""

    def write(content, name="a.csv"):
        path = tmp_path / name
        if isinstance(content, str):
            (gzip.open if name.endswith(".gz") else open)(path, "wt", encoding="utf-8").write(content)
        elif name.endswith(".npz"):
            np.savez(path, **content)
        elif name.endswith(".nc"):
            import xarray as xr

            xr.Dataset({key: ("time", value) for key, value in content.items()}).to_netcdf(path, engine="h5netcdf")
        else:
            pyarrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
            pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(content), path)
        return path

    return write


def fault_of(error, path, **arguments):
    with pytest.raises(error) as caught:
        read_recording(path, **arguments)
    return str(caught.value).replace(str(path), "FILE").split("\n")


@pytest.mark.parametrize(
    "text, name",
    [
        (f"t,q\n{ROWS}", "a.csv"),
        (f"# a comment\n\n t , q\n% another\n{ROWS.replace(',', ' , ')}\n", "a.csv"),
        (f"\ufefft;q\n{ROWS}".replace(",", ";").replace("\n", "\r\n"), "A.CSV"),
        (f"t\tq\n{ROWS}".replace(",", "\t"), "a.tsv"),
        (f"  t    q [rad]\n{ROWS.replace(',', '   ')}", "a.txt"),
        (f"# made by a logger\n# t,q\n{ROWS}", "a.txt"),
        (f'"t","q"\n{ROWS}', "a.csv.gz"),
        (',t,q,state\n0,0,1.5,"ok, fine"\n1,0.1,1.6,ok\n2,0.25,1.8,\n', "a.dat"),
        ('q,t\n1.5,0\n"1.6",1e-1 # a remark\n1.8,.25\n', "a.csv"),
    ],
    ids=["csv", "comments", "semicolons", "tabs", "blanks", "savetxt", "gzip, quotes", "more columns", "other order"],
)
def test_a_text_is_read_by_its_line_of_names(file, text, name):
    recording = read_recording(file(text, name), {"angle": "q"})
    assert list(recording) == ["angle"]
    np.testing.assert_array_equal(recording["angle"].t, T)
    np.testing.assert_array_equal(recording["angle"].values, Q)


def test_a_list_of_columns_keeps_their_names(file):
    path = file(f"t,q [rad],v\n{ROWS.replace(chr(10), ',ok' + chr(10))}")
    assert list(read_recording(path, ["q"])) == list(read_recording(path, "q")) == ["q"]


def test_columns_without_names_are_counted(file):
    recording = read_recording(file(ROWS), {"q": "1"}, time="0")
    np.testing.assert_array_equal(recording["q"].values, Q)
    assert recording.notes[0] == "no line of names is given: columns are called 0, 1"


@pytest.mark.parametrize("name", MADE)
def test_arrays_are_read_by_name(file, name):
    values = {"t": T, "q [deg]": 180 / np.pi * Q, "n": np.array([1, 2, 3])}
    recording = read_recording(file(values, name))
    assert list(recording) == ["q", "n"]
    np.testing.assert_array_equal(recording["q"].t, T)
    np.testing.assert_allclose(recording["q"].values, Q, rtol=1e-15)
    np.testing.assert_array_equal(recording["n"].values, [1.0, 2.0, 3.0])
    assert recording["q"].unit == "rad"
    assert recording.notes == ("q: converted from deg to rad", "t, n: no unit is given, taken as SI")


def test_a_row_for_each_time_is_a_column_for_each_of_its_places(file):
    px = np.arange(12, dtype=np.int16).reshape(3, 4)
    path = file({"t": T[:, None], "px": px, "turned": px.T, "dt": 0.1, "word": "a"}, "a.npz")
    recording = read_recording(path, units={"px": "px"})
    assert list(recording) == [f"{name}[{k}]" for name in ("px", "turned") for k in range(4)]
    np.testing.assert_array_equal(recording["px[3]"].values, px[:, 3])
    np.testing.assert_array_equal(recording["turned[3]"].values, px[:, 3])
    assert recording["px[0]"].unit == "px"
    assert recording.notes == (
        "left out: dt, of shape (), which is not one number for each of 3 times",
        "left out: word, of type <U1, which is no number",
        "t, turned: no unit is given, taken as SI",
    )
    assert list(read_recording(path, {"tip": "px[3]"})) == ["tip"]


def test_netcdf_says_units_in_attributes(tmp_path):
    import xarray as xr

    dataset = xr.Dataset(
        {"q": (("joint", "t"), 180 / np.pi * np.stack([Q, 2 * Q]), {"units": "degrees"})},
        coords={"t": ("t", 1e3 * T, {"units": "ms since 2024-01-01"}), "joint": ["crank", "rocker"]},
    )
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    recording = read_recording(tmp_path / "a.nc")
    np.testing.assert_allclose(recording["q[1]"].values, 2 * Q, rtol=1e-15)
    np.testing.assert_allclose(recording["q[1]"].t, T, rtol=1e-15)
    assert recording.notes[0] == "t: converted from ms to s"


def test_time_stamps_are_counted_from_the_first(file):
    stamps = np.datetime64("2024-01-01T12:00:00") + np.array([0, 100, 250]).astype("timedelta64[ms]")
    for name in ("a.npz", "a.parquet"):
        recording = read_recording(file({"stamp": stamps, "q": Q}, name), time="stamp")
        np.testing.assert_allclose(recording["q"].t, T, rtol=1e-15)
        assert recording.notes[0] == "stamp: counted from 2024-01-01T12:00:00.000"


@pytest.mark.parametrize("header", ["q [deg]", "q (deg)", "q[°]"])
def test_a_unit_is_taken_from_the_header(file, header):
    recording = read_recording(file(f"time (ms),{header},u\n0,90,1\n10,180,2\n"), time="time")
    np.testing.assert_allclose(recording["q"].values, [np.pi / 2, np.pi], rtol=1e-15)
    np.testing.assert_allclose(recording["q"].t, [0.0, 0.01], rtol=1e-15)
    assert (recording["q"].unit, recording["u"].unit) == ("rad", "")
    assert recording.notes == (
        "time: converted from ms to s",
        "q: converted from deg to rad".replace("deg", header[2:].strip(" [()]")),
        "u: no unit is given, taken as SI",
    )


def test_units_that_are_told_come_before_those_of_the_header(file):
    path = file("t [s],q (raw),angle [deg],angle [rad]\n0,90,90,1\n1,180,180,2\n")
    recording = read_recording(path, units={"q": "deg"}, time_unit="min")
    np.testing.assert_allclose(recording["q"].values, [np.pi / 2, np.pi], rtol=1e-15)
    np.testing.assert_array_equal(recording["q"].t, [0.0, 60.0])
    np.testing.assert_array_equal(recording["angle [rad]"].values, [1, 2])
    np.testing.assert_array_equal(recording["angle [deg]"].values, recording["q"].values)


def test_one_table_may_hold_several_rates(file):
    recording = read_recording(file("t,q,v,w\n0,1,2,\n0.1,,3,nan\n0.2, ,4,NA\n0.3,5,NaN,7\n"))
    np.testing.assert_array_equal(recording["q"].t, [0.0, 0.3])
    np.testing.assert_array_equal(recording["v"].values, [2, 3, 4])
    np.testing.assert_array_equal(recording["w"].t, [0.3])
    assert recording.notes[:3] == (
        "q: 2 of 4 samples are nan or empty, dropped",
        "v: 1 of 4 samples are nan or empty, dropped",
        "w: 3 of 4 samples are nan or empty, dropped",
    )


def test_an_offset_shifts_the_clock(file):
    recording = read_recording(file(f"t,q\n{ROWS}"), offset=-2.0)
    np.testing.assert_array_equal(recording["q"].t, T - 2)
    assert "all signals: shifted by -2 s" in recording.notes


def test_a_file_without_times_is_read_at_a_rate(file):
    recording = read_recording(file("q\n1.5\n1.6\n1.8\n"), rate=400.0)
    np.testing.assert_array_equal(recording["q"].t, np.arange(3) / 400)
    assert recording.notes[0] == "times are made from rate = 400 Hz, the first at 0 s"


@pytest.mark.parametrize("gap", [False, True])
def test_a_long_text(file, gap):
    t = np.arange(100_000) * 1e-3
    values = np.random.default_rng(0).standard_normal((len(t), 8))
    lines = ["t," + ",".join(f"q{k}" for k in range(8))]
    lines += [",".join(map(repr, row)) for row in np.column_stack([t, values]).tolist()]
    if gap:
        lines[-1] = lines[-1].rpartition(",")[0] + ","
    path = file("\n".join(lines))
    recording = read_recording(path)  # in 0.2 to 0.4 s, with an empty field 1.2 s
    np.testing.assert_array_equal(recording["q3"].values, values[:, 3])
    assert len(recording["q7"]) == 100_000 - gap


@pytest.mark.parametrize(
    "text, faults",
    [
        ("", ["FILE: expected a table of numbers; found nothing but comments or empty lines"]),
        ("t,q,q\n0,1,2\n", ["FILE:1: expected each column once; found 'q' 2 times"]),
        ("t,q\n", ["FILE: column 'q': expected numbers; found no samples"]),
        (
            "# two\nt,q\n0,1,2\n\n0.1\n0.2,3\n",
            ["FILE:3: expected 2 columns; found 3", "FILE:5: expected 2 columns; found 1"],
        ),
        (
            "t,q\n0,1..2\n0.1,'3'\n0.2,1_0\n0.3,4\n",
            [f"FILE:{k}: column 'q': expected a number; found '{x}'" for k, x in [(2, "1..2"), (3, "'3'"), (4, "1_0")]],
        ),
        ("t;q\n0;1\n0,1;2\n", ["FILE:3: column 't': expected a number; found '0,1'"]),
        ("t,q\n0,1\n0.1,inf\n", ["FILE:3: column 'q': expected finite numbers or nan; found inf"]),
        (
            "# a\nt,q\n0,1\n0.2,1\n0.1,1\n# b\n0.1,1\n,1\n",
            [
                "FILE:5: column 't': expected times that increase; found 0.1 s after 0.2 s",
                "FILE:7: column 't': expected times that increase; found 0.1 s after 0.1 s",
                "FILE:8: column 't': expected a finite time; found nan",
            ],
        ),
        ("t [ms],q\n20,1\n10,1\n", ["FILE:3: column 't [ms]': expected times that increase; found 10 ms after 20 ms"]),
        ("t,q\n0,nan\n1,\n", ["FILE: column 'q': expected numbers; found 2 samples, all of them nan or empty"]),
        (
            "t [deg],q\n0,1\n1,2\n",
            [
                "FILE: column 't [deg]': expected a unit; found 'deg'; known units: s, ms, us, ns, min, h; or tell "
                "what is meant, time_unit=…"
            ],
        ),
    ],
)
def test_all_faults_of_a_text_are_reported_with_their_lines(file, text, faults):
    assert fault_of(DescriptionError, file(text)) == faults


@pytest.mark.parametrize("name", MADE)
def test_all_faults_of_arrays_are_reported_with_their_indices(file, name):
    values = {"t": np.array([0, 0.2, 0.1]), "q": np.full(3, np.nan), "v": np.array([1, np.inf, 2])}
    assert fault_of(DescriptionError, file(values, name)) == [
        "FILE: t[2]: expected times that increase; found 0.1 s after 0.2 s",
        "FILE: q: expected numbers; found 3 samples, all of them nan or empty",
        "FILE: v[1]: expected finite numbers or nan; found inf",
    ]


def test_an_unknown_unit_in_a_header_is_reported_with_those_accepted(file):
    (fault,) = fault_of(DescriptionError, file("t,q [degg]\n0,1\n"))
    assert fault.startswith(
        "FILE: column 'q [degg]': expected a unit; found 'degg'; did you mean 'deg'? known units: 1,"
    )
    assert fault.endswith("min, h; or tell what is meant, units={'q': …}, or choose other columns")


def test_a_file_that_is_wrong_all_over_is_reported_in_short(file):
    faults = fault_of(DescriptionError, file("t,q\n" + "0\n" * 1000))
    assert len(faults) == 21 and faults[-1] == "FILE: and 980 more faults"


@pytest.mark.parametrize(
    "arguments, text",
    [
        (
            {"columns": {"q": "angel"}},
            "columns['q']: expected a column of FILE; found 'angel'; did you mean 'angle'? known columns: t, angle",
        ),
        (
            {"time": "tt"},
            "time: expected a column of FILE; found 'tt'; did you mean 't'? known columns: t, angle; a file without "
            "times needs rate=… [Hz]",
        ),
        ({"columns": {}}, "columns: expected a column of FILE besides the times; found none"),
        (
            {"columns": ["angel"]},
            "columns['angel']: expected a column of FILE; found 'angel'; did you mean 'angle'? known columns: t, angle",
        ),
        ({"rate": 10.0}, "rate: expected None, since FILE has times, 't'; found 10.0"),
        ({"rate": -1.0, "time": "x"}, "rate: expected a positive number of samples per second; found -1.0"),
        ({"offset": np.nan}, "offset: expected a finite number; found nan"),
        (
            {"time_unit": "m"},
            "time_unit: expected a unit; found 'm'; did you mean 'ms'? known units: s, ms, us, ns, min, h",
        ),
        (
            {"units": {"angl": "deg"}},
            "units['angl']: expected the name of a signal; found 'angl'; did you mean 'angle'? known signals: angle",
        ),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(file, arguments, text):
    path = file("t,angle\n0,1\n1,2\n")
    assert fault_of(ArgumentError, path, **arguments) == [text]


def test_an_unknown_unit_that_is_told_is_refused(file):
    (text,) = fault_of(ArgumentError, file(f"t,q\n{ROWS}"), units={"q": "Newton"})
    assert text.startswith("units['q']: expected a unit; found 'Newton'; ")


def test_what_is_no_column_of_an_npz_file_is_reported(file):
    path = file({"t": T, "dt": 0.1, "q": Q}, "a.npz")
    assert fault_of(ArgumentError, path, columns={"step": "dt"}) == [
        "columns['step']: expected a column of FILE; found 'dt', of shape (), which is not one number for each "
        "of 3 times; did you mean 't'? known columns: t, q"
    ]


@pytest.mark.parametrize(
    "name, what",
    [
        ("a.csv", "a table of numbers; found: no text in UTF-8: invalid start byte"),
        ("a.csv.gz", "a table of numbers; found: broken gzip: Not a gzipped file"),
        ("a.npz", "an npz file of plain arrays; found: "),
        ("a.parquet", "a Parquet file; found: "),
        ("a.nc", "a netCDF file; found: "),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path, name, what):
    if name == "a.parquet":
        pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    path = tmp_path / name
    assert fault_of(DescriptionError, path) == ["FILE: expected a recording; found: No such file or directory"]
    path.write_bytes(b"\xff\xfe\x00\x80 nothing of this kind")
    assert fault_of(DescriptionError, path)[0].startswith(f"FILE: expected {what}")


def test_a_single_array_is_no_npz_file(tmp_path):
    with open(tmp_path / "a.npz", "wb") as stream:
        np.save(stream, T)
    assert fault_of(DescriptionError, tmp_path / "a.npz")[0].startswith("FILE: expected an npz file of plain arrays; ")


def test_a_gzip_file_that_ends_early_is_reported(file):
    path = file(f"t,q\n{ROWS}" * 100, "a.csv.gz")
    path.write_bytes(path.read_bytes()[:40])
    assert fault_of(DescriptionError, path)[0].startswith("FILE: expected a table of numbers; found: broken gzip: ")


def test_an_unknown_kind_of_file_is_reported(tmp_path):
    (tmp_path / "a.xlsx").touch()
    assert fault_of(ArgumentError, tmp_path / "a.xlsx") == [
        "path: expected a file .csv, .txt, .tsv, .dat, .npz, .parquet, .pq, .nc, .nc4, .netcdf, of text also with .gz "
        "behind; found 'FILE'"
    ]


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(ImportError, match=r'need pyarrow, which is not installed: pip install "fgmbs\[parquet\]"'):
        read_recording(tmp_path / "a.parquet")


def test_measured_recordings_load_with_one_call(data_dir):
    """Every real recording; where the file has no times, its rate is that of its description."""
    paths = sorted(path for path in (data_dir / "measured").glob("*/*") if path.name.endswith((".csv.gz", ".npz")))
    if not paths:
        pytest.skip(f"no measured recordings in {data_dir}")
    rates = {"ibm_double_pendulum": 400.0, "staubli_tx40": 5000.0}
    for path in paths:
        recording = fgmbs.read_recording(path, rate=rates.get(path.parent.name))
        assert recording.duration > 1
        assert all(len(signal) == len(recording[next(iter(recording))]) for signal in recording.signals.values())
