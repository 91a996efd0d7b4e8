"""Motions that began elsewhere: a pendulum of which a camera sees the horizontal position only, above or below."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.problems.estimation.first_state import Starts
from fgmbs.problems.smooth.beginning import begun
from fgmbs.problems.smooth.iteration import to_the_end
from fgmbs.problems.smooth.other_motions import Motion, compared
from fgmbs.problems.smooth.rounds import surveyed
from fgmbs.results.warnings import warnings
from fgmbs.sensors import Encoder, Position

DURATION, DT = 0.3, 0.01
ROUGH = 10.0, 1000.0
"""Standard deviations of a start that counts for nothing."""


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


def start_of(angle, rate):
    """Coordinates and velocities of the tip, 1 m from the pivot."""
    q = {"x_tip": np.cos(angle), "y_tip": np.sin(angle)}
    return q, {"x_tip": -rate * q["y_tip"], "y_tip": rate * q["x_tip"]}


def filmed(pendulum, angle, rate, sigma, seed):
    """(motion, recording, camera) of a pendulum that starts at an angle from the horizontal [rad]."""
    q, dq = start_of(angle, rate)
    motion = fgmbs.simulate(pendulum, DURATION, DT, start=q, start_velocities=dq)
    camera = [Position("cam", point="tip", axes=("x",), sigma=sigma)]
    return motion, fgmbs.readings(pendulum, motion, camera, seed=seed), camera


def smoothed(pendulum, recording, camera, **options):
    return fgmbs.smooth(pendulum, recording, camera, (Disturbance(1e-4),), dt=DT, **options)


def mirrored(q):
    return {"x_tip": float(q[0]), "y_tip": -float(q[1])}


def about_starts(estimate):
    return [text for text in warnings(estimate.to_dataset()) if text.startswith("start")]


@pytest.fixture(scope="module")
def undecided(pendulum):
    return filmed(pendulum, 0.86, -0.92, 0.08, 0)


@pytest.fixture(scope="module")
def likeliest(pendulum, undecided):
    return smoothed(pendulum, *undecided[1:])


def test_probabilities_are_those_of_motions_solved_alone(pendulum, undecided, likeliest):
    first, other = likeliest.branches
    np.testing.assert_allclose(other.q, (first.q[0], -first.q[1]), atol=0.02)
    alone = []
    for branch in (first, other):
        start = dict(zip(("x_tip", "y_tip"), branch.q, strict=True))
        one = smoothed(pendulum, *undecided[1:], start=start, start_sigma=ROUGH)
        assert one.branches == ()  # a start that is known is not looked around
        alone.append(float(one.log_likelihood))
    np.testing.assert_allclose([first.weight, other.weight], softmax(alone), rtol=1e-3)
    assert first.weight > other.weight > 0.05
    assert float(likeliest.log_likelihood) == pytest.approx(alone[0], abs=5e-3)
    (text,) = about_starts(likeliest)
    assert f"with a probability of {other.weight:.2g}, which begins at y_tip = {other.q[1]:.3g}" in text


def test_a_given_start_that_may_be_is_kept(pendulum, undecided, likeliest):
    start = mirrored(likeliest.branches[0].q)
    kept = smoothed(pendulum, *undecided[1:], start=start)
    first, other = kept.branches
    assert first.given and not other.given and np.sign(kept.q[0, 1]) == np.sign(start["y_tip"])
    assert first.weight == pytest.approx(likeliest.branches[1].weight, rel=1e-3)
    assert len(about_starts(kept)) == 1


def test_a_given_start_that_the_data_refute_is_left(pendulum):
    motion, *seen = filmed(pendulum, 0.86, -0.92, 1e-3, 0)
    right = smoothed(pendulum, *seen)
    assert right.branches[0].weight == pytest.approx(1.0) and about_starts(right) == []
    found = smoothed(pendulum, *seen, start=mirrored(motion.q[0]))
    np.testing.assert_allclose(found.q, right.q, atol=1e-6)
    (text,) = about_starts(found)
    assert text.startswith("start: it is not the one that was given")


@pytest.mark.parametrize("angle, rate, seed, cost", [(-2.6099, 1.3306, 24, 13.7589), (2.3716, -1.6471, 128, 11.7038)])
def test_where_the_first_guess_is_lost_larger_forces_lead_back(pendulum, angle, rate, seed, cost):
    """Both start where they did, and without that help ended at costs of 2141 and 178."""
    motion, *seen = filmed(pendulum, angle, rate, 0.08, seed)
    q, dq = start_of(angle, rate)
    found = smoothed(pendulum, *seen, start=q, start_velocities=dq, start_sigma=ROUGH)
    np.testing.assert_allclose(found.q, motion.q, atol=5 * float(np.max(found.q_std)))
    assert float(found.cost_history[-1]) < 20


def test_the_other_motion_is_found_where_the_first_sample_is_one_that_no_pose_makes(pendulum):
    """Starts that a camera which reads x < −1 m cannot tell apart all lie where y is 0."""
    angle, rate = 2.788486605067879, -1.492731590955009
    motion, recording, camera = filmed(pendulum, angle, rate, 0.08, 78)
    assert recording["cam"].values[0] < -1.0
    found = smoothed(pendulum, recording, camera)
    assert [round(branch.weight, 2) for branch in found.branches] == [0.97, 0.03]
    np.testing.assert_allclose(found.q, motion.q, atol=3 * float(np.max(found.q_std)))
    first, other = (branch.q[1] for branch in found.branches)
    assert first * other < 0


@pytest.mark.parametrize("given", [False, True])
def test_of_motions_that_differ_by_whole_turns_the_one_nearest_to_the_drawing_is_kept(configs, given):
    """Unless the other one was asked for."""
    mechanism = fgmbs.load(configs / "mechanisms" / "double_pendulum_ibm.yaml")
    motion = fgmbs.simulate(mechanism, 0.05, 2e-3, start={"theta": 0.5, "phi": 0.3})
    encoders = [Encoder(name, of=name, sigma=1e-3) for name in ("theta", "phi")]
    asked = mechanism, fgmbs.readings(mechanism, motion, encoders, seed=0), encoders, (Disturbance(1e-4),)

    def solved(problem):
        *_, at = to_the_end(problem, begun(problem))
        return Motion(problem, at, surveyed(problem, at))

    turned = fgmbs.prepare_smooth(*asked, start={"theta": 0.5, "phi": 0.3 + 2 * np.pi})
    first = solved(turned.of(turned.recording._replace(given=jnp.asarray(given))))
    begin = turned.recording.starts[0]
    phi = mechanism.coordinate_names.index("phi")
    starts = jnp.broadcast_to(begin, turned.recording.starts.shape).at[1, phi].add(-2 * np.pi)
    behind = jnp.full(len(starts), jnp.inf).at[:2].set(jnp.asarray([0.0, 0.5]))
    *_, found = compared(first, Starts(jnp.asarray(0), behind, starts), solved)
    off = np.asarray(found.best.at.x.steps)[: len(motion.q), : mechanism.n] - np.asarray(motion.q)
    np.testing.assert_allclose(off[:, phi], 2 * np.pi * given, atol=5e-3)
    assert found.others == 0 and np.isfinite(found.best.at.starts.behind).tolist() == [given, not given] + 6 * [False]


@pytest.mark.slow
def test_recordings_that_share_nothing_are_as_likely_as_alone(pendulum, undecided, likeliest):
    clear = filmed(pendulum, 0.67, 0.92, 0.08, 3)[1]
    both = smoothed(pendulum, [clear, undecided[1]], undecided[2])
    weights = [[branch.weight for branch in both.branches if branch.recording == number] for number in (0, 1)]
    assert weights[0][0] > 0.999
    np.testing.assert_allclose(weights[1], [branch.weight for branch in likeliest.branches], rtol=1e-3)
    np.testing.assert_allclose(both.q[both.recording == 1], likeliest.q, atol=1e-5)
    (text,) = about_starts(both)
    assert text.startswith("start of recording 1: the data hardly tell")


@pytest.mark.slow
def test_probabilities_are_right_as_often_as_they_say(pendulum):
    """150 motions from anywhere: as many as expected are the true one, and those that are said to be sure are."""
    rng = np.random.default_rng(0)
    weights, right = [], []
    for seed in range(150):
        motion, *seen = filmed(pendulum, rng.uniform(-np.pi, np.pi), rng.uniform(-2, 2), 0.08, seed)
        found = smoothed(pendulum, *seen, throw=False)
        if found.status == fgmbs.status.Status.converged and found.branches:
            weights.append(found.branches[0].weight)
            right.append(np.linalg.norm(found.q[15] - motion.q[15]) < 0.3)
    weights, right = np.array(weights), np.array(right)
    assert len(weights) > 0.9 * 150
    assert abs(np.sum(weights) - np.sum(right)) < 3 * np.sqrt(np.sum(weights * (1 - weights)) + 1)
    assert np.mean(right[weights > 0.999]) > 0.95


@pytest.mark.slow
def test_a_start_is_doubted_where_the_way_from_all_was_lost(pendulum, undecided):
    """Nothing is compared then; where the readings are explained poorly it is said all the same."""
    problem = fgmbs.prepare_smooth(pendulum, *undecided[1:], (Disturbance(1e-4),), dt=DT)
    solution = fgmbs.solve(problem)
    behind = jnp.full_like(solution.at.starts.behind, jnp.inf)
    found = fgmbs.finish(problem, eqx.tree_at(lambda s: s.at.starts.behind, solution, behind))
    (own,) = found.branches
    np.testing.assert_allclose(own.q, found.q[0], atol=0.5)
    dataset = found.to_dataset()
    assert not [text for text in warnings(dataset) if text.startswith("start")]
    dataset["group_chi2"] = 100 * dataset["group_chi2"]
    (text,) = (text for text in warnings(dataset) if text.startswith("start"))
    assert "the best that was found leaves a χ² of" in text and text.endswith("say start=…")


@pytest.mark.slow
def test_while_nothing_explains_the_readings_more_starts_are_tried(configs):
    """A five-bar robot falls from where one encoder leaves it open; of the first eight starts none leads there."""
    robot = fgmbs.load(configs / "mechanisms" / "five_bar.yaml")
    motion = fgmbs.simulate(robot, 0.4, 5e-3, start={"theta_l": 2.2000585, "theta_r": 0.6770311})
    sensors = [Encoder("encoder", of="theta_l", sigma=1e-3)]
    recording = fgmbs.readings(robot, motion, sensors, seed=38)
    found = fgmbs.smooth(robot, recording, sensors, [Disturbance(1e-4)])
    turns = np.zeros(robot.n)
    turns[-2:] = 2 * np.pi
    off = found.q - motion.q
    np.testing.assert_allclose(off - turns * np.round(off[:1] / (2 * np.pi)), 0.0, atol=5 * float(np.max(found.q_std)))
    assert about_starts(found) == []
