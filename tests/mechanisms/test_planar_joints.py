"""Forces in joints against Newton–Euler of each body, the balance of each pin, and statics by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.errors import ArgumentError
from fgmbs.io.planar.load import load, parse_mechanism
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.joints import pin_names
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism

FOURBAR = """
points:
  - {x: 0, y: 0, fixed: true, name: A}
  - {x: 0.7, y: 0.8, name: P}
  - {x: 1.3, y: 2.6, name: Q}
  - {x: 4, y: 0, fixed: true, name: B}
planar_bodies:
  - {name: crank, points: [A, P], mass: 1, I0: mass*length^2/3, cog: [length/2, 0.1]}
  - {name: coupler, points: [P, Q], mass: 2, I0: 0.6*mass*length^2, cog: [0.7*length, -0.2]}
  - {name: rocker, points: [B, Q], mass: 4, I0: mass*length^2/3, cog: [length/2, 0]}
"""
MOTOR = """
relative_coordinates: [{type: RelativeAngleAbsoluteDOF, points: [A, P], name: theta}]
forces: [{angle: theta, torque: 3.0}]
"""
# All that a body can meet: more points, sliders, attached points, gears, springs, dampers, given forces and torques.
RICH = """
gravity: [0.4, -9.7]
points:
  - {x: 0, y: 0, fixed: true, name: A}
  - {x: 1, y: 0.3, name: P}
  - {x: 1.9, y: 0.8, name: Q}
  - {x: 1.5, y: 1.4, name: R}
  - {x: 2.6, y: 0.2, name: S}
  - {x: 3.3, y: 0.9, name: T}
  - {x: 1.4, y: -0.5, fixed: true, name: B}
  - {x: 1.36, y: 0.5, name: K}
  - {x: 3.0, y: 0.3, name: H}
planar_bodies:
  - {name: crank, points: [A, P], mass: 1.2, I0: mass*length^2/3, cog: [length/2, 0.05]}
  - {name: plate, points: [P, Q, R], mass: 2.1, I0: 2.0, cog: [0.5, 0.2]}
  - {name: bar, points: [S, Q], mass: 0.8, I0: 0.6, cog: [0.4, -0.1]}
  - {name: wheel, points: [S, T], mass: 0.5, I0: 0.7, cog: [0.3, 0.1]}
  - {name: cover, points: [P, A], mass: 0.3, I0: 0.2, cog: [0.2, 0]}
  - {name: lever, points: [B, K], mass: 0.6, I0: 0.5, cog: [0.4, 0]}
relative_coordinates:
  - {type: RelativeAngleAbsoluteDOF, points: [A, P], name: theta}
  - {type: RelativeAngleDOF, points: [[Q, R], [Q, S]], name: phi}
  - {type: RelativeAngleAbsoluteDOF, points: [S, T], name: psi}
constraints:
  - {type: gear, angles: [psi, phi], ratio: -0.5}
  - {type: fixed_slider, point: S, line: [[2.6, 0.2], [3.6, 0.5]]}
  - {type: mobile_slider, point: K, line: [P, Q]}
  - {type: rigid, points: [S, T], point: H, offset: [0.4, -0.2]}
springs:
  - {points: [A, R], stiffness: 12, free_length: 1.0}
  - {angle: theta, stiffness: 3.0, free_angle: -0.4}
dampers:
  - {points: [R, T], damping: 1.5}
  - {angle: phi, damping: 0.7}
forces:
  - {point: R, force: [3*cos(t), -2]}
  - {point: H, force: [4, 7]}
  - {angle: theta, torque: 2.5}
  - {angle: phi, torque: 1.5*t}
  - {body: plate, torque: -1.1}
  - {body: bar, torque: 0.4*t}
