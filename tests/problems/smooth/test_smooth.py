"""Smoothing: against dense algebra, against itself in other forms, and what recordings may look like."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs.compiled.buckets import padded
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import Disturbance, GaussMarkov, RandomWalk
from fgmbs.linear import METHODS
from fgmbs.losses import Huber
from fgmbs.problems.estimation import posterior
from fgmbs.problems.estimation import window as windows
from fgmbs.problems.estimation.arguments import Start, nominal_delays
from fgmbs.problems.smooth import rounds as smoothing
from fgmbs.problems.smooth.beginning import modelled
from fgmbs.sensors import Accelerometer, Encoder, Gyroscope, Position
from fgmbs.unknowns import Unknown

DT = 5e-3
SENSORS = (
    Gyroscope("gyro", body="coupler", sigma=0.02),
    Encoder("enc", body="crank", sigma=0.01),
)
POWER = (Disturbance(1e-2),)


@pytest.fixture(scope="module")
def fourbar():
    return fgmbs.load("configs/mechanisms/fourbar.yaml")


@pytest.fixture(scope="module")
def motion(fourbar):
    return fgmbs.simulate(fourbar, 0.5, DT)


@pytest.fixture(scope="module")
def recording(fourbar, motion):
    return fgmbs.readings(fourbar, motion, SENSORS, rates={"gyro": 200, "enc": 50}, seed=1)


@pytest.fixture(scope="module")
def estimate(fourbar, recording):
    return fgmbs.smooth(fourbar, recording, SENSORS, POWER, dt=DT, start={"x_P1": 1.0})


def state(est):
    return np.concatenate([est.q, est.dq], axis=1)


def std(est):
    return np.concatenate([est.q_std, est.dq_std], axis=1)


def solved(mechanism, recording, est, sensors=SENSORS, inputs=POWER):
    """(model, data, x, what was seen there) of an estimate, as its solver had them."""
    problem = fgmbs.prepare_smooth(mechanism, recording, sensors, inputs, dt=DT, start={"x_P1": 1.0})
    at = smoothing.begun(problem)
    while not at.done:
        at = smoothing.improved(problem, at)
    np.testing.assert_allclose(at.x.steps[: len(est.t)], np.column_stack([state(est), est.forces]), atol=1e-12)
    solution = smoothing.concluded(problem, at, smoothing.surveyed(problem, at))
    return problem.model(solution.sizes, at.delays), solution.data, at.x, at.look


def test_close_to_the_truth(estimate, motion):
    error = (state(estimate) - np.concatenate([motion.q, motion.dq], axis=1)) / std(estimate)
    assert np.sqrt(np.mean(error**2)) < 2
    assert np.max(np.abs(np.asarray(jax.vmap(lambda q: estimate.mechanism.constraints(q, 0.0))(estimate.q)))) < 1e-12
    for group in estimate.groups[:2]:
        assert group.p_value > 1e-3


@pytest.mark.slow
def test_marginals_are_those_of_the_dense_inverse(fourbar, recording, estimate):
    model, data, x, _ = solved(fourbar, recording, estimate)
    graph = model.graph(x, data)
    system, _ = graph.linearize(x)
    zero = graph.zeros(x)
    dense = METHODS["dense"](system, *zero).marginals()
    J = np.asarray(system.information().to_dense())
    inverse = np.linalg.inv(J)
    nl = system.step_size
    for k in (0, 3, 50, len(estimate.t) - 1):
        block = inverse[k * nl : (k + 1) * nl, k * nl : (k + 1) * nl]
        np.testing.assert_allclose(estimate.local_covariance[k], block, rtol=1e-8, atol=1e-8 * np.abs(block).max())
        np.testing.assert_allclose(
            estimate.local_covariance[k], dense.steps[k], rtol=1e-8, atol=1e-8 * np.abs(block).max()
        )


def test_leverages_add_up_to_the_unknowns(fourbar, recording, estimate):
    """tr(J A⁻¹ Jᵀ) is the number of unknowns, and each leverage lies in [0, 1]."""
    model, data, x, look = solved(fourbar, recording, estimate)
    seen = eqx.filter_jit(posterior.survey)(model.graph(x, data), x, look)
    leverage = np.concatenate([np.asarray(rows.leverage).ravel() for rows in seen.factors])
    assert leverage.min() > -1e-9
    assert leverage.max() < 1 + 1e-9
    assert leverage.sum() == pytest.approx(x.steps.shape[0] * model.local_size, rel=1e-9)


def test_bands_of_accelerations_follow_the_motion(fourbar, estimate):
    """Against finite differences of the acceleration along the directions of the covariance."""
    k, e = 40, 1e-6
    x = np.concatenate([estimate.q[k], estimate.dq[k]])
    n = fourbar.n
    E, cov = np.asarray(estimate.tangents[k]), np.asarray(estimate.local_covariance[k])
    acceleration = jax.jit(lambda x: fgmbs.acceleration(fourbar, x[:n], x[n:], 0.0)[0])
    J = np.stack([(acceleration(x + e * c) - acceleration(x - e * c)) / (2 * e) for c in E.T], axis=1)
    np.testing.assert_allclose(estimate.ddq_std[k], np.sqrt(np.diag(J @ cov @ J.T)), rtol=1e-5)
    np.testing.assert_allclose(estimate.ddq[k], acceleration(x), rtol=1e-9)


@pytest.mark.slow
def test_a_long_window_is_the_batch(fourbar, recording, estimate):
    """Where the window holds the whole recording nothing is marginalized that was not solved to the end."""
    lagged = fgmbs.smooth(fourbar, recording, SENSORS, POWER, dt=DT, start={"x_P1": 1.0}, window=len(estimate.t))
    # The window stops iterating at steps of 1e-4 of the motion, which leave their squares.
    np.testing.assert_array_less(np.abs(state(lagged) - state(estimate)), 1e-4 * std(estimate) + 1e-9)
    np.testing.assert_allclose(std(lagged), std(estimate), rtol=3e-4, atol=1e-8)


def dense_windows(model, data, x, sigma, window, count):
    """The newest steps of a fixed-lag smoother, written with one dense matrix for each window: (x, its covariance)."""
    nl, held = model.local_size, slice(1, None)
    x = jnp.asarray(x)
    blank = jax.tree.map(lambda leaf: 0 * leaf[0], data)._replace(times=data.times[0] - DT)
    blank = blank._replace(prior=x, prior_weights=jnp.ones(nl))
    data = data._replace(prior=data.prior.at[0].set(x), prior_weights=data.prior_weights.at[0].set(1 / sigma))
    rows, advance = [eqx.filter_jit(model.rows)(x, blank)], eqx.filter_jit(model.advance)
    steps, prior = [x], (jnp.zeros((nl, nl)), jnp.zeros(nl), x)

    @jax.jit
    def rows_and_derivatives(steps, rows, prior):
        graph = model.over(rows)
        Lambda, eta, center = prior
        C = model.chart.coordinates(model.mechanism, center, rows.times[0])

        def residual(delta):
            moved = graph.moved(Unknowns(steps, jnp.zeros(0)), Unknowns(delta.reshape(-1, nl), jnp.zeros(0)))
            return jnp.concatenate([r.ravel() for r in graph.residuals(moved)]), C @ (moved.steps[0] - center)

        still = jnp.zeros(steps.shape[0] * nl)
        (r, offset), (J, K) = residual(still), jax.jacfwd(residual)(still)
        return J.T @ J + K.T @ Lambda @ K, J.T @ r + K.T @ (Lambda @ offset + eta)

    @jax.jit
    def moved(steps, rows, delta):
        return model.over(rows).moved(Unknowns(steps, jnp.zeros(0)), Unknowns(delta, jnp.zeros(0))).steps

    newest = []
    for k in range(count):
        guess, row = advance(jnp.stack(steps[-1:] * 2), jax.tree.map(lambda leaf, k=k: leaf[k], data))
        steps, rows = [*steps, guess], [*rows, row]
        stacked, all_rows = jnp.stack(steps), jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
        for _ in range(8):
            H, g = rows_and_derivatives(stacked, all_rows, prior)
            stacked = moved(stacked, all_rows, jnp.linalg.solve(H, -g).reshape(-1, nl))
        H, g = rows_and_derivatives(stacked, all_rows, prior)
        newest.append((stacked[-1], np.linalg.inv(H)[-nl:, -nl:]))
        steps = list(stacked)
        if len(steps) == window:
            # What the rows that touch the oldest step say of the next one: without all rows on later steps alone.
            head = jax.tree.map(lambda leaf: leaf[:2], all_rows)
            factors = tuple((series, w if j == 0 else w.at[1].set(0.0)) for j, (series, w) in enumerate(head.factors))
            H, g = rows_and_derivatives(stacked[:2], head._replace(factors=factors), prior)
            old, new = slice(None, nl), slice(nl, None)
            S = H[new, new] - H[new, old] @ jnp.linalg.solve(H[old, old], H[old, new])
            prior = S, g[new] - H[new, old] @ jnp.linalg.solve(H[old, old], g[old]), stacked[1]
            steps, rows = steps[held], rows[held]
    return newest


@pytest.fixture(scope="module")
def dense(fourbar, recording):
    """(model, data, start, [(x, its standard deviations, local covariance)]) of windows of 4 steps."""
    problem = fgmbs.prepare_smooth(fourbar, recording, SENSORS, POWER, dt=DT, start={"x_P1": 1.0})
    x = problem.recording.starts[0]
    model, data = modelled(problem, nominal_delays(SENSORS), x)
    begin, found = Start(x, problem.recording.start_sigma), []
    for k, (x, cov) in enumerate(dense_windows(model, data, begin.x, begin.sigma, 4, 12)):
        E = model.chart.tangent(fourbar.evaluated(), x, k * DT)
        found.append((x, np.sqrt(np.diag(E @ cov @ E.T)), cov))
    return model, data, begin, found


@pytest.mark.slow
def test_windows_solved_to_the_end_are_those_of_dense_algebra(dense):
    model, data, begin, expected = dense
    first = jax.tree.map(lambda leaf: 0 * leaf[0], data)._replace(times=data.times[0])
    data = data._replace(
        prior=data.prior.at[0].set(begin.x), prior_weights=data.prior_weights.at[0].set(1 / begin.sigma)
    )
    state = eqx.filter_jit(windows.begin)(model, 4, begin.x, first)

    @eqx.filter_jit
    def step(state, row):
        state, estimate = windows.take_in(model, state, row, tol=1e-10)
        return state, estimate.steps[-1], estimate.newest_covariance()

    for k, (x, sigma, cov) in enumerate(expected):
        state, found, covariance = step(state, jax.tree.map(lambda leaf, k=k: leaf[k], data))
        # Iterations end where they promise less than a step of 1e-8 standard deviations for every residual.
        np.testing.assert_array_less(np.abs(found - x), 1e-8 * sigma + 1e-14)
        scale = np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
        np.testing.assert_array_less(np.abs(covariance - cov), 1e-8 * scale)


@pytest.mark.slow
def test_online_is_the_fixed_lag_smoother_over_dense_windows(fourbar, recording, dense):
    online = fgmbs.online(fourbar, SENSORS, POWER, dt=DT, window=4, between_steps=False)
    now, values = online.init({"x_P1": 1.0}), {}
    for name in ("gyro", "enc"):
        values[name] = dict(zip(np.round(recording[name].t / DT), recording[name].values, strict=True))
    for k, (x, sigma, _) in enumerate(dense[-1]):
        now, estimate = online.step(now, online.sample({name: of[k] for name, of in values.items() if k in of}))
        np.testing.assert_allclose(np.concatenate([estimate.q_std, estimate.dq_std]), sigma, rtol=3e-4, atol=1e-9)
        found = np.concatenate([estimate.q, estimate.dq])
        # A window ends with a relative step of 1e-4, and what it leaves behind is linearized before that step: 2e-5.
        np.testing.assert_array_less(np.abs(found - x), 1e-4 * sigma + 1e-9)


@pytest.mark.slow
def test_a_window_leaves_its_steps_as_online_does(fourbar, recording):
    window = 4
    lagged = fgmbs.smooth(fourbar, recording, SENSORS, POWER, dt=DT, start={"x_P1": 1.0}, window=window)
    online = fgmbs.online(fourbar, SENSORS, POWER, dt=DT, window=window, between_steps=False)
    gyro, enc = (
        {round(t / DT): y for t, y in zip(recording[n].t, recording[n].values, strict=True)} for n in ("gyro", "enc")
    )
    now, left = online.init({"x_P1": 1.0}), []
    for k in range(len(lagged.t)):
        sample = online.sample({"gyro": gyro[k]} | ({"enc": enc[k]} if k in enc else {}))
        now, estimate = online.step(now, sample)
        left.append(estimate.steps[0])
    # Other programs, which round otherwise.
    np.testing.assert_allclose(np.concatenate([left[window - 1 :], estimate.steps[1:]]), state(lagged), atol=1e-9)
    assert int(estimate.unused) == 0


@pytest.mark.slow
def test_a_start_need_not_be_given(fourbar, recording, estimate):
    free = fgmbs.smooth(fourbar, recording, SENSORS, POWER, dt=DT)
    np.testing.assert_array_less(np.abs(state(free) - state(estimate)), 1e-3 * std(estimate) + 1e-9)
    assert len(free.branches) > 1
    assert free.branches[0].cost < free.branches[1].cost


@pytest.mark.slow
def test_other_recordings_need_no_compilation(fourbar, motion, recording, compiled):
    """The number of samples is no part of the programs, nor are values, start, noise or the mechanism's parameters."""
    shorter = fgmbs.readings(fourbar, motion, SENSORS, rates={"gyro": 200, "enc": 40}, seed=3).between(0.0, 0.48)
    fgmbs.smooth(fourbar, recording, SENSORS, POWER, dt=DT, start={"x_P1": 0.98})
    compiled.clear()
    fgmbs.smooth(fourbar, shorter, SENSORS, (Disturbance(2e-2),), dt=DT, start={"x_P1": 0.99})
    assert not compiled


