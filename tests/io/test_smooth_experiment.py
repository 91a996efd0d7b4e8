"""Experiment files of state estimation: what they mean, and every fault with its place."""

import numpy as np
import pytest

from fgmbs.errors import DescriptionError
from fgmbs.io.experiments.experiment import parse_experiment, read_experiment
from fgmbs.io.experiments.smooth_experiment import SmoothExperiment
from fgmbs.io.planar.load import load
from fgmbs.io.recordings import read_recordings
from fgmbs.io.sensor_files import build_sensors

LEAST = "mechanism: a.yaml\nrecording: b.csv\nsensors: c.yaml\n"


def faults_of(text):
    with pytest.raises(DescriptionError) as caught:
        parse_experiment(text, source="run.yaml")
    return [fault.removeprefix("run.yaml:") for fault in caught.value.faults]


def experiment_in(folder, recording, sensors="c.yaml"):
    (folder / "run.yaml").write_text(f"mechanism: a.yaml\nsensors: {sensors}\nrecording: {recording}\n")
    return read_experiment(folder / "run.yaml")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.csv").write_text("t [ms],angle [deg]\n0,0\n10,90\n20,180\n")
    (tmp_path / "b.csv").write_text("t,speed\n0,1\n0.01,2\n")
    return tmp_path


def test_a_recording_makes_it_an_estimate():
    experiment = parse_experiment(LEAST)
    assert isinstance(experiment, SmoothExperiment)
    assert (experiment.mechanism, experiment.recording, experiment.sensors) == ("a.yaml", "b.csv", "c.yaml")
    assert experiment.starts("start") is None and experiment.window is None


def test_paths_are_relative_to_the_file(tmp_path):
    recordings = "[b.csv, {file: d.csv, offset: 1}, {files: [e.csv, {file: f.csv}]}]"
    (tmp_path / "run.yaml").write_text(f"mechanism: ../a.yaml\nsensors: c.yaml\nrecording: {recordings}\nout: g")
    experiment = read_experiment(tmp_path / "run.yaml")
    assert (experiment.mechanism, experiment.sensors) == (str(tmp_path / ".." / "a.yaml"), str(tmp_path / "c.yaml"))
    files = [[file.file for _, file in part.files] for part in experiment.parts()]
    assert files == [[str(tmp_path / f"{name}.csv") for name in names] for names in ("b", "d", "ef")]
    assert experiment.out == "g"


def test_files_of_a_recording_are_read_and_merged(folder):
    entry = "{files: [{file: a.csv, columns: {q: angle}, offset: 0.5}, {file: b.csv, units: {speed: rpm}}]}"
    (recording,) = read_recordings(experiment_in(folder, entry))
    np.testing.assert_allclose(recording["q"].t, [0.5, 0.51, 0.52])
    np.testing.assert_allclose(recording["q"].values, [0, np.pi / 2, np.pi])
    np.testing.assert_allclose(recording["speed"].values, np.array([1, 2]) * np.pi / 30)


def test_recordings_may_have_starts_of_their_own(folder):
    experiment = experiment_in(folder, "[{file: a.csv, start: {x: 1}}, {file: b.csv, start: {x: 2e0}}]")
    assert experiment.starts("start") == [{"x": 1.0}, {"x": 2.0}] and experiment.starts("start_velocities") is None
    assert [list(recording) for recording in read_recordings(experiment)] == [["angle"], ["speed"]]


def test_recordings_may_have_numbers_of_the_mechanism_of_their_own(folder):
    entry = "[a.csv, {file: b.csv, numbers: {rod.mass: 1.5}}, {files: [a.csv, b.csv], numbers: {rod.mass: 2}}]"
    read = read_recordings(experiment_in(folder, entry))
    assert [dict(recording.numbers) for recording in read] == [{}, {"rod.mass": 1.5}, {"rod.mass": 2.0}]


@pytest.mark.parametrize(
    "entry, fault",
    [
        ("{file: b.csv, columns: {v: sped}}", "3:39: recording.columns.v: expected a column of"),
        ("{file: b.csv, units: {speed: mph}}", "3:41: recording.units.speed: expected a unit; found 'mph'"),
        ("{file: b.csv, time: time}", "3:32: recording.time: expected a column of"),
        ("{file: b.csv, rate: 100}", "3:32: recording.rate: expected None, since"),
        ("{file: b.xls}", "3:19: recording.file: expected a file .csv"),
        (
            "{files: [b.csv, b.csv]}",
            "3:20: recording.files: expected signals of different names; found 'speed' in both",
        ),
        ("[a.csv, {file: b.csv, time_unit: m}]", "3:45: recording[1].time_unit: expected a unit; found 'm'"),
    ],
)
def test_what_a_file_lacks_is_told_at_the_key_of_the_experiment(folder, entry, fault):
    (folder / "b.xls").write_text("")
    experiment = experiment_in(folder, entry)
    with pytest.raises(DescriptionError) as caught:
        read_recordings(experiment)
    assert str(caught.value).startswith(f"{folder / 'run.yaml'}:{fault}")


