"""Calls with wrong arguments, in a process without checks of types: `python tests/wrong_calls.py COUNT SEED [names]`.

Prints every call that ends in something else than an answer or an error of fgmbs, takes longer than it may, and the
memory of the process.
"""

import random
import sys
import time
import traceback
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import fgmbs
from fgmbs import planar, robots
from fgmbs.errors import FgmbsError
from fgmbs.inputs import Command, Disturbance, RandomWalk
from fgmbs.sensors import Encoder, Gyroscope, Position
from fgmbs.signals.recordings.recording import Signal

CONFIGS = Path(__file__).parents[1] / "configs"
LONGEST = 60.0
"""A first call compiles [s]."""
T = 0.01 * np.arange(40)
PENDULUM = fgmbs.load(CONFIGS / "mechanisms" / "pendulum.yaml")
GYRO, FORCES = (Gyroscope("gyro", body="rod", sigma=0.1),), (Disturbance(0.1),)
RECORDING = fgmbs.Recording.of(T, {"gyro": np.sin(T)})
MOTION = fgmbs.simulate(PENDULUM, 0.4, 0.01)
START = {"x_tip": 0.6, "y_tip": -0.8}
GROUND, TIP = planar.point("A", 0, 0, fixed=True), planar.point("B", 1, 0)
ROD = planar.body("b", "A", "B", mass=1, I0=1, cog=(0.5, 0))
LINKS = [robots.link(name, 1.0, inertia=(1, 1, 1)) for name in "ab"]
HINGE, BALL = robots.revolute("a", "world", "a", (0, 0, 1)), robots.spherical("b", "a", "b")
ESTIMATE = dict(dt=0.01, start=START, start_sigma=(0.1, 1.0), integrator="hermite_simpson")

