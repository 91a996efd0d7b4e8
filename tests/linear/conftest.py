"""Random time graphs and their dense rows, assembled without the code under test."""

import jax.numpy as jnp
import numpy as np
import pytest

from fgmbs.linear import LeastSquares


class Systems:
    """Random systems of four unknowns per step, and their dense Jacobian and residual."""

    nx = 4

    def random(self, num_steps, p, seed=0, rows=(5, 3, 2, 4), prior=1.0, coupling=1.0):
        """A system with (initial, step, pair, global) rows; initial and pair rows have the given weights."""
        rng = np.random.default_rng(seed)
        ri, rs, rp, rg = rows
        T, nx = num_steps, self.nx
        shapes = [(ri,), (ri, nx), (ri, p), (T, rs), (T, rs, nx), (T, rs, p)]
        shapes += [(T - 1, rp), (T - 1, rp, nx), (T - 1, rp, nx), (T - 1, rp, p), (rg,), (rg, p)]
        weights = [prior] * 3 + [1.0] * 3 + [coupling] * 4 + [1.0] * 2
        return LeastSquares(*(jnp.asarray(w * rng.standard_normal(s)) for w, s in zip(weights, shapes, strict=True)))

    def damping(self, num_steps, p, seed=1):
        """Diagonals of D."""
        rng = np.random.default_rng(seed)
        return jnp.asarray(rng.uniform(0.1, 1, (num_steps, self.nx))), jnp.asarray(rng.uniform(0.1, 1, p))

    def dense(self, system):
        """(J, r) with columns step 0, step 1, …, globals."""
        s = {name: np.asarray(value) for name, value in vars(system).items()}
        T, _, nx = s["step_jacobian"].shape
        p = s["global_jacobian"].shape[1]
        J, r = [], []

        def add(residual, blocks, arrow):
            rows = np.zeros((len(residual), T * nx + p))
            for k, block in blocks:
                rows[:, k * nx : (k + 1) * nx] = block
            rows[:, T * nx :] = arrow
            J.append(rows)
            r.append(residual)

        add(s["initial_residual"], [(0, s["initial_jacobian"])], s["initial_arrow"])
        for k in range(T):
            add(s["step_residual"][k], [(k, s["step_jacobian"][k])], s["step_arrow"][k])
        for k in range(T - 1):
            add(s["pair_residual"][k], [(k, s["pair_start"][k]), (k + 1, s["pair_end"][k])], s["pair_arrow"][k])
        add(s["global_residual"], [], s["global_jacobian"])
        return np.concatenate(J), np.concatenate(r)

    def flat(self, x):
        """(steps, globals) in one vector."""
        steps, globals_ = x
        return np.concatenate([np.ravel(steps), np.asarray(globals_)])

    def split(self, x, num_steps):
        """(steps, globals) of one vector."""
        size = num_steps * self.nx
        return jnp.asarray(x[:size].reshape(num_steps, self.nx)), jnp.asarray(x[size:])


@pytest.fixture(scope="session")
def systems():
    return Systems()
