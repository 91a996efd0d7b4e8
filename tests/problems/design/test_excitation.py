"""Designed excitations: information, its gradient, limits, what it is worth, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from excitation_design import LIMITS, MOTOR, RIG, SENSORS, DrivenPendulum, moved
from jaxtyping import Array, Float

import fgmbs
from fgmbs.algebra.slopes import slopes_of
from fgmbs.errors import ArgumentError
from fgmbs.inputs import Command, Disturbance
from fgmbs.problems.design.information import DesignProblem, Limits, look
from fgmbs.problems.design.slopes import run_with_slopes
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.identify.free import Parts, freed_by_name
from fgmbs.problems.identify.free_runs import prediction
from fgmbs.problems.identify.free_runs.rollout import free_run_with_slopes, known_forces
from fgmbs.sensors import Encoder
from fgmbs.signals.trajectories.fourier import FourierSeries, series
from fgmbs.unknowns import Unknown

PLAN = dict(free=["viscous", "coulomb", "motor.gain"], period=2.0, harmonics=6, dt=2e-2, random=10, starts=5)


def designed(**options):
    return fgmbs.design_excitation(RIG, SENSORS, [MOTOR], **(PLAN | dict(iterations=120) | LIMITS | options))


class Spare(DrivenPendulum):
    """With a number that nothing depends on."""

    spare: Float[Array, ""] = eqx.field(default_factory=lambda: jnp.asarray(2.0))


@pytest.fixture(scope="module")
def design():
    return designed()


def problem_of(mechanism, sensors, inputs, free, t, start):
    parts = freed_by_name(Parts(mechanism, tuple(sensors), tuple(inputs)), free)
    zeros = {name: np.zeros_like(t) for part in sensors for name in part.columns}
    nothing = fgmbs.Recording.of(t, zeros | {command.column: np.zeros_like(t) for command in inputs})
    return fgmbs.prepare_smooth(parts.mechanism, nothing, parts.sensors, parts.inputs, start=start)


def test_gradient_of_the_information_is_that_of_differences():
    t = np.arange(60) * 2e-2
    problem = problem_of(RIG, SENSORS, [MOTOR], PLAN["free"], t, {})
    terms = series(jnp.asarray(t), (1, 2), jnp.asarray(1.0), jnp.asarray(0.5))
    states = Limits(jnp.asarray([-1.0]), jnp.asarray([1.0]), (1,))
    signals = Limits(jnp.asarray([-1.0]), jnp.asarray([1.0]), ())
    wanted = tuple("bias" not in name for name in problem.free.number_names)
    plan = DesignProblem(problem, problem.free.value[None], terms, signals, states, wanted)

    def told(c):
        seen = look(plan, c, plan.thetas[0])
        return seen.log_det + jnp.sum(seen.ratios**2)

    value_and_slope, c = jax.jit(jax.value_and_grad(told)), jnp.asarray([0.3, -0.2, 0.4, 0.1])
    slope = value_and_slope(c)[1]
    for k in range(4):
        step = jnp.zeros(4).at[k].set(1e-4)
        difference = (value_and_slope(c + step)[0] - value_and_slope(c - step)[0]) / 2e-4
        np.testing.assert_allclose(slope[k], difference, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_it_is_worth_twice_a_random_one_of_the_same_limits(design):
    assert design.worst < np.median(design.random_worst) / 2
    assert design.log_det > np.max(design.random_log_det)
    assert design.wanted == ("viscous", "coulomb", "motor.gain") and "angle.bias" in design.std
    assert design.std["viscous"] < design.std_before["viscous"]


@pytest.mark.slow
def test_limits_hold_in_another_simulation(design):
    assert design.held and not design.warnings()
    for signal in (design.recording, *design.random_recordings):
        motion = moved(signal)
        reached = [np.max(np.abs(x)) for x in (signal["u"].values, motion.q, motion.dq)]
        ratio = np.max(np.asarray(reached) / [1.0, 1.0, 8.0])
        assert 0.97 < ratio < 1 + 1e-6  # each is as large as the limits allow
    motion = moved(design.recording)
    np.testing.assert_allclose(design.q, motion.q, atol=1e-6)


@pytest.mark.slow
def test_what_is_foretold_is_what_identify_says(design, monkeypatch):
    """Which begins at what is to be found, so that no shorter runs need to lead it there."""
    monkeypatch.setattr(prediction, "_PART", 10**6)
    recording = fgmbs.readings(RIG, moved(design.recording), SENSORS).merged(design.recording)
    fit = fgmbs.identify(RIG, recording, SENSORS, [MOTOR], free=PLAN["free"], method="prediction", start={})
    for name in design.names:
        assert design.std[name] == pytest.approx(fit.std[name], rel=1e-3)
    assert design.intervals()["viscous"] == pytest.approx(1.96 * design.std["viscous"], rel=1e-4)


@pytest.mark.slow
def test_the_signal_is_the_series_and_the_table(design, tmp_path):
    signal, table = design.signals["motor"], design.recording["u"]
    np.testing.assert_allclose([float(signal(t)) for t in table.t[::7]], table.values[::7], atol=1e-12)
    assert table.values[0] == 0 and abs(table.values[1]) < 1e-2
    late = signal.ramp + 0.3
    assert float(signal(late)) == pytest.approx(float(signal(late + signal.period)), abs=1e-12)
    read = fgmbs.read_recording(design.write(tmp_path / "signal.csv"))
    np.testing.assert_array_equal(read["u"].values, table.values)
    with pytest.raises(ArgumentError, match="path: expected the path of a CSV file; found '.*signal.txt'"):
        design.write(tmp_path / "signal.txt")


@pytest.mark.slow
def test_the_report_says_it(design):
    text = design.report()
    assert "worst standard deviation" in text and "of 10 random signals" in text
    assert "found along with them" in text and "velocity" in text


def test_series_is_the_sum_it_says():
    one = FourierSeries(*map(jnp.asarray, ([0.5, 0.1], [0.2, -0.3], 2.0, 0.5)), (0, 3))
    angle = np.pi * 3 * 1.7
    assert float(one(1.7)) == pytest.approx(0.5 + 0.1 * np.cos(angle) - 0.3 * np.sin(angle))
    assert float(one(-1.0)) == 0.0


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(harmonics=0), "harmonics: expected an integer of at least 1; found 0"),
        (dict(harmonics=[]), r"harmonics: expected at least one, each once; found \[\]"),
        (dict(harmonics=50), "harmonics: expected at most 49, of which a period has more than two samples"),
        (dict(duration=1.0), "duration: expected at least one period, 2 s; found 1 s"),
        (dict(period=-1.0), "period: expected a positive time in seconds; found -1.0"),
        (
            dict(signal_limits={"motr": 1.0}),
            "signal_limits: expected names of commands; found 'motr'; did you mean 'motor'",
        ),
        (
            dict(signal_limits={}),
            "signal_limits: expected limits of the signal of every command; found none of 'motor'",
        ),
        (dict(signal_limits={"motor": (0.1, 1.0)}), "expected limits on both sides of 0, .* found 0.1 to 1"),
        (dict(coordinate_limits={"angle": (1.0, -1.0)}), r"coordinate_limits\['angle'\]: expected a lower limit below"),
        (dict(coordinate_limits={"angel": 1.0}), "expected names of coordinates; found 'angel'; did you mean 'angle'"),
        (
            dict(coordinate_limits={"angle": (0.5, 1.0)}),
            "expected limits that hold at the start, where it is 0; found 0.5",
        ),
        (dict(velocity_limits={"angle": -2.0}), "below the upper one, or a positive number; found -2.0"),
        (dict(wanted=["viscos"]), "wanted: expected names of free numbers; found 'viscos'; did you mean 'viscous'"),
        (dict(free=["viscos"]), "free: there is no number 'viscos'; did you mean 'viscous'"),
        (dict(free=["motor.delay"]), "free: expected of commands their gain, .*; found 'motor.delay'"),
        (
            dict(scenarios=3, free=["viscous"], sensors=[Encoder("angle", of="angle", sigma=1e-3)]),
            "scenarios: expected 0",
        ),
        (dict(inputs=[Command("engine", "u")]), "there is no actuator or coordinate 'engine'"),
        (
            dict(inputs=[Disturbance(1.0)]),
            "inputs: expected a fgmbs.inputs.Command, whose signal is designed; found none",
        ),
        (dict(seed=-1), "seed: expected an integer of at least 0; found -1"),
    ],
)
def test_bad_input(options, text):
    given = dict(mechanism=RIG, sensors=SENSORS, inputs=[MOTOR]) | PLAN | LIMITS | options
    with pytest.raises(ArgumentError, match=text):
        fgmbs.design_excitation(**given)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_design(design):
    np.testing.assert_array_equal(designed().recording["u"].values, design.recording["u"].values)


@pytest.mark.slow
def test_numbers_that_nothing_tells_are_named():
    with pytest.raises(ArgumentError, match="free: expected numbers that readings tell apart; .*motor.gain"):
        designed(free=["inertia", "weight", "viscous", "coulomb", "motor.gain"])
    with pytest.raises(ArgumentError, match="free: .* depend on; found that none depends on 'spare'; leave it out"):
        fgmbs.design_excitation(Spare(), SENSORS, [MOTOR], **(PLAN | LIMITS | dict(free=["spare", "viscous"])))


@pytest.mark.slow
def test_limits_hold_under_all_scenarios():
    prior = {"viscous": Unknown(0.01, sigma=3e-3, lower=0.0), "coulomb": True}
    found = designed(free=prior, scenarios=3, iterations=60, random=6, starts=3)
    assert found.held and found.std["viscous"] < 3e-3


@pytest.mark.slow
def test_slopes_of_a_linkage_are_those_of_its_free_run(configs):
    """Constraints that θ moves, and coordinates that depend on each other."""
    crank = fgmbs.load(configs / "mechanisms" / "fourbar_crank_angle.yaml")
    t = np.arange(40) * 1e-2
    motor = Command("motor", "u", hold="linear")
    free = ["coupler.mass", "L_crank", "motor.gain"]
    problem = problem_of(crank, [Encoder("enc", of="theta", sigma=1e-3)], [motor], free, t, {"theta": 0.3})
    model = known_forces(problem.model(problem.sizes.value, nominal_delays(problem.sensors)))
    x, theta = problem.recording.starts[0][: crank.n + crank.nv], problem.free.value
    data = problem.data(jnp.zeros(1), x, x)._replace(commands=jnp.full((problem.steps, 2, 1), 30.0))
    move = lambda change: model.chart.move(model.at(theta + change[2:]).mechanism, x, change[:2], 0.0)
    E = jax.jacfwd(move)(jnp.zeros(2 + theta.size))
    given = model.at(theta), slopes_of(model.at, theta)
    run, along = eqx.filter_jit(free_run_with_slopes)(*given, x, E, data)
    steps, slopes, _ = eqx.filter_jit(run_with_slopes)(*given, x, E, data)
    np.testing.assert_allclose(steps, run.steps, atol=1e-12)
    np.testing.assert_allclose(slopes, along, rtol=1e-7, atol=1e-8)