"""


def parsed(text):
    return PlanarMechanism.from_description(parse_mechanism(text))


@jax.jit
def terms(mechanism, q, dq, t):
    """M, Φ_q, dΦ/dt, Q, A and c."""
    mechanism = mechanism.evaluated()
    rows = mechanism.constraint_jacobian(q, t), mechanism.constraint_rate(q, dq, t), mechanism.constraint_bias(q, dq, t)
    return mechanism.mass_matrix(q), mechanism.forces(q, dq, t), mechanism.actuation(q, t), *rows


FORCES = jax.jit(PlanarMechanism.joint_forces)


class State:
    """A mechanism as drawn, in motion, with the forces on its pins by name.

    Args:
        rates: Velocities by coordinate name; the others follow.
        u: Commands.
    """

    def __init__(self, mechanism, rates=None, t=0.7, u=()):
        self.mechanism, self.t, self.u = mechanism, jnp.asarray(t), jnp.asarray(u, dtype=float)
        self.q = mechanism.reference
        Phi_q, Phi_t = map(np.asarray, terms(mechanism, self.q, 0.0 * self.q, self.t)[3:5])
        chosen = [mechanism.coordinate_names.index(name) for name in rates or {}]
        rows = np.vstack([Phi_q, np.eye(mechanism.n)[chosen]])
        self.dq = jnp.asarray(np.linalg.lstsq(rows, [*-Phi_t, *(rates or {}).values()], rcond=1e-10)[0])
        self.ddq, self.lambda_ = self.solution(self.u)
        self.p, self.dp, self.ddp = (np.asarray(x) for x in self.moved())
        forces = FORCES(mechanism, *self.arguments)
        self.forces = dict(zip(pin_names(mechanism.description), np.asarray(forces), strict=True))

    def solution(self, u):
        """Accelerations and multipliers of least norm."""
        M, Q, A, Phi_q, rate, c = map(np.asarray, terms(self.mechanism, self.q, self.dq, self.t))
        np.testing.assert_allclose(rate, 0.0, atol=1e-12)
        matrix = np.block([[M, Phi_q.T], [Phi_q, np.zeros((len(c), len(c)))]])
        x = np.linalg.lstsq(matrix, np.concatenate([Q + A @ np.asarray(u), c]), rcond=1e-12)[0]
        return jnp.asarray(x[: len(Q)]), jnp.asarray(x[len(Q) :])

    def moved(self):
        """Positions, velocities and accelerations of all points; fixed points rest."""
        tables = [np.zeros((len(self.mechanism.point_names), 2)) for _ in range(2)]
        free = [i for i, point in enumerate(self.mechanism.description.points) if not point.fixed]
        for table, x in zip(tables, (self.dq, self.ddq), strict=True):
            table[free] = np.reshape(x[: 2 * len(free)], (-1, 2))
        return self.mechanism.point_positions(self.q), *tables

    @property
    def arguments(self):
        return self.q, self.dq, self.ddq, self.lambda_, self.t, self.u

    def at(self, point):
        """Sum of the forces on all bodies at a point."""
        return sum(force for name, force in self.forces.items() if name.endswith(f"@{point}"))


def turned(v):
    return np.array([-v[1], v[0]])


def cross(u, v):
    return u[0] * v[1] - u[1] * v[0]


def assert_newton_euler(state, torques=None):
    """m a = Σ F + m g at the centre of mass and I α = Σ r × F + torques about it, for every body.

    Args:
        torques: Couples on bodies by name, 0 for the others.
    """
    mechanism, torques = state.mechanism, torques or {}
    numbers = scopes.numbers(mechanism.description, mechanism.parameters)
    gravity = np.array([numbers["gravity.x"], numbers["gravity.y"]], dtype=float)
    for body, points in zip(mechanism.body_names, mechanism.body_points, strict=True):
        mass, I0, x, y = (float(numbers[f"{body}.{key}"]) for key in ("mass", "I0", "cog.x", "cog.y"))
        first, second = points[:2]
        d, dd, ddd = (table[second] - table[first] for table in (state.p, state.dp, state.ddp))
        e = d / np.linalg.norm(d)
        arm = x * e + y * turned(e)
        omega, alpha = cross(d, dd) / (d @ d), cross(d, ddd) / (d @ d)
        acceleration = state.ddp[first] + alpha * turned(arm) - omega**2 * arm
        forces = [state.forces[f"{body}@{mechanism.point_names[point]}"] for point in points]
        np.testing.assert_allclose(sum(forces) + mass * gravity, mass * acceleration, atol=1e-8, err_msg=body)
        moment = sum(cross(state.p[k] - state.p[first] - arm, f) for k, f in zip(points, forces, strict=True))
        expected = (I0 - mass * (x**2 + y**2)) * alpha
        np.testing.assert_allclose(moment + torques.get(body, 0.0), expected, atol=1e-8, err_msg=body)


def assert_pins_balanced(state, loads=None):
    """Σ of the forces on bodies at a free point = what else acts there, 0 where `loads` by name says nothing."""
    loads = loads or {}
    for name, point in zip(state.mechanism.point_names, state.mechanism.description.points, strict=True):
        if not point.fixed:
            np.testing.assert_allclose(state.at(name), loads.get(name, np.zeros(2)), atol=1e-8, err_msg=name)


def test_names_are_in_the_order_of_the_file(everything):
    names = ("crank@A", "crank@B", "coupler@B", "coupler@point2", "coupler@point4", "body2@D", "body2@point2")
    assert pin_names(everything.description) == (*names, "body3@point4", "body3@F")


PENDULUM = """
points: [{x: 0, y: 0, fixed: true, name: O}, {x: 1.5, y: 0, name: tip}]
planar_bodies: [{name: rod, points: [O, tip], mass: 2, I0: mass*length^2/3, cog: [length/2, 0]}]
"""


@pytest.mark.parametrize("angle, rate", [(-np.pi / 2, 0.0), (-np.pi / 2, 2.0), (0.0, 0.0), (0.6, -1.5)])
def test_pivot_of_a_pendulum(angle, rate):
    """A uniform rod pulls at its pivot with m (g sin + L ω²/2) along itself, and m g cos / 4 across."""
    e = np.array([np.cos(angle), np.sin(angle)])
    drawn = {"tip.x": 1.5 * e[0], "tip.y": 1.5 * e[1]}
    speed = 1.5 * rate * turned(e)
    state = State(parsed(PENDULUM).with_parameters(drawn), {"x_tip": speed[0], "y_tip": speed[1]})
    expected = 2 * (9.81 * e[1] - 1.5 / 2 * rate**2) * e + 2 * 9.81 * e[0] / 4 * turned(e)
    np.testing.assert_allclose(state.forces["rod@O"], expected, atol=1e-9)
    np.testing.assert_allclose(state.forces["rod@tip"], 0.0, atol=1e-9)


def test_motor_that_holds_a_rod_is_a_couple():
    """Level and at rest under the torque m g L/2, the pivot carries the weight and the tip nothing."""
    motor = """
