"""Files of sensors and inputs: what they build, and all their faults, each with its place."""

import jax
import numpy as np
import pytest

from fgmbs import inputs, sensors
from fgmbs.errors import DescriptionError
from fgmbs.io.sensor_files import read_sensors
from fgmbs.losses import Cauchy, Huber
from fgmbs.unknowns import Unknown

EVERYTHING = """
sensors:
  - {type: encoder, name: crank, of: theta, sigma: deg2rad(0.05), resolution: 2*pi/4096, bias: {sigma: 0.5}}
  - {type: encoder, name: joint, body: a, relative_to: b, incremental: true, sigma: 1}
  - {type: gyroscope, name: gyro, body: rod, sigma: 1e-2, bias: {value: 0.1, sigma: 0.2}, loss: {type: huber}}
  - {type: accelerometer, name: imu, body: rod, at: [0.1, 1/4], sigma: [0.1, 0.2], columns: [ax, ay], misalignment: 0.1}
  - {type: position, name: camera, point: P2, axes: [x, -y], unit: px, gain: {value: 500, sigma: 10}, sigma: 1}
  - {type: distance, name: wire, between: [A, B], sigma: 0.1, bias: [3], loss: {type: cauchy, threshold: 3}}
  - {type: velocity, name: tacho, of: x_P, unit: m/s, sigma: 0.1, columns: v, delay: 0.1}
  - {type: torque, name: current, of: motor, unit: A, gain: 0.5, sigma: 0.1}
  - {type: load_cell, name: cell, pin: rod@P, frame: body, axes: [-y], sigma: 0.1}
  - {type: camera, name: eye, body: hand, at: [0, 0, 1], position: [1, 2, 3], rotation: {value: [0, 0, 1], sigma: 0.1},
     on: base, distortion: [0.1, -0.02], gain: 800, sigma: 1}
  - {type: force_torque, name: wrist, joint: j6, frame: flange, force: [z, -x], torque: [], sigma: 0.1}
inputs:
  - {type: disturbance, power: 0.1, time_constant: 0.5}
  - {type: white_noise, on: theta, density: 0.2}
  - {type: random_walk, on: motor, rate: 3, sigma0: 4, name: load}
  - {type: gauss_markov, on: motor, time_constant: 2}
  - {type: command, on: motor, column: i, gain: 0.05, hold: linear, delay: 1e-3}
"""
BUILT = (
    (
        sensors.Encoder("crank", of="theta", sigma=np.deg2rad(0.05), resolution=np.pi / 2048, bias=Unknown(sigma=0.5)),
        sensors.Encoder("joint", body="a", relative_to="b", incremental=True, sigma=1),
        sensors.Gyroscope("gyro", body="rod", sigma=0.01, bias=Unknown(0.1, sigma=0.2), loss=Huber()),
        sensors.Accelerometer(
            "imu", body="rod", at=(0.1, 0.25), sigma=(0.1, 0.2), columns=("ax", "ay"), misalignment=0.1
        ),
        sensors.Position("camera", point="P2", axes=("x", "-y"), unit="px", gain=Unknown(500, sigma=10), sigma=1),
        sensors.Distance("wire", between=("A", "B"), sigma=0.1, bias=(3,), loss=Cauchy(3.0)),
        sensors.Velocity("tacho", of="x_P", unit="m/s", sigma=0.1, columns="v", delay=0.1),
        sensors.Torque("current", of="motor", unit="A", gain=0.5, sigma=0.1),
        sensors.LoadCell("cell", pin="rod@P", frame="body", axes=("-y",), sigma=0.1),
        sensors.Camera(
            "eye",
            body="hand",
            at=(0, 0, 1),
            position=(1, 2, 3),
            rotation=Unknown((0, 0, 1), sigma=0.1),
            on="base",
            distortion=(0.1, -0.02),
            gain=800,
            sigma=1,
        ),
        sensors.ForceTorque("wrist", joint="j6", frame="flange", force=("z", "-x"), torque=(), sigma=0.1),
    ),
    (
        inputs.Disturbance(0.1, time_constant=0.5),
        inputs.WhiteNoise("theta", 0.2),
        inputs.RandomWalk("motor", 3, sigma0=4, name="load"),
        inputs.GaussMarkov("motor", time_constant=2),
        inputs.Command("motor", "i", gain=0.05, hold="linear", delay=1e-3),
    ),
)


def read(tmp_path, text):
    path = tmp_path / "sensors.yaml"
    path.write_text(text)
    return read_sensors(path)


def faults(tmp_path, text):
    with pytest.raises(DescriptionError) as error:
        read(tmp_path, text)
    return [fault.removeprefix(f"{tmp_path}/sensors.yaml:") for fault in error.value.faults]


def test_a_file_builds_what_the_classes_build(tmp_path):
    built = read(tmp_path, EVERYTHING)
    assert jax.tree.structure(built) == jax.tree.structure(BUILT)
    for a, b in zip(jax.tree.leaves(built), jax.tree.leaves(BUILT), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)


def test_a_camera_may_follow_several_points(tmp_path):
    pose = "position: [0, 0, 1], rotation: [1, 0, 0], gain: 800, sigma: 1"
    points, places = f"point: [P, Q], {pose}", f"body: b, at: [[0, 0, 1], [0, 1e-1, 0]], {pose}"
    text = f"sensors: [{{type: camera, name: eye, {points}}}, {{type: camera, name: pair, {places}}}]"
    (eye, pair), _ = read(tmp_path, text)
    assert eye.columns == ("eye.P.x", "eye.P.y", "eye.Q.x", "eye.Q.y") and pair.rows == 4
    np.testing.assert_array_equal(pair.place.at, [[0, 0, 1], [0, 0.1, 0]])
    (fault,) = faults(tmp_path, text.replace("[0, 1e-1, 0]", "[0, a, 0]"))
    assert "sensors[1].at[1][1]: expected a number" in fault
    (fault,) = faults(tmp_path, text.replace("[0, 1e-1, 0]", "[0]"))
    assert "sensors[1].at[1]: expected" in fault