@pytest.mark.slow
def test_several_recordings_have_starts_of_their_own(fourbar, recording, estimate):
    first, second = recording.between(0.0, 0.25), recording.between(0.25, 0.5)
    both = fgmbs.smooth(fourbar, [first, second], SENSORS, POWER, dt=DT, start=[{"x_P1": 1.0}, {"x_P1": 0.98}])
    assert both.recording.tolist() == [0] * 51 + [1] * 51
    np.testing.assert_allclose(both.t, np.concatenate([np.arange(51) * DT, 0.25 + np.arange(51) * DT]), atol=1e-12)
    alone = fgmbs.smooth(fourbar, first, SENSORS, POWER, dt=DT, start={"x_P1": 1.0})
    np.testing.assert_array_less(np.abs(state(both)[:51] - state(alone)), 1e-3 * std(alone) + 1e-9)
    joined = state(estimate)[51:]
    np.testing.assert_array_less(np.abs(state(both)[52:] - joined), 6 * std(both)[52:] + 1e-6)


@pytest.mark.slow
def test_irregular_samples_between_steps(fourbar, motion, estimate):
    """Stamps that lie anywhere, a gap, another rate: the estimate still agrees with the truth within its bands."""
    rng = np.random.default_rng(5)
    stamps = {"gyro": np.sort(rng.uniform(0, 0.5, 150)), "enc": np.sort(rng.uniform(0, 0.5, 30))}
    stamps["gyro"] = stamps["gyro"][(stamps["gyro"] < 0.2) | (stamps["gyro"] > 0.28)]
    recorded = fgmbs.readings(fourbar, motion, SENSORS, times=stamps, seed=2)
    est = fgmbs.smooth(fourbar, recorded, SENSORS, POWER, dt=DT, start={"x_P1": 1.0})
    truth = np.stack([np.interp(est.t, motion.t, column) for column in np.asarray(motion.q).T], axis=1)
    error = (np.asarray(est.q) - truth) / np.asarray(est.q_std)
    assert np.sqrt(np.mean(error**2)) < 2.5
    assert sum(len(fit.t) for fit in est.fits) == len(stamps["gyro"]) + len(stamps["enc"])
    np.testing.assert_allclose(est.fits[0].t, stamps["gyro"], atol=1e-9)