def test_sensors_may_stand_in_the_experiment(configs):
    text = "mechanism: a\nrecording: b\nsensors:\n- {type: gyroscope, name: g, body: rod, sigma: 1e-2}\n"
    experiment = parse_experiment(text + "inputs: [{type: random_walk, on: x_tip}]", source="run.yaml")
    (file,) = experiment.sensor_files()
    (gyro,), (force,) = build_sensors(file, load(configs / "mechanisms" / "pendulum.yaml"))
    assert (gyro.name, gyro.body, float(gyro.sigma), force.on) == ("g", "rod", 0.01, "x_tip")


def test_inputs_stand_beside_a_file_of_sensors(configs):
    path = configs / "experiments" / "fourbar_sensors.yaml"
    experiment = parse_experiment(
        f"mechanism: a\nrecording: b\nsensors: {path}\ninputs: [{{type: random_walk, on: x}}]"
    )
    described = [build_sensors(file) for file in experiment.sensor_files()]
    assert [[sensor.name for sensor in sensors] for sensors, _ in described] == [["gyro", "crank"], []]
    assert [[force.name for force in forces] for _, forces in described] == [["disturbance"], ["x"]]


def test_sensors_that_the_mechanism_has_no_place_for_are_reported_with_their_line(configs):
    text = (
        "mechanism: a\nrecording: b\nsensors:\n- {type: gyroscope, name: g, body: rot, sigma: 1}\n"
        "- {type: position, name: p, point: tip, sigma: -1}\ninputs: [{type: random_walk, on: z}]"
    )
    (file,) = parse_experiment(text, source="run.yaml").sensor_files()
    with pytest.raises(DescriptionError) as caught:
        build_sensors(file, load(configs / "mechanisms" / "pendulum.yaml"))
    body, sigma, on = caught.value.faults
    assert body.startswith("run.yaml:4:36: sensors[0].body: there is no body 'rot'; did you mean 'rod'?")
    assert sigma.startswith("run.yaml:5:48: sensors[1].sigma: expected positive numbers")
    assert on.startswith("run.yaml:6:34: inputs[0].on: there is no actuator or coordinate 'z'")


def test_all_faults_are_reported_at_once_in_the_order_of_the_file():
    text = (
        "recording: {file: 3, colums: [a], columns: 5}\nsensors: [{type: gyro}, {type: gyroscope, name: g, sigma: x}]\n"
        "weights: aut\nwindow: 1\nstart: 3\nstart_sigma: [1]\nindependent: q\nplot: 1\ninputs: 4\ntruth: 2\ndt: fast\n"
    )
    keys = ", ".join(SmoothExperiment.model_fields)
    recording = "file, columns, time, time_unit, rate, units, offset, start, start_velocities, numbers"
    types = "encoder, gyroscope, accelerometer, position, distance, velocity, torque, load_cell, camera, force_torque"
    assert faults_of(text) == [
        "1:1: mechanism: expected the path of a mechanism file; found no key 'mechanism'",
        "1:19: recording.file: expected a path; found 3",
        f"1:22: recording.colums: expected no key 'colums' here; did you mean 'columns'? known keys: {recording}",
        "1:44: recording.columns: expected a mapping from signals to columns, or a list of columns; found 5",
        f"2:18: sensors[0].type: expected a type; found 'gyro'; did you mean 'gyroscope'? known types: {types}",
        "2:25: sensors[1].body: expected a value; found no key 'body'",
        "2:59: sensors[1].sigma: expected a number or a list of them; found 'x', where 'x' is unknown; there are no "
        "names here",
        f"3:1: weights: expected no key 'weights' here; known keys: {keys}",
        "4:9: window: expected an integer of at least 2 time steps; found 1",
        "5:8: start: expected a mapping from coordinate names to numbers; found 3",
        "6:14: start_sigma: expected two numbers; found a list of 1",
        "7:14: independent: expected a list of names; found 'q'",
        f"8:1: plot: expected no key 'plot' here; did you mean 'plots'? known keys: {keys}",
        "9:9: inputs: expected a list of inputs; found 4",
        "10:8: truth: expected a text; found 2",
        "11:5: dt: expected a number; found 'fast'",
    ]


