"""Mechanisms on manifolds, n = 7 and nv = 6, through every question: exact motions, MuJoCo, the planar family."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from families import LabelledPendulum, SphericalPendulum, rigid_body, rotation, spherical_pendulum

import fgmbs
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.driven.first_pose import freedom_left

DT = 5e-3
T = np.arange(101) * DT
ARM = 0.5
SPIN = {"w_x": 2.0, "w_y": 1.0, "w_z": 3.0}

rotations = jax.jit(jax.vmap(lambda q: rotation(q[3:])))


@pytest.fixture(scope="module")
def tumbling():
    """A free body turns about its middle axis, which is unstable."""
    body = rigid_body(weight=(0.0, 0.0, 0.0))
    return fgmbs.simulate(body, 2.0, DT, start_velocities={"v_x": 1.0, "w_x": 0.3, "w_y": 5.0, "w_z": 0.4})


@pytest.fixture(scope="module")
def pendulum():
    return LabelledPendulum(rigid_body(), jnp.array([0.0, 0.0, ARM]))


@pytest.fixture(scope="module")
def swinging(pendulum):
    """It swings and spins."""
    return fgmbs.simulate(pendulum, T[-1], DT, start_velocities=SPIN)


@pytest.mark.slow
class TestTumblingBody:
    def test_energy_and_momentum_are_kept(self, tumbling):
        """By a rule of fourth order: 1e-10 where measured."""
        spin = np.einsum("kij,kj->ki", rotations(tumbling.q), tumbling.mechanism.inertia * tumbling.dq[:, 3:])
        assert np.ptp(tumbling.kinetic) <= 1e-9 * tumbling.kinetic[0]
        np.testing.assert_allclose(spin, np.broadcast_to(spin[0], spin.shape), atol=1e-9 * np.linalg.norm(spin[0]))
        np.testing.assert_allclose(tumbling.q[:, 0], tumbling.t, atol=1e-12)

    def test_quaternion_stays_on_its_sphere(self, tumbling):
        np.testing.assert_allclose(np.sum(tumbling.q[:, 3:] ** 2, axis=1), 1, atol=1e-14)

    def test_a_symmetric_top_precesses_as_it_must(self):
        """w_z stays, (w_x, w_y) turns with Ω = (A − C)/A w_z in the body, and the axis about the angular momentum."""
        A, C, w = 0.05, 0.03, np.array([0.7, 0.0, 6.0])
        body = rigid_body(inertia=(A, A, C), weight=(0.0, 0.0, 0.0))
        top = fgmbs.simulate(body, 2.0, DT, start_velocities=dict(zip(("w_x", "w_y", "w_z"), w, strict=True)))
        rate = (A - C) / A * w[2]
        expected = np.stack([w[0] * np.cos(rate * top.t), -w[0] * np.sin(rate * top.t), np.full(len(top.t), w[2])], 1)
        np.testing.assert_allclose(top.dq[:, 3:], expected, atol=2e-8)
        L = np.array([A * w[0], 0, C * w[2]])
        turn, axis = np.linalg.norm(L) / A * np.asarray(top.t), L / np.linalg.norm(L)
        e = np.array([0.0, 0.0, 1.0])  # the axis of the body at the start turns about L by Rodrigues' formula
        around = (
            e * np.cos(turn)[:, None]
            + np.cross(axis, e) * np.sin(turn)[:, None]
            + axis * (axis @ e) * (1 - np.cos(turn))[:, None]
        )
        np.testing.assert_allclose(rotations(top.q)[:, :, 2], around, atol=1e-7)


@pytest.mark.slow
class TestPendulum:
    def test_constraints_hold_to_rounding(self, swinging):
        assert np.max(swinging.constraint_norm) <= 1e-14
        assert np.max(swinging.velocity_constraint_norm) <= 1e-13

    def test_energy_is_kept(self, swinging):
        total = swinging.kinetic + swinging.potential
        assert np.ptp(total) <= 1e-7 * np.max(swinging.kinetic)

    def test_moves_as_in_mujoco(self, pendulum, swinging):
        """A ball joint, RK4 at a tenth of a millisecond."""
        ixx, iyy, izz = np.asarray(pendulum.body.inertia)
        model = mujoco.MjModel.from_xml_string(
            f"""<mujoco><option timestep="1e-4" integrator="RK4" gravity="0 0 -9.81"/><worldbody>
            <body pos="0 0 -{ARM}"><joint type="ball" pos="0 0 {ARM}" armature="0" damping="0"/>
            <inertial pos="0 0 0" mass="2" diaginertia="{ixx} {iyy} {izz}"/></body></worldbody></mujoco>"""
        )
        data = mujoco.MjData(model)
        data.qvel[:] = list(SPIN.values())
        frames = []
        for k in range(round(T[-1] / 1e-4) + 1):
            if k % 50 == 0:
                frames.append(data.qpos.copy())
            mujoco.mj_step(model, data)
        np.testing.assert_allclose(swinging.q[:, 3:], frames, atol=1e-6)

    def test_in_a_plane_it_is_the_planar_pendulum(self, pendulum):
        """About its y axis: the same angle as a rod of the planar family, with the same inertia and arm."""
        mass, inertia = float(pendulum.body.mass), float(pendulum.body.inertia[1])
        flat = PlanarMechanism.from_description(
            parse_mechanism(
                f"""
