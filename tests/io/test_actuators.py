"""Actuators in mechanism files: what loads, what is refused, and what every message says."""
# ruff: noqa: E501 - messages are written out in one line

import warnings

import pytest
from linkage import FOURBAR, changed, faults_of

from fgmbs.io.planar.load import parse_mechanism, to_yaml
from fgmbs.mechanisms.planar import scopes

ACTUATORS = """\
actuators:
  - {name: motor, angle: theta}
  - {points: [A, 2]}
  - {name: x1, coordinate: x1}
  - {body: coupler}
"""
SECOND_BODY = """\
points:
  - {x: 0, y: 0, fixed: true}
  - {x: 1, y: 0}
  - {x: 1, y: 1}
  - {x: 2, y: 1}
planar_bodies:
  - {points: [0, 1], mass: 1, I0: 1, cog: [0, 0]}
  - {name: far, points: [2, 3], mass: 1, I0: 1, cog: [0, 0]}
relative_coordinates:
  - {name: phi, type: RelativeAngleDOF, points: [[0, 1], [2, 3]]}
  - {name: psi, type: RelativeAngleAbsoluteDOF, points: [2, 3]}
"""


def test_actuators_load_by_name_and_survive_a_round_trip():
    description = parse_mechanism(FOURBAR + ACTUATORS)
    angle, points, coordinate, body = description.actuators
    assert (angle.angle, points.points, coordinate.coordinate, body.body) == ("theta", (0, 2), "x1", 1)
    assert description.actuator_names == ("motor", "actuator1", "x1", "actuator3")
    assert parse_mechanism(to_yaml(description)) == description
    assert hash(parse_mechanism(to_yaml(description))) == hash(description)


def test_actuators_have_no_numbers():
    with_actuators = parse_mechanism(FOURBAR + ACTUATORS)
    assert scopes.quantities(with_actuators) == scopes.quantities(parse_mechanism(FOURBAR))
    assert parse_mechanism(FOURBAR).actuator_names == ()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        # references
        (
            "actuators: [{angle: thet}]",
            "actuators[0].angle: there is no angle 'thet'; did you mean 'theta'? known angles: theta",
        ),
        ("actuators: [{angle: x1}]", "actuators[0].angle: there is no angle 'x1'; known angles: theta"),
        (
            "actuators: [{coordinate: thet}]",
            "actuators[0].coordinate: there is no coordinate 'thet'; did you mean 'theta'? known coordinates: x1, y1, x2, y2, theta",
        ),
        (
            "actuators: [{points: [A, C]}]",
            "actuators[0].points[1]: expected an index or the name of a point; found 'C'; known names of points: A, B",
        ),
        ("actuators: [{points: [0, 9]}]", "actuators[0].points[1]: there is no point 9; the file defines 0 to 3"),
        (
            "actuators: [{body: copler}]",
            "actuators[0].body: expected an index or the name of a body; found 'copler'; did you mean 'coupler'?",
        ),
        ("actuators: [{body: 3}]", "actuators[0].body: there is no body 3; the file defines 0 to 2"),
        # keys and kinds
        (
            "actuators: [{torque: 1}]",
            "actuators[0]: expected a mapping with one of (angle, points, coordinate, body); found a mapping of (torque)",
        ),
        ("actuators: [5]", "expected a mapping with one of (angle, points, coordinate, body); found 5"),
        ("actuators: {angle: theta}", "actuators: expected a list; found a mapping of (angle)"),
        (
            "actuators: [{angle: theta, torque: 1}]",
            "actuators[0].torque: expected no key 'torque' here; known keys: name, gain, gear, rotor_inertia, back_emf, cosines, sines, periods, angle",
        ),
        (
            "actuators: [{body: coupler, nam: a}]",
            "actuators[0].nam: expected no key 'nam' here; did you mean 'name'? known keys: name, body",
        ),
        ("actuators: [{points: [A, 1, 2]}]", "actuators[0].points: expected a list of 2; found a list of 3"),
        ("actuators: [{name: 2nd, angle: theta}]", "actuators[0].name: expected a name; found '2nd'"),
        # names
        (
            "actuators: [{name: m, angle: theta}, {name: m, body: 0}]",
            "bar.yaml:25:45: actuators[1].name: expected a name of its own; found 'm', as actuators[0]",
        ),
        (
            "actuators: [{name: actuator1, angle: theta}, {body: 0}]",
            "actuators[1].name: expected a name of its own; found 'actuator1', as actuators[0]",
        ),
        (
            "actuators: [{name: x1, angle: theta}]",
            "bar.yaml:25:20: actuators[0].name: expected a name of its own; found 'x1', a coordinate that the actuator does not act on",
        ),
        ("actuators: [{name: theta, body: 0}]", "actuators[0].name: expected a name of its own; found 'theta', a coor"),
        # what cannot move
        ("actuators: [{points: [1, 1]}]", "actuators[0].points[1]: expected different points; found 1 twice"),
        (
            "actuators: [{points: [A, B]}]",
            "actuators[0].points: expected a free point; found that points 0 and 3 are both fixed",
        ),
    ],
)
def test_message_about_an_actuator(section, message):
    faults = faults_of(FOURBAR + section + "\n")
    assert len(faults) == 1, faults
    assert message in faults[0]
    assert faults[0].startswith("bar.yaml:25:")


def test_a_body_on_the_ground_cannot_be_turned():
    frame = "planar_bodies:\n  - {name: frame, points: [A, B, 1], mass: 1, I0: 1, cog: [0, 0]}\n"
    text = changed("planar_bodies:\n", frame) + "actuators: [{body: frame}]\n"
    (fault,) = faults_of(text)
    assert fault == (
        "bar.yaml:26:20: actuators[0].body: expected a body that can turn; found 'frame', whose first two points are both fixed"
    )


def test_faults_of_actuators_and_of_what_they_act_on_are_reported_at_once():
    text = changed("points: [1, 2]", "points: [1, 7]").replace("mass: 4,", "mass: -4,")
    text += "actuators: [{anlge: theta}, {points: [A, B]}, {body: coupler}, {name: y2, coordinate: y1}]\n"
    assert [fault.split(": ")[1] for fault in faults_of(text)] == [
        "planar_bodies[1].points[1]",
        "planar_bodies[2].mass",
        "actuators[0]",
        "actuators[1].points",
        "actuators[3].name",
    ]


@pytest.mark.parametrize("actuator", ["points: [1, 2]", "angle: phi", "coordinate: phi", "angle: psi"])
def test_an_actuator_connects_bodies_as_a_damper_does(actuator):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_mechanism(SECOND_BODY + f"actuators: [{{{actuator}}}]\n")


@pytest.mark.parametrize("actuator", ["coordinate: x2", "body: far"])
def test_an_actuator_that_pushes_from_outside_connects_nothing(actuator):
    (fault,) = faults_of(SECOND_BODY + f"actuators: [{{{actuator}}}]\n")
    assert "expected a connection of body 'far'; found that it shares no point with the ground or a body" in fault


def test_a_fixed_point_is_used_by_an_actuator():
    text = changed("planar_bodies:", "  - {x: 7, y: 0, fixed: true}\nplanar_bodies:")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_mechanism(text + "actuators: [{points: [2, 4]}]\n")
