"""Mechanism files: what loads, what is refused, and what every message says."""

import warnings
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from linkage import FOURBAR, changed

from fgmbs.io.planar.catalogue import chain
from fgmbs.io.planar.load import of_yaml, parse_mechanism, read_mechanism, to_yaml
from fgmbs.mechanisms.planar import scopes
from fgmbs.mechanisms.planar.description import MechanismDescription, VisualDescription
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.mechanisms.planar.visuals import Visual, visuals

CONFIGS = Path(__file__).parents[2] / "configs" / "mechanisms"

# ---------------------------------------------------------------------------------------------------- what loads


@pytest.mark.parametrize("name", ["fourbars1", "fourbars1-with-rel-angle", "pendulum1", "pick-and-place-robot"])
def test_files_of_the_reference_program_load_unchanged(data_dir, name):
    path = data_dir / "multibody-factor-graphs" / "mechanisms" / f"{name}.yaml"
    description = read_mechanism(path)
    plain = yaml.safe_load(path.read_text())
    assert len(description.points) == len(plain["points"])
    assert len(description.planar_bodies) == len(plain["planar_bodies"])
    assert parse_mechanism(to_yaml(description)) == description


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_own_files_load_without_remarks_and_survive_a_round_trip(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        description = read_mechanism(path)
    assert description.name == path.stem
    assert parse_mechanism(to_yaml(description)) == description
    assert hash(parse_mechanism(to_yaml(description))) == hash(description)


def test_own_four_bars_are_the_benchmark():
    for name in ("fourbar", "fourbar_crank_angle"):
        numbers = scopes.numbers(read_mechanism(CONFIGS / f"{name}.yaml"), {})
        expected = {"crank.length": 1, "coupler.length": 2, "rocker.length": 13**0.5, "B.x": 4, "P2.x": 1, "P2.y": 2}
        expected |= {"crank.mass": 1, "coupler.mass": 2, "rocker.mass": 4, "rocker.I0": 4 * 13 / 3}
        assert {key: numbers[key] for key in expected} == pytest.approx(expected)
    assert read_mechanism(CONFIGS / "fourbar_crank_angle.yaml").coordinate_names[-1] == "theta"


def test_own_parallel_robot_is_that_of_the_reference_program(data_dir):
    own = read_mechanism(CONFIGS / "parallel_robot.yaml")
    other = read_mechanism(data_dir / "multibody-factor-graphs" / "mechanisms" / "pick-and-place-robot.yaml")
    assert (len(own.points), len(own.planar_bodies), len(own.coordinate_names)) == (14, 11, 22)
    assert [body.points for body in own.planar_bodies] == [body.points for body in other.planar_bodies]
    ours, theirs = (list(scopes.numbers(d, {}).values()) for d in (own, other))
    assert ours[len(own.parameters) :] == pytest.approx(theirs)


def test_the_chain_in_the_folder_is_that_of_the_catalogue():
    assert read_mechanism(CONFIGS / "chain10.yaml") == chain(10)


def test_bodies_of_the_drawn_crank_rocker_have_the_lengths_given():
    description = read_mechanism(CONFIGS / "driven_crank.yaml")
    names = scopes.point_scope(description, {})
    for i, body in enumerate(description.planar_bodies):
        length = scopes.body_scope(description, i, names, {})["length"]
        assert scopes.distance(names, *body.points) == pytest.approx(length, rel=1e-14)


def test_names_become_indices():
    description = parse_mechanism(FOURBAR + "forces:\n  - {body: coupler, torque: 1}\n  - {point: B, force: [0, 1]}\n")
    assert description.planar_bodies[2].points == (2, 3)
    assert description.relative_coordinates[0].points == (0, 1)
    assert description.forces[0].body == 1
    assert description.forces[1].point == 3
    assert description.coordinate_names == ("x1", "y1", "x2", "y2", "theta")


def test_how_a_body_is_drawn_is_no_part_of_its_program():
    visual = "    visual: {color: '#f80', width: L/20, outline: [[0, 0], [length, 0], [0, 1e-1]], radius: 0.2}\n"
    drawn = parse_mechanism(changed("    mass: 2.0\n", "    mass: 2.0\n" + visual))
    corners = ((0.0, 0.0), ("length", 0.0), (0.0, 0.1))
    assert drawn.planar_bodies[1].visual == VisualDescription(color="#f80", width="L/20", outline=corners, radius=0.2)
    assert drawn.planar_bodies[0].visual is None
    assert parse_mechanism(to_yaml(drawn)) == drawn
    plain, mechanism = (PlanarMechanism.from_description(d) for d in (parse_mechanism(FOURBAR), drawn))
    assert mechanism.structure == plain.structure and hash(mechanism.structure) == hash(plain.structure)
    assert mechanism.parameters.keys() == plain.parameters.keys()
    longer = mechanism.with_parameters({"L": 1.1}).description
    assert longer.planar_bodies == drawn.planar_bodies and plain.description.planar_bodies[1].visual is None


def test_drawings_follow_the_parameters():
    visual = "    visual: {width: L/20, outline: [[0, 0], [length, 0], [0, 0.1]], radius: mass/10}\n"
    drawn = parse_mechanism(changed("    mass: 2.0\n", "    mass: 2.0\n" + visual))
    (shown,) = visuals(drawn, {"L": 2.0, "coupler.mass": 3.0}).items()
    assert shown == ("coupler", Visual("#333333", 0.1, ((0, 0), (4, 0), (0, 0.1)), pytest.approx(0.3), (2.0, 0.0)))
    assert visuals(drawn, {"L": -1.0}) == {}  # an estimate may end so
    rooted = parse_mechanism(changed("    mass: 2.0\n", "    mass: 2.0\n    visual: {radius: sqrt(mass)}\n"))
    assert visuals(rooted, {"coupler.mass": -1.0}) == {}
    impossible = PlanarMechanism.from_description(drawn)
    impossible = eqx.tree_at(lambda m: m.parameters["coupler.mass"], impossible, jnp.asarray(-1.0))
    assert of_yaml(to_yaml(impossible.description)) == impossible.description


def test_forms_of_numbers():
    text = changed("  L: 1.0", "  {L: 1e-3, a: 1., b: .5, c: +2, d: -1E+2, e: '7', f: 6.0e0}").replace(
        "  xb: 4.0\n", ""
    )
    text = text.replace("x: xb", "x: 4")
    parameters = dict(parse_mechanism(text).parameters)
    assert parameters == {"L": 1e-3, "a": 1.0, "b": 0.5, "c": 2.0, "d": -100.0, "e": 7.0, "f": 6.0}


def test_yaml_words_are_names_where_a_name_is_a_key():
    assert dict(parse_mechanism(changed("  L: 1.0", "  L: 1.0\n  no: 2\n  on: 3")).parameters)["no"] == 2.0


def test_aliases_are_written_out():
    text = changed("    mass: 2.0", "    mass: &two 2.0").replace("mass: 4,", "mass: *two,")
    assert parse_mechanism(text).planar_bodies[2].mass == 2.0


def test_a_mechanism_tied_to_nothing_is_a_warning():
    with pytest.warns(UserWarning, match="bar.yaml:7:3: points: no point is fixed and nothing else ties"):
        parse_mechanism(FOURBAR.replace(", fixed: true", ""), source="bar.yaml")


def test_bodies_that_fly_freely_beside_others_are_a_warning():
    points = "  - {x: 5, y: 5}\n  - {x: 6, y: 5}\n  - {x: 7, y: 5}\nplanar_bodies:\n"
    bodies = "".join(f"  - {{points: [{i}, {i + 1}], mass: 1, I0: 1, cog: [0, 0]}}\n" for i in (4, 5))
    with pytest.warns(UserWarning, match=r"points\[4\]: the bodies of points \[4, 5, 6\] are not tied to the ground"):
        parse_mechanism(changed("planar_bodies:\n", points + bodies), source="bar.yaml")


def test_a_point_without_mass_is_a_warning():
    text = changed("planar_bodies:", "  - {x: 3, y: 3}\nplanar_bodies:") + "springs: [{points: [1, 4], stiffness: 1}]\n"
    with pytest.warns(
        UserWarning, match=r"bar.yaml:11:5: points\[4\]: the point belongs to no body, so it has no mass"
    ):
        parse_mechanism(text, source="bar.yaml")


def test_an_unused_fixed_point_is_a_warning():
    text = changed("planar_bodies:", "  - {x: 7, y: 0, fixed: true}\nplanar_bodies:")
    with pytest.warns(UserWarning, match=r"bar.yaml:11:5: points\[4\]: the fixed point is used nowhere"):
        parse_mechanism(text, source="bar.yaml")


_numbers = st.floats(0.1, 1e3) | st.sampled_from(["a", "2*a", "a^2 + no", "sqrt(a)", "1e-3"])
_anything = st.floats(-1e6, 1e6) | st.sampled_from(["a", "-a*no", "sin(a)", "1/3"])


@st.composite
def descriptions(draw):
    count = draw(st.integers(2, 6))
    points = [{"x": i, "y": draw(st.floats(-3, 3)), "fixed": i == 0} for i in range(count)]
    for i in draw(st.sets(st.integers(0, count - 1))):
        points[i]["name"] = f"P{i}"
    pair = st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True)
    bodies = st.fixed_dictionaries(
        {
            "points": st.just(list(range(count))),
            "mass": _numbers,
            "I0": st.just("1e9"),
            "cog": st.tuples(st.floats(-1, 1), _anything.filter(lambda x: isinstance(x, str))),
        }
    )
    springs = st.fixed_dictionaries({"points": pair, "stiffness": _numbers}, optional={"free_length": _numbers})
    forces = st.fixed_dictionaries({"point": st.integers(0, count - 1), "force": st.tuples(_anything, st.just("t*a"))})
    return {
        "name": draw(st.none() | st.just("made_up")),
        "parameters": {"a": draw(st.floats(0.1, 10)), "no": 2, "on": "a"},
        "gravity": [draw(_anything), 0],
        "points": points,
        "planar_bodies": draw(st.lists(bodies, min_size=1, max_size=3)),
        "springs": draw(st.lists(springs, max_size=2)),
        "forces": draw(st.lists(forces, max_size=2)),
        "initial_velocities": {
            f"x_P{i}" if "name" in p else f"x{i}": 1 for i, p in enumerate(points) if not p["fixed"]
        },
    }


@settings(derandomize=True, deadline=None, max_examples=40)
@given(descriptions())
def test_descriptions_survive_a_round_trip(data):
    description = MechanismDescription.model_validate(data)
    assert parse_mechanism(to_yaml(description)) == description
