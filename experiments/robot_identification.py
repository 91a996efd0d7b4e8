"""What arms are made of: a simulated PUMA by its torques, and the base parameters of two real arms.

    python experiments/robot_identification.py [--seeds 40] [--out results/robot_identification.nc]

The PUMA swings all joints for 2 s; encoders of 0.1 mrad and torques with an error of 0.5 N m are read at 200 Hz. Masses
of three links, a moment of inertia and the damping of every joint are found by `fgmbs.identify`; printed is how often
their 95 % intervals hold the truth.

Of a Panda and a Stäubli TX40 torques of exciting motions were recorded. They are linear in base parameters and
friction: weighted least squares on positions that are smoothed forwards and backwards. Each quarter of the motion is
foretold by what the others say. Dry friction turns its sign within a speed; a second part of it, within a way
(pre-sliding, after Dahl), is taken at the joints that are foretold better with it.
"""

import json
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import scipy.signal
import tyro
import xarray as xr
from rigs import arms
from rigs.recordings import DATA

import fgmbs
from fgmbs import results, tree
from fgmbs.inputs import Command, WhiteNoise
from fgmbs.sensors import Encoder

DT, SAMPLES, ENCODER, TORQUE = 5e-3, 401, 1e-4, 0.5
"""[s], [rad] and [N m] of the simulated PUMA."""
TRUTH = {"link2.mass": 17.4, "link3.mass": 4.8, "link6.mass": 0.6, "link2.inertia.yy": 0.6}
TRUTH |= {f"joint{k + 1}.damping": 1.0 + 0.3 * k for k in range(6)}
"""The last link holds a tool of half a kilogram."""
CUTS = {"panda": 3.0, "staubli": 20.0}
"""Up to which frequency motion and torques are looked at [Hz]; torques behind a gear hold its vibrations, too."""
STEP, FOLDS, GAP = 0.01, 4, 0.3
"""Time between rows of the least squares [s], parts of the motion, and what is left out between them [s]."""
SPEED, WAYS = 0.03, (0.003, 0.01, 0.03)
"""Within which dry friction turns its sign [rad/s], [rad]."""


def puma() -> fgmbs.Robot:
    """With the inertias of its rotors, without a tool."""
    folder = DATA.parent / "robots" / "puma560"
    armature = json.loads((folder / "puma560_parameters.json").read_text())["armature"]
    robot = fgmbs.load(folder / "puma560.urdf")
    return robot.with_parameters({f"joint{k + 1}.rotor_inertia": value for k, value in enumerate(armature)})


