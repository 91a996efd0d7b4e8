"""Arguments of the wrong type are refused by name, with what to pass instead; in a process without checks of types."""

import subprocess
import sys

import pytest
import wrong_calls

CALLS = {
    "fgmbs.simulate('file.yaml', 1.0, 0.01)": "mechanism: expected a mechanism, as fgmbs.load makes one of a file",
    "fgmbs.simulate(m, 1.0, 0.01, start=[1])": "start: expected numbers by name, as in {'x': 1.0}; found list [1]",
    "fgmbs.simulate(m, 1.0, '0.01')": "dt: expected a finite number; found '0.01'",
    "fgmbs.simulate(m, None, 0.01)": "duration: expected a finite number; found None",
    "fgmbs.smooth(m, 'file.csv', S)": "recording: expected a recording, as fgmbs.read_recording reads one of a file",
    "fgmbs.smooth(m, [1], S)": "recording: expected a recording, as fgmbs.read_recording reads one of a file",
    "fgmbs.smooth(m, r, {'gyro': 1})": "sensors: expected sensors as of fgmbs.sensors, in a list; found dict",
    "fgmbs.smooth(m, r, S, 1.0)": "inputs: expected forces as of fgmbs.inputs, in a list; found float 1.0",
    "fgmbs.smooth(m, r, S, dt='a')": "dt: expected a finite number; found 'a'",
    "fgmbs.smooth('m', r, S)": "mechanism: expected a mechanism",
    "fgmbs.identify('m', r, S, free=['m'])": "mechanism: expected a mechanism",
    "fgmbs.identify(m, 'file.csv', S, free=['m'])": "recording: expected a recording, as fgmbs.read_recording",
    "fgmbs.identify(m, r, S, free=1)": "free: expected names, or True, a first value, a pair of bounds, or an Unknown",
    "fgmbs.identify(m, r, S, free=[1])": "a name in free: expected a text; found int 1",
    "fgmbs.identify(m, r, S, free={'rod.mas': True})": "free: there is no number 'rod.mas'; did you mean",
    "fgmbs.identify(m, r, S, free={'m': 'a'})": "free['m']: expected True, a first value",
    "fgmbs.identify(m, r, S, free={'m': (5.0, 9.0)})": "free['m']: value: expected a number from 5 to 9",
    "fgmbs.identify(m, r, S, free={'m': (9.0, 5.0)})": "free['m']: lower: expected a number below upper",
    "fgmbs.identify(m, r, S, free=['m'], method='a')": "method: expected 'smoother' or 'prediction'; found 'a'",
    "fgmbs.identify(m, r, S, free=['m'], horizon='a')": "horizon: expected none with method='smoother'",
    "fgmbs.identify(m, r, S, free=['m'], method='prediction', horizon='a')": "horizon: expected a finite number",
    "fgmbs.identify(m, other, S, free=['m'])": "recording['gyro']: expected a signal of R",
    "fgmbs.identify(m, few, S, free=['m', 'L', 'gravity.y', 'gyro.bias', 'gyro.gain'])": "recordings: expected at",
    "fgmbs.cross_validate(m)": "fit: expected what fgmbs.identify returns",
    "fgmbs.compare_models({'a': m, 'b': m})": "fits['a']: expected what fgmbs.identify returns",
    "fgmbs.compare_models([m])": "fits: expected results of fgmbs.identify by the name of the model",
    "fgmbs.inverse_dynamics('m', [0.0, 1.0], {})": "mechanism: expected a mechanism",
    "fgmbs.online('m', S, dt=0.1)": "mechanism: expected a mechanism",
    "fgmbs.assemble('m')": "mechanism: expected a mechanism",
    "fgmbs.assemble(m, [1])": "given: expected numbers by name",
    "fgmbs.readings(m, None, S)": "motion: expected one with t, q and dq, as fgmbs.simulate gives it; found NoneType",
    "fgmbs.observability(m, None, S)": "motion: expected one with t, q and dq",
    "fgmbs.planar.mechanism({'name': 'A'})": "parts: expected points, bodies … as the functions of fgmbs.planar make",
    "robots.link('a', mass='heavy')": "link 'a': mass: expected a finite number; found 'heavy'",
    "robots.link('a', mass=[1, 2])": "link 'a': mass: expected a finite number; found [1, 2]",
    "robots.link('a', mass=None)": "link 'a': mass: expected a finite number; found None",
    "robots.link('a', shapes=robots.sphere(1.0))": "link 'a': shapes: expected boxes, cylinders and spheres in a list",
    "robots.link('a', shapes=('box',))": "link 'a': shapes: expected boxes, cylinders and spheres in a list; found str",
    "robots.link(['a'])": "link: name: expected a text; found list ['a']",
    "robots.screw('j', 'a', 'b', (0, 0, 1), 'x')": "joint 'j': pitch: expected a finite number; found 'x'",
    "robots.cylinder('x', 1)": "cylinder: radius: expected a finite number; found 'x'",
    "robots.cylinder(1, None)": "cylinder: length: expected a finite number; found None",
    "robots.sphere('x')": "sphere: radius: expected a finite number; found 'x'",
    "robots.box((1, 1, 1), color=3)": "box: color: expected a text; found int 3",
    "robots.spherical('j', 'a', 'b', mimic='joint')": "joint 'j': mimic: expected (other joint, multiplier, offset)",
    "robots.spherical('j', ['a'], 'b')": "joint: parent: expected a text; found list ['a']",
    "robots.closure('fixed', 'c', None, 'b')": "closure: link_a: expected a text; found NoneType None",
    "robots.frame('f', 3)": "frame: link: expected a text; found int 3",
    "robots.robot(robots.link('a'), floating='no')": "floating: expected True or False; found str 'no'",
    "robots.robot(robots.link('a'), name=3)": "robot: name: expected a text; found int 3",
    "robots.robot(robots.link('a')).limits(1)": "key: expected 'lower', 'upper', 'max_velocity' or 'max_effort'",
    "fgmbs.load({})": "path: expected the path of a file; found dict {}",
    "fgmbs.load('a\\0b')": "path: expected the path of a file; found 'a\\x00b', with a NUL character",
    "fgmbs.read_recording({})": "path: expected the path of a file",
    "fgmbs.read_recording('a\\0b.csv')": "path: expected the path of a file",
    "fgmbs.read_sensors({})": "path: expected the path of a file",
    "fgmbs.Recording({'gyro': [1.0]})": "signals['gyro']: expected a Signal; Recording.of makes them of arrays",
    "fgmbs.Recording([1.0])": "signals: expected signals by name; Recording.of makes them of arrays; found list",
    "fgmbs.save(m, 'x.nc')": "result: expected a result of simulate, smooth",
}


