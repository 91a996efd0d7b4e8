"""Delay, lag and limit of recorded commands: a mass on a line whose motion is known exactly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pushed_mass
import pytest
from counting import compilations
from pushed_mass import MASS

import fgmbs
from fgmbs import ArgumentError, Unknown
from fgmbs.inputs import Command, Disturbance, Recorded
from fgmbs.problems.estimation.data import Channel, played_commands
from fgmbs.sensors import Accelerometer, Encoder
from fgmbs.signals.recordings.played import Played

DT, STEPS = 0.02, 151
TRUE = {"gain": 1.7, "delay": 0.0137, "lag": 0.043, "limit": 1.6}
RNG = np.random.default_rng(2)
STAMPS = 0.031 * np.arange(97)
VOLTS = 2.0 * np.sin(4 * STAMPS) + np.where(np.sin(7 * STAMPS) > 0, 0.7, -0.5)
SENSORS = (Encoder("enc", of="x_left", unit="m", sigma=1e-4),)
FELT = (*SENSORS, Accelerometer("acc", body="block", axes=("x",), sigma=0.02))


def moved(t, volts=VOLTS, gain=1.7, delay=0.0, lag=0.0, limit=np.inf, hold="previous", stamps=STAMPS):
    """(places, accelerations) exactly: x'' = y / m, lag y' + y = the signal, piece by piece; that on straight lines
    or held, and where it jumps what was before."""
    volts = gain * np.clip(volts, -limit, limit)
    slopes = np.append(np.diff(volts) / np.diff(stamps) if hold == "linear" else 0 * np.diff(volts), 0.0)
    when, breaks = stamps + delay, np.unique(np.concatenate([t, stamps + delay]))
    x = np.array([1.2, 0.4, volts[0]])
    found = {t[0]: x}
    for a, b in zip(breaks[:-1], breaks[1:], strict=True):
        if a < t[0]:
            continue
        k, s = max(0, np.searchsorted(when, a, side="right") - 1), b - a
        v, g = (volts[k] + slopes[k] * (a - when[k]), slopes[k]) if a >= when[0] else (volts[0], 0.0)
        rest = (x[2] - v + g * lag) if lag else 0.0
        E = np.exp(-s / lag) if lag else 0.0
        steady = v - g * lag
        impulse = steady * s + g * s**2 / 2 + rest * lag * (1 - E)
        gone = steady * s**2 / 2 + g * s**3 / 6 + rest * lag * (s - lag * (1 - E))
        x = np.array([x[0] + x[1] * s + gone / MASS, x[1] + impulse / MASS, steady + g * s + rest * E])
        found[b] = x
    x = np.array([found[one] for one in t])
    return x[:, 0], x[:, 2] / MASS


def recorded(t=None, **numbers):
    t = DT * np.arange(STEPS) if t is None else t
    x, ddx = moved(t, **numbers)
    signals = fgmbs.Recording.of(t, {"enc": x, "acc": ddx}, units={"enc": "m", "acc": "m/s^2"}).signals
    return fgmbs.Recording({**signals, **fgmbs.Recording.of(STAMPS, {"volts": VOLTS}).signals})


@pytest.fixture(scope="module")
def mass():
    return pushed_mass.mass()


def smoothed(mass, recording, sensors=SENSORS, **numbers):
    drive = Command("x_left", "volts", name="drive", **numbers)
    start = {"start": {"x_left": 1.2}, "start_velocities": {"x_left": 0.4}}
    return fgmbs.smooth(mass, recording, sensors, (Disturbance(1e-6), drive), dt=DT, **start)


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["previous", "linear"])
def test_known_ones_act_exactly(mass, hold):
    """A held command that switches within steps moves a mass exactly: nothing is left for the disturbance."""
    numbers = {key: TRUE[key] for key in ("gain", "delay", "lag")}
    est = smoothed(mass, recorded(hold=hold, **numbers), hold=hold, **numbers)
    assert float(est.groups[1].chi2) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["previous", "linear"])
def test_accelerations_are_those_of_the_command_as_it_acts_then(mass, hold):
    """Not those of the line that moves the mass to the same place, which ends beside the signal where that jumps: the
    accelerometer was off by up to 2 m/s²."""
    numbers = {key: TRUE[key] for key in ("gain", "delay")}
    recording = recorded(hold=hold, **numbers)
    est = smoothed(mass, recording, FELT, hold=hold, **numbers)
    _, accelerations = moved(np.asarray(est.t), hold=hold, **numbers)
    np.testing.assert_allclose(est.commands[1:, 0] / MASS, accelerations[1:], atol=2e-3)
    np.testing.assert_allclose(est.ddq[1:, 0], accelerations[1:], atol=2e-3)
    assert float(est.groups[2].chi2) < 1e-3 * STEPS and float(est.groups[1].chi2) < 1e-3 * STEPS


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0137, 0.0])
def test_a_delay_is_found_where_accelerations_jump(mass, delay):
    """Held from step to step, the command makes accelerations jump that are read on steps: before one, or on it."""
    stamps, volts = DT * np.arange(STEPS), np.where(np.sin(2e-3 * np.arange(STEPS) ** 2) > 0, 1.0, -1.0)
    x, ddx = moved(stamps, volts, stamps=stamps, delay=delay)
    rng = np.random.default_rng(0)
    x, ddx = x + 1e-4 * rng.standard_normal(x.size), ddx + 0.02 * rng.standard_normal(x.size)
    recording = fgmbs.Recording.of(stamps, {"enc": x, "acc": ddx, "volts": volts}, units={"enc": "m", "acc": "m/s^2"})
    est = smoothed(mass, recording, FELT, gain=1.7, delay=Unknown(0.005))
    off = float(est.unknowns["drive.delay"]) - delay
    assert abs(off) < 3 * float(est.unknowns_std["drive.delay"]) + 1e-2 * DT and est.warnings() == ()


@pytest.mark.slow
def test_all_are_found(mass):
    rough = {"gain": 1.0, "delay": 0.005, "lag": 0.1, "limit": 1.9}
    found = smoothed(mass, recorded(**TRUE), **{key: Unknown(value) for key, value in rough.items()})
    for key, value in TRUE.items():
        assert float(found.unknowns[f"drive.{key}"]) == pytest.approx(value, rel=1e-6), key
    assert "drive.lag" in found.report()
    force = found.commands[:, 0]
    assert np.max(np.abs(force)) < 1.01 * TRUE["gain"] * TRUE["limit"]


@pytest.mark.slow
def test_a_delay_is_found_without_a_lag_and_over_several_steps(mass):
    found = smoothed(mass, recorded(gain=1.7, delay=0.075), gain=1.7, delay=Unknown(0.0))
    assert float(found.unknowns["drive.delay"]) == pytest.approx(0.075, abs=1e-7)


@pytest.mark.slow
def test_recordings_of_other_lengths_share_them_and_the_program(mass):
    inputs = (
        Disturbance(1e-6),
        Command("x_left", "volts", name="drive", gain=1.7, delay=Unknown(0.005), lag=Unknown(0.1)),
    )
    numbers = {key: TRUE[key] for key in ("gain", "delay", "lag")}
    long, short = (recorded(DT * np.arange(steps), **numbers) for steps in (STEPS, STEPS - 5))
    begun = [{"x_left": 1.2}] * 2
    together = fgmbs.smooth(mass, [long, short], SENSORS, inputs, dt=DT, start=begun)
    assert float(together.unknowns["drive.lag"]) == pytest.approx(TRUE["lag"], rel=1e-6)
    assert compilations(lambda: fgmbs.smooth(mass, [short, long], SENSORS, inputs, dt=DT, start=begun)) == 0


@pytest.mark.slow
def test_a_window_finds_the_delay(mass):
    drive = Command("x_left", "volts", name="drive", gain=1.7, delay=Unknown(0.005, sigma=0.1))
    start = {"start": {"x_left": 1.2}, "start_velocities": {"x_left": 0.4}}
    recording = recorded(gain=1.7, delay=0.0137)
    est = fgmbs.smooth(mass, recording, SENSORS, (Disturbance(1e-6), drive), dt=DT, window=4, **start)
    assert float(est.unknowns["drive.delay"]) == pytest.approx(0.0137, abs=1e-4)


@pytest.mark.slow
def test_derivatives_of_the_estimate_are_those_of_differences(mass):
    drive = Command("x_left", "volts", gain=1.7, delay=0.01, lag=0.05, limit=1.7, name="drive")
    start = {"start": {"x_left": 1.2}, "start_velocities": {"x_left": 0.4}}
    problem = fgmbs.prepare_smooth(mass, recorded(**TRUE), SENSORS, (Disturbance(1e-2), drive), dt=DT, **start)
    of = lambda p: (p.inputs[1].delay, p.inputs[1].lag, p.inputs[1].limit)

    @jax.jit
    def places(numbers):
        return fgmbs.solve(eqx.tree_at(of, problem, tuple(numbers))).x.steps[:STEPS, 0]

    at, e = jnp.array([0.0104, 0.05, 1.7]), 1e-6  # no sample acts on a step, where slopes have kinks
    slopes = jax.jit(jax.jacfwd(places))(at)
    for k in range(3):
        step = e * np.eye(3)[k]
        difference = (places(at + step) - places(at - step)) / (2 * e)
        np.testing.assert_allclose(slopes[:, k], difference, rtol=1e-4, atol=1e-4 * np.max(np.abs(difference)))


def test_commands_of_several_kinds_act_as_each_does_alone():
    kinds = ({}, {"gain": 3.0, "delay": 0.01}, {"hold": "linear"}, {"lag": 0.04, "limit": 1.2}, {"delay": -0.02})
    played = []
    for k, own in enumerate(kinds):
        signal = fgmbs.Recording.of(STAMPS + 1e-3 * k, {"volts": (k + 1) * VOLTS})["volts"]
        recorded = Recorded(Played.of(signal, 128, 4, own.get("hold", "previous")))
        command = Command("x_left", "volts", name=f"force_{k}", **own)
        command = eqx.tree_at(lambda force: force.recorded, command, recorded, is_leaf=lambda leaf: leaf is None)
        played.append(command.evaluated())
    times, stamps, delays = DT * np.arange(STEPS), (0.011 * np.arange(200), 0.017 * np.arange(30)), (0.0, 0.003)
    channels = [Channel(np.zeros((len(t), 1)), t, 0.0) for t in stamps]
    found = jax.jit(played_commands)(played, jnp.asarray(times), DT, channels, jnp.asarray(delays))
    assert [part.shape for part in found.read] == [(200, 5), (30, 5)]
    for k, one in enumerate(played):
        alone = jax.jit(lambda t, one=one: (one.line(t - DT, t), one.acting(t, 0.01 * DT)))
        at_steps = [alone(t) for t in times]
        np.testing.assert_allclose(found.lines[:, :, k], [line for line, _ in at_steps], atol=1e-12)
        np.testing.assert_allclose(found.acting[:, k], [value for _, value in at_steps], atol=1e-12)
        for read, t, delay in zip(found.read, stamps, delays, strict=True):
            np.testing.assert_allclose(read[:, k], [alone(one - delay)[1] for one in t], atol=1e-12)


def test_the_force_is_a_function_of_time():
    drive = Command("x_left", "volts", **TRUE)
    force = drive.force(recorded(**TRUE))
    held = Command("x_left", "volts", gain=1.7).force(recorded())
    assert float(held(0.05)) == pytest.approx(1.7 * VOLTS[1])
    t, e = 0.3, 1e-6
    signal = 1.7 * np.clip(VOLTS[np.searchsorted(STAMPS + TRUE["delay"], t) - 1], -1.6, 1.6)
    rate = (force(t + e) - force(t - e)) / (2 * e)
    assert float(TRUE["lag"] * rate + force(t)) == pytest.approx(signal, abs=1e-6)


def test_what_cannot_be_meant(mass):
    for key in ("delay", "lag", "limit"):
        drive = Command("x_left", "volts", name="drive", **{key: Unknown(0.1, sigma=0.1)})
        with pytest.raises(ArgumentError, match=f"input 'drive': {key}: expected a number .*found Unknown"):
            fgmbs.online(mass, SENSORS, (Disturbance(1e-2), drive), dt=DT)
    with pytest.raises(ArgumentError, match="input 'drive': lag: expected none in a real-time loop"):
        fgmbs.online(mass, SENSORS, (Disturbance(1e-2), Command("x_left", "u", lag=0.1, name="drive")), dt=DT)
    drive = Command("x_left", "volts", name="drive", lag=Unknown(0.1, sigma=0.1))
    with pytest.raises(ArgumentError, match="input 'drive': lag: expected a number for a fixed-lag smoother"):
        fgmbs.smooth(mass, recorded(), SENSORS, (Disturbance(1e-2), drive), dt=DT, window=4)
