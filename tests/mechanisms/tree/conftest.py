"""Robots of the reference data, beside the same in Pinocchio."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs


@dataclasses.dataclass(frozen=True)
class Pair:
    """A robot without friction and a state, and the same in Pinocchio, by G: its velocities are G dq."""

    robot: fgmbs.Robot
    model: object
    data: object
    q: np.ndarray
    dq: np.ndarray
    ddq: np.ndarray
    q_pin: np.ndarray
    G: np.ndarray


@pytest.fixture(scope="session")
def robots(data_dir):
    return data_dir / "robots"


@pytest.fixture(scope="session")
def beside_pinocchio(robots):
    """Makes a pair of a file."""
    pin = pytest.importorskip("pinocchio")

    def make(name: str, floating: bool = False, seed: int = 0) -> Pair:
        file = robots / name
        robot = fgmbs.load(file, floating=floating)
        no = jnp.zeros_like(robot.parameters.damping)
        robot = eqx.tree_at(lambda r: (r.parameters.damping, r.parameters.coulomb), robot, (no, no)).evaluated()
        root = [pin.JointModelFreeFlyer()] if floating else []
        model = pin.buildModelFromUrdf(str(file), *root)
        rng = np.random.default_rng(seed)
        dq, ddq, away = rng.standard_normal((3, robot.nv))
        q = np.asarray(robot.retract(robot.reference, jnp.asarray(away)))
        q_pin, G = pin.neutral(model), np.zeros((model.nv, robot.nv))
        topology = robot.topology
        for k, (joint, kind, start, first) in enumerate(
            zip(topology.joints, topology.kinds, *topology.starts, strict=True)
        ):
            there = model.joints[model.getJointId("root_joint" if kind == "floating" else joint)]
            if kind == "floating":
                x, y, z, qw, *qv = q[start : start + 7]
                q_pin[there.idx_q : there.idx_q + 7] = [x, y, z, *qv, qw]
                G[there.idx_v : there.idx_v + 6, first : first + 6] = np.roll(np.eye(6), 3, axis=1)
                continue
            multiplier = float(robot.parameters.multipliers[k])
            value = multiplier * q[start] + float(robot.parameters.offsets[k])
            q_pin[there.idx_q : there.idx_q + there.nq] = (np.cos(value), np.sin(value)) if there.nq == 2 else value
            G[there.idx_v, first] = multiplier
        return Pair(robot, model, model.createData(), q, dq, ddq, q_pin, G)

    return make
