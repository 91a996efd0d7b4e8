"""Random linkages against a formulation of their own: accelerations, joint forces, motors, motions."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import random_linkages as linkages

import fgmbs
from fgmbs.status import Status

EACH = 46
"""Of each kind, in the slow tests: 506 linkages."""


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
    expected, multipliers, _ = linkage.accelerations(x, dx)
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


def following(linkage, rng, t):
    """(angles since the drawing with derivatives of the driven bodies, torques, least margin), if they can be."""
    angles = {}
    for name in linkage.driven:
        size, w = rng.uniform(-0.15, 0.15), rng.uniform(4.0, 12.0)
        angles[name] = size * np.sin(w * t), size * w * np.cos(w * t), -size * w**2 * np.sin(w * t)
    x, torques, margins = linkage.drawn, [], []
    for k in range(len(t)):
        x = linkage.closed(x, {name: angle[k] for name, (angle, _, _) in angles.items()})
        if np.abs(linkage.rows(x, 0 * x)[0]).max() > 1e-12:
            return angles, None, 0.0
        dx = linkage.velocities(x, {name: rate[k] for name, (_, rate, _) in angles.items()})
        torques.append(linkage.accelerations(x, dx, {name: a[k] for name, (_, _, a) in angles.items()})[2])
        margins.append(linkage.margin(x, linkage.driven))
    return angles, np.array(torques), min(margins)


@pytest.mark.slow
@pytest.mark.parametrize("kind", linkages.KINDS)
def test_torques_of_motors(kind):
    t, refused = np.linspace(0.0, 0.4, 9), 0
    for seed in range(EACH):
        linkage = drawn(kind, seed)
        mechanism = linkage.mechanism()
        angles, torques, margin = following(linkage, np.random.default_rng(seed), t)
        start = dict(zip(mechanism.coordinate_names, map(float, mechanism.reference), strict=True))
        desired = {f"of_{name}": (start[f"of_{name}"] + y, dy, ddy) for name, (y, dy, ddy) in angles.items()}
        try:
            found = fgmbs.inverse_dynamics(mechanism, t, desired)
        except fgmbs.SolveError:
            assert margin < 0.02, "refused far from any dead centre"
            refused += 1
            continue
        assert torques is not None, "nothing has this motion"
        scale = np.abs(torques).max()
        np.testing.assert_allclose(found.forces, torques, rtol=0, atol=1e-12 * scale * max(1.0, 0.02 / margin**2))
    assert refused < EACH / 4


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
