"""What may stand with the name of a free number."""

import numpy as np
import pytest
from rod import INPUTS, START, TORQUE, T, measured, rod

import fgmbs
from fgmbs import planar
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command, Disturbance, GaussMarkov, RandomWalk
from fgmbs.problems.identify.free import Parts, freed_by_name, numbers_of
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.unknowns import Unknown

FRICTION = planar.angular_damper("bearing", "theta", 0.1)
SENSORS = (Encoder("enc", of="theta", sigma=1e-3), Gyroscope("gyro", body="rod", sigma=1e-2))


def parts(*inputs):
    return Parts(rod(2.0, 0.501, FRICTION), SENSORS, inputs or INPUTS)


def freed_rod(free):
    return freed_by_name(parts(), free).mechanism.parameters


def freed_force(free, *inputs):
    return freed_by_name(parts(*inputs), free).inputs[-1]


@pytest.mark.parametrize("mapping", [False, True])
def test_what_is_positive_stays_so_whatever_is_said(mapping):
    say = dict if mapping else lambda value=0.5, **said: Unknown(value, **said)
    mass = freed_rod({"rod.mass": say(value=1.5, sigma=1.0)})["rod.mass"]
    assert 0 < float(mass.lower) < 1e-3 and float(mass.sigma) == 1.0
    own = freed_rod({"rod.mass": say(value=1.5, own=True, upper=4.0)})["rod.mass"]
    assert own.own and 0 < float(own.lower) < 1e-3 and float(own.upper) == 4.0
    assert float(freed_rod({"bearing.damping": say(sigma=1.0)})["bearing.damping"].lower) == 0.0
    assert float(freed_rod({"rod.mass": say(value=1.5, lower=-1.0)})["rod.mass"].lower) == -1.0
    log = freed_rod({"rod.mass": say(value=1.5, log=True)})["rod.mass"]
    assert log.log and float(log.lower) == -np.inf
    before = parts()._replace(mechanism=parts().mechanism.with_parameters({"rod.mass": Unknown(1.5, sigma=1.0)}))
    kept = freed_by_name(before, ["rod.mass"]).mechanism.parameters["rod.mass"]
    assert float(kept.lower) > 0 and float(kept.sigma) == 1.0


def test_a_mapping_begins_at_the_number_that_there_is():
    mass = freed_rod({"rod.mass": {"sigma": 0.5}})["rod.mass"]
    assert float(mass.value) == 2.0 and float(mass.sigma) == 0.5


def test_bounds_are_any_real_numbers():
    mass = freed_rod({"rod.mass": (np.int64(1), np.float32(3.0))})["rod.mass"]
    assert (float(mass.lower), float(mass.upper)) == (1.0, 3.0)


@pytest.mark.parametrize("method", ["smoother", pytest.param("prediction", marks=pytest.mark.slow)])
def test_what_one_recording_has_is_known_of_another(method):
    """The zero of an encoder, before and after it was switched on again."""
    zeros, speeds = (0.02, -0.05), (2.0, 3.0)
    recordings = []
    for zero, speed in zip(zeros, speeds, strict=True):
        sensors = (Encoder("enc", of="theta", sigma=1e-3, bias=zero),)
        recordings.append(measured(rod(), 1e-3, None, speed * np.sin(3 * T), sensors)[1])
    bias = Unknown(sigma=[1.0, 1e-9], value=[0.0, zeros[1]], own=True)
    options = {"free": {"rod.mass": (0.5, 4.0), "enc.bias": bias}, "start": START, "method": method}
    fit = fgmbs.identify(rod(1.5), recordings, (Encoder("enc", of="theta", sigma=1e-3),), INPUTS, **options)
    # Free runs are of another integrator than what was measured.
    assert fit.parameters["rod.mass"] == pytest.approx(2.0, rel=1e-4)
    assert fit.parameters["enc.bias@0"] == pytest.approx(zeros[0], abs=5e-6)
    assert fit.parameters["enc.bias@1"] == pytest.approx(zeros[1], abs=1e-8)
    assert fit.std["enc.bias@1"] < 1.1e-9 < 1e-6 < fit.std["enc.bias@0"]


def test_rows_of_recordings_are_for_what_is_their_own():
    for own, recordings, text in ((True, 3, ", or one for each of 3 recordings"), (True, 1, ""), (False, 2, "")):
        with pytest.raises(ArgumentError) as caught:
            freed_by_name(parts(), {"rod.mass": Unknown((1.5, 2.0), own=own)}, recordings)
        assert str(caught.value) == f"free['rod.mass']: expected a number{text}; found shape (2,)"


def test_bias_of_several_rows_has_as_many_first_values():
    camera = fgmbs.sensors.Position("camera", point="tip", sigma=0.1)
    freed = freed_by_name(Parts(rod(), (camera,), INPUTS), {"camera.bias": np.array([0.1, 0.2])})
    assert freed.sensors[0].bias.value.tolist() == [0.1, 0.2]


def test_what_a_command_or_a_sensor_lacks_may_be_free():
    assert {"motor.lag", "motor.limit", "enc.time_sigma"} <= set(numbers_of(parts()))
    motor = freed_force({"motor.lag": True, "motor.limit": 3.0}, Command("motor", "u"))
    assert (float(motor.lag.value), float(motor.lag.lower)) == (0.0, 0.0)
    assert float(motor.limit.value) == 3.0 and 0 < float(motor.limit.lower) < 1e-3
    assert float(freed_by_name(parts(), {"enc.time_sigma": 1e-3}).sensors[0].time_sigma.value) == 1e-3


