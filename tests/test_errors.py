"""Errors pass from process to process, as those of workers do."""

import pickle

import pytest

import fgmbs
from fgmbs.errors import DescriptionError, Interrupted, SolveError


@pytest.mark.parametrize(
    "error",
    [
        DescriptionError(["a.yaml:1: x: expected 1; found 2", "a.yaml:2: y: expected 1; found 3"]),
        fgmbs.ArgumentError("dt: expected a positive number; found -1"),
        SolveError("step 3 failed", {"reached": 2}),
        Interrupted("interrupted after 3 steps", None),
    ],
)
def test_they_can_be_pickled(error):
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error) and str(found) == str(error) and vars(found) == vars(error)


def test_so_can_what_was_reached(configs):
    pendulum = fgmbs.load(configs / "mechanisms" / "pendulum.yaml")
    motion = fgmbs.simulate(pendulum, 0.05, 0.01)
    found = pickle.loads(pickle.dumps(SolveError("failed", motion)))
    assert found.result.q.tolist() == motion.q.tolist() and bool(found.result.status == motion.status)
