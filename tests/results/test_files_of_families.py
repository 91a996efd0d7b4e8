"""Results of families of a user's own, whose coordinates are no vector space and which no file describes."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from families import LabelledPendulum, SphericalPendulum, rigid_body, spherical_pendulum
from scipy.integrate import solve_ivp

from fgmbs import plots, results
from fgmbs.dynamics.forcing import force_directions
from fgmbs.errors import ArgumentError
from fgmbs.graph.given import Given
from fgmbs.inputs import RandomWalk
from fgmbs.problems.driven.desired import desired_motion
from fgmbs.problems.driven.driven_motion import driven_motion
from fgmbs.problems.driven.motors import chosen_motors
from fgmbs.problems.simulation.result import Simulation, observe
from fgmbs.problems.smooth.smoothed_motion import SensorFit, SmoothedMotion
from fgmbs.results.summaries import simulation_summary
from fgmbs.sensors import Gyroscope
from fgmbs.status import Status
from fgmbs.unknowns import Free

pytestmark = pytest.mark.slow

T = 41


def simulated(mechanism, dq, duration=0.4):
    """A motion by SciPy, as `simulate` returns it."""

    @jax.jit
    def rates(t, x):
        q, dq = x[:7], x[7:]
        return jnp.concatenate([mechanism.coordinate_rates(q) @ dq, mechanism.accelerations(q, dq, t)[0]])

    t = np.linspace(0, duration, T)
    start = np.concatenate([mechanism.reference, dq])
    x = jnp.asarray(solve_ivp(rates, (0, duration), start, "DOP853", t, rtol=1e-11, atol=1e-12).y.T)
    t, q, dq = jnp.asarray(t), x[:, :7], x[:, 7:]
    ddq = jax.vmap(lambda t, q, dq: mechanism.accelerations(q, dq, t)[0])(t, q, dq)
    return Simulation(
        coordinates="chart",
        integrator="HermiteSimpson",
        mechanism=mechanism,
        t=t,
        q=q,
        dq=dq,
        ddq=ddq,
        **observe(mechanism, t, q, dq),
        z=None,
        independent=None,
        covariance=jnp.tile(jnp.eye(18), (T, 1, 1)),
        iterations=jnp.ones(T, int),
        step_status=jax.tree.map(lambda leaf: jnp.full(T, leaf), Status.converged),
        status=Status.converged,
    )


@pytest.fixture(scope="module")
def body():
    return simulated(rigid_body(), np.array([1.0, 0.0, 2.0, 0.5, 3.0, -1.0]))


@pytest.fixture(scope="module")
def pendulum():
    return simulated(spherical_pendulum(), np.array([0.0, 0.5, 0.0, 1.0, 0.0, 2.0]))


@pytest.fixture(scope="module")
def estimate(body):
    """The motion of the body with a band that is round in local coordinates."""
    mechanism, T = body.mechanism, body.t.size
    E = jax.vmap(mechanism.coordinate_rates)(body.q)
    tangents = jax.vmap(lambda E: jax.scipy.linalg.block_diag(E, jnp.eye(7)))(E)
    sigma = jnp.concatenate([jnp.full(3, 0.01), jnp.full(3, 0.02), jnp.full(6, 0.1), jnp.full(1, 0.5)])
    sensor = Gyroscope("gyro", body="body", axes=("x", "y", "z"), sigma=0.1)
    times, rates = np.asarray(body.t), np.asarray(body.dq[:, 3:])
    fit = SensorFit(
        "gyro", sensor.units, np.zeros(T, int), times, rates + 0.1, rates, np.full((T, 3), -1.0), np.ones(T)
    )
    return SmoothedMotion(
        mechanism=mechanism,
        sensors=(sensor,),
        inputs=(RandomWalk("w_x", 1.0),),
        t=body.t,
        recording=jnp.zeros(T, int),
        q=body.q,
        dq=body.dq,
        ddq=body.ddq,
        multipliers=body.multipliers,
        forces=jnp.zeros((T, 1)),
        disturbance=0 * body.dq,
        commands=jnp.zeros((T, 0)),
        tangents=tangents,
        local_covariance=jnp.tile(jnp.diag(sigma**2), (T, 1, 1)),
        ddq_std=0 * body.ddq,
        multipliers_std=0 * body.multipliers,
        unknowns={},
        unknowns_std={},
        free=Free(),
        given=Given(),
        sizes=Free(),
        status=Status.converged,
        step_status=None,
        iterations=jnp.asarray(3),
        log_likelihood=jnp.asarray(0.0),
        cost_history=jnp.array([3.0, 2.0, 1.0]),
        groups=(),
        fits=(fit,),
        branches=(),
        notes=(),
        solved=None,
    )


def test_a_file_gives_back_the_whole_dataset(pendulum, body, estimate, tmp_path):
    for motion in (pendulum, body, estimate):
        motion.save(tmp_path / "out.nc")
        xr.testing.assert_identical(results.load_results(tmp_path / "out.nc"), results.to_dataset(motion))


def test_coordinates_and_velocities_have_names_and_units_of_their_own(body):
    dataset = results.to_dataset(body)
    assert tuple(dataset.coordinate.values) == body.mechanism.coordinate_names
    assert tuple(dataset.velocity.values) == body.mechanism.velocity_names
    assert dataset.unit.values.tolist() == ["m"] * 3 + ["1"] * 4
    assert dataset.velocity_unit.values.tolist() == ["m/s"] * 3 + ["rad/s"] * 3
    assert dataset["q"].dims == ("step", "coordinate")
    assert dataset["dq"].dims == dataset["ddq"].dims == dataset["reactions"].dims == ("step", "velocity")
    units = {name: dataset[name].units for name in ("q", "dq", "ddq", "reactions")}
    assert units == {"q": "m, 1", "dq": "m/s, rad/s", "ddq": "m/s², rad/s²", "reactions": "N, N m"}
    np.testing.assert_array_equal(dataset["dq"].sel(velocity="w_y"), body.dq[:, 4])
    axis = dataset.state.values.tolist()
    assert axis[:2] == ["v_x", "v_y"] and axis[6:8] == ["d v_x", "d v_y"] and axis[-1] == "dd w_z"


def test_a_family_that_tells_no_units_has_si(pendulum):
    dataset = results.to_dataset(pendulum)
    assert set(dataset.unit.values) == set(dataset.velocity_unit.values) == {"SI"}
    assert dataset["ddq"].units == dataset["reactions"].units == "SI"
    assert tuple(dataset.constraint.values) == ("pivot x", "pivot y", "pivot z")


def test_what_is_known_of_the_mechanism_stands_in_the_dataset(pendulum):
    dataset = results.to_dataset(pendulum)
    numbers = dict(zip(dataset.parameter.values.tolist(), dataset["parameters"].values.tolist(), strict=True))
    assert numbers["body.mass"] == 2.0 and numbers["body.inertia[1]"] == 0.05 and numbers["arm[2]"] == 0.5
    assert dataset.attrs["name"] == "SphericalPendulum" and dataset.attrs["driven"] == 0
    assert json.loads(dataset.attrs["bodies"]) == {} and "position" not in dataset
    with pytest.raises(ArgumentError, match="expected a mechanism that a file describes; found SphericalPendulum"):
        results.mechanism_of(dataset)


def test_positions_and_joint_forces_are_those_in_space(tmp_path):
    plain = spherical_pendulum()
    motion = simulated(LabelledPendulum(plain.body, plain.arm), np.array([0.0, 0.5, 0.0, 1.0, 0.0, 0.0]))
    dataset = results.to_dataset(motion)
    assert dataset["position"].dims == ("step", "point", "axis") and dataset.axis.values.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(dataset["position"].sel(point="centre"), motion.q[:, :3])
    assert dataset.fixed.values.tolist() == [True, False]
    assert "mechanism.png" in [path.name for path in plots.save_all(dataset, tmp_path)]

    motors, t = chosen_motors(motion.mechanism, ["w_x"]), motion.t
    wanted = desired_motion(motion.mechanism, t, {"point:centre": tuple(np.zeros((T, 3)) for _ in range(3))})
    assert wanted.followed == (0, 1, 2)
    driven = driven_motion(
        motion.mechanism,
        motors,
        t,
        (motion.q, motion.dq, motion.ddq),
        jnp.ones((T, 1)),
        motion.multipliers,
        wanted,
        iterations={"positions": jnp.asarray(1)},
        step_status=motion.step_status,
        status=Status.converged,
    )
    np.testing.assert_allclose(driven.motor_power[:, 0], motion.dq[:, 3], atol=1e-14)
    np.testing.assert_array_equal(driven.tracking_error, motion.q[:, :3])
    state = driven.state(5)
    assert list(state["start"])[-1] == "e3" and state["start_velocities"]["w_x"] == float(motion.dq[5, 3])
    dataset = results.to_dataset(driven)
    assert dataset.desired.values.tolist() == ["x", "y", "z"] and dataset.force_unit.values.tolist() == ["N m"]
    assert dataset["joint_forces"].dims == ("step", "pin", "axis") and dataset.pin.values.tolist() == ["body@pivot"]
    # Seen from the ground, the reaction on the centre is the force in the pivot.
    np.testing.assert_allclose(dataset["joint_forces"][:, 0], dataset["reactions"][:, :3], atol=1e-12)


def test_constraints_that_move_are_reported():
    class Shaken(SphericalPendulum):
        def constraints(self, q, t):
            return super().constraints(q, t).at[0].add(-0.01 * jnp.sin(t))

    still = spherical_pendulum()
    assert results.to_dataset(simulated(Shaken(still.body, still.arm), np.zeros(6))).attrs["driven"] == 1


def test_a_batch_has_members(body, tmp_path):
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), body)
    results.save(batch, tmp_path / "batch.nc")
    read = results.load_results(tmp_path / "batch.nc")
    assert read["dq"].dims == ("member", "step", "velocity") and read["parameters"].dims == ("member", "parameter")
    xr.testing.assert_equal(read.isel(member=1), results.to_dataset(body).drop_vars("rank_margin"))


def test_energy_is_in_balance(body, pendulum):
    """Also of the body, whose potential energy depends on coordinates of another number than velocities."""
    for motion in (body, pendulum):
        drift = results.energy_drift(results.to_dataset(motion))
        assert np.abs(drift).max() < 1e-8 * float(motion.kinetic.max())
        assert np.abs(motion.power).max() < 1e-9


def test_known_values_go_by_the_names_of_coordinates_and_velocities(body):
    dataset = results.to_dataset(body)
    truth = {"t": dataset.t.values, "x": body.q[:, 0] - 1, "e1": body.q[:, 4] - 2, "w_z": body.dq[:, 5] - 3}
    compared = results.with_truth(dataset, {name: np.asarray(value) for name, value in truth.items()})
    expected = {"q [m]": 1.0, "q [1]": 2.0, "dq [rad/s]": 3.0}
    assert results.rmse(compared) == pytest.approx(expected)
    labels = [axes.get_ylabel() for axes in plots.error_figure(compared).axes]
    assert labels == ["error of coordinates [mm, 10⁻³]", "error of velocities [mrad/s]"]
    said = simulation_summary(compared)
    assert "RigidBody: x, y, z, e0" in said and "RMSE q [1]" in said


def test_bands_are_those_of_the_coordinates(body, estimate):
    """Of a unit quaternion: half of those of the rotation, and none along itself."""
    assert estimate.q_std.shape == (T, 7) and estimate.dq_std.shape == (T, 6) and estimate.forces_std.shape == (T, 1)
    quaternion = np.asarray(body.q[:, 3:])
    np.testing.assert_allclose(estimate.q_std[:, :3], 0.01, rtol=1e-12)
    np.testing.assert_allclose(estimate.q_std[:, 3:], 0.01 * np.sqrt(1 - quaternion**2), atol=1e-12)
    np.testing.assert_allclose(estimate.dq_std, 0.1, rtol=1e-12)
    assert estimate.covariance.shape == (T, 14, 14)
    none = jnp.einsum("ti,tij,tj->t", quaternion, estimate.covariance[:, 3:7, 3:7], quaternion)
    np.testing.assert_allclose(none, 0, atol=1e-15)
    with pytest.raises(ArgumentError, match="expected a mechanism with pins"):
        estimate.joint_forces()


def test_an_estimate_is_reported(estimate):
    dataset = results.to_dataset(estimate)
    assert dataset["dq_std"].dims == ("step", "velocity") and dataset["q_std"].dims == ("step", "coordinate")
    assert dataset.force_unit.values.tolist() == ["N m"] and dataset["gyro.row"].values.tolist()[2] == "gyro.z"
    said = estimate.report()
    assert "RigidBody: x, y, z, e0, e1, e2, e3" in said and "- v_y: hardly observed" in said


def test_figures_are_drawn_without_the_mechanism(body, pendulum, estimate, tmp_path):
    drawn = [path.name for path in plots.save_all(results.to_dataset(pendulum), tmp_path / "a", animate=True)]
    assert drawn == ["motion.png", "constraints.png", "energy.png"]
    drawn = [path.name for path in plots.save_all(results.to_dataset(estimate), tmp_path / "b")]
    assert "coordinates.png" in drawn and "velocities.png" in drawn and "mechanism.png" not in drawn
    figure = plots.motion_figure(results.to_dataset(body))
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["position [m]", "coordinate [1]", "velocity [m/s]", "angular velocity [rad/s]"]
    assert [line.get_label() for line in figure.axes[3].lines] == ["w_x", "w_y", "w_z"]
    with pytest.raises(
        ArgumentError, match="expected positions of points in the plane or in space; SphericalPendulum has none"
    ):
        plots.mechanism_figure(results.to_dataset(pendulum))


def test_motors_are_forces_along_velocities(body):
    motors = chosen_motors(body.mechanism, ["w_y", "v_x"])
    A = force_directions(body.mechanism, body.q[0], 0.0, [motor.name for motor in motors])
    np.testing.assert_array_equal(A, np.eye(6)[:, [4, 0]])
    with pytest.raises(ArgumentError, match="actuators: there is no actuator or velocity 'e0'"):
        chosen_motors(body.mechanism, ["e0"])
    with pytest.raises(ArgumentError, match="coordinates that a force acts on: 'v_x'"):
        chosen_motors(body.mechanism, None)