@pytest.mark.slow
def test_calibration_is_found(fourbar, motion):
    """Bias and gain of a gyroscope, lateness of an encoder, beside an accelerometer with a turned axis."""
    true = {"gyro": {"bias": 0.3}, "enc": {"delay": 0.007}, "acc": {"misalignment": 0.05}}
    sensors = (
        Gyroscope("gyro", body="coupler", sigma=0.01, bias=Unknown(0.0, sigma=1.0)),
        Encoder("enc", body="crank", sigma=2e-3, delay=Unknown(0.0, sigma=0.02)),
        Accelerometer("acc", body="rocker", at=(0.5, 0.1), sigma=0.05, misalignment=Unknown(0.0, sigma=0.5)),
    )
    recorded = fgmbs.readings(fourbar, motion, sensors, calibration=true, rates=200, seed=4)
    est = fgmbs.smooth(fourbar, recorded, sensors, POWER, dt=DT, start={"x_P1": 1.0})
    for name, keys in true.items():
        for key, value in keys.items():
            found, sigma = (float(np.ravel(d[f"{name}.{key}"])[0]) for d in (est.unknowns, est.unknowns_std))
            assert abs(found - value) < 4 * sigma + 1e-4, (name, key, found, sigma)
            assert sigma < 0.1 * float(np.ravel(sensors[[s.name for s in sensors].index(name)].unknowns[key].sigma)[0])