relative_coordinates: [{type: RelativeAngleAbsoluteDOF, points: [O, tip], name: theta}]
forces: [{angle: theta, torque: 2*9.81*1.5/2}]
"""
    state = State(parsed(PENDULUM + motor))
    np.testing.assert_allclose(state.ddq, 0.0, atol=1e-10)
    np.testing.assert_allclose(state.forces["rod@O"], [0.0, 2 * 9.81], atol=1e-9)
    np.testing.assert_allclose(state.forces["rod@tip"], 0.0, atol=1e-9)


def test_two_bars_under_a_load_by_hand():
    """Bars of 3 kg at ±45° with 100 N on top: half of all weight on each foot; moments about the apex give the rest."""
    text = """
points: [{x: 0, y: 0, fixed: true, name: A}, {x: 1, y: 1, name: top}, {x: 2, y: 0, fixed: true, name: B}]
planar_bodies:
  - {name: left, points: [A, top], mass: 3, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: right, points: [top, B], mass: 3, I0: mass*length^2/3, cog: [length/2, 0]}
forces: [{point: top, force: [0, -100]}]
"""
    state = State(parsed(text))
    weight = 3 * 9.81
    up, inward = weight + 50, 50 + weight / 2
    np.testing.assert_allclose(state.forces["left@A"], [inward, up], atol=1e-8)
    np.testing.assert_allclose(state.forces["right@B"], [-inward, up], atol=1e-8)
    np.testing.assert_allclose(state.forces["left@top"], [-inward, -50], atol=1e-8)
    np.testing.assert_allclose(state.forces["right@top"], [inward, -50], atol=1e-8)


def test_four_bar_driven_at_its_crank():
    state = State(parsed(FOURBAR + MOTOR), {"theta": 2.0})
    assert_newton_euler(state, {"crank": 3.0})
    assert_pins_balanced(state)


def test_ground_carries_what_the_momentum_of_the_mechanism_lacks():
    """d/dt Σ m v = weight + forces of the ground; accelerations from second differences along a parabola."""
    state = State(parsed(FOURBAR + MOTOR), {"theta": 2.0})
    h = 1e-3
    numbers = scopes.numbers(state.mechanism.description, state.mechanism.parameters)

    def momentum_arm(s):
        """Σ m r at the positions s later, to second order."""
        p = state.p + s * state.dp + s**2 / 2 * state.ddp
        total = np.zeros(2)
        for body, (i, j) in zip(state.mechanism.body_names, state.mechanism.body_points, strict=True):
            e = (p[j] - p[i]) / np.linalg.norm(p[j] - p[i])
            total += float(numbers[f"{body}.mass"]) * (
                p[i] + float(numbers[f"{body}.cog.x"]) * e + float(numbers[f"{body}.cog.y"]) * turned(e)
            )
        return total

    rate = (momentum_arm(h) - 2 * momentum_arm(0.0) + momentum_arm(-h)) / h**2
    ground = state.forces["crank@A"] + state.forces["rocker@B"]
    np.testing.assert_allclose(ground + [0.0, -9.81 * 7], rate, atol=1e-4)  # h² truncation


@pytest.mark.slow
def test_everything_that_a_body_can_meet():
    """Springs on points load pins, those on angles are couples; sliders and attached points load the pins they hold."""
    state = State(parsed(RICH), rates={"theta": 1.3})
    mechanism, q, dq = state.mechanism, state.q, state.dq
    A, P, Q, R, S, T, _, K, _ = state.p
    theta, phi = (mechanism.coordinate_names.index(name) for name in ("theta", "phi"))

    # Only the tooth force of the gear is taken from its multiplier: the wheel it drives shows whether it is right.
    tooth = float(state.lambda_[mechanism.constraint_names.index("gear 0")])
    on_theta = 2.5 + 3.0 * (-0.4 - float(q[theta]))
    on_phi = 1.5 * 0.7 - 0.7 * float(dq[phi]) - 0.5 * tooth
    couples = {"crank": on_theta, "plate": -on_phi - 1.1, "bar": on_phi + 0.4 * 0.7, "wheel": -tooth}
    assert_newton_euler(state, couples)

    e = (R - T) / np.linalg.norm(R - T)
    damper = -1.5 * (e @ (state.dp[3] - state.dp[5])) * e
    spring = 12 * (1.0 / np.linalg.norm(R - A) - 1) * (R - A)
    force = np.array([4.0, 7.0])
    on_T = (0.4 * force + 0.2 * turned(force)) / np.linalg.norm(T - S)  # ∂H/∂T, transposed
    link = (Q - P) / np.linalg.norm(Q - P)
    guide = state.at("K")
    assert abs(guide @ turned(link)) > 0.1
    share = np.linalg.norm(K - P) / np.linalg.norm(Q - P)
    np.testing.assert_allclose(guide @ link, 0.0, atol=1e-8)
    np.testing.assert_allclose((state.at("S") - force + on_T) @ np.array([1.0, 0.3]), 0.0, atol=1e-8)
    loads = {"R": spring + damper + [3 * np.cos(0.7), -2.0], "T": -damper + on_T}
    loads |= {"P": -(1 - share) * guide, "Q": -share * guide, "K": guide, "S": state.at("S")}
    assert_pins_balanced(state, loads | {"H": np.zeros(2)})


def test_slider_crank(configs):
    state = State(load(configs / "mechanisms" / "slider_crank.yaml"), {"theta": 12.0})
    assert_newton_euler(state)
    guide = state.at("wrist"), state.at("front")
    np.testing.assert_allclose([force[0] for force in guide], 0.0, atol=1e-8)  # no friction along the line
    assert abs(guide[0][1]) > 1.0
    np.testing.assert_allclose(state.at("pin"), 0.0, atol=1e-8)


def test_robot_with_redundant_rows(configs):
    """The platform of four points, triangles, parallelograms; both motors at work."""
    mechanism = load(configs / "mechanisms" / "parallel_robot.yaml")
    state = State(mechanism, rates={"theta_l": 0.8, "theta_r": -0.5}, u=(40.0, -25.0))
    assert_newton_euler(state, {"arm_l": 40.0, "arm_r": -25.0})
    assert_pins_balanced(state)


def test_prescribed_motion_is_a_couple(configs):
    state = State(load(configs / "mechanisms" / "driven_crank.yaml"), t=0.0)
    row = state.mechanism.constraint_names.index("motion 'motor'")
    assert_newton_euler(state, {"crank": -float(state.lambda_[row])})
    assert_pins_balanced(state)


def test_angle_between_points_of_different_bodies_loads_their_pins():
    text = """
