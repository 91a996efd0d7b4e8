"""A robot answers as every mechanism does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import tree
from fgmbs.mechanisms.base import AbstractMechanism
from fgmbs.mechanisms.tree.description import Joint, Link, Mimic, RobotDescription

_BOX = ((0.02, 0.0, 0.0), (0.0, 0.03, 0.0), (0.0, 0.0, 0.04))


def described(*joints, **options):
    """A chain of equal links on these joints."""
    links = [Link("ground"), *(Link(f"link{k}", 1.0 + k, (0.1, 0.2, 0.3), _BOX) for k in range(len(joints)))]
    named = [
        Joint(f"joint{k}", joint.pop("kind"), links[k].name, links[k + 1].name, **joint)
        for k, joint in enumerate(map(dict, joints))
    ]
    return fgmbs.robot(RobotDescription("chain", tuple(links), tuple(named), **options))


@pytest.fixture(scope="module")
def mixed():
    """Every kind of joint, with friction and a spring."""
    return described(
        dict(kind="floating"),
        dict(kind="spherical", damping=0.1),
        dict(kind="screw", axis=(0.0, 0.6, 0.8), pitch=0.2, friction=0.3),
        dict(kind="prismatic", axis=(0.0, 1.0, 0.0), stiffness=20.0, spring_reference=0.1, damping=0.5),
        dict(kind="revolute", axis=(0.0, 0.0, 1.0), rotor_inertia=1e-4, gear_ratio=50.0),
    )


@pytest.fixture(scope="module")
def state(mixed):
    v, dq = np.random.default_rng(0).standard_normal((2, mixed.nv)) * 0.5
    return mixed.retract(mixed.reference, jnp.asarray(v)), jnp.asarray(dq)


def test_forces_are_those_of_the_energies(mixed, state):
    """d/dt of the momentum along the velocities: the power of all forces is that of friction."""
    q, dq = state
    ddq, _ = eqx.filter_jit(fgmbs.acceleration)(mixed, q, dq, 0.0)

    def total(s):
        moved = mixed.retract(q, s * dq)
        return sum(fgmbs.energy(mixed, moved, dq + s * ddq))

    there, power = jax.jit(jax.value_and_grad(total))(0.0)
    rates = dq[jnp.asarray(mixed.topology.velocity_of_column)]
    lost = rates @ mixed.evaluated().numbers.friction(rates)
    np.testing.assert_allclose(power, -lost, rtol=1e-9)
    np.testing.assert_allclose(sum(tree.energies(mixed, q, dq)), there, rtol=1e-12)


@pytest.mark.parametrize("floats", [True, False])
def test_frames_move_as_their_places_do(mixed, floats):
    """Closed forms beside derivatives along the motion, and how they change: of a link, and of the ground."""
    joints = dict(kind="revolute", axis=(0.0, 0.6, 0.8)), dict(kind="prismatic", mimic=Mimic("joint0", 0.3, 0.1))
    robot = mixed if floats else described(*joints, dict(kind="spherical"), dict(kind="screw", pitch=0.2))
    at, change = jnp.asarray(np.random.default_rng(1).standard_normal((2, 3, robot.nv)))

    def moved(motion):
        def frames(v, dq, ddq):
            q = robot.retract(robot.reference, v)
            return [motion(robot, link, q, dq, 0.3, ddq) for link in ("ground", robot.body_names[-1])]

        return jax.jit(lambda at, change: jax.jvp(lambda at: frames(*at), (at,), (change,)))(at, change)

    found, expected = moved(type(robot).body_motion), moved(AbstractMechanism.body_motion)
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * (1 + np.abs(other).max()))
    state = "link1", robot.reference, at[1], 0.0
    found, expected = robot.body_motion(*state), AbstractMechanism.body_motion(robot, *state)
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_closed_derivatives_of_all_joints(mixed, state):
    q, dq = state
    ddq = jnp.cos(jnp.arange(mixed.nv))

    def plain(v, dq, ddq):
        from fgmbs.mechanisms.tree.kernels.inverse import forces_of_motion

        return forces_of_motion(*mixed.of, mixed.retract(q, v), dq, ddq)

    expected = jax.jit(jax.jacfwd(plain, (0, 1, 2)))(jnp.zeros(mixed.nv), dq, ddq)
    for found, slopes in zip(tree.inverse_dynamics_jacobians(mixed, q, dq, ddq), expected, strict=True):
        np.testing.assert_allclose(found, slopes, atol=1e-11)

    @jax.jit
    def accelerations(v, dq):
        return fgmbs.acceleration(mixed, mixed.retract(q, v), dq, 0.0)[0]

    by_rule = jax.jacfwd(accelerations)(jnp.zeros(mixed.nv), dq)
    direction = jnp.sin(jnp.arange(mixed.nv))
    step = 1e-5
    there, back = (accelerations(s * step * direction, dq) for s in (1, -1))
    np.testing.assert_allclose(by_rule @ direction, (there - back) / (2 * step), rtol=1e-5, atol=1e-6)


def test_names_and_units(mixed):
    assert mixed.n == 14 and mixed.nv == 12 and len(mixed.vectors) == 12
    assert mixed.coordinate_units == ("m",) * 3 + ("1",) * 8 + ("rad", "m", "rad")
    assert mixed.velocity_units[:6] == ("rad/s",) * 3 + ("m/s",) * 3
    assert mixed.actuator_names == ("joint2", "joint3", "joint4")
    assert mixed.actuator_units == ("N m", "N", "N m")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["double_pendulum/double_pendulum.urdf", "anymal_b/anymal_b.urdf"])
def test_a_thrown_body_keeps_its_momentum_and_energy(robots, name):
    robot = fgmbs.load(robots / name, floating=True)
    robot = robot.with_parameters(
        {key: 0.0 for key in robot.physical_parameters() if key.endswith((".damping", ".friction"))}
    )
    base = robot.velocity_names[0].split(".")[0]
    rates = {f"{base}.wx": 1.0, f"{base}.wy": 3.0, f"{base}.vz": 2.0} | dict.fromkeys(robot.velocity_names[6:], 0.5)
    motion = fgmbs.simulate(robot, 0.25, 2.5e-4, start_velocities=rates)
    robot = robot.evaluated()
    kept = jax.vmap(lambda q, dq: (tree.momentum(robot, q, dq), fgmbs.energy(robot, q, dq)))
    h, (kinetic, potential) = jax.tree.map(np.asarray, jax.jit(kept)(motion.q, motion.dq))
    falls = np.zeros_like(h)
    falls[:, 5] = -9.81 * np.sum(np.asarray(robot.parameters.masses)) * np.asarray(motion.t)
    assert np.max(np.abs(h - h[0] - falls)) < 1e-10 * np.max(np.abs(h))
    assert np.ptp(kinetic + potential) < 1e-8 * np.max(kinetic)
    assert np.max(np.abs(np.sum(np.asarray(motion.q)[:, 3:7] ** 2, axis=1) - 1)) < 1e-14


def test_inverse_of_a_simulated_motion(robots):
    """What drives a motion without motors is nothing."""
    robot = fgmbs.load(robots / "puma560" / "puma560.urdf")
    motion = fgmbs.simulate(robot, 0.2, 1e-3, start={"joint2": 0.3})
    tau = jax.vmap(lambda *state: tree.inverse_dynamics(robot, *state))(motion.q, motion.dq, motion.ddq)
    assert np.max(np.abs(tau)) < 1e-9
    one = eqx.tree_at(lambda r: r.parameters.gravity, robot, jnp.zeros(3))
    assert np.max(np.abs(tree.bias(one, motion.q[0], motion.dq[0]))) < 1e-12
