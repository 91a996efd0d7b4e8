"""Mechanism files that are refused, and what every message says."""
# ruff: noqa: E501 - messages are written out in one line

import pytest
from linkage import FOURBAR, changed, faults_of

from fgmbs.errors import DescriptionError
from fgmbs.io.planar.load import read_mechanism


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # keys
        (
            "    name: coupler\n    mass",
            "    name: coupler\n    mas: 1\n    mass",
            "bar.yaml:19:5: planar_bodies[1].mas: expected no key 'mas' here; did you mean 'mass'? known keys: name, points, "
            "length, mass, I0, cog",
        ),
        (
            "name: theta, ",
            "nam: theta, ",
            "bar.yaml:24:6: relative_coordinates[0].nam: expected no key 'nam' here; did you mean 'name'? known keys: name, type, ",
        ),
        (
            "    mass: 1.0",
            "    mass: 1.0\n    mass: 2.0",
            "bar.yaml:15:5: planar_bodies[0].mass: expected each key once; found 'mass' again, first in line 14",
        ),
        (
            "  xb: 4.0",
            "  xb: 4.0\n  L: 2.0",
            "bar.yaml:6:3: parameters.L: expected each key once; found 'L' again, first in line 4",
        ),
        (
            "  xb: 4.0",
            "  xb: 4.0\n  ? [1]\n  : 2",
            "bar.yaml:6:5: parameters: expected a name as key; found a list or mapping",
        ),
        (
            "    mass: 1.0\n",
            "",
            "bar.yaml:12:5: planar_bodies[0].mass: expected a positive number or an expression of (L, xb, auto, length, mass, I0, "
            "length12, x0, y0, …); found no key 'mass'",
        ),
        (
            "type: RelativeAngleAbsoluteDOF, ",
            "",
            "bar.yaml:24:5: relative_coordinates[0]: expected a mapping with a type (RelativeAngleAbsoluteDOF, RelativeAngleDOF); "
            "found a mapping of (name, points)",
        ),
        (
            "type: RelativeAngleAbsoluteDOF",
            "type: RelativeAngelDOF",
            "bar.yaml:24:25: relative_coordinates[0].type: expected a type; found 'RelativeAngelDOF'; did you mean "
            "'RelativeAngleDOF'? known types: RelativeAngleAbsoluteDOF, RelativeAngleDOF",
        ),
        # how bodies are drawn
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: red\n",
            "bar.yaml:15:13: planar_bodies[0].visual: expected a mapping; found 'red'",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {colour: red}\n",
            "bar.yaml:15:14: planar_bodies[0].visual.colour: expected no key 'colour' here; did you mean 'color'? known keys: color, width, outline, radius",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {color: 7}\n",
            "bar.yaml:15:21: planar_bodies[0].visual.color: expected a color such as 'orange' or '#ff8800'; found 7",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {color: '#ff88'}\n",
            "planar_bodies[0].visual.color: expected a color such as 'orange' or '#ff8800'; found '#ff88'",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: \n      color: #ff8800\n",
            "planar_bodies[0].visual.color: expected a color such as 'orange' or '#ff8800'; found nothing; a color that begins with # stands in quotes, else it is a comment",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {width: 0}\n",
            "bar.yaml:15:21: planar_bodies[0].visual.width: expected a positive number or an expression of (L, xb, auto, length, mass, I0, length12, x0, y0, …); found 0",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {radius: L - xb}\n",
            "planar_bodies[0].visual.radius: expected a positive number or an expression of (L, xb, auto, length, mass, I0, length12, x0, y0, …); found -3 ('L - xb')",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {radius: lenght/2}\n",
            "found 'lenght' in 'lenght/2', which is unknown here; did you mean 'length'",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {radius: t}\n",
            "found 't', which is unknown here; the time t is known in forces, torques and prescribed motion only",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {outline: [[0, 0], [1, 0]]}\n",
            "bar.yaml:15:23: planar_bodies[0].visual.outline: expected a list of 3 or more; found a list of 2",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {outline: [[0, 0], [1, 0], [2]]}\n",
            "planar_bodies[0].visual.outline[2]: expected a list of 2; found a list of 1",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {outline: [[0, 0], [1, 0], [1, one]]}\n",
            "bar.yaml:15:44: planar_bodies[0].visual.outline[2][1]: expected a number or an expression of (L, xb, ",
        ),
        (
            "    mass: 1.0\n",
            "    mass: 1.0\n    visual: {outline: 1}\n",
            "planar_bodies[0].visual.outline: expected a list; found 1",
        ),
        # numbers
        (
            "    mass: 1.0",
            "    mass: heavy mass",
            "bar.yaml:14:11: planar_bodies[0].mass: expected a positive number or an expression of (L, xb, auto, length, mass, I0, "
            "length12, x0, y0, …); found 'heavy mass', which is not arithmetic",
        ),
        (
            "    mass: 1.0",
            "    mass: 0",
            "bar.yaml:14:11: planar_bodies[0].mass: expected a positive number or an expression",
        ),
        ("    mass: 1.0", "    mass: L - xb", "found -3 ('L - xb')"),
        (
            "    mass: 1.0",
            "    mass: .inf",
            "planar_bodies[0].mass: expected a positive number or an expression of (L, xb, ",
        ),
        ("    mass: 1.0", "    mass: -.inf", "found -inf, which is not finite"),
        ("    mass: 1.0", "    mass: .nan", "found nan, which is not finite"),
        ("    mass: 1.0", "    mass: 1e308*10*L", "found '1e308*10*L', whose value is not finite"),
        ("    mass: 1.0", "    mass: 1e308^2", "found '1e308^2', whose value is beyond the largest number"),
        (
            "    mass: 1.0",
            "    mass: on",
            "found the truth value true (YAML 1.1 reads on, off, yes and no as truth values)",
        ),
        ("    mass: 1.0", "    mass: 012", "found '012'; a leading zero may mean octal, write the number without it"),
        ("    mass: 1.0", "    mass: 1:30", "found '1:30', which is not arithmetic"),
        ("    mass: 1.0", "    mass: 0x10", "found 0x10, which is not a decimal number"),
        ("    mass: 1.0", "    mass: 1_000", "found 1_000, which is not a decimal number"),
        ("    mass: 1.0", "    mass: 2001-01-01", "found '2001-01-01'; a leading zero may mean octal"),
        (
            "    mass: 1.0",
            "    mass:",
            "bar.yaml:14:10: planar_bodies[0].mass: expected a positive number or an expression of",
        ),
        ("    mass: 1.0", "    mass: [1]", "found a list of 1"),
        ("    mass: 1.0", "    mass: {value: 1}", "found a mapping of (value)"),
        (
            "    mass: 1.0",
            "    mass: !!python/name:os.system ''",
            "found a value tagged 'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("    length: L", "    length: 0", "bar.yaml:13:13: planar_bodies[0].length: expected a positive number"),
        ("    length: L", "    length: -L", "found -1 ('-L')"),
        (
            "fixed: true}\n  - {x: L, y: 0}",
            "fixed: 1}\n  - {x: L, y: 0}",
            "points[0].fixed: expected true or false; found 1",
        ),
        # expressions
        ("    mass: 1.0", "    mass: 2*Lx", "found 'Lx' in '2*Lx', which is unknown here; did you mean 'L'?"),
        ("    mass: 1.0", "    mass: length13", "found 'length13', which is unknown here; did you mean 'length12'?"),
        (
            "    mass: 1.0",
            "    mass: 2*t",
            "found 't' in '2*t', which is unknown here; the time t is known in forces, torques and prescribed motion only",
        ),
        ("    mass: 1.0", "    mass: L/(xb - 4)", "found 'L/(xb - 4)', which divides by zero"),
        ("    mass: 1.0", "    mass: sqrt(-xb)", "found 'sqrt(-xb)', which has no real value"),
        (
            "    mass: 1.0",
            "    mass: sine(xb)",
            "found a call of 'sine'; did you mean 'sin'? known functions: sin, cos",
        ),
        (
            "  xb: 4.0",
            "  xb: 2*w\n  w: z + 1\n  z: xb",
            "bar.yaml:5:7: parameters.xb: expected a number or an expression of (L, xb, w, z); found '2*w', which needs itself: "
            "xb → w → z → xb",
        ),
        (
            "x: L, y: 2*L",
            "x: x2 + L, y: 2*L",
            "bar.yaml:9:9: points[2].x: expected a number or an expression of (L, xb, x0, y0, …); found 'x2 + L', which needs "
            "itself: x2 → x2",
        ),
        ("x: xb, y: 0,", "x: x2 + y_B, y: x_B,", "which needs itself: x3 → y_B → y3 → x_B → x3"),
        (
            "    mass: 1.0",
            "    mass: I0",
            "bar.yaml:14:11: planar_bodies[0].mass: expected a positive number or an expression of (L, xb, auto, length, mass, I0, "
            "length12, x0, y0, …); found 'I0', which needs itself: mass → I0 → mass",
        ),
        ("  xb: 4.0", "  xb: x0", "found 'x0', which is unknown here"),
        # names and indices
        (
            "points: [1, 2]",
            "points: [1, 7]",
            "bar.yaml:17:17: planar_bodies[1].points[1]: there is no point 7; the file defines 0 to 3",
        ),
        ("points: [1, 2]", "points: [1, -2]", "planar_bodies[1].points[1]: expected an index from 0; found -2"),
        (
            "points: [1, 2]",
            "points: [1, 2.0]",
            "planar_bodies[1].points[1]: expected an index (0, 1, …) or a name; found 2.0",
        ),
        ("points: [1, 2]", "points: [1]", "planar_bodies[1].points: expected a list of 2 or more; found a list of 1"),
        ("points: [1, 2]", "points: 1", "planar_bodies[1].points: expected a list; found 1"),
        (
            "points: [1, 2]",
            "points: [1, Bb]",
            "bar.yaml:17:17: planar_bodies[1].points[1]: expected an index or the name of a point; found 'Bb'; did you mean 'B'? "
            "known names of points: A, B",
        ),
        (
            "points: [1, 2]",
            "points: [1, 2, 1]",
            "bar.yaml:17:20: planar_bodies[1].points[2]: expected different points; found 1 twice",
        ),
        (
            "name: coupler",
            "name: body0",
            "planar_bodies[1].name: expected a name of its own; found 'body0', as planar_bodies[0]",
        ),
        (
            "name: coupler",
            "name: the coupler",
            "bar.yaml:18:11: planar_bodies[1].name: expected a name; found 'the coupler'; a name has letters, digits and _",
        ),
        (
            "name: coupler",
            "name: 7",
            "planar_bodies[1].name: expected a name; found 7, which is not a text; put it in quotes",
        ),
        ("name: coupler", "name: sin", "expected a name; found 'sin', which means something else in expressions"),
        (
            "name: theta",
            "name: x1",
            "relative_coordinates[0].name: expected a name of its own; found 'x1', which is another coordinate",
        ),
        (
            "  xb: 4.0",
            "  xb: 4.0\n  length: 3",
            "bar.yaml:6:3: parameters.length: expected another name; found 'length', which is a word of body expressions",
        ),
        (
            "  xb: 4.0",
            "  xb: 4.0\n  x1: 3",
            "parameters.x1: expected another name; found 'x1', which is a coordinate of a point",
        ),
        (
            "  xb: 4.0",
            "  xb: 4.0\n  lambda: 3",
            "parameters.lambda: expected a name; found 'lambda', which means something else",
        ),
        (
            "points: [A, 1]}",
            "points: [A, A]}",
            "relative_coordinates[0].points[1]: expected different points; found 0 twice",
        ),
        (
            "type: RelativeAngleAbsoluteDOF, points: [A, 1]",
            "type: RelativeAngleDOF, points: [[A, 1], [1, A]]",
            "relative_coordinates[0].points[1]: expected another link than the first; found points [1, 0] again",
        ),
        # geometry
        (
            "    I0: (1/3)*mass*length^2\n    cog: [0.5*length, 0.0]\n  - points",
            "    I0: 0.2\n    cog: [0.5, 0.0]\n  - points",
            "bar.yaml:15:9: planar_bodies[0].I0: expected at least mass*|cog|^2 = 0.25 kg·m² about the first point of body 'body0' "
            "(parallel axes: 1 kg, centre of mass at 0.5 m); found 0.2",
        ),
        (
            "x: L, y: 2*L",
            "x: L, y: 0",
            "bar.yaml:17:13: planar_bodies[1].points: expected two points drawn apart; found 1 and 2 of body 'coupler' both at (1, 0), "
            "a zero length",
        ),
        (
            "  - {x: L, y: 0}",
            "  - {x: 0, y: 0}",
            "relative_coordinates[0].points: expected two points drawn apart; found 0 and 1 of the link of an angle both at (0, 0)",
        ),
        # connections
        (
            "planar_bodies:",
            "  - {x: 1, y: 1}\nplanar_bodies:",
            "bar.yaml:11:5: points[4]: expected a point of a body, spring, damper or constraint; found a free point that belongs "
            "to none",
        ),
        (
            "planar_bodies:",
            "  - {x: 1, y: 1}\n  - {x: 2, y: 1}\nplanar_bodies:\n  - {name: lost, points: [4, 5], mass: 1, I0: 1, "
            "cog: [0, 0]}",
            "bar.yaml:14:5: planar_bodies[0]: expected a connection of body 'lost'; found that it shares no point with the ground or "
            "a body",
        ),
    ],
)
def test_message(old, new, message):
    faults = faults_of(changed(old, new))
    assert len(faults) == 1, faults
    assert message in faults[0]
    assert faults[0].startswith("bar.yaml:")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "constraints: [{type: distance, points: [1, 1]}]",
            "constraints[0].points[1]: expected different points; found 1 twice",
        ),
        (
            "constraints: [{type: distance, points: [1, B], length: 0}]",
            "bar.yaml:25:56: constraints[0].length: expected a positive length; found 0",
        ),
        (
            "constraints: [{type: fixed_slider, point: 2, line: [[0, L], [0, 1]]}]",
            "bar.yaml:25:52: constraints[0].line: expected two different positions; found (0, 1) twice",
        ),
        (
            "constraints: [{type: fixed_slider, point: 2, line: [[0, L], [0]]}]",
            "constraints[0].line[1]: expected a list of 2; found a list of 1",
        ),
        (
            "constraints: [{type: mobile_slider, point: 2, line: [1, 2]}]",
            "constraints[0].point: expected a point other than those of its line; found point 2 in both",
        ),
        (
            "constraints: [{type: rigid, points: [1, 2], point: 3, offset: 3}]",
            "constraints[0].offset: expected a list; found 3",
        ),
        (
            "constraints: [{type: rigid, points: [1, 2], point: 3, offset: [1, on]}]",
            "constraints[0].offset[1]: expected a number or an expression of (L, xb, x0, y0, …); found the truth value true",
        ),
        (
            "constraints: [{type: rigid, points: [1, 2], point: 2}]",
            "constraints[0].point: expected a point other than those of its frame; found point 2 in both",
        ),
        (
            "constraints: [{type: gear, angles: [theta, thta], ratio: 2}]",
            "bar.yaml:25:44: constraints[0].angles[1]: there is no angle 'thta'; did you mean 'theta'? known angles: theta",
        ),
        (
            "constraints: [{type: gear, angles: [theta, theta], ratio: 2}]",
            "constraints[0].angles[1]: expected different angles; found 'theta' twice",
        ),
        (
            "constraints: [{type: motion, coordinate: phi, value: t}]",
            "constraints[0].coordinate: there is no coordinate 'phi'; known coordinates: x1, y1, x2, y2, theta",
        ),
        (
            "constraints: [{type: motion, coordinate: theta, value: sin(T)}]",
            "found 'T' in 'sin(T)', which is unknown here",
        ),
        (
            "constraints: [{type: motion, coordinate: theta}]",
            "constraints[0].value: expected a number or an expression of (L, xb, t, x0, y0, …); found no key 'value'",
        ),
        ("constraints: {type: motion}", "constraints: expected a list; found a mapping of (type)"),
        (
            "springs: [{points: [A, 1], stiffness: -3}]",
            "bar.yaml:25:39: springs[0].stiffness: expected zero or a positive number; found -3",
        ),
        ("springs: [{points: [A, 1], stiffnes: 3}]", "known keys: name, points, stiffness, free_length"),
        (
            "springs: [{angle: theta, stiffness: 3, free_length: 1}]",
            "springs[0].free_length: expected no key 'free_length' here; did you mean 'free_angle'? known keys: name, angle, stiffness",
        ),
        (
            "springs: [{stiffness: 3}]",
            "springs[0]: expected a mapping with one of (points, angle); found a mapping of (stiffness)",
        ),
        ("springs: [{angle: phi, stiffness: 3}]", "springs[0].angle: there is no angle 'phi'; known angles: theta"),
        ("dampers: [{angle: x1, damping: 3}]", "dampers[0].angle: there is no angle 'x1'; known angles: theta"),
        (
            "dampers: [{points: [A, 1], damping: -1}]",
            "dampers[0].damping: expected zero or a positive number; found -1",
        ),
        ("forces: [{point: 9, force: [0, 1]}]", "forces[0].point: there is no point 9; the file defines 0 to 3"),
        (
            "forces: [{body: copler, torque: 1}]",
            "forces[0].body: expected an index or the name of a body; found 'copler'; did you mean 'coupler'? known names of bodies: "
            "coupler",
        ),
        ("forces: [{point: 1, force: [0, 1, 2]}]", "forces[0].force: expected a list of 2; found a list of 3"),
        (
            "forces: [{torque: 1}]",
            "forces[0]: expected a mapping with one of (point, angle, body); found a mapping of (torque)",
        ),
        ("forces: [5]", "forces[0]: expected a mapping with one of (point, angle, body); found 5"),
        (
            "initial_velocities: {thet: 1}",
            "bar.yaml:25:22: initial_velocities.thet: there is no coordinate 'thet'; did you mean 'theta'? known coordinates: x1, y1",
        ),
        ("initial_velocities: [1]", "initial_velocities: expected a mapping from names to numbers; found a list of 1"),
        ("gravity: [0]", "gravity: expected a list of 2; found a list of 1"),
        (
            "gravity: [0, x1]",
            "gravity[1]: expected a number or an expression of (L, xb); found 'x1', which is unknown here",
        ),
        ("gravity: -9.81", "gravity: expected a list; found -9.81"),
    ],
)
def test_message_about_the_other_sections(section, message):
    faults = faults_of(FOURBAR + section + "\n")
    assert len(faults) == 1, faults
    assert message in faults[0]
    assert faults[0].startswith("bar.yaml:25:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bar.yaml:1:1: expected a mapping of (points, planar_bodies, …); found nothing"),
        ("- 1", "bar.yaml:1:1: expected a mapping of (points, planar_bodies, …); found a list of 1"),
        ("name: x\n", "bar.yaml:1:1: points: expected a value; found no key 'points'"),
        ("points: []", "bar.yaml:1:9: points: expected a list of 1 or more; found a list of 0"),
        (
            "points: [{x: 0, y: 0, fixed: true}]",
            "bar.yaml:1:9: points: expected at least one free point; found that all are fixed",
        ),
        ("points: [{x: 0, y: 0]", "bar.yaml:1:21: expected YAML; found an error: did not find expected ',' or '}'"),
        ("points:\n\t- 1", "bar.yaml:2:1: expected YAML; found an error: found character that cannot start any token"),
        ("a: 1\n---\nb: 2", "bar.yaml:2:1: expected YAML; found an error: but found another document"),
        ("points: [\x01]", "bar.yaml:1:10: expected a text; found the character U+0001"),
        ("points: &a [*a]", "bar.yaml:1:9: points[0]: expected a value; found an alias of what contains it"),
        ("points: " + "[" * 3000, "bar.yaml:1:58: expected at most 50 lists or mappings within each other; found more"),
    ],
)
def test_message_about_the_text(text, message):
    assert message in "\n".join(faults_of(text))


