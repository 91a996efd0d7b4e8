"""Recordings side by side: each with its own start, length and time step, and one θ for all."""

import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import Disturbance
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.status import Status

INPUTS = (Disturbance(1e-3),)
GYRO = {"body": "rod", "sigma": 0.02}


def sensors(**calibration):
    return (Gyroscope("gyro", **GYRO, **calibration), Encoder("enc", body="rod", sigma=0.01))


@pytest.fixture(scope="module")
def pendulum():
    return fgmbs.load("configs/mechanisms/pendulum.yaml")


def recorded(pendulum, seconds, rate, seed, start, bias=0.0):
    motion = fgmbs.simulate(pendulum, seconds, 1e-3, start=start)
    given = dict(calibration={"gyro": {"bias": bias}}, rates=rate, seed=seed)
    return fgmbs.readings(pendulum, motion, sensors(bias=Unknown(0.0, sigma=1.0)), **given)


STARTS = {"x_tip": 0.6, "y_tip": -0.8}, {"x_tip": -0.28, "y_tip": -0.96}


@pytest.fixture(scope="module")
def two(pendulum):
    """300 samples at 50 Hz, 5000 at 500 Hz."""
    slow = recorded(pendulum, 299 / 50, 50, 1, STARTS[0])
    return slow, recorded(pendulum, 4999 / 500, 500, 2, STARTS[1])


def of(estimate, number):
    here = np.asarray(estimate.recording) == number
    return {name: np.asarray(getattr(estimate, name))[here] for name in ("t", "q", "dq", "q_std", "dq_std")}


# The same programs for all tests: whether the bias is found is a matter of its prior.
KNOWN = Unknown(0.0, sigma=1e-9)


@pytest.fixture(scope="module")
def alone(pendulum, two):
    """What a recording says alone."""
    return lambda k, bias: fgmbs.smooth(pendulum, two[k], sensors(bias=bias), INPUTS, start=STARTS[k])


@pytest.fixture(scope="module")
def together(pendulum, two):
    """What both say, in this order."""
    return lambda order, bias: fgmbs.smooth(
        pendulum, [two[k] for k in order], sensors(bias=bias), INPUTS, start=[STARTS[k] for k in order]
    )


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_where_nothing_is_shared_it_is_what_each_says_alone(alone, together, order):
    both, likelihood = together(order, KNOWN), 0.0
    assert both.status == Status.converged
    for number, k in enumerate(order):
        one, part = alone(k, KNOWN), of(both, number)
        assert len(one.t) == (300, 5000)[k]
        for name, values in part.items():
            np.testing.assert_allclose(values, getattr(one, name), rtol=1e-7, atol=1e-8, err_msg=name)
        likelihood += float(one.log_likelihood)
    assert float(both.log_likelihood) == pytest.approx(likelihood, abs=1e-6)


@pytest.mark.slow
def test_what_is_shared_is_found_from_all(alone, together):
    """The bias by the information form: each recording alone says it without a prior, and one prior counts once."""
    prior = 0.02
    both = together((0, 1), Unknown(0.0, sigma=prior))
    information, vector = 1 / prior**2, 0.0
    for k in range(2):
        one = alone(k, Unknown(0.0))
        value, std = (float(np.ravel(part["gyro.bias"])[0]) for part in (one.unknowns, one.unknowns_std))
        information, vector = information + 1 / std**2, vector + value / std**2
    assert float(both.unknowns["gyro.bias"][0]) == pytest.approx(vector / information, rel=1e-3)
    assert float(both.unknowns_std["gyro.bias"][0]) == pytest.approx(information**-0.5, rel=1e-3)


@pytest.mark.slow
def test_twenty_recordings_of_unequal_length_compile_once(pendulum, compiled):
    whole = recorded(pendulum, 4.0, 100, 3, STARTS[0])

    def parts(seed):
        lengths = np.random.default_rng(seed).uniform(2.6, 3.2, 20)
        lengths[0] = 3.1
        return [whole.between(0.0, float(length)) for length in lengths]

    smooth = lambda recordings: fgmbs.smooth(pendulum, recordings, sensors(), INPUTS, start=STARTS[0])
    first = smooth(parts(0))
    assert first.status == Status.converged and len(set(np.bincount(first.recording))) > 10
    compiled.clear()
    assert smooth(parts(1)).status == Status.converged
    assert not compiled