def swing(t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, q̇ and q̈: three sinusoids for each joint."""
    rng = np.random.default_rng(5)
    size, phase = rng.uniform(0.3, 0.6, (3, 6)), rng.uniform(0, 2 * np.pi, (3, 6))
    omega = 2 * np.pi * np.array([0.5, 1.0, 1.5])
    turns = omega[:, None, None] * t[:, None] + phase[:, None]
    waves = np.sin(turns), omega[:, None, None] * np.cos(turns), -(omega[:, None, None] ** 2) * np.sin(turns)
    return tuple(np.sum(size[:, None] * wave, axis=0) for wave in waves)


class Simulated(NamedTuple):
    """A PUMA that moved as it did, and what it was read of it."""

    robot: fgmbs.Robot
    q: np.ndarray
    dq: np.ndarray
    tau: np.ndarray

    @classmethod
    def moved(cls) -> "Simulated":
        robot, (q, dq, ddq) = puma(), swing(DT * np.arange(SAMPLES))
        true = robot.with_parameters(TRUTH)
        tau = jax.vmap(lambda *state: tree.inverse_dynamics(true, *state))(q, dq, ddq)
        return cls(robot, q, dq, np.asarray(tau))

    def identified(self, seed: int) -> fgmbs.Identification:
        """From what is read with this seed."""
        rng, joints = np.random.default_rng(seed), self.robot.coordinate_names
        columns = {f"at_{j}": self.q[:, k] + ENCODER * rng.standard_normal(SAMPLES) for k, j in enumerate(joints)}
        columns |= {f"by_{j}": self.tau[:, k] + TORQUE * rng.standard_normal(SAMPLES) for k, j in enumerate(joints)}
        sensors = [Encoder(f"at_{j}", of=j, sigma=ENCODER) for j in joints]
        inputs = [Command(j, f"by_{j}", hold="linear", name=f"drive_{j}") for j in joints]
        inputs += [WhiteNoise(j, TORQUE * DT**0.5, name=f"error_{j}") for j in joints]
        return fgmbs.identify(
            self.robot,
            fgmbs.Recording.of(DT * np.arange(SAMPLES), columns),
            sensors,
            inputs,
            free=list(TRUTH),
            start=dict(zip(joints, self.q[0], strict=True)),
            start_velocities=dict(zip(joints, self.dq[0], strict=True)),
        )


def coverage(seeds: int) -> np.ndarray:
    """Errors of all numbers, in their standard deviations, by seed."""
    moved = Simulated.moved()
    found = [moved.identified(seed) for seed in range(seeds)]
    return np.array(
        [[(fit.parameters[name] - value) / fit.std[name] for name, value in TRUTH.items()] for fit in found]
    )


class Motion(NamedTuple):
    """A smoothed motion."""

    t: np.ndarray
    q: np.ndarray
    dq: np.ndarray
    ddq: np.ndarray
    tau: np.ndarray


def smoothed(arm: arms.Arm, cut: float) -> Motion:
    """Positions and torques by the same filter, which shifts nothing; derivatives by differences."""
    dt = arm.t[1] - arm.t[0]
    taps = scipy.signal.butter(4, 2 * cut * dt)
    q, tau = (scipy.signal.filtfilt(*taps, x, axis=0, padlen=int(3 / (cut * dt))) for x in (arm.q, arm.tau))
    dq = np.gradient(q, dt, axis=0, edge_order=2)
    ddq = np.gradient(dq, dt, axis=0, edge_order=2)
    edge, every = int(0.5 / dt), round(STEP / dt)
    return Motion(*(x[edge:-edge:every] for x in (arm.t, q, dq, ddq, tau)))


def pre_sliding(q: np.ndarray, way: float) -> np.ndarray:
    """Dahl's law, exactly between samples: friction goes to ± 1 within this way."""
    z = np.zeros_like(q)
    for k, step in enumerate(np.diff(q), start=1):
        end = np.sign(step)
        z[k] = end + (z[k - 1] - end) * np.exp(-np.abs(step) / way)
    return z


Ways = tuple[float | None, ...]
"""Within which the pre-sliding part of dry friction turns its sign, by joint [rad]; None: there is none."""


def rows(arm: arms.Arm, motion: Motion, ways: Ways) -> np.ndarray:
    """Samples × joints × numbers: base parameters, then viscous and dry friction, offset and rotor of each joint, and
    pre-sliding friction of those that have it."""
    base = tree.base_parameters(arm.robot)
    regressor = jax.jit(jax.vmap(lambda *state: tree.regressor(arm.robot, *state)))
    Y = np.asarray(regressor(motion.q, motion.dq, motion.ddq))
    Y = Y.reshape(*Y.shape[:2], -1)[..., list(base.leaders)]
    own = np.eye(motion.q.shape[1])
    dry = np.tanh(motion.dq / SPEED)
    parts = [Y, *(x[..., None] * own for x in (motion.dq, dry, np.ones_like(dry), motion.ddq))]
    sliding = [(k, way) for k, way in enumerate(ways) if way is not None]
    parts += [pre_sliding(motion.q[:, k], way)[:, None, None] * own[:, [k]] for k, way in sliding]
    if arm.coupled is not None:
        # What the second motor loses and stores is felt at both joints.
        speed, acceleration = (x[:, arm.coupled].sum(axis=1) for x in (motion.dq, motion.ddq))
        felt = own[list(arm.coupled)].T
        parts += [x[:, None, None] * felt for x in (speed, np.tanh(speed / SPEED), acceleration)]
    return np.concatenate(parts, axis=2)


def fitted(Y: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Least squares, joints weighed by what they leave, what the motion does not tell left out."""
    left = np.std(tau, axis=0)
    for _ in range(3):
        A, b = (Y / left[:, None]).reshape(-1, Y.shape[2]), (tau / left).ravel()
        x = np.linalg.lstsq(A, b, rcond=1e-6)[0]
        left = np.std(tau - Y @ x, axis=0)
    return x


def foretold(Y: np.ndarray, motion: Motion) -> np.ndarray:
    """Torques of each part of the motion by what the others say."""
    t, found = motion.t, np.full_like(motion.tau, np.nan)
    edges = np.linspace(t[0], t[-1], FOLDS + 1)
    for low, high in zip(edges, edges[1:], strict=False):
        kept = (t < low - GAP) | (t > high + GAP)
        part = (t >= low) & (t <= high)
        found[part] = Y[part] @ fitted(Y[kept], motion.tau[kept])
    return found


def held_back(name: str) -> xr.Dataset:
    """Errors of torques that were not used, by joint, each with the pre-sliding that foretells it best."""
    arm = getattr(arms, name)()
    motion = smoothed(arm, CUTS[name])
    count, tried = motion.q.shape[1], (None, *WAYS)

    def error(ways: Ways) -> np.ndarray:
        return np.sqrt(np.mean((foretold(rows(arm, motion, ways), motion) - motion.tau) ** 2, axis=0))

    best = np.argmin([error((way,) * count) for way in tried], axis=0)
    ways = tuple(tried[k] for k in best)
    columns = {"torque": np.sqrt(np.mean(motion.tau**2, axis=0)), "span": np.ptp(motion.tau, axis=0)}
    columns |= {"error": error(ways), "way": np.array([np.nan if way is None else way for way in ways])}
    found = xr.Dataset({key: ("joint", value) for key, value in columns.items()})
    return found.assign_attrs(base=len(tree.base_parameters(arm.robot).leaders))


def main(seeds: int = 40, out: Path = Path("results/robot_identification.nc")) -> None:
    errors = coverage(seeds)
    print(f"PUMA, {seeds} seeds\n\n| number | true | within 95 % | spread of errors |\n| --- | ---: | ---: | ---: |")
    for k, (name, value) in enumerate(TRUTH.items()):
        inside = 100 * np.mean(np.abs(errors[:, k]) < 1.96)
        print(f"| {name} | {value:g} | {inside:.1f} % | {np.std(errors[:, k]):.2f} σ |")
    print(f"| all | | {100 * np.mean(np.abs(errors) < 1.96):.1f} % | {np.std(errors):.2f} σ |\n")
    data = xr.Dataset({"normalized_error": (("seed", "number"), errors)}, {"number": list(TRUTH)})
    print("| arm | joint | torque, RMS | held back, error | of RMS | of span | pre-sliding |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- |")
    for name in CUTS:
        found = held_back(name)
        for k in range(found.sizes["joint"]):
            torque, span, error, way = (float(found[key][k]) for key in ("torque", "span", "error", "way"))
            shares = f"{100 * error / torque:.1f} % | {100 * error / span:.1f} %"
            law = "none" if np.isnan(way) else f"{1e3 * way:g} mrad"
            print(f"| {name} | {k + 1} | {torque:.2f} N m | {error:.3f} N m | {shares} | {law} |")
        print(f"| {name} | {found.attrs['base']} base parameters | | | | | |")
        data = data.merge(found.rename({key: f"{name}_{key}" for key in found.data_vars} | {"joint": f"{name}_joint"}))
    out.parent.mkdir(parents=True, exist_ok=True)
    results.write(data, out)


if __name__ == "__main__":
    tyro.cli(main)
