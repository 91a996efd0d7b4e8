"""A fall of a five-bar robot, of which one crank is read: a filter follows it to another motion."""

import numpy as np
import pytest

import fgmbs
from fgmbs.inputs import Disturbance
from fgmbs.problems.smooth.beginning import begun, begun_at
from fgmbs.problems.smooth.guesses.growing import grown
from fgmbs.problems.smooth.iteration import to_the_end
from fgmbs.sensors import Encoder

START = {"theta_l": 1.7999, "theta_r": 0.6641}
FORCES = [Disturbance(1e-4)]


@pytest.fixture(scope="module")
def fall(configs):
    """(robot, motion, recording, sensors)"""
    robot = fgmbs.load(configs / "mechanisms" / "five_bar.yaml")
    motion = fgmbs.simulate(robot, 0.4, 1.25e-3, start=START)
    encoder = [Encoder("encoder", of="theta_l", sigma=1e-3)]
    return robot, motion, fgmbs.readings(robot, motion, encoder, seed=3), encoder


def test_a_motion_that_a_filter_loses_is_found_from_its_beginning_on(fall):
    robot, motion, read, encoder = fall
    problem = fgmbs.prepare_smooth(robot, read, encoder, FORCES, start=START)
    ends = {}
    for guess in (begun, grown):
        *_, at = to_the_end(problem, begun_at(problem, guess(problem)))
        points = np.asarray(at.x.steps)[: len(motion.t), :6]
        ends[guess] = np.abs(points - np.asarray(motion.q)[:, :6]).max(), float(at.look.cost)
    assert ends[begun][0] > 0.1 and ends[begun][1] > 1e3
    assert ends[grown][0] < 1e-3 and ends[grown][1] < len(motion.t)
