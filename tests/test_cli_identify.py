"""The command `fgmbs identify`."""

import re

import pytest
import yaml

import fgmbs
from fgmbs.cli import main


@pytest.fixture
def experiment(configs):
    """The shipped identification as a mapping, its files by their whole paths."""
    said = yaml.safe_load((configs / "experiments" / "fourbar_identify.yaml").read_text())
    said["mechanism"] = str(configs / "mechanisms" / "fourbar_crank_angle.yaml")
    said["recording"]["file"] = str(configs / "experiments" / "fourbar_identify_recording.csv")
    return said


def written(folder, said):
    path = folder / "identify.yaml"
    path.write_text(yaml.safe_dump(said, sort_keys=False))
    return str(path)


@pytest.mark.slow
def test_the_shipped_identification(experiment, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["identify", written(tmp_path, experiment), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "converged" in text and "4 of 4 combinations" in text
    found = fgmbs.load(out / "identified.yaml").physical_parameters()
    for name, true in {"crank.mass": 1.4, "coupler.mass": 2.5, "rocker.mass": 3.0}.items():
        line = next(line for line in text.splitlines() if line.strip().startswith(name))
        value, std = map(float, line.split()[1:3])
        assert abs(value - true) < 4 * std < 0.1
        assert float(found[name]) == pytest.approx(value, rel=1e-4)
    page = (out / "report.html").read_text()
    assert "<h2>Parameters</h2>" in page and "data:image/png;base64" in page


@pytest.mark.parametrize(
    "free, text",
    [
        ({}, "free: expected names of the parameters to find; found none"),
        ({"coupler.mas": True}, r"identify.yaml:\d+:\d+: free.coupler.mas: there is no number 'coupler.mas'"),
        ({"coupler.mass": [3.0, 5.0]}, r"free.coupler.mass: value: expected a number from 3 to 5"),
        ({"coupler.mass": {"sigma": -1.0}}, r"free.coupler.mass: .*sigma"),
    ],
)
def test_faults(experiment, tmp_path, capsys, free, text):
    experiment["free"] = free
    assert main(["identify", written(tmp_path, experiment), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert re.search(text, error), error


def test_an_experiment_without_a_recording(configs, capsys):
    assert main(["identify", str(configs / "experiments" / "fourbar_forward.yaml")]) == 2
    assert "expected an experiment with a recording" in capsys.readouterr().err
