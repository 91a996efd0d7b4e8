"""Many mechanisms at once: `jax.vmap` over their parameters and through `simulate`."""

import jax
import numpy as np
import pytest

from fgmbs.errors import SolveError
from fgmbs.problems.simulation.simulate import simulate
from fgmbs.status import Status

STEPS, DT = 160, 2e-3
BAD = 5
"""The member that cannot be assembled: a coupler of 10 m is longer than all others together."""


def population(count):
    rng = np.random.default_rng(11)
    return {
        "L_crank": 1.0 + 0.1 * rng.uniform(-1, 1, count),
        "L_rocker": 3.6 + 0.1 * rng.uniform(-1, 1, count),
        "crank.mass": 1.0 + 0.5 * rng.uniform(-1, 1, count),
        "rocker.mass": 4.0 + 1.0 * rng.uniform(-1, 1, count),
    }


def motion(mechanism):
    return simulate(mechanism, STEPS * DT, DT)


simulate_all = jax.jit(jax.vmap(motion))


@pytest.fixture(scope="module")
def members(loop):
    """Sixteen four-bars, one after the other along the leading axis of every array."""
    return jax.vmap(loop.with_parameters)(population(16))


@pytest.fixture(scope="module")
def batch(members):
    return simulate_all(members)


@pytest.mark.slow
def test_batch_equals_loop(members, batch, loop):
    assert batch.q.shape == (16, STEPS + 1, 4)
    for i in (0, 7, 15):
        alone = motion(jax.tree.map(lambda leaf, i=i: leaf[i], members))
        np.testing.assert_allclose(batch.q[i], alone.q, atol=1e-10)
        np.testing.assert_allclose(batch.dq[i], alone.dq, atol=1e-9)
        np.testing.assert_allclose(batch.multipliers[i], alone.multipliers, rtol=1e-7)


def test_good_batch_passes_its_check(batch):
    assert (batch.status == Status.converged).shape == (16,)
    batch.check()


def test_bad_member_spoils_no_other(loop, batch):
    values = population(16)
    values["L_coupler"] = np.full(16, 2.0)
    values["L_coupler"][BAD] = 10.0
    result = simulate_all(jax.vmap(loop.with_parameters)(values))
    others = np.arange(16) != BAD
    np.testing.assert_allclose(result.q[others], batch.q[others], atol=1e-12)
    np.testing.assert_allclose(result.dq[others], batch.dq[others], atol=1e-12)
    np.testing.assert_array_equal(np.asarray(result.status == Status.converged), others)
    text = rf"^member {BAD}: cannot be assembled: the constraints stay open by [\d.]+ at t = 0$"
    with pytest.raises(SolveError, match=text) as caught:
        result.check()
    assert caught.value.result is result


@pytest.mark.slow
def test_hundreds_of_members(loop):
    result = simulate_all(jax.vmap(loop.with_parameters)(population(256)))
    result.check()
    assert np.max(result.constraint_norm) <= 1e-6
