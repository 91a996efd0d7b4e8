"""Identification as a pure function of arrays: the same numbers, alone and in a batch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rod import INPUTS, START, measured, rod

import fgmbs
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command, Disturbance
from fgmbs.sensors import Encoder, Gyroscope

FREE = {"rod.mass": (0.1, 10.0), "motor.gain": fgmbs.Unknown(1.0, sigma=0.02)}
TRUTH = {"coupler.mass": 2.5, "rocker.mass": 3.0, "crank.mass": 1.4}
SIGMA = 1e-2
"""Of the encoder [rad]."""


def stacked(problems):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)


def member(tree, k):
    return jax.tree.map(lambda leaf: leaf[k], tree)


def check_members(problems, fits, recordings):
    """A batch of problems against the public calls, in units of standard deviations."""
    found = jax.jit(jax.vmap(fgmbs.solve))(stacked(problems))
    for k, (problem, fit, recording) in enumerate(zip(problems, fits, recordings, strict=True)):
        again = fgmbs.finish(problem, member(found, k), recordings=recording, throw=False)
        assert again.status == fit.status and again.notes == fit.notes and again.iterations == fit.iterations
        for name in fit.names:
            assert again.parameters[name] == pytest.approx(fit.parameters[name], rel=0, abs=1e-6 * fit.std[name])
            assert again.std[name] == pytest.approx(fit.std[name], rel=1e-6)
            np.testing.assert_allclose(again.intervals()[name], fit.intervals()[name], atol=1e-5 * fit.std[name])
    with pytest.raises(ArgumentError, match="recording: expected at least one; found none"):
        fgmbs.finish(problems[0], member(found, 0))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("power", (1e-5, None))
def test_a_batch_of_seeds_is_the_loop_over_them(power):
    inputs = (INPUTS[0], Disturbance(power))
    mechanism, how = rod(mass=1.0), dict(free=FREE, start=START)
    recordings, problems, fits = [], [], []
    for seed in range(3):
        sensors, recording = measured(rod(), SIGMA, seed)
        recordings.append(recording)
        problems.append(fgmbs.prepare_identify(mechanism, recording, sensors, inputs, **how))
        fits.append(fgmbs.identify(mechanism, recording, sensors, inputs, throw=False, **how))
    found = check_members(problems, fits, recordings)
    assert np.ptp(np.asarray(found.theta), axis=0).min() > 1e-3 * min(fits[0].std.values())  # not one for all


@pytest.mark.slow
def test_several_recordings_in_a_batch_and_the_start_that_is_not_given(configs):
    crank = fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml")
    t = np.arange(201) * 2.5e-3
    sensors = (Encoder("crank", of="theta", sigma=1e-3), Gyroscope("gyro", body="coupler", sigma=1e-2))
    inputs = (Command("motor", "u", hold="linear"), Disturbance(1e-4))
    recordings, problems, fits = [], [], []
    for seed in range(2):
        both = []
        for k, torque in enumerate((20 + 10 * t, 30 - 20 * t)):
            true = crank.with_parameters(TRUTH)
            motion = fgmbs.hybrid_dynamics(true, t, forces={"motor": torque}, start={"theta": 0.3 + k})
            recording = fgmbs.readings(crank, motion, sensors, seed=10 * seed + k)
            both.append(recording.merged(fgmbs.Recording.of(t, {"u": torque}, source="motor")))
        recordings.append(both)
        problems.append(fgmbs.prepare_identify(crank, both, sensors, inputs, free=list(TRUTH)))
        fits.append(fgmbs.identify(crank, both, sensors, inputs, free=list(TRUTH)))
    check_members(problems, fits, recordings)


def test_it_can_be_traced():
    sensors, recording = measured(rod(), SIGMA, 0)
    inputs = INPUTS[0], Disturbance(None)
    problem = fgmbs.prepare_identify(rod(mass=1.0), recording, sensors, inputs, free=FREE, start=START)
    assert jax.eval_shape(fgmbs.solve, problem).theta.shape == (2,)


def test_what_has_no_derivative_says_so():
    sensors, recording = measured(rod(), SIGMA, 0)
    problem = fgmbs.prepare_identify(rod(mass=1.0), recording, sensors, INPUTS, free=FREE, start=START)

    def first(values):
        where = lambda p: p.smoothing.recording.channels[0].values
        return fgmbs.solve(eqx.tree_at(where, problem, values)).theta[0]

    with pytest.raises(ArgumentError, match=r"those of the numbers .* are of fgmbs.solve\(problem.smoothing\)"):
        jax.grad(first)(jnp.asarray(problem.smoothing.recording.channels[0].values))


def test_it_asks_for_the_same_arguments():
    sensors, recording = measured(rod(), SIGMA, 0)
    with pytest.raises(ArgumentError, match=r"free: .*'rod.mas'.*rod.mass"):
        fgmbs.prepare_identify(rod(), recording, sensors, INPUTS, free=["rod.mas"], start=START)
    with pytest.raises(ArgumentError, match="expected at least one number to find"):
        fgmbs.prepare_identify(rod(), recording, sensors, INPUTS, free=[], start=START)
