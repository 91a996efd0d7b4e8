"""Prediction errors: their gradient, numbers found from readings without noise, bounds, horizons, other solvers."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import Command, Disturbance
from fgmbs.problems.identify.free_runs.prediction import led, predict_best
from fgmbs.problems.identify.free_runs.segments import Parameters, prediction_loss, prepare_prediction
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.status import Status

T, DT = 0.5, 1e-2
STEPS = 255
"""Of runs that may be long: those of all tests are one shape, and share what is compiled."""
ZEROS, LATE = (0.02, -0.05), 0.03


@pytest.fixture(scope="module")
def pendulum(configs):
    return fgmbs.load(configs / "mechanisms" / "pendulum.yaml")


def of(mechanism, lower=-12.0, duration=T):
    sensors = (Encoder("enc", body="rod", sigma=1e-3),)
    recording = fgmbs.readings(mechanism, fgmbs.simulate(mechanism, duration, DT), sensors)
    unknown = mechanism.with_parameters({"gravity.y": Unknown(-9.5, lower=lower, upper=-9.0)})
    return fgmbs.prepare_smooth(unknown, recording, sensors, (Disturbance(1e-4),), start={})


@pytest.fixture(scope="module")
def prediction(pendulum):
    return prepare_prediction(of(pendulum, duration=STEPS * DT))


@pytest.fixture(scope="module")
def found(prediction):
    return predict_best(prediction)


@pytest.fixture(scope="module")
def several(pendulum):
    """(prediction, what is found) of two recordings, each with its own zero of the encoder and its own command."""
    recordings, t = [], DT * np.arange(61)
    before = -DT * np.arange(10, 0, -1)
    for number, (zero, duration) in enumerate(zip(ZEROS, (0.6, 0.5), strict=True)):
        force = lambda t, k=number: 2.0 + 3.0 * k - 20.0 * (1 + k) * t
        motion = fgmbs.hybrid_dynamics(pendulum, t, forces={"y_tip": force(t - LATE)})
        command = fgmbs.Recording.of(np.append(before, t), {"u": force(np.append(before, t))})
        read = fgmbs.readings(pendulum, motion, (Encoder("enc", body="rod", sigma=1e-3, bias=zero),))
        recordings.append(read.merged(command).between(before[0], duration))
    sensors = (Encoder("enc", body="rod", sigma=1e-3, bias=Unknown(own=True)),)
    drive = Command("y_tip", "u", hold="linear", delay=Unknown(0.01, lower=0.0, upper=0.1))
    unknown = pendulum.with_parameters({"gravity.y": Unknown(-9.5, lower=-12.0, upper=-9.0)})
    problem = fgmbs.prepare_smooth(unknown, recordings, sensors, (drive, Disturbance(1e-4)))
    prediction = prepare_prediction(problem)
    return prediction, predict_best(prediction)


def numbers(prediction, found):
    return dict(zip(prediction.model.free.number_names, np.asarray(found.theta), strict=True))


@pytest.mark.slow
def test_numbers_are_found_without_noise(several):
    _, found = several
    assert found.status == Status.converged and int(found.iterations) < 10
    # Of the cost a prior is left that does not stand at the true start.
    assert sum(np.sum(np.square(misses)) for misses in found.residuals) / 2 < 1e-4
    assert bool(jnp.all(found.run_status == Status.converged))
    np.testing.assert_allclose(found.covariance @ found.information, np.eye(len(found.theta)), atol=1e-8)


@pytest.mark.slow
def test_numbers_that_each_recording_has_of_its_own(several):
    names = "gravity.y", "enc.bias@0", "enc.bias@1"
    np.testing.assert_allclose([numbers(*several)[name] for name in names], [-9.81, *ZEROS], atol=1e-7)


@pytest.mark.slow
def test_how_late_a_command_acts_in_several_recordings(several):
    """Each hears its own command."""
    np.testing.assert_allclose(numbers(*several)["y_tip.delay"], LATE, atol=1e-6)


@pytest.mark.slow
def test_a_bound_is_met_exactly(several):
    prediction, found = several
    place = prediction.model.free.number_names.index("gravity.y")
    bounded = eqx.tree_at(lambda p: p.model.free.lower, prediction, prediction.model.free.lower.at[place].set(-9.7))
    held = predict_best(bounded)
    assert held.status == Status.converged
    assert numbers(bounded, held)["gravity.y"] == -9.7
    assert float(held.cost) > float(found.cost)


@pytest.mark.slow
def test_a_batch_of_seeds_gives_what_each_of_them_gives(pendulum):
    sensors = (Encoder("enc", body="rod", sigma=1e-3),)
    motion = fgmbs.simulate(pendulum, STEPS * DT, DT)
    unknown = pendulum.with_parameters({"gravity.y": Unknown(-9.5, lower=-12.0, upper=-9.0)})

    def noisy(seed):
        recording = fgmbs.readings(pendulum, motion, sensors, seed=seed)
        return prepare_prediction(fgmbs.prepare_smooth(unknown, recording, sensors, (Disturbance(1e-4),), start={}))

    problems = [noisy(seed) for seed in range(64)]
    numbers = [eqx.filter(problem, eqx.is_array) for problem in problems]
    several = eqx.combine(jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *numbers), problems[0])
    together = eqx.filter_jit(eqx.filter_vmap(predict_best))(several)
    each = [predict_best(problem) for problem in problems]
    std = np.sqrt([float(one.covariance[0, 0]) for one in each])
    theta = np.array([float(one.theta[0]) for one in each])
    assert np.all(np.asarray(together.status._value) == Status.converged._value)
    np.testing.assert_allclose(together.theta[:, 0], theta, atol=1e-8 * std.min())
    np.testing.assert_allclose(together.covariance[:, 0, 0], std**2, rtol=1e-8)
    # The seeds differ as their standard deviations say: 64 normalized errors.
    error = (theta + 9.81) / std
    assert 38 < np.sum(error**2) < 97  # 99 % of χ² of 64


def test_horizon_must_be_positive(pendulum):
    with pytest.raises(fgmbs.ArgumentError, match="horizon: expected a positive time in seconds, or None; found 0.0"):
        prepare_prediction(of(pendulum), 0.0)


@pytest.mark.slow
def test_gradient_is_that_of_the_linearized_system_and_of_differences(pendulum):
    loss, start = prediction_loss(of(pendulum))
    slope = jax.jit(jax.grad(loss))(start)
    value = jax.jit(loss)
    h = 1e-6
    up, down = (value(start._replace(theta=start.theta + sign * h)) for sign in (1, -1))
    np.testing.assert_allclose(slope.theta, (up - down) / (2 * h), rtol=1e-5)
    prediction = prepare_prediction(of(pendulum))
    (steps, theta), left, missed = jax.jit(
        lambda p: (p.look(p.start).system.gradient(), p.look(p.start).residuals, p.miss(p.start))
    )(prediction)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, atol=1e-10), left, missed)
    np.testing.assert_allclose(slope.theta, theta, rtol=1e-9)
    np.testing.assert_allclose(slope.starts, steps, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_solvers_of_optax_agree(prediction, found, solver):
    other = predict_best(prediction, solver)
    std = np.sqrt(np.diag(found.covariance))
    np.testing.assert_allclose(other.theta, found.theta, atol=1e-4 * std[0])
    np.testing.assert_allclose(other.starts, found.starts, atol=1e-6)


@pytest.mark.slow
def test_loss_is_one_for_optax(pendulum):
    loss, start = prediction_loss(of(pendulum))
    scale = Parameters(jnp.full(1, 6e-3), jnp.full_like(start.starts, 1e-3))
    scaled = lambda y: loss(jax.tree.map(lambda x, s, y: x + s * y, start, scale, y))
    method, y = optax.lbfgs(), jax.tree.map(jnp.zeros_like, start)

    @jax.jit
    def step(y, state):
        value, slope = optax.value_and_grad_from_state(scaled)(y, state=state)
        update, state = method.update(slope, state, y, value=value, grad=slope, value_fn=scaled)
        return optax.apply_updates(y, update), state

    state = method.init(y)
    for _ in range(60):
        y, state = step(y, state)
        if optax.tree_utils.tree_get(state, "value") < 1e-9:
            break  # at the minimum a line search finds nothing but rounding, which may lead it away
    np.testing.assert_allclose(start.theta + scale.theta * y.theta, -9.81, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [None, 0.3])
def test_fourbar_is_found_without_noise(configs, horizon):
    true = fgmbs.load(configs / "mechanisms" / "fourbar.yaml")
    crank, coupler = true.body_names[:2]
    sensors = (
        Encoder("enc", body=crank, sigma=1e-3),
        Gyroscope("gyro", body=coupler, sigma=1e-2, bias=Unknown()),
    )
    recording = fgmbs.readings(true, fgmbs.simulate(true, 1.0, 5e-3), sensors, calibration={"gyro": {"bias": 0.2}})
    unknown = true.with_parameters({"coupler.mass": Unknown(2.4, log=True), "L_crank": Unknown(1.05, log=True)})
    problem = fgmbs.prepare_smooth(unknown, recording, sensors, (Disturbance(1e-4),), start={})
    found = predict_best(prepare_prediction(problem, horizon))
    assert found.status == Status.converged
    values = dict(zip(problem.free.names, np.asarray(problem.free.values(found.theta)), strict=True))
    for name, value in {"L_crank": 1.0, "coupler.mass": 2.0, "gyro.bias": 0.2}.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-6, err_msg=name)


@pytest.mark.slow
def test_dry_friction_is_found(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "experiments"))
    sys.modules.pop("rigs", None)
    from rigs import furuta

    true = furuta.Furuta()
    motion = fgmbs.simulate(true, 2.0, 4e-3, start={"arm": 0.0, "pendulum": 2.0})
    sensors = tuple(Encoder(axis, of=axis, sigma=1e-3) for axis in ("arm", "pendulum"))
    recording = fgmbs.readings(true, motion, sensors)
    unknown = eqx.tree_at(lambda rig: rig.coulomb, true, Unknown((9e-3, 2e-5), log=True))
    problem = fgmbs.prepare_smooth(unknown, recording, sensors, (Disturbance(1e-6),), start={"pendulum": 2.0})
    found = predict_best(prepare_prediction(problem))
    assert found.status == Status.converged
    np.testing.assert_allclose(problem.free.values(found.theta), true.coulomb, rtol=1e-5)


@pytest.mark.slow
def test_long_runs_are_found_by_way_of_short_ones(pendulum):
    """Of fifteen swings the error has many minima; the next one is no answer."""
    first, dt = -8.0, 0.1
    sensors = (Encoder("enc", body="rod", sigma=1e-3),)
    motion = fgmbs.simulate(pendulum, STEPS * dt, dt)
    unknown = pendulum.with_parameters({"gravity.y": Unknown(first, lower=-20.0, upper=-1.0)})
    recording = fgmbs.readings(pendulum, motion, sensors)
    problem = fgmbs.prepare_smooth(unknown, recording, sensors, (Disturbance(1e-4),), start={})
    steps = jnp.concatenate([motion.q, motion.dq], axis=1)
    near = Unknowns(steps[jnp.minimum(jnp.arange(problem.steps), steps.shape[0] - 1)], jnp.asarray([first]))
    at_once = predict_best(prepare_prediction(problem, near=near))
    assert at_once.status == Status.converged and abs(float(at_once.theta[0]) + 9.81) > 0.1
    found = predict_best(led(problem, None, near, near.steps[0]))
    assert found.status == Status.converged
    np.testing.assert_allclose(found.theta, -9.81, atol=1e-5)