def test_all_faults_of_a_file_are_reported_at_once_in_order():
    text = FOURBAR.replace("xb: 4.0", "xb: w\n  w: xb").replace("y: 2*L", "y: 2*M").replace("[1, 2]", "[1, 7]")
    text = (
        text.replace("mass: 1.0", "mass: heavy mass")
        .replace("mass: 4,", "mass: 4, mas: 4,")
        .replace("[A, 1]}", "[A, C]}")
    )
    text += "springs: [{points: [A, 1], stiffness: -3}, {angle: theta, stiffness: 1, stiffness: 2}]\n"
    places = [fault.split(": ")[:2] for fault in faults_of(text)]
    assert places == [
        ["bar.yaml:5:7", "parameters.xb"],
        ["bar.yaml:10:15", "points[2].y"],
        ["bar.yaml:15:11", "planar_bodies[0].mass"],
        ["bar.yaml:18:17", "planar_bodies[1].points[1]"],
        ["bar.yaml:23:31", "planar_bodies[2].mas"],
        ["bar.yaml:25:63", "relative_coordinates[0].points[1]"],
        ["bar.yaml:26:39", "springs[0].stiffness"],
        ["bar.yaml:26:73", "springs[1].stiffness"],
    ]


def test_faults_of_how_a_body_is_drawn_hide_no_others():
    text = changed("    mass: 1.0\n", "    mass: -1\n    visual: {color: 7, width: lenght, radius: -1, colour: red}\n")
    text = text.replace("mass: 4,", "mass: 4, visual: grey,")
    places = [fault.split(": ")[1] for fault in faults_of(text)]
    body = "planar_bodies[0]"
    assert places == [
        *(f"{body}.mass", f"{body}.visual.color", f"{body}.visual.width", f"{body}.visual.radius"),
        *(f"{body}.visual.colour", "planar_bodies[2].visual"),
    ]