points: [{{name: O, x: 0, y: 0, fixed: true}}, {{name: P, x: 0, y: -{ARM}}}]
planar_bodies: [{{name: rod, points: [O, P], length: {ARM}, mass: {mass},
                 I0: {inertia + mass * ARM**2}, cog: [{ARM}, 0]}}]
"""
            )
        )
        speed = 3.0
        plane = fgmbs.simulate(flat, 1.0, DT, start_velocities={"x_P": speed * ARM})
        space = fgmbs.simulate(pendulum, 1.0, DT, start_velocities={"w_y": -speed})
        # In space x and z are what x and y are in the plane.
        np.testing.assert_allclose(space.q[:, [0, 2]], plane.q, atol=2e-8)
        np.testing.assert_allclose(space.q[:, 1], 0, atol=1e-12)

    def test_steps_are_the_elimination_of_the_whole_graph(self, pendulum, swinging):
        whole = fgmbs.simulate(pendulum, T[-1], DT, start_velocities=SPIN, batch=True)
        np.testing.assert_allclose(whole.q, swinging.q, atol=1e-9)

    def test_derivatives_equal_differences(self, pendulum):
        def final(mass):
            body = rigid_body()
            heavier = LabelledPendulum(
                type(body)(body.mass * mass, body.inertia, body.weight), jnp.array([0.0, 0.0, ARM])
            )
            return fgmbs.simulate(heavier, 0.1, DT, start_velocities=SPIN).q[-1]

        x, h = jnp.asarray(1.2), 1e-4
        expected = (np.asarray(final(x + h)) - np.asarray(final(x - h))) / (2 * h)
        np.testing.assert_allclose(jax.jit(jax.jacfwd(final))(x), expected, atol=1e-8)
        np.testing.assert_allclose(jax.jit(jax.jacrev(final))(x), expected, atol=1e-8)


def test_soft_constraints_are_refused(pendulum):
    with pytest.raises(
        fgmbs.ArgumentError, match="expected 'chart' for a mechanism whose configurations are no vector"
    ):
        fgmbs.simulate(pendulum, 0.1, DT, coordinates="dependent")


def rates_of_coordinates(motion):
    """(values, velocities, accelerations) of all coordinates."""
    mechanism = motion.mechanism

    def rates(q, dq):
        return mechanism.coordinate_rates(q) @ dq

    @jax.jit
    @jax.vmap
    def both(q, dq, ddq):
        first = rates(q, dq)
        return first, jax.jvp(rates, (q, dq), (first, ddq))[1]

    return motion.q, *both(motion.q, motion.dq, motion.ddq)


def test_freedom_of_a_traced_mechanism_is_that_of_its_description():
    class Described(SphericalPendulum):
        @property
        def described(self):
            return spherical_pendulum()

    found = []
    jax.eval_shape(lambda arm: found.append(freedom_left(Described(rigid_body(), arm), (0, 1), 0.0)), jnp.ones(3))
    assert found == [1]  # the turn about the vertical


@pytest.mark.slow
def test_inverse_dynamics_of_a_free_motion_needs_no_force(pendulum, swinging):
    """Followed are three coordinates of the quaternion; torques act along the angular velocities."""
    values = rates_of_coordinates(swinging)
    desired = {name: tuple(x[:, 4 + k] for x in values) for k, name in enumerate(("e1", "e2", "e3"))}
    inverse = fgmbs.inverse_dynamics(pendulum, T, desired, ["w_x", "w_y", "w_z"])
    np.testing.assert_allclose(inverse.q, swinging.q, atol=1e-12)
    np.testing.assert_allclose(inverse.dq, swinging.dq, atol=1e-11)
    np.testing.assert_allclose(inverse.forces, 0, atol=1e-9)


@pytest.mark.slow
def test_hybrid_dynamics_and_its_forces_fed_back(pendulum):
    """The centre goes to and fro along x, driven by one torque; the rest moves as dynamics says."""

    def way(t):
        return 0.1 * (1 - jnp.cos(3 * t))

    driven = fgmbs.hybrid_dynamics(pendulum, T, motion={"x": way}, actuators=["w_y"])
    np.testing.assert_allclose(driven.q[:, 0], way(T), atol=1e-12)
    assert np.max(driven.constraint_norm) <= 1e-14
    again = fgmbs.hybrid_dynamics(pendulum, T, forces=driven.commands, **driven.state(0))
    np.testing.assert_allclose(again.q, driven.q, atol=1e-8)