@pytest.fixture(scope="module")
def answers(configs):
    code = f"""
import fgmbs, numpy as np
from fgmbs import robots
m = fgmbs.load({str(configs / "mechanisms" / "pendulum.yaml")!r})
S = (fgmbs.sensors.Gyroscope("gyro", body="rod", sigma=0.1),)
r = fgmbs.Recording.of(np.arange(9.0), {{"gyro": np.arange(9.0)}})
few = fgmbs.Recording.of([0.0, 0.1, 0.2, 0.3], {{"gyro": [1.0] * 4}})
other = fgmbs.Recording.of([0.0, 1.0], {{"a": [0.0, 1.0]}}, source="R")
for call in {list(CALLS)!r}:
    try:
        print("done", repr(eval(call))[:50])
    except fgmbs.ArgumentError as error:
        print(str(error).replace(chr(10), " "))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return dict(zip(CALLS, run.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("call", CALLS)
def test_is_refused(answers, call):
    assert answers[call].startswith(CALLS[call])


@pytest.mark.parametrize("names, count", [("quick", 1500), pytest.param("all", 10_000, marks=pytest.mark.slow)])
def test_any_wrong_call_ends_in_an_error_of_its_own(names, count):
    """One argument or two of a call are anything."""
    command = [sys.executable, wrong_calls.__file__, str(count), "1", *(wrong_calls.QUICK if names == "quick" else ())]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    *said, memory = run.stdout.splitlines()
    assert not said, "\n".join(said)
    assert float(memory.split()[1]) < 2.0
