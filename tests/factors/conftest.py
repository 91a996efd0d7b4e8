"""The four-bar linkage of [Blanco21] written out by hand, and derivatives by differences."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from fgmbs.factors.base import Instant
from fgmbs.io.planar.load import load

CONFIGS = Path(__file__).parents[2] / "configs" / "mechanisms"


class Fourbar:
    """Equations of the linkage in q = [x1, y1, x2, y2], without any code of the library."""

    lengths = np.array([1.0, 2.0, np.sqrt(13)])
    masses = np.array([1.0, 2.0, 4.0])
    base = np.array([4.0, 0.0])

    def links(self, q):
        """Vectors along crank, coupler and rocker."""
        return np.stack([q[:2], q[2:] - q[:2], q[2:] - self.base])

    def Phi(self, q):
        return np.sum(self.links(q) ** 2, axis=1) - self.lengths**2

    def Phi_q(self, q):
        d1, d2, d3 = 2 * self.links(q)
        zero = np.zeros(2)
        return np.stack([np.r_[d1, zero], np.r_[-d2, d2], np.r_[zero, d3]])

    def c(self, dq):
        return -2 * np.sum(np.stack([dq[:2], dq[2:] - dq[:2], dq[2:]]) ** 2, axis=1)

    def ddq(self, q, dq):
        """Uniform rods: a third of the mass at either end, a sixth between the ends, half of the weight at each."""
        crank, coupler, rocker = self.masses
        M = np.kron([[(crank + coupler) / 3, coupler / 6], [coupler / 6, (coupler + rocker) / 3]], np.eye(2))
        Q = np.array([0, -9.81 * (crank + coupler) / 2, 0, -9.81 * (coupler + rocker) / 2])
        K = np.block([[M, self.Phi_q(q).T], [self.Phi_q(q), np.zeros((3, 3))]])
        return np.linalg.solve(K, np.r_[Q, self.c(dq)])[:4]

    def state(self, seed):
        """Any q near an assembled one, any dq and ddq: residuals are defined off the constraints too."""
        rng = np.random.default_rng(seed)
        q = np.array([1.0, 0.0, 1.0, 2.0]) + 0.1 * rng.standard_normal(4)
        return q, rng.standard_normal(4), rng.standard_normal(4)


@pytest.fixture(scope="session")
def by_hand() -> Fourbar:
    return Fourbar()


@pytest.fixture(scope="session")
def fourbar():
    return load(CONFIGS / "fourbar.yaml").evaluated()


@pytest.fixture(scope="session")
def driven_crank():
    return load(CONFIGS / "driven_crank.yaml").evaluated()


@pytest.fixture(scope="session")
def instant():
    """instant(mechanism, series, t): what a residual knows, at dt = 0.05 s."""

    def make(mechanism, series=None, t=0.3, data=None):
        return Instant(mechanism, jnp.asarray(t), jnp.asarray(0.05), jnp.zeros(0), {}, series, data)

    return make


@pytest.fixture(scope="session")
def assert_derivatives():
    """Forward and reverse derivatives by every variable equal central differences."""

    def check(residual, at, *variables, tol=1e-7):
        flat, unravel = ravel_pytree(tuple(jnp.asarray(v) for v in variables))
        h = 1e-5 * jnp.eye(flat.size)

        @jax.jit
        def evaluate(flat):
            function = lambda x: residual(at, *unravel(x))
            differences = jax.lax.map(lambda d: (function(flat + d) - function(flat - d)) / 2e-5, h)
            return differences.T, jax.jacfwd(function)(flat), jax.jacrev(function)(flat)

        differences, forward, reverse = evaluate(flat)
        scale = max(1.0, float(jnp.max(jnp.abs(differences))))
        np.testing.assert_allclose(forward, differences, atol=tol * scale)
        np.testing.assert_allclose(forward, reverse, atol=1e-11 * scale)
        assert np.any(forward)

    return check
