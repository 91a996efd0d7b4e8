"""Planar mechanisms that are made in Python are those of files."""

import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown, planar
from fgmbs.errors import ArgumentError, DescriptionError
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.description import VisualDescription

GROUND = planar.point("A", 0, 0, fixed=True), planar.point("B", "base", 0, fixed=True)
MOVING = planar.point("P", "L", 0.1), planar.point("S", 1.5, 0)
LINKS = (
    planar.body("crank", "A", "P", mass=1.5, I0="mass*length^2/3", cog=("length/2", 0), length="L"),
    planar.body("rod", "P", "S", mass=2, I0="mass*length^2/3", cog=("length/2", 0)),
)
ALL = (
    *(*GROUND, *MOVING, *LINKS),
    *(planar.absolute_angle("theta", "A", "P"), planar.relative_angle("phi", ("A", "P"), ("P", "S"))),
    planar.fixed_slider("guide", "S", (0, 0), (1, "base*0")),
    planar.spring("spring", "B", "S", stiffness=100.0, free_length=0.5),
    planar.angular_spring("coil", "theta", stiffness=2.0),
    planar.damper("damper", "B", "S", damping=3.0),
    planar.angular_damper("bearing", "theta", damping=0.1),
    planar.force("wind", "S", ("sin(t)", 0)),
    planar.torque("brake", "-0.1*t", angle="theta"),
    planar.torque("hand", 0.2, body="rod"),
    *(planar.actuator("motor", angle="theta"), planar.actuator("cylinder", points=("B", "S"))),
    *(planar.actuator("push", coordinate="x_S"), planar.actuator("twist", body="rod")),
)
TEXT = """
name: engine
parameters: {base: 3.0, L: 0.5}
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {name: B, x: base, y: 0, fixed: true}
  - {name: P, x: L, y: 0.1}
  - {name: S, x: 1.5, y: 0}
planar_bodies:
  - {name: crank, points: [A, P], length: L, mass: 1.5, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: rod, points: [P, S], mass: 2, I0: mass*length^2/3, cog: [length/2, 0]}
relative_coordinates:
  - {name: theta, type: RelativeAngleAbsoluteDOF, points: [A, P]}
  - {name: phi, type: RelativeAngleDOF, points: [[A, P], [P, S]]}
constraints:
  - {name: guide, type: fixed_slider, point: S, line: [[0, 0], [1, base*0]]}
springs:
  - {name: spring, points: [B, S], stiffness: 100, free_length: 0.5}
  - {name: coil, angle: theta, stiffness: 2}
dampers:
  - {name: damper, points: [B, S], damping: 3}
  - {name: bearing, angle: theta, damping: 0.1}
forces:
  - {name: wind, point: S, force: [sin(t), 0]}
  - {name: brake, angle: theta, torque: -0.1*t}
  - {name: hand, body: rod, torque: 0.2}
actuators:
  - {name: motor, angle: theta}
  - {name: cylinder, points: [B, S]}
  - {name: push, coordinate: x_S}
  - {name: twist, body: rod}
initial_velocities: {theta: 2}
"""


def made(*parts, **options):
    return planar.mechanism(*parts, parameters={"base": 3.0, "L": 0.5}, **options)


def test_is_that_of_a_file():
    mechanism = made(*ALL, name="engine", velocities={"theta": 2})
    assert mechanism.description == parse_mechanism(TEXT)
    assert mechanism.dof == 1 and mechanism.title == "engine"


@pytest.mark.slow
def test_every_constraint():
    parts = (
        *GROUND,
        *(planar.point("P", 1, 0), planar.point("Q", 2, 1), planar.point("R", 1.5, 0.5), planar.point("U", 1.2, 1)),
        planar.body("crank", "A", "P", mass=1, I0=1, cog=(0.1, 0)),
        planar.body("rocker", "B", "Q", mass=1, I0=1, cog=(0.1, 0)),
        *(planar.absolute_angle("a", "A", "P"), planar.absolute_angle("b", "B", "Q")),
        *(planar.distance("bar", "P", "Q"), planar.mobile_slider("slot", "R", "P", "Q")),
        *(planar.rigid("pin", "A", "P", "U"), planar.gear("gear", "a", "b", ratio=-1)),
        planar.motion("drive", "a", "0.1*t"),
    )
    text = """
parameters: {base: 3.0, L: 0.5}
points: [{name: A, x: 0, y: 0, fixed: true}, {name: B, x: base, y: 0, fixed: true}, {name: P, x: 1, y: 0},
         {name: Q, x: 2, y: 1}, {name: R, x: 1.5, y: 0.5}, {name: U, x: 1.2, y: 1}]
planar_bodies:
  - {name: crank, points: [A, P], mass: 1, I0: 1, cog: [0.1, 0]}
  - {name: rocker, points: [B, Q], mass: 1, I0: 1, cog: [0.1, 0]}
relative_coordinates:
  - {name: a, type: RelativeAngleAbsoluteDOF, points: [A, P]}
  - {name: b, type: RelativeAngleAbsoluteDOF, points: [B, Q]}
constraints:
  - {name: bar, type: distance, points: [P, Q]}
  - {name: slot, type: mobile_slider, point: R, line: [P, Q]}
  - {name: pin, type: rigid, points: [A, P], point: U}
  - {name: gear, type: gear, angles: [a, b], ratio: -1}
  - {name: drive, type: motion, coordinate: a, value: 0.1*t}
"""
    assert made(*parts).description == parse_mechanism(text)
    turned = made(*parts[:-3], planar.rigid("pin", "A", "P", "U", offset=(0.2, 1.0)), *parts[-2:])
    assert turned.parameters["pin.offset.y"] == 1.0


