"""What arms are made of: a simulated PUMA by its torques, and the base parameters of two real arms.

    python experiments/robot_identification.py [--seeds 40] [--out results/robot_identification.nc]

The PUMA swings all joints for 2 s; encoders of 0.1 mrad and torques with an error of 0.5 N m are read at 200 Hz. Masses
of three links, a moment of inertia and the damping of every joint are found by `fgmbs.identify`; printed is how often
their 95 % intervals hold the truth.

Of a Panda and a Stäubli TX40 torques of exciting motions were recorded. They are linear in base parameters and
friction: weighted least squares on positions that are smoothed forwards and backwards, with columns filtered as the
torques are. Each quarter of the motion is foretold by what the others say. Torques of the Panda are read behind its
gears: dry friction turns its sign within some milliradians, is another for half a radian after that, and grows with
the moment that tilts the bearing. A part of its motion is made twice, which tells how much of what is left repeats.
"""

import json
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
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
FINE, STEP, FOLDS, GAP = 2e-3, 0.01, 4, 0.3
"""Time between samples before this filter, and between rows of the least squares [s], parts of the motion, and what is
left out between them [s]."""
WAYS, AFTER = (3e-4, 3e-3), (0.0, 0.1, 0.2, 0.4, 0.7)
"""Ways within which dry friction turns its sign, and after it turned, those between which it is linear [rad]."""
SPEED, ALIKE = 0.03, 0.03
"""Within which dry friction of motors turns its sign [rad/s], and places of a joint are taken as the same [rad]."""


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
    """A smoothed motion, and what torques are filtered by."""

    q: np.ndarray
    dq: np.ndarray
    ddq: np.ndarray
    tau: np.ndarray
    cut: float

    def filtered(self, x: np.ndarray) -> np.ndarray:
        """What is linear in the torques, as rows of the least squares: by one filter, which shifts nothing."""
        every, edge = round(STEP / FINE), int(0.5 / FINE)
        return _filtered(x, FINE, self.cut)[edge:-edge:every]


def _filtered(x: np.ndarray, dt: float, cut: float) -> np.ndarray:
    return scipy.signal.filtfilt(*scipy.signal.butter(4, 2 * cut * dt), x, axis=0, padlen=int(3 / (cut * dt)))


def smoothed(arm: arms.Arm, cut: float) -> Motion:
    """Positions and torques with three times the band; derivatives by differences.

    Dry friction jumps as a joint turns, and its torques are filtered afterwards as those that were read.
    """
    dt = arm.t[1] - arm.t[0]
    q, tau = (_filtered(x, dt, 3 * cut)[:: round(FINE / dt)] for x in (arm.q, arm.tau))
    dq = np.gradient(q, FINE, axis=0, edge_order=2)
    ddq = np.gradient(dq, FINE, axis=0, edge_order=2)
    return Motion(q, dq, ddq, tau, cut)


def turning(q: np.ndarray, way: float) -> tuple[np.ndarray, np.ndarray]:
    """Friction of a spring that slips at ± 1, turned about within twice this way, and the way since it turned."""
    z, since, side = np.zeros_like(q), np.zeros_like(q), 0.0
    for k, step in enumerate(np.diff(q), start=1):
        z[k] = np.clip(z[k - 1] + step / way, -1, 1)
        slips = np.abs(z[k]) == 1
        turned = slips and z[k] != side
        side = z[k] if turned else side
        since[k] = 0.0 if turned else since[k - 1] + slips * np.abs(step)
    return z, since


def dry(q: np.ndarray, load: np.ndarray) -> list[np.ndarray]:
    """What dry friction behind a gear is made of: two springs that slip, more or less of it for some way after it
    turned, and a share of the load."""
    (first, _), (z, since) = (turning(q, way) for way in WAYS)
    return [first, z, z * load, *(z * np.interp(since, AFTER, shape) for shape in np.eye(len(AFTER))[:-1])]


def tilting(robot: fgmbs.Robot, motion: Motion) -> np.ndarray:
    """Moments across the axes of the joints [N m]."""

    def of(q, dq, ddq):
        wrenches = (robot.joint_wrench(joint, q, dq, ddq, jnp.zeros(0), jnp.zeros(())) for joint in robot.joint_names)
        return jnp.stack([jnp.sum(wrench.moment**2) for wrench in wrenches]), tree.inverse_dynamics(robot, q, dq, ddq)

    squares, along = jax.jit(jax.vmap(of))(motion.q, motion.dq, motion.ddq)
    return np.sqrt(np.maximum(squares - along**2, 0.0))


