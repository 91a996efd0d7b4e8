"""The rigs against published matrices, MuJoCo, equations written otherwise, and what is known of their recordings."""

import dfki_spikes
import equinox as eqx
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import single_shooting
from dfki_identification import worn
from rigs import dfki, furuta, ibm

import fgmbs

FURUTA, DFKI = furuta.Furuta(), dfki.design_a()
RNG = np.random.default_rng(0)
STATES = RNG.uniform(-np.pi, np.pi, (20, 2)), RNG.uniform(-8, 8, (20, 2))


@eqx.filter_jit
def equations(rig, q, dq):
    """M, Q, accelerations, and the rate of energy that these mean, at every state."""

    def one(q, dq):
        M, Q = rig.mass_matrix(q), rig.forces(q, dq, 0.0)
        det = M[0, 0] * M[1, 1] - M[0, 1] * M[1, 0]
        ddq = jnp.array([M[1, 1] * Q[0] - M[0, 1] * Q[1], M[0, 0] * Q[1] - M[1, 0] * Q[0]]) / det
        rate = jax.jvp(lambda q, dq: rig.kinetic(q, dq) + rig.potential(q), (q, dq), (dq, ddq))[1]
        return M, Q, ddq, rate

    return jax.vmap(one)(jnp.asarray(q), jnp.asarray(dq))


@pytest.mark.parametrize("rig", [FURUTA, DFKI], ids=["furuta", "dfki"])
def test_energy_changes_by_friction_only(rig):
    q, dq = STATES
    M, _, _, rate = equations(rig, q, dq)
    np.testing.assert_allclose(M, M.swapaxes(1, 2), rtol=1e-12)
    assert (np.linalg.eigvalsh(M) > 0).all()
    drag = rig.drag if rig is FURUTA else 0.0
    losses = rig.viscous * dq + rig.coulomb * np.tanh(dq / 0.05) + drag * np.abs(dq) * dq
    np.testing.assert_allclose(rate, -np.sum(losses * dq, axis=1), rtol=1e-9)


def test_friction_under_load():
    """Energy of the worn double pendulum: friction takes more of it where weight turns a joint; a torque pushes."""
    rig = eqx.tree_at(lambda r: (r.load, r.offset), worn(), (jnp.array([0.1, 0.3]), jnp.array([0.2, -0.1])))
    q, dq = STATES
    weight = np.abs(jax.vmap(jax.grad(rig.potential))(jnp.asarray(q)))
    dry = rig.coulomb + rig.load * np.sqrt(weight**2 + 1e-4)
    losses = rig.viscous * dq + dry * np.tanh(dq / 0.05) + rig.offset
    np.testing.assert_allclose(equations(rig, q, dq)[3], -np.sum(losses * dq, axis=1), rtol=1e-9)


def test_a_simple_pendulum_loses_energy_by_friction_only():
    rig = dfki.SimplePendulum(0.19, 0.38, 0.02, 0.16)
    q, dq = (np.asarray(part[:, :1]) for part in STATES)
    ddq = jax.vmap(lambda q, dq: rig.forces(q, dq, 0.0) / rig.mass_matrix(q)[0])(q, dq)
    rate = 0.19 * dq * ddq + 9.81 * 0.38 * np.sin(q) * dq
    np.testing.assert_allclose(rate, -(0.02 * dq + 0.16 * np.tanh(dq / 0.05)) * dq, rtol=1e-9)
    slopes = jax.vmap(jax.grad(rig.potential))(q)
    np.testing.assert_allclose(slopes, 9.81 * 0.38 * np.sin(q), rtol=1e-12)


def test_a_furuta_pendulum_that_leans_rests_where_it_is_lowest():
    """Its arm points downhill, and the pendulum stays in the vertical plane through it."""
    lean = 0.1
    for tilt, arm in (((lean, 0.0), 0.0), ((0.0, lean), np.pi / 2)):
        rig = furuta.Furuta(tilt=tilt, viscous=(0.0, 0.0), coulomb=(0.0, 0.0), drag=(0.0, 0.0))
        at = np.tile([arm, 0.0], (20, 1))
        np.testing.assert_allclose(equations(rig, at, np.zeros((20, 2)))[1], 0.0, atol=1e-15)
        turned = equations(rig, at + [0.01, 0.0], np.zeros((20, 2)))[1][0, 0]
        downhill = rig.gravity * np.sin(lean) * (rig.m1 * rig.l1 + rig.m2 * rig.L1)
        assert float(turned) == pytest.approx(-float(downhill) * np.sin(0.01), rel=1e-9)