relative_coordinates: [{type: RelativeAngleAbsoluteDOF, points: [A, Q], name: sight}]
forces: [{angle: sight, torque: 5.0}]
"""
    state = State(parsed(FOURBAR + text), rates={"x_P": 0.3})
    assert_newton_euler(state)
    d = state.p[2] - state.p[0]
    assert_pins_balanced(state, {"Q": 5.0 * turned(d) / (d @ d)})


def test_first_of_two_bodies_on_a_link_takes_the_couple():
    text = FOURBAR + "  - {name: cover, points: [P, A], mass: 0.5, I0: 0.4, cog: [0.3, 0]}" + MOTOR
    state = State(parsed(text), {"theta": 2.0})
    assert_newton_euler(state, {"crank": 3.0})
    assert_pins_balanced(state)


def test_bodies_on_the_ground_and_none_at_all():
    text = """
points: [{x: 0, y: 0, fixed: true}, {x: 1, y: 0, fixed: true}, {x: 0.5, y: 0.5}, {x: 2, y: 0}]
planar_bodies:
  - {points: [0, 1, 2], mass: 2, I0: 1.2, cog: [0.5, 0.2]}
  - {points: [2, 3], mass: 1, I0: 1.2, cog: [0.5, 0.2]}
"""
    state = State(parsed(text), {"y3": 0.8})
    assert_newton_euler(state)
    assert_pins_balanced(state)
    free = State(
        parsed("points: [{x: 0, y: 0, fixed: true}, {x: 1, y: 0}]\nconstraints: [{type: distance, points: [0, 1]}]")
    )
    assert free.forces == {}


ACTUATORS = """
relative_coordinates: [{type: RelativeAngleAbsoluteDOF, points: [A, P], name: theta}]
actuators:
  - {name: cylinder, points: [A, Q]}
  - {name: turn, body: coupler}
  - {name: motor, angle: theta}
  - {name: push, coordinate: x_P}
  - {name: roll, body: rocker}
  - {name: drag, coordinate: theta}