def test_numbers_may_be_unknown_or_arrays():
    mass = Unknown(1.4, sigma=0.2, log=True)
    crank = planar.body("crank", "A", "P", mass=mass, I0="mass*length^2/3", cog=("length/2", 0), length="L")
    mechanism = planar.mechanism(
        *(*GROUND, *MOVING[:1], crank, planar.distance("tie", "B", "P", np.float64(2.6))),
        parameters={"base": 3.0, "L": Unknown(np.asarray(0.5), sigma=0.01)},
        gravity=(0.0, Unknown(-9.8, sigma=0.1)),
    )
    assert mechanism.parameters["crank.mass"] is mass
    assert {name for name, value in mechanism.parameters.items() if isinstance(value, Unknown)} == {
        *("crank.mass", "L", "gravity.y"),
    }
    assert float(mechanism.parameters["tie.length"]) == 2.6


def test_how_a_body_is_drawn():
    """Corners may be tuples or arrays; a number that is to be found is none of the drawing."""

    def drawn(**visual):
        parts = *GROUND, *MOVING, LINKS[0], planar.body("rod", "P", "S", mass=2, I0=1, cog=(0, 0), visual=visual)
        return made(*parts).description.planar_bodies[1].visual

    corners = [(0, 0), ("length", 0), (0, np.float64(0.1))]
    assert drawn(color="red", width=None, outline=corners) == VisualDescription(color="red", outline=corners)
    assert drawn(outline=np.eye(3, 2)).outline == ((1, 0), (0, 1), (0, 0))
    assert LINKS[0].entry["visual"] is None and drawn(radius=Unknown(1.0).value).radius == 1.0
    with pytest.raises(DescriptionError, match=r"body 'rod': visual.radius: expected a positive number.*found -1"):
        drawn(radius=-1)
    for visual in (dict(radius=Unknown(1.0)), dict(outline=[(0, 0), (1, 0), (0, Unknown(1.0))])):
        with pytest.raises(ArgumentError, match="visual: expected a number, or an expression of a parameter that is"):
            drawn(**visual)
    with pytest.raises(DescriptionError, match=r"body 'rod': visual.outline\[0\]: expected a list; found 1"):
        drawn(outline=[1, 2, 3])


@pytest.mark.parametrize(
    "parts, expected",
    [
        (
            (*GROUND, *MOVING, LINKS[0]),
            "mechanism: point 'S': expected a point of a body",
        ),
        (
            (*GROUND, *MOVING, *LINKS, planar.spring("k", "A", "Z", 1.0)),
            "spring 'k': .*name of a point; found 'Z'",
        ),
        (
            (*GROUND, *MOVING, *LINKS, planar.absolute_angle("a", "A", "P"), planar.torque("T", "u*t", angle="a")),
            r"mechanism: force 'T': torque: .*found 'u' in 'u\*t', which is unknown here",
        ),
        (
            (*GROUND, *MOVING, LINKS[1], planar.body("crank", "A", "P", mass=-1, I0=1, cog=(0, 0))),
            "mechanism: body 'crank': mass: expected a positive number.*found -1",
        ),
        ((), "mechanism: points: expected a value; found no key 'points'"),
    ],
)
def test_faults_name_the_part(parts, expected):
    with pytest.raises(DescriptionError, match=expected):
        made(*parts)


def test_it_moves(configs):
    pendulum = planar.mechanism(
        planar.point("pivot", 0, 0, fixed=True),
        planar.point("tip", "L*cos(theta0)", "L*sin(theta0)"),
        planar.body("rod", "pivot", "tip", length="L", mass="m", I0="mass*length^2/3", cog=("length/2", 0)),
        parameters={"L": 1.0, "m": 2.0, "theta0": "deg2rad(-45)"},
        name="pendulum",
    )
    file = fgmbs.load(configs / "mechanisms" / "pendulum.yaml")
    np.testing.assert_allclose(
        fgmbs.simulate(pendulum, 0.2, 0.01).q, fgmbs.simulate(file, 0.2, 0.01).q, rtol=0, atol=1e-13
    )
