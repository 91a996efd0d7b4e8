"""The real-time estimator: samples that are late, missing, early or many, and what it tells of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.inputs import Command, Disturbance
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.status import Status

DT = 5e-3
SENSORS = (Gyroscope("gyro", body="coupler", sigma=0.02), Encoder("enc", body="crank", sigma=0.01))


@pytest.fixture(scope="module")
def fourbar(configs):
    return fgmbs.load(configs / "mechanisms" / "fourbar.yaml")


@pytest.fixture(scope="module")
def recording(fourbar):
    motion = fgmbs.simulate(fourbar, 0.3, DT)
    return fgmbs.readings(fourbar, motion, SENSORS, rates=200, seed=1)


@pytest.fixture(scope="module")
def online(fourbar):
    inputs = (Disturbance(1e-2), Command("y_P1", "push", gain=2.0, name="push"))
    return fgmbs.online(fourbar, SENSORS, inputs, dt=DT, window=4, slots=2)


def run(online, arrivals, push=0.0):
    """The last estimate after one step for each of `arrivals`, and how many samples found no use."""
    state, unused = online.init({"x_P1": 1.0}), 0
    for came in arrivals:
        state, estimate = online.step(state, online.sample(came, {"push": push}))
        unused += int(estimate.unused)
    return estimate, unused


def stamped(recording, name):
    return list(zip(recording[name].t, recording[name].values, strict=True))


def test_late_samples_tell_as_much_as_punctual_ones(online, recording):
    """Those of the encoder come two steps late, with the stamps of when they were read."""
    gyro, enc = stamped(recording, "gyro"), stamped(recording, "enc")
    count = 40
    punctual, lost = run(online, [{"gyro": gyro[k], "enc": enc[k]} for k in range(count)])
    assert lost == 0
    late = [{"gyro": gyro[k]} | ({"enc": enc[k - 2]} if k >= 2 else {}) for k in range(count - 1)]
    late.append({"gyro": gyro[count - 1], "enc": enc[count - 3]})
    delayed, lost = run(online, late)
    assert lost == 0
    # Only the last two samples of the encoder are missing.
    np.testing.assert_array_less(np.abs(delayed.q - punctual.q), 3 * punctual.q_std + 1e-6)
    assert np.all(delayed.q_std < 1.3 * punctual.q_std + 1e-6)
    blind, _ = run(online, [{"gyro": gyro[k]} for k in range(count)])
    assert np.median(np.asarray(blind.q_std) / np.asarray(delayed.q_std)) > 1.3


def test_samples_without_a_place_are_counted(online, recording):
    """Older than the window, newer than the step, and one too many for a step."""
    gyro = stamped(recording, "gyro")
    steps = [{"gyro": gyro[k]} for k in range(10)]
    assert run(online, [*steps, {"enc": (0.0, 0.1)}])[1] == 1
    assert run(online, [*steps, {"enc": (1.0, 0.1)}])[1] == 1
    crowded = [*steps, {"gyro": [gyro[10], (0.9 * DT + gyro[9][0], gyro[10][1])]}, {"gyro": [gyro[10], gyro[11]]}]
    assert run(online, crowded)[1] == 1


def test_missing_samples_widen_the_bands(online, recording):
    gyro, enc = stamped(recording, "gyro"), stamped(recording, "enc")
    full = [{"gyro": gyro[k], "enc": enc[k]} for k in range(30)]
    gap = full[:20] + [{"gyro": float("nan")}] * 10
    seen, unseen = run(online, full)[0], run(online, gap)[0]
    assert np.median(np.asarray(unseen.dq_std) / np.asarray(seen.dq_std)) > 1.1
    assert np.all(np.isfinite(unseen.q))


def test_known_forces_act(fourbar, online):
    """With a known force and nothing read, the estimate is the simulation of a mechanism under that force."""
    pushed, _ = run(online, [{}] * 30, push=4.0)
    free, _ = run(online, [{}] * 30)
    assert np.max(np.abs(pushed.q - free.q)) > 1e-2
    push = jnp.zeros(fourbar.nv).at[1].set(2.0 * 4.0)  # gain of the command

    def rhs(x):
        q, dq = x[:4], x[4:]
        return jnp.concatenate([dq, fgmbs.acceleration(fourbar, q, dq, 0.0, push)[0]])

    @jax.jit
    def rk4(x):
        def step(_, x):
            h = DT / 10
            k1 = rhs(x)
            k2 = rhs(x + h / 2 * k1)
            k3 = rhs(x + h / 2 * k2)
            return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rhs(x + h * k3))

        return jax.lax.fori_loop(0, 290, step, x)

    start = jnp.concatenate([fgmbs.assemble(fourbar, {"x_P1": 1.0}), jnp.zeros(4)])
    np.testing.assert_allclose(pushed.q, rk4(start)[:4], atol=2e-4)  # the first step begins at rest under no force


@pytest.mark.slow
def test_step_stands_in_a_scan(online, recording):
    gyro, enc = stamped(recording, "gyro"), stamped(recording, "enc")
    samples = np.stack([online.sample({"gyro": gyro[k], "enc": enc[k]}, {"push": 0.0}) for k in range(20)])
    _, estimates = jax.jit(lambda state, samples: jax.lax.scan(online.step, state, samples))(
        online.init({"x_P1": 1.0}), samples
    )
    last, _ = run(online, [{"gyro": gyro[k], "enc": enc[k]} for k in range(20)])
    np.testing.assert_allclose(estimates.q[-1], last.q, atol=1e-7)
    assert online.sensor_names == ("gyro", "enc")
    assert online.force_names == online.unknown_names == ()


def test_a_second_estimator_compiles_nothing(fourbar, online, recording, compiled):
    """Of other noise and another mechanism of the same structure: its programs are those of the first one."""
    sample = online.sample({"gyro": 0.1, "enc": 0.0}, {"push": 0.0})

    def stepped(size, sigma, dt):
        inputs = (Disturbance(size), Command("y_P1", "push", gain=1.0, name="push"))
        sensors = (Gyroscope("gyro", body="coupler", sigma=sigma), Encoder("enc", body="crank", sigma=sigma))
        made = fgmbs.online(fourbar, sensors, inputs, dt=dt, window=4, slots=2)
        return made.step(made.init({"x_P1": 1.0}), sample)[1]

    stepped(2e-2, 0.04, DT)
    compiled.clear()
    estimate = stepped(3e-2, 0.03, 2 * DT)
    assert not compiled
    first = online.step(online.init({"x_P1": 1.0}), sample)[1]
    assert float(estimate.t) == float(first.t) == 0.0
    assert np.max(np.abs(estimate.q_std - first.q_std)) > 1e-4


@pytest.mark.slow
def test_step_maps_over_states_and_samples(online, recording):
    gyro, enc = recording["gyro"].values, recording["enc"].values
    starts = [{"x_P1": 1.0}, {"x_P1": 0.98}, {"x_P1": 0.95}]
    states = [online.init(start) for start in starts]
    together, step = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states), jax.jit(jax.vmap(online.step))
    for k in range(6):
        samples = [online.sample({"gyro": gyro[k], "enc": enc[k + n]}, {"push": 1.0 * n}) for n in range(3)]
        together, estimates = step(together, np.stack(samples))
        moved = [online.step(state, sample) for state, sample in zip(states, samples, strict=True)]
        states = [state for state, _ in moved]
    assert estimates.q.shape == (3, 4) and estimates.unused.tolist() == [0, 0, 0]
    for n, (_, estimate) in enumerate(moved):
        np.testing.assert_allclose(estimates.q[n], estimate.q, atol=1e-9)
        np.testing.assert_allclose(estimates.dq_std[n], estimate.dq_std, rtol=1e-6)
    assert np.all(np.asarray(estimates.status == Status.converged))
