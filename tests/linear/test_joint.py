"""Recordings that share the globals: what every method must answer, against dense algebra of all rows together."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from all_methods import ALL, answers

from fgmbs.linear import METHODS, LeastSquares, unfollowed
from fgmbs.linear.leverage import leverages

CASES = {"some": (3, 5, 3), "one": (1, 4, 2), "one step": (4, 1, 3), "nothing shared": (3, 4, 0)}
"""(recordings, steps, p)."""


class Joint:
    """Random systems of recordings, and their dense rows, of which those on the globals alone are there once."""

    def __init__(self, systems):
        self.one, self.nx = systems, systems.nx

    def random(self, recordings, num_steps, p, seed=0, blind=False, **options):
        """With `blind`, recording k says nothing of the globals but of their entry k, rows on them alone are 0."""
        parts = [self.one.random(num_steps, p, seed + 10 * k, **options) for k in range(recordings)]
        leaves = {name: np.stack([getattr(part, name) for part in parts]) for name in vars(parts[0])}
        if blind:
            seen = np.eye(recordings, p)[:, None, :]
            leaves["initial_arrow"] = leaves["initial_arrow"] * seen
            leaves["step_arrow"], leaves["pair_arrow"] = (
                leaves[name] * seen[:, None] for name in ("step_arrow", "pair_arrow")
            )
        for name in ("global_residual", "global_jacobian"):
            leaves[name] = (0 if blind else 1) * leaves[name][0]
        return LeastSquares(**{name: jnp.asarray(leaf) for name, leaf in leaves.items()})

    def damping(self, recordings, num_steps, p, seed=1):
        """Diagonals of D."""
        rng = np.random.default_rng(seed)
        return jnp.asarray(rng.uniform(0.1, 1, (recordings, num_steps, self.nx))), jnp.asarray(rng.uniform(0.1, 1, p))

    def dense(self, system):
        """(J, r) with columns recording 0, recording 1, …, globals."""
        recordings, T, _, nx = system.step_jacobian.shape
        p, size = system.global_jacobian.shape[1], T * nx
        all_rows = {name: np.asarray(value) for name, value in vars(system).items()}
        J, r = [], []
        for k in range(recordings):
            part = {name: value[k] for name, value in all_rows.items() if not name.startswith("global")}
            part |= {"global_residual": np.zeros(0), "global_jacobian": np.zeros((0, p))}
            own, residual = self.one.dense(SimpleNamespace(**part))
            rows = np.zeros((len(own), recordings * size + p))
            rows[:, k * size : (k + 1) * size], rows[:, recordings * size :] = own[:, :size], own[:, size:]
            J.append(rows)
            r.append(residual)
        alone = all_rows["global_jacobian"]
        J.append(np.concatenate([np.zeros((len(alone), recordings * size)), alone], axis=1))
        return np.concatenate(J), np.concatenate([*r, all_rows["global_residual"]])

    def flat(self, x):
        """(steps, globals) in one vector."""
        return np.concatenate([np.ravel(x[0]), np.asarray(x[1])])

    def split(self, x, shape):
        """(steps, globals) of one vector."""
        size = int(np.prod(shape)) * self.nx
        return jnp.asarray(x[:size].reshape(*shape, self.nx)), jnp.asarray(x[size:])


def unmoved(damping):
    """Zeros of this shape."""
    return jax.tree.map(lambda leaf: jnp.asarray(np.zeros(leaf.shape)), damping)


@pytest.fixture(scope="module")
def joint(systems):
    return Joint(systems)


def assert_answers_are_dense(joint, method, system, damping):
    recordings, T, _, nx = system.step_jacobian.shape
    J, r = joint.dense(system)
    A = J.T @ J + np.diag(joint.flat(damping))
    b = np.random.default_rng(2).standard_normal(len(A))
    result = jax.tree.map(np.asarray, answers(method)(system, damping, joint.split(b, (recordings, T))))

    close = dict(rtol=1e-9, atol=1e-11)
    assert result["finite"]
    np.testing.assert_allclose(joint.flat(result["solution"]), np.linalg.solve(A, b), **close)
    minimizer = np.linalg.solve(A, -J.T @ r) if method != "matrix" else np.zeros(len(A))
    np.testing.assert_allclose(joint.flat(result["minimizer"]), minimizer, **close)
    np.testing.assert_allclose(result["log_determinant"], np.linalg.slogdet(A)[1], rtol=1e-11)

    cov, size = np.linalg.inv(A), recordings * T * nx
    marginals, wide = result["marginals"], result["wide"]
    np.testing.assert_allclose(marginals.globals, cov[size:, size:], **close)
    for i in range(recordings):
        for k in range(T):
            start = (i * T + k) * nx
            here, after = slice(start, start + nx), slice(start + nx, start + 2 * nx)
            np.testing.assert_allclose(marginals.steps[i, k], cov[here, here], **close)
            np.testing.assert_allclose(marginals.cross[i, k], cov[size:, here], **close)
            both = [*range(start, start + nx), *range(size, len(cov))]
            np.testing.assert_allclose(wide[i, k], cov[np.ix_(both, both)], **close)
            if k + 1 < T:
                np.testing.assert_allclose(marginals.pairs[i, k], cov[after, here], **close)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ALL)
def test_answers_are_those_of_the_dense_system(joint, method, case):
    assert_answers_are_dense(joint, method, joint.random(*CASES[case]), joint.damping(*CASES[case]))


@pytest.mark.parametrize("method", ALL)
def test_globals_that_no_recording_determines_alone_are_determined_together(joint, method):
    shape = CASES["some"]
    system = joint.random(*shape, blind=True)
    still = unmoved(joint.damping(*shape))
    J, _ = joint.dense(system)
    of_first = np.any(J[:, : shape[1] * joint.nx] != 0, axis=1)
    assert np.linalg.matrix_rank(J[of_first][:, -3:]) == 1 and np.linalg.matrix_rank(J) == J.shape[1]
    assert_answers_are_dense(joint, method, system, still)


@pytest.mark.parametrize("case", CASES)
def test_containers_are_their_dense_rows(joint, case):
    recordings, T, p = CASES[case]
    system, damping = joint.random(*CASES[case]), joint.damping(*CASES[case])
    J, r = joint.dense(system)
    x = np.random.default_rng(1).standard_normal(J.shape[1])
    parts = joint.split(x, (recordings, T))
    held = np.arange(p) == 0

    @jax.jit
    def contained(system, damping, parts, held):
        damped = system.information().add_diagonal(*damping)
        return {
            "cost": system.cost(),
            "gradient": system.gradient(),
            "diagonal": system.diagonal(),
            "moved": system.moved(*parts),
            "information": system.information().to_dense(),
            "product": damped.matvec(*parts),
            "without": damped.without(held).to_dense(),
        }

    found = contained(system, damping, parts, jnp.asarray(held))
    close = dict(rtol=1e-12, atol=1e-12)
    assert (system.num_steps, system.step_size, system.num_globals) == (T, joint.nx, p)
    assert system.num_residuals == len(r)
    np.testing.assert_allclose(found["cost"], 0.5 * r @ r, rtol=1e-13)
    np.testing.assert_allclose(joint.flat(found["gradient"]), J.T @ r, **close)
    np.testing.assert_allclose(joint.flat(found["diagonal"]), np.sum(J**2, axis=0), **close)
    np.testing.assert_allclose(joint.dense(found["moved"])[1], J @ x + r, **close)
    np.testing.assert_allclose(found["information"], J.T @ J, **close)
    A = J.T @ J + np.diag(joint.flat(damping))
    np.testing.assert_allclose(joint.flat(found["product"]), A @ x, **close)
    A = A * ~np.append(np.zeros(len(A) - p, bool), held) * ~np.append(np.zeros(len(A) - p, bool), held)[:, None]
    A += np.diag(np.append(np.zeros(len(A) - p), held))
    np.testing.assert_allclose(found["without"], A, **close)


@pytest.mark.parametrize("method", METHODS)
def test_bounds_on_globals_are_those_of_the_dense_system(joint, method):
    shape = (3, 5, 3)
    system, damping = joint.random(*shape), joint.damping(*shape)
    J, r = joint.dense(system)
    rows = np.concatenate([J, np.diag(np.sqrt(joint.flat(damping)))])
    right = np.concatenate([-r, np.zeros(J.shape[1])])
    free = np.linalg.lstsq(rows, right)[0]
    lower, upper = np.full(free.size, -np.inf), np.full(free.size, np.inf)
    # One bound that is met, one that is not, and no bound.
    lower[-3:-1], upper[-3:-1] = np.sort([[0.5 * free[-3], 0.0], [2 * free[-2], -np.sign(free[-2])]]).T
    reference = scipy.optimize.lsq_linear(rows, right, (lower, upper), method="bvls", tol=1e-15).x
    within = jax.jit(lambda *bounds: METHODS[method](system, *damping).minimizer_within(*bounds))
    found = within(jnp.asarray(lower[-3:]), jnp.asarray(upper[-3:]))
    np.testing.assert_allclose(joint.flat(found), reference, atol=1e-9)
    np.testing.assert_array_equal((reference == lower) | (reference == upper), np.arange(free.size) == free.size - 3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sqrt", "sequential", "matrix"])
def test_derivatives_of_the_answers_equal_differences_of_dense_ones(joint, method):
    """Forward, reverse, and forward over forward."""
    shape = (2, 4, 2)
    arguments = joint.random(*shape), joint.damping(*shape), joint.damping(*shape, seed=5)
    directions = joint.random(*shape, seed=100), joint.damping(*shape, seed=2), joint.damping(*shape, seed=6)

    def structured(system, damping, b):
        factorization = ALL[method](system, *damping)
        answers = factorization.solve(*b), factorization.minimizer(), factorization.log_determinant()
        return *answers, factorization.marginals().steps

    def dense(system, damping, b):
        A = system.information().to_dense() + jnp.diag(jnp.concatenate([damping[0].ravel(), damping[1]]))
        flatten = lambda x: jnp.concatenate([x[0].ravel(), x[1]])
        cov, size, k = jnp.linalg.inv(A), b[0].size, jnp.arange(8)
        gradient = flatten(system.gradient()) if method != "matrix" else jnp.zeros(len(A))
        blocks = cov[:size, :size].reshape(8, joint.nx, 8, joint.nx)[k, :, k]
        return cov @ flatten(b), -cov @ gradient, jnp.linalg.slogdet(A)[1], blocks

    def scalar(function, e):
        moved = jax.tree.map(lambda x, t_x: x + e * t_x, arguments, directions)
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(function(*moved)))

    def forward(e):
        return jax.jvp(lambda e: scalar(structured, e), (e,), (1.0,))[1]

    slopes = jax.jit(lambda e: (*jax.jvp(forward, (e,), (1.0,)), jax.grad(lambda e: scalar(structured, e))(e)))
    first, second, reverse = slopes(0.0)
    h = 1e-3
    value = jax.jit(lambda e: scalar(dense, e))
    f = [float(value(k * h)) for k in (-3, -2, -1, 0, 1, 2, 3)]
    difference = (45 * (f[4] - f[2]) - 9 * (f[5] - f[1]) + f[6] - f[0]) / (60 * h)
    bend = (270 * (f[4] + f[2]) - 27 * (f[5] + f[1]) + 2 * (f[6] + f[0]) - 490 * f[3]) / (180 * h**2)
    np.testing.assert_allclose([first, reverse], difference, rtol=1e-8)
    np.testing.assert_allclose(reverse, first, rtol=1e-11)
    np.testing.assert_allclose(second, bend, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_where_no_recording_determines_the_globals(joint, method):
    """Nothing is divided by the share of one recording, in derivatives neither."""
    shape = (3, 4, 3)
    system = joint.random(*shape, blind=True)
    still = unmoved(joint.damping(*shape))

    @jax.jit
    @jax.grad
    def slope(residual):
        moved = eqx.tree_at(lambda system: system.step_residual, system, residual)
        return jnp.sum(METHODS[method](moved, *still).minimizer()[1] ** 2)

    J, r = joint.dense(system)
    inverse = -np.linalg.pinv(J)[-3:]
    parts = (jnp.asarray(np.full(part.shape, float(k == 1))) for k, part in enumerate(system._residuals()))
    marked = joint.dense(eqx.tree_at(LeastSquares._residuals, system, tuple(parts)))[1]
    expected = (2 * (inverse @ r) @ inverse)[marked == 1]
    np.testing.assert_allclose(np.ravel(slope(system.step_residual)), expected, rtol=1e-9, atol=1e-11)


def test_leverages_are_the_diagonal_of_the_hat_matrix(joint):
    shape = (3, 4, 2)
    system, damping = joint.random(*shape), joint.damping(*shape)
    J, _ = joint.dense(system)
    A = J.T @ J + np.diag(joint.flat(damping))
    hat = np.einsum("ri,ij,rj->r", J, np.linalg.inv(A), J)
    found = jax.jit(lambda system, d: leverages(system, METHODS["sqrt"](system, *d).marginals()))(system, damping)
    shares = [np.concatenate([np.ravel(part[k]) for part in found[:3]]) for k in range(3)]
    np.testing.assert_allclose(np.concatenate([*shares, found.globals]), hat, rtol=1e-9)


def test_program_does_not_grow_with_recordings_or_steps(joint):
    def size(method, *shape):
        arguments = joint.random(*shape), *joint.damping(*shape)
        return len(str(jax.make_jaxpr(lambda *a: METHODS[method](*a).minimizer())(*arguments)).splitlines())

    for method in ("sequential", "sqrt"):
        assert size(method, 3, 20, 2) == size(method, 6, 60, 2)


@pytest.mark.parametrize("p", [0, 3])
def test_what_no_recording_can_follow_is_that_of_dense_rows(joint, p):
    count = 20
    system = joint.random(3, 5, p + count)
    J, r = joint.dense(system)
    left = J[:, -count:] - J[:, :-count] @ np.linalg.lstsq(J[:, :-count], J[:, -count:], rcond=None)[0]
    squares, products = jax.jit(unfollowed, static_argnums=1)(system, count)
    np.testing.assert_allclose(squares, np.sum(left**2, axis=0), rtol=1e-11)
    np.testing.assert_allclose(products, left.T @ r, rtol=1e-10, atol=1e-11)
