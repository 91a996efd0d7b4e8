"""How long a first answer takes: in a process that finds no compiled program, and in the next one, which finds them.

    python experiments/benchmarks/first_calls.py [--repeats 3] [--only smooth online]

Every question is asked in fresh processes with a cache folder of its own, that is empty at first. "first" is the time
from the call to its answer, compilation included, the median over `repeats` folders; "next" that of another process
with the folder of the last of them; "programs" counts what was compiled, small operations that JAX compiles one by one
included. Imports and the reading of files are not counted. To be run while nothing else is: two programs are compiled
at a time.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import tyro

import fgmbs

CONFIGS = Path(__file__).parents[2] / "configs"


def mechanism(name: str):
    return fgmbs.load(CONFIGS / "mechanisms" / f"{name}.yaml")


def simulate() -> Callable[[], object]:
    fourbar = mechanism("fourbar")
    return lambda: fgmbs.simulate(fourbar, duration=5.0, dt=1e-3)


def inverse() -> Callable[[], object]:
    crank, t = mechanism("fourbar_crank_angle"), np.arange(0, 2, 5e-3)
    return lambda: fgmbs.inverse_dynamics(crank, t, {"theta": 1.2 * (1 - np.cos(2 * t))}, ["motor"])


def hybrid() -> Callable[[], object]:
    crank, t = mechanism("fourbar_crank_angle"), np.arange(0, 2, 5e-3)
    return lambda: fgmbs.hybrid_dynamics(crank, t, forces={"motor": np.sin(t)})


def smooth() -> Callable[[], object]:
    fourbar, (sensors, inputs) = mechanism("fourbar"), sensors_of_fourbar()
    recording = fgmbs.read_recording(CONFIGS / "experiments" / "fourbar_recording.csv")
    return lambda: fgmbs.smooth(fourbar, recording, sensors, inputs)


def online() -> Callable[[], object]:
    fourbar, (sensors, _) = mechanism("fourbar"), sensors_of_fourbar()

    def step():
        loop = fgmbs.online(fourbar, sensors, [fgmbs.inputs.Disturbance(1e-2)], dt=2e-3, window=5)
        return loop.step(loop.init(), loop.sample({"gyro": 0.1, "crank": (0.0, 0.02)}))[1].q

    return step


def identify() -> Callable[[], object]:
    crank = mechanism("fourbar_crank_angle")
    units = {"crank": "rad", "gyro": "rad/s", "torque": "N m"}
    recording = fgmbs.read_recording(CONFIGS / "experiments" / "fourbar_identify_recording.csv", units=units)
    sensors = [
        fgmbs.sensors.Encoder("crank", of="theta", sigma=2e-3),
        fgmbs.sensors.Gyroscope("gyro", body="coupler", sigma=0.02),
    ]
    free = {f"{body}.mass": (0.1, 10.0) for body in ("crank", "coupler", "rocker")}
    motor = fgmbs.inputs.Command("motor", "torque", hold="linear")
    return lambda: fgmbs.identify(crank, recording, sensors, [motor], free=free)


def robot_simulate() -> Callable[[], object]:
    arm = fgmbs.load(CONFIGS / "robots" / "scara.yaml")
    return lambda: fgmbs.simulate(arm, 1.0, 1e-3)


def robot_inverse() -> Callable[[], object]:
    arm, t = fgmbs.load(CONFIGS / "robots" / "scara.yaml"), np.arange(0, 1, 2e-3)
    sizes = {"shoulder": 0.5, "elbow": -0.4, "quill": 0.02, "wrist": 0.3}
    return lambda: fgmbs.inverse_dynamics(arm, t, {n: a * (1 - np.cos(2 * np.pi * t)) for n, a in sizes.items()})


def robot_hybrid() -> Callable[[], object]:
    arm, t = fgmbs.load(CONFIGS / "robots" / "scara.yaml"), np.arange(0, 1, 2e-3)
    forces = {name: np.zeros(len(t)) for name in ("elbow", "quill", "wrist")}
    return lambda: fgmbs.hybrid_dynamics(arm, t, {"shoulder": 0.5 * (1 - np.cos(2 * np.pi * t))}, forces)


def robot_identify(method: str = "smoother") -> Callable[[], object]:
    arm = fgmbs.load(CONFIGS / "robots" / "scara.yaml")
    at = {f"at_{name}": unit for name, unit in zip(arm.joint_names, arm.coordinate_units, strict=True)}
    by = {f"by_{name}": unit for name, unit in zip(arm.joint_names, arm.actuator_units, strict=True)}
    recording = fgmbs.read_recording(CONFIGS / "experiments" / "scara_identify_recording.csv", units=at | by)
    sensors = [fgmbs.sensors.Encoder(f"at_{n}", of=n, unit=at[f"at_{n}"], sigma=1e-4) for n in arm.joint_names]
    torques = [fgmbs.inputs.Command(name, f"by_{name}", hold="linear") for name in arm.joint_names]
    free = {"flange.mass": (0.1, 10.0), "quill.friction": (0.1, 50.0)}
    free |= {f"{name}.{key}": (0.1, 10.0) for name in ("shoulder", "elbow") for key in ("damping", "friction")}
    options = dict(free=free, method=method, horizon=None if method == "smoother" else 0.5)
    return lambda: fgmbs.identify(arm, recording, sensors, [*torques, fgmbs.inputs.Disturbance()], **options)


def robot_predict() -> Callable[[], object]:
    return robot_identify("prediction")


def sensors_of_fourbar():
    return fgmbs.read_sensors(CONFIGS / "experiments" / "fourbar_sensors.yaml")


QUESTIONS = (
    *(simulate, inverse, hybrid, smooth, online, identify),
    *(robot_simulate, robot_inverse, robot_hybrid, robot_identify, robot_predict),
)


def asked(name: str) -> None:
    """In a process of its own: prints (seconds, programs) as JSON."""
    fgmbs.cache()
    call = {question.__name__: question for question in QUESTIONS}[name]()
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    begin = time.perf_counter()
    jax.block_until_ready(call())
    print(json.dumps([time.perf_counter() - begin, len(compiled)]))


def measured(name: str, folder: str) -> tuple[float, int]:
    code, there = f"import first_calls; first_calls.asked({name!r})", Path(__file__).parent
    environment = os.environ | {"FGMBS_CACHE": folder}
    done = subprocess.run([sys.executable, "-c", code], cwd=there, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, programs = json.loads(done.stdout.splitlines()[-1])
    return seconds, programs


def main(repeats: int = 3, only: tuple[str, ...] = ()) -> None:
    print(f"{'question':<16} {'first [s]':>10} {'programs':>9} {'next [s]':>9} {'programs':>9}")
    for question in QUESTIONS:
        name = question.__name__
        if only and name not in only:
            continue
        with tempfile.TemporaryDirectory() as parent:
            folders = [str(Path(parent) / str(k)) for k in range(repeats)]
            first = [measured(name, folder) for folder in folders]
            again = measured(name, folders[-1])
        seconds = statistics.median(time for time, _ in first)
        print(f"{name:<16} {seconds:>10.2f} {first[-1][1]:>9} {again[0]:>9.2f} {again[1]:>9}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
