"""Experiment files and tables of known motions: what they mean, and every fault with its place."""

from pathlib import Path

import numpy as np
import pytest

from fgmbs.errors import DescriptionError
from fgmbs.io.experiments.experiment import (
    Experiment,
    InverseExperiment,
    Settings,
    limits,
    parse_experiment,
    read_experiment,
)
from fgmbs.io.experiments.smooth_experiment import SmoothExperiment
from fgmbs.io.experiments.truth import read_truth


def faults_of(text):
    with pytest.raises(DescriptionError) as caught:
        parse_experiment(text, source="run.yaml")
    return caught.value.faults


def test_every_shipped_experiment_can_be_meant(configs):
    paths = sorted(path for path in (configs / "experiments").glob("*.yaml") if "_sensors" not in path.name)
    assert len(paths) >= 4
    for path in paths:
        experiment = read_experiment(path)
        assert Path(experiment.mechanism).is_file()
        assert isinstance(experiment, InverseExperiment) == ("inverse" in path.name)
        assert isinstance(experiment, SmoothExperiment) == ("smooth" in path.name or "identify" in path.name)
        if isinstance(experiment, InverseExperiment):
            assert Path(experiment.trajectory).is_file()


def test_defaults_are_those_of_simulate():
    assert parse_experiment("mechanism: a.yaml") == Experiment(
        mechanism="a.yaml", duration=5.0, dt=1e-3, coordinates="chart", integrator="hermite_simpson", window=None
    )


def test_numbers_are_numbers_however_they_are_written():
    assert parse_experiment("mechanism: a\ndt: 1e-3\nduration: 2\nstart: {theta: 3e-1}").start == {"theta": 0.3}


def test_paths_are_relative_to_the_file(tmp_path):
    (tmp_path / "run.yaml").write_text("mechanism: ../a.yaml\ntruth: b.csv\nout: c")
    experiment = read_experiment(tmp_path / "run.yaml")
    assert experiment.mechanism == str(tmp_path / ".." / "a.yaml")
    assert experiment.truth == str(tmp_path / "b.csv")
    assert experiment.out == "c"


def test_a_trajectory_makes_it_inverse_dynamics(tmp_path):
    text = "mechanism: a.yaml\ntrajectory: b.csv\ncolumns: [t, theta]\neffort: {motor: 2}\ncovariance: true\n"
    assert parse_experiment(text) == InverseExperiment(
        mechanism="a.yaml", trajectory="b.csv", columns=("t", "theta"), effort={"motor": 2.0}, covariance=True
    )
    (tmp_path / "run.yaml").write_text(text)
    experiment = read_experiment(tmp_path / "run.yaml")
    assert (experiment.mechanism, experiment.trajectory) == (str(tmp_path / "a.yaml"), str(tmp_path / "b.csv"))


def test_all_faults_of_inverse_dynamics_are_reported_at_once():
    keys = ", ".join(InverseExperiment.model_fields)
    assert faults_of("trajectory: 3\ncolumns: theta\ndt: 1e-3\neffort: 2\nsigma: {theta: x}\ncovariance: 1\n") == [
        "run.yaml:1:1: mechanism: expected the path of a mechanism file; found no key 'mechanism'",
        "run.yaml:1:13: trajectory: expected a text; found 3",
        "run.yaml:2:10: columns: expected a list of names; found 'theta'",
        f"run.yaml:3:1: dt: expected no key 'dt' here; known keys: {keys}",
        "run.yaml:4:9: effort: expected a mapping from actuator names to numbers; found 2",
        "run.yaml:5:16: sigma.theta: expected a number; found 'x'",
        "run.yaml:6:13: covariance: expected true or false; found 1",
    ]
    assert (
        "run.yaml:1:1: trajectry: expected no key 'trajectry' here; did you mean 'trajectory'?"
        in faults_of("trajectry: a.csv\nmechanism: b")[0]
    )


def test_all_faults_are_reported_at_once_in_the_order_of_the_file():
    assert faults_of(
        "dt: heavy\nwindow: 1\ncoordinates: dependend\nwindw: 3\nplots: 1\nstart: {theta: x}\nindependent: q\n"
    ) == [
        "run.yaml:1:1: mechanism: expected the path of a mechanism file; found no key 'mechanism'",
        "run.yaml:1:5: dt: expected a number; found 'heavy'",
        "run.yaml:2:9: window: expected an integer of at least 2 time steps; found 1",
        "run.yaml:3:14: coordinates: expected 'chart', 'dependent' or 'independent'; found 'dependend'",
        f"run.yaml:4:1: windw: expected no key 'windw' here; did you mean 'window'? known keys: {KEYS}",
        "run.yaml:5:8: plots: expected true or false; found 1",
        "run.yaml:6:16: start.theta: expected a number; found 'x'",
        "run.yaml:7:14: independent: expected a list of names; found 'q'",
    ]


KEYS = ", ".join([*Experiment.model_fields, "trajectory", "recording"])


