"""State estimation as a pure function: mapped, in loops of one's own, differentiated."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.inputs import Disturbance
from fgmbs.problems.smooth import rounds as smoothing
from fgmbs.sensors import Accelerometer, Encoder, Gyroscope
from fgmbs.status import Status

DT = 0.01
BEGUN = {"start": {"x_P1": 1.0}, "start_sigma": (0.05, 0.2)}
SENSORS = (
    Gyroscope("gyro", body="coupler", sigma=0.02, bias=Unknown(0.0, sigma=0.1)),
    Encoder("enc", body="crank", sigma=0.01),
    Accelerometer("acc", body="rocker", at=(0.5, 0.1), sigma=0.1),
)


@pytest.fixture(scope="module")
def fourbar():
    return fgmbs.load("configs/mechanisms/fourbar.yaml")


@pytest.fixture(scope="module")
def recording(fourbar):
    motion = fgmbs.simulate(fourbar, 0.3, DT)
    return fgmbs.readings(fourbar, motion, SENSORS, calibration={"gyro": {"bias": 0.05}}, seed=2)


@pytest.fixture(scope="module")
def problem(fourbar, recording):
    return fgmbs.prepare_smooth(fourbar, recording, SENSORS, (Disturbance(1e-2),), **BEGUN)


@pytest.fixture(scope="module")
def solve():
    return eqx.filter_jit(fgmbs.solve)


def with_noise(problem, noise):
    """The problem with other noise of the gyroscope."""
    values = problem.recording.channels[0].values
    return eqx.tree_at(lambda p: p.recording.channels[0].values, problem, values + noise[:, None])


@pytest.mark.slow
def test_it_is_what_smooth_does(fourbar, recording, problem, solve):
    solution = solve(problem)
    motion = fgmbs.finish(problem, solution)
    other = fgmbs.smooth(fourbar, recording, SENSORS, (Disturbance(1e-2),), **BEGUN)
    assert motion.status == other.status == Status.converged
    for name in ("q", "dq", "q_std", "ddq", "log_likelihood"):
        np.testing.assert_allclose(getattr(motion, name), getattr(other, name), rtol=1e-9, atol=1e-12, err_msg=name)
    assert motion.report() == other.report()


def test_every_round_is_the_same_program(problem):
    """What a round begins with has the same shapes and types, weak ones too, whether it is the first one or not."""
    kinds = lambda at: jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), at)
    first = eqx.filter_eval_shape(smoothing.begun, problem)
    second = eqx.filter_eval_shape(smoothing.improved, problem, first)
    assert kinds(first) == kinds(eqx.tree_at(lambda at: at.look, second, None))


@pytest.mark.slow
def test_mapped_over_seeds_in_a_scan_of_ones_own_it_is_the_loop(problem, solve):
    """64 seeds, 32 side by side."""
    noise = 0.02 * jax.random.normal(jax.random.key(0), (2, 32, problem.recording.channels[0].values.shape[0]))

    @eqx.filter_jit
    def run(noise):
        side_by_side = jax.vmap(lambda noise: fgmbs.solve(with_noise(problem, noise)))
        return jax.lax.scan(lambda _, noise: (None, side_by_side(noise)), None, noise)[1]

    together = jax.tree.map(lambda leaf: leaf.reshape(64, *leaf.shape[2:]), run(noise))
    assert jnp.all(together.status == Status.converged)
    for k in range(0, 64, 9):
        alone = solve(with_noise(problem, noise.reshape(64, -1)[k]))
        member = jax.tree.map(lambda leaf, k=k: leaf[k], together)
        np.testing.assert_allclose(member.x.steps, alone.x.steps, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(member.x.globals, alone.x.globals, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(member.derived.covariance, alone.derived.covariance, rtol=1e-7, atol=1e-14)
        assert int(member.at.iterations) == int(alone.at.iterations)


NAMES = ("parameter", "sample", "size of noise", "place of a sensor", "prior", "start")


def changed(problem, numbers):
    """The problem with other numbers; how much larger they are than those of `problem` is given."""
    length, sample, sigma, place, prior, start = numbers

    def of(problem):
        gyro, _, acc = problem.sensors
        values = problem.recording.channels[1].values
        begun = problem.recording.start_sigma, problem.recording.starts
        return gyro.channel.sigma, acc.place.at, problem.free.value, values, *begun

    sizes, at, value, values, begun, starts = of(problem)
    moved = values.at[7].add(sample), begun * (1 + start), starts.at[:, 1].add(start)
    problem = eqx.tree_at(of, problem, (sizes + sigma, at + place * jnp.array([1.0, 0.0]), value + prior, *moved))
    mechanism = problem.mechanism
    mechanism = mechanism.with_parameters({"L_coupler": mechanism.parameters["L_coupler"] + length})
    return eqx.tree_at(lambda p: p.mechanism, problem, mechanism)


def told(problem):
    solution = fgmbs.solve(problem)
    return jnp.concatenate([solution.x.steps[12], solution.x.globals, solution.derived.ddq_std[12]])


@pytest.mark.slow
def test_derivatives_are_those_of_solving_again(problem):
    still = jnp.zeros(len(NAMES))
    answer = eqx.filter_jit(lambda numbers: told(changed(problem, numbers)))

    @jax.jit
    def derivatives(numbers):
        """Forward and reverse."""
        value, push = jax.linearize(lambda numbers: told(changed(problem, numbers)), numbers)
        pull = jax.linear_transpose(push, numbers)
        return jax.vmap(push, 0, 1)(jnp.eye(len(NAMES))), jax.vmap(lambda row: pull(row)[0])(jnp.eye(value.size))

    forward, backward = derivatives(still)
    np.testing.assert_allclose(backward, forward, rtol=1e-9, atol=1e-11 * np.abs(forward).max())
    for k, name in enumerate(NAMES):
        step = 1e-4 * jnp.eye(len(NAMES))[k]
        near, far = (answer(by * step) - answer(-by * step) for by in (1, 2))
        difference = (8 * near - far) / 12e-4
        scale = np.abs(difference).max()
        np.testing.assert_allclose(forward[:, k], difference, rtol=1e-6, atol=1e-6 * scale, err_msg=name)
