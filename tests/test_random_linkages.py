"""Random linkages against a formulation of their own: accelerations, joint forces, motors, end points, motions."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import random_linkages as linkages

import fgmbs
from fgmbs.status import Status

EACH = 46
"""Of each kind, in the slow tests: 506 linkages."""
_FINER = (8, 64, 512)
"""Steps of the reference in one of the motion under test: the more, where it leaves its branch."""


def drawn(kind, seed):
    return kind(np.random.default_rng([seed, linkages.KINDS.index(kind)]))


@eqx.filter_jit
def accelerated(mechanism, q, dq):
    mechanism, t = mechanism.evaluated(), jnp.zeros(())
    ddq, lambda_ = fgmbs.acceleration(mechanism, q, dq, t)
    return ddq, mechanism.joint_forces(q, dq, ddq, lambda_, t, jnp.zeros(len(mechanism.actuator_names)))


def check_accelerations_and_joint_forces(linkage, rng):
    mechanism, x = linkage.mechanism(), linkage.drawn
    tangents = linkage.tangents(x)
    dx = tangents @ rng.normal(0.0, 2.0, tangents.shape[1])
    expected, multipliers = linkage.accelerations(x, dx)
    expected = linkage.seen(x, dx, expected)
    ddq, forces = accelerated(mechanism, mechanism.reference, jnp.asarray(linkage.seen(x, dx)))
    np.testing.assert_allclose(ddq, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    rows = linkage.rows(x, dx)[1]
    if np.linalg.matrix_rank(rows) == len(rows):  # otherwise statics does not tell them
        pins = linkage.joint_forces(x, dx, multipliers)
        pins = np.array([pins[name] for name in mechanism.pin_names])
        np.testing.assert_allclose(forces, pins, rtol=0, atol=1e-12 * np.abs(pins).max())


@pytest.mark.parametrize("kind", (linkages.four_bar, linkages.stephenson, linkages.geared_five_bar, linkages.toggle))
def test_accelerations_and_joint_forces(kind):
    for seed in range(8):
        check_accelerations_and_joint_forces(drawn(kind, seed), np.random.default_rng(seed))


@pytest.mark.slow
@pytest.mark.parametrize("kind", linkages.KINDS)
def test_accelerations_and_joint_forces_of_many(kind):
    for seed in range(EACH):
        check_accelerations_and_joint_forces(drawn(kind, seed), np.random.default_rng(seed))


def following(linkage, names, effort, rng, t):
    """(curves with derivatives of what is followed, torques of least effort, least margin), if they can be.

    Poses are followed in finer steps than those of t, which are multiples of them, as fine as it takes to stay on a
    branch: a coarse step leads across a stretch that is out of reach to another one.
    """
    drawn = [(rng.uniform(-0.15, 0.15), rng.uniform(4.0, 12.0)) for _ in names]

    def curve(name, size, w, at):
        start = linkage.followed(name, linkage.drawn, 0 * linkage.drawn)[0]
        return start + size * np.sin(w * at), size * w * np.cos(w * at), -size * w**2 * np.sin(w * at)

    def curves(at):
        return {name: curve(name, *of_name, at) for name, of_name in zip(names, drawn, strict=True)}

    for finer in _FINER:
        fine = np.linspace(t[0], t[-1], finer * (len(t) - 1) + 1)
        torques, margin, jumped = led(linkage, curves(fine), fine, effort, finer)
        if not jumped:
            break
    return curves(t), torques, margin


def led(linkage, curves, fine, effort, every):
    """(torques at every so many times or None if it is lost, least margin, whether it left its branch)."""
    x, dx, h = linkage.drawn, None, fine[1] - fine[0]
    torques, margins = [], []
    for k in range(len(fine)):
        y, dy, ddy = ({name: curve[order][k] for name, curve in curves.items()} for order in range(3))
        before, dx_before, x = x, dx, linkage.closed(x, y)
        margins.append(linkage.margin(x, tuple(curves)))
        if np.abs(linkage.rows(x, 0 * x)[0]).max() > 1e-12:
            return None, 0.0, False
        dx = linkage.velocities(x, dy)
        if k > 0:
            way = h / 2 * (dx_before + dx)
            if np.abs(x - before - way).max() > np.abs(way).max() / 2 + 1e-9:
                return None, 0.0, True
        if k % every == 0:
            torques.append(linkage.torques(x, dx, ddy, effort))
    return torques, min(margins), False


def asked(linkage, mechanism, curves):
    """The curves as a user gives them: angles by their names, both coordinates of a point as its path."""
    start = dict(zip(mechanism.coordinate_names, map(float, mechanism.reference), strict=True))
    desired = {}
    for name, (y, dy, ddy) in curves.items():
        point = name[2:]
        if name in linkage.bodies:
            desired[f"of_{name}"] = start[f"of_{name}"] + y, dy, ddy
        elif {f"x_{point}", f"y_{point}"} <= set(curves):
            both = zip(curves[f"x_{point}"], curves[f"y_{point}"], strict=True)
            desired[f"point:{point}"] = tuple(np.stack(columns, axis=1) for columns in both)
        else:
            desired[name] = y, dy, ddy
    return desired


def check_torques(kind, names, seeds, spare=(), most=0.25):
    """Torques of the motors, and of some more, against those of least effort; at most this share is refused."""
    t, refused = np.linspace(0.0, 0.4, 9), 0
    for seed in seeds:
        linkage, rng = drawn(kind, seed), np.random.default_rng(seed)
        linkage = replace(linkage, driven=linkage.driven + spare)
        effort = {name: float(10 ** rng.uniform(-0.5, 0.5)) if spare else 1.0 for name in linkage.driven}
        mechanism = linkage.mechanism()
        curves, torques, margin = following(linkage, names, effort, rng, t)
        try:
            found = fgmbs.inverse_dynamics(
                mechanism,
                t,
                asked(linkage, mechanism, curves),
                effort={f"motor_{name}": size for name, size in effort.items()},
            )
        except fgmbs.SolveError:
            assert margin < 0.02, f"seed {seed} refused far from any dead centre, margin {margin}"
            refused += 1
            continue
        assert torques is not None, f"seed {seed}: nothing has this motion"
        error, scale = np.abs(found.forces - np.array(torques)).max(), np.abs(torques).max()
        assert error <= 1e-12 * scale * max(1.0, 0.02 / margin**2), f"seed {seed}: {error / scale}, margin {margin}"
    assert refused <= len(seeds) * most


@pytest.mark.slow
@pytest.mark.parametrize("kind", linkages.KINDS)
def test_torques_of_motors(kind):
    check_torques(kind, kind(np.random.default_rng(0)).driven, range(EACH))


def test_torques_along_a_path():
    check_torques(linkages.stephenson, linkages.PATHS[linkages.stephenson], range(6), most=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", linkages.KINDS)
def test_torques_along_many_paths(kind):
    check_torques(kind, linkages.PATHS[kind], range(EACH), most=0.5)


def test_torques_of_least_effort():
    kind = linkages.four_bar
    check_torques(kind, kind(np.random.default_rng(0)).driven, range(6), linkages.SECOND_MOTORS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("path", (False, True))
@pytest.mark.parametrize("kind", linkages.SECOND_MOTORS)
def test_torques_of_least_effort_of_many(kind, path):
    names = linkages.PATHS[kind] if path else kind(np.random.default_rng(0)).driven
    check_torques(kind, names, range(EACH), linkages.SECOND_MOTORS[kind], most=0.5 if path else 0.25)


@pytest.mark.slow
@pytest.mark.parametrize("kind", linkages.KINDS)
def test_motions(kind):
    for seed in range(EACH):
        rng = np.random.default_rng(seed)
        linkage = drawn(kind, seed)
        mechanism, x = linkage.mechanism(), linkage.drawn
        rates = {name: float(rng.normal(0.0, 2.0)) for name in linkage.driven}
        starts = {f"of_{name}": rate for name, rate in rates.items()}
        found = fgmbs.simulate(mechanism, 0.5, 5e-4, start_velocities=starts, throw=False)
        moved, _ = linkage.motion(x, linkage.velocities(x, rates), np.asarray(found.t[::100]))
        margin = min(linkage.margin(x) for x in moved)
        expected = np.array([linkage.seen_at(x) for x in moved])
        bodies = len(linkage.bodies)
        q = np.asarray(found.q[::100]) - np.append(np.zeros(mechanism.n - bodies), mechanism.reference[-bodies:])
        turns = np.round((q[:, -bodies:] - expected[:, -bodies:]) / (2 * np.pi))
        q[:, -bodies:] -= 2 * np.pi * turns
        if found.status == Status.converged:
            size = max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(q, expected, rtol=0, atol=1e-7 * size, err_msg=f"seed {seed}, margin {margin}")
        else:
            assert margin < 0.02, f"seed {seed} ended with {found.status}"