@pytest.mark.parametrize(
    "text, fault",
    [
        ("dt: -1", "1:5: dt: expected a positive time step in seconds; found -1"),
        ("dt: .nan", "1:5: dt: expected a positive time step in seconds; found nan"),
        ("duration: 1e-4", "1:11: duration: expected at least one time step, dt = 0.001 s; found 0.0001 s"),
        ("duration: .inf", "1:11: duration: expected at least one time step, dt = 0.001 s; found inf s"),
        ("duration: 1\ndt: 0.3", "1:11: duration: expected a multiple of dt = 0.3 s; found 1 s; 0.9 s would do"),
        ("window: 2.5", "1:9: window: expected an integer; found 2.5"),
        ("linear: qr", "1:9: linear: expected 'sequential' or 'sqrt'; found 'qr'"),
        ("batch: 2\nbatch: 3", "2:1: batch: expected each key once; found 'batch' again, first in line 1"),
        ("start: [1]", "1:8: start: expected a mapping from coordinate names to numbers; found a list of 1"),
        ("out: 3", "1:6: out: expected a text; found 3"),
        ("robot: {floating: 1}", "1:19: robot.floating: expected true or false; found 1"),
        ("robot: {locked: [a]}", "1:17: robot.locked: expected a mapping from joint names to numbers; found a list"),
        ("robot: {locked: {a: b}}", "1:21: robot.locked.a: expected a number; found 'b'"),
        ("robot: {separate: a}", "1:19: robot.separate: expected a list of names; found 'a'"),
        (
            "robot: {lockd: {}}",
            "1:9: robot.lockd: expected no key 'lockd' here; did you mean 'locked'? known keys: floating, locked, "
            "separate, model",
        ),
        ("dt: yes", "1:5: dt: expected a number; found the truth value true"),
    ],
)
def test_a_fault_has_its_place_what_is_expected_and_what_was_found(text, fault):
    faults = faults_of(f"{text}\nmechanism: a.yaml")
    assert any(line.startswith(f"run.yaml:{fault}") for line in faults), faults


@pytest.mark.parametrize("kind", ("", "trajectory: b.csv", "recording: b.csv\nsensors: c.yaml"))
def test_how_a_robot_is_read_is_said_in_every_experiment(kind):
    text = f"mechanism: a.urdf\n{kind}\nrobot: {{floating: true, locked: {{j: 1e-1}}, separate: [flange]}}"
    expected = dict(floating=True, locked={"j": 0.1}, separate=("flange",), model=None)
    assert parse_experiment(text).robot.options == expected
    assert parse_experiment(f"mechanism: a.urdf\n{kind}").robot.options["locked"] is None
    (fault,) = faults_of(text.replace("floating", "floats"))
    assert "robot.floats: expected no key 'floats' here" in fault and "known keys: floating, locked" in fault


def test_a_file_that_is_no_mapping_is_reported(tmp_path):
    assert faults_of("- 1") == ["run.yaml:1:1: expected a mapping of (mechanism, duration, …); found a list of 1"]
    assert "expected YAML; found an error" in faults_of("[1")[0]
    with pytest.raises(DescriptionError, match="none.yaml: expected an experiment file; found: No such file"):
        read_experiment(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DescriptionError, match="bytes.yaml: expected text in UTF-8; found byte 0xff"):
        read_experiment(tmp_path / "bytes.yaml")


def test_limits_of_good_settings_are_empty():
    assert limits(Settings()) == []


TRUTH = "# a comment\nt,x1,d_x1\n0,1.5,0\n0.1,1.6,1\n"


def test_a_table_of_a_known_motion_is_read_by_column(tmp_path):
    (tmp_path / "a.csv").write_text(TRUTH)
    truth = read_truth(tmp_path / "a.csv", ("x1", "y1"))
    assert set(truth) == {"t", "x1", "d_x1"}
    np.testing.assert_array_equal(truth["x1"], [1.5, 1.6])


@pytest.mark.parametrize(
    "text, fault",
    [
        (TRUTH.replace("d_x1", "v_x1"), "a.csv:2: expected names of columns; found 'v_x1'; did you mean"),
        (TRUTH.replace("t,", "y1,"), "a.csv:2: expected a column 't', the time .s.; found none"),
        (TRUTH.replace("1.5", "1.5.5"), "a.csv:3: expected a number; found '1.5.5'"),
        (TRUTH.replace("1.5", "nan"), "a.csv:3: expected a finite number; found nan"),
        (TRUTH.replace("1.5", "1.5,2"), "a.csv:3: expected 3 columns; found 4"),
        ("t,x1", "a.csv: expected at least 1 row of numbers; found 0"),
        ("", "a.csv: expected a table of a known motion; found nothing"),
    ],
)
def test_a_table_that_is_invalid_is_reported(tmp_path, text, fault):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DescriptionError, match=fault):
        read_truth(tmp_path / "a.csv", ("x1", "y1"))