def rows(arm: arms.Arm, motion: Motion) -> np.ndarray:
    """Samples × joints × numbers: base parameters, then offset, viscous and dry friction of each joint, and rotors
    of motors whose torques are read."""
    base = tree.base_parameters(arm.robot)
    regressor = jax.jit(jax.vmap(lambda *state: tree.regressor(arm.robot, *state)))
    Y = np.asarray(regressor(motion.q, motion.dq, motion.ddq))
    Y = Y.reshape(*Y.shape[:2], -1)[..., list(base.leaders)]
    own = np.eye(motion.q.shape[1])
    parts = [Y, *(x[..., None] * own for x in (np.ones_like(motion.dq), motion.dq))]
    if arm.published is not None:
        for k, rubs in enumerate(zip(motion.q.T, tilting(arm.published, motion).T, strict=True)):
            parts += [x[:, None, None] * own[:, [k]] for x in dry(*rubs)]
    else:
        parts += [x[..., None] * own for x in (np.tanh(motion.dq / SPEED), motion.ddq)]
    if arm.coupled is not None:
        # What the second motor loses and stores is felt at both joints.
        speed, acceleration = (x[:, arm.coupled].sum(axis=1) for x in (motion.dq, motion.ddq))
        felt = own[list(arm.coupled)].T
        parts += [x[:, None, None] * felt for x in (speed, np.tanh(speed / SPEED), acceleration)]
    return motion.filtered(np.concatenate(parts, axis=2))


def fitted(Y: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Least squares, joints weighed by what they leave, what the motion does not tell left out."""
    left = np.std(tau, axis=0)
    for _ in range(3):
        A, b = (Y / left[:, None]).reshape(-1, Y.shape[2]), (tau / left).ravel()
        x = np.linalg.lstsq(A, b, rcond=1e-6)[0]
        left = np.std(tau - Y @ x, axis=0)
    return x


def foretold(Y: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Torques of each part of the motion by what the others say."""
    t, found = STEP * np.arange(len(tau)), np.full_like(tau, np.nan)
    edges = np.linspace(t[0], t[-1], FOLDS + 1)
    for low, high in zip(edges, edges[1:], strict=False):
        kept = (t < low - GAP) | (t > high + GAP)
        part = (t >= low) & (t <= high)
        found[part] = Y[part] @ fitted(Y[kept], tau[kept])
    return found


def differing(q: np.ndarray, left: np.ndarray, period: float) -> np.ndarray:
    """By how much what is left differs as the motion is made again, as an error of each, by joint."""
    shift = round(period / STEP)
    moved, changed = (x[shift:] - x[:-shift] for x in (q, left))
    alike = np.all(np.abs(moved) < ALIKE, axis=1)
    return np.sqrt(np.mean(changed[alike] ** 2, axis=0) / 2)


def held_back(name: str) -> xr.Dataset:
    """Errors of torques, by joint: of those that were not used, of all, used, and of what does not repeat."""
    arm = getattr(arms, name)()
    motion = smoothed(arm, CUTS[name])
    Y, tau = rows(arm, motion), motion.filtered(motion.tau)
    left = Y @ fitted(Y, tau) - tau
    size = lambda x: np.sqrt(np.mean(x**2, axis=0))
    columns = {"torque": size(tau), "span": np.ptp(tau, axis=0)}
    columns |= {"error": size(foretold(Y, tau) - tau), "fitted": size(left)}
    nothing = np.full(tau.shape[1], np.nan)
    columns["again"] = nothing if arm.period is None else differing(motion.filtered(motion.q), left, arm.period)
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
    print("| arm | joint | torque, RMS | held back, error | of RMS | of span | fitted, of RMS | again, of RMS |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in CUTS:
        found = held_back(name)
        for k in range(found.sizes["joint"]):
            torque, *errors = (float(found[key][k]) for key in ("torque", "error", "fitted", "again"))
            error, span = errors[0], float(found.span[k])
            told = (error / torque, error / span, *(one / torque for one in errors[1:]))
            shares = " | ".join(f"{100 * share:.1f} %" for share in told)
            print(f"| {name} | {k + 1} | {torque:.2f} N m | {error:.3f} N m | {shares} |")
        print(f"| {name} | {found.attrs['base']} base parameters | | | | | | |")
        data = data.merge(found.rename({key: f"{name}_{key}" for key in found.data_vars} | {"joint": f"{name}_joint"}))
    out.parent.mkdir(parents=True, exist_ok=True)
    results.write(data, out)


if __name__ == "__main__":
    tyro.cli(main)
