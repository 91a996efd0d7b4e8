"""Unknown numbers of a mechanism and of its sensors: found from noise-free readings, with the covariance they have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fgmbs
from fgmbs import Unknown
from fgmbs.graph.time_graph import Unknowns
from fgmbs.inputs import Disturbance
from fgmbs.io.planar.load import parse_mechanism
from fgmbs.mechanisms.planar.mechanism import PlanarMechanism
from fgmbs.problems.estimation.arguments import nominal_delays
from fgmbs.problems.smooth.beginning import modelled
from fgmbs.sensors import Accelerometer, Encoder, Gyroscope
from fgmbs.status import Status

pytestmark = pytest.mark.slow

FOURBAR = """
name: sprung
parameters: {L_crank: 1.0, k: 60.0, c: 4.0, I_rocker: 18.0}
points:
  - {name: A, x: 0, y: 0, fixed: true}
  - {name: P1, x: L_crank, y: 0}
  - {name: P2, x: x_P1, y: 2}
  - {name: B, x: 4, y: 0, fixed: true}
planar_bodies:
  - {name: crank, points: [A, P1], length: L_crank, mass: 1, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: coupler, points: [P1, P2], length: 2, mass: 2, I0: mass*length^2/3, cog: [length/2, 0]}
  - {name: rocker, points: [P2, B], length: auto, mass: 4, I0: I_rocker, cog: [length/2, 0]}
springs:
  - {name: spring, points: [P1, B], stiffness: k, free_length: 2.5}
dampers:
  - {name: damper, points: [A, P2], damping: c}
"""
DT, POWER = 0.01, 1e-4
GUESS = {
    "L_crank": Unknown(1.05, log=True),
    "coupler.mass": Unknown(2.3, log=True),
    "I_rocker": Unknown(16.0, log=True),
    "k": Unknown(70.0, log=True),
    "c": Unknown(3.0),
    "B.y": Unknown(0.05),
}
SENSORS = (
    Encoder("enc", body="crank", sigma=1e-3),
    Gyroscope("gyro", body="coupler", sigma=1e-2, bias=Unknown(sigma=1.0)),
    Accelerometer("acc", body="rocker", at=(0.5, 0.1), sigma=1e-2),
)
TRUE_BIAS, LEAST = 0.2, 2e-3


@pytest.fixture(scope="module")
def true():
    return PlanarMechanism.from_description(parse_mechanism(FOURBAR))


@pytest.fixture(scope="module")
def recording(true):
    motion = fgmbs.simulate(true, 1.5, DT)
    return fgmbs.readings(true, motion, SENSORS, calibration={"gyro": {"bias": TRUE_BIAS}})


@pytest.fixture(scope="module")
def arguments(true, recording):
    """The place of a sensor is unknown, too, and the noise of another, of which there is none: its least size."""
    noise = Unknown(1e-2, lower=LEAST)
    sensors = (
        SENSORS[0],
        Gyroscope("gyro", body="coupler", sigma=noise, bias=Unknown(sigma=1.0)),
        Accelerometer("acc", body="rocker", at=Unknown((0.45, 0.15)), sigma=1e-2),
    )
    return true.with_parameters(GUESS), recording, sensors, (Disturbance(POWER),)


@pytest.fixture(scope="module")
def estimate(arguments):
    return fgmbs.smooth(*arguments)


def test_all_are_found_together(true, estimate):
    assert estimate.status == Status.converged
    truth = {name: true.parameters[name] for name in GUESS} | {"gyro.bias": TRUE_BIAS, "acc.at": np.array([0.5, 0.1])}
    assert estimate.unknowns.keys() == truth.keys() | {"gyro.sigma"}
    assert float(estimate.unknowns["gyro.sigma"]) == float(estimate.sensors[1].sigma) == pytest.approx(LEAST, rel=1e-14)
    for name, value in truth.items():
        np.testing.assert_allclose(np.squeeze(estimate.unknowns[name]), value, rtol=1e-6, atol=1e-6, err_msg=name)
        assert np.all(estimate.unknowns_std[name] > 0)
    parameters = estimate.mechanism.parameters
    assert all(parameters[name] == estimate.unknowns[name] for name in GUESS)


def test_constraints_hold_exactly(estimate):
    closed = jax.vmap(lambda q: estimate.mechanism.constraints(q, 0.0))(estimate.q)
    np.testing.assert_allclose(closed, 0, atol=1e-13)


def test_standard_deviations_are_those_of_the_dense_system(arguments, estimate):
    """Rows by differentiation of all residuals along the solver's own moves, lengths and anchors included."""
    problem = fgmbs.prepare_smooth(*arguments)
    delays = nominal_delays(problem.sensors)
    _, data = modelled(problem, delays, jnp.zeros(8))
    model = problem.model(jnp.log(jnp.ravel(estimate.unknowns["gyro.sigma"])), delays)
    T, total = len(estimate.t), data.times.shape[0]
    steps = jnp.concatenate([estimate.q, estimate.dq], axis=1)
    steps = jnp.concatenate([steps, jnp.broadcast_to(steps[-1], (total - T, steps.shape[1]))])
    free = model.free
    theta = free.theta(jnp.concatenate([jnp.ravel(estimate.unknowns[name]) for name in free.names]))
    x = Unknowns(steps, theta)
    # Padding that nothing holds is held by the same priors as in the solve.
    weights = data.prior_weights.at[T:].set(1.0)
    graph = model.graph(x, data._replace(prior=steps, prior_weights=weights))
    zero = graph.zeros(x)
    size = zero.steps.size

    @jax.jit
    def rows(delta):
        moved = graph.moved(x, Unknowns(delta[:size].reshape(zero.steps.shape), delta[size:]))
        return jnp.concatenate([r.ravel() for r in graph.residuals(moved)])

    J = np.asarray(jax.jit(jax.jacfwd(rows))(jnp.zeros(size + theta.size)))
    cov = np.linalg.inv(J.T @ J)[size:, size:]
    std = free.named(free.deviations(theta, jnp.sqrt(jnp.diag(jnp.asarray(cov)))))
    for name in free.names:
        np.testing.assert_allclose(estimate.unknowns_std[name], std[name], rtol=1e-3, err_msg=name)