def test_a_fault_does_not_hide_those_of_later_entries():
    text = FOURBAR.replace("points: [A, 1]\n", "points: [A, 1.5]\n").replace("mass: 4,", "mass: -4,")
    faults = faults_of(text)
    assert ["planar_bodies[0].points[1]", "planar_bodies[2].mass"] == [fault.split(": ")[1] for fault in faults]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DescriptionError, match="nowhere.yaml: expected a mechanism file; found: No such file"):
        read_mechanism(tmp_path / "nowhere.yaml")
    with pytest.raises(DescriptionError, match="expected a mechanism file; found: Is a directory"):
        read_mechanism(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("name: Führung".encode("latin-1"))
    with pytest.raises(DescriptionError, match="latin.yaml: expected text in UTF-8; found byte 0xfc"):
        read_mechanism(tmp_path / "latin.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "parameters:",
            "parametres:",
            "bar.yaml:3:1: parametres: expected no key 'parametres' here; did you mean 'parameters'? known keys: name, ",
        ),
        (
            "name: B, x: xb",
            "name: A, x: xb",
            "bar.yaml:10:12: points[3].name: expected a name of its own; found 'A', as points[0]",
        ),
    ],
)
def test_message_before_those_of_its_consequences(old, new, message):
    faults = faults_of(changed(old, new))
    assert message in faults[0]
    assert len(faults) > 1