@pytest.mark.parametrize("bounds", [(1e-6, 1.0), {"lower": 1e-6, "upper": 1.0}])
def test_a_size_to_be_found_may_have_bounds(bounds):
    for force in (Disturbance(), GaussMarkov("motor", time_constant=0.1, name="disturbance")):
        size = freed_force({f"disturbance.{force.size_key}": bounds}, INPUTS[0], force).size
        assert (float(size.value), float(size.upper)) == (0.0, 1.0) and float(size.lower) == pytest.approx(1e-6)
    sensors, recording = measured(rod(), 1e-3, 0)
    given = rod(), recording, sensors, (INPUTS[0], Disturbance())
    problem = fgmbs.prepare_identify(*given, free={"rod.mass": True, "disturbance.power": bounds})
    own = fgmbs.prepare_identify(*given, free={"rod.mass": True, "disturbance.power": True})
    sizes = problem.smoothing.sizes
    assert float(sizes.value[0]) == pytest.approx(float(own.smoothing.sizes.value[0]))
    np.testing.assert_allclose(np.exp([sizes.lower[0], sizes.upper[0]]), [1e-6, 1.0])
    small = fgmbs.prepare_identify(*given, free={"rod.mass": True, "disturbance.power": (1e-9, 1e-8)})
    assert float(np.exp(small.smoothing.sizes.value[0])) == pytest.approx(1e-8)


@pytest.mark.parametrize(
    "free, text",
    [
        ({"rod.mass": Unknown((1.0, 2.0))}, r"free\['rod.mass'\]: expected a number; found shape \(2,\)"),
        ({"gyro.bias": Unknown((1.0, 2.0))}, r"free\['gyro.bias'\]: expected an array of shape \(1,\); found .*\(2,\)"),
        ({"rod.mass": {"sigmas": 1.0}}, r"free\['rod.mass'\]: there is no argument 'sigmas'; did you mean 'sigma'"),
        ({"rod.mass": {"sigma": -1.0}}, r"free\['rod.mass'\]: sigma: expected positive numbers; found -1"),
        ({"rod.mass": (True, 2.0)}, r"free\['rod.mass'\]: expected a pair of bounds"),
        (
            {"rod.mass": np.array((0.1, 2.0))},
            r"expected a number as first value; found .*; a pair of bounds is a tuple",
        ),
        (
            {"rod.mass": Unknown(sigma=1.0)},
            r"free\['rod.mass'\]: value: expected a positive number, where .* found 0; it",
        ),
        (
            {"enc.sigma": Unknown(sigma=1.0)},
            r"free\['enc.sigma'\]: value: expected a positive number, .*; it has 0.001",
        ),
        ({"motor.limit": True}, r"free\['motor.limit'\]: expected a first value, as the command has no limit"),
        ({"motor.limit": (1.0, 2.0)}, r"free\['motor.limit'\]: expected a first value"),
        ({"disturbance.power": (1.0, 0.5)}, r"free\['disturbance.power'\]: lower: expected a number below upper"),
        ({"disturbance.power": (-1.0, -0.5)}, r"free\['disturbance.power'\]: upper: expected a positive number"),
    ],
)
def test_what_is_refused(free, text):
    with pytest.raises(ArgumentError, match=text):
        freed_by_name(parts(INPUTS[0], Disturbance()), free)


def test_regular_stamps_tell_no_noise_of_their_own():
    sensors, recording = measured(rod(), 1e-3, 0)
    with pytest.raises(
        ArgumentError, match=r"free\['enc.time_sigma'\]: expected a first value, as the stamps .* regular"
    ):
        fgmbs.prepare_identify(rod(), recording, sensors, INPUTS, free=["rod.mass", "enc.time_sigma"])
    free = {"rod.mass": True, "enc.time_sigma": 1e-3}
    problem = fgmbs.prepare_identify(rod(), recording, sensors, INPUTS, free=free)
    assert problem.smoothing.sizes.names == ("enc.time_sigma",)


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["linear", "previous"])
def test_a_lag_is_found_of_a_command_that_has_none(hold):
    torque = fgmbs.Recording.of(T, {"u": TORQUE}, source="motor")
    force = Command("motor", "u", hold=hold, lag=0.08).force(torque)
    motion = fgmbs.hybrid_dynamics(rod(), T, forces={"motor": force}, start=START)
    read = fgmbs.readings(rod(), motion, SENSORS[:1], seed=1).merged(torque)
    command = Command("motor", "u", hold=hold), Disturbance(1e-7)
    fit = fgmbs.identify(rod(), read, SENSORS[:1], command, free=["motor.lag"], start=START)
    assert abs(fit.parameters["motor.lag"] - 0.08) < 4 * fit.std["motor.lag"] < 0.01


def test_of_unknown_forces_only_sizes_may_be_free():
    """How long a force is remembered would stay where it begins, and be called undetermined."""
    forces = (
        GaussMarkov("motor", 1.0, time_constant=0.1, name="gusts"),
        RandomWalk("motor", 1.0, sigma0=2.0, name="drift"),
    )
    names = [name for name in numbers_of(parts(*forces)) if name.split(".")[0] in ("gusts", "drift")]
    assert names == ["gusts.sigma", "drift.rate"]
    with pytest.raises(ArgumentError, match=r"there is no number 'gusts\.time_constant'"):
        freed_by_name(parts(*forces), {"gusts.time_constant": True})
