"""Limits of what files may hold, so that none takes long or all of the memory."""

import gzip
import itertools
import time

import numpy as np
import pytest
import xarray as xr

from fgmbs.errors import DescriptionError
from fgmbs.io import located_yaml
from fgmbs.io.planar.load import parse_mechanism, read_mechanism
from fgmbs.io.tables import read_table
from fgmbs.signals.recordings import table, texts
from fgmbs.signals.recordings.reading import read_recording

DEEP = "expected at most 50 lists or mappings within each other; found more"
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
BOMB += "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in itertools.pairwise("abcdefghi"))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("[" * 200_000, f"1:51: {DEEP}"),
        ("{a: " * 50_000, DEEP),
        ("- " * 100_000, f"1:101: {DEEP}"),
        (BOMB, "expected at most 50000 values; found more once aliases are written out"),
        ("name: " + "x" * 1001, "name: expected at most 1000 characters; found 1001"),
        ("? " + "x" * 200_000 + "\n: 1", "expected at most 1000 characters; found 200000"),
    ],
    ids=["lists", "mappings", "blocks", "aliases", "name", "key"],
)
def test_descriptions(text, expected):
    begun = time.perf_counter()
    with pytest.raises(DescriptionError) as caught:
        parse_mechanism(text)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 5000 and time.perf_counter() - begun < 10.0


def test_a_description_of_many_bytes_is_not_read(tmp_path):
    path = tmp_path / "mechanism.yaml"
    path.write_text("# " + "x" * located_yaml.MOST_BYTES)
    with pytest.raises(DescriptionError, match="expected a mechanism file of at most 250,000 bytes; found more"):
        read_mechanism(path)


def test_lines_may_end_as_they_like(configs, tmp_path):
    text = (configs / "mechanisms" / "pendulum.yaml").read_text()
    for end in ("\r\n", "\r"):
        (tmp_path / "m.yaml").write_bytes(text.replace("\n", end).encode())
        assert read_mechanism(tmp_path / "m.yaml") == parse_mechanism(text)


def test_texts(tmp_path, monkeypatch):
    """A packed text is not unpacked further than that."""
    monkeypatch.setattr(texts, "MOST_CHARACTERS", 1000)
    (tmp_path / "r.csv").write_text("t,a\n" + "0,1\n" * 250)
    with gzip.open(tmp_path / "r.csv.gz", "wt") as file:
        file.write("t,a\n" + "0,1\n" * 250_000)
    for name in ("r.csv", "r.csv.gz"):
        with pytest.raises(DescriptionError, match=f"{name}: expected a table of numbers; found: more than 1,000 char"):
            read_recording(tmp_path / name)


def test_columns(tmp_path):
    for names, expected in (
        (["t", *(f"c{k}" for k in range(20_000))], "expected at most 10,000 columns; found 20,001"),
        (["t", "x" * 100_000], "expected names of columns of at most 1,000 characters; found one of 100,000"),
    ):
        row = ",".join(["0"] * len(names))
        (tmp_path / "r.csv").write_text(f"{','.join(names)}\n{row}\n")
        for read in (read_recording, lambda path: read_table(path, ["a"], "a path")):
            begun = time.perf_counter()
            with pytest.raises(DescriptionError, match=f"r.csv: {expected}"):
                read(tmp_path / "r.csv")
            assert time.perf_counter() - begun < 5.0


@pytest.mark.parametrize("end", ("npz", "nc", "parquet"))
def test_packed_numbers(tmp_path, monkeypatch, end):
    """Zeros take no room in a file; how many there are is known before they are unpacked."""
    monkeypatch.setattr(table, "MOST_NUMBERS", 50_000)
    path, columns = tmp_path / f"r.{end}", {"t": np.arange(100_000.0), "a": np.zeros(100_000)}
    if end == "npz":
        np.savez_compressed(path, **columns)
    elif end == "nc":
        xr.Dataset({name: ("k", values) for name, values in columns.items()}).to_netcdf(path, engine="h5netcdf")
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pytest.importorskip("pyarrow").table(columns), path)
    with pytest.raises(DescriptionError, match=rf"r.{end}: expected at most 50,000 numbers; found 200,0\d\d"):
        read_recording(path)
