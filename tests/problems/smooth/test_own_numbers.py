"""Numbers that each recording has of its own: found as if it were alone, while all others stay shared."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Disturbance
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.status import Status

PENDULUM = """
name: sprung
parameters: {L: 1.0, m: 2.0, k: 60.0, relaxed: 0.8}
points:
  - {name: pivot, x: 0, y: 0, fixed: true}
  - {name: tip, x: 0.6*L, y: -0.8*L}
  - {name: hook, x: 1.2, y: 0.3, fixed: true}
planar_bodies:
  - {name: rod, points: [pivot, tip], length: L, mass: m, I0: mass*length^2/3, cog: [length/2, 0]}
springs:
  - {name: spring, points: [tip, hook], stiffness: k, free_length: relaxed}
"""
DT, STEPS = 0.01, (57, 63, 60)  # of one bucket
RELAXED, BIASES, MASS = (0.8, 0.7, 0.95), (0.3, -0.2, 0.05), 2.0
INPUTS = (Disturbance(1e-3),)
START = {"start": {"x_tip": 0.6, "y_tip": -0.8}, "start_sigma": (1.0, 10.0)}


def sensors(bias):
    return Encoder("enc", body="rod", sigma=1e-3, bias=bias), Gyroscope("gyro", body="rod", sigma=1e-2)


@pytest.fixture(scope="module")
def true():
    return PlanarMechanism.from_description(parse_mechanism(PENDULUM))


@pytest.fixture(scope="module")
def recordings(true):
    made = []
    for steps, relaxed, bias in zip(STEPS, RELAXED, BIASES, strict=True):
        mechanism = true.with_parameters({"relaxed": relaxed})
        motion = fgmbs.simulate(mechanism, steps * DT, DT)
        given = {"enc": {"bias": bias}}
        made.append(fgmbs.readings(mechanism, motion, sensors(Unknown(sigma=1.0)), calibration=given))
    return made


def arguments(true, recordings, *, mass, relaxed=None):
    relaxed = Unknown(0.85, lower=0.2, log=True, own=True) if relaxed is None else relaxed
    mechanism = true.with_parameters({"m": mass, "relaxed": relaxed})
    return mechanism, recordings, sensors(Unknown(own=True)), INPUTS


@pytest.fixture(scope="module")
def estimate(true, recordings):
    return fgmbs.smooth(*arguments(true, recordings, mass=Unknown(2.2, log=True)), **START)


def test_each_recording_has_its_own(estimate):
    assert estimate.status == Status.converged
    own = [f"{name}@{k}" for name in ("relaxed", "enc.bias") for k in range(3)]
    assert set(estimate.unknowns) == set(estimate.unknowns_std) == set(estimate.priors) == {"m", *own}
    for k in range(3):
        np.testing.assert_allclose(estimate.unknowns[f"relaxed@{k}"], RELAXED[k], rtol=1e-6)
        np.testing.assert_allclose(estimate.unknowns[f"enc.bias@{k}"], BIASES[k], rtol=1e-6)
    np.testing.assert_allclose(estimate.unknowns["m"], MASS, rtol=1e-6)


def test_a_recording_of_several_holds_what_is_its_own(estimate):
    for k, steps in enumerate(STEPS):
        one = estimate.of_recording(k)
        assert len(one.t) == steps + 1 and set(one.unknowns) == {"m", "relaxed", "enc.bias"}
        np.testing.assert_allclose(one.mechanism.parameters["relaxed"], RELAXED[k], rtol=1e-6)
        assert one.sensors[0].unknowns["bias"].own
        here = np.asarray(estimate.recording) == k
        for name in ("q", "q_std", "dq_std", "ddq_std"):
            np.testing.assert_allclose(getattr(one, name), getattr(estimate, name)[here], rtol=1e-9, atol=1e-15)
        assert one.unknowns_std["relaxed"] == estimate.unknowns_std[f"relaxed@{k}"]
    with pytest.raises(ArgumentError, match="number: expected that of a recording, from 0 to 2; found 3"):
        estimate.of_recording(3)


def test_the_report_lists_each(estimate):
    report = estimate.report()
    for name in ("relaxed@0", "relaxed@2", "enc.bias@1"):
        assert f"\n  {name} " in report


def test_joint_forces_are_those_of_each_recording(estimate):
    forces, std = estimate.joint_forces()
    for k in range(3):
        here = np.asarray(estimate.recording) == k
        alone, alone_std = estimate.of_recording(k).joint_forces()
        np.testing.assert_allclose(forces[here], alone, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(std[here], alone_std, rtol=1e-7, atol=1e-12)


@pytest.mark.slow
def test_where_everything_is_own_it_is_what_each_says_alone(true, recordings):
    mass = Unknown(2.2, log=True, own=True)
    together, likelihood = fgmbs.smooth(*arguments(true, recordings, mass=mass), **START), 0.0
    for k, recording in enumerate(recordings):
        one, part = fgmbs.smooth(*arguments(true, recording, mass=mass), **START), together.of_recording(k)
        assert one.unknowns.keys() == part.unknowns.keys() == {"m", "relaxed", "enc.bias"}
        for name, value in one.unknowns.items():
            np.testing.assert_allclose(part.unknowns[name], value, rtol=1e-9, err_msg=name)
            np.testing.assert_allclose(part.unknowns_std[name], one.unknowns_std[name], rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(part.q, one.q, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(part.q_std, one.q_std, rtol=1e-6, atol=1e-12)
        likelihood += float(one.log_likelihood)
    assert float(together.log_likelihood) == pytest.approx(likelihood, abs=1e-6)
