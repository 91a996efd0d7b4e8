"""Numbers that each recording has of its own: found as if it were alone, while all others stay shared."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.errors import ArgumentError
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import Disturbance
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.sensors import Encoder, Gyroscope
from fgmbs.status import Status
from fgmbs.unknowns import freed

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


@pytest.mark.slow
def test_each_recording_has_its_own(estimate):
    assert estimate.status == Status.converged
    assert set(estimate.unknowns) == set(estimate.unknowns_std) == set(estimate.priors) == {"m", "relaxed", "enc.bias"}
    np.testing.assert_allclose(estimate.unknowns["relaxed"], RELAXED, rtol=1e-6)
    np.testing.assert_allclose(np.squeeze(estimate.unknowns["enc.bias"]), BIASES, rtol=1e-6)
    np.testing.assert_allclose(estimate.unknowns["m"], MASS, rtol=1e-6)


@pytest.mark.slow
def test_a_recording_of_several_holds_what_is_its_own(estimate):
    for k, steps in enumerate(STEPS):
        one = estimate.of_recording(k)
        assert len(one.t) == steps + 1 and set(one.unknowns) == {"m", "relaxed", "enc.bias"}
        np.testing.assert_allclose(one.mechanism.parameters["relaxed"], RELAXED[k], rtol=1e-6)
        assert one.sensors[0].unknowns["bias"].own
        here = np.asarray(estimate.recording) == k
        for name in ("q", "q_std", "dq_std", "ddq_std"):
            np.testing.assert_allclose(getattr(one, name), getattr(estimate, name)[here], rtol=1e-9, atol=1e-15)
        assert one.unknowns_std["relaxed"] == estimate.unknowns_std["relaxed"][k]
    with pytest.raises(ArgumentError, match="number: expected that of a recording, from 0 to 2; found 3"):
        estimate.of_recording(3)


@pytest.mark.slow
def test_the_report_lists_each(estimate):
    report = estimate.report()
    for name in ("relaxed@0", "relaxed@2", "enc.bias@1"):
        assert f"\n  {name} " in report


@pytest.mark.slow
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


@pytest.mark.slow
def test_derivatives_pass_through_the_solution(true, recordings):
    """An encoder that reads more in one recording by a number: the bias of that one is more by it, and no other."""
    problem = fgmbs.prepare_smooth(*arguments(true, recordings, mass=MASS), **START)

    def found(shifts):
        values = problem.recording.channels[0].values + shifts[:, None, None]
        where = lambda problem: problem.recording.channels[0].values
        return fgmbs.solve(eqx.tree_at(where, problem, values)).x.globals

    slopes = jax.jit(jax.jacrev(found))(jnp.zeros(3))
    names = np.array(problem.free.number_names)
    expected = [[float(name == f"enc.bias@{k}") for k in range(3)] for name in names]
    np.testing.assert_allclose(slopes, expected, atol=1e-6)


@pytest.mark.slow
def test_systems_are_those_of_each_recording_alone(true, recordings):
    """Of a length that moves the constraints, too, and with what is shared."""
    own = {"L": Unknown(1.0, log=True, own=True), "m": Unknown(2.2), "relaxed": Unknown(0.85, own=True)}
    parts = recordings[:2], sensors(Unknown(sigma=1.0, own=True)), INPUTS
    problem = fgmbs.prepare_smooth(true.with_parameters(own), *parts, **START)
    free, delays = problem.free, nominal_delays(problem.sensors)
    model = problem.model(problem.sizes.value, delays)
    rng = np.random.default_rng(0)
    theta = free.value + 0.02 * jnp.asarray(rng.standard_normal(free.size))
    first = problem.recording.starts[:, 0]
    data = jax.tree.map(lambda leaf: leaf[:, :4], problem.data(delays, first, first))
    steps = jnp.broadcast_to(first[:, None], (2, 4, first.shape[1]))

    look_at = eqx.filter_jit(lambda model, x, data: model.graph(x, data).look(x))
    look = look_at(model, Unknowns(steps, theta), data)
    for k in range(2):
        columns = np.asarray(free.of(k).columns(lambda _: True))
        others = np.setdiff1d(np.arange(free.size), columns)
        assert [free.number_names[c].partition("@")[0] for c in columns] == ["L", "m", "relaxed", "enc.bias"]
        one = eqx.tree_at(lambda m: (m.dt, m.free), model, (model.dt[k], free.of(k).alone()))
        system = look_at(one, Unknowns(steps[k], theta[columns]), jax.tree.map(lambda leaf, k=k: leaf[k], data)).system
        for name in ("step_residual", "step_jacobian", "pair_residual", "pair_start", "pair_end"):
            np.testing.assert_allclose(getattr(look.system, name)[k], getattr(system, name), rtol=1e-11, atol=1e-9)
        for name in ("step_arrow", "pair_arrow"):
            arrow = getattr(look.system, name)[k]
            np.testing.assert_allclose(arrow[..., columns], getattr(system, name), rtol=1e-11, atol=1e-9)
            assert not np.any(arrow[..., others])


def test_theta_has_the_numbers_of_all_recordings():
    tree = {"a": Unknown((1.0, 2.0), sigma=1.0, lower=0.5, log=True, own=True), "b": Unknown(3.0)}
    rest, free = freed(tree, lambda path: path[0].key, 2)
    assert free.names == ("a", "b") and free.size == 5
    assert free.number_names == ("a@0[0]", "a@0[1]", "a@1[0]", "a@1[1]", "b")
    theta = jnp.arange(5.0)
    for k in range(2):
        put = free.of(k).put(rest, theta)
        np.testing.assert_allclose(put["a"], np.exp([2.0 * k, 2.0 * k + 1]))
        np.testing.assert_array_equal(put["b"], 4.0)
        alone = free.of(k).alone()
        assert alone.number_names == ("a[0]", "a[1]", "b") and alone.index is None
    np.testing.assert_allclose(free.gathered(jnp.array([[1.0, 2, 3], [4, 5, 6]])), [1, 2, 4, 5, 4.5])
    assert free.owners == {"a@0[0]": 0, "a@0[1]": 0, "a@1[0]": 1, "a@1[1]": 1, "b": None}
    another = free.another(theta, jnp.full(5, 2.0), [1]).put_back(rest)
    np.testing.assert_allclose(another["a"].value, np.exp([2.0, 3.0]))
    np.testing.assert_array_equal(another["a"].sigma, 2.0)
    np.testing.assert_array_equal(another["b"], 3.0)
    mean = free.another(theta, jnp.full(5, 2.0), [0, 1]).put_back(rest)
    np.testing.assert_allclose(mean["a"].value, np.exp([1.0, 2.0]))
    for ours, given in zip(jax.tree.leaves(free.put_back(rest)), jax.tree.leaves(tree), strict=True):
        np.testing.assert_allclose(ours, given)
    assert free.put_back(rest)["a"].own and free.priors()["a"].own
    assert free.named(theta)["a"].shape == free.priors()["a"].value.shape == (2, 2)


def test_what_is_known_before_may_differ_between_recordings():
    given = Unknown((1.0, 2.0), sigma=[[1.0, 1.0], [1e-3, 2.0]], lower=[[-9.0], [-np.inf]], own=True)
    rest, free = freed({"a": given.by_recording()}, lambda path: path[0].key, 2)
    np.testing.assert_array_equal(rest["a"], [1.0, 2.0])
    np.testing.assert_array_equal(free.sigma, [1.0, 1.0, 1e-3, 2.0])
    np.testing.assert_array_equal(free.lower, [-9.0, -9.0, -np.inf, -np.inf])
    assert free.bounded
    # Another one is as those of which least was known.
    another = free.another(jnp.array([1.0, 2.0, 3.0, 4.0]), free.sigma, [0, 1]).put_back(rest)["a"]
    np.testing.assert_array_equal(another.value, [1.0, 4.0])
    np.testing.assert_array_equal(another.sigma, [1.0, 2.0])


def test_of_a_single_recording_it_changes_nothing():
    ours, shared = (freed({"a": Unknown(1.0, own=own)}, lambda path: path[0].key)[1] for own in (True, False))
    assert ours.names == shared.names == ("a",) and ours.index is None
    assert freed({"a": Unknown(1.0)}, lambda path: path[0].key, 3)[1].index is None


@pytest.mark.parametrize(
    "given, text",
    [
        (
            {"sigma": Unknown(1e-3, own=True)},
            "unknown 'enc.sigma': own: expected False, as recordings share sizes of noise; found True; share it, or "
            "estimate the recordings one by one",
        ),
        (
            {"sigma": 1e-3, "delay": Unknown(0.0, own=True)},
            "unknown 'enc.delay': own: expected a delay that all recordings share, as samples are placed by it; "
            "found True; share it, or estimate the recordings one by one",
        ),
    ],
)
def test_what_recordings_have_to_share_is_refused(true, recordings, given, text):
    with pytest.raises(ArgumentError) as caught:
        fgmbs.prepare_smooth(true, recordings, (Encoder("enc", body="rod", **given),), INPUTS, **START)
    assert str(caught.value) == text
