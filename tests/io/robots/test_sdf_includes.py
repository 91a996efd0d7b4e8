"""Models of other files in SDF files: where they are found, how they are called and placed, and what is refused."""

import dataclasses
import math

import pytest

import fgmbs
from fgmbs.errors import DescriptionError
from fgmbs.io.robots.sdf import parse_sdf, read_sdf

PARTS = """<link name="root"><inertial><mass>0.5</mass></inertial></link>
  <link name="tip"><pose>0 0 0.1 0.2 0 0</pose><inertial><mass>0.1</mass></inertial>
    <visual name="v"><geometry><mesh><uri>meshes/tip.stl</uri></mesh></geometry></visual></link>
  <joint name="bend" type="revolute"><parent>root</parent><child>tip</child><axis><xyz>1 0 0</xyz></axis></joint>"""
FINGER = f'<sdf version="1.10"><model name="finger"><pose>9 9 9 0 0 0</pose>{PARTS}</model></sdf>'
HAND = """<sdf version="1.7"><model name="hand"><link name="palm"/>
  {left}{right}
  <joint name="l" type="fixed"><parent>palm</parent><child>left::root</child></joint>
  <joint name="r" type="fixed"><parent>palm</parent><child>right::root</child></joint></model></sdf>"""
LEFT = '<pose relative_to="palm">0 1 0 0 0 0</pose>'
RIGHT = '<pose relative_to="palm">0 -1 0 0 0 1.5707963267948966</pose>'
INCLUDED = HAND.format(
    left=f"<include><uri>model://finger</uri><name>left</name>{LEFT}</include>",
    right=f"<include><uri>../finger/model.sdf</uri><name>right</name>{RIGHT}</include>",
)
WRITTEN_OUT = HAND.format(
    left=f'<model name="left">{LEFT}{PARTS}</model>', right=f'<model name="right">{RIGHT}{PARTS}</model>'
)


