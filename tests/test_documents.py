"""What the documents say is true: the Python in them runs, the example of the file format loads."""

import re
from pathlib import Path
from typing import get_args

import pytest

from fgmbs.io.experiments.experiment import Experiment, InverseExperiment, parse_experiment
from fgmbs.io.experiments.smooth_experiment import FileDescription, SeveralFiles, SmoothExperiment
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.io.sensor_files import build_sensors
from fgmbs.io.sensors import (
    InputDescription,
    LossDescription,
    SensorDescription,
    SensorsDescription,
    UnknownDescription,
)
from fgmbs.mechanisms.planar.description import MechanismDescription

ROOT = Path(__file__).parents[1]


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


BEFORE = {
    "docs/state_estimation.md": """
import fgmbs
mechanism = fgmbs.load("configs/mechanisms/fourbar.yaml")
recording = fgmbs.read_recording("configs/experiments/fourbar_recording.csv")
sensors, inputs = fgmbs.read_sensors("configs/experiments/fourbar_sensors.yaml")
""",
    "docs/identification.md": """
import fgmbs, jax, jax.numpy as jnp
mechanism, start = fgmbs.load("configs/mechanisms/pendulum.yaml"), {"y_tip": -0.7}
sensors = [fgmbs.sensors.Position("camera", point="tip", sigma=1e-3)]
inputs, free = [fgmbs.inputs.Disturbance(1e-6)], ["gravity.y"]
motion = fgmbs.simulate(mechanism, 1.0, 0.02, start=start)
recordings = [fgmbs.readings(mechanism, motion, sensors, seed=seed) for seed in range(2)]
""",
}
"""What a document takes as given: the mechanism, recordings, sensors and inputs of the reader."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "document", ["README.md", "docs/mechanism_classes.md", "docs/mechanism_files.md", "docs/robots.md", *BEFORE]
)
def test_python_prints_what_it_says(document, tmp_path, monkeypatch, capsys):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(ROOT / document, "python"))
    names = {"__name__": "__main__"}
    exec(BEFORE.get(document, ""), names)
    exec(compile(code, document, "exec"), names)
    said = capsys.readouterr().out.splitlines()
    assert said == re.findall(r"^print.*  # (.*)$", code, re.MULTILINE)
    assert document != "README.md" or (tmp_path / "fourbar.nc").stat().st_size > 0


def test_every_path_in_the_readme_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:experiments|configs|notebooks|docs)/[\w/.]*)", text):
        assert (ROOT / path).exists(), path


def test_the_format_reference_names_every_key():
    path = ROOT / "docs" / "mechanism_files.md"
    text = path.read_text(encoding="utf-8")
    for key in MechanismDescription.model_fields:
        assert f"`{key}`" in text, key
    (example,) = blocks(path, "yaml")
    assert parse_mechanism(example).coordinate_names == ("x_P", "y_P", "theta")


def test_the_reference_of_state_estimation_names_every_key():
    path = ROOT / "docs" / "state_estimation.md"
    text = path.read_text(encoding="utf-8")
    entries = [*get_args(SensorDescription), *get_args(InputDescription)]
    for model in (SmoothExperiment, FileDescription, SeveralFiles, LossDescription, UnknownDescription, *entries):
        for key, field in model.model_fields.items():
            assert f"`{key}`" in text or f"{key}:" in text, f"{model.__name__}: {key}"
            if key == "type":
                for kind in get_args(field.annotation):
                    assert f"`{kind}`" in text or f"type: {kind}" in text, kind
    example, numbers = blocks(path, "yaml")
    assert tuple(parse_experiment(f"{example}\n{numbers}").parameters) == ("L_crank", "coupler.mass")
    (file,) = parse_experiment(example).sensor_files()
    (gyro, crank), (force,) = build_sensors(file, load(ROOT / "configs" / "mechanisms" / "fourbar.yaml"))
    assert (gyro.name, crank.name, force.name) == ("gyro", "crank", "disturbance")


def test_shipped_experiments_use_known_keys_only():
    told_by = {"sensors": SensorsDescription, "trajectory": InverseExperiment, "recording": SmoothExperiment}
    for path in (ROOT / "configs" / "experiments").glob("*.yaml"):
        keys = re.findall(r"^(\w+):", path.read_text(encoding="utf-8"), re.MULTILINE)
        model = [Experiment, *(model for key, model in told_by.items() if key in keys)][-1]
        assert set(keys) <= set(model.model_fields)
