"""Cameras in space, against a projection by matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import rigid_body
from scipy.spatial.transform import Rotation

import fgmbs
from fgmbs import robots
from fgmbs.errors import ArgumentError
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.sensors import Camera, Encoder, Reading
from fgmbs.unknowns import Unknown

BODY = rigid_body()
EYE, TURN = np.array([0.3, -2.0, 0.5]), Rotation.from_rotvec([-1.4, 0.2, 0.1])
MIDDLE, FOCAL = np.array([640.0, 360.0]), 800.0
POSE = dict(position=EYE, rotation=TURN.as_rotvec(), gain=FOCAL, bias=MIDDLE, sigma=0.3)


def two_arms():
    """Two pendulums on one ground, which hang about different axes."""
    rod = dict(mass=1.0, center=(0.0, 0.0, -0.3), inertia=(0.03, 0.03, 0.001))
    return robots.robot(
        robots.link("ground"),
        robots.link("hand", **rod),
        robots.link("tip", **rod),
        robots.revolute("a", "ground", "hand", (0, 1, 0)),
        robots.revolute("b", "ground", "tip", (1, 0.2, 0), xyz=(0.4, 0.8, 0.1)),
    )


def standing(place, turn=None):
    turn = Rotation.identity() if turn is None else turn
    q = jnp.concatenate([jnp.asarray(place, float), jnp.asarray(np.roll(turn.as_quat(), 1))])
    return Reading(q, jnp.zeros(6), None, None, {}, jnp.asarray(0.0))


def projected(place, eye=EYE, turn=TURN):
    """By the matrix K [R t] of textbooks."""
    K = np.array([[FOCAL, 0, MIDDLE[0]], [0, FOCAL, MIDDLE[1]], [0, 0, 1]])
    R = turn.as_matrix().T
    u, v, w = K @ np.column_stack([R, -R @ eye]) @ np.append(place, 1.0)
    return np.array([u, v]) / w


def test_a_place_on_a_body():
    turn, at = Rotation.from_rotvec([0.3, -0.5, 0.9]), np.array([0.1, -0.2, 0.3])
    place = np.array([0.2, 0.1, 0.4])
    seen = Camera("c", body="b", at=at, **POSE).predict(BODY, standing(place, turn))
    np.testing.assert_allclose(seen, projected(place + turn.apply(at)), rtol=1e-12)


def test_a_camera_that_a_body_carries():
    """A point of another arm, seen by the camera in the hand of the first."""
    arms = two_arms()
    q, t = jnp.array([0.4, -0.7]), jnp.asarray(0.0)
    reading = Reading(q, jnp.zeros(2), None, None, {}, t)
    mounted = Camera("c", body="tip", on="hand", **POSE)
    mounted.check(arms)
    R, origin = (np.asarray(x) for x in arms.body_frame("hand", q, t))
    place = np.asarray(arms.body_frame("tip", q, t)[1])
    expected = projected(place, origin + R @ EYE, Rotation.from_matrix(R) * TURN)
    np.testing.assert_allclose(mounted.predict(arms, reading), expected, rtol=1e-12)


def test_radial_distortion():
    place, (k1, k2) = np.array([0.9, 0.1, 0.6]), (-0.2, 0.03)
    x, y = (projected(place) - MIDDLE) / FOCAL
    square = x * x + y * y
    expected = MIDDLE + FOCAL * np.array([x, y]) * (1 + k1 * square + k2 * square**2)
    seen = Camera("c", body="b", distortion=(k1, k2), **POSE).predict(BODY, standing(place))
    np.testing.assert_allclose(seen, expected, rtol=1e-12)
    assert np.abs(expected - projected(place)).max() > 1


def test_what_lies_beside_is_far_out_and_what_lies_behind_has_derivatives():
    camera = Camera("c", body="b", **POSE)
    forward, right = TURN.apply([0, 0, 1.0]), TURN.apply([1.0, 0, 0])
    for place in (EYE - forward + 0.1 * right, EYE + right, EYE):
        reading = standing(place)
        seen = camera.predict(BODY, reading)
        slope = jax.jacfwd(lambda q, r=reading: camera.predict(BODY, Reading(q, r.dq, None, None, {}, r.t)))(reading.q)
        assert np.isfinite(seen).all() and np.isfinite(slope).all()
    beside = camera.predict(BODY, standing(EYE + right)) - MIDDLE
    np.testing.assert_allclose(beside, [100 * FOCAL, 0], atol=1e-9 * FOCAL)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"gain": None}, "gain: expected the focal length of the camera in px; found none"),
        ({"position": (1, 2)}, "position: expected 3 numbers; found (1, 2)"),
        ({"rotation": 0.1}, "rotation: expected 3 numbers; found 0.1"),
        ({"point": "p"}, "point: expected a point, or else a body; found both"),
        ({"distortion": [[1.0]]}, "distortion: expected numbers k₁, k₂, …; found [[1.0]]"),
    ],
)
def test_what_a_camera_needs(change, text):
    with pytest.raises(ArgumentError) as error:
        Camera("c", **(dict(body="b", **POSE) | change))
    assert text in str(error.value)


def test_a_mechanism_in_the_plane_is_refused():
    pendulum = """