"""


@pytest.fixture(scope="module")
def actuated():
    return State(parsed(FOURBAR + ACTUATORS), {"theta": 2.0}, u=(30.0, 4.0, 3.0, -7.0, 1.5, 0.5))


def test_commands(actuated):
    """On bodies and angles they are couples, between points and on coordinates of points they load the pins."""
    assert_newton_euler(actuated, {"crank": 3.5, "coupler": 4.0, "rocker": 1.5})
    e = actuated.p[2] / np.linalg.norm(actuated.p[2])
    assert_pins_balanced(actuated, {"Q": 30.0 * e, "P": np.array([-7.0, 0.0])})


def test_without_commands_bodies_feel_none(actuated):
    q, dq, *_, t, u = actuated.arguments
    ddq, lambda_ = actuated.solution(0.0 * u)
    without = FORCES(actuated.mechanism, q, dq, ddq, lambda_, t)
    np.testing.assert_allclose(without, FORCES(actuated.mechanism, q, dq, ddq, lambda_, t, 0.0 * u), atol=1e-10)
    with pytest.raises(ArgumentError, match=r"u: expected a command for each of the 6 actuators; found shape \(2,\)"):
        actuated.mechanism.joint_forces(q, dq, ddq, lambda_, t, jnp.ones(2))


def test_batch_and_its_derivatives_are_those_of_single_calls(actuated):
    mechanism, arguments = actuated.mechanism, actuated.arguments

    def varied(s):
        changed = mechanism.with_parameters({"crank.mass": 1.0 + s, "P.x": 0.7 + 0.1 * s})
        return changed.joint_forces(*(x * (1.0 + 0.1 * s) for x in arguments))

    @jax.jit
    def answers(s):
        return jax.vmap(varied)(s), jax.vmap(jax.jacfwd(varied))(s), jax.vmap(jax.jacrev(varied))(s)

    h = 1e-5
    batch, forward, reverse = answers(jnp.array([-h, 0.0, h, 0.3]))
    np.testing.assert_allclose(batch[1], list(actuated.forces.values()), atol=1e-10)
    np.testing.assert_allclose(forward[1], (batch[2] - batch[0]) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(reverse, forward, atol=1e-9)


def test_members_of_the_mechanism(actuated):
    assert actuated.mechanism.pin_names == tuple(actuated.forces)
    members = jax.jit(lambda mechanism, *arguments: mechanism.joint_forces(*arguments))
    forces = members(actuated.mechanism.evaluated(), *actuated.arguments)
    np.testing.assert_allclose(forces, list(actuated.forces.values()), atol=1e-10)
