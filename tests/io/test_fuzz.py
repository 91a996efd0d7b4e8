"""Files that nobody wrote: whatever is in them, a file is read or refused by an error of fgmbs."""

import copy
import random
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from linkage import FOURBAR

from fgmbs.errors import DescriptionError, FgmbsError
from fgmbs.io.load import load
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.io.robots.stored import parse_robot
from fgmbs.io.sensor_files import read_sensors
from fgmbs.io.texts import file_of
from fgmbs.mechanisms.tree.robot import robot
from fgmbs.signals.recordings.reading import read_recording

LONGEST = 5.0
"""Any of them may take [s]."""
NASTY = (
    *("", "0", "-1", "1e400", "9" * 400, "nan", ".inf", "٣", "true", "null", "~", "''", '"', "'", "[", "]", "{", "}"),
    *(":", "- ", "#", "&a", "*a", "!!python/object:os.system x", "<<: *a", "|", ">", "\t", "\0", "\ufeff", "\u2028"),
    *("for", "t", "pi", "auto", "L", "x0", "1/0", "(-1)^0.5", "1e300*1e300", "2^2^2^9", "sqrt(-1)", "a" * 5000),
    *("name: A", "points: [0, 1]", "fixed: true", "type: gear", "[0, 0]", "{x: 1}", "2020-01-01", "0x1F", "1_000"),
)


def mutated(text: str, seed: int) -> str:
    """The text after one to four changes of lines, words and characters."""
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 4)):
        lines = text.split("\n")
        k = chance.randrange(len(lines))
        match chance.randrange(7):
            case 0:
                del lines[k]
            case 1:
                lines.insert(k, lines[chance.randrange(len(lines))])
            case 2:
                lines[k] = chance.choice(NASTY)
            case 3:
                words = lines[k].split(" ")
                words[chance.randrange(len(words))] = chance.choice(NASTY)
                lines[k] = " ".join(words)
            case 4:
                place = chance.randint(0, len(lines[k]))
                lines[k] = lines[k][:place] + chance.choice(NASTY) + lines[k][place:]
            case 5:
                place = chance.randint(0, len(lines[k]))
                lines[k] = lines[k][:place] + lines[k][place + chance.randint(1, 5) :]
            case 6:
                lines[k] = " " * chance.randint(1, 4) + lines[k]
        text = "\n".join(lines)
    return text


def only_own_errors(read, text: str, seeds: range) -> tuple[int, int]:
    """(texts that were read, texts that were refused)."""
    good = 0
    for seed in seeds:
        changed, begun = mutated(text, seed), time.perf_counter()
        try:
            read(changed)
            good += 1
        except FgmbsError as error:
            assert str(error).strip()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{changed[:2000]}") from error
        assert time.perf_counter() - begun < LONGEST, f"seed {seed}:\n{changed[:2000]}"
    return good, len(seeds) - good


MECHANISMS = ("fourbar", "slider_crank", "five_bar", "driven_crank", "spring_mass_damper")


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms(configs, name):
    text = (configs / "mechanisms" / f"{name}.yaml").read_text()
    good, bad = only_own_errors(parse_mechanism, text, range(60))
    assert good > 0 and bad > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_many_mechanisms(configs, name):
    text = (configs / "mechanisms" / f"{name}.yaml").read_text()
    good, bad = only_own_errors(parse_mechanism, text, range(1000, 18_000))
    assert good > 0 and bad > 0


def robot_of(text):
    return robot(parse_robot(text, "robot.yaml"))


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(1000, 18_000), marks=pytest.mark.slow)], ids=len)
def test_robots(configs, seeds):
    text = file_of(load(configs / "robots" / "scara.yaml"))
    good, bad = only_own_errors(robot_of, text, seeds)
    assert good > 0 and bad > 0


LOGGED = "t [s],gyro [deg/s],enc [deg]\n" + "\n".join(f"{k / 100},{k % 7},{k}" for k in range(12))


def reader(path, read):
    def write_and_read(text):
        path.write_text(text, encoding="utf-8")
        return read(path)

    return write_and_read


def test_sensors(configs, tmp_path):
    text = (configs / "experiments" / "fourbar_sensors.yaml").read_text()
    good, bad = only_own_errors(reader(tmp_path / "sensors.yaml", read_sensors), text, range(200))
    assert good > 0 and bad > 0


