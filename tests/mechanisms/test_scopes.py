"""Numbers of a description by name, on floats and as differentiable functions of the independent ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar import scopes

TEXT = """
parameters: {L: 2*half, half: 0.5, k: 1e-3}
gravity: [0, -9.81]
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {x: L*cos(deg2rad(30)), y: L/2}
  - {name: C, x: x1 + 3, y: y1 + 4}
  - {x: x_C, y: 0}
planar_bodies:
  - {points: [A, 1], length: 1.5*auto, mass: 2*length, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: plate, points: [1, C, 3], mass: 2, I0: mass*length12^2, cog: [length/2, length13/10]}
relative_coordinates:
  - {name: alpha, type: RelativeAngleAbsoluteDOF, points: [A, 1]}
  - {name: beta, type: RelativeAngleDOF, points: [[A, 1], [1, C]]}
constraints:
  - {type: distance, points: [A, C]}
  - {name: guide, type: fixed_slider, point: 3, line: [[0, 0], [L, 0.5]]}
  - {name: fixed_to, type: rigid, points: [1, C], point: 3}
  - {type: rigid, points: [1, C], point: 3, offset: [L, 0.25]}
  - {type: gear, angles: [alpha, beta], ratio: 2}
  - {type: motion, coordinate: alpha, value: sin(t)}
springs:
  - {points: [A, C], stiffness: 100*k}
  - {points: [A, C], stiffness: 100, free_length: 0.5*auto}
  - {angle: beta, stiffness: 3}
forces:
  - {point: C, force: [L, 2*t]}
initial_velocities: {alpha: 2*L}
"""


@pytest.fixture(scope="module")
def description():
    return parse_mechanism(TEXT)


def test_numbers_by_name(description):
    x1, y1 = np.sqrt(3) / 2, 0.5
    diagonal = np.hypot(x1 + 3, y1 + 4)
    alpha, beta = np.pi / 6, np.arctan2(4, 3) - np.pi / 6
    expected = {
        "L": 1.0,
        "half": 0.5,
        "k": 1e-3,
        "gravity.y": -9.81,
        "point1.x": x1,
        "C.y": 4.5,
        "point3.x": x1 + 3,
        "body0.length": 1.5,
        "body0.mass": 3.0,
        "body0.I0": 2.25,
        "body0.cog.x": 0.75,
        "plate.I0": 50.0,
        "plate.cog.x": 2.5,
        "plate.cog.y": np.hypot(3, 0.5) / 10,
        "constraint0.length": diagonal,
        "guide.line.xb": 1.0,
        "guide.line.yb": 0.5,
        "constraint3.offset.x": 1.0,
        "constraint4.ratio": 2.0,
        "constraint4.offset": alpha - 2 * beta,
        "spring0.stiffness": 0.1,
        "spring0.free_length": diagonal,
        "spring1.free_length": diagonal / 2,
        "spring2.free_angle": beta,
        "force0.force.x": 1.0,
        "initial_velocities.alpha": 2.0,
    }
    numbers = scopes.numbers(description, {})
    assert {name: numbers[name] for name in expected} == pytest.approx(expected, rel=1e-14)


def test_functions_of_the_time_and_drawn_offsets_are_left_out(description):
    numbers = scopes.numbers(description, {})
    assert not {"constraint5.value", "force0.force.y", "fixed_to.offset", "plate.length"} & numbers.keys()


def test_independent_numbers_are_those_written_as_numbers(description):
    independent = scopes.independent_numbers(description)
    assert {"half", "k", "gravity.x", "gravity.y", "A.x", "point3.y", "plate.mass", "spring1.stiffness"} <= set(
        independent
    )
    assert not {"L", "C.x", "body0.mass", "spring0.stiffness", "constraint0.length"} & independent.keys()


def test_coordinate_names(description):
    assert description.coordinate_names == ("x1", "y1", "x_C", "y_C", "x3", "y3", "alpha", "beta")


def test_numbers_follow_their_parameters(description):
    @jax.jit
    def numbers(half):
        found = scopes.numbers(description, {"half": half})
        return jnp.stack(
            [jnp.asarray(found[name], dtype=float) for name in ("body0.I0", "plate.cog.y", "spring1.free_length")]
        )

    half = jnp.asarray(0.5, dtype=float)
    check_grads(numbers, (half,), order=2, modes=("fwd", "rev"))
    # I0 = mass length²/3 = 2 length³/3 with length = 1.5 L = 3 half
    assert jax.jacfwd(numbers)(half)[0] == pytest.approx(54 * 0.25, rel=1e-14)


def test_a_given_number_takes_the_place_of_an_expression(description):
    numbers = scopes.numbers(description, {"body0.mass": 5.0})
    assert numbers["body0.mass"] == 5.0
    assert numbers["body0.I0"] == pytest.approx(5 * 1.5**2 / 3)


def test_distance_of_points_at_one_place_has_a_derivative():
    def drawn(x):
        return scopes.distance({"x0": x, "y0": x, "x1": x, "y1": x}, 0, 1)

    assert jax.grad(drawn)(jnp.asarray(1.0, dtype=float)) == 0.0
