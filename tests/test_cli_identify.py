"""The command `fgmbs identify`."""

import re

import pytest

import fgmbs
from fgmbs.cli import main


@pytest.fixture
def experiment(configs):
    """Text of the shipped identification, its files by their whole paths."""
    text = (configs / "experiments" / "fourbar_identify.yaml").read_text()
    text = text.replace("../mechanisms/", f"{configs / 'mechanisms'}/")
    return text.replace("fourbar_identify_recording.csv,", f"{configs / 'experiments'}/fourbar_identify_recording.csv,")


def written(folder, text, free=None):
    """A file of this text, with other free numbers if they are given."""
    path = folder / "identify.yaml"
    if free is not None:
        head, _, rest = text.partition("\nfree:\n")
        lines = rest.splitlines(keepends=True)
        behind = "".join(line for line in lines if not line.startswith("  "))
        text = f"{head}\nfree: {free}\n{behind}"
    path.write_text(text)
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


@pytest.mark.slow
def test_the_shipped_identification_of_a_robot(configs, tmp_path, capsys):
    """What was found comes back with the robot."""
    out = tmp_path / "out"
    assert main(["identify", str(configs / "experiments" / "scara_identify.yaml"), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "converged" in text and "6 of 6 combinations" in text
    found = fgmbs.load(out / "identified.yaml").physical_parameters()
    truth = {"flange.mass": 1.05, "shoulder.damping": 1.4, "shoulder.friction": 1.3, "quill.friction": 6.0}
    truth |= {"elbow.damping": 0.5, "elbow.friction": 0.8}
    for name, true in truth.items():
        line = next(line for line in text.splitlines() if line.strip().startswith(name))
        value, std = map(float, line.split()[1:3])
        assert abs(value - true) < 4 * std < 0.1
        assert float(found[name]) == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(
    "free, text",
    [
        ("{}", "free: expected names of the parameters to find; found none"),
        ("{coupler.mas: true}", r"identify.yaml:\d+:\d+: free.'?coupler.mas'?: there is no number 'coupler.mas'"),
        ("{coupler.mass: [3, 5]}", r"free.*coupler.mass.*: value: expected a number from 3 to 5"),
        ("{coupler.mass: {sigma: -1}}", r"free.*coupler.mass.*: expected positive numbers; found -1"),
        ("{coupler.mass: much}", r"free.*coupler.mass.*much"),
    ],
)
def test_faults(experiment, tmp_path, capsys, free, text):
    assert main(["identify", written(tmp_path, experiment, free), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert re.search(text, error), error


def test_an_experiment_without_a_recording(configs, capsys):
    assert main(["identify", str(configs / "experiments" / "fourbar_forward.yaml")]) == 2
    assert "expected an experiment with a recording" in capsys.readouterr().err


@pytest.mark.slow
def test_keys_that_identification_does_not_use_are_told(experiment, tmp_path, capsys):
    text = experiment.replace("\nout:", "\nwindow: 20\nindependent: [theta]\nplots: false\nout:")
    assert main(["identify", written(tmp_path, text), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "window: not used, as parameters are found from all steps at once" in said
    assert "independent: not used" in said and "truth: not used" not in said
