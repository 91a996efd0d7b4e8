"""Score tests of numbers that an estimate takes as known: against estimates in which they are found."""

import jax
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import Disturbance
from fgmbs.losses import Huber
from fgmbs.sensors import AbstractSensor, Accelerometer, Channel, Encoder

DT, POWER = 0.01, 1e-3
HELD = 1e-9
ASSUMED = {"L": 1.0, "enc.delay": 0.0, "acc.gain": 1.0, "acc.bias": (0.0, 0.0), "acc.at": (0.4, 0.1)}
REAL = ASSUMED | {"L": 1.0003, "enc.delay": 3e-4, "acc.gain": 1.001, "acc.at": (0.402, 0.1)}


def sensors(numbers, loss=None):
    at, gain, bias = (numbers[f"acc.{key}"] for key in ("at", "gain", "bias"))
    options = {"gain": gain, "bias": bias, "loss": loss}
    return [
        Encoder("enc", body="rod", sigma=2e-3, delay=numbers["enc.delay"]),
        Accelerometer("acc", body="rod", at=at, axes=("x", "y"), sigma=0.05, **options),
    ]


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


def recorded(pendulum, duration, seed):
    real = pendulum.with_parameters({"L": REAL["L"]})
    return fgmbs.readings(real, fgmbs.simulate(real, duration=duration, dt=DT), sensors(REAL), seed=seed)


def estimated(pendulum, recording, numbers, loss=None):
    mechanism = pendulum.with_parameters({"L": numbers["L"]})
    options = {"dt": DT, "start": {}, "start_velocities": {}}
    return fgmbs.smooth(mechanism, recording, sensors(numbers, loss), [Disturbance(POWER)], **options)


def with_one_more(pendulum, recording, name, row, loss=None):
    """(value, standard deviation) of one number that is found beside the motion; all others are held by priors."""
    numbers = {}
    for key, value in ASSUMED.items():
        sigma = np.full(np.shape(value), HELD)
        if key == name:
            sigma[row] = np.inf
        numbers[key] = Unknown(value, sigma=sigma)
    est = estimated(pendulum, recording, numbers, loss)
    return tuple(float(np.asarray(part[name])[row]) for part in (est.unknowns, est.unknowns_std))


@pytest.fixture(scope="module")
def recording(pendulum):
    return recorded(pendulum, 1.0, seed=0)


@pytest.fixture(scope="module")
def tests(pendulum, recording):
    return {test.name: test for test in estimated(pendulum, recording, ASSUMED).score_tests()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "row"), [("L", ()), ("enc.delay", ()), ("acc.gain", ()), ("acc.bias", (1,)), ("acc.at", (0,))]
)
def test_one_more_number_would_be_found_where_the_test_says(pendulum, recording, tests, name, row):
    test = tests[f"{name}[{row[0]}]" if row else name]
    found, std = with_one_more(pendulum, recording, name, row)
    assert test.value + test.change == pytest.approx(found, abs=0.1 * std)
    assert test.std == pytest.approx(std, rel=0.05)
    assert test.z == test.change / test.std


@pytest.mark.slow
def test_every_number_that_the_data_tell_is_tested(pendulum, tests):
    told = {"L", "rod.cog.y", "enc.bias", "enc.gain", "enc.delay", "acc.bias[0]", "acc.bias[1]", "acc.gain"}
    told |= {"acc.delay", "acc.misalignment", "acc.at[0]", "acc.at[1]", "gravity.x", "gravity.y"}
    assert set(tests) == told
    # Neither the mass of a pendulum nor the place of its pivot moves what they read.
    assert set(pendulum.parameters) - told == {"m", "pivot.x", "pivot.y"}


@pytest.mark.slow
def test_several_recordings_and_robust_losses_count(pendulum, recording):
    recordings, loss = [recording, recorded(pendulum, 0.6, seed=1)], Huber(3.0)
    tests = {test.name: test for test in estimated(pendulum, recordings, ASSUMED, loss).score_tests()}
    for name, row in (("acc.gain", ()), ("acc.at", (0,)), ("enc.delay", ())):
        test = tests[f"{name}[{row[0]}]" if row else name]
        found, std = with_one_more(pendulum, recordings, name, row, loss)
        assert test.value + test.change == pytest.approx(found, abs=0.1 * std)
        assert test.std == pytest.approx(std, rel=0.05)


class Dial(AbstractSensor):
    """A sensor of the user's own, of one row and three numbers: a curve of a coordinate."""

    channel: Channel
    curve: jax.Array
    order = 0

    @property
    def units(self):
        return ("V",)

    def ideal(self, mechanism, reading):
        return (self.curve @ reading.q[0] ** np.arange(3))[None]


@pytest.mark.slow
def test_numbers_of_a_sensor_of_ones_own_need_not_be_as_many_as_its_rows(pendulum):
    dial = Dial(Channel("dial", 1, sigma=1e-3), jax.numpy.array([0.5, 1.0, 0.1]))
    motion = fgmbs.simulate(pendulum, duration=1.0, dt=DT)
    recording = fgmbs.readings(pendulum, motion, [dial], seed=0)
    estimate = fgmbs.smooth(pendulum, recording, [dial], [Disturbance(POWER)], dt=DT, start={}, start_velocities={})
    data = estimate.to_dataset()
    units = dict(zip(data.known.values, data.known_unit.values, strict=True))
    assert units["dial.curve[2]"] == "SI" and units["dial.bias"] == "V"