def test_a_file_needs_no_inputs(tmp_path):
    assert read(tmp_path, "sensors: [{type: distance, name: d, between: [A, B], sigma: 1}]")[1] == ()


def test_all_faults_of_what_is_written_are_reported(tmp_path):
    text = """\
sensors:
  - {type: encodr, name: crank, of: theta, sigma: 1}
  - {type: gyroscope, name: gyro, bdy: coupler, sigma: heavy, bias: {value: 0, sgma: 0.1}, loss: {type: hubr}}
  - {type: accelerometer, name: imu, body: coupler, at: [0.1], sigma: [0.1, x], columns: {a: 1}}
  - 7
  - {type: encoder, name: 3, sigma: 1, incremental: 1}
  - {type: distance, name: d, between: [A, B, C], sigma: 1/0, loss: huber}
  - {name: a}
inputs:
  - {type: random_walk}
  - {type: load}
sensor: 1
"""
    expected = (
        "2:12: sensors[0].type: expected a type; found 'encodr'; did you mean 'encoder'? known types: encoder,",
        "3:5: sensors[1].body: expected a value; found no key 'body'",
        "3:35: sensors[1].bdy: expected no key 'bdy' here; did you mean 'body'? known keys: name, sigma",
        "3:56: sensors[1].sigma: expected a number or a list of them; found 'heavy', where 'heavy' is unknown",
        "3:80: sensors[1].bias.sgma: expected no key 'sgma' here; did you mean 'sigma'? known keys: value, sigma",
        "3:105: sensors[1].loss.type: expected 'huber', 'cauchy' or 'tukey'; found 'hubr'",
        "4:57: sensors[2].at: expected a list of 2 or more; found a list of 1",
        "4:77: sensors[2].sigma[1]: expected a number; found 'x', where 'x' is unknown",
        "4:90: sensors[2].columns: expected a text; found a mapping of (a)",
        "5:5: sensors[3]: expected a mapping; found 7",
        "6:27: sensors[4].name: expected a text; found 3",
        "6:53: sensors[4].incremental: expected true or false; found 1",
        "7:40: sensors[5].between: expected a list of 2; found a list of 3",
        "7:58: sensors[5].sigma: expected a number or a list of them; found '1/0', which divides by zero",
        "7:69: sensors[5].loss: expected a mapping; found 'huber'",
        "8:5: sensors[6]: expected a mapping with a type; found a mapping of (name)",
        "10:5: inputs[0].on: expected a value; found no key 'on'",
        "11:12: inputs[1].type: expected a type; found 'load'; known types: disturbance, white_noise, random_walk,",
        "12:1: sensor: expected no key 'sensor' here; did you mean 'sensors'? known keys: sensors, inputs",
    )
    for found, start in zip(faults(tmp_path, text), expected, strict=True):
        assert found.startswith(start)


def test_all_faults_of_what_is_meant_are_reported(tmp_path):
    text = """\
sensors:
  - {type: encoder, name: crank, of: theta, sigma: -1}
  - {type: gyroscope, name: gyro, body: coupler, sigma: 0.1, bias: {value: 0, sigma: -0.1}}
  - {type: accelerometer, name: imu, body: coupler, sigma: [0.1, 2, 3]}
  - {type: encoder, name: e, of: theta, body: coupler, sigma: 1}
inputs:
  - {type: random_walk, on: a, rate: 0}
  - {type: command, on: a, column: x, hold: cubic, name: b}
"""
    assert faults(tmp_path, text) == [
        "2:52: sensors[0].sigma: expected positive numbers; found -1",
        "3:86: sensors[1].bias.sigma: expected positive numbers; found -0.1",
        "4:60: sensors[2].sigma: expected 2 numbers, one for each row, or one; found shape (3,)",
        "5:34: sensors[3].of: expected a coordinate, or else a body; found both",
        "7:38: inputs[0].rate: expected a positive number; found 0",
        "8:45: inputs[1].hold: expected 'previous' or 'linear'; found 'cubic'",
    ]


def test_two_sensors_may_not_share_a_name_or_a_column(tmp_path):
    text = """\
sensors:
  - {type: torque, name: i, of: a, sigma: 1}
  - {type: torque, name: i, of: b, sigma: 1, columns: j}
  - {type: torque, name: k, of: c, sigma: 1, columns: j}
"""
    assert faults(tmp_path, text) == [
        "3:26: sensors[1].name: expected different names; found 'i' again",
        "4:55: sensors[2].columns: expected columns that no other sensor reads; found 'j', which 'i' reads",
    ]


@pytest.mark.parametrize(
    "text, fault",
    [
        ("[]", "1:1: expected a mapping of (sensors, inputs); found a list of 0"),
        ("{sensors: []}", "1:11: sensors: expected a list of 1 or more; found a list of 0"),
        ("{sensors: 3}", "1:11: sensors: expected a list; found 3"),
        ("{inputs: []}", "1:1: sensors: expected a value; found no key 'sensors'"),
        ("{sensors: [}", "1:12: expected YAML; found an error:"),
    ],
)
def test_files_that_are_no_files_of_sensors(tmp_path, text, fault):
    found = faults(tmp_path, text)
    assert len(found) == 1 and found[0].startswith(fault)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DescriptionError, match="expected a file of sensors; found: No such file"):
        read_sensors(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"sensors: \xe9")
    with pytest.raises(DescriptionError, match="expected text in UTF-8; found byte 0xe9"):
        read_sensors(tmp_path / "latin.yaml")