@pytest.mark.parametrize(
    "text, fault",
    [
        (
            "recording: 3",
            "1:12: recording: expected a path, a mapping with a file or files, or a list of them; found 3",
        ),
        (
            "recording: []",
            "1:12: recording: expected a path, a mapping with a file or files, or a list of them; found a",
        ),
        ("recording: {start: {x: 1}}", "1:12: recording.file: expected a path; found no key 'file'"),
        ("recording: [a, {files: []}]", "1:24: recording[1].files: expected a list of files; found a list of 0"),
        ("recording: {files: [a, {fle: b}]}", "1:24: recording.files[1].file: expected a path; found no key 'file'"),
        ("recording: [a, {file: b, start: {x: 1}}]", "1:13: recording[0]: expected a key 'start', which other"),
        ("recording: {file: a, numbers: {x: b}}", "1:35: recording.numbers.x: expected a number; found 'b'"),
        ("recording: {file: a, numbers: 3}", "1:31: recording.numbers: expected a mapping from parameters to numbers"),
        ("recording: {file: a, number: {}}", "1:22: recording.number: expected no key 'number' here; did you mean 'nu"),
        ("recording: [a, b]\ntruth: c", "2:8: truth: expected one recording to compare with a known motion; found"),
        ("recording: a\ndt: -1", "2:5: dt: expected a positive time step in seconds; found -1"),
        ("recording: a\nstart_sigma: [1, 0]", "2:18: start_sigma[1]: expected a positive number; found 0"),
        ("recording: a\nmethod: magic", "2:9: method: expected 'smoother' or 'prediction'; found 'magic'"),
        ("recording: a\nhorizon: -1", "2:10: horizon: expected a positive time in seconds; found -1"),
        ("recording: a\nmethod: prediction\nhorizon: 0", "3:10: horizon: expected a positive time in seconds; found 0"),
        ("recording: a\nhorizon: .inf\nplot: 1", "2:10: horizon: expected a positive time in seconds; found inf"),
        ("recording: a\nhorizon: 1", "2:10: horizon: expected none with the method 'smoother', which has no free runs"),
        ("recording: a\nhorizon: 1\nplot: 1", "2:10: horizon: expected none with the method 'smoother'"),
    ],
)
def test_a_fault_has_its_place_what_is_expected_and_what_was_found(text, fault):
    found = faults_of(f"{text}\nmechanism: a\nsensors: b")
    assert any(line.startswith(fault) for line in found), found


@pytest.mark.parametrize("sensors", ["4", "[]"])
def test_sensors_are_a_file_or_a_list(sensors):
    (fault,) = faults_of(f"mechanism: a\nrecording: b\nsensors: {sensors}")
    assert fault.startswith("3:10: sensors: expected the path of a file of sensors, or a list of sensors; found ")


def test_a_missing_file_of_sensors_is_reported():
    with pytest.raises(DescriptionError, match="c.yaml: expected a file of sensors; found: No such file"):
        parse_experiment(LEAST).sensor_files()


def test_the_command_line_replaces_settings_and_the_file_of_one_recording():
    experiment = parse_experiment(LEAST.replace("b.csv", "{file: b.csv, units: {x: deg}}"))
    options = experiment.options().model_copy(update={"dt": 0.5, "mechanism": "d.yaml", "recording": "e.csv"})
    replaced = experiment.replaced(options)
    assert (replaced.dt, replaced.mechanism, replaced.sensors) == (0.5, "d.yaml", "c.yaml")
    assert (replaced.recording.file, replaced.recording.units) == ("e.csv", {"x": "deg"})
    several = parse_experiment(LEAST.replace("b.csv", "[b.csv, f.csv]"), source="run.yaml")
    with pytest.raises(DescriptionError, match="run.yaml:2:12: recording: expected a single file, for --recording"):
        several.replaced(options)


def test_parameters_are_numbers_or_unknown_ones():
    text = f"{LEAST}parameters: {{L: 1/2, k: {{}}, m: {{value: 3, sigma: 0.1, lower: 1, upper: 2*pi, log: true}}}}"
    L, k, m = parse_experiment(text).parameters.values()
    assert L == 0.5
    assert (k.value, k.sigma, k.lower, k.upper, k.log) == (None, None, None, None, False)
    assert (m.value, m.sigma, m.lower, m.upper, m.log) == (3, 0.1, 1, 2 * np.pi, True)
    given = "parameters: {L: long, k: {valu: 1}, m: {log: 1, sigma: [1, x]}}"
    assert faults_of(f"{LEAST}{given}\ndt: fast") == [
        "4:17: parameters.L: expected a number; found 'long'",
        "4:27: parameters.k.valu: expected no key 'valu' here; did you mean 'value'? "
        "known keys: value, sigma, lower, upper, log, own",
        "4:46: parameters.m.log: expected true or false; found 1",
        "4:60: parameters.m.sigma[1]: expected a number; found 'x'",
        "5:5: dt: expected a number; found 'fast'",
    ]
    assert faults_of(f"{LEAST}parameters: 3") == [
        "4:13: parameters: expected a mapping from parameters to numbers, or to mappings of "
        "(value, sigma, lower, upper, log, own); found 3"
    ]