CALLS = {
    "simulate": (fgmbs.simulate, [PENDULUM, 0.4, 0.01], dict(coordinates="chart", start=START, throw=True)),
    "inverse_dynamics": (fgmbs.inverse_dynamics, [PENDULUM, T, {"x_tip": MOTION.q[:40, 0]}], dict(start=START)),
    "hybrid_dynamics": (fgmbs.hybrid_dynamics, [PENDULUM, T], dict(forces={}, start=START)),
    "smooth": (fgmbs.smooth, [PENDULUM, RECORDING, GYRO, FORCES], ESTIMATE),
    "identify": (
        fgmbs.identify,
        [PENDULUM, RECORDING, GYRO, FORCES],
        dict(free={"m": (0.1, 10.0)}, method="smoother", dt=0.01, start=START, throw=False),
    ),
    "prepare_identify": (
        fgmbs.prepare_identify,
        [PENDULUM, RECORDING, GYRO, FORCES],
        dict(free={"m": (0.1, 10.0)}, dt=0.01, start=START),
    ),
    "prepare_smooth": (fgmbs.prepare_smooth, [PENDULUM, RECORDING, GYRO, FORCES], ESTIMATE),
    "online": (fgmbs.online, [PENDULUM, GYRO, FORCES], dict(dt=0.01, window=4, slots=1)),
    "observability": (fgmbs.observability, [PENDULUM, MOTION, GYRO], {}),
    "readings": (fgmbs.readings, [PENDULUM, MOTION, GYRO], dict(rates={"gyro": 100}, seed=1)),
    "assemble": (fgmbs.assemble, [PENDULUM, START], {}),
    "Recording.of": (fgmbs.Recording.of, [T, {"a": T}], dict(units={"a": "rad"})),
    "Signal": (Signal, [T, T], dict(unit="rad")),
    "between": (RECORDING.between, [0.1, 0.2], {}),
    "shifted": (RECORDING.shifted, [0.1], dict(names=["gyro"])),
    "merged": (RECORDING.merged, [fgmbs.Recording.of(T, {"a": T})], {}),
    "Gyroscope": (Gyroscope, ["gyro"], dict(body="rod", sigma=0.1, bias=0.0, delay=0.0)),
    "Encoder": (Encoder, ["e"], dict(of="x_tip", unit="m", sigma=0.1, bias=0.0, gain=1.0)),
    "Position": (Position, ["p"], dict(point="tip", sigma=0.1, bias=np.zeros(2), misalignment=0.0)),
    "Disturbance": (Disturbance, [0.1], dict(name="d")),
    "RandomWalk": (RandomWalk, ["x_tip"], dict(rate=0.1, sigma0=1.0, name="w")),
    "Command": (Command, ["x_tip", "u"], dict(gain=1.0, name="c")),
    "Friction": (fgmbs.Friction, [0.1, 0.2], dict(stribeck=0.1, stribeck_speed=1.0, cosines=[0.1], width=0.01)),
    "Motor": (fgmbs.Motor, [0.1], dict(gear=6.0, rotor_inertia=1e-5, back_emf=0.1, sines=[0.1], periods=7)),
    "Unknown": (fgmbs.Unknown, [1.0], dict(sigma=0.1, lower=0.0, upper=2.0)),
    "with_parameters": (PENDULUM.with_parameters, [{"gravity.y": 1.0}], {}),
    "load": (fgmbs.load, [CONFIGS / "mechanisms" / "pendulum.yaml"], {}),
    "read_recording": (
        fgmbs.read_recording,
        [CONFIGS / "experiments" / "fourbar_recording.csv"],
        dict(time="t", rate=None, units={}, offset=0.0, columns=["gyro"]),
    ),
    "read_sensors": (fgmbs.read_sensors, [CONFIGS / "experiments" / "fourbar_sensors.yaml"], {}),
    "point": (lambda *args, **more: planar.mechanism(GROUND, planar.point(*args, **more), ROD), ["B", 1.0, 0.0], {}),
    "body": (
        lambda *args, **more: planar.mechanism(GROUND, TIP, planar.body(*args, **more)),
        ["b", "A", "B"],
        dict(mass=1, I0=1, cog=(0.5, 0.0), length="auto", visual={"radius": 0.1}),
    ),
    "link": (
        robots.link,
        ["a"],
        dict(mass=1.0, center=(0, 0, 1), inertia=(1, 1, 1), shapes=[robots.sphere(0.1)]),
    ),
    "joint": (
        lambda *args, **more: robots.robot(*LINKS, HINGE, robots.joint(*args, **more)),
        ["revolute", "b", "a", "b"],
        dict(xyz=(0, 0, 1), rpy=(0, 0, 1), axis=(0, 1, 0), mimic=("a", 2.0), lower=-1.0, damping=0.1, actuated=True),
    ),
    "screw": (robots.screw, ["b", "a", "b", (0, 0, 1), 0.1], dict(max_effort=1.0)),
    "mimic": (lambda *mimic: robots.revolute("b", "a", "b", (0, 0, 1), mimic=mimic), ["a", 2.0, 0.1], {}),
    "closure": (
        lambda *args, **more: robots.robot(*LINKS, HINGE, BALL, robots.closure(*args, **more)),
        ["spherical", "c", "world", "b"],
        dict(xyz_a=(0, 0, 1), rpy_b=(0, 0, 1), axis=(0, 1, 0)),
    ),
    "frame": (
        lambda *args, **more: robots.robot(*LINKS, HINGE, BALL, robots.frame(*args, **more)),
        ["f", "b"],
        dict(xyz=(0, 0, 1), rpy=(0, 0, 1)),
    ),
    "cylinder": (robots.cylinder, [0.1, 0.2], dict(xyz=(0, 0, 1), rpy=(0, 0, 1), color="red")),
    "robot": (robots.robot, [*LINKS, HINGE, BALL], dict(name="r", gravity=(0, 0, -9.81), floating=False)),
    "limits": (robots.robot(*LINKS, HINGE, BALL).limits, ["lower"], {}),
    "mechanism": (planar.mechanism, [GROUND, TIP, ROD], dict(gravity=(0.0, -9.81), parameters={"L": 1.0})),
}
QUICK = tuple(CALLS)[tuple(CALLS).index("assemble") :]
"""Those that compile next to nothing."""
WRONG = (
    *(
        None,
        True,
        False,
        0,
        -1,
        3,
        -0.5,
        1e-300,
        1e300,
        float("nan"),
        float("inf"),
        10**400,
        1j,
        b"x",
        "",
        "x",
        "x_tip",
    ),
    *("a\0b", "é" * 50, "L", "nosuch.yaml", "/", [], [1], (1, 2, 3), {}, {"x": 1}, {"x_tip": None}, {"x_tip": "a"}),
    *({1: 2}, {"x_tip": [1, 2]}, {"x_tip": float("nan")}, {"L": -1.0}, {"L": fgmbs.Unknown(1.0)}, set(), object()),
    *(lambda t: t, lambda: None, int, fgmbs, range(3), iter([1]), ..., fgmbs.Unknown(sigma=1.0), np.float32(1.0)),
    *(np.zeros(0), np.zeros(3), np.zeros((2, 2)), np.array(["a"]), np.array([np.nan]), np.array(1j), jnp.zeros(2), T),
    *(np.datetime64("2020-01-01"), PENDULUM, RECORDING, GYRO, FORCES, MOTION),
)


def outcome(function, args, options) -> str:
    """What came of a call: nothing to say, or what is wrong with it."""
    begun = time.perf_counter()
    try:
        function(*args, **options)
    except FgmbsError as error:
        said = "" if str(error).strip() else "an error without words"
    except Exception as error:
        own = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
        said = f"{type(error).__name__}: {error} ({[line for line in own if 'fgmbs' in line][-1:]})"
    else:
        said = ""
    took = time.perf_counter() - begun
    return f"{said} took {took:.0f} s" if took > LONGEST else said


def main(count: int, seed: int, names: tuple[str, ...]) -> None:
    warnings.simplefilter("ignore")
    chance = random.Random(seed)
    for k in range(count):
        name = chance.choice(names)
        function, args, options = CALLS[name]
        args, options = list(args), dict(options)
        for _ in range(chance.choice((1, 1, 1, 2))):
            place, wrong = chance.choice((*range(len(args)), *options)), chance.choice(WRONG)
            (args if isinstance(place, int) else options)[place] = wrong
        if said := outcome(function, args, options):
            print(f"{k}: {name}({args!r:.300}, {options!r:.300}): {said}")
    # That of getrusage begins with what the process had that started this one.
    most = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
    print(f"memory {int(most) / 1e6:.2f} GB")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), tuple(sys.argv[3:]) or tuple(CALLS))