def written(folder, name, text):
    """The file of a model."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    file = folder / name / "model.sdf"
    file.write_text(text)
    return file


@pytest.fixture
def hand(tmp_path):
    """The file of a hand, beside that of a finger."""
    written(tmp_path, "finger", FINGER)
    return written(tmp_path, "hand", INCLUDED)


def without_shapes(description):
    return tuple(dataclasses.replace(link, shapes=()) for link in description.links)


def test_what_is_included_is_as_if_it_were_written_there(hand):
    found, expected = read_sdf(hand), parse_sdf(WRITTEN_OUT, "hand.sdf")
    assert without_shapes(found) == without_shapes(expected)
    assert (found.joints, found.frames, found.notes) == (expected.joints, expected.frames, expected.notes)
    assert fgmbs.load(hand).joint_names == ("left::bend", "right::bend")


def test_meshes_lie_beside_the_file_that_names_them(hand):
    tip = next(link for link in read_sdf(hand).links if link.name == "left::tip")
    assert tip.shapes[0].file == str(hand.parents[1] / "finger" / "meshes" / "tip.stl")


def test_a_world_of_included_models(hand):
    world = hand.parents[1] / "world.sdf"
    parts = "".join(
        f"<include><uri>{uri}</uri></include>" for uri in ("hand", f"file://{hand.parents[1] / 'finger' / 'model.sdf'}")
    )
    world.write_text(f'<sdf version="1.9"><world name="w"><gravity>0 0 -1.6</gravity>{parts}</world></sdf>')
    description = read_sdf(world, model="hand")
    assert description.gravity == (0.0, 0.0, -1.6) and len(description.links) == 5
    with pytest.raises(DescriptionError, match="found hand, finger; say which one by model="):
        read_sdf(world)


def test_files_of_a_model_by_their_version(hand):
    folder = hand.parents[1] / "finger"
    (folder / "model.sdf").rename(folder / "new.sdf")
    (folder / "old.sdf").write_text("<sdf version='1.4'/>")
    names = "<sdf version='1.4'>old.sdf</sdf><sdf version='1.10'>new.sdf</sdf>"
    (folder / "model.config").write_text(f"<model>{names}</model>")
    hand.write_text(INCLUDED.replace("../finger/model.sdf", "model://finger"))
    assert without_shapes(read_sdf(hand)) == without_shapes(parse_sdf(WRITTEN_OUT, "hand.sdf"))


def test_folders_of_models(hand, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (hand.parents[1] / "finger").rename(tmp_path / "elsewhere" / "finger")
    hand.write_text(INCLUDED.replace("../finger/model.sdf", "model://finger/model.sdf"))
    with pytest.raises(DescriptionError, match="expected a model at 'model://finger'; found none, looked for at"):
        read_sdf(hand)
    monkeypatch.setenv("SDF_PATH", f"nowhere:{tmp_path / 'elsewhere'}")
    assert len(read_sdf(hand).links) == 5


def test_every_file_has_its_own_version(tmp_path):
    """Of SDFormat 1.10 on a thread pitch is radians per metre of a left-handed screw; before it was said otherwise."""
    screw = (
        '<sdf version="{}"><model name="m"><link name="a"/><link name="b"/><joint name="s" type="screw">'
        "<parent>a</parent><child>b</child><axis><xyz>0 0 1</xyz></axis><thread_pitch>-10</thread_pitch></joint>{}"
        "</model></sdf>"
    )
    written(tmp_path, "new", screw.format("1.10", ""))
    held = '<joint name="h" type="fixed"><parent>b</parent><child>m::a</child></joint>'
    more = f"<include><uri>model://new</uri></include>{held}"
    joints = read_sdf(written(tmp_path, "old", screw.format("1.7", more))).joints
    pitches = {joint.name: joint.pitch for joint in joints if joint.kind == "screw"}
    assert pitches == {"s": pytest.approx(-10 / (2 * math.pi)), "m::s": pytest.approx(0.1)}


def test_a_fault_is_told_with_the_file_that_it_is_in(hand):
    finger = hand.parents[1] / "finger" / "model.sdf"
    finger.write_text(FINGER.replace("<mass>0.1</mass>", "<mass>much</mass>"))
    with pytest.raises(DescriptionError) as error:
        read_sdf(hand)
    assert f"{finger}:2: <mass>: expected a finite number; found 'much'" in str(error.value)


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        ("", "model.sdf:1: <include>: expected <uri> with the place of a model; found none"),
        (
            "<uri>https://fuel.gazebosim.org/x</uri>",
            "expected a model on this machine; found 'https://fuel.gazebosim.org/x'",
        ),
        ("<uri>model://gone</uri>", "expected a model at 'model://gone'; found none, looked for at "),
        (f"<uri>{'x' * 5000}</uri>", "expected a model at 'xxx"),
        ("<uri>model://whole</uri>", "expected a model without itself in it; found "),
        ("<uri>model://pair</uri>", "expected one <model> in a file that is included; found 2"),
        ("<uri>model://old</uri>", "expected a version from 1.5 to 1.12; found '1.3'"),
        ("<uri>model://robot</uri>", "model.sdf:1: <robot>: expected <sdf>"),
        ("<uri>model://finger</uri><placement_frame>tip</placement_frame>", "without <placement_frame>, which is not"),
        ("<uri>model://finger</uri><name/>", "<model name=''>: expected an attribute name; found none"),
    ],
)
def test_what_cannot_be_included(tmp_path, inside, text):
    written(tmp_path, "finger", FINGER)
    written(tmp_path, "pair", '<sdf version="1.7"><model name="a"/><model name="b"/></sdf>')
    written(tmp_path, "old", '<sdf version="1.3"><model name="a"/></sdf>')
    written(tmp_path, "robot", "<robot/>")
    whole = f'<sdf version="1.7"><model name="m"><link name="a"/><include>{inside}</include></model></sdf>'
    with pytest.raises(DescriptionError) as error:
        read_sdf(written(tmp_path, "whole", whole))
    assert text in str(error.value)


def test_merged_models_are_refused(tmp_path):
    whole = '<sdf version="1.9"><model name="m"><include merge="true"><uri>x</uri></include></model></sdf>'
    with pytest.raises(DescriptionError, match="expected no merge, which is not supported; found 'true'"):
        read_sdf(written(tmp_path, "whole", whole))


def test_few_files_ask_for_few_models(tmp_path):
    """Each of these includes the next one twice."""
    for k in range(20):
        twice = "".join(f"<include><uri>model://m{k + 1}</uri><name>{name}</name></include>" for name in "ab")
        written(tmp_path, f"m{k}", f'<sdf version="1.9"><model name="m"><link name="l"/>{twice}</model></sdf>')
    written(tmp_path, "m20", '<sdf version="1.9"><model name="m"><link name="l"/></model></sdf>')
    with pytest.raises(DescriptionError, match="expected at most 200 included models; found more"):
        read_sdf(tmp_path / "m0" / "model.sdf")