MUJOCO = f"""
<mujoco>
  <compiler angle="radian" inertiafromgeom="false"/>
  <option gravity="0 0 -9.81"/>
  <worldbody>
    <body>
      <joint axis="0 0 1"/>
      <inertial pos="{FURUTA.l1} 0 0" mass="{FURUTA.m1}" diaginertia="{FURUTA.J1} {FURUTA.J1} {FURUTA.J1}"/>
      <body pos="{FURUTA.L1} 0 0">
        <joint axis="1 0 0"/>
        <inertial pos="0 0 -{FURUTA.l2}" mass="{FURUTA.m2}" diaginertia="{FURUTA.J2} {FURUTA.J2} 1e-14"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def test_furuta_pendulum_is_that_of_mujoco():
    model = mujoco.MjModel.from_xml_string(MUJOCO)
    data = mujoco.MjData(model)
    rig = furuta.Furuta(viscous=(0.0, 0.0), coulomb=(0.0, 0.0), drag=(0.0, 0.0))
    accelerations = equations(rig, *STATES)[2]
    for q, dq, ddq in zip(*STATES, accelerations, strict=True):
        data.qpos, data.qvel = q, dq
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(ddq, data.qacc, rtol=1e-6, atol=1e-6)


def test_furuta_pendulum_swings_as_recorded():
    """Small swings while the arm is at rest: 87.45 ± 0.1 rad²/s², as experiments/furuta_differences.py finds."""
    M, Q, _, _ = equations(FURUTA, np.tile([0.0, 1e-4], (20, 1)), np.zeros((20, 2)))
    assert -Q[0, 1] / M[0, 1, 1] / 1e-4 == pytest.approx(87.45, abs=0.1)


@pytest.mark.parametrize("rig", [DFKI, dfki.design_c()], ids=["A.0", "C.1"])
def test_dfki_mass_matrix_is_the_published_one(rig):
    (I1, I2), m2, l1, r2, Ir, gr = rig.inertias, rig.masses[1], rig.l1, rig.centres[1], rig.rotor, 6
    M = equations(rig, *STATES)[0]
    for ours, c2 in zip(M, np.cos(STATES[0][:, 1]), strict=True):
        M12 = I2 + l1 * m2 * r2 * c2 - gr * Ir
        M11 = I1 + I2 + m2 * l1**2 + 2 * l1 * m2 * r2 * c2 + gr**2 * Ir + Ir
        np.testing.assert_allclose(ours, [[M11, M12], [M12, I2 + gr**2 * Ir]], rtol=1e-12)


def test_dfki_gravity_and_actuators():
    m, r, g = DFKI.masses, DFKI.centres, 9.81
    at_rest = equations(DFKI, STATES[0], np.zeros((20, 2)))[1]
    second = m[1] * r[1] * g * np.sin(STATES[0].sum(axis=1))
    first = (m[0] * r[0] + m[1] * DFKI.l1) * g * np.sin(STATES[0][:, 0])
    np.testing.assert_allclose(at_rest, -np.stack([first + second, second], axis=1), atol=1e-12)
    np.testing.assert_array_equal(DFKI.actuation(jnp.zeros(2), 0.0), np.eye(2))


def test_filmed_pendulum_has_the_ratios_of_the_fit():
    """The file in natural coordinates against the equations in angles that single shooting integrates."""
    mechanism = fgmbs.load(ibm.MECHANISM)

    @jax.jit
    def accelerations(angles, speeds):
        a, b = angles

        def coordinates(a, b):
            joint = 0.0913 * jnp.array([jnp.sin(a), -jnp.cos(a)])
            tip = joint + 0.0699 * jnp.array([jnp.sin(b), -jnp.cos(b)])
            return jnp.concatenate([joint, tip, jnp.array([a - jnp.pi / 2, b - a])])

        q, dq = jax.jvp(coordinates, (a, b), tuple(speeds))
        return fgmbs.acceleration(mechanism, q, dq, 0.0)[0][4:]

    for angles, speeds in zip(*STATES, strict=True):
        theta, phi = accelerations(jnp.asarray(angles), jnp.asarray(speeds))
        expected = single_shooting.rates(0.0, np.r_[angles, speeds], single_shooting.NOMINAL)[2:]
        np.testing.assert_allclose([theta, theta + phi], expected, rtol=2e-2, atol=0.3)  # ratios of three digits


class TestRecordings:
    def test_furuta(self, data_dir):
        recording = furuta.recording("sine_4V")
        assert set(recording) == {"arm", "pendulum", "arm_speed", "pendulum_speed", "u"}
        assert recording["pendulum_speed"].unit == "rad/s"
        assert np.ptp(recording["arm"].t) == pytest.approx(3.1, abs=0.1)
        assert "u" not in set(furuta.recording("free_2023"))

    def test_dfki(self, data_dir):
        recording = dfki.recording("A0_excite_00")
        assert recording["elbow_command"].unit == "N m" and len(recording["shoulder"]) == 4997
        assert set(dfki.recording("A0_tracking_75s")) == {
            f"{joint}{kind}" for joint in ("shoulder", "elbow") for kind in ("", "_speed", "_torque")
        }

    def test_simple_pendulum_is_lifted_by_the_spikes_of_its_torque(self, data_dir):
        """From hanging to upright: the median of seven samples did not half the work that the weight took alone."""
        clean, spiky = (dfki_spikes.read(name) for name in (dfki_spikes.CLEAN, dfki_spikes.SPIKY))
        assert len(dfki.simple_recording(dfki_spikes.SPIKY)["tau"]) == len(spiky["q"]) == 1170
        lifted = [dfki_spikes.lifted(recording, 0.37) for recording in (clean, spiky)]
        assert lifted == pytest.approx(2 * [2 * 9.81 * 0.37], rel=1e-3)
        with_spikes, without = ([dfki_spikes.work(one, spikes) for one in (clean, spiky)] for spikes in (True, False))
        assert np.all(np.array(with_spikes) > lifted)
        assert without[0] == pytest.approx(with_spikes[0], rel=0.02) and without[1] < 0.5 * lifted[1]

    def test_filmed_pendulum(self, data_dir):
        recording = ibm.recording(7)
        joint, tip = (np.stack([recording[f"{point}.{axis}"].values for axis in "xy"]) for point in ("joint", "tip"))
        assert np.linalg.norm(tip - joint, axis=0).mean() == pytest.approx(0.0699 * ibm.scale(7), rel=2e-3)
        # It ends at rest, hanging below the pivot.
        assert recording["tip.y"].values[-1] < recording["joint.y"].values[-1] < recording["pivot.y"].values[-1]


def test_single_shooting_fits_a_short_window(data_dir):
    window = single_shooting.Window(2, 8.0, 0.2)
    assert window.fit(window.guess)[1] < 2 * ibm.SIGMA