@pytest.mark.slow
def test_given_sizes_are_kept_and_missing_ones_found(fourbar, motion):
    sizes = Unknown(0.05), Unknown(0.03)
    sensors = (Gyroscope("gyro", body="coupler", sigma=sizes[0]), Encoder("enc", body="crank", sigma=sizes[1]))
    exact = (Gyroscope("gyro", body="coupler", sigma=0.02), Encoder("enc", body="crank", sigma=0.01))
    recorded = fgmbs.readings(fourbar, motion, exact, rates=200, seed=1)
    est = fgmbs.smooth(fourbar, recorded, sensors, POWER, dt=DT, start={"x_P1": 1.0})
    assert float(est.sensors[0].sigma) == pytest.approx(0.02, rel=0.25)  # 100 samples: 7 % standard error
    assert float(est.sensors[1].sigma) == pytest.approx(0.01, rel=0.25)
    assert float(est.inputs[0].power) == pytest.approx(1e-2)
    for group in est.groups[:2]:
        assert group.chi2 == pytest.approx(group.dof, rel=0.03)


def test_outliers_that_a_loss_allows_for_are_no_reason_for_shorter_steps(swing):
    gyro, told = Gyroscope("gyro", body="rod", sigma=0.05, loss=Huber()), []
    camera = Position("cam", point="tip", sigma=2e-3)
    recording = fgmbs.readings(swing.mechanism, swing, (camera, gyro), seed=3)
    read = recording["gyro"]
    spiked = fgmbs.Recording.of(read.t, {"gyro": read.values + 5.0 * (np.arange(len(read.t)) == 20)}, source="swing")
    recording = fgmbs.Recording({**recording.signals, **spiked.signals}, "swing", ())
    forces = [Disturbance(1e-3)]
    found = fgmbs.smooth(
        swing.mechanism, recording, (camera, gyro), forces, start={}, progress=lambda what, *_: told.append(what)
    )
    readings = sum(fit.measured.size for fit in found.fits)
    assert float(found.cost_history[-1]) > readings  # by its cost alone it would be a poor one
    assert "solving" in told and "looking for it with shorter steps" not in told