def test_recordings(tmp_path):
    good, bad = only_own_errors(reader(tmp_path / "recording.csv", read_recording), LOGGED, range(300))
    assert good > 0 and bad > 0


@pytest.mark.slow
def test_many_sensors_and_recordings(configs, tmp_path):
    text = (configs / "experiments" / "fourbar_sensors.yaml").read_text()
    for name, read, of in (("sensors.yaml", read_sensors, text), ("recording.csv", read_recording, LOGGED)):
        good, bad = only_own_errors(reader(tmp_path / name, read), of, range(1000, 8500))
        assert good > 0 and bad > 0


POINTS = (
    "points: [{x: 0, y: 0, fixed: true}, {x: 1, y: 0}]\nplanar_bodies: [{points: [0, 1], mass: %s, I0: 1, cog: %s}]\n"
)


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "gravity: [0, " + "9" * 400 + "]\n" + POINTS % (1, "[0, 0]"),
            r"gravity\[1\]: .*found inf, which is not finite",
        ),
        (POINTS % (1, "[1e200, 0]"), r"I0: expected at least mass\*\|cog\|\^2 = inf"),
        (
            "parameters: {for: '', while: 2}\n" + POINTS % (1, "[0, 0]"),
            "parameters.while: expected a name; found 'while'",
        ),
        (POINTS % ("٣", "[0, 0]"), "found '٣', which is not arithmetic"),
    ],
)
def test_mechanisms_that_crashed_once(text, expected):
    with pytest.raises(FgmbsError, match=expected):
        parse_mechanism(text)


def test_a_quote_that_stays_open_is_no_number(tmp_path):
    (tmp_path / "r.csv").write_text('t,gyro\n0,"1\n0.1,2\n')
    with pytest.raises(FgmbsError, match="r.csv:2: column 'gyro': expected a number; found '\"1'"):
        read_recording(tmp_path / "r.csv")


def test_a_number_that_only_python_reads_is_none(tmp_path):
    (tmp_path / "r.csv").write_text("t,gyro\n0,1\n0.1,٣\n", encoding="utf-8")
    with pytest.raises(FgmbsError, match="r.csv:3: column 'gyro': expected a number; found '٣'"):
        read_recording(tmp_path / "r.csv")


_WHOLE = yaml.safe_load(FOURBAR) | {
    "constraints": [
        {"type": "distance", "points": ["A", 2]},
        {"type": "rigid", "points": [1, 2], "point": 3, "offset": [1, 0.5]},
        {"type": "mobile_slider", "point": 2, "line": [0, 1]},
        {"type": "fixed_slider", "point": 2, "line": [[0, 0], [1, "xb"]]},
        {"type": "motion", "coordinate": "theta", "value": "sin(t)"},
    ],
    "springs": [{"points": [0, 1], "stiffness": 1, "free_length": "auto"}, {"angle": "theta", "stiffness": 1}],
    "forces": [{"body": "coupler", "torque": "t"}, {"point": 1, "force": [0, "t"]}],
    "actuators": [{"angle": "theta", "name": "motor"}, {"points": ["A", 2]}, {"coordinate": "x1"}, {"body": "coupler"}],
    "initial_velocities": {"theta": 1},
}
_JUNK = [
    None,
    True,
    -1,
    3,
    99,
    1.5,
    float("inf"),
    "auto",
    "A",
    "theta",
    "mass",
    "1/0",
    "_",
    "t",
    [],
    [1],
    [0, 0],
    {},
    {"type": "gear"},
]


def _places(data, path=()):
    for step in data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield (*path, step)
        yield from _places(data[step], (*path, step))


@settings(derandomize=True, deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(list(_places(_WHOLE))), st.sampled_from(_JUNK)), min_size=1, max_size=3))
def test_junk_anywhere_is_a_fault_and_never_a_crash(changes):
    data = copy.deepcopy(_WHOLE)
    for path, junk in changes:
        inside = data
        try:
            for step in path[:-1]:
                inside = inside[step]
            inside[path[-1]] = junk
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    try:
        parse_mechanism(yaml.safe_dump(data, sort_keys=False))
    except DescriptionError as error:
        assert all(fault.startswith("<string>:") for fault in error.faults)
