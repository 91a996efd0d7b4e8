"""Hybrid dynamics against its two ends, dense algebra and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact import exact_inverse
from scipy.integrate import solve_ivp

import fgmbs
from fgmbs.dynamics.drive import Drive
from fgmbs.dynamics.forcing import force_directions
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

CART = """
points:
  - {name: C, x: 0, y: 0}
  - {name: P, x: 0.6, y: -0.8}
planar_bodies:
  - {name: rod, points: [C, P], length: 1, mass: 2, I0: mass*length^2/3, cog: [length/2, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [C, P]}
constraints:
  - {type: fixed_slider, point: C, line: [[-1, 0], [1, 0]]}
actuators:
  - {name: push, coordinate: x_C}
"""
T = np.arange(201) * 5e-3


@pytest.fixture(scope="module")
def cart():
    return PlanarMechanism.from_description(parse_mechanism(CART))


def sway(t):
    return 0.3 * (1 - jnp.cos(3 * t))


@pytest.fixture(scope="module")
def swayed(cart):
    """The cart goes to and fro, the rod on it swings as it likes."""
    return fgmbs.hybrid_dynamics(cart, T, motion={"x_C": sway})


@pytest.mark.slow
class TestCart:
    def test_free_coordinates_move_as_dynamics_says(self, swayed):
        # A uniform rod on a pivot with acceleration a: theta'' = 3/(2L) (a sin(theta) − g cos(theta)).
        def rates(t, x):
            return x[1], 1.5 * (2.7 * np.cos(3 * t) * np.sin(x[0]) - 9.81 * np.cos(x[0]))

        start = [np.arctan2(-0.8, 0.6), 0.0]
        exact = solve_ivp(rates, (0, 1), start, "DOP853", T, rtol=1e-11, atol=1e-12).y
        np.testing.assert_allclose(swayed.q[:, 4], exact[0], atol=1e-7)
        np.testing.assert_allclose(swayed.dq[:, 4], exact[1], atol=1e-6)
        np.testing.assert_allclose(swayed.q[:, 0], sway(T), atol=1e-12)

    def test_force_moves_the_centre_of_mass(self, swayed):
        acceleration = (swayed.ddq[:, 0] + swayed.ddq[:, 2]) / 2
        np.testing.assert_allclose(swayed.forces[:, 0], 2 * acceleration, atol=1e-9)

    def test_is_inverse_dynamics_of_its_own_motion(self, cart, swayed):
        motion = {name: (swayed.q[:, i], swayed.dq[:, i], swayed.ddq[:, i]) for i, name in ((0, "x_C"), (4, "theta"))}
        inverse = fgmbs.inverse_dynamics(cart, T, motion, ["push"])
        np.testing.assert_allclose(inverse.forces, swayed.forces, atol=1e-8)
        np.testing.assert_allclose(inverse.multipliers, swayed.multipliers, atol=1e-8)

    @pytest.mark.slow
    def test_is_forward_dynamics_of_its_own_force(self, cart, swayed):
        forward = fgmbs.hybrid_dynamics(cart, T, forces=swayed.commands, **swayed.state(0))
        np.testing.assert_allclose(forward.q, swayed.q, atol=1e-6)

    @pytest.mark.slow
    def test_known_force_beside_known_motion(self, cart):
        """A torque on the rod is known, the motion of the cart too: both have their part."""
        both = fgmbs.hybrid_dynamics(
            cart, T, motion={"x_C": sway}, forces={"theta": lambda t: 2 * jnp.sin(t)}, actuators=["push", "theta"]
        )
        np.testing.assert_allclose(both.forces[:, 1], 2 * np.sin(T), atol=1e-8)
        turn = 2 / 3 * both.ddq[:, 4] - both.ddq[:, 0] * jnp.sin(both.q[:, 4]) + 9.81 * jnp.cos(both.q[:, 4])
        np.testing.assert_allclose(turn, 2 * np.sin(T), atol=1e-8)

    def test_times_may_start_anywhere(self, cart, swayed):
        late = fgmbs.hybrid_dynamics(cart, T + 7.0, motion={"x_C": lambda t: sway(t - 7.0)})
        np.testing.assert_allclose(late.q, swayed.q, atol=1e-9)
        assert float(late.t[0]) == 7.0

    def test_start_of_the_free_coordinates(self, cart):
        result = fgmbs.hybrid_dynamics(
            cart, T, motion={"x_C": sway}, start={"theta": -1.0}, start_velocities={"theta": 0.5}
        )
        np.testing.assert_allclose([result.q[0, 4], result.dq[0, 4]], [-1.0, 0.5], atol=1e-12)


@pytest.mark.slow
def test_forces_by_expression_and_as_command_are_the_same(configs):
    text = (configs / "mechanisms" / "fourbar_crank_angle.yaml").read_text()
    pushed = PlanarMechanism.from_description(
        parse_mechanism(text + '\nforces:\n  - {angle: theta, torque: "30*cos(2*t)"}\n')
    )
    plain = PlanarMechanism.from_description(parse_mechanism(text))
    simulated = fgmbs.simulate(pushed, 1.0, 5e-3, integrator="hermite_simpson")
    commanded = fgmbs.hybrid_dynamics(plain, T, forces={"motor": lambda t: 30 * jnp.cos(2 * t)})
    np.testing.assert_allclose(commanded.q, simulated.q, atol=1e-9)


@pytest.mark.slow
def test_forces_found_reproduce_the_motion(configs):
    """Over one second: the motion is unstable, errors of the force grow thirtyfold in that time."""
    crank = load(configs / "mechanisms" / "fourbar_crank_angle.yaml")
    found = fgmbs.inverse_dynamics(crank, T, {"theta": 1.2 * (1 - np.cos(2 * T))})
    again = fgmbs.hybrid_dynamics(crank, T, forces=found.commands, **found.state(0))
    assert np.abs(again.q - found.q)[:, :4].max() < 1e-5


@pytest.mark.slow
def test_forces_found_reproduce_the_motion_of_the_robot_around_a_corner(configs):
    robot = load(configs / "mechanisms" / "parallel_robot.yaml")
    path = fgmbs.trajectories.polyline([[-0.5, -5.0], [-0.5, -4.0], [0.5, -4.0]], [0.0, 2.5, 5.0])
    t = np.linspace(0, 5, 1001)
    xy = np.asarray(fgmbs.trajectories.sample(path, t).y)
    found = fgmbs.inverse_dynamics(robot, t, {"point:foot_l": xy})
    again = fgmbs.hybrid_dynamics(robot, t, forces=found.commands, **found.state(0))
    assert np.abs(again.q - found.q).max() < 1e-5
    assert found.jumps.any()


@pytest.fixture(scope="module")
def states(configs):
    """Consistent states of a five-bar, with the torques of its motors by dense algebra."""
    arm = load(configs / "mechanisms" / "five_bar.yaml")
    rng = np.random.default_rng(0)
    places = [arm.coordinate_names.index(name) for name in ("theta_l", "theta_r")]
    y = np.asarray(arm.reference)[places] + 0.1 * rng.standard_normal((12, 2))
    dy, ddy = rng.standard_normal((2, 12, 2))
    t = np.arange(12) * 0.1

    def motors(q):
        return np.eye(len(q))[:, places]

    return arm, places, (y, dy, ddy), exact_inverse(arm, t, places, y, dy, ddy, arm.reference, motors)


@pytest.mark.parametrize("known", [0, 1])
def test_one_motion_and_the_other_force(states, known):
    """Of two motors and two coordinates, one of each is known: the rest is found, at single states."""
    arm, places, (_, _, ddy), (forces, q, dq, ddq) = states
    motors = "theta_l", "theta_r"
    other = 1 - known
    drive = Drive((motors[known],), (places[known],), jnp.ones(1))

    @jax.jit
    @jax.vmap
    def found(q, dq, ddy, force):
        t = jnp.zeros(())
        applied = force_directions(arm, q, t, (motors[other],))[:, 0] * force
        ddq, _, u = drive.motion(arm, q, dq, t, ddy[None], applied)
        return u[0], ddq

    u, accelerations = found(*map(jnp.asarray, (q, dq, ddy[:, known], forces[:, other])))
    np.testing.assert_allclose(u, forces[:, known], atol=1e-8)
    np.testing.assert_allclose(accelerations, ddq, atol=1e-8)


def message(call):
    with pytest.raises(fgmbs.ArgumentError) as caught:
        call()
    return str(caught.value)


class TestBadInput:
    @pytest.mark.parametrize(
        "options, expected",
        [
            ({}, "motion, forces: expected a known motion or known forces; found neither"),
            ({"motion": {"x_D": T}}, "motion: there is no coordinate 'x_D'"),
            ({"motion": {"x_C": T}, "actuators": ["pull"]}, "actuators: there is no actuator or coordinate 'pull'"),
            ({"motion": {"x_C": T}, "forces": {"push": T}}, "expected an actuator whose force is not known"),
            (
                {"forces": {"push": T}, "actuators": ["theta"]},
                "forces: expected names of actuators, 'theta'; found 'push'",
            ),
            ({"forces": {"push": T}, "actuators": ["push", "theta"]}, "none for 'theta'"),
            (
                {"forces": {"push": T[:9]}},
                "forces['push']: expected an array of shape (201,), one row per time; found (9,)",
            ),
            ({"forces": {"push": T * np.nan}}, "forces['push']: expected finite numbers; found nan at t[0] = 0 s"),
        ],
        ids=lambda x: None if isinstance(x, dict) else x[:40],
    )
    def test_options(self, cart, options, expected):
        assert expected in message(lambda: fgmbs.hybrid_dynamics(cart, T, **options))

    def test_uneven_times(self, cart):
        t = np.sort(np.random.default_rng(0).uniform(0, 1, 20))
        text = message(lambda: fgmbs.hybrid_dynamics(cart, t, motion={"x_C": sway}))
        assert "t: expected uniform times, because free coordinates are integrated over them" in text

    @pytest.mark.slow
    def test_motion_that_no_motor_can_make(self, cart):
        """A force across the guide does not move the cart."""
        with pytest.raises(fgmbs.SolveError, match="the desired motion is impossible with y_C alone: at t = "):
            fgmbs.hybrid_dynamics(cart, T, motion={"x_C": sway}, actuators=["y_C"])