def test_progress_and_interrupt(fourbar, recording):
    told = []

    def interrupt(what, round, cost):
        told.append(what)
        if what == "solving":
            raise KeyboardInterrupt

    with pytest.raises(fgmbs.Interrupted) as stopped:
        fgmbs.smooth(fourbar, recording, SENSORS, POWER, dt=DT, start={"x_P1": 1.0}, progress=interrupt)
    assert told == ["following", "solving"]
    assert np.all(np.isfinite(stopped.value.result.q))
    assert stopped.value.result.cost_history.size > 0


def test_no_compiled_program_holds_the_unknowns():
    """Unknowns of two lengths that round up to the same number share a program."""
    assert padded(101) == padded(97) == 104
    assert padded(2001) == 2048
    assert all(padded(n) >= n for n in range(3, 3000))
    assert all(padded(n) <= 1.13 * n + 1 for n in range(16, 3000))


@pytest.mark.slow
def test_wandering_forces_are_estimated(fourbar, recording):
    inputs = (GaussMarkov("x_P2", 2.0, time_constant=0.5), RandomWalk("y_P1", 3.0, sigma0=1.0), Disturbance(1e-4))
    est = fgmbs.smooth(fourbar, recording, SENSORS, inputs, dt=DT, start={"x_P1": 1.0})
    assert est.force_names == ("x_P2", "y_P1")
    assert est.forces.shape == est.forces_std.shape == (len(est.t), 2)
    # No force acts: both are zero within their bands; a Gauss–Markov force is never less certain than its own size.
    assert np.mean(np.abs(np.asarray(est.forces)) < 3 * np.asarray(est.forces_std)) > 0.95
    assert np.all(np.asarray(est.forces_std)[:, 0] < 2.0 + 1e-6)