points: [{x: 0, y: 0, fixed: true, name: A}, {x: 1, y: 0, name: P}]
planar_bodies: [{name: rod, points: [A, P], mass: 1, I0: 0.3, cog: [0.5, 0]}]
"""
    plane = PlanarMechanism.from_description(parse_mechanism(pendulum))
    with pytest.raises(ArgumentError, match="sensor 'c': position: expected a mechanism in space"):
        Camera("c", point="P", **POSE).check(plane)


@pytest.mark.slow
def test_where_a_camera_stands_is_found_from_what_it_sees():
    """Encoders and the picture of the hand of an arm: angles, and the pose of the camera, within their intervals."""
    arms = two_arms()
    motion = fgmbs.simulate(arms, 2.0, 5e-3, start={"a": 0.5, "b": -0.8})
    angles = [Encoder(name, of=name, sigma=2e-3) for name in ("a", "b")]
    place = dict(body="hand", at=(0.05, 0.1, -0.6))
    recording = fgmbs.readings(arms, motion, [*angles, Camera("eye", **place, **POSE)], seed=3)
    off = np.array([0.05, -0.04, 0.03])
    sought = dict(position=Unknown(EYE + off, sigma=0.2), rotation=Unknown(TURN.as_rotvec() - off, sigma=0.2))
    camera = Camera("eye", **place, **(POSE | sought))
    result = fgmbs.smooth(arms, recording, [*angles, camera], [fgmbs.inputs.Disturbance(1e-6)])
    assert result.status == fgmbs.Status.converged
    for key, exact in (("position", EYE), ("rotation", TURN.as_rotvec())):
        found, std = (np.asarray(of[f"eye.{key}"]) for of in (result.unknowns, result.unknowns_std))
        assert np.abs((found - exact) / std).max() < 4 and std.max() < 0.1
    apart = np.abs(np.asarray(result.q) - np.asarray(motion.q)) / np.asarray(result.q_std)
    assert np.mean(apart < 3) > 0.95
    # Three numbers of a place and of a turn, where the picture has two.
    data = result.to_dataset()
    units = dict(zip(data.unknown.values, data.unknown_unit.values, strict=True))
    assert [units[f"eye.{key}[2]"] for key in ("position", "rotation")] == ["m", "rad"]
    assert "eye.position[2]" in result.report()


@pytest.mark.slow
def test_what_would_change_of_a_camera_is_told_in_its_unit():
    arms = two_arms()
    motion = fgmbs.simulate(arms, 0.5, 5e-3, start={"a": 0.5, "b": -0.8})
    seen = [*(Encoder(name, of=name, sigma=2e-3) for name in ("a", "b")), Camera("eye", body="hand", **POSE)]
    recording = fgmbs.readings(arms, motion, seen, seed=3)
    data = fgmbs.smooth(arms, recording, seen, [fgmbs.inputs.Disturbance(1e-6)]).to_dataset()
    units = dict(zip(data.known.values, data.known_unit.values, strict=True))
    assert units["eye.position[2]"] == "m" and units["eye.rotation[1]"] == "rad" and units["eye.bias[1]"] == "px"


MARKS = np.array([[0.05, 0.1, -0.6], [0.1, -0.05, -0.5], [-0.1, 0.1, -0.4]])
"""On a hand [m]."""


def test_several_places_are_read_as_each_by_itself():
    """With a turned picture: the middle of it is one for all."""
    turn, place = Rotation.from_rotvec([0.3, -0.5, 0.9]), np.array([0.2, 0.1, 0.4])
    more = POSE | dict(misalignment=0.2, distortion=(0.1, -0.02))
    seen = Camera("c", body="b", at=MARKS, **more)
    assert seen.columns == ("c.0.x", "c.0.y", "c.1.x", "c.1.y", "c.2.x", "c.2.y") and seen.units == ("px",) * 6
    assert seen.bias.shape == (2,) and seen.group == 2
    seen.check(BODY)
    alone = [Camera("c", body="b", at=at, **more).predict(BODY, standing(place, turn)) for at in MARKS]
    np.testing.assert_allclose(seen.predict(BODY, standing(place, turn)), np.concatenate(alone), rtol=1e-13)


def test_several_points_seen_from_a_body():
    arms = two_arms()
    reading = Reading(jnp.array([0.4, -0.7]), jnp.zeros(2), None, None, {}, jnp.asarray(0.0))
    both = Camera("c", point=["tip", "ground"], on="hand", **POSE)
    assert both.columns == ("c.tip.x", "c.tip.y", "c.ground.x", "c.ground.y")
    alone = [Camera("c", point=name, on="hand", **POSE).predict(arms, reading) for name in ("tip", "ground")]
    np.testing.assert_allclose(both.predict(arms, reading), np.concatenate(alone), rtol=1e-13)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"at": np.zeros((0, 3))}, "at: expected (x, y), in space (x, y, z), in the frame of the body, or several"),
        ({"at": np.zeros((1, 2, 3))}, "at: expected (x, y), in space (x, y, z), in the frame of the body, or several"),
        ({"body": None, "point": []}, "point: expected the name of a point, or different names in a list; found []"),
        ({"body": None, "point": ["P", "P"]}, "point: expected the name of a point, or different names in a list"),
        ({"at": MARKS, "bias": np.zeros(6)}, "bias: expected 2 numbers, one for each row, or one; found shape (6,)"),
        ({"at": MARKS, "columns": ["a", "b"]}, "columns: expected 6 names"),
    ],
)
def test_what_several_places_need(change, text):
    with pytest.raises(ArgumentError) as error:
        Camera("c", **(dict(body="b", **POSE) | change))
    assert text in str(error.value)


def test_other_sensors_have_one_place():
    with pytest.raises(ArgumentError, match="at: expected .* in the frame of the body; found"):
        fgmbs.sensors.Accelerometer("a", body="b", at=MARKS, sigma=1)


@pytest.mark.slow
def test_a_mark_that_is_mistaken_or_not_seen_does_not_spoil_the_others():
    """Where a camera stands, from three marks of a hand: one is hidden for a while, one now and then mistaken."""
    arms = two_arms()
    motion = fgmbs.simulate(arms, 1.0, 5e-3, start={"a": 0.5, "b": -0.8})
    angles = [Encoder(name, of=name, sigma=2e-3) for name in ("a", "b")]
    place = dict(body="hand", at=MARKS)
    recording = fgmbs.readings(arms, motion, [*angles, Camera("eye", **place, **POSE)], seed=3)
    signals = {name: np.array(recording[name].values) for name in recording}
    signals["eye.0.x"][50:90] = signals["eye.0.y"][50:90] = np.nan
    mistaken = np.sort(np.random.default_rng(0).choice(len(motion.t), 15, replace=False))
    signals["eye.1.x"][mistaken] += 80.0
    recording = fgmbs.Recording.of(np.asarray(motion.t), signals)
    off = np.array([0.05, -0.04, 0.03])
    sought = dict(position=Unknown(EYE + off, sigma=0.2), rotation=Unknown(TURN.as_rotvec() - off, sigma=0.2))
    camera = Camera("eye", **place, **(POSE | sought), loss=fgmbs.losses.Huber())
    result = fgmbs.smooth(arms, recording, [*angles, camera], [fgmbs.inputs.Disturbance(1e-6)])
    assert result.status == fgmbs.Status.converged
    for key, exact in (("position", EYE), ("rotation", TURN.as_rotvec())):
        found, std = (np.asarray(of[f"eye.{key}"]) for of in (result.unknowns, result.unknowns_std))
        assert np.abs((found - exact) / std).max() < 4 and std.max() < 0.01
    (fit,) = (fit for fit in result.fits if fit.name == "eye")
    hidden = np.isnan(np.asarray(fit.normalized)[50:90])
    assert hidden[:, :2].all() and not hidden[:, 2:].any()
    np.testing.assert_array_equal(np.flatnonzero(fit.weight < 0.05), mistaken)
    others = np.abs(np.asarray(fit.normalized)[mistaken][:, 4:])
    assert others.max() < 5
